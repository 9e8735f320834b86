//! The evidence of all cells of a soak: read once at the start, then written to, few files open at a
//! time.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::mem;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::evidence::{
    Close, Evidence, EvidenceError, Header, Parked, SEGMENT_BYTES, Sample, Segments, Session,
    Skipped,
};

/// Files that are open at a time, besides those that wait to be synced.
const OPEN: usize = 64;
/// Files that wait to be synced before the writer waits for them.
const UNSYNCED: usize = 64;
/// How often evidence is made to survive the death of the machine; that of the process it survives
/// line by line.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// The evidence files of one collector.
pub(super) struct Records {
    cells: Vec<Record>,
    /// Those that are open, the one longest unused first.
    open: VecDeque<usize>,
    syncing: Syncing,
    session: Session,
}

struct Record {
    path: PathBuf,
    file: Filed,
    /// Whether this session has said that it is there.
    announced: bool,
    settled: Indices,
}

enum Filed {
    /// Nothing is on file.
    Absent,
    Parked(Box<Parked>),
    Open(Box<Segments>),
}

/// What was on file of a cell when a collector began.
pub(super) type Earlier<'a> = &'a mut dyn FnMut(usize, &Evidence);

impl Records {
    /// Reads what is on file of these cells, by their first files, one after the other.
    ///
    /// # Errors
    /// When a file is there and cannot be read as evidence.
    pub(super) fn open(
        paths: Vec<PathBuf>,
        session: Session,
        earlier: Earlier<'_>,
    ) -> Result<Self, EvidenceError> {
        let mut cells = Vec::with_capacity(paths.len());
        for (cell, path) in paths.into_iter().enumerate() {
            let mut settled = Indices::default();
            let file = if path.exists() {
                let (segments, evidence) = Segments::reopen(&path, SEGMENT_BYTES)?;
                let samples = evidence.samples.iter().map(|it| it.index);
                let skipped = evidence.skipped.iter().map(|it| it.index);
                samples
                    .chain(skipped)
                    .for_each(|index| settled.insert(index));
                earlier(cell, &evidence);
                Filed::Parked(Box::new(segments.park()))
            } else {
                Filed::Absent
            };
            cells.push(Record {
                path,
                file,
                announced: false,
                settled,
            });
        }
        Ok(Self {
            cells,
            open: VecDeque::new(),
            syncing: Syncing::start(),
            session,
        })
    }

    /// Whether a slot of a cell has its sample, or the reason why it has none, on file.
    pub(super) fn is_settled(&self, cell: usize, index: u64) -> bool {
        self.cells
            .get(cell)
            .is_some_and(|record| record.settled.contains(index))
    }

    /// Puts a sample on file.
    ///
    /// # Errors
    /// When it cannot be written whole; nothing of it is then left.
    pub(super) fn sample(
        &mut self,
        cell: usize,
        sample: &Sample,
        header: &dyn Fn() -> Header,
    ) -> Result<(), EvidenceError> {
        self.append(cell, header, |file| file.sample(sample))?;
        self.settle(cell, sample.index);
        Ok(())
    }

    /// Puts on file why a slot has no sample.
    ///
    /// # Errors
    /// As [`Records::sample`].
    pub(super) fn skipped(
        &mut self,
        cell: usize,
        skipped: &Skipped,
        header: &dyn Fn() -> Header,
    ) -> Result<(), EvidenceError> {
        self.append(cell, header, |file| file.skipped(skipped))?;
        self.settle(cell, skipped.index);
        Ok(())
    }

    fn settle(&mut self, cell: usize, index: u64) {
        if let Some(record) = self.cells.get_mut(cell) {
            record.settled.insert(index);
        }
    }

    /// Ends this session in every file to which it wrote.
    ///
    /// # Errors
    /// When a file cannot be written or synced.
    pub(super) fn close(mut self, close: &dyn Fn(usize) -> Close) -> Result<(), EvidenceError> {
        self.syncing.stop();
        self.syncing.outcome()?;
        for cell in 0..self.cells.len() {
            if self.cells.get(cell).is_some_and(|record| record.announced) {
                let close = close(cell);
                self.with(cell, |file| file.close(&close))?;
            }
        }
        Ok(())
    }

