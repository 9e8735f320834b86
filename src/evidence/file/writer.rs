//! Writing evidence: one `write` per line, and nothing left of one that does not fit.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{End, Evidence, MAX_LINE, Reader};
use crate::evidence::chain::{ChainValue, seal};
use crate::evidence::error::io_error;
use crate::evidence::{Close, Continued, EvidenceError, Header, Line, Sample, Session, Skipped};

/// Appends to one evidence file.
#[derive(Debug)]
pub struct Writer {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// Length of the file: whole lines only.
    pub(super) length: u64,
    /// Lines written since the last [`Writer::sync`].
    pub(super) dirty: bool,
    /// Part of a line may be left behind the whole ones.
    pub(super) spoilt: bool,
    /// The value that the next line follows; `None` in a file of a version without the chain.
    pub(super) chain: Option<ChainValue>,
    pub(super) buffer: Vec<u8>,
}

impl Writer {
    /// Begins a new file with its header; a file that is already there is never touched.
    ///
    /// # Errors
    /// When the file exists or cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, EvidenceError> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|source| io_error("create", path, source))?;
        Self::begin(path, file, header)
    }

    /// Writes the first line of an empty file.
    pub(in crate::evidence) fn begin(
        path: &Path,
        file: File,
        header: &Header,
    ) -> Result<Self, EvidenceError> {
        let mut writer = Self {
            path: path.to_owned(),
            file,
            length: 0,
            dirty: false,
            spoilt: false,
            chain: Some(header.chain_start()),
            buffer: Vec::new(),
        };
        writer.append(header)?;
        writer.sync()?;
        Ok(writer)
    }

    /// Opens a file to write on, cuts off a torn last line, and gives what is in it.
    ///
    /// The chain goes on behind the last whole line; a file without one stays without.
    ///
    /// # Errors
    /// When the file cannot be read as evidence or not be written, or has a chain that its last
    /// line does not carry.
    pub fn reopen(path: &Path) -> Result<(Self, Evidence), EvidenceError> {
        let (evidence, end) = Reader::open(path)?.following().collect_all()?;
        Ok((Self::behind(end)?, evidence))
    }

    /// Writes on behind the last whole line of a file that was read to its end.
    pub(in crate::evidence) fn behind(end: End) -> Result<Self, EvidenceError> {
        let End { path, whole, .. } = end;
        if end.chained && end.chain.is_none() {
            let line = end.line;
            return Err(EvidenceError::Unlinked { path, line });
        }
        let file = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|source| io_error("open", &path, source))?;
        if end.torn {
            file.set_len(whole)
                .map_err(|source| io_error("cut the torn end off", &path, source))?;
        }
        Ok(Self {
            path,
            file,
            length: whole,
            dirty: end.torn,
            spoilt: false,
            chain: end.chain.filter(|_| end.chained),
            buffer: Vec::new(),
        })
    }

    /// [`Writer::behind`] a file that nobody should have touched since.
    pub(in crate::evidence) fn behind_as_it_was(end: End) -> Result<Self, EvidenceError> {
        let (whole, torn) = (end.whole, end.torn);
        let writer = Self::behind(end)?;
        let path = &writer.path;
        let now = std::fs::metadata(path).map_err(|source| io_error("open", path, source))?;
        if now.len() != whole && !torn {
            return Err(EvidenceError::Changed { path: path.clone() });
        }
        Ok(writer)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length of the file in bytes: whole lines only.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The chain value of the last line; `None` in a file of a version without the chain.
    pub const fn chain(&self) -> Option<ChainValue> {
        self.chain
    }

    /// A further handle on the file, so that another thread can sync it while this one writes.
    ///
    /// # Errors
    /// When the system has no handle left.
    pub fn handle(&self) -> Result<File, EvidenceError> {
        self.file
            .try_clone()
            .map_err(|source| io_error("open", &self.path, source))
    }

    /// Writes a sample; once this returns it survives the death of the process.
    ///
    /// # Errors
    /// When it cannot be written whole; nothing of it is then left in the file.
    pub fn sample(&mut self, sample: &Sample) -> Result<(), EvidenceError> {
        /// [`Line::Sample`] without the copy that a box would need.
        #[derive(Serialize)]
        struct SampleLine<'a> {
            sample: &'a Sample,
        }
        self.append(&SampleLine { sample })
    }

    /// Writes the closing line and makes everything durable.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn close(&mut self, close: &Close) -> Result<(), EvidenceError> {
        self.append(&Line::Close(close.clone()))?;
        self.sync()
    }

    /// Writes that the run goes on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn continued(&mut self, continued: &Continued) -> Result<(), EvidenceError> {
        self.append(&Line::Continued(continued.clone()))?;
        self.sync()
    }

    /// Writes that a process collects a soak from here on.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn session(&mut self, session: &Session) -> Result<(), EvidenceError> {
        self.append(&Line::Session(session.clone()))
    }

    /// Writes why a slot has no sample.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn skipped(&mut self, skipped: &Skipped) -> Result<(), EvidenceError> {
        self.append(&Line::Skipped(skipped.clone()))
    }

    /// Where the file ends, so that it can be written on once it is closed.
    pub(in crate::evidence) fn into_end(self) -> End {
        End {
            path: self.path,
            // Only a file that was changed meanwhile is told of by its lines.
            line: 0,
            whole: self.length,
            torn: self.spoilt,
            chained: self.chain.is_some(),
            chain: self.chain,
        }
    }

    /// Makes what was written survive the death of the machine; nothing to do when nothing was.
    ///
    /// # Errors
    /// When the system cannot say that it is on disk.
    pub fn sync(&mut self) -> Result<(), EvidenceError> {
        if self.dirty {
            self.file
                .sync_data()
                .map_err(|source| io_error("sync", &self.path, source))?;
            self.dirty = false;
        }
        Ok(())
    }

    fn append(&mut self, record: &impl Serialize) -> Result<(), EvidenceError> {
        if self.spoilt {
            // Behind half a line even a whole one would be lost.
            self.file
                .set_len(self.length)
                .map_err(|source| io_error("cut the torn end off", &self.path, source))?;
            self.spoilt = false;
        }
        self.buffer.clear();
        serde_json::to_writer(&mut self.buffer, record).map_err(|source| {
            EvidenceError::Record {
                path: self.path.clone(),
                source,
            }
        })?;
        let next = self.chain.map(|before| seal(before, &mut self.buffer));
        self.buffer.push(b'\n');
        let length = self.buffer.len() as u64;
        if length > MAX_LINE {
            return Err(EvidenceError::RecordTooLong {
                path: self.path.clone(),
            });
        }
        if let Err(source) = self.file.write_all(&self.buffer) {
            // A full disk takes part of a line: without it the next one would be lost as well. If
            // the cut fails too, the write error is the one to tell, and the next line cuts again.
            self.spoilt = self.file.set_len(self.length).is_err();
            return Err(io_error("write", &self.path, source));
        }
        self.length += length;
        self.chain = next;
        self.dirty = true;
        Ok(())
    }
}
