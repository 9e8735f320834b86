//! Spans as OTLP JSON lines: one `TracesData` object a line, as the Collector's `otlpjsonfile`
//! receiver reads them.
//!
//! Appends only, one `write` a line, so that processes of one run may share the file and a killed
//! one loses at most its last line.

mod json;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;

use json::Traces;

/// Name of the file in a run's folder.
pub const NAME: &str = "spans.otlp.jsonl";

/// An open span file.
pub(super) struct SpanFile {
    file: File,
    resource: Resource,
    line: Vec<u8>,
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
            resource: resource.clone(),
            line: Vec::new(),
        })
    }

    /// Writes spans of one scope as one line.
    pub(super) fn write(&mut self, spans: &[SpanData]) -> io::Result<()> {
        let traces = Traces {
            resource: &self.resource,
            spans,
        };
        self.line.clear();
        serde_json::to_writer(&mut self.line, &traces)?;
        self.line.push(b'\n');
        self.file.write_all(&self.line)
    }
}
