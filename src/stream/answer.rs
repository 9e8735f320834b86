//! What a stream's signals add up to: one answer, its identity, its end, and what is wrong with it.
//!
//! Knows no bytes, no protocol and no transport. The visible text lives here while the stream runs;
//! it is bounded, and leaves only where the caller asked to keep it.

mod identity;
mod repeat;

use std::time::Duration;

use super::clean;
use super::notes::{Notes, Spot};
use super::pacing::Pacing;
use super::tools::Tools;
use super::wording;
use crate::dialect::{DeltaKind, Signal, Stop};
use crate::expect::{Detect, Shape};
use crate::observation::{Class, ErrorKind, Phase, Usage, Warning};

use identity::Identity;
use repeat::Repeats;

/// Most bytes of visible text that are held for content checks.
const MAX_TEXT_BYTES: usize = 1 << 20;

/// How much of a longer text's end is held besides, for the seal.
const TAIL_BYTES: usize = 512;

/// Most choices whose end is followed.
const MAX_CHOICES: usize = 16;

/// Moments of the answer.
#[derive(Debug, Default)]
pub(super) struct Moments {
    pub(super) first_event: Option<Duration>,
    pub(super) first_token: Option<Duration>,
    pub(super) last_token: Option<Duration>,
    /// Last model output or end of a choice: what the idle limit counts from.
    pub(super) progress: Option<Duration>,
    pub(super) end_mark: Option<Duration>,
}

/// The answer so far.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) moments: Moments,
    pub(super) pacing: Pacing,
    pub(super) tools: Tools,
    pub(super) identity: Identity,
    pub(super) usage: Option<Usage>,
    /// Reason of the first choice that finished, and what it means.
    pub(super) finish: Option<(Stop, String)>,
    /// First error that was said: its code, what it is about, and where.
    pub(super) error: Option<(Option<String>, ErrorKind)>,
    /// Frames that were the protocol's own object.
    pub(super) objects: u64,
    /// The answer stands in a non-2xx body: only what it says of errors counts.
    pub(super) refused: bool,
    pub(super) text: String,
    tail: String,
    text_closed: bool,
    text_overflowed: bool,
    finished: Vec<u64>,
    contents: u64,
    /// Characters of everything but calls of tools.
    said_chars: u64,
    /// Pieces of calls with anything in them.
    call_pieces: u64,
    /// Where the last piece of visible text begins.
    last_piece: usize,
    reasoned: bool,
    refusal: bool,
    other: bool,
    repeats: Repeats,
    frame_chars: u64,
    frame_output: bool,
}

/// How many characters a text has; most pieces are short and ASCII.
fn characters(text: &str) -> u64 {
    let count = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    count as u64
}

impl Answer {
    pub(super) fn new(asked_model: &str, detect: &Detect) -> Self {
        Self {
            moments: Moments::default(),
            pacing: Pacing::new(detect),
            tools: Tools::default(),
            identity: Identity::new(asked_model),
            usage: None,
            finish: None,
            error: None,
            objects: 0,
            refused: false,
            text: String::new(),
            tail: String::new(),
            text_closed: false,
            text_overflowed: false,
            finished: Vec::new(),
            contents: 0,
            said_chars: 0,
            call_pieces: 0,
            last_piece: 0,
            reasoned: false,
            refusal: false,
            other: false,
            repeats: Repeats::default(),
            frame_chars: 0,
            frame_output: false,
        }
    }

