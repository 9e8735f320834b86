//! A shortcut for frames that are an earlier one with other words in the same places. No protocol
//! here.
//!
//! Most events of a stream are one JSON text but for a string or a number or two. A dialect names
//! the members that may differ (its holes); a parsed frame is remembered as the bytes between them.
//! A later frame with the same bytes, whose holes hold what JSON takes there, would be parsed to the
//! same object with other values, so the object is made anew from what is kept of the first, without
//! parsing. Nothing is guessed: whatever is not surely the same is left to the parser.
//!
//! What makes it sure: the frame that is remembered was parsed, so it is JSON and of the right
//! types; a string stays a string and a count a count, and all else is equal byte by byte. A frame
//! that names a hole twice or writes a name with an escape is not remembered.

use std::borrow::Cow;

/// Longest frame that is remembered, in bytes.
const MAX_BYTES: usize = 4096;

/// Deepest nesting of a frame that is remembered.
const MAX_DEPTH: usize = 16;

/// Most holes of a frame that is remembered.
const MAX_HOLES: usize = 16;

/// Parsed frames in a row after which only some of them are looked at any more.
const MAX_MISSES: u32 = 8;

/// Of how many frames one is looked at then.
const RARELY: u32 = 64;

/// Most digits of a count: all such numbers fit into 64 bits.
const MAX_DIGITS: usize = 19;

/// Texts and counts of one frame that a dialect can tell apart.
const TEXTS: usize = 3;
const COUNTS: usize = 6;

/// What may differ from frame to frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// A string that is read; its place among the texts.
    Text(usize),
    /// A whole number that is read; its place among the counts.
    Count(usize),
    /// A string or whole number that nobody reads.
    Unread,
}

/// A member that is a hole: the names that lead to it, `[]` for any item of a list.
pub(super) type Member = (&'static [&'static str], Hole);

/// What stands in the holes of one frame.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Filled<'a> {
    /// Texts, escapes resolved.
    pub(super) texts: [Option<Cow<'a, str>>; TEXTS],
    /// Counts.
    pub(super) counts: [Option<u64>; COUNTS],
}

/// What is kept of a frame, so that its twins can be made without parsing.
pub(super) trait Kept: Sized {
    /// A parsed frame.
    type Event<'a>;

    /// The members that may differ.
    const HOLES: &'static [Member];

    /// What to keep, if the frame is of a form that can have twins; nothing of the holes.
    fn of(event: &Self::Event<'_>) -> Option<Self>;

    /// The frame whose holes are filled so.
    fn again<'a>(&'a self, filled: Filled<'a>) -> Self::Event<'a>;

    /// Whether the frame whose holes are filled so is this one.
    fn is(&self, filled: Filled<'_>, event: &Self::Event<'_>) -> bool;
}

/// The frame that others are compared with.
#[derive(Debug)]
struct Pattern<K> {
    text: String,
    /// Where the holes begin and end in the text, quotes not included.
    holes: Vec<(usize, usize, Hole)>,
    kept: K,
}

/// Remembers one frame of a stream.
#[derive(Debug)]
pub(super) struct Twin<K> {
    pattern: Option<Pattern<K>>,
    /// Frames that were parsed since the last twin.
    misses: u32,
}

impl<K> Default for Twin<K> {
    fn default() -> Self {
        Self {
            pattern: None,
            misses: 0,
        }
    }
}

impl<K: Kept> Twin<K> {
    /// One that never remembers anything.
    #[cfg(test)]
    pub(super) fn off() -> Self {
        Self {
            pattern: None,
            // It stays at this number, which is none of those that are looked at.
            misses: u32::MAX,
        }
    }

    /// What parsing `data` would give, if it is a twin of the remembered frame.
    pub(super) fn find<'a>(&'a mut self, data: &'a str) -> Option<K::Event<'a>> {
        let pattern = self.pattern.as_ref()?;
        let filled = pattern.fill(data)?;
        self.misses = 0;
        Some(pattern.kept.again(filled))
    }

    /// Remembers a parsed frame that had no twin, if it can have any.
    pub(super) fn learn(&mut self, data: &str, event: &K::Event<'_>) {
        self.misses = self.misses.saturating_add(1);
        if self.misses > MAX_MISSES && !self.misses.is_multiple_of(RARELY) {
            return;
        }
        if data.len() > MAX_BYTES {
            return;
        }
        let Some(kept) = K::of(event) else { return };
        let Some(holes) = holes(data, K::HOLES) else {
            return;
        };
        let pattern = Pattern {
            text: data.to_owned(),
            holes,
            kept,
        };
        // Made anew, it must be what was parsed: the holes are where the parser reads.
        let filled = pattern.fill(data);
        if filled.is_some_and(|filled| pattern.kept.is(filled, event)) {
            self.pattern = Some(pattern);
        }
    }
}

impl<K> Pattern<K> {
    fn fill<'a>(&self, data: &'a str) -> Option<Filled<'a>> {
        let mut filled = Filled::default();
        let (mut at, mut known) = (0, 0);
        for (start, end, hole) in &self.holes {
            let piece = self.text.get(known..*start)?;
            if !data.get(at..)?.starts_with(piece) {
                return None;
            }
            at += piece.len();
            known = *end;
            let quoted = self.text.as_bytes().get(*end) == Some(&b'"');
            at = match (hole, quoted) {
                (Hole::Text(place), _) => {
                    let (text, end) = string(data, at)?;
                    *filled.texts.get_mut(*place)? = Some(text);
                    end
                }
                (Hole::Count(place), _) => {
                    let digits = digits(data, at)?;
                    *filled.counts.get_mut(*place)? = Some(digits.parse().ok()?);
                    at + digits.len()
                }
                (Hole::Unread, true) => string(data, at)?.1,
                (Hole::Unread, false) => at + digits(data, at)?.len(),
            };
        }
        (data.get(at..)? == self.text.get(known..)?).then_some(filled)
    }
}

