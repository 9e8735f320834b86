//! Evidence in, spans, metrics and logs out; the only place that names OpenTelemetry.
//!
//! Nothing here can change a verdict: what fails is counted and becomes one warning. Spans of
//! samples are functions of evidence ([`spans`]), and so are metrics; spans of suites and cells
//! are live. All go through one exporter thread, spans to the run's folder always, and everything
//! to the network where the `OTEL_*` variables name an endpoint.

mod baggage;
mod ci;
mod clean;
mod content;
mod entrance;
pub mod env;
mod export;
pub mod file;
mod live;
mod metrics;
pub mod readback;
mod recorded;
pub mod replay;
pub mod semconv;
pub mod spans;

use std::fmt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use env::{Destination, Settings};
use export::{Exporter, Tally, lock};
pub use live::{Case, Suite};
use live::{ForwardLogs, Stage};
pub use metrics::Temporality;
pub use spans::{SuiteInfo, SuiteStatus};

/// A look-up of one environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Longest time that the end of a run may wait for telemetry.
const MAX_BUDGET: Duration = Duration::from_secs(5);

/// Crates whose own log lines are not the user's: the ones below the exporters.
const NOISY: &[&str] = &[
    "opentelemetry",
    "hyper",
    "reqwest",
    "h2",
    "tonic",
    "tower",
    "rustls",
];

/// The run that telemetry is about.
#[derive(Clone, Debug)]
pub struct RunInfo {
    /// The run folder's name.
    pub run_id: String,
    /// The run's folder, which exists.
    pub folder: PathBuf,
    /// Host name of the probe.
    pub host: String,
}

/// What became of one kind of telemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Items made.
    pub made: u64,
    /// Items that the other side took.
    pub exported: u64,
    /// Items that were sent and not taken.
    pub failed: u64,
    /// Items that were never sent: the queue was full, or time was up.
    pub dropped: u64,
}

impl Sent {
    fn of(tally: &Tally) -> Self {
        let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        Self {
            made: read(&tally.made),
            exported: read(&tally.exported),
            failed: read(&tally.failed),
            dropped: read(&tally.dropped),
        }
    }

    fn lost(self) -> u64 {
        self.failed + self.dropped
    }
}

/// The account at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Spans that the file holds.
    pub written: u64,
    /// Spans and the network.
    pub spans: Sent,
    /// Log records and the network.
    pub logs: Sent,
    /// Data points of metrics and the network, in all reports; a later report holds what an
    /// earlier one that failed held.
    pub metrics: Sent,
    /// Where the network is; `None` when nothing was to be sent.
    pub endpoint: Option<String>,
    /// What the user should know, at most one line about the network.
    pub warnings: Vec<String>,
}

impl fmt::Display for Exported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evidence {}/{} spans", self.written, self.spans.made)?;
        match &self.endpoint {
            Some(endpoint) => write!(
                f,
                ", {}/{} exported to {endpoint}",
                self.spans.exported, self.spans.made
            ),
            None => Ok(()),
        }
    }
}

/// Telemetry of one run.
pub struct Telemetry {
    exporter: Exporter,
    stage: Stage,
    logger: Option<SdkLoggerProvider>,
    traces: Destination,
    /// How the addresses of traces are made where the spec does not say.
    trace_url: Option<String>,
    warnings: Vec<String>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry")
            .field("traces", &self.traces)
            .finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Opens the run's span file and starts the exporter thread.
    ///
    /// Never fails: what cannot be set up is a warning in the account at the end.
    pub fn start(run: &RunInfo, lookup: Lookup<'_>) -> Self {
        let settings = Settings::read(run, lookup);
        let exporter = Exporter::start(&run.folder, &settings);
        let stage = Stage::new(
            &run.run_id,
            exporter.inlet.clone(),
            settings.ci.clone(),
            &settings.baggage,
        );
        let logger = (settings.logs != Destination::None).then(|| {
            SdkLoggerProvider::builder()
                .with_resource(settings.resource.clone())
                .with_log_processor(ForwardLogs(exporter.inlet.clone()))
                .build()
        });
        Self {
            exporter,
            stage,
            logger,
            traces: settings.traces,
            trace_url: settings.trace_url,
            warnings: settings.warnings,
        }
    }

