//! Whether evidence files are as they were written: their chains, their records, their segments.
//!
//! Reads line by line, in memory that does not grow with the lines but for the ids of samples.
//! What was altered is a finding and no error; an error says that a file cannot be read at all.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::chain::{self, Break, ChainValue, Walk, Walked};
use super::error::io_error;
use super::file::{AnyLine, key, next_line, parse_header};
use super::{EvidenceError, Header};

/// One file, looked at from its first byte to its last.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The file.
    pub path: PathBuf,
    /// Its first line; `None` where that is no header any more.
    pub header: Option<Header>,
    /// Whole lines, the header included.
    pub lines: u64,
    /// Samples, each id once.
    pub samples: u64,
    /// Whether its lines are chained; those of versions without the chain are not, and what was
    /// changed in them cannot be seen.
    pub chained: bool,
    /// The chain value that its lines come to, made anew from all of them. Any other byte gives
    /// another value, in a file without a chain as well.
    pub root: ChainValue,
    /// The value that the last line states, where it states one.
    pub stated: Option<ChainValue>,
    /// It ends inside a line, as a killed process leaves it: nothing that ever counted.
    pub torn: bool,
    /// The last line is a closing line: sampling had ended.
    pub closed: bool,
    /// What is not as it was written, in the order of the lines, the first of it.
    pub alterations: Vec<Alteration>,
    /// How much of that there is.
    pub altered: u64,
}

/// A place at which a file is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Alteration {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    #[serde(flatten)]
    pub how: How,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum How {
    /// It does not follow the line before it.
    Chain(Break),
    /// Its chain is right or absent, and what it says is wrong.
    Record(Wrong),
}

/// What is wrong with a line apart from its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Wrong {
    /// It is no record.
    NoRecord {
        /// Why.
        why: String,
    },
    /// It holds a sample that an earlier line holds.
    Repeated {
        /// That line, from 1.
        first: u64,
    },
    /// What stands behind the last line feed is not the start of a record.
    Tail,
    /// The segment before is not among the files.
    NoSegmentBefore {
        /// Its number.
        number: u32,
    },
    /// The segment before does not end where this one says.
    OtherSegmentBefore {
        /// Its number.
        number: u32,
    },
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(how) => write!(f, "the line {how}"),
            Self::Record(Wrong::NoRecord { why }) => write!(f, "no line of evidence: {why}"),
            Self::Record(Wrong::Repeated { first }) => {
                write!(f, "the sample of line {first} once more")
            }
            Self::Record(Wrong::Tail) => {
                f.write_str("what stands behind the last line feed is not the start of a record")
            }
            Self::Record(Wrong::NoSegmentBefore { number }) => write!(
                f,
                "segment {number}, which this one follows, is not among the files"
            ),
            Self::Record(Wrong::OtherSegmentBefore { number }) => write!(
                f,
                "segment {number} does not end with the chain value that this one follows: lines \
                 at its end were changed or removed"
            ),
        }
    }
}

impl Checked {
    /// Whether nothing was found altered. A torn end is no alteration, and neither is the want of
    /// a chain.
    pub const fn is_whole(&self) -> bool {
        self.altered == 0
    }

    /// The id of the cell; empty where the header cannot be read.
    pub fn cell_id(&self) -> &str {
        self.header.as_ref().map_or("", |header| &header.cell_id)
    }

    fn number(&self) -> Option<u32> {
        let header = self.header.as_ref()?;
        Some(header.segment.map_or(1, |segment| segment.number))
    }

    fn alter(&mut self, line: u64, wrong: Wrong, most: usize) {
        self.altered += 1;
        let how = How::Record(wrong);
        let at = self.alterations.partition_point(|it| it.line <= line);
        self.alterations.insert(at, Alteration { line, how });
        self.alterations.truncate(most);
    }
}

/// Many files, each looked at, and those that belong together.
#[derive(Debug, Default)]
pub struct CheckedSet {
    /// Those that could be read, in the order given.
    pub files: Vec<Checked>,
    /// Why the others could not.
    pub unreadable: Vec<EvidenceError>,
}

impl CheckedSet {
    /// Whether all could be read and nothing was found altered.
    pub fn is_whole(&self) -> bool {
        self.unreadable.is_empty() && self.files.iter().all(Checked::is_whole)
    }

    /// The root of all files: [`chain::root`].
    pub fn root(&self) -> ChainValue {
        chain::root(self.files.iter().map(|file| (file.cell_id(), file.root)))
    }

    /// Whether a value that was kept elsewhere is that of these files: their common root or, where
    /// they are the evidence of one cell, that of its last file.
    pub fn comes_to(&self, root: ChainValue) -> bool {
        let followed = |it: &&Checked| {
            let follows = |other: &Checked| {
                let segment = other.header.as_ref().and_then(|header| header.segment);
                segment.is_some_and(|segment| Some(segment.previous) == it.stated)
            };
            self.files.iter().any(follows)
        };
        let mut last = self.files.iter().filter(|file| !followed(file));
        let only = last.next().filter(|_| last.next().is_none());
        self.root() == root || only.is_some_and(|file| file.root == root)
    }
}

