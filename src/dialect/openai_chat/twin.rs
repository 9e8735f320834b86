//! A shortcut for frames that differ from an earlier one in the text of their content only.
//!
//! Most chunks of a stream are alike but for one string. Such a frame is the same JSON text with
//! another string in one place, so it says the same with another text, and need not be parsed.
//! Nothing is guessed: the bytes before and after must be equal, and the text must be one that
//! JSON takes as it stands (no quote, no escape, no control character).

use super::super::{DeltaKind, Signal};

/// Longest frame that is remembered, in bytes.
const MAX_BYTES: usize = 4096;

/// Frames in a row that resembled no earlier one, after which remembering them is given up.
const MAX_MISSES: u32 = 4;

/// The frame that others are compared with.
#[derive(Debug)]
struct Pattern {
    before: String,
    after: String,
    id: Option<String>,
    model: Option<String>,
    fingerprint: Option<String>,
}

/// Remembers one frame of a stream.
#[derive(Debug, Default)]
pub(in crate::dialect) struct Twin {
    pattern: Option<Pattern>,
    misses: u32,
}

/// Watches the signals of one parsed frame: does it say nothing but one piece of content?
#[derive(Debug, Default)]
pub(super) struct Watch {
    id: Option<String>,
    model: Option<String>,
    fingerprint: Option<String>,
    text: Option<(usize, usize)>,
    signals: u32,
    other: bool,
}

impl Twin {
    /// Says what a frame says, if it is the twin of the one that is remembered.
    pub(super) fn read(&mut self, data: &str, sink: &mut dyn FnMut(Signal<'_>)) -> bool {
        let Some(pattern) = &self.pattern else {
            return false;
        };
        let text = data
            .strip_prefix(pattern.before.as_str())
            .and_then(|rest| rest.strip_suffix(pattern.after.as_str()));
        let Some(text) = text.filter(|text| is_plain(text)) else {
            return false;
        };
        self.misses = 0;
        sink(Signal::Meta {
            id: pattern.id.as_deref(),
            model: pattern.model.as_deref(),
            fingerprint: pattern.fingerprint.as_deref(),
            role: false,
        });
        if !text.is_empty() {
            sink(Signal::Delta {
                kind: DeltaKind::Content,
                choice: 0,
                text,
            });
        }
        true
    }

    /// Whether a frame that had to be parsed is worth watching.
    pub(super) fn is_learning(&self, data: &str) -> bool {
        self.misses <= MAX_MISSES && data.len() <= MAX_BYTES
    }

    /// Remembers a parsed frame, if the watch saw one that can have twins.
    pub(super) fn learn(&mut self, data: &str, watch: Watch) {
        let Some((start, end)) = watch.text.filter(|_| watch.signals == 2 && !watch.other) else {
            return;
        };
        let (Some(before), Some(after)) = (data.get(..start), data.get(end..)) else {
            return;
        };
        self.misses += 1;
        self.pattern = Some(Pattern {
            before: before.to_owned(),
            after: after.to_owned(),
            id: watch.id,
            model: watch.model,
            fingerprint: watch.fingerprint,
        });
    }
}

impl Watch {
    /// Takes one signal of the frame whose data is `data`.
    pub(super) fn signal(&mut self, signal: &Signal<'_>, data: &str) {
        self.signals += 1;
        match signal {
            Signal::Meta {
                id,
                model,
                fingerprint,
                role: false,
            } => {
                self.id = id.map(str::to_owned);
                self.model = model.map(str::to_owned);
                self.fingerprint = fingerprint.map(str::to_owned);
            }
            Signal::Delta {
                kind: DeltaKind::Content,
                choice: 0,
                text,
            } => self.text = place(text, data),
            Signal::Meta { .. }
            | Signal::Delta { .. }
            | Signal::ToolCall { .. }
            | Signal::Finish { .. }
            | Signal::Usage(_)
            | Signal::Error { .. }
            | Signal::Flaw(_)
            | Signal::CallFault(_)
            | Signal::Odd(_)
            | Signal::Terminator
            | Signal::Restart => self.other = true,
        }
    }
}

/// Where `text` lies in `data`, if it was lent from there and stands between quotes.
fn place(text: &str, data: &str) -> Option<(usize, usize)> {
    let start = text.as_ptr().addr().checked_sub(data.as_ptr().addr())?;
    let end = start.checked_add(text.len())?;
    let lent = data.get(start..end)? == text;
    let quoted = data.get(..start)?.ends_with('"') && data.get(end..)?.starts_with('"');
    (lent && quoted && is_plain(text)).then_some((start, end))
}

/// Whether JSON takes a text between quotes as it stands.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\')
}
