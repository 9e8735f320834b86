//! Anthropic messages: request, typed events, `message_stop`.
//!
//! Strict about what the protocol requires and blind to everything it does not name.

use super::{Frame, Prompt, Signal, Unreadable};

/// The stream's life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Life;

/// Path of the request, under a base URL without a version.
pub(super) fn path() -> String {
    "/v1/messages".to_owned()
}

/// Whether data is the event that ends the stream.
pub(super) fn is_end_mark(_data: &str) -> bool {
    false
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
pub(super) fn body(_prompt: &Prompt) -> Vec<u8> {
    Vec::new()
}

impl Life {
    /// Reads one event.
    pub(super) fn frame(
        &mut self,
        _frame: Frame<'_>,
        _sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        Err(Unreadable::Shape("not read yet"))
    }

    /// The body has ended.
    pub(super) fn end(&mut self, _sink: &mut dyn FnMut(Signal<'_>)) {}
}

/// Reads a whole answer that was not streamed.
pub(super) fn answer(_body: &str, _sink: &mut dyn FnMut(Signal<'_>)) -> Result<(), Unreadable> {
    Err(Unreadable::Shape("not read yet"))
}