/// Looks at files, and at whether their segments are in a row; of each at most `most` alterations
/// are named.
pub fn check_all(paths: &[PathBuf], most: usize) -> CheckedSet {
    let mut set = CheckedSet::default();
    for path in paths {
        match check(path, most) {
            Ok(file) => set.files.push(file),
            Err(error) => set.unreadable.push(error),
        }
    }
    let files = &mut set.files;
    for at in 0..files.len() {
        let Some(file) = files.get(at) else { continue };
        let Some(header) = &file.header else { continue };
        let Some(segment) = header.segment else {
            continue;
        };
        let number = segment.number.saturating_sub(1);
        let before: Vec<usize> = (0..files.len())
            .filter(|other| {
                files.get(*other).is_some_and(|other| {
                    let theirs = other.header.as_ref();
                    other.number() == Some(number)
                        && theirs.is_some_and(|theirs| {
                            theirs.cell_id == header.cell_id && theirs.run_id == header.run_id
                        })
                })
            })
            .collect();
        let follows = before.iter().find(|other| {
            let other = files.get(**other);
            other.is_some_and(|other| other.stated == Some(segment.previous))
        });
        match follows {
            // Only a whole file is followed by another: nobody was killed at its end.
            Some(before) => {
                if let Some(before) = files.get_mut(*before)
                    && before.torn
                {
                    let line = before.lines + 1;
                    before.alter(line, Wrong::Tail, most);
                }
            }
            None => {
                let wrong = if before.is_empty() {
                    Wrong::NoSegmentBefore { number }
                } else {
                    Wrong::OtherSegmentBefore { number }
                };
                if let Some(file) = files.get_mut(at) {
                    file.alter(1, wrong, most);
                }
            }
        }
    }
    set
}

/// Looks at one file; at most `most` alterations are named.
///
/// # Errors
/// When the file cannot be read, is of another format, or has no header and no chain.
pub fn check(path: &Path, most: usize) -> Result<Checked, EvidenceError> {
    let file = File::open(path).map_err(|source| io_error("open", path, source))?;
    let mut input = BufReader::new(file);
    let mut line = Vec::new();
    if !next_line(&mut input, &mut line, path, 1)? {
        let path = path.to_owned();
        return Err(EvidenceError::NoHeader { path });
    }
    let parsed = parse_header(&line, path);
    let start = parsed
        .as_ref()
        .map_or(ChainValue::START, Header::chain_start);
    let mut walk = Walk::new(start, most);
    walk.take(&line);
    let header = match parsed {
        Ok(header) => Some(header),
        // A chain that does not hold says what became of the header.
        Err(_) if walk.count() > 0 => None,
        Err(error) => return Err(error),
    };
    let mut records = Records::new(most);
    loop {
        let number = walk.lines() + 1;
        if !next_line(&mut input, &mut line, path, number)? {
            break;
        }
        let before = walk.count();
        walk.take(&line);
        records.take(number, &line, walk.count() > before);
    }
    let torn = !line.is_empty();
    let stated = walk.last();
    if torn && !chain::can_be_torn(&line, stated) {
        records.say(walk.lines() + 1, Wrong::Tail);
    }
    let Walked {
        lines,
        chained,
        root,
        broken,
        count,
    } = walk.end();
    let mut alterations: Vec<Alteration> = broken
        .into_iter()
        .map(|it| Alteration {
            line: it.line,
            how: How::Chain(it.how),
        })
        .chain(records.alterations)
        .collect();
    alterations.sort_by_key(|it| it.line);
    alterations.truncate(most);
    Ok(Checked {
        path: path.to_owned(),
        header,
        lines,
        samples: records.samples.len() as u64,
        chained,
        root,
        stated,
        torn,
        closed: records.closed,
        alterations,
        altered: count + records.count,
    })
}

/// The records of a file, apart from their chain.
struct Records {
    /// Ids of samples, and the line of each.
    samples: HashMap<u128, u64>,
    closed: bool,
    most: usize,
    alterations: Vec<Alteration>,
    count: u64,
}

impl Records {
    fn new(most: usize) -> Self {
        Self {
            samples: HashMap::new(),
            closed: false,
            most,
            alterations: Vec::new(),
            count: 0,
        }
    }

    /// `named` says that the line is one of those at which the chain does not hold.
    fn take(&mut self, number: u64, line: &[u8], named: bool) {
        self.closed = false;
        let any: AnyLine = match serde_json::from_slice(line) {
            Ok(any) => any,
            Err(error) => {
                if !named {
                    let why = error.to_string();
                    self.say(number, Wrong::NoRecord { why });
                }
                return;
            }
        };
        self.closed = any.close.is_some();
        let Some(sample) = any.sample else { return };
        if sample.attempts.is_empty() && !named {
            let why = "a sample without an attempt".to_owned();
            self.say(number, Wrong::NoRecord { why });
        }
        let first = *self.samples.entry(key(&sample.id)).or_insert(number);
        if first != number {
            self.say(number, Wrong::Repeated { first });
        }
    }

    fn say(&mut self, line: u64, wrong: Wrong) {
        self.count += 1;
        if self.alterations.len() < self.most {
            let how = How::Record(wrong);
            self.alterations.push(Alteration { line, how });
        }
    }
}

#[cfg(test)]
mod tests;