    /// Takes one signal of a frame.
    pub(super) fn signal(&mut self, spot: Spot, signal: Signal<'_>, notes: &mut Notes) {
        if self.refused {
            if let Signal::Error { code, message } = signal {
                self.note_error(code, message);
            }
            return;
        }
        match signal {
            Signal::Meta {
                id,
                model,
                fingerprint,
                role,
            } => {
                self.objects += 1;
                let output = self.has_output();
                self.identity
                    .meta(spot, id, model, fingerprint, role, output);
            }
            Signal::Delta { kind, choice, text } => self.delta(spot, kind, choice, text, notes),
            Signal::ToolCall {
                choice,
                index,
                id,
                name,
                arguments,
            } => {
                if let Err(detail) = self.tools.take(choice, index, id, name, arguments) {
                    notes.find(Class::ToolCallCorrupt, spot, detail);
                }
                let text = [name.unwrap_or_default(), arguments];
                if text.iter().any(|text| !text.is_empty()) {
                    self.call_pieces += 1;
                    self.output(spot, choice, &text, notes);
                }
            }
            Signal::Finish {
                choice,
                stop,
                reason,
            } => self.finish(spot, choice, stop, reason, notes),
            Signal::Usage(usage) => self.usage = Some(usage),
            Signal::Error { code, message } => {
                self.note_error(code, message);
                notes.fault(Class::ErrorInStream, spot, "an error object");
            }
            Signal::Flaw(detail) => notes.fault(Class::SchemaViolation, spot, detail),
            Signal::CallFault(detail) => notes.find(Class::ToolCallCorrupt, spot, detail),
            Signal::Odd(warning) => notes.warn(warning),
            Signal::Terminator => self.moments.end_mark = Some(spot.at),
            Signal::Restart => self.identity.restart(spot),
        }
    }

    /// Closes a frame: its output, if it had any, is one content event.
    pub(super) fn end_frame(&mut self, at: Duration) -> bool {
        if !std::mem::take(&mut self.frame_output) {
            return false;
        }
        self.pacing.event(at, std::mem::take(&mut self.frame_chars));
        self.moments.first_token.get_or_insert(at);
        self.moments.last_token = Some(at);
        self.moments.progress = Some(at);
        true
    }

    /// Remembers the first error that was said.
    pub(super) fn note_error(&mut self, code: Option<&str>, message: Option<&str>) {
        if self.error.is_none() {
            let kind = wording::kind(code, None, message);
            self.error = Some((code.and_then(clean::code), kind));
        }
    }

    /// Stops collecting visible text: what follows an unreadable event is not the answer's sequel.
    pub(super) fn close_text(&mut self) {
        self.text_closed = true;
    }

    pub(super) fn has_output(&self) -> bool {
        self.moments.first_token.is_some()
    }

    /// The phase that the stream is in.
    pub(super) fn phase(&self) -> Phase {
        if self.finish.is_some() {
            Phase::End
        } else if self.moments.first_token.is_some() {
            Phase::Stream
        } else if self.moments.first_event.is_some() {
            Phase::FirstToken
        } else {
            Phase::FirstEvent
        }
    }

    fn delta(&mut self, spot: Spot, kind: DeltaKind, choice: u64, text: &str, notes: &mut Notes) {
        if text.is_empty() {
            return;
        }
        if !text.is_ascii() && text.contains('\u{FFFD}') {
            notes.find(Class::ReplacementChars, spot, "U+FFFD in the output");
        }
        match kind {
            DeltaKind::Content if choice == 0 => {
                self.contents += 1;
                self.repeats.piece(text);
                self.keep(text);
            }
            DeltaKind::Content => {}
            DeltaKind::Reasoning => self.reasoned = true,
            DeltaKind::Refusal => self.refusal = true,
            DeltaKind::Other => self.other = true,
        }
        self.said_chars += self.output(spot, choice, &[text], notes);
    }

    /// Takes a piece of output; gives its length in characters.
    fn output(&mut self, spot: Spot, choice: u64, texts: &[&str], notes: &mut Notes) -> u64 {
        if self.finished.contains(&choice) {
            notes.find(
                Class::ContentAfterFinish,
                spot,
                "output of a choice that had finished",
            );
        }
        self.frame_output = true;
        let chars = texts.iter().map(|text| characters(text));
        let chars = chars.sum::<u64>();
        self.frame_chars += chars;
        chars
    }

    fn keep(&mut self, text: &str) {
        if self.text_closed {
            return;
        }
        if !self.text_overflowed && self.text.len() + text.len() <= MAX_TEXT_BYTES {
            self.last_piece = self.text.len();
            self.text.push_str(text);
            return;
        }
        self.text_overflowed = true;
        self.tail.push_str(text);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        let surplus = clean::cut(&self.tail, surplus).len();
        self.tail.drain(..surplus);
    }