    /// Writes to a cell's file, which is begun where it is not there, and in which this session is
    /// announced where it is not yet.
    fn append(
        &mut self,
        cell: usize,
        header: &dyn Fn() -> Header,
        write: impl FnOnce(&mut Segments) -> Result<(), EvidenceError>,
    ) -> Result<(), EvidenceError> {
        self.syncing.outcome()?;
        let Some(record) = self.cells.get_mut(cell) else {
            return Ok(());
        };
        if matches!(record.file, Filed::Absent) {
            let begun = Segments::create(&record.path, &header(), SEGMENT_BYTES)?;
            record.file = Filed::Parked(Box::new(begun.park()));
        }
        if !record.announced {
            let session = self.session.clone();
            self.with(cell, |file| file.session(&session))?;
            if let Some(record) = self.cells.get_mut(cell) {
                record.announced = true;
            }
        }
        self.with(cell, write)
    }

    /// Does something with a cell's open file; with one that is not there it is not done.
    fn with(
        &mut self,
        cell: usize,
        work: impl FnOnce(&mut Segments) -> Result<(), EvidenceError>,
    ) -> Result<(), EvidenceError> {
        let Some(record) = self.cells.get_mut(cell) else {
            return Ok(());
        };
        if let Filed::Parked(parked) = &record.file {
            record.file = Filed::Open(Box::new(parked.reopen()?));
        }
        let Filed::Open(file) = &mut record.file else {
            return Ok(());
        };
        work(file)?;
        self.syncing.owes(cell, file)?;
        self.open.retain(|other| *other != cell);
        self.open.push_back(cell);
        if self.open.len() > OPEN
            && let Some(longest) = self.open.pop_front()
            && let Some(record) = self.cells.get_mut(longest)
        {
            record.file = match mem::replace(&mut record.file, Filed::Absent) {
                Filed::Open(file) => Filed::Parked(Box::new(file.park())),
                other @ (Filed::Absent | Filed::Parked(_)) => other,
            };
        }
        Ok(())
    }

    /// Hands a further file over to be synced each second.
    pub(super) fn sync_too(&self, path: PathBuf, file: File) {
        self.syncing.always(path, file);
    }
}

/// A set of small numbers.
#[derive(Debug, Default)]
struct Indices(Vec<u64>);

impl Indices {
    fn place(index: u64) -> Option<(usize, u64)> {
        Some((usize::try_from(index / 64).ok()?, 1 << (index % 64)))
    }

    fn insert(&mut self, index: u64) {
        // No plan has more slots; what a forged file claims must not take the memory.
        if index > crate::spec::MOST_SAMPLES {
            return;
        }
        if let Some((word, bit)) = Self::place(index) {
            if self.0.len() <= word {
                self.0.resize(word + 1, 0);
            }
            if let Some(word) = self.0.get_mut(word) {
                *word |= bit;
            }
        }
    }

    fn contains(&self, index: u64) -> bool {
        Self::place(index)
            .and_then(|(word, bit)| Some(self.0.get(word)? & bit != 0))
            .unwrap_or(false)
    }
}

/// A thread that syncs what was written, off the one that starts calls.
struct Syncing {
    shared: Arc<Shared>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Files that were written to since they were synced, by cell and number of the segment.
    owed: Mutex<BTreeMap<(usize, u32), (PathBuf, File)>>,
    always: Mutex<Vec<(PathBuf, File)>>,
    failed: Mutex<Option<EvidenceError>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn sync(&self) {
        let owed = mem::take(&mut *lock(&self.owed));
        let fail = |path: &PathBuf, source| {
            lock(&self.failed).get_or_insert_with(|| EvidenceError::Io {
                action: "sync",
                path: path.clone(),
                source,
            });
        };
        for (path, file) in owed.into_values() {
            file.sync_data()
                .unwrap_or_else(|source| fail(&path, source));
        }
        for (path, file) in &*lock(&self.always) {
            file.sync_data().unwrap_or_else(|source| fail(path, source));
        }
    }
}

