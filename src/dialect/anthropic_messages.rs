//! Anthropic messages: typed events, `message_stop`.
//!
//! Strict about what the protocol requires and blind to everything it does not name. Events have a
//! life cycle here, so a reader remembers which blocks are open; it holds no text.

mod answer;
mod flaws;
mod kept;
mod request;
mod said;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::Value;

use super::error::{said_by, said_in};
use super::member::Text;
use super::twin::Twin;
use super::{Frame, Signal, Unreadable, pruned};
use crate::observation::Warning;

pub(super) use answer::answer;
use flaws::{named_otherwise, reason, start_flaw};
pub(super) use kept::Kept;
pub(super) use request::{body, budget, path};
use said::{error, finish, merged, said, said_in_block, said_in_delta, text, usage};
use wire::{BlockKind, BlockType, Counts, DeltaType, Event, EventType, Kind};

/// Most blocks that may be open, and most tool calls whose indexes are remembered.
const MAX_BLOCKS: usize = 128;

/// Whether data is the event that ends the stream.
pub(super) fn is_end_mark(data: &str) -> bool {
    const LONGEST: usize = 4096;
    data.len() <= LONGEST
        && data.contains("message_stop")
        && serde_json::from_str::<Event<'_>>(data)
            .is_ok_and(|event| event.kind == Some(EventType(Some(Kind::MessageStop))))
}

/// Whether data is chat's end mark, which relays put behind the true one by habit.
///
/// It has no name, so that the official SDKs pass it over.
pub(super) fn is_habit(data: &str) -> bool {
    data.trim_ascii() == "[DONE]"
}

/// The stream's life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// `message_start` came, or its lack was told.
    started: bool,
    /// A stop reason came.
    finished: bool,
    /// That names are missing was told.
    unnamed: bool,
    /// An event could not be read, and may have held whatever seems to be missing since.
    lost: bool,
    /// Blocks that are open, the latest last.
    open: Vec<(u64, BlockKind)>,
    /// Index that the next block should have.
    next: u64,
    /// Indexes of the tool calls.
    calls: Vec<u64>,
    /// Latest value of each token count.
    counts: Counts,
}

/// What is wrong with an event that can be read all the same; the first fault is told.
type Flaw = Option<&'static str>;

impl Life {
    /// Reads one event.
    pub(super) fn frame(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let read = self.any(twin, frame, sink);
        self.lost |= read.is_err();
        read
    }

