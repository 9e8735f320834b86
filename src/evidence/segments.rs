//! Evidence that goes on in further files, so that none grows without bound.
//!
//! `STEM.jsonl`, `STEM-0002.jsonl`, …: each begins with a header that names the last chain value of
//! the one before, and so cannot be left out unseen.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use super::error::io_error;
use super::file::End;
use super::{
    ChainValue, Close, Continued, Evidence, EvidenceError, Header, Reader, Sample, Segment,
    Session, Skipped, Writer,
};

/// Bytes behind which a further file is begun, where nothing else is said.
pub const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// Most entries of a folder that are looked at.
const MOST_ENTRIES: usize = 100_000;

/// Appends to the evidence of one cell, and begins a further file where one is full.
#[derive(Debug)]
pub struct Segments {
    first: PathBuf,
    bound: u64,
    /// The first line of a further file, but for its number.
    header: Header,
    number: u32,
    writer: Writer,
}

impl Segments {
    /// Begins the first file of a cell; a file that is already there is never touched.
    ///
    /// A file that is longer than `bound` bytes takes no further line.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn create(first: &Path, header: &Header, bound: u64) -> Result<Self, EvidenceError> {
        let writer = begin(first, header)?;
        Ok(Self {
            first: first.to_owned(),
            bound,
            header: header.clone(),
            number: 1,
            writer,
        })
    }

    /// Opens the last file of a cell to write on, cuts off a torn last line, and gives what is in
    /// all of them.
    ///
    /// # Errors
    /// When they cannot be read as evidence, one is missing, or the last cannot be written.
    pub fn reopen(first: &Path, bound: u64) -> Result<(Self, Evidence), EvidenceError> {
        let files = segment_files(first)?;
        let number = u32::try_from(files.len()).unwrap_or(u32::MAX);
        let (evidence, end) = Reader::open_files(files)?.following().collect_all()?;
        let segments = Self {
            first: first.to_owned(),
            bound,
            header: evidence.header.clone(),
            number,
            writer: Writer::behind(end)?,
        };
        Ok((segments, evidence))
    }

    /// The file that is written to.
    pub fn path(&self) -> &Path {
        self.writer.path()
    }

    /// Its number, from 1. Whoever syncs through a [`Segments::handle`] needs a new one when it
    /// changes.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The chain value of the last line; `None` in evidence of a version without the chain.
    pub const fn chain(&self) -> Option<ChainValue> {
        self.writer.chain()
    }

    /// A further handle on the file that is written to: [`Writer::handle`].
    ///
    /// # Errors
    /// When the system has no handle left.
    pub fn handle(&self) -> Result<File, EvidenceError> {
        self.writer.handle()
    }

    /// Writes a sample: [`Writer::sample`].
    ///
    /// # Errors
    /// When it cannot be written whole; nothing of it is then left.
    pub fn sample(&mut self, sample: &Sample) -> Result<(), EvidenceError> {
        self.make_room()?;
        self.writer.sample(sample)
    }

    /// Writes a closing line and syncs: [`Writer::close`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn close(&mut self, close: &Close) -> Result<(), EvidenceError> {
        self.make_room()?;
        self.writer.close(close)
    }

    /// Says that the run goes on, and syncs: [`Writer::continued`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn continued(&mut self, continued: &Continued) -> Result<(), EvidenceError> {
        self.make_room()?;
        self.writer.continued(continued)?;
        self.header.go_on_with(continued);
        Ok(())
    }

    /// Says that a process collects from here on: [`Writer::session`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn session(&mut self, session: &Session) -> Result<(), EvidenceError> {
        self.make_room()?;
        self.writer.session(session)
    }

    /// Says why a slot has no sample: [`Writer::skipped`].
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn skipped(&mut self, skipped: &Skipped) -> Result<(), EvidenceError> {
        self.make_room()?;
        self.writer.skipped(skipped)
    }

    /// Closes the file, and keeps what it takes to write on without reading it again: a process
    /// that writes to thousands of cells now and then holds few of them open.
    ///
    /// What was not synced is not lost with the process, but may be with the machine.
    pub fn park(self) -> Parked {
        Parked {
            first: self.first,
            bound: self.bound,
            header: self.header,
            number: self.number,
            end: self.writer.into_end(),
        }
    }

    /// Makes what was written survive the death of the machine: [`Writer::sync`].
    ///
    /// # Errors
    /// When the system cannot say that it is on disk.
    pub fn sync(&mut self) -> Result<(), EvidenceError> {
        self.writer.sync()
    }

    /// Begins a further file where this one is full. Without a chain nothing would hold the two
    /// together, and the one goes on.
    fn make_room(&mut self) -> Result<(), EvidenceError> {
        let Some(previous) = self.writer.chain() else {
            return Ok(());
        };
        if self.writer.length() <= self.bound {
            return Ok(());
        }
        self.writer.sync()?;
        let number = self.number + 1;
        let header = Header {
            segment: Some(Segment { number, previous }),
            ..self.header.clone()
        };
        self.writer = begin(&segment_path(&self.first, number), &header)?;
        self.number = number;
        Ok(())
    }
}

