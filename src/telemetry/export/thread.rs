//! What the exporter thread does: takes items in, draws and counts them, and lets the senders run.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::SpanData;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::metrics::{Clerk, MetricSink};
use super::outbox::Outbox;
use super::wake::Wake;
use super::{Deadline, Ledger, NAME, SpanFile, Tally, Trouble, Work, otlp};
use crate::telemetry::env::{Destination, Settings};
use crate::telemetry::metrics::Store;
use crate::telemetry::spans::CellSpans;

/// Spans that may wait for the network: about 700 samples, 10 MiB.
const MAX_SPANS: usize = 8192;

/// Log records that may wait for the network.
const MAX_LOGS: usize = 1024;

/// Everything that moves into the thread.
pub(super) struct Thread {
    pub(super) file: Option<SpanFile>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) wake: Arc<Wake>,
    pub(super) work: Receiver<Work>,
    pub(super) settings: Settings,
}

/// The ways out; `None` where nothing is to go.
struct Ways<'a> {
    spans: Option<&'a Outbox<SpanData>>,
    logs: Option<&'a Outbox<(SdkLogRecord, InstrumentationScope)>>,
    metrics: Option<&'a RefCell<Store>>,
}

impl Thread {
    /// Runs until told to finish.
    pub(super) fn run(mut self) {
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
            let reading = self.settings.reading;
            let store = RefCell::new(Store::new(reading.edition, reading.exemplars));
            let span_sink = self.sink(&self.settings.traces, 0, &deadline, otlp::spans);
            let log_sink = self.sink(&self.settings.logs, 1, &deadline, otlp::logs);
            let metric_sink = self.sink(&self.settings.metrics, 2, &deadline, MetricSink::new);
            let clerk = Clerk::new(&self.settings);
            let ledger = Arc::clone(&self.ledger);
            let ways = Ways {
                spans: span_sink.as_ref().map(|_| &spans),
                logs: log_sink.as_ref().map(|_| &logs),
                metrics: metric_sink.as_ref().map(|_| &store),
            };
            let spans_out = Notify::new();
            let intake = self.take_in(ways, &close);
            let out = async {
                if let Some(sink) = &span_sink {
                    spans.send(sink, &ledger.spans, deadline.clone()).await;
                }
                spans_out.notify_one();
            };
            let log_out = async {
                if let Some(sink) = &log_sink {
                    logs.send(sink, &ledger.logs, deadline.clone()).await;
                }
            };
            let metrics_out = async {
                if let Some(sink) = &metric_sink {
                    clerk
                        .report(sink, &store, &ledger, deadline.clone(), &spans_out)
                        .await;
                }
            };
            tokio::join!(intake, out, log_out, metrics_out);
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
        build: impl FnOnce(&Destination, &Resource, Trouble, Deadline) -> Result<Option<S>, String>,
    ) -> Option<S> {
        let trouble = Arc::clone(self.ledger.trouble.get(signal)?);
        let resource = &self.settings.resource;
        build(destination, resource, trouble, deadline.clone()).unwrap_or_else(|warning| {
            self.ledger.warn(warning);
            None
        })
    }

    /// Takes items in until told to finish.
    async fn take_in(&mut self, ways: Ways<'_>, close: &watch::Sender<Option<Instant>>) {
        let end = loop {
            let drawn = match self.work.try_recv() {
                Ok(Work::Sample {
                    cell,
                    meter,
                    sample,
                    facts,
                    case,
                    content,
                }) => {
                    if let Some(store) = ways.metrics {
                        meter.sample(&mut store.borrow_mut(), &sample, &facts);
                    }
                    let mut spans = cell.sample(&sample, &facts, case.as_ref());
                    CellSpans::add_to_chat(&mut spans, content);
                    spans
                }
                Ok(Work::Spans(spans)) => spans,
                Ok(Work::Verdicts { meter, verdicts }) => {
                    if let Some(store) = ways.metrics {
                        meter.verdicts(&mut store.borrow_mut(), &verdicts);
                    }
                    continue;
                }
                Ok(Work::Log(log)) => {
                    if let Some(logs) = ways.logs {
                        logs.put(vec![*log], &self.ledger.logs);
                    }
                    continue;
                }
                Ok(Work::Finish(end)) => break end,
                Err(TryRecvError::Empty) => {
                    self.flush();
                    self.wake.some().await;
                    continue;
                }
                Err(TryRecvError::Disconnected) => break Instant::now(),
            };
            Tally::add(&self.ledger.spans.made, drawn.len());
            self.keep(&drawn);
            if let Some(spans) = ways.spans {
                spans.put(drawn, &self.ledger.spans);
            }
            // The senders share this thread.
            tokio::task::yield_now().await;
        };
        self.flush();
        close.send_replace(Some(end));
    }

    /// Hands spans to the file.
    fn keep(&mut self, spans: &[SpanData]) {
        if let Some(file) = &mut self.file {
            let written = file.take(spans);
            self.account(written);
        }
    }

    /// Writes what the file was handed.
    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            let written = file.flush();
            self.account(written);
        }
    }

    fn account(&self, written: io::Result<usize>) {
        match written {
            Ok(spans) => Tally::add(&self.ledger.written, spans),
            Err(error) => {
                self.ledger
                    .warn(format!("{NAME}: {error}; some spans are not kept"));
            }
        }
    }
}
