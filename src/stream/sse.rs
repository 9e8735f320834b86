//! Incremental server-sent-events decoder, per the WHATWG text ("interpreting an event stream").
//!
//! Sans-IO: bytes in, [`Item`]s out, at the moment the bytes allow them. Knows no protocol, keeps
//! no time, and imports nothing of ours. Beyond the standard it *notices*: comments, unknown lines,
//! bad UTF-8 and an unfinished last block are items, because here they are evidence.
//!
//! Limits: a block (its joined data, or any one line) larger than [`MAX_EVENT_BYTES`] is dropped up
//! to its blank line and reported once; an event name or id longer than [`MAX_NAME_BYTES`] is
//! ignored like a field that the standard does not know.

use memchr::{memchr, memchr2};

/// Largest block that is read, in bytes.
pub const MAX_EVENT_BYTES: usize = 1 << 20;

/// Longest event name or id that is kept, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

const BOM: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// One thing that the stream said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A block with data ended.
    Event(Event<'a>),
    /// A comment line.
    Comment {
        /// Byte offset of the line in the stream.
        offset: u64,
    },
    /// A reconnection time, in milliseconds.
    Retry {
        /// Milliseconds.
        millis: u64,
    },
    /// A line that is no field of the standard; readers pass over it.
    Unknown {
        /// Byte offset of the line in the stream.
        offset: u64,
        /// The line, its bad bytes replaced.
        line: &'a str,
    },
    /// Bytes that are not UTF-8, in any line; they are read as U+FFFD.
    InvalidUtf8 {
        /// Byte offset of the first bad byte of the line.
        offset: u64,
    },
    /// A block passed [`MAX_EVENT_BYTES`] and is dropped.
    TooLarge {
        /// Byte offset of the block.
        offset: u64,
    },
}

/// A dispatched event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Event type; `message` where the block named none.
    pub name: &'a str,
    /// Data lines, joined by LF.
    pub data: &'a str,
    /// Last event id.
    pub id: &'a str,
    /// Byte offset of the block's first line.
    pub offset: u64,
}

/// What was left when the stream ended; the standard drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished<'a> {
    /// Its type so far; `message` where it named none.
    pub name: &'a str,
    /// Byte offset of the unfinished block.
    pub offset: u64,
    /// Its data so far, if it has any and all of it is UTF-8.
    pub data: Option<&'a str>,
    /// The last line, where it has no line end.
    pub line: &'a [u8],
}