/// The evidence of a cell, closed, with what it takes to write on.
#[derive(Debug)]
pub struct Parked {
    first: PathBuf,
    bound: u64,
    header: Header,
    number: u32,
    end: End,
}

impl Parked {
    /// Opens the last file again.
    ///
    /// # Errors
    /// When it cannot be opened, or somebody else has written to it.
    pub fn reopen(&self) -> Result<Segments, EvidenceError> {
        Ok(Segments {
            first: self.first.clone(),
            bound: self.bound,
            header: self.header.clone(),
            number: self.number,
            writer: Writer::behind_as_it_was(self.end.clone())?,
        })
    }
}

/// Begins a file so that it is there with its whole first line, or not at all.
fn begin(path: &Path, header: &Header) -> Result<Writer, EvidenceError> {
    if path.exists() {
        let source = std::io::ErrorKind::AlreadyExists.into();
        return Err(io_error("create", path, source));
    }
    // No reader takes it for evidence by its name; what a killed process left of it is written over.
    let draft = path.with_extension("jsonl.new");
    let file = fs::remove_file(&draft)
        .or_else(|error| {
            let absent = error.kind() == std::io::ErrorKind::NotFound;
            if absent { Ok(()) } else { Err(error) }
        })
        .and_then(|()| {
            OpenOptions::new()
                .append(true)
                .create_new(true)
                .open(&draft)
        })
        .map_err(|source| io_error("create", path, source))?;
    let begun = Writer::begin(path, file, header).and_then(|writer| {
        fs::rename(&draft, path).map_err(|source| io_error("create", path, source))?;
        sync_folder_of(path);
        Ok(writer)
    });
    if begun.is_err() {
        // A full disk has no room for it either; the next try removes it if this does not.
        fs::remove_file(&draft).ok();
    }
    begun
}

/// Makes the name of a new file survive the death of the machine.
fn sync_folder_of(path: &Path) {
    // Not every system can; the file itself is synced either way.
    File::open(folder_of(path))
        .and_then(|folder| folder.sync_all())
        .ok();
}

fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| *parent != Path::new(""))
        .unwrap_or_else(|| Path::new("."))
}

/// Where a segment lies: `STEM.jsonl` is the first, `STEM-0002.jsonl` the second.
pub fn segment_path(first: &Path, number: u32) -> PathBuf {
    if number <= 1 {
        return first.to_owned();
    }
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    first.with_file_name(format!("{stem}-{number:04}.jsonl"))
}