    /// Opens the span of one spec's run.
    pub fn suite(&self, info: &SuiteInfo) -> Suite {
        self.stage.suite(info)
    }

    /// How the addresses of traces are made: as the spec says, else as the environment does; `None`
    /// where spans go nowhere but to the file.
    pub fn trace_url(&self, asked: Option<&str>) -> Option<String> {
        match self.traces {
            Destination::Otlp(_) => asked.or(self.trace_url.as_deref()).map(str::to_owned),
            Destination::None | Destination::Console => None,
        }
    }

    /// The layer that sends the process's log lines, INFO and above, to the logs endpoint; `None`
    /// without one.
    pub fn log_layer<S>(&self) -> Option<impl Layer<S> + Send + Sync + use<S>>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let bridge = OpenTelemetryTracingBridge::new(self.logger.as_ref()?);
        Some(bridge.with_filter(filter_fn(is_for_the_user)))
    }

    /// Gets everything out, in at most the budget and never more than five seconds, and gives the
    /// account.
    ///
    /// Suites and cases that are still open are not in it: finish them first.
    pub fn finish(self, budget: Duration) -> Exported {
        let budget = budget.min(MAX_BUDGET);
        self.exporter.finish(budget);
        let ledger = &self.exporter.ledger;
        let spans = Sent::of(&ledger.spans);
        let logs = Sent::of(&ledger.logs);
        let metrics = Sent::of(&ledger.points);
        let endpoint = match &self.traces {
            Destination::None => None,
            Destination::Console => Some("console".to_owned()),
            Destination::Otlp(endpoint) => Some(endpoint.shown()),
        };
        let mut warnings = self.warnings.clone();
        warnings.extend(lock(&ledger.warnings).iter().cloned());
        warnings.extend(self.network_warning(spans, logs, endpoint.as_deref()));
        Exported {
            written: ledger.written.load(Ordering::Relaxed),
            spans,
            logs,
            metrics,
            endpoint,
            warnings,
        }
    }

    /// One line about everything that did not get through.
    fn network_warning(&self, spans: Sent, logs: Sent, endpoint: Option<&str>) -> Option<String> {
        let why = |trouble: &Mutex<Option<String>>| {
            lock(trouble)
                .clone()
                .unwrap_or_else(|| "the time was too short".to_owned())
        };
        let ledger = &self.exporter.ledger;
        let [span_trouble, log_trouble, metric_trouble] = &ledger.trouble;
        let mut lost = Vec::new();
        if spans.lost() > 0 {
            lost.push(format!(
                "{} of {} spans did not reach {} ({}); the run's folder has them in {}",
                spans.lost(),
                spans.made,
                endpoint.unwrap_or("the network"),
                why(span_trouble),
                file::NAME,
            ));
        }
        if logs.lost() > 0 {
            lost.push(format!(
                "{} of {} log lines were not exported ({})",
                logs.lost(),
                logs.made,
                why(log_trouble),
            ));
        }
        if ledger.stale.load(Ordering::Relaxed) {
            lost.push(format!(
                "the last report of metrics was not taken ({})",
                why(metric_trouble)
            ));
        }
        (!lost.is_empty()).then(|| lost.join("; "))
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.exporter.inlet.abandon();
    }
}

/// Whether a log line is worth exporting.
fn is_for_the_user(metadata: &Metadata<'_>) -> bool {
    metadata.is_event()
        && *metadata.level() <= Level::INFO
        && !NOISY
            .iter()
            .any(|noisy| metadata.target().starts_with(noisy))
}
