//! Which calls are open, on disk: what a process that was killed had sent and nobody recorded.
//!
//! A line is written before its call is sent; once no call is open the file is emptied.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

/// Longest line.
const MOST_LINE: usize = 128;
/// Lines with which a file is not emptied before its calls end; more than can be open.
const MOST_LINES: usize = 1_000_000;

/// The file of one region.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    empty: bool,
}

impl Journal {
    /// Opens it, and gives what was open when its last process ended: ids of cells and slots.
    pub(super) fn open(folder: &Path, region: &str) -> io::Result<(Self, BTreeSet<(String, u64)>)> {
        let path = folder.join(format!("{region}.open"));
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .append(true)
            .open(&path)?;
        let mut open = BTreeSet::new();
        for line in BufReader::new(&file).split(b'\n').take(MOST_LINES) {
            // What is no line of ours was torn when a machine lost its power.
            let line = line?;
            let text = str::from_utf8(&line)
                .ok()
                .filter(|it| it.len() <= MOST_LINE);
            let parts = text.and_then(|text| text.split_once(' '));
            if let Some((cell, index)) = parts
                && let Ok(index) = index.parse()
            {
                open.insert((cell.to_owned(), index));
            }
        }
        let journal = Self {
            path,
            file,
            empty: false,
        };
        Ok((journal, open))
    }

    /// Says that a call is about to be sent.
    pub(super) fn sends(&mut self, cell: &str, index: u64) -> io::Result<()> {
        self.empty = false;
        // The line feed in front, so that half a line before it spoils nothing.
        self.file
            .write_all(format!("\n{cell} {index}\n").as_bytes())
    }

    /// Says that no call is open, and all that were are on record.
    pub(super) fn none_open(&mut self) -> io::Result<()> {
        if !self.empty {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.empty = true;
        }
        Ok(())
    }

    /// A further handle, to sync it by.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_and_not_struck_off_is_there_for_the_next_process() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, before) = Journal::open(folder.path(), "hk").unwrap();
        assert!(before.is_empty());
        journal.sends("cell", 7).unwrap();
        journal.none_open().unwrap();
        journal.sends("cell", 8).unwrap();
        // Half a line, as a killed process leaves it.
        journal.file.write_all(b"cel").unwrap();
        journal.sends("other", 9).unwrap();
        let (_, open) = Journal::open(folder.path(), "hk").unwrap();
        let wanted = [("cell".to_owned(), 8), ("other".to_owned(), 9)];
        assert_eq!(open, BTreeSet::from(wanted));
        let (_, elsewhere) = Journal::open(folder.path(), "usw").unwrap();
        assert!(elsewhere.is_empty());
    }
}