impl Syncing {
    fn start() -> Self {
        let (stop, stopped) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let for_thread = Arc::clone(&shared);
        let work = move || {
            while stopped.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                for_thread.sync();
            }
        };
        let thread = thread::Builder::new()
            .name("relayproof-sync".to_owned())
            .spawn(work)
            .ok();
        Self {
            shared,
            stop: Some(stop),
            thread,
        }
    }

    /// Notes that a file was written to.
    fn owes(&self, cell: usize, file: &Segments) -> Result<(), EvidenceError> {
        let mut owed = lock(&self.shared.owed);
        let key = (cell, file.number());
        if let std::collections::btree_map::Entry::Vacant(vacant) = owed.entry(key) {
            vacant.insert((file.path().to_owned(), file.handle()?));
        }
        let many = owed.len() > UNSYNCED;
        drop(owed);
        // Without the thread, too.
        if many || self.thread.is_none() {
            self.shared.sync();
        }
        Ok(())
    }

    fn always(&self, path: PathBuf, file: File) {
        lock(&self.shared.always).push((path, file));
    }

    /// What the system could not sync.
    fn outcome(&self) -> Result<(), EvidenceError> {
        lock(&self.shared.failed).take().map_or(Ok(()), Err)
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did, the files are synced here.
            thread.join().ok();
        }
        self.shared.sync();
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::evidence::{CloseReason, read_segments};
    use crate::run::collect::testing::session;

    #[test]
    fn thousands_of_cells_are_written_to_by_few_open_files_and_none_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let cells = 3 * OPEN;
        let path = |cell: usize| folder.path().join(format!("{cell}.jsonl"));
        let paths = || (0..cells).map(path).collect();
        let begin = |earlier: Earlier<'_>| Records::open(paths(), session(), earlier).unwrap();
        let mut records = begin(&mut |_, _| panic!("nothing is on file"));
        for index in 0..3 {
            for cell in 0..cells {
                let one = sample(index, good());
                assert!(!records.is_settled(cell, index));
                records.sample(cell, &one, &|| header(vec![], 10)).unwrap();
                assert!(records.is_settled(cell, index));
                assert!(records.open.len() <= OPEN);
            }
        }
        records.close(&|_| close(CloseReason::Paused)).unwrap();
        let mut seen = 0;
        let records = begin(&mut |_, evidence| {
            assert_eq!(evidence.samples.len(), 3);
            assert_eq!(evidence.sessions, [session()]);
            assert!(evidence.close.is_some());
            seen += 1;
        });
        assert_eq!(seen, cells);
        assert!(records.is_settled(5, 2) && !records.is_settled(5, 3));
        // A session that writes nothing leaves nothing.
        records.close(&|_| close(CloseReason::Paused)).unwrap();
        assert!(read_segments(&path(0)).unwrap().earlier.is_empty());
    }

    #[test]
    fn a_file_that_somebody_else_has_written_to_is_not_written_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cell.jsonl");
        let mut records = Records::open(vec![path.clone()], session(), &mut |_, _| {}).unwrap();
        let head = || header(vec![], 10);
        records.sample(0, &sample(0, good()), &head).unwrap();
        let record = &mut records.cells[0];
        record.file = match mem::replace(&mut record.file, Filed::Absent) {
            Filed::Open(file) => Filed::Parked(Box::new(file.park())),
            other @ (Filed::Absent | Filed::Parked(_)) => other,
        };
        let mut other = File::options().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut other, b"{}\n").unwrap();
        let error = records.sample(0, &sample(1, good()), &head).unwrap_err();
        assert!(matches!(error, EvidenceError::Changed { .. }), "{error}");
    }
}
