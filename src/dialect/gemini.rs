//! Gemini `generateContent`: request, chunks, the finish reason that ends them.
//!
//! Strict about what the protocol requires and blind to everything it does not name.

use super::{Frame, Prompt, Signal, Unreadable};

/// The stream's life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Life;

/// Path of the request and, for a stream, its query; under a base URL without a version.
pub(super) fn target(model: &str, stream: bool) -> (String, Option<&'static str>) {
    // A tuned model or a model of a project is named with its collection.
    let model = if model.contains('/') {
        model.to_owned()
    } else {
        format!("models/{model}")
    };
    if stream {
        (
            format!("/v1beta/{model}:streamGenerateContent"),
            Some("alt=sse"),
        )
    } else {
        (format!("/v1beta/{model}:generateContent"), None)
    }
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
