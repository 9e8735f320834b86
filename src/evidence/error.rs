//! Why evidence cannot be written or read, with its place.

use std::io;
use std::path::{Path, PathBuf};

use super::{MAX_LINE, SCHEMA};

/// Why an evidence file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum EvidenceError {
    /// The system refused.
    #[error("cannot {action} the evidence file {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file has no complete first line.
    #[error("{}: no evidence: the file ends before its first line does", path.display())]
    NoHeader {
        /// The file.
        path: PathBuf,
    },
    /// Another version of the format.
    #[error(
        "{}:1: evidence of format {found}; this version of relayproof reads format {SCHEMA}",
        path.display()
    )]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
    /// A line that is no record.
    #[error("{}:{line}: not a line of evidence", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A sample that holds no attempt.
    #[error("{}:{line}: a sample without an attempt", path.display())]
    NoAttempt {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A line beyond [`MAX_LINE`].
    #[error("{}:{line}: a line of more than {MAX_LINE} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A record beyond [`MAX_LINE`].
    #[error("a record for {} has more than {MAX_LINE} bytes", path.display())]
    RecordTooLong {
        /// The file.
        path: PathBuf,
    },
    /// A record that cannot be written as JSON.
    #[error("a record for {} cannot be written as JSON", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// A line of a chained file that has no chain value, so that none can follow it.
    #[error(
        "{}:{line}: the line has no chain value, as the first line has: it was changed, or a \
         version of relayproof without the chain wrote it; `relayproof verify` says more, and a \
         run under another name starts afresh",
        path.display()
    )]
    Unlinked {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A file that somebody else wrote to while its collector had it closed.
    #[error("{}: changed by somebody else while it was collected", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A segment that is not there, with later ones that are.
    #[error("{}: segment {number} is missing, and later ones are there", path.display())]
    Gap {
        /// Where it should be.
        path: PathBuf,
        /// Its number.
        number: u32,
    },
    /// A file that lies where a segment of other evidence should.
    #[error("{}:1: no segment {number} of that evidence: {why}", path.display())]
    Segment {
        /// The file.
        path: PathBuf,
        /// The number that its name says.
        number: u32,
        /// What is different.
        why: String,
    },
}

/// What the system refused.
pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> EvidenceError {
    EvidenceError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
