//! Body bytes to an answer: decodes events, has the dialect read them, notices what is wrong.
//!
//! Knows no connection and no limits. What stands outside of any event is gathered, because a body
//! that is no stream at all (a JSON error, a page) consists of nothing else.

use std::time::Duration;

use serde::de::IgnoredAny;

use super::answer::Answer;
use super::notes::{Notes, Spot};
use super::outside::Outside;
use super::sse::{self, Decoder, Item};
use super::wording;
use crate::dialect::{Frame, Reader, Unreadable};
use crate::expect::Detect;
use crate::observation::{Class, Counts, Phase, Warning};

/// Most events over which one JSON text is put together again.
const MAX_PARTS: u32 = 16;

/// A body being read.
#[derive(Debug)]
pub(super) struct Reading {
    decoder: Decoder,
    pub(super) heard: Heard,
}

impl Reading {
    pub(super) fn new(reader: Reader, asked_model: &str, detect: &Detect) -> Self {
        Self {
            decoder: Decoder::new(),
            heard: Heard {
                reader,
                answer: Answer::new(asked_model, detect),
                notes: Notes::new(),
                counts: Counts::default(),
                outside: Outside::default(),
                broken: None,
                unreadable: 0,
                empty: 0,
            },
        }
    }

    /// Takes the next bytes of the body.
    pub(super) fn feed(&mut self, at: Duration, chunk: &[u8]) {
        let heard = &mut self.heard;
        heard.counts.reads += 1;
        heard.counts.body_bytes += chunk.len() as u64;
        self.decoder.feed(chunk, |item| heard.item(at, item));
    }

    /// Ends the body: what has no blank line is no event.
    ///
    /// The one exception is an end mark whose bytes are all there.
    pub(super) fn end(&mut self, at: Duration) {
        let heard = &mut self.heard;
        if let Some(rest) = self.decoder.finish() {
            let spot = heard.spot(at, Some(rest.offset));
            let marked = heard.answer.moments.end_mark.is_some();
            let mark = rest.data.filter(|data| heard.reader.is_end_mark(data));
            if let Some(data) = mark.filter(|_| !marked) {
                heard.flush_broken();
                let frame = Frame {
                    name: rest.name,
                    data,
                };
                if let Err(fault) = heard.read(spot, frame) {
                    heard.unreadable(spot, frame, fault);
                }
                heard.notes.warn(Warning::UnfinishedLastEvent);
            } else if heard.answer.refused {
                let line = String::from_utf8_lossy(rest.line);
                heard.outside.line(spot, rest.data.unwrap_or(&line));
            } else if is_field(rest.line) || rest.line.is_empty() {
                heard.notes.warn(Warning::UnfinishedLastEvent);
            } else {
                let line = String::from_utf8_lossy(rest.line);
                heard.outside.line(spot, &line);
            }
        }
        heard.flush_broken();
        heard.end(at);
    }
}

/// Whether a line without its end is, or could become, a field of an event.
fn is_field(line: &[u8]) -> bool {
    [&b"data"[..], b"event", b"id", b"retry", b":"]
        .iter()
        .any(|name| line.starts_with(name) || name.starts_with(line))
}

/// Data that is no JSON by itself, held back in case that the next events complete it.
#[derive(Debug)]
struct Broken {
    data: String,
    spot: Spot,
    parts: u32,
}

/// Everything that the body said.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) reader: Reader,
    pub(super) answer: Answer,
    pub(super) notes: Notes,
    pub(super) counts: Counts,
    pub(super) outside: Outside,
    broken: Option<Broken>,
    /// Events whose data could not be read.
    pub(super) unreadable: u64,
    /// Events without data.
    pub(super) empty: u64,
}

impl Heard {
    pub(super) fn spot(&self, at: Duration, offset: Option<u64>) -> Spot {
        Spot {
            at,
            phase: self.answer.phase(),
            offset,
            event: None,
        }
    }

