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
        let (name, value) = match line.strip_prefix("data:") {
            Some(value) => ("data", value),
            None => line.split_once(':').unwrap_or((line, "")),
        };
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
                name: if self.name.is_empty() {
                    "message"
                } else {
                    &self.name
                },
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
