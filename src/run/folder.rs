//! The run's folder: where evidence lies, and the lock that lets one process sample a cell.
//!
//! Every test of one `cargo nextest run` is a process of its own; they meet here.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

use crate::plan::Cell;
use crate::probe::clock::Clock;

/// Most folders whose names are read to find the latest.
const MOST_FOLDERS: usize = 10_000;

/// A folder that holds everything one run leaves behind.
#[derive(Clone, Debug)]
pub struct RunFolder {
    path: PathBuf,
    id: String,
}

/// Our own failure to use the run's folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {path}")]
pub struct FolderError {
    what: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl RunFolder {
    /// Opens (and makes) the folder of a run under `root`.
    ///
    /// The id must be one path component; anything else in it is replaced.
    pub fn open(root: &Path, id: &str) -> Result<Self, FolderError> {
        let id = component(id);
        let path = root.join(&id);
        fs::create_dir_all(&path).map_err(|source| FolderError {
            what: "make the run's folder",
            path: path.clone(),
            source,
        })?;
        Ok(Self { path, id })
    }

    /// The run's name.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The evidence file of a cell.
    pub fn evidence(&self, cell: &Cell) -> PathBuf {
        self.path.join(format!("{}.jsonl", file_stem(cell)))
    }

    /// Waits for and takes the cell's lock; the system releases it when the process ends.
    pub fn lock(&self, cell: &Cell) -> Result<File, FolderError> {
        let path = self.path.join(format!("{}.lock", file_stem(cell)));
        let locked = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .and_then(|file| file.lock().map(|()| file));
        locked.map_err(|source| FolderError {
            what: "lock",
            path,
            source,
        })
    }
}

/// A name for a run that no run before had: sortable by time, unique by process.
pub fn fresh_run_id() -> String {
    let now = Clock::start().unix_ns();
    format!("{:013x}-{:x}", now / 1_000_000, std::process::id())
}

/// The folders of runs under `root`, the latest first.
pub fn latest_runs(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().take(MOST_FOLDERS);
    let mut runs: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let facts = entry.metadata().ok().filter(fs::Metadata::is_dir)?;
            Some((facts.modified().ok()?, entry.path()))
        })
        .collect();
    runs.sort_by(|a, b| b.cmp(a));
    runs.into_iter().map(|(_, path)| path).collect()
}

/// `relay-model-workload-1a2b3c4d`: readable, and unique by the cell's id.
pub(super) fn file_stem(cell: &Cell) -> String {
    let name = readable_stem(cell);
    format!("{name}-{}", cell.id.get(..8).unwrap_or(&cell.id))
}

/// What the names of a cell's files begin with, whatever its plan.
pub(super) fn readable_stem(cell: &Cell) -> String {
    let mut name = component(&cell.name());
    name.truncate(80);
    name
}

/// Keeps what every file system takes; a name that had to be cut keeps a hash of the whole.
pub(super) fn component(text: &str) -> String {
    let safe: String = text
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => c,
            _ => '-',
        })
        .collect();
    let safe = safe.trim_start_matches('.');
    if safe.is_empty() || safe.len() > 100 {
        let hash = Sha256::digest(text.as_bytes());
        let hex: String = hash
            .iter()
            .take(8)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        return format!("{}{hex}", safe.get(..80).unwrap_or_default());
    }
    safe.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_cannot_leave_the_root() {
        let root = tempfile::tempdir().unwrap();
        let folder = RunFolder::open(root.path(), "../../etc").unwrap();
        assert_eq!(folder.path().parent(), Some(root.path()));
        assert!(!folder.id().starts_with('.'));
    }

    #[test]
    fn an_overlong_run_id_keeps_runs_apart() {
        let a = component(&"x".repeat(300));
        let b = component(&"x".repeat(301));
        assert!(a.len() <= 100 && b.len() <= 100);
        assert_ne!(a, b);
    }
}
