//! Spans of recorded evidence, sent or written later: the same ids, times and values as those of the
//! run itself.
//!
//! Nothing is queued: the next span is drawn when the one before has been taken, so that nothing is
//! dropped for want of room. What was not taken is counted.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_sdk::trace::SpanData;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::Lookup;
use super::RunInfo;
use super::env::{Destination, Settings};
use super::export::lock;
use super::export::otlp::{self, SpanSink};
use super::export::outbox::Sink;
use super::file::SpanFile;
use super::recorded::{Run, runs};
use crate::evidence::EvidenceError;
use crate::words::counted;

/// Spans of one request.
const BATCH: usize = 512;

/// Longest time for one request with its repetitions.
const PATIENCE: Duration = Duration::from_secs(30);

/// Requests that fail one after the other before the rest is not even tried.
const MOST_FAILURES: u32 = 3;

/// Where spans go.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// To the OTLP endpoint with this base URL, or to the one that the `OTEL_*` variables name.
    Network(Option<&'a str>),
    /// To a new file of OTLP JSON lines.
    File(&'a Path),
}

/// What became of the spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Spans that the evidence gives.
    pub made: u64,
    /// Spans that the other side took.
    pub exported: u64,
    /// Samples that they are about.
    pub samples: u64,
    /// Where they went.
    pub to: String,
    /// Why the last one did not arrive.
    pub trouble: Option<String>,
    /// Variables that are wrong or not honoured.
    pub warnings: Vec<String>,
}