    fn any(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let named = Kind::named(frame.name);
        if frame.data.trim_ascii().is_empty() {
            return bare(named, frame.name, sink);
        }
        if named == Some(Kind::Error) {
            said(frame.data, sink);
            return Ok(());
        }
        if let Some(event) = twin.find(frame.data) {
            return self.event(frame, named, &event, sink);
        }
        match serde_json::from_str::<Event<'_>>(frame.data) {
            Ok(event) => {
                let read = self.event(frame, named, &event, sink);
                twin.learn(frame.data, &event);
                read
            }
            Err(error) => foreign(frame, &error, sink),
        }
    }

    fn event(
        &mut self,
        frame: Frame<'_>,
        named: Option<Kind>,
        event: &Event<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        let (kind, flaw) = match event.kind {
            Some(EventType(Some(kind))) => (kind, named_otherwise(frame.name, named, kind)),
            None if event.error.is_none() && named.is_some() => {
                (named.unwrap_or(Kind::Ping), Some("an event without a type"))
            }
            Some(EventType(None)) | None => return unknown(frame, named, sink),
        };
        match kind {
            Kind::Ping => return Ok(()),
            Kind::Error => {
                if frame.name == "message" {
                    sink(Signal::Odd(Warning::MissingEventName));
                }
                said(frame.data, sink);
                return Ok(());
            }
            Kind::MessageStart
            | Kind::BlockStart
            | Kind::BlockDelta
            | Kind::BlockStop
            | Kind::MessageDelta
            | Kind::MessageStop => {}
        }
        self.read(kind, event, flaw, sink);
        if frame.name == "message" && !self.unnamed {
            self.unnamed = true;
            sink(Signal::Odd(Warning::MissingEventName));
            sink(Signal::Flaw("events without their names"));
        }
        if let Some(said) = event.error.as_deref().filter(|said| said.real) {
            error(said, sink);
        }
        if kind == Kind::MessageStop {
            sink(Signal::Terminator);
        }
        Ok(())
    }

    /// The body has ended: what is missing by then is told by the end mark that did not come.
    #[expect(clippy::unused_self, reason = "each protocol is asked in the same way")]
    pub(super) fn end(&mut self, _sink: &mut dyn FnMut(Signal<'_>)) {}

    /// Reads an event of the message.
    fn read(
        &mut self,
        kind: Kind,
        event: &Event<'_>,
        flaw: Flaw,
        sink: &mut dyn FnMut(Signal<'_>),
    ) {
        if kind == Kind::MessageStart {
            self.start(event, flaw, sink);
            return;
        }
        // An end mark alone is an empty answer, not half a message.
        if kind == Kind::MessageStop && !self.started {
            return;
        }
        sink(Signal::Meta {
            id: None,
            model: None,
            fingerprint: None,
            role: false,
        });
        let late = self.amiss(!self.started, "an event before message_start");
        self.started = true;
        let own = match kind {
            Kind::BlockStart => self.open_block(event, sink),
            Kind::BlockDelta => self.piece(event, sink),
            Kind::BlockStop => self.close_block(event),
            Kind::MessageDelta => self.delta(event, sink),
            // Without a stop reason the open block is no fault of its own: all of the end is missing.
            Kind::MessageStop => self.amiss(
                self.finished && !self.open.is_empty(),
                "a block that is still open at the end",
            ),
            Kind::MessageStart | Kind::Ping | Kind::Error => None,
        };
        if let Some(flaw) = flaw.or(late).or(own) {
            sink(Signal::Flaw(flaw));
        }
    }

    /// A fault of the order of events, where the whole order was seen.
    fn amiss(&self, wrong: bool, detail: &'static str) -> Flaw {
        (wrong && !self.lost).then_some(detail)
    }

    fn start(&mut self, event: &Event<'_>, flaw: Flaw, sink: &mut dyn FnMut(Signal<'_>)) {
        let message = event.message.as_deref();
        sink(Signal::Meta {
            id: message.and_then(|message| text(message.id.as_ref())),
            model: message.and_then(|message| text(message.model.as_ref())),
            fingerprint: None,
            role: true,
        });
        if self.started {
            sink(Signal::Restart);
        }
        *self = Self {
            started: true,
            unnamed: self.unnamed,
            lost: self.lost,
            counts: message
                .and_then(|message| message.usage.as_deref())
                .copied()
                .unwrap_or_default(),
            ..Self::default()
        };
        let own = match message {
            None => Some("message_start without a message"),
            Some(message) => start_flaw(message),
        };
        if let Some(flaw) = flaw.or(own) {
            sink(Signal::Flaw(flaw));
        }
        if message.is_some_and(|message| message.usage.is_some()) {
            // The count of the output is provisional here.
            let begun = Counts {
                output_tokens: None,
                output_tokens_details: None,
                ..self.counts
            };
            sink(Signal::Usage(usage(&begun)));
        }
    }

    fn open_block(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Flaw {
        let Some(block) = event.content_block.as_deref() else {
            return Some("content_block_start without a block");
        };
        let Some(BlockType(kind)) = block.kind else {
            return Some("a block without a type");
        };
        let index = event.index.unwrap_or(self.next);
        let again = kind == BlockKind::Call && self.calls.contains(&index);
        let place = if event.index.is_none() {
            Some("a block without an index")
        } else if index == self.next || again {
            // Two calls under one index are mixed up, which the pieces of the calls show.
            None
        } else if self.open.iter().any(|(open, _)| *open == index) {
            self.amiss(true, "a block that begins twice")
        } else {
            self.amiss(true, "a block whose index is not its place")
        };
        self.next = self.next.max(index.saturating_add(1));
        self.open.retain(|(open, _)| *open != index);
        let full = self.open.len() >= MAX_BLOCKS;
        if !full {
            self.open.push((index, kind));
        }
        if kind == BlockKind::Call && !again && self.calls.len() < MAX_BLOCKS {
            self.calls.push(index);
        }
        let own = said_in_block(index, kind, block, sink);
        place
            .or(own)
            .or_else(|| full.then_some("more than 128 blocks are open"))
    }

    fn piece(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Flaw {
        let Some(delta) = &event.delta else {
            return Some("content_block_delta without a delta");
        };
        let Some(DeltaType(piece)) = delta.kind else {
            return Some("a delta without a type");
        };
        let index = event.index.unwrap_or_else(|| self.next.saturating_sub(1));
        let open = self.open.iter().rev().find(|(open, _)| *open == index);
        let fits = match open {
            None => self.amiss(true, "a delta of a block that is not open"),
            Some((_, block)) => {
                (!piece.fits(*block)).then_some("a delta that its block cannot take")
            }
        };
        let own = said_in_delta(index, piece, delta, sink);
        let place = event.index.is_none().then_some("a delta without an index");
        place.or(fits).or(own)
    }

    fn close_block(&mut self, event: &Event<'_>) -> Flaw {
        let Some(index) = event.index else {
            self.open.pop();
            return Some("the end of a block without an index");
        };
        match self.open.iter().rposition(|(open, _)| *open == index) {
            Some(at) => {
                self.open.remove(at);
                None
            }
            None => self.amiss(true, "the end of a block that is not open"),
        }
    }

    fn delta(&mut self, event: &Event<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Flaw {
        if let Some(counts) = event.usage.as_deref() {
            self.counts = merged(&self.counts, counts);
            sink(Signal::Usage(usage(&self.counts)));
        }
        let reason = event.delta.as_ref().map(|delta| delta.stop_reason.as_ref());
        if let Some(Some(Text(reason))) = reason {
            self.finished |= !reason.is_empty();
            finish(reason, sink);
        }
        match (reason, event.usage.as_deref()) {
            (None, _) => Some("message_delta without a delta"),
            (Some(_), None) => Some("message_delta without usage"),
            (Some(_), Some(counts)) => counts
                .output_tokens
                .is_none()
                .then_some("usage without output_tokens"),
        }
    }
}

/// Reads an event without data: a heartbeat, or an event that lost all it had to say.
fn bare(
    named: Option<Kind>,
    name: &str,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    match named {
        Some(Kind::Ping) => Ok(()),
        Some(Kind::Error) => {
            sink(Signal::Error {
                code: None,
                message: None,
            });
            Ok(())
        }
        Some(
            Kind::MessageStart
            | Kind::BlockStart
            | Kind::BlockDelta
            | Kind::BlockStop
            | Kind::MessageDelta
            | Kind::MessageStop,
        ) => Err(Unreadable::Shape("an event without its data")),
        None => {
            if name == "message" {
                sink(Signal::Odd(Warning::EmptyEvent));
            }
            Ok(())
        }
    }
}

/// Reads JSON whose type the protocol does not name: an error, an event to come, or a fault.
fn unknown(
    frame: Frame<'_>,
    named: Option<Kind>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    let value = pruned::value(frame.data)?;
    if let Some(said) = said_in(&value) {
        error(&said, sink);
        return Ok(());
    }
    match (named, value.get("type").and_then(Value::as_str)) {
        (Some(Kind::Ping), _) => Ok(()),
        (Some(_), _) => Err(Unreadable::Shape("an event whose name is not its type")),
        (None, Some("message")) => Err(Unreadable::Shape("a whole message in place of events")),
        (None, None) if frame.name == "message" => Err(Unreadable::Shape("no type")),
        (None, _) => {
            sink(Signal::Odd(Warning::UnknownEvent));
            Ok(())
        }
    }
}

/// Data that is no event: broken JSON, an error, an event to come, or a fault.
fn foreign(
    frame: Frame<'_>,
    fault: &serde_json::Error,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    if is_habit(frame.data) {
        return Err(Unreadable::Shape("the end mark of another protocol"));
    }
    let value = pruned::value(frame.data)?;
    let named = Kind::named(frame.name);
    let typed = value.get("type").and_then(Value::as_str);
    let known = typed
        .or_else(|| named.map(|_| frame.name))
        .and_then(Kind::named);
    match known {
        None => unknown(frame, named, sink),
        Some(Kind::Ping) => Ok(()),
        Some(Kind::Error) => {
            error(&said_by(&value), sink);
            Ok(())
        }
        Some(
            Kind::MessageStart
            | Kind::BlockStart
            | Kind::BlockDelta
            | Kind::BlockStop
            | Kind::MessageDelta
            | Kind::MessageStop,
        ) => Err(Unreadable::Shape(reason(&value, fault))),
    }
}