/// The files of a cell's evidence in order, by the first of them.
///
/// A file is one of them where its name and its header say so.
///
/// # Errors
/// When the folder or a header cannot be read, one of the files is missing, or one is of other
/// evidence.
pub fn segment_files(first: &Path) -> Result<Vec<PathBuf>, EvidenceError> {
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    let mut numbers = Vec::new();
    let entries =
        fs::read_dir(folder_of(first)).map_err(|source| io_error("look for", first, source))?;
    for entry in entries.take(MOST_ENTRIES) {
        let entry = entry.map_err(|source| io_error("look for", first, source))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name
            .strip_prefix(&*stem)
            .and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".jsonl"))
            .filter(|digits| digits.len() >= 4 && digits.bytes().all(|it| it.is_ascii_digit()))
            .and_then(|digits| digits.parse::<u32>().ok())
            .filter(|number| *number > 1);
        if let Some(number) = number
            && segment_path(first, number).file_name() == Some(&*entry.file_name())
            && Reader::open(&segment_path(first, number))?
                .header()
                .segment
                .is_some()
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    let mut files = vec![first.to_owned()];
    for (number, found) in (2..).zip(numbers) {
        let path = segment_path(first, number);
        if number != found {
            return Err(EvidenceError::Gap { path, number });
        }
        files.push(path);
    }
    Ok(files)
}

