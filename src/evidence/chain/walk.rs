//! Line after line along a chain: which of them are not as they were written.
//!
//! Pure, and bounded: keeps the values of a few lines, and a few of those that do not fit.

use std::collections::VecDeque;
use std::fmt;

use serde::Serialize;

use super::{ChainValue, Ending, ending};

/// Values on either side of a line that does not fit among which its place is looked for.
const NEAR: usize = 64;

/// Most lines at a time whose place is looked for.
const MOST_SEARCHED: usize = 16;

/// Longest line whose place is looked for.
const LONGEST_SEARCHED: usize = 64 * 1024;

/// A line at which the chain does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The line, from 1.
    pub line: u64,
    /// In which way.
    #[serde(flatten)]
    pub how: Break,
}

/// How a line fails to follow the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum Break {
    /// It is not as it was written, or what stood before it is gone.
    Changed,
    /// It was written behind another line: lines were moved, copied or removed.
    Moved {
        /// That line, from 1; 0 where it was the first of the file.
        behind: u64,
    },
    /// Only its value is not as it was written.
    Value,
    /// What was its value once is none any more.
    Damaged,
    /// It has no value, though the file's first line has: no version with a chain wrote it here.
    Bare,
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("was changed, or a line before it was removed"),
            Self::Moved { behind: 0 } => {
                f.write_str("is out of order: it was written as the first line")
            }
            Self::Moved { behind } => write!(
                f,
                "is out of order: it was written behind what is line {behind} now"
            ),
            Self::Value => f.write_str("has another chain value than it was written with"),
            Self::Damaged => f.write_str("has a damaged chain value"),
            Self::Bare => f.write_str("has no chain value, and the first line has one"),
        }
    }
}

/// A line that does not fit, whose place is looked for.
#[derive(Debug)]
struct Misfit {
    line: u64,
    record: Vec<u8>,
    value: ChainValue,
}

/// A walk along the lines of one file.
#[derive(Debug)]
pub(in crate::evidence) struct Walk {
    lines: u64,
    /// Whether the first line has a value.
    chained: bool,
    /// The value made anew from every line so far.
    made: ChainValue,
    /// The value that the next line has to follow.
    recorded: ChainValue,
    /// What the last line's value should be, where it does not fit.
    should_be: Option<ChainValue>,
    recent: VecDeque<(u64, ChainValue)>,
    misfits: VecDeque<Misfit>,
    most: usize,
    broken: Vec<Broken>,
    count: u64,
}

/// What came of a walk.
#[derive(Debug)]
pub(in crate::evidence) struct Walked {
    /// Lines.
    pub(in crate::evidence) lines: u64,
    /// Whether the first line has a value.
    pub(in crate::evidence) chained: bool,
    /// The value made anew from every line, whatever the lines say.
    pub(in crate::evidence) root: ChainValue,
    /// Lines at which the chain does not hold, the first of them.
    pub(in crate::evidence) broken: Vec<Broken>,
    /// How many there are.
    pub(in crate::evidence) count: u64,
}

impl Walk {
    /// A walk that begins behind a value, and names so many broken lines at most.
    pub(in crate::evidence) fn new(start: ChainValue, most: usize) -> Self {
        Self {
            lines: 0,
            chained: false,
            made: start,
            recorded: start,
            should_be: None,
            recent: VecDeque::from([(0, start)]),
            misfits: VecDeque::new(),
            most,
            broken: Vec::new(),
            count: 0,
        }
    }

