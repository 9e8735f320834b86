//! The exporter thread: draws spans, writes the file, sends to the network, counts everything.
//!
//! One thread with its own single-threaded runtime, never the one that measures. The way in is
//! bounded and waits for the disk; the way out to the network is bounded too, and what finds no
//! room there is dropped and counted, because the file already has it.

pub(super) mod otlp;
pub(super) mod outbox;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SendError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use opentelemetry::trace::SpanContext;
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::env::{Destination, Settings};
use super::file::{NAME, SpanFile};
use super::spans::{CellSpans, SampleFacts};
use crate::evidence::Sample;
use outbox::Outbox;

/// Items that may wait for the exporter thread.
const MAX_WAITING: usize = 1024;

/// Spans that may wait for the network: about 700 samples, 10 MiB.
const MAX_SPANS: usize = 8192;

/// Log records that may wait for the network.
const MAX_LOGS: usize = 1024;

/// Longest wait for the thread's end, after which one that hangs in the file system is left behind.
const PATIENCE: Duration = Duration::from_millis(5_500);

/// When everything must be out, once that is known.
type Deadline = watch::Receiver<Option<Instant>>;

/// One item for the exporter thread.
pub(super) enum Work {
    /// Draw and export a sample.
    Sample {
        /// Its cell.
        cell: Arc<CellSpans>,
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
    pub(super) written: AtomicU64,
    /// Troubles with the file or with setting an exporter up.
    pub(super) warnings: Mutex<Vec<String>>,
    /// Why the last export of spans, and of logs, failed.
    pub(super) trouble: [Arc<Mutex<Option<String>>>; 2],
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
    wake: Arc<Notify>,
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
        if let Err(SendError(work)) = self.queue.send(work) {
            let lost = match work {
                Work::Spans(spans) => spans.len(),
                Work::Sample {
                    cell,
                    sample,
                    facts,
                    case,
                    content: _,
                } => cell.sample(&sample, &facts, case.as_ref()).len(),
                Work::Log(_) | Work::Finish(_) => 0,
            };
            Tally::add(&self.ledger.spans.made, lost);
            Tally::add(&self.ledger.spans.dropped, lost);
        }
        self.wake.notify_one();
    }

    /// Hands a log record over, or drops it: a log never makes its author wait.
    pub(super) fn log(&self, record: SdkLogRecord, scope: InstrumentationScope) {
        Tally::add(&self.ledger.logs.made, 1);
        match self.queue.try_send(Work::Log(Box::new((record, scope)))) {
            Ok(()) => self.wake.notify_one(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                Tally::add(&self.ledger.logs.dropped, 1);
            }
        }
    }

    /// Asks the thread to end at once, where nobody waits for it.
    pub(super) fn abandon(&self) {
        if self.queue.try_send(Work::Finish(Instant::now())).is_ok() {
            self.wake.notify_one();
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
        let wake = Arc::new(Notify::new());
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
            traces: settings.traces.clone(),
            logs: settings.logs.clone(),
            resource: settings.resource.clone(),
        };
        let spawned = thread::Builder::new()
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

/// Everything that moves into the thread.
struct Thread {
    file: Option<SpanFile>,
    ledger: Arc<Ledger>,
    wake: Arc<Notify>,
    work: Receiver<Work>,
    traces: Destination,
    logs: Destination,
    resource: Resource,
}

impl Thread {
    fn run(mut self) {
        // Our own exports must not become log records that are exported in turn.
        let _quiet = opentelemetry::Context::enter_telemetry_suppressed_scope();
        let runtime = match tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        {
            Ok(runtime) => runtime,
            Err(error) => {
                self.ledger
                    .warn(format!("no runtime for telemetry: {error}"));
                return;
            }
        };
        runtime.block_on(async {
            let (close, deadline) = watch::channel(None);
            let spans = Outbox::new(MAX_SPANS);
            let logs = Outbox::new(MAX_LOGS);
            let span_sink = self.sink(&self.traces, 0, &deadline, otlp::spans);
            let log_sink = self.sink(&self.logs, 1, &deadline, otlp::logs);
            let ledger = Arc::clone(&self.ledger);
            let networks = (span_sink.is_some(), log_sink.is_some());
            let intake = self.take_in(networks, &spans, &logs, &close);
            let out = async {
                if let Some(sink) = &span_sink {
                    spans.send(sink, &ledger.spans, deadline.clone()).await;
                }
            };
            let log_out = async {
                if let Some(sink) = &log_sink {
                    logs.send(sink, &ledger.logs, deadline.clone()).await;
                }
            };
            tokio::join!(intake, out, log_out);
        });
        // A client in the middle of a request does not hold the end up.
        runtime.shutdown_background();
    }

    /// Builds one exporter; failing to is a warning.
    fn sink<S>(
        &self,
        destination: &Destination,
        signal: usize,
        deadline: &Deadline,
        build: impl FnOnce(
            &Destination,
            &Resource,
            Arc<Mutex<Option<String>>>,
            Deadline,
        ) -> Result<Option<S>, String>,
    ) -> Option<S> {
        let trouble = Arc::clone(&self.ledger.trouble[signal]);
        build(destination, &self.resource, trouble, deadline.clone()).unwrap_or_else(|warning| {
            self.ledger.warn(warning);
            None
        })
    }

    /// Takes items in until told to finish.
    async fn take_in(
        &mut self,
        (span_network, log_network): (bool, bool),
        spans: &Outbox<SpanData>,
        logs: &Outbox<(SdkLogRecord, InstrumentationScope)>,
        close: &watch::Sender<Option<Instant>>,
    ) {
        let end = loop {
            let drawn = match self.work.try_recv() {
                Ok(Work::Sample {
                    cell,
                    sample,
                    facts,
                    case,
                    content,
                }) => {
                    let mut spans = cell.sample(&sample, &facts, case.as_ref());
                    CellSpans::add_to_chat(&mut spans, content);
                    spans
                }
                Ok(Work::Spans(spans)) => spans,
                Ok(Work::Log(log)) => {
                    if log_network {
                        logs.put(vec![*log], &self.ledger.logs);
                    }
                    continue;
                }
                Ok(Work::Finish(end)) => break end,
                Err(TryRecvError::Empty) => {
                    self.wake.notified().await;
                    continue;
                }
                Err(TryRecvError::Disconnected) => break Instant::now(),
            };
            Tally::add(&self.ledger.spans.made, drawn.len());
            self.write(&drawn);
            if span_network {
                spans.put(drawn, &self.ledger.spans);
            }
            // The senders share this thread.
            tokio::task::yield_now().await;
        };
        close.send_replace(Some(end));
    }

    fn write(&mut self, spans: &[SpanData]) {
        let Some(file) = &mut self.file else {
            return;
        };
        match file.write(spans) {
            Ok(()) => Tally::add(&self.ledger.written, spans.len()),
            Err(error) => {
                self.ledger
                    .warn(format!("{NAME}: {error}; some spans are not kept"));
            }
        }
    }
}