    fn finish(&mut self, spot: Spot, choice: u64, stop: Stop, reason: &str, notes: &mut Notes) {
        if self.finished.contains(&choice) {
            notes.warn(Warning::FinishRepeated);
            return;
        }
        if self.finished.len() < MAX_CHOICES {
            self.finished.push(choice);
        }
        self.moments.progress = Some(spot.at);
        if self.finish.is_none() {
            self.finish = Some((stop, clean::short(reason)));
        }
        match stop {
            Stop::Abort => notes.fault(
                Class::UpstreamAbort,
                spot,
                "a finish reason that admits a break",
            ),
            Stop::Filter => {
                notes.find(Class::ContentFiltered, spot, "a finish reason of a filter");
            }
            Stop::Natural | Stop::Length | Stop::ToolCalls | Stop::Unknown => {}
        }
    }

    /// Whether the text has the end and the shape that were asked for; `None` where none was.
    pub(super) fn sealed(&self, seal: Option<&str>, shape: Option<&Shape>) -> Option<bool> {
        // Of a text beyond the limit the shape is unknown.
        let shape = shape.filter(|_| !self.text_overflowed);
        let ends = seal.map(|seal| self.ends_with(seal));
        let fits = shape.map(|shape| shape.fits(&self.text));
        match (ends, fits) {
            (None, None) => None,
            (ends, fits) => Some(ends.unwrap_or(true) && fits.unwrap_or(true)),
        }
    }

    /// Whether the text ends with `seal`, give or take what models put around it.
    fn ends_with(&self, seal: &str) -> bool {
        const AROUND: usize = 16;
        let end = if self.text_overflowed {
            &self.tail
        } else {
            &self.text
        };
        let end = end.trim_end();
        end.rfind(seal)
            .is_some_and(|at| end.len() - at - seal.len() <= AROUND)
    }

    /// Whether the visible text was longer than what content checks look at.
    pub(super) fn is_cut(&self) -> bool {
        self.text_overflowed || self.tools.overflowed
    }

    /// Visible characters and bytes are all there is: no reasoning, refusal, tool call or image.
    pub(super) fn is_text_only(&self) -> bool {
        !self.reasoned && !self.refusal && !self.other && self.tools.count() == 0
    }

    /// Whether the answer is calls of tools, each in a piece or two, and less than `words`
    /// characters besides: many services give a call when it is whole.
    pub(super) fn gives_calls_whole(&self, words: u64) -> bool {
        let calls = self.tools.count();
        calls > 0 && self.said_chars < words && self.call_pieces <= 2 * calls
    }

    /// Whether reasoning was shown.
    pub(super) fn has_reasoning(&self) -> bool {
        self.reasoned
    }

    /// The answer repeats itself from delta to delta.
    pub(super) fn is_cumulative(&self, growths: u32) -> bool {
        self.repeats.is_cumulative(growths)
    }

    /// An error text in the model's place, with a second sign besides its wording.
    ///
    /// `signs` are those that the caller sees: no usage though asked for, no seal though asked for.
    /// A piece of `put_bytes` is no token of a model's stream but a text that somebody put there.
    pub(super) fn spoken_error(&self, signs: bool, put_bytes: u64) -> Option<ErrorKind> {
        let is_put = |text: &str| text.len() as u64 >= put_bytes;
        if self.text_overflowed {
            return None;
        }
        let whole = self.text.trim();
        let put = self.contents == 1 && is_put(whole);
        if (put || signs)
            && let Some(kind) = wording::spoken(whole)
        {
            return Some(kind);
        }
        let (before, last) = self.text.split_at(self.last_piece);
        if !before.is_empty()
            && is_put(last)
            && last.starts_with(['\n', '['])
            && let Some(kind) = wording::spoken(last)
        {
            return Some(kind);
        }
        let (_, last) = self.text.rsplit_once("\n\n").filter(|_| signs)?;
        last.starts_with('[').then(|| wording::spoken(last))?
    }
}