/// The decoder.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Bytes taken so far.
    fed: u64,
    /// Bytes of a BOM matched at the stream's start; 3 once that is settled.
    bom: u8,
    /// The last line ended in CR, so an LF that follows belongs to it.
    skip_lf: bool,
    /// A line whose end has not come yet, and where it began.
    ///
    /// In a dropped block it holds one marker byte at most, enough to tell a blank line.
    carry: Vec<u8>,
    carry_offset: u64,
    /// Joined data of the block, as far as it does not lie in the current chunk.
    data: String,
    data_lines: u64,
    name: String,
    id: String,
    block: Option<u64>,
    dropping: bool,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and hands each item to `sink` as soon as it is complete.
    ///
    /// An event whose data is one line of `chunk` is lent from it without a copy.
    pub fn feed(&mut self, chunk: &[u8], mut sink: impl FnMut(Item<'_>)) {
        let base = self.fed;
        self.fed += chunk.len() as u64;
        let mut at = self.strip_bom(chunk);
        let mut lent: Option<&str> = None;
        while at < chunk.len() {
            if self.skip_lf {
                self.skip_lf = false;
                if chunk[at] == b'\n' {
                    at += 1;
                    continue;
                }
            }
            let offset = base + at as u64;
            let rest = &chunk[at..];
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.keep(rest, offset, &mut sink);
                break;
            };
            let line = &rest[..length];
            at += length + 1;
            self.skip_lf = rest[length] == b'\r';
            if self.carry.is_empty() {
                self.line(line, offset, &mut lent, &mut sink);
            } else {
                self.finish_carried(line, &mut sink);
            }
        }
        if let Some(data) = lent {
            self.data.push_str(data);
        }
    }

    /// Ends the stream; what was not ended by a blank line is not an event, but it is returned.
    pub fn finish(&mut self) -> Option<Unfinished<'_>> {
        if self.bom < 3 && self.carry.is_empty() {
            let held = usize::from(std::mem::replace(&mut self.bom, 3));
            self.carry.extend_from_slice(&BOM[..held]);
            self.carry_offset = 0;
        }
        let offset = match (self.block, self.carry.is_empty()) {
            (Some(offset), _) => offset,
            (None, false) => self.carry_offset,
            (None, true) => return None,
        };
        let mut data = (self.data_lines > 0 && !self.dropping).then_some(());
        if let Some(value) = self.carry.strip_prefix(b"data:").filter(|_| !self.dropping) {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            data = None;
            if let Ok(value) = std::str::from_utf8(value) {
                if self.data_lines > 0 {
                    self.data.push('\n');
                }
                self.data.push_str(value);
                data = Some(());
            }
        }
        Some(Unfinished {
            name: kind(&self.name),
            offset,
            data: data.map(|()| self.data.as_str()),
            line: if self.dropping { &[] } else { &self.carry },
        })
    }

    /// Passes over a BOM at the very start, however it is cut, and returns where the text begins.
    fn strip_bom(&mut self, chunk: &[u8]) -> usize {
        let mut at = 0;
        while self.bom < 3 && at < chunk.len() {
            let matched = usize::from(self.bom);
            if chunk[at] == BOM[matched] {
                self.bom += 1;
                at += 1;
                continue;
            }
            // No BOM after all: what looked like one is the beginning of the first line.
            self.carry.extend_from_slice(&BOM[..matched]);
            self.carry_offset = 0;
            self.bom = 3;
        }
        at
    }

    fn keep(&mut self, part: &[u8], offset: u64, sink: &mut impl FnMut(Item<'_>)) {
        if self.carry.is_empty() {
            self.carry_offset = offset;
        }
        if self.dropping {
            self.carry.clear();
            self.carry.push(b'.');
        } else if self.carry.len() + part.len() > MAX_EVENT_BYTES {
            self.drop_block(self.carry_offset, sink);
            self.carry.push(b'.');
        } else {
            self.carry.extend_from_slice(part);
        }
    }

    fn finish_carried(&mut self, end: &[u8], sink: &mut impl FnMut(Item<'_>)) {
        let offset = self.carry_offset;
        self.keep(end, offset, sink);
        let mut line = std::mem::take(&mut self.carry);
        let mut lent = None;
        self.line(&line, offset, &mut lent, sink);
        if let Some(data) = lent {
            self.data.push_str(data);
        }
        line.clear();
        self.carry = line;
    }

    /// Takes one whole line; `lent` is the block's data while it is a single line of the chunk.
    fn line<'c>(
        &mut self,
        line: &'c [u8],
        offset: u64,
        lent: &mut Option<&'c str>,
        sink: &mut impl FnMut(Item<'_>),
    ) {
        if line.is_empty() {
            self.end_block(lent.take(), sink);
            return;
        }
        if self.dropping {
            return;
        }
        let block = *self.block.get_or_insert(offset);
        if line.len() > MAX_EVENT_BYTES {
            lent.take();
            self.drop_block(block, sink);
            return;
        }
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                sink(Item::InvalidUtf8 {
                    offset: offset + error.valid_up_to() as u64,
                });
                let repaired = String::from_utf8_lossy(line);
                let mut own = None;
                // The repaired copy does not outlive this call, so nothing may be lent from it.
                if let Some(before) = lent.take() {
                    self.data.push_str(before);
                }
                self.field(&repaired, offset, &mut own, sink);
                if let Some(data) = own {
                    self.data.push_str(data);
                }
                return;
            }
        };
        self.field(text, offset, lent, sink);
    }

    fn field<'c>(
        &mut self,
        line: &'c str,
        offset: u64,
        lent: &mut Option<&'c str>,
        sink: &mut impl FnMut(Item<'_>),
    ) {
        let common = ["data", "event"].into_iter().find_map(|name| {
            let value = line.strip_prefix(name)?.strip_prefix(':')?;
            Some((name, value))
        });
        let (name, value) = common
            .or_else(|| line.split_once(':'))
            .unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "data" => {
                self.data_lines += 1;
                if self.data_lines == 1 {
                    *lent = Some(value);
                    return;
                }
                if let Some(first) = lent.take() {
                    self.data.push_str(first);
                }
                if self.data.len() + 1 + value.len() > MAX_EVENT_BYTES {
                    self.drop_block(self.block.unwrap_or(offset), sink);
                    return;
                }
                self.data.push('\n');
                self.data.push_str(value);
            }
            "" => sink(Item::Comment { offset }),
            "event" if value.len() <= MAX_NAME_BYTES => replace(&mut self.name, value),
            "id" if value.len() <= MAX_NAME_BYTES => {
                if memchr(0, value.as_bytes()).is_none() {
                    replace(&mut self.id, value);
                }
            }
            "retry" => {
                if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
                    let millis = value.parse().unwrap_or(u64::MAX);
                    sink(Item::Retry { millis });
                }
            }
            _ => sink(Item::Unknown { offset, line }),
        }
    }

    fn end_block(&mut self, lent: Option<&str>, sink: &mut impl FnMut(Item<'_>)) {
        let offset = self.block.take();
        if let Some(offset) = offset.filter(|_| self.data_lines > 0) {
            sink(Item::Event(Event {
                name: kind(&self.name),
                data: lent.unwrap_or(&self.data),
                id: &self.id,
                offset,
            }));
        }
        self.data.clear();
        self.data_lines = 0;
        self.name.clear();
        self.dropping = false;
    }

    fn drop_block(&mut self, offset: u64, sink: &mut impl FnMut(Item<'_>)) {
        let offset = *self.block.get_or_insert(offset);
        self.dropping = true;
        self.data.clear();
        self.data_lines = 0;
        self.carry.clear();
        sink(Item::TooLarge { offset });
    }
}

fn replace(kept: &mut String, value: &str) {
    kept.clear();
    kept.push_str(value);
}

/// The type of a block that named this one.
fn kind(name: &str) -> &str {
    if name.is_empty() { "message" } else { name }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a stream gives, cut in chunks of `size` bytes: events as `name|data|id`, other items
    /// in short.
    fn items(bytes: &[u8], size: usize) -> Vec<String> {
        let mut decoder = Decoder::new();
        let mut seen = Vec::new();
        for chunk in bytes.chunks(size) {
            decoder.feed(chunk, |item| seen.push(short(item)));
        }
        seen
    }

    fn short(item: Item<'_>) -> String {
        match item {
            Item::Event(event) => format!("{}|{}|{}", event.name, event.data, event.id),
            Item::Comment { offset } => format!("comment@{offset}"),
            Item::Retry { millis } => format!("retry={millis}"),
            Item::Unknown { offset, line } => format!("unknown@{offset}={line}"),
            Item::InvalidUtf8 { offset } => format!("bad@{offset}"),
            Item::TooLarge { offset } => format!("large@{offset}"),
        }
    }

    #[test]
    fn the_standard_is_kept_whole_and_byte_by_byte() {
        let table: &[(&str, &[u8], &[&str])] = &[
            ("one event", b"data: a\n\n", &["message|a|"]),
            ("no space", b"data:a\n\n", &["message|a|"]),
            ("one space only", b"data:  a\n\n", &["message| a|"]),
            ("lines joined", b"data: a\ndata: b\n\n", &["message|a\nb|"]),
            ("CRLF", b"data: a\r\n\r\n", &["message|a|"]),
            ("CR", b"data: a\rdata: b\r\r", &["message|a\nb|"]),
            (
                "mixed ends",
                b"data:a\r\ndata:b\rdata:c\n\r\n",
                &["message|a\nb\nc|"],
            ),
            (
                "CRLF then CR",
                b"data:e\r\n\r\ndata:f\n\n",
                &["message|e|", "message|f|"],
            ),
            ("BOM once", b"\xEF\xBB\xBFdata:a\n\n", &["message|a|"]),
            (
                "BOM twice",
                b"\xEF\xBB\xBF\xEF\xBB\xBFdata:a\n\ndata:b\n\n",
                &["unknown@3=\u{feff}data:a", "message|b|"],
            ),
            (
                "half a BOM",
                b"\xEF\xBBdata:a\n\n",
                &["bad@0", "unknown@0=\u{fffd}data:a"],
            ),
            ("comment", b": hi\n:\n\n", &["comment@0", "comment@5"]),
            (
                "empty data",
                b"data\n\ndata:\n\n",
                &["message||", "message||"],
            ),
            (
                "two empty lines of data",
                b"data\ndata\n\n",
                &["message|\n|"],
            ),
            (
                "no data, no event",
                b"event: ping\n\ndata:a\n\n",
                &["message|a|"],
            ),
            (
                "named",
                b"event: tick\ndata:a\n\ndata:b\n\n",
                &["tick|a|", "message|b|"],
            ),
            (
                "id stays, is emptied, and no event is needed to set it",
                b"id: 1\n\ndata:a\n\nid\ndata:b\n\n",
                &["message|a|1", "message|b|"],
            ),
            (
                "id with NUL",
                b"id: 1\nid: \0\ndata:a\n\n",
                &["message|a|1"],
            ),
            (
                "retry",
                b"retry:3000\nretry:1x\nretry:\ndata:a\n\n",
                &["retry=3000", "message|a|"],
            ),
            (
                "unknown fields",
                b"x:y\n data:no\nplain\ndata:a\n\n",
                &[
                    "unknown@0=x:y",
                    "unknown@4= data:no",
                    "unknown@13=plain",
                    "message|a|",
                ],
            ),
            ("unfinished", b"data: a\n\ndata: b\n", &["message|a|"]),
            (
                "bad bytes are replaced and noticed",
                b"data:caf\xE9\n\ndata:\xE4\xBD\n\n",
                &[
                    "bad@8",
                    "message|caf\u{fffd}|",
                    "bad@16",
                    "message|\u{fffd}|",
                ],
            ),
            (
                "only CR and LF end lines",
                "data:a\u{2028}b\u{85}c\u{b}d\n\n".as_bytes(),
                &["message|a\u{2028}b\u{85}c\u{b}d|"],
            ),
        ];
        for (name, bytes, expected) in table {
            for size in [usize::MAX, 1, 2, 3, 5] {
                assert_eq!(&items(bytes, size), expected, "{name} in {size}");
            }
        }
    }

    #[test]
    fn an_event_is_out_as_soon_as_its_blank_line_is_in() {
        for ending in [&b"\n\n"[..], b"\r\r", b"\r\n\r", b"\n\r"] {
            let mut decoder = Decoder::new();
            let mut events = 0;
            decoder.feed(b"data: a", |_| events += 1);
            decoder.feed(ending, |_| events += 1);
            assert_eq!(events, 1, "{ending:?}");
            // The LF that completes a CRLF begins no line of its own.
            decoder.feed(b"\ndata: b\n\n", |_| events += 1);
            assert_eq!(events, 2, "{ending:?}");
        }
    }

    #[test]
    fn offsets_are_those_of_the_stream() {
        let bytes = b"\xEF\xBB\xBF: c\n\ndata: a\n\nevent: x\ndata: b\n\n";
        for size in [bytes.len(), 1] {
            let mut decoder = Decoder::new();
            let mut offsets = Vec::new();
            for chunk in bytes.chunks(size) {
                decoder.feed(chunk, |item| {
                    if let Item::Event(event) = item {
                        offsets.push(event.offset);
                    }
                });
            }
            assert_eq!(offsets, [8, 17]);
        }
    }

    #[test]
    fn what_is_left_at_the_end_is_no_event_but_is_shown() {
        let mut decoder = Decoder::new();
        decoder.feed(b"data: a\n\nevent: x\ndata: b\ndata: c", |_| {});
        assert_eq!(
            decoder.finish(),
            Some(Unfinished {
                name: "x",
                offset: 9,
                data: Some("b\nc"),
                line: b"data: c",
            })
        );
        let mut decoder = Decoder::new();
        decoder.feed(b"data: a\n\n<html>", |_| {});
        assert_eq!(
            decoder.finish(),
            Some(Unfinished {
                name: "message",
                offset: 9,
                data: None,
                line: b"<html>",
            })
        );
        let mut decoder = Decoder::new();
        decoder.feed(b"data: a\n\n", |_| {});
        assert_eq!(decoder.finish(), None);
    }

    #[test]
    fn a_block_over_the_limit_is_dropped_once_and_the_next_one_is_read() {
        let long_line = [b"data: ", vec![b'x'; MAX_EVENT_BYTES].as_slice(), b"\n"].concat();
        let many_lines = b"data: 0123456789\n".repeat(MAX_EVENT_BYTES / 10);
        for block in [long_line, many_lines] {
            let stream = [&block, &b"data: more\n\ndata: a\n\n"[..]].concat();
            for size in [stream.len(), 16 << 10, 1000] {
                assert_eq!(items(&stream, size), ["large@0", "message|a|"], "in {size}");
            }
        }
    }

    #[test]
    fn a_line_without_an_end_is_held_up_to_the_limit_only() {
        let mut decoder = Decoder::new();
        for _ in 0..64 {
            decoder.feed(&[b'x'; 64 << 10], |_| {});
        }
        assert!(decoder.carry.capacity() <= 2 * MAX_EVENT_BYTES);
        assert!(decoder.carry.len() <= 1);
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        const PIECES: [&[u8]; 18] = [
            b"data: x",
            b"data:y",
            b"data",
            b"event: e",
            b"id: 7",
            b"id",
            b"retry: 5",
            b": c",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\xEF\xBB\xBF",
            b"\xC3",
            "ü你🙂".as_bytes(),
            b"\0",
            b" ",
            b":",
        ];
        let piece = proptest::sample::select(&PIECES[..]);
        proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn events_equal_those_of_another_decoder_in_any_chunking(
            bytes in pieces(),
            cuts in proptest::collection::vec(1usize..9, 1..20),
        ) {
            let mut theirs = sse_parse::SseParser::new();
            theirs.feed(&bytes);
            let mut expected = Vec::new();
            while let Some(event) = theirs.next_event() {
                expected.push((event.event, event.data, event.id));
            }
            let mut decoder = Decoder::new();
            let mut events = Vec::new();
            let mut rest = bytes.as_slice();
            for size in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, later) = rest.split_at((*size).min(rest.len()));
                rest = later;
                decoder.feed(chunk, |item| {
                    if let Item::Event(event) = item {
                        events.push((
                            event.name.to_owned(),
                            event.data.to_owned(),
                            event.id.to_owned(),
                        ));
                    }
                });
            }
            prop_assert_eq!(events, expected);
        }

        #[test]
        fn every_item_is_the_same_in_any_chunking(bytes in pieces(), size in 1usize..40) {
            prop_assert_eq!(items(&bytes, size), items(&bytes, usize::MAX));
        }
    }
}
