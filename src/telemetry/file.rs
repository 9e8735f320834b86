//! Spans as OTLP JSON lines: one `TracesData` object a line, as the Collector's `otlpjsonfile`
//! receiver reads them.
//!
//! Appends only, whole lines with one `write`, so that processes of one run may share the file; a
//! killed one loses at most the lines that it had not written yet.

mod json;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;

/// Name of the file in a run's folder.
pub const NAME: &str = "spans.otlp.jsonl";

/// Bytes that may wait to be written.
const MAX_WAITING: usize = 64 * 1024;

/// An open span file.
pub(super) struct SpanFile {
    file: File,
    /// What every line begins with.
    head: Vec<u8>,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// Spans in them.
    waiting: usize,
}

impl SpanFile {
    /// Opens the file for appending; a torn last line is closed, so that it spoils no other.
    pub(super) fn open(path: &Path, resource: &Resource) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .read(true)
            .open(path)?;
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
            }
        }
        Ok(Self {
            file,
            head: json::head(resource),
            lines: Vec::new(),
            waiting: 0,
        })
    }

    /// Takes spans of one scope as one line, and writes what waits when it is much; gives the spans
    /// that were written.
    pub(super) fn take(&mut self, spans: &[SpanData]) -> io::Result<usize> {
        self.lines.extend_from_slice(&self.head);
        json::spans(&mut self.lines, spans);
        self.waiting += spans.len();
        if self.lines.len() < MAX_WAITING {
            Ok(0)
        } else {
            self.flush()
        }
    }

    /// Writes what waits; gives the spans in it. What cannot be written does not wait any longer.
    pub(super) fn flush(&mut self) -> io::Result<usize> {
        if self.lines.is_empty() {
            return Ok(0);
        }
        let written = self.file.write_all(&self.lines);
        self.lines.clear();
        let spans = std::mem::take(&mut self.waiting);
        written.map(|()| spans)
    }

    /// Writes spans of one scope as one line, at once.
    pub(super) fn write(&mut self, spans: &[SpanData]) -> io::Result<()> {
        self.take(spans)?;
        self.flush().map(drop)
    }
}
