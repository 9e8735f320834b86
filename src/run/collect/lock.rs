//! One collector for each region and folder; a second one waits to take over, a third one leaves.
//!
//! The system releases a lock when its process ends, however it ends.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Longest note of a holder that is read.
const MOST_NOTE: u64 = 256;

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "held, not used")] File);

/// The lock of a region's collector, and that of the one that waits for it.
#[derive(Debug)]
pub(super) struct Locks {
    collecting: PathBuf,
    waiting: PathBuf,
}

impl Locks {
    pub(super) fn new(folder: &Path, region: &str) -> Self {
        Self {
            collecting: folder.join(format!("{region}.lock")),
            waiting: folder.join(format!("{region}.next.lock")),
        }
    }

    /// The right to collect; `None` while somebody else has it.
    pub(super) fn collect(&self, note: &str) -> io::Result<Option<Held>> {
        take(&self.collecting, note)
    }

    /// The right to wait for it; `None` while somebody else waits.
    pub(super) fn wait(&self, note: &str) -> io::Result<Option<Held>> {
        take(&self.waiting, note)
    }

    /// What whoever collects has said of itself.
    pub(super) fn holder(&self) -> String {
        let mut note = String::new();
        let read = File::open(&self.collecting)
            .and_then(|file| file.take(MOST_NOTE).read_to_string(&mut note));
        match read {
            Ok(length) if length > 0 => note.trim().replace(char::is_control, " "),
            Ok(_) | Err(_) => "another process".to_owned(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.collecting
    }
}

fn take(path: &Path, note: &str) -> io::Result<Option<Held>> {
    let mut file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // For people only: a full disk must not keep anybody from seeing what is there.
    file.set_len(0).ok();
    file.rewind().ok();
    file.write_all(note.as_bytes()).ok();
    Ok(Some(Held(file)))
}
