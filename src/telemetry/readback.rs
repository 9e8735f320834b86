//! What a trace backend holds, against the spans that evidence gives.
//!
//! Asks Jaeger or Tempo for the trace of each sample and compares span by span. Answers are bounded
//! in size, time and number under way; header values are secrets and are never shown.

mod backend;
mod compare;

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use opentelemetry_sdk::trace::SpanData;
use reqwest::{Client, redirect};
use serde::{Deserialize, Serialize};
use url::Url;

pub use backend::Backend;
use backend::{Answer, Asked};
pub use compare::Difference;

use super::Lookup;
use super::env::{header_list, is_loopback};
use super::recorded::runs;
use crate::evidence::EvidenceError;
use crate::forms::named;

/// The variable with further request headers.
pub const HEADERS: &str = "RELAYPROOF_TRACES_HEADERS";

/// Requests under way.
const CONCURRENCY: usize = 8;

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(15);

named! {
    /// What became of the trace of one sample.
    Standing {
        /// All of its spans are there, as they were measured.
        Equal = "equal",
        /// All of its spans are there; values were masked on the way.
        Masked = "masked",
        /// All of its spans are there, and some are not as they were measured.
        Different = "different",
        /// Some of its spans are not there.
        Incomplete = "incomplete",
        /// The backend has no such trace.
        Missing = "missing",
    }
}

/// One sample that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its cell.
    pub cell: String,
    /// Its slot; `None` for the cell itself: its span and those of its verdicts.
    pub sample: Option<u64>,
    /// Its trace.
    pub trace_id: String,
    /// What became of it.
    pub standing: Standing,
    /// Spans that are not there.
    pub missing_spans: Vec<String>,
    /// What is different, the first few.
    pub differences: Vec<Difference>,
}

/// What a backend holds of some evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Verified {
    /// Which backend it is.
    pub backend: Backend,
    /// Where.
    pub url: String,
    /// Samples that were looked for.
    pub samples: u64,
    /// Spans of them, with those of the cells.
    pub spans: u64,
    /// Samples, by what became of them.
    pub equal: u64,
    /// See [`Standing::Masked`].
    pub masked: u64,
    /// See [`Standing::Different`].
    pub different: u64,
    /// See [`Standing::Incomplete`].
    pub incomplete: u64,
    /// See [`Standing::Missing`].
    pub missing: u64,
    /// Cells whose own span and verdicts were looked for, and how many are there as they should.
    pub cells: u64,
    /// See [`Verified::cells`].
    pub cells_equal: u64,
    /// Samples and cells that are not as they should be, the first of them.
    pub findings: Vec<Finding>,
}

impl Verified {
    /// Whether everything is there, as far as it was not masked.
    pub const fn is_whole(&self) -> bool {
        self.different + self.incomplete + self.missing == 0 && self.cells == self.cells_equal
    }
}

/// Why a backend cannot be compared with evidence.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The evidence cannot be read.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The address is none.
    #[error("--traces must be a URL with http:// or https://")]
    Address,
    /// The variable of headers is wrong.
    #[error("{HEADERS} is no list of `name=value` pairs")]
    Headers,
    /// The backend does not answer, or not as one.
    #[error("{url}: {why}")]
    Backend {
        /// Where.
        url: String,
        /// Why, in our own words.
        why: String,
    },
    /// Our own failure.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
}

/// What to compare, and where.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Evidence files.
    pub files: &'a [PathBuf],
    /// Base URL of the backend.
    pub url: &'a str,
    /// Which backend it is, where that is known.
    pub backend: Option<Backend>,
    /// Most findings that are told.
    pub most_findings: usize,
}