    fn item(&mut self, at: Duration, item: Item<'_>) {
        if self.answer.refused {
            self.refusal(at, item);
            return;
        }
        match item {
            Item::Event(event) => self.event(at, event),
            Item::Comment { .. } => {
                self.counts.comments += 1;
                self.counts.idle_comments += 1;
            }
            Item::Retry { .. } => {}
            Item::Unknown { offset, line } => {
                let spot = self.spot(at, Some(offset));
                self.notes.warn(Warning::UnknownField);
                self.outside.line(spot, line);
                if line.starts_with("error:") {
                    self.answer.note_error(None, Some(line));
                    self.notes
                        .fault(Class::ErrorInStream, spot, "an error field");
                }
            }
            Item::InvalidUtf8 { offset } => {
                let spot = self.spot(at, Some(offset));
                self.notes
                    .fault(Class::InvalidUtf8, spot, "bytes that are no UTF-8");
            }
            Item::TooLarge { offset } => {
                let spot = self.spot(at, Some(offset));
                self.unreadable += 1;
                self.answer.close_text();
                self.notes
                    .fault(Class::SchemaViolation, spot, "an event of more than 1 MiB");
            }
        }
    }

    /// Takes an item of an error's body, which is read for what the error is about and no more.
    fn refusal(&mut self, at: Duration, item: Item<'_>) {
        match item {
            Item::Event(event) => {
                let spot = self.spot(at, Some(event.offset));
                let frame = Frame {
                    name: event.name,
                    data: event.data,
                };
                if self.read(spot, frame).is_err() {
                    self.outside.line(spot, event.data);
                }
            }
            Item::Unknown { offset, line } => {
                let spot = self.spot(at, Some(offset));
                self.outside.line(spot, line);
            }
            Item::Comment { .. }
            | Item::Retry { .. }
            | Item::InvalidUtf8 { .. }
            | Item::TooLarge { .. } => {}
        }
    }

    fn event(&mut self, at: Duration, event: sse::Event<'_>) {
        let spot = Spot {
            event: Some(self.counts.events),
            ..self.spot(at, Some(event.offset))
        };
        self.counts.events += 1;
        let frame = Frame {
            name: event.name,
            data: event.data,
        };
        if self.answer.moments.end_mark.is_some() && !self.reader.goes_on_after_end() {
            self.after_end(spot, frame);
            return;
        }
        self.answer.moments.first_event.get_or_insert(at);
        if event.data.trim_ascii().is_empty() {
            self.empty += 1;
        }
        if self.broken.is_some() {
            self.mend(spot, frame);
        } else if let Err(fault) = self.read(spot, frame) {
            self.unreadable(spot, frame, fault);
        }
    }

    fn read(&mut self, spot: Spot, frame: Frame<'_>) -> Result<(), Unreadable> {
        let (answer, notes) = (&mut self.answer, &mut self.notes);
        self.reader
            .frame(frame, &mut |signal| answer.signal(spot, signal, notes))?;
        if answer.end_frame(spot.at) {
            self.counts.idle_comments = 0;
        }
        if self.reader.is_open() {
            answer.moments.end_mark = None;
        }
        Ok(())
    }

    /// Takes what the protocol makes of the body's end.
    fn end(&mut self, at: Duration) {
        let spot = self.spot(at, None);
        let (answer, notes) = (&mut self.answer, &mut self.notes);
        self.reader
            .end(&mut |signal| answer.signal(spot, signal, notes));
    }

    fn unreadable(&mut self, spot: Spot, frame: Frame<'_>, fault: Unreadable) {
        match fault {
            Unreadable::Shape(detail) => {
                self.unreadable += 1;
                self.notes.fault(Class::SchemaViolation, spot, detail);
            }
            Unreadable::NotJson if wording::is_page(frame.data) => {
                self.say_error(spot, frame.data, "a page as data");
            }
            Unreadable::NotJson if wording::is_error_line(frame.data) => {
                self.say_error(spot, frame.data, "an error text as data");
            }
            Unreadable::NotJson => {
                self.broken = Some(Broken {
                    data: frame.data.to_owned(),
                    spot,
                    parts: 1,
                });
            }
        }
    }

