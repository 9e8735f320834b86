//! Evidence on disk: a reader that survives a torn end.
//!
//! A line counts once its line feed is in the file. What a killed process left behind the last
//! line feed is ignored when reading and cut off before writing on.

mod writer;

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

pub use self::writer::Writer;
use super::chain::{ChainValue, Ending, ending};
use super::error::io_error;
use super::{Close, Continued, EvidenceError, Header, Line, SCHEMA, Sample, Session, Skipped};

/// Longest line that is written or read, in bytes.
pub const MAX_LINE: u64 = 4 * 1024 * 1024;

/// One evidence file, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// First line, with the budget of the last time that the run went on.
    pub header: Header,
    /// Samples in file order, warm-ups included, each id once.
    pub samples: Vec<Sample>,
    /// The closing line, when nothing was sampled after it.
    pub close: Option<Close>,
    /// Closing lines of earlier sessions on the same file.
    pub earlier: Vec<Close>,
    /// The times that the run went on after its end.
    pub continued: Vec<Continued>,
    /// The processes that collected it, where it is of a soak.
    pub sessions: Vec<Session>,
    /// Slots of a soak without a sample, as far as it is known why.
    pub skipped: Vec<Skipped>,
    /// The file ended inside a line, which is left out.
    pub torn: bool,
}

impl Evidence {
    /// Evidence without samples.
    pub const fn new(header: Header) -> Self {
        Self {
            header,
            samples: Vec::new(),
            close: None,
            earlier: Vec::new(),
            continued: Vec::new(),
            sessions: Vec::new(),
            skipped: Vec::new(),
            torn: false,
        }
    }

    /// Adds a further line.
    pub fn push(&mut self, line: Line) {
        self.earlier.extend(self.close.take());
        match line {
            Line::Sample(sample) => self.samples.push(*sample),
            Line::Close(close) => self.close = Some(close),
            Line::Continued(continued) => {
                self.header.go_on_with(&continued);
                self.continued.push(continued);
            }
            Line::Session(session) => self.sessions.push(session),
            Line::Skipped(skipped) => self.skipped.push(skipped),
        }
    }
}

impl Evidence {
    /// Passes over a sample that is not to be kept: as [`Evidence::push`], without it.
    pub fn pass_over(&mut self) {
        self.earlier.extend(self.close.take());
    }
}

/// The header of a file, with the budget of the last time that its run went on.
///
/// Reads the whole file, but looks into no sample.
///
/// # Errors
/// When the file cannot be read, is of another format, or holds a line that is no record.
pub fn last_header(path: &Path) -> Result<Header, EvidenceError> {
    let mut reader = Reader::open(path)?;
    while reader.next_line()? {
        let usual = [b"{\"sample\":".as_slice(), b"{\"close\":"];
        if usual.iter().any(|kind| reader.buffer.starts_with(kind)) {
            continue;
        }
        if let Some(continued) = reader.parse()?.continued {
            reader.header.go_on_with(&continued);
        }
    }
    Ok(reader.header)
}

/// Reads a whole evidence file.
///
/// # Errors
/// When the file cannot be read, is of another format, or holds a line that is no record.
pub fn read(path: &Path) -> Result<Evidence, EvidenceError> {
    Reader::open(path)?
        .collect_all()
        .map(|(evidence, _)| evidence)
}

/// Reads an evidence file line by line, in bounded memory.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Files that go on where this one ends.
    rest: VecDeque<PathBuf>,
    input: BufReader<File>,
    header: Header,
    buffer: Vec<u8>,
    /// Ids of the samples that were there.
    seen: HashSet<u128>,
    /// Which of the files this is, from 1.
    number: u32,
    line: u64,
    /// Length of the file up to its last line feed.
    whole: u64,
    torn: bool,
    /// Whether the chain's values are looked for; who only judges need not.
    follow: bool,
    /// Whether the first line has one.
    chained: bool,
    /// That of the last line.
    chain: Option<ChainValue>,
}

/// A line after the header; of a kind that a later version adds all are `None`.
#[derive(Deserialize)]
pub(super) struct AnyLine {
    #[serde(default)]
    pub(super) sample: Option<Box<Sample>>,
    #[serde(default)]
    pub(super) close: Option<Close>,
    #[serde(default)]
    continued: Option<Continued>,
    #[serde(default)]
    session: Option<Session>,
    #[serde(default)]
    skipped: Option<Skipped>,
}