/// Asks a backend for every trace of the evidence.
///
/// # Errors
/// When the evidence cannot be read or the backend cannot be asked. What is not there is no error.
pub fn verify(question: &Question<'_>, lookup: Lookup<'_>) -> Result<Verified, VerifyError> {
    let url = Url::parse(question.url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or(VerifyError::Address)?;
    let headers = match lookup(HEADERS) {
        Some(text) => header_list(&text).ok_or(VerifyError::Headers)?,
        None => Vec::new(),
    };
    // reqwest panics without a process-wide provider; whoever installs one first wins.
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let mut client = Client::builder()
        .timeout(PATIENCE)
        // A redirect could carry the headers, which are secrets, to another host.
        .redirect(redirect::Policy::none())
        .default_headers(headers.into_iter().collect());
    if is_loopback(&url) {
        client = client.no_proxy();
    }
    let client = client.build().map_err(|_| VerifyError::Backend {
        url: backend::shown(&url),
        why: "no client can be made for it".to_owned(),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(VerifyError::Runtime)?;
    let asked = runtime.block_on(Asked::find(client, &url, question.backend))?;
    let mut tally = Tally::new(&asked, question.most_findings);
    for run in runs(question.files)? {
        for suite in &run.suites {
            let mut tallies = Vec::new();
            for cell in &suite.cells {
                let mut broken = None;
                let mut waiting = Vec::with_capacity(CONCURRENCY);
                let name = &cell.header.cell;
                let counted = suite.samples(cell, &mut |sample, spans| {
                    waiting.push(Expected::new(name, Some(sample.index), spans));
                    if waiting.len() < CONCURRENCY {
                        return ControlFlow::Continue(());
                    }
                    let all = std::mem::take(&mut waiting);
                    match runtime.block_on(look(&asked, all, &mut tally)) {
                        Ok(()) => ControlFlow::Continue(()),
                        Err(error) => {
                            broken = Some(error);
                            ControlFlow::Break(())
                        }
                    }
                })?;
                if let Some(error) = broken {
                    return Err(error);
                }
                runtime.block_on(look(&asked, waiting, &mut tally))?;
                tallies.push(counted);
            }
            // In the trace of a CI job they are not found by their evidence.
            let elsewhere = |it: &super::recorded::Cell| it.header.otel.ci_parent;
            if suite.cells.iter().any(elsewhere) {
                continue;
            }
            for (cell, spans) in suite.draw_cells(&tallies) {
                let expected = vec![Expected::new(&cell.header.cell, None, spans)];
                runtime.block_on(look(&asked, expected, &mut tally))?;
            }
        }
    }
    Ok(tally.0)
}

/// The spans of one trace that should be there.
struct Expected {
    cell: String,
    sample: Option<u64>,
    trace_id: String,
    spans: Vec<SpanData>,
}

impl Expected {
    fn new(cell: &str, sample: Option<u64>, spans: Vec<SpanData>) -> Self {
        let trace = spans.first().map(|span| span.span_context.trace_id());
        Self {
            cell: cell.to_owned(),
            sample,
            trace_id: trace.map(|id| id.to_string()).unwrap_or_default(),
            spans,
        }
    }
}

/// Asks for some traces at once, and counts what came of it.
async fn look(
    asked: &Asked,
    expected: Vec<Expected>,
    tally: &mut Tally,
) -> Result<(), VerifyError> {
    let mut open: FuturesUnordered<_> = expected
        .into_iter()
        .map(|expected| async {
            let mut answer = asked.trace(&expected.trace_id).await;
            if answer.is_err() {
                // Once more: a connection that was kept open may have been closed meanwhile.
                answer = asked.trace(&expected.trace_id).await;
            }
            (expected, answer)
        })
        .collect();
    while let Some((expected, answer)) = open.next().await {
        match answer {
            Ok(answer) => tally.take(expected, &answer),
            // A trace that could not be asked for is not said to be missing.
            Err(why) => return Err(asked.error(format!("{why} (trace {})", expected.trace_id))),
        }
    }
    Ok(())
}

struct Tally(Verified, usize);

impl Tally {
    fn new(asked: &Asked, most: usize) -> Self {
        let verified = Verified {
            backend: asked.backend,
            url: asked.shown(),
            samples: 0,
            spans: 0,
            equal: 0,
            masked: 0,
            different: 0,
            incomplete: 0,
            missing: 0,
            cells: 0,
            cells_equal: 0,
            findings: Vec::new(),
        };
        Self(verified, most)
    }

    fn take(&mut self, expected: Expected, answer: &Answer) {
        let compared = compare::compare(&expected.spans, answer);
        let all = &mut self.0;
        all.spans += expected.spans.len() as u64;
        let standing = compared.standing;
        if expected.sample.is_some() {
            all.samples += 1;
            *match standing {
                Standing::Equal => &mut all.equal,
                Standing::Masked => &mut all.masked,
                Standing::Different => &mut all.different,
                Standing::Incomplete => &mut all.incomplete,
                Standing::Missing => &mut all.missing,
            } += 1;
        } else {
            all.cells += 1;
            all.cells_equal += u64::from(matches!(standing, Standing::Equal | Standing::Masked));
        }
        let is_told = !matches!(standing, Standing::Equal | Standing::Masked);
        if is_told && all.findings.len() < self.1 {
            all.findings.push(Finding {
                cell: expected.cell,
                sample: expected.sample,
                trace_id: expected.trace_id,
                standing,
                missing_spans: compared.missing,
                differences: compared.differences,
            });
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sample {
            Some(index) => write!(f, "sample {index} of {}", self.cell)?,
            None => write!(f, "verdicts of {}", self.cell)?,
        }
        write!(f, ": {}, trace {}", self.standing, self.trace_id)
    }
}