/// Reads all files of a cell's evidence as one, by the first of them.
///
/// Whether each goes on where the one before ended is not looked at: `relayproof verify` does.
///
/// # Errors
/// When one cannot be read, is missing, or is of other evidence.
pub fn read_segments(first: &Path) -> Result<Evidence, EvidenceError> {
    Reader::open_files(segment_files(first)?)?
        .collect_all()
        .map(|(evidence, _)| evidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::CloseReason;
    use crate::evidence::fixtures::*;
    use tempfile::TempDir;

    fn place() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cell.jsonl");
        (folder, path)
    }

    fn written(bound: u64, samples: u64) -> (TempDir, PathBuf) {
        let (folder, path) = place();
        let mut segments = Segments::create(&path, &header(vec![], 232), bound).unwrap();
        for index in 0..samples {
            segments.sample(&sample(index, good())).unwrap();
        }
        segments.close(&close(CloseReason::Budget)).unwrap();
        (folder, path)
    }

    fn names(files: &[PathBuf]) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(name).collect()
    }

    #[test]
    fn a_full_file_is_followed_by_another_and_all_are_read_as_one() {
        let (_folder, path) = written(4_000, 20);
        let files = segment_files(&path).unwrap();
        assert!(files.len() > 3, "{files:?}");
        assert_eq!(
            names(&files)[..3],
            ["cell.jsonl", "cell-0002.jsonl", "cell-0003.jsonl"]
        );
        let line = 1_500;
        for file in &files {
            assert!(fs::metadata(file).unwrap().len() < 4_000 + line);
        }
        let all = read_segments(&path).unwrap();
        let (_one, one) = written(SEGMENT_BYTES, 20);
        assert_eq!(segment_files(&one).unwrap().len(), 1);
        assert_eq!(all, crate::evidence::read(&one).unwrap());
    }

    #[test]
    fn each_file_names_the_end_of_the_one_before() {
        let (_folder, path) = written(3_000, 12);
        let files = segment_files(&path).unwrap();
        let mut end = None;
        for (number, file) in (1..).zip(&files) {
            let header = Reader::open(file).unwrap().header().clone();
            let wanted = end.map(|previous| Segment { number, previous });
            assert_eq!(header.segment, wanted);
            end = Writer::reopen(file).unwrap().0.chain();
        }
    }

    #[test]
    fn writing_goes_on_in_the_last_file_and_its_torn_end_is_cut_off() {
        let (_folder, path) = written(4_000, 20);
        let files = segment_files(&path).unwrap();
        let last = files.last().unwrap();
        let mut torn = OpenOptions::new().append(true).open(last).unwrap();
        std::io::Write::write_all(&mut torn, b"{\"sample\":{\"id\":").unwrap();
        assert!(read_segments(&path).unwrap().torn);
        let (mut segments, before) = Segments::reopen(&path, 4_000).unwrap();
        assert!(before.torn);
        assert_eq!(segments.path(), last);
        assert_eq!(segments.number() as usize, files.len());
        for index in 20..30 {
            segments.sample(&sample(index, good())).unwrap();
        }
        assert!(segments.number() as usize > files.len());
        let all = read_segments(&path).unwrap();
        let indices: Vec<u64> = all.samples.iter().map(|it| it.index).collect();
        assert_eq!(indices, (0..30).collect::<Vec<_>>());
        assert!(!all.torn && all.close.is_none() && all.earlier.len() == 1);
    }

    #[test]
    fn a_file_that_is_missing_between_others_is_refused_by_name() {
        let (folder, path) = written(3_000, 20);
        fs::remove_file(folder.path().join("cell-0003.jsonl")).unwrap();
        for error in [
            read_segments(&path).unwrap_err(),
            Segments::reopen(&path, 1).unwrap_err(),
        ] {
            let text = error.to_string();
            assert!(
                text.contains("cell-0003.jsonl: segment 3 is missing"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_of_other_evidence_is_refused_and_one_that_is_no_segment_is_left_alone() {
        let (folder, path) = written(3_000, 20);
        let second = folder.path().join("cell-0002.jsonl");
        fs::copy(&path, folder.path().join("cell-2026.jsonl")).unwrap();
        fs::write(folder.path().join("cell-0002.jsonl.new"), "{\"sch").unwrap();
        assert!(read_segments(&path).is_ok());
        fs::copy(folder.path().join("cell-0003.jsonl"), &second).unwrap();
        let text = read_segments(&path).unwrap_err().to_string();
        assert!(text.contains("cell-0002.jsonl:1: no segment 2"), "{text}");
        assert!(text.contains("says that it is segment 3"), "{text}");
        let other = Header {
            cell_id: "other".to_owned(),
            segment: Some(Segment {
                number: 2,
                previous: ChainValue::START,
            }),
            ..header(vec![], 232)
        };
        fs::remove_file(&second).unwrap();
        Writer::create(&second, &other).unwrap();
        let text = read_segments(&path).unwrap_err().to_string();
        assert!(text.contains("its cell_id is `other`"), "{text}");
    }

    #[test]
    fn a_further_file_that_cannot_be_begun_leaves_the_one_before_as_it_was() {
        let (folder, path) = place();
        let mut segments = Segments::create(&path, &header(vec![], 232), 3_000).unwrap();
        let draft = folder.path().join("cell-0002.jsonl.new");
        // Nothing can be put in its place.
        fs::create_dir(&draft).unwrap();
        let refused = (0..).find_map(|index| segments.sample(&sample(index, good())).err());
        let text = refused.unwrap().to_string();
        assert!(text.contains("cannot create the evidence file"), "{text}");
        let before = read_segments(&path).unwrap().samples.len() as u64;
        fs::remove_dir(&draft).unwrap();
        // A draft that a killed process left is no obstacle.
        fs::write(&draft, "{\"schema\":1,").unwrap();
        segments.sample(&sample(before, good())).unwrap();
        assert_eq!(segments.number(), 2);
        assert_eq!(
            read_segments(&path).unwrap().samples.len() as u64,
            before + 1
        );
        assert!(!draft.exists());
    }

    #[test]
    fn evidence_without_a_chain_stays_in_one_file() {
        let (_folder, path) = place();
        let old = include_str!("../../tests/data/evidence/unchained.jsonl");
        fs::write(&path, old).unwrap();
        let (mut segments, _) = Segments::reopen(&path, 100).unwrap();
        segments.sample(&sample(12, good())).unwrap();
        assert_eq!(segment_files(&path).unwrap().len(), 1);
    }
}