    fn say_error(&mut self, spot: Spot, text: &str, detail: &'static str) {
        self.unreadable += 1;
        self.answer.note_error(None, Some(text));
        self.notes.fault(Class::ErrorInStream, spot, detail);
    }

    /// Takes an event while broken data is held: the two may be one JSON text, cut by the relay.
    fn mend(&mut self, spot: Spot, frame: Frame<'_>) {
        let Some(mut broken) = self.broken.take() else {
            return;
        };
        let fits = broken.data.len() + frame.data.len() <= sse::MAX_EVENT_BYTES;
        if fits && broken.parts < MAX_PARTS && !self.reader.is_end_mark(frame.data) {
            let cut = broken.data.len();
            broken.data.push_str(frame.data);
            match serde_json::from_str::<IgnoredAny>(&broken.data) {
                Ok(_) => {
                    self.notes.fault(
                        Class::JsonSplitAcrossEvents,
                        broken.spot,
                        "one JSON text over several events",
                    );
                    let whole = Frame {
                        name: frame.name,
                        data: &broken.data,
                    };
                    if let Err(fault) = self.read(spot, whole) {
                        self.unreadable(spot, whole, fault);
                    }
                    return;
                }
                Err(error)
                    if error.is_eof()
                        && serde_json::from_str::<IgnoredAny>(frame.data).is_err() =>
                {
                    broken.parts += 1;
                    self.broken = Some(broken);
                    return;
                }
                Err(_) => broken.data.truncate(cut),
            }
        }
        self.broken = Some(broken);
        self.flush_broken();
        if let Err(fault) = self.read(spot, frame) {
            self.unreadable(spot, frame, fault);
        }
    }

    /// Gives up on broken data: nothing completed it.
    fn flush_broken(&mut self) {
        if let Some(broken) = self.broken.take() {
            self.unreadable += 1;
            self.answer.close_text();
            let detail = if broken.parts > 1 {
                "data of several events that is no JSON, joined or not"
            } else {
                "data that is no JSON"
            };
            self.notes.fault(Class::MalformedJson, broken.spot, detail);
        }
    }

    /// Takes an event after the end mark: no client reads it, whatever it says.
    fn after_end(&mut self, spot: Spot, frame: Frame<'_>) {
        let spot = Spot {
            phase: Phase::End,
            ..spot
        };
        if self.reader.is_habit(frame.data) {
            self.notes.warn(Warning::DoneAfterCompleted);
            return;
        }
        if frame.data.trim_ascii().is_empty() && frame.name != "error" {
            return;
        }
        let (mut spoke, mut error) = (false, false);
        let (answer, notes) = (&mut self.answer, &mut self.notes);
        let read = self.reader.frame(frame, &mut |signal| {
            spoke = true;
            if let crate::dialect::Signal::Error { .. } = signal {
                error = true;
                answer.signal(spot, signal, notes);
            }
        });
        if read.is_err() {
            notes.parse_ok = false;
        }
        // A heartbeat of the protocol's own says nothing.
        if !spoke && read.is_ok() {
            return;
        }
        let (class, detail) = if !error && self.reader.is_end_mark(frame.data) {
            (Class::DuplicateTerminator, "a second end mark")
        } else {
            (Class::DataAfterDone, "an event after the end mark")
        };
        self.notes.find(class, spot, detail);
    }

    /// Takes a whole body that was not to be streamed.
    pub(super) fn whole(&mut self, spot: Spot, body: &str) -> Result<(), Unreadable> {
        let (answer, notes) = (&mut self.answer, &mut self.notes);
        self.reader
            .answer(body, &mut |signal| answer.signal(spot, signal, notes))
    }
}