impl Reader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// When the file cannot be read or does not begin with a header of this format.
    pub fn open(path: &Path) -> Result<Self, EvidenceError> {
        let mut buffer = Vec::new();
        let (input, header) = open(path, &mut buffer)?;
        let chain = value_of(&buffer);
        Ok(Self {
            whole: buffer.len() as u64 + 1,
            follow: false,
            chained: chain.is_some(),
            chain,
            path: path.to_owned(),
            rest: VecDeque::new(),
            input,
            header,
            buffer,
            seen: HashSet::new(),
            number: 1,
            line: 1,
            torn: false,
        })
    }

    /// Opens the files of one cell, as [`super::segment_files`] gives them, to read them as one.
    ///
    /// # Errors
    /// As [`Reader::open`], and when there is none.
    pub fn open_files(files: impl IntoIterator<Item = PathBuf>) -> Result<Self, EvidenceError> {
        let mut rest: VecDeque<PathBuf> = files.into_iter().collect();
        let first = rest.pop_front().unwrap_or_default();
        Ok(Self {
            rest,
            ..Self::open(&first)?
        })
    }

    /// Goes over to the next file of the cell; false where this is the last.
    fn next_file(&mut self) -> Result<bool, EvidenceError> {
        let Some(path) = self.rest.pop_front() else {
            return Ok(false);
        };
        self.number += 1;
        let (input, header) = open(&path, &mut self.buffer)?;
        if let Some(why) = mismatch(&self.header, &header, self.number) {
            let number = self.number;
            return Err(EvidenceError::Segment { path, number, why });
        }
        self.input = input;
        self.path = path;
        self.line = 1;
        self.whole = self.buffer.len() as u64 + 1;
        self.chain = value_of(&self.buffer);
        self.chained = self.chain.is_some();
        Ok(true)
    }

    /// The first line.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the file ended inside a line; known once it is read to its end.
    pub const fn is_torn(&self) -> bool {
        self.torn
    }

    /// The next record; `None` at the end. A sample id that was there before is skipped, and so is
    /// a kind of record that a later version added.
    ///
    /// # Errors
    /// When the file cannot be read or the line is no record.
    pub fn next_record(&mut self) -> Result<Option<Line>, EvidenceError> {
        while self.next_line()? {
            let any = self.parse()?;
            if let Some(sample) = any.sample {
                if sample.attempts.is_empty() {
                    return Err(EvidenceError::NoAttempt {
                        path: self.path.clone(),
                        line: self.line,
                    });
                }
                if self.seen.insert(key(&sample.id)) {
                    return Ok(Some(Line::Sample(sample)));
                }
            } else if let Some(close) = any.close {
                return Ok(Some(Line::Close(close)));
            } else if let Some(continued) = any.continued {
                return Ok(Some(Line::Continued(continued)));
            } else if let Some(session) = any.session {
                return Ok(Some(Line::Session(session)));
            } else if let Some(skipped) = any.skipped {
                return Ok(Some(Line::Skipped(skipped)));
            }
        }
        Ok(None)
    }

    /// Takes the next whole line into the buffer; false at the end.
    fn next_line(&mut self) -> Result<bool, EvidenceError> {
        while !next_line(&mut self.input, &mut self.buffer, &self.path, self.line + 1)? {
            self.torn = !self.buffer.is_empty();
            if !self.next_file()? {
                return Ok(false);
            }
        }
        self.line += 1;
        self.whole += self.buffer.len() as u64 + 1;
        if self.follow {
            self.chain = value_of(&self.buffer);
        }
        Ok(true)
    }

    /// Also looks at each line's chain value, so that a further line can follow the last one.
    pub(super) const fn following(mut self) -> Self {
        self.follow = true;
        self
    }

    /// The line in the buffer.
    fn parse(&self) -> Result<AnyLine, EvidenceError> {
        serde_json::from_slice(&self.buffer).map_err(|source| EvidenceError::Line {
            path: self.path.clone(),
            line: self.line,
            source,
        })
    }

    /// Reads to the end; also where that is.
    pub(super) fn collect_all(mut self) -> Result<(Evidence, End), EvidenceError> {
        let mut evidence = Evidence::new(self.header.clone());
        while let Some(line) = self.next_record()? {
            evidence.push(line);
        }
        evidence.torn = self.torn;
        let end = End {
            path: self.path,
            line: self.line,
            whole: self.whole,
            torn: self.torn,
            chained: self.chained,
            chain: self.chain,
        };
        Ok((evidence, end))
    }
}

