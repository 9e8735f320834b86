//! Reports of metrics on their way out: every few seconds, and once more at the end.
//!
//! A report says everything since the start, or since the last one that arrived; so one that does
//! not arrive is lost only if it was the last.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::Resource;
use prost::Message;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::courier::Post;
#[cfg(feature = "grpc")]
use super::grpc;
use super::{Deadline, Ledger, Tally, Trouble};
use crate::probe::clock::Clock;
use crate::telemetry::Sent;
use crate::telemetry::env::{Destination, Reading, Settings, Wire};
use crate::telemetry::metrics::{Reporter, Store, account, lines};

/// Where reports of metrics go.
pub(super) enum MetricSink {
    /// Standard error.
    Console,
    /// An OTLP endpoint over HTTP.
    Http(Box<Post>),
    /// An OTLP endpoint over gRPC.
    #[cfg(feature = "grpc")]
    Grpc {
        /// The client.
        client: Box<grpc::Metrics>,
        /// Why the last request failed.
        trouble: Trouble,
    },
}

impl MetricSink {
    /// Builds the sink; `None` where nothing is to be sent.
    pub(super) fn new(
        destination: &Destination,
        _resource: &Resource,
        trouble: Trouble,
        deadline: Deadline,
    ) -> Result<Option<Self>, String> {
        let endpoint = match destination {
            Destination::None => return Ok(None),
            Destination::Console => return Ok(Some(Self::Console)),
            Destination::Otlp(endpoint) => endpoint,
        };
        match endpoint.wire {
            Wire::Http => {
                let post = Post::new(endpoint, &trouble, deadline)?;
                Ok(Some(Self::Http(Box::new(post))))
            }
            #[cfg(feature = "grpc")]
            Wire::Grpc => Ok(Some(Self::Grpc {
                client: Box::new(grpc::Metrics::new(endpoint)?),
                trouble,
            })),
            #[cfg(not(feature = "grpc"))]
            Wire::Grpc => Ok(None),
        }
    }

    /// Sends one report; gives the data points that were refused, or an error for all.
    async fn send(&self, report: ExportMetricsServiceRequest) -> Result<u64, ()> {
        match self {
            Self::Console => {
                let mut out = io::stderr().lock();
                lines(&report)
                    .try_for_each(|line| writeln!(out, "{line}"))
                    .map(|()| 0)
                    .map_err(drop)
            }
            Self::Http(post) => post.send(report.encode_to_vec()).await,
            #[cfg(feature = "grpc")]
            Self::Grpc { client, trouble } => match client.send(report).await {
                Ok(refused) => {
                    if refused > 0 {
                        *super::lock(trouble) = Some("the other side refused some".to_owned());
                    }
                    Ok(refused)
                }
                Err(reason) => {
                    *super::lock(trouble) = Some(reason);
                    Err(())
                }
            },
        }
    }
}

/// Who writes the reports.
pub(super) struct Clerk {
    reading: Reading,
    clock: Clock,
    reporter: RefCell<Reporter>,
}

impl Clerk {
    /// Reports begin now.
    pub(super) fn new(settings: &Settings) -> Self {
        let clock = Clock::start();
        let reporter = Reporter::new(
            &settings.resource,
            settings.reading.temporality,
            clock.unix_ns(),
        );
        Self {
            reading: settings.reading,
            clock,
            reporter: RefCell::new(reporter),
        }
    }

    /// Reports until the run ends, and then once more, when it is known what became of the spans,
    /// but not later than after half of the time that is left.
    pub(super) async fn report(
        &self,
        sink: &MetricSink,
        store: &RefCell<Store>,
        ledger: &Ledger,
        mut deadline: Deadline,
        spans_out: &Notify,
    ) {
        let end = loop {
            tokio::select! {
                biased;
                end = closing(&mut deadline) => break end,
                () = sleep(self.reading.interval) => {}
            }
            let stop = async {
                tokio::select! {
                    _ = closing(&mut deadline) => {}
                    () = sleep(self.reading.timeout) => {}
                }
            };
            self.send(sink, store, ledger, stop).await;
        };
        let left = end.saturating_duration_since(Instant::now());
        tokio::select! {
            biased;
            () = spans_out.notified() => {}
            () = sleep(left / 2) => {}
        }
        self.send(sink, store, ledger, sleep_until(end)).await;
    }

    /// Sends one report, or gives it up when `stop` comes first.
    async fn send(
        &self,
        sink: &MetricSink,
        store: &RefCell<Store>,
        ledger: &Ledger,
        stop: impl Future<Output = ()>,
    ) {
        let now = self.clock.now();
        let now_ns = self.clock.unix_ns().saturating_add(nanoseconds(now));
        let report = {
            let mut store = store.borrow_mut();
            account(&mut store, Sent::of(&ledger.spans));
            self.reporter.borrow().report(&mut store, now_ns)
        };
        if report.points == 0 {
            return;
        }
        Tally::add(&ledger.points.made, report.points);
        let made_ns = report.made_ns();
        let sent = tokio::select! {
            biased;
            sent = sink.send(report.request) => sent,
            () = stop => Err(()),
        };
        let refused = match sent {
            Ok(refused) => {
                let mut store = store.borrow_mut();
                self.reporter.borrow_mut().arrived(&mut store, made_ns);
                usize::try_from(refused)
                    .unwrap_or(report.points)
                    .min(report.points)
            }
            Err(()) => report.points,
        };
        ledger.stale.store(refused > 0, Ordering::Relaxed);
        Tally::add(&ledger.points.exported, report.points - refused);
        Tally::add(&ledger.points.failed, refused);
    }
}

/// When everything must be out, as soon as that is known.
async fn closing(deadline: &mut Deadline) -> Instant {
    let end = deadline.wait_for(Option::is_some).await.map(|end| *end);
    // A sender that is gone leaves no time.
    end.ok().flatten().unwrap_or_else(Instant::now)
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