    /// Takes the next line, without its line feed.
    pub(in crate::evidence) fn take(&mut self, line: &[u8]) {
        self.lines += 1;
        let end = ending(line);
        if self.lines == 1 {
            self.chained = end != Ending::Bare;
        }
        let should_be = self.should_be.take();
        let before = self.recorded;
        match end {
            Ending::Value { record, value } => {
                let follows = before.then(record);
                self.made = if before == self.made {
                    follows
                } else {
                    self.made.then(record)
                };
                self.recorded = value;
                if self.chained && follows != value {
                    self.misfit(record, value, follows, should_be);
                }
                self.passes(value);
            }
            Ending::Damaged | Ending::Bare => {
                self.made = self.made.then(line);
                self.recorded = before.then(line);
                if self.chained {
                    self.says(if end == Ending::Bare {
                        Break::Bare
                    } else {
                        Break::Damaged
                    });
                    // What follows it follows the value that it had.
                    self.should_be = record_of_damaged(line).map(|record| before.then(record));
                }
            }
        }
    }

    fn misfit(
        &mut self,
        record: &[u8],
        value: ChainValue,
        follows: ChainValue,
        should_be: Option<ChainValue>,
    ) {
        if should_be.is_some_and(|it| it.then(record) == value) {
            // The line before is as it was written but for its value.
            if let Some(last) = self.broken.last_mut()
                && last.line + 1 == self.lines
                && last.how == Break::Changed
            {
                last.how = Break::Value;
            }
            return;
        }
        self.should_be = Some(follows);
        let behind = self
            .recent
            .iter()
            .find(|(_, recent)| recent.then(record) == value)
            .map(|(line, _)| *line);
        self.says(behind.map_or(Break::Changed, |behind| Break::Moved { behind }));
        let named = self.broken.last().is_some_and(|it| it.line == self.lines);
        if behind.is_none()
            && named
            && self.misfits.len() < MOST_SEARCHED
            && record.len() <= LONGEST_SEARCHED
        {
            self.misfits.push_back(Misfit {
                line: self.lines,
                record: record.to_vec(),
                value,
            });
        }
    }

    /// Looks whether an earlier line was written behind the one with this value.
    fn passes(&mut self, value: ChainValue) {
        while let Some(first) = self.misfits.front()
            && first.line + (NEAR as u64) < self.lines
        {
            self.misfits.pop_front();
        }
        if let Some(at) = self
            .misfits
            .iter()
            .position(|it| it.line != self.lines && value.then(&it.record) == it.value)
            && let Some(misfit) = self.misfits.remove(at)
        {
            let behind = self.lines;
            let found = self.broken.iter_mut().find(|it| it.line == misfit.line);
            if let Some(broken) = found {
                broken.how = Break::Moved { behind };
            }
        }
        if self.recent.len() > NEAR {
            self.recent.pop_front();
        }
        self.recent.push_back((self.lines, value));
    }

    fn says(&mut self, how: Break) {
        self.count += 1;
        if self.broken.len() < self.most {
            let line = self.lines;
            self.broken.push(Broken { line, how });
        }
    }

    /// The value that a further line would have to follow.
    pub(in crate::evidence) fn last(&self) -> Option<ChainValue> {
        self.chained.then_some(self.recorded)
    }

    /// Lines so far.
    pub(in crate::evidence) const fn lines(&self) -> u64 {
        self.lines
    }

    /// Lines so far at which the chain does not hold.
    pub(in crate::evidence) const fn count(&self) -> u64 {
        self.count
    }

    pub(in crate::evidence) fn end(self) -> Walked {
        Walked {
            lines: self.lines,
            chained: self.chained,
            root: self.made,
            broken: self.broken,
            count: self.count,
        }
    }
}

/// What a damaged value covered, where the damage is to the member alone.
fn record_of_damaged(line: &[u8]) -> Option<&[u8]> {
    line.len()
        .checked_sub(super::LENGTH)
        .map(|length| &line[..length])
}

#[cfg(test)]
mod tests {
    use super::super::seal;
    use super::*;

    fn chain(count: usize) -> Vec<Vec<u8>> {
        let mut value = ChainValue::START;
        let line = |number| {
            let mut line = format!("{{\"line\":{number}}}").into_bytes();
            value = seal(value, &mut line);
            line
        };
        (1..=count).map(line).collect()
    }