/// The string whose first byte after the quote stands at `start`, and where its last quote stands;
/// `None` where JSON has no such string.
fn string(data: &str, start: usize) -> Option<(Cow<'_, str>, usize)> {
    let plain = plain(data.as_bytes().get(start..)?);
    let mut end = start + plain;
    if data.as_bytes().get(end)? == &b'"' {
        return Some((Cow::Borrowed(data.get(start..end)?), end));
    }
    loop {
        match data.as_bytes().get(end)? {
            b'"' => break,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    // What an escape may be, and what else a string may hold, the parser knows.
    let quoted = data.get(start.checked_sub(1)?..=end)?;
    let text = serde_json::from_str(quoted).ok()?;
    Some((Cow::Owned(text), end))
}

/// How many bytes there are before the first that ends a string or does not stand for itself.
fn plain(bytes: &[u8]) -> usize {
    const STEP: usize = 16;
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let steps = bytes.chunks_exact(STEP);
    // All of a step are looked at, which a machine does at once.
    let whole = steps.take_while(|step| !step.iter().fold(false, |any, byte| any | special(byte)));
    let passed = whole.count() * STEP;
    let rest = bytes.get(passed..).unwrap_or_default();
    passed + rest.iter().position(special).unwrap_or(rest.len())
}

/// The digits of a whole number that begins at `start`, as JSON writes it.
fn digits(data: &str, start: usize) -> Option<&str> {
    let rest = data.get(start..)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let text = rest.get(..digits)?;
    let led = text.starts_with('0') && digits > 1;
    ((1..=MAX_DIGITS).contains(&digits) && !led).then_some(text)
}

/// Where the holes of a JSON text are; `None` for a text whose twins would not surely be read alike.
fn holes(data: &str, members: &[Member]) -> Option<Vec<(usize, usize, Hole)>> {
    let mut walk = Walk::default();
    let mut holes: Vec<(usize, usize, Hole)> = Vec::new();
    let mut named = Vec::new();
    let mut at = 0;
    while let Some(byte) = data.as_bytes().get(at) {
        match byte {
            b'{' => walk.open(Some(""))?,
            b'[' => walk.open(None)?,
            b'}' | b']' => walk.close(),
            b',' => walk.key_next = walk.levels.last().is_some_and(Option::is_some),
            b':' => walk.key_next = false,
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'"' => {
                let start = at + 1;
                at = start;
                loop {
                    match data.as_bytes().get(at)? {
                        b'"' => break,
                        b'\\' => at += 2,
                        _ => at += 1,
                    }
                }
                if walk.key_next {
                    walk.name(data.get(start..at)?)?;
                    let hole = walk.hole(members).filter(|hole| *hole != Hole::Unread);
                    if hole.is_some_and(|hole| named.contains(&hole)) {
                        return None;
                    }
                    named.extend(hole);
                } else {
                    match walk.hole(members) {
                        Some(hole @ (Hole::Text(_) | Hole::Unread)) => {
                            holes.push((start, at, hole));
                        }
                        Some(Hole::Count(_)) => return None,
                        None => {}
                    }
                }
            }
            _ => {
                let start = at;
                let rest = data.as_bytes().get(start..)?;
                let length = rest.iter().take_while(|byte| {
                    !matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r')
                });
                let end = start + length.count();
                let whole = digits(data, start).is_some_and(|digits| start + digits.len() == end);
                match walk.hole(members) {
                    Some(hole @ (Hole::Count(_) | Hole::Unread)) if whole => {
                        holes.push((start, end, hole));
                    }
                    // What is no number of ours but null is one that the parser reads otherwise.
                    Some(Hole::Text(_) | Hole::Count(_)) if data.get(start..end)? != "null" => {
                        return None;
                    }
                    Some(_) | None => {}
                }
                at = end;
                continue;
            }
        }
        at += 1;
    }
    (1..=MAX_HOLES).contains(&holes.len()).then_some(holes)
}

/// Where a JSON text is being looked at. The text is known to be JSON.
#[derive(Debug, Default)]
struct Walk<'a> {
    /// Objects with the member that is open, and lists.
    levels: Vec<Option<&'a str>>,
    /// The next string is a member's name.
    key_next: bool,
}

impl<'a> Walk<'a> {
    fn open(&mut self, level: Option<&'a str>) -> Option<()> {
        self.key_next = level.is_some();
        self.levels.push(level);
        (self.levels.len() <= MAX_DEPTH).then_some(())
    }

    fn close(&mut self) {
        self.levels.pop();
        self.key_next = false;
    }

    /// Takes a member's name, if it is written plainly.
    fn name(&mut self, name: &'a str) -> Option<()> {
        let level = self.levels.last_mut()?.as_mut()?;
        *level = name;
        (!name.contains('\\')).then_some(())
    }

    /// The hole that this place is.
    fn hole(&self, members: &[Member]) -> Option<Hole> {
        let here = self.levels.iter().map(|level| level.unwrap_or("[]"));
        let member = members
            .iter()
            .find(|(names, _)| here.clone().eq(names.iter().copied()));
        member.map(|(_, hole)| *hole)
    }
}

#[cfg(test)]
mod tests;
