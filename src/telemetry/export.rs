//! The exporter thread: draws spans, writes the file, sends to the network, counts everything.
//!
//! One thread with its own single-threaded runtime, never the one that measures. The way in is
//! bounded and waits for the disk; the way out to the network is bounded too, and what finds no
//! room there is dropped and counted, because the file already has it.

mod courier;
#[cfg(feature = "grpc")]
mod grpc;
mod metrics;
pub(super) mod otlp;
pub(super) mod outbox;
mod protobuf;
mod thread;
mod wake;

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SendError, SyncSender, TrySendError, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::trace::SpanContext;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::watch;
use tokio::time::Instant;

use super::env::Settings;
use super::file::{NAME, SpanFile};
use super::metrics::CellMeter;
use super::spans::{CellSpans, SampleFacts};
use crate::evidence::Sample;
use crate::verdict::Verdict;
use thread::Thread;
use wake::Wake;

/// Items that may wait for the exporter thread.
const MAX_WAITING: usize = 1024;

/// Longest wait for the thread's end, after which one that hangs in the file system is left behind.
const PATIENCE: Duration = Duration::from_millis(5_500);

/// When everything must be out, once that is known.
type Deadline = watch::Receiver<Option<Instant>>;

/// Why the last request of one signal failed, for the warning at the end.
type Trouble = Arc<Mutex<Option<String>>>;

/// One item for the exporter thread.
pub(super) enum Work {
    /// Draw and export a sample.
    Sample {
        /// Its cell.
        cell: Arc<CellSpans>,
        /// The cell's metrics.
        meter: Arc<CellMeter>,
        /// Its evidence.
        sample: Box<Sample>,
        /// What judging says of it.
        facts: Box<SampleFacts>,
        /// Span of the cell.
        case: Option<SpanContext>,
        /// What the span of the call says besides, of prompt and answer.
        content: Vec<KeyValue>,
    },
    /// Export spans that are drawn.
    Spans(Vec<SpanData>),
    /// Set what a cell's verdicts say.
    Verdicts {
        /// The cell's metrics.
        meter: Arc<CellMeter>,
        /// Its verdicts.
        verdicts: Vec<Verdict>,
    },
    /// Export a log record.
    Log(Box<(SdkLogRecord, InstrumentationScope)>),
    /// Write what is waiting, send until this moment, and end.
    Finish(Instant),
}

/// What became of the items of one kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) made: AtomicU64,
    pub(super) exported: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dropped: AtomicU64,
}

impl Tally {
    /// Adds to a count.
    fn add(count: &AtomicU64, items: usize) {
        count.fetch_add(items as u64, Ordering::Relaxed);
    }
}

/// The state that the thread shares with its callers.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) spans: Tally,
    pub(super) logs: Tally,
    /// Data points of metrics.
    pub(super) points: Tally,
    /// Whether the last report of metrics did not arrive as a whole.
    pub(super) stale: AtomicBool,
    pub(super) written: AtomicU64,
    /// Troubles with the file or with setting an exporter up.
    pub(super) warnings: Mutex<Vec<String>>,
    /// Why the last export of spans, of logs, and of metrics failed.
    pub(super) trouble: [Trouble; 3],
}

impl Ledger {
    fn warn(&self, warning: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// The content of a lock; what is behind ours stays whole when a holder panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way in.
#[derive(Clone)]
pub(super) struct Inlet {
    queue: SyncSender<Work>,
    wake: Arc<Wake>,
    ledger: Arc<Ledger>,
}

impl std::fmt::Debug for Inlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inlet").finish_non_exhaustive()
    }
}

impl Inlet {
    /// Hands spans or a sample over; waits for room, which depends on the disk and not on the
    /// network.
    pub(super) fn send(&self, work: Work) {
        let last = matches!(work, Work::Finish(_));
        let sent = match self.queue.try_send(work) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(work)) => {
                self.wake.now();
                self.queue.send(work).map_err(|SendError(work)| work)
            }
            Err(TrySendError::Disconnected(work)) => Err(work),
        };
        if let Err(work) = sent {
            let lost = match work {
                Work::Spans(spans) => spans.len(),
                Work::Sample {
                    cell,
                    sample,
                    facts,
                    case,
                    ..
                } => cell.sample(&sample, &facts, case.as_ref()).len(),
                Work::Verdicts { .. } | Work::Log(_) | Work::Finish(_) => 0,
            };
            Tally::add(&self.ledger.spans.made, lost);
            Tally::add(&self.ledger.spans.dropped, lost);
        }
        if last {
            self.wake.now();
        } else {
            self.wake.soon();
        }
    }

    /// Hands a log record over, or drops it: a log never makes its author wait.
    pub(super) fn log(&self, record: SdkLogRecord, scope: InstrumentationScope) {
        Tally::add(&self.ledger.logs.made, 1);
        match self.queue.try_send(Work::Log(Box::new((record, scope)))) {
            Ok(()) => self.wake.soon(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                Tally::add(&self.ledger.logs.dropped, 1);
            }
        }
    }

    /// Asks the thread to end at once, where nobody waits for it.
    pub(super) fn abandon(&self) {
        if self.queue.try_send(Work::Finish(Instant::now())).is_ok() {
            self.wake.now();
        }
    }
}

/// The running exporter.
pub(super) struct Exporter {
    /// The way in.
    pub(super) inlet: Inlet,
    /// The counts.
    pub(super) ledger: Arc<Ledger>,
    ended: Mutex<Receiver<()>>,
}

impl Exporter {
    /// Opens the file and starts the thread.
    pub(super) fn start(folder: &Path, settings: &Settings) -> Self {
        let ledger = Arc::new(Ledger::default());
        let (queue, work) = sync_channel(MAX_WAITING);
        let (end, ended) = sync_channel::<()>(1);
        let wake = Arc::new(Wake::default());
        let path = folder.join(NAME);
        let file = SpanFile::open(&path, &settings.resource)
            .inspect_err(|error| {
                ledger.warn(format!("{}: {error}; spans are not kept", path.display()));
            })
            .ok();
        let thread = Thread {
            file,
            ledger: Arc::clone(&ledger),
            wake: Arc::clone(&wake),
            work,
            settings: settings.clone(),
        };
        let spawned = std::thread::Builder::new()
            .name("relayproof-export".to_owned())
            .spawn(move || {
                thread.run();
                // Nobody listens any more when the caller has given up waiting.
                end.send(()).ok();
            });
        if let Err(error) = spawned {
            ledger.warn(format!("no thread for telemetry: {error}"));
        }
        Self {
            inlet: Inlet {
                queue,
                wake,
                ledger: Arc::clone(&ledger),
            },
            ledger,
            ended: Mutex::new(ended),
        }
    }

    /// Writes everything, sends until the budget is used up, and counts the rest as lost.
    pub(super) fn finish(&self, budget: Duration) {
        self.inlet.send(Work::Finish(Instant::now() + budget));
        if let Err(RecvTimeoutError::Timeout) = lock(&self.ended).recv_timeout(PATIENCE) {
            self.ledger
                .warn("telemetry hangs; its account is not complete".to_owned());
        }
    }
}