    fn walk(lines: &[Vec<u8>]) -> Walked {
        let mut walk = Walk::new(ChainValue::START, 100);
        lines.iter().for_each(|line| walk.take(line));
        walk.end()
    }

    fn broken(lines: &[Vec<u8>]) -> Vec<(u64, Break)> {
        let walked = walk(lines);
        assert_eq!(walked.count, walked.broken.len() as u64);
        walked.broken.iter().map(|it| (it.line, it.how)).collect()
    }

    #[test]
    fn a_chain_that_nobody_touched_holds_and_ends_with_its_root() {
        let mut walk = Walk::new(ChainValue::START, 1);
        chain(200).iter().for_each(|line| walk.take(line));
        let last = walk.last();
        let walked = walk.end();
        assert_eq!((walked.lines, walked.count), (200, 0));
        assert_eq!(last, Some(walked.root));
    }

    #[test]
    fn a_changed_line_is_named_and_no_other() {
        let whole = chain(9);
        for at in 0..9 {
            let mut lines = whole.clone();
            lines[at][2] = b'L';
            assert_eq!(broken(&lines), [(at as u64 + 1, Break::Changed)]);
            assert_ne!(walk(&lines).root, walk(&whole).root);
        }
    }

    #[test]
    fn a_changed_value_is_told_from_a_changed_line_where_another_follows() {
        for at in 0..8 {
            let mut lines = chain(9);
            let digit = lines[at].len() - 3;
            lines[at][digit] = if lines[at][digit] == b'0' { b'1' } else { b'0' };
            assert_eq!(broken(&lines), [(at as u64 + 1, Break::Value)]);
            let mut lines = chain(9);
            lines[at][digit] = b'!';
            assert_eq!(broken(&lines), [(at as u64 + 1, Break::Damaged)]);
        }
    }

    #[test]
    fn a_removed_line_is_named_where_it_stood() {
        for at in 0..8 {
            let mut lines = chain(9);
            lines.remove(at);
            assert_eq!(broken(&lines), [(at as u64 + 1, Break::Changed)]);
        }
    }

    #[test]
    fn lines_out_of_order_are_told_where_they_were() {
        let mut lines = chain(9);
        lines.swap(3, 4);
        assert_eq!(
            broken(&lines),
            [
                (4, Break::Moved { behind: 5 }),
                (5, Break::Moved { behind: 3 }),
                (6, Break::Moved { behind: 4 }),
            ]
        );
        let mut lines = chain(9);
        lines.insert(5, lines[4].clone());
        assert_eq!(broken(&lines), [(6, Break::Moved { behind: 4 })]);
    }

    #[test]
    fn a_line_without_a_value_is_named_in_a_chain_and_its_followers_are_not_blamed() {
        let mut lines = chain(4);
        lines.push(b"{\"line\":5}".to_vec());
        assert_eq!(broken(&lines), [(5, Break::Bare)]);
    }

    #[test]
    fn a_file_without_a_chain_has_a_root_that_every_byte_changes() {
        let lines = vec![b"{\"line\":1}".to_vec(), b"{\"line\":2}".to_vec()];
        let whole = walk(&lines);
        assert!(!whole.chained && whole.count == 0);
        for (line, at) in [(0, 3), (1, 9)] {
            let mut changed = lines.clone();
            changed[line][at] ^= 1;
            assert_ne!(walk(&changed).root, whole.root);
        }
    }

    #[test]
    fn what_is_kept_of_a_file_that_is_nothing_but_misfits_is_bounded() {
        let mut lines = chain(3000);
        lines.reverse();
        let mut walk = Walk::new(ChainValue::START, 10);
        for line in &lines {
            walk.take(line);
            assert!(walk.misfits.len() <= MOST_SEARCHED && walk.recent.len() <= NEAR + 1);
        }
        let walked = walk.end();
        assert_eq!((walked.count, walked.broken.len()), (3000, 10));
    }
}