impl Replayed {
    /// Whether everything arrived.
    pub const fn is_whole(&self) -> bool {
        self.made == self.exported
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exported {}/{} of {} to {}",
            self.exported,
            counted(self.made, "span"),
            counted(self.samples, "sample"),
            self.to
        )?;
        match &self.trouble {
            Some(trouble) if !self.is_whole() => {
                write!(
                    f,
                    "; {} were not taken: {trouble}",
                    self.made - self.exported
                )
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Why spans cannot be sent at all.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The evidence cannot be read.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
    /// The endpoint is none.
    #[error("{0}")]
    Endpoint(String),
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Our own failure.
    #[error("cannot start the exporter")]
    Runtime(#[source] io::Error),
}

/// Sends the spans of evidence files.
///
/// Of the environment that `lookup` shows only the `OTEL_*` variables count: what else is there
/// belongs to another run than the one that is on record.
///
/// # Errors
/// When the evidence cannot be read, or nothing can be sent for want of a proper endpoint or file.
/// What an endpoint does not take is no error but in the account.
pub fn replay(
    files: &[PathBuf],
    target: Target<'_>,
    lookup: Lookup<'_>,
) -> Result<Replayed, ReplayError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ReplayError::Runtime)?;
    // Our own exports must not become log records that are exported in turn.
    let _quiet = opentelemetry::Context::enter_telemetry_suppressed_scope();
    let mut account = Replayed::default();
    for (index, run) in runs(files)?.iter().enumerate() {
        let settings = settings(run, target, lookup);
        let mut mail = Mail {
            runtime: &runtime,
            out: Out::open(&settings, target, index == 0, &mut account)?,
            batch: Vec::with_capacity(BATCH),
            failures: 0,
            account: &mut account,
        };
        for suite in &run.suites {
            let mut tallies = Vec::new();
            for cell in &suite.cells {
                tallies.push(suite.samples(cell, &mut |_, spans| {
                    mail.account.samples += 1;
                    mail.post(spans);
                    ControlFlow::Continue(())
                })?);
            }
            mail.post(suite.draw(&tallies));
        }
        mail.send();
        if let Out::Network { trouble, .. } = &mail.out {
            let trouble = lock(trouble).clone();
            account.trouble = trouble.or_else(|| account.trouble.take());
        }
    }
    Ok(account)
}

/// The settings with which a run's spans are sent again.
fn settings(run: &Run, target: Target<'_>, lookup: Lookup<'_>) -> Settings {
    let named = match target {
        Target::Network(named) => named,
        Target::File(_) => None,
    };
    let shown = |name: &str| match (name, named) {
        // Spans are all that evidence gives, and whoever asks for an export means it.
        (
            "OTEL_TRACES_EXPORTER"
            | "OTEL_LOGS_EXPORTER"
            | "OTEL_METRICS_EXPORTER"
            | "OTEL_SDK_DISABLED",
            _,
        ) => None,
        ("OTEL_EXPORTER_OTLP_ENDPOINT", Some(url)) => Some(url.to_owned()),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", Some(_)) => None,
        (name, _) if name.starts_with("OTEL_") => lookup(name),
        _ => None,
    };
    let info = RunInfo {
        run_id: run.run_id.clone(),
        folder: PathBuf::new(),
        host: run.host.clone(),
    };
    Settings::read(&info, &shown)
}

/// Where the spans of one run go; they have one resource.
enum Out {
    File {
        file: SpanFile,
        path: PathBuf,
    },
    Network {
        sink: Box<SpanSink>,
        trouble: Arc<Mutex<Option<String>>>,
        /// Tells the client that nobody waits for an endpoint that was never there.
        _end: watch::Sender<Option<Instant>>,
    },
}

impl Out {
    fn open(
        settings: &Settings,
        target: Target<'_>,
        is_first: bool,
        account: &mut Replayed,
    ) -> Result<Self, ReplayError> {
        if let Target::File(path) = target {
            let failed = |source| ReplayError::File {
                path: path.to_owned(),
                source,
            };
            if is_first && path.exists() {
                return Err(failed(io::ErrorKind::AlreadyExists.into()));
            }
            account.to = path.display().to_string();
            return Ok(Self::File {
                file: SpanFile::open(path, &settings.resource).map_err(failed)?,
                path: path.to_owned(),
            });
        }
        let Destination::Otlp(endpoint) = &settings.traces else {
            let wrong = |warning: &&String| warning.contains("nothing is sent");
            let why = settings.warnings.iter().find(wrong).cloned();
            return Err(ReplayError::Endpoint(why.unwrap_or_else(|| {
                "no endpoint: give `--otlp URL`, or set OTEL_EXPORTER_OTLP_ENDPOINT".to_owned()
            })));
        };
        account.to = endpoint.shown();
        account.warnings.clone_from(&settings.warnings);
        let trouble = Arc::default();
        let far = Instant::now() + Duration::from_secs(365 * 24 * 3600);
        let (end, deadline) = watch::channel(Some(far));
        let sink = otlp::spans(
            &settings.traces,
            &settings.resource,
            Arc::clone(&trouble),
            deadline,
        );
        match sink.map_err(ReplayError::Endpoint)? {
            Some(sink) => Ok(Self::Network {
                sink: Box::new(sink),
                trouble,
                _end: end,
            }),
            None => Err(ReplayError::Endpoint("this build cannot send".to_owned())),
        }
    }
}

/// Spans on their way, and what became of those before.
struct Mail<'a> {
    runtime: &'a Runtime,
    out: Out,
    batch: Vec<SpanData>,
    /// Requests that have failed since the last one that did not.
    failures: u32,
    account: &'a mut Replayed,
}

impl Mail<'_> {
    fn post(&mut self, spans: Vec<SpanData>) {
        self.account.made += spans.len() as u64;
        for span in spans {
            self.batch.push(span);
            if self.batch.len() >= BATCH {
                self.send();
            }
        }
    }

    /// Sends what is waiting, and waits until it is taken or not.
    fn send(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() || self.failures >= MOST_FAILURES {
            return;
        }
        let count = batch.len() as u64;
        let taken = match &mut self.out {
            Out::File { file, path } => match file.write(&batch) {
                Ok(()) => Some(count),
                Err(error) => {
                    self.account.trouble = Some(format!("{}: {error}", path.display()));
                    None
                }
            },
            Out::Network { sink, trouble, .. } => {
                let sent = self
                    .runtime
                    .block_on(async { timeout(PATIENCE, sink.send(batch)).await });
                match sent {
                    Ok(Ok(refused)) => Some(count.saturating_sub(refused)),
                    Ok(Err(())) => None,
                    Err(_) => {
                        lock(trouble).get_or_insert_with(|| "no answer in time".to_owned());
                        None
                    }
                }
            }
        };
        match taken {
            Some(taken) => {
                self.failures = 0;
                self.account.exported += taken;
            }
            None => self.failures += 1,
        }
    }
}