/// Where a file that was read ends, so that it can be written on.
#[derive(Clone, Debug)]
pub(super) struct End {
    /// The file.
    pub(super) path: PathBuf,
    /// Whole lines.
    line: u64,
    /// Length up to the last line feed.
    whole: u64,
    torn: bool,
    /// Whether the first line has a chain value.
    chained: bool,
    /// That of the last whole line, if it was looked for and is there.
    chain: Option<ChainValue>,
}

/// Opens a file, and reads its first line into the buffer.
fn open(path: &Path, buffer: &mut Vec<u8>) -> Result<(BufReader<File>, Header), EvidenceError> {
    let file = File::open(path).map_err(|source| io_error("open", path, source))?;
    let mut input = BufReader::new(file);
    if !next_line(&mut input, buffer, path, 1)? {
        return Err(EvidenceError::NoHeader {
            path: path.to_owned(),
        });
    }
    let header = parse_header(buffer, path)?;
    Ok((input, header))
}

/// The chain value at the end of a line.
fn value_of(line: &[u8]) -> Option<ChainValue> {
    match ending(line) {
        Ending::Value { value, .. } => Some(value),
        Ending::Damaged | Ending::Bare => None,
    }
}

/// An id in 16 bytes, of which a million fit where their texts would not: the number that its hex
/// digits are, or half of its SHA-256 where it is anything else.
pub(super) fn key(id: &str) -> u128 {
    let is_hex = id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_hex.then(|| u128::from_str_radix(id, 16).ok()).flatten();
    number.unwrap_or_else(|| {
        let hash = Sha256::digest(id.as_bytes());
        let half = hash.iter().take(16);
        half.fold(0, |number, byte| number << 8 | u128::from(*byte))
    })
}

/// Reads up to and without the next line feed; false when the file ends before one.
pub(super) fn next_line(
    input: &mut impl BufRead,
    buffer: &mut Vec<u8>,
    path: &Path,
    line: u64,
) -> Result<bool, EvidenceError> {
    buffer.clear();
    input
        .by_ref()
        .take(MAX_LINE + 1)
        .read_until(b'\n', buffer)
        .map_err(|source| io_error("read", path, source))?;
    if buffer.last() == Some(&b'\n') {
        buffer.pop();
        Ok(true)
    } else if buffer.len() as u64 > MAX_LINE {
        Err(EvidenceError::TooLong {
            path: path.to_owned(),
            line,
        })
    } else {
        Ok(false)
    }
}

pub(super) fn parse_header(line: &[u8], path: &Path) -> Result<Header, EvidenceError> {
    /// What every version of the format has.
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
    }
    let wrong = |source| EvidenceError::Line {
        path: path.to_owned(),
        line: 1,
        source,
    };
    let version: Version = serde_json::from_slice(line).map_err(wrong)?;
    if version.schema != u64::from(SCHEMA) {
        return Err(EvidenceError::Schema {
            path: path.to_owned(),
            found: version.schema,
        });
    }
    serde_json::from_slice(line).map_err(wrong)
}

/// Why a header cannot be that of a segment of other evidence; `None` where it can.
fn mismatch(first: &Header, header: &Header, number: u32) -> Option<String> {
    let found = header.segment.map_or(1, |segment| segment.number);
    if found != number {
        return Some(format!("its header says that it is segment {found}"));
    }
    let of = |it: &Header| {
        [
            ("cell_id", it.cell_id.clone()),
            ("run_id", it.run_id.clone()),
            ("core_digest", it.core_digest.clone()),
        ]
    };
    of(first)
        .into_iter()
        .zip(of(header))
        .find(|(a, b)| a != b)
        .map(|((what, ours), (_, theirs))| {
            format!("its {what} is `{theirs}`, that of the first file is `{ours}`")
        })
}

#[cfg(test)]
mod tests;
