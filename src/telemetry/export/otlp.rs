//! The OTLP exporters of spans and logs.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::Status;
use opentelemetry_otlp::{
    Compression, LogExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLogRecord};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};

use super::courier::{Courier, unusable};
#[cfg(feature = "grpc")]
use super::grpc;
use super::outbox::Sink;
use super::{Deadline, Trouble, lock};
use crate::telemetry::env::{Destination, Endpoint, Wire};

/// Where the items of one signal go.
pub(in crate::telemetry) enum Outlet<E> {
    /// Standard error.
    Console,
    /// An OTLP endpoint.
    Otlp {
        /// The exporter.
        exporter: Box<E>,
        /// Items that the other side refused although it took the request.
        refused: Arc<AtomicU64>,
        /// Why the last request failed.
        trouble: Trouble,
    },
}

impl<E> Outlet<E> {
    /// What became of one request.
    fn outcome(&self, exported: OTelSdkResult) -> Result<u64, ()> {
        match (self, exported) {
            (Self::Console, _) => Ok(0),
            (Self::Otlp { refused, .. }, Ok(())) => Ok(refused.swap(0, Ordering::Relaxed)),
            (Self::Otlp { trouble, .. }, Err(_)) => {
                // The client has said why; gRPC has none of ours below it.
                lock(trouble).get_or_insert_with(|| "the export failed".to_owned());
                Err(())
            }
        }
    }
}

/// Where spans go.
pub(in crate::telemetry) type SpanSink = Outlet<SpanExporter>;

/// Where logs go.
pub(super) type LogSink = Outlet<LogExporter>;

/// Builds the sink of spans.
pub(in crate::telemetry) fn spans(
    destination: &Destination,
    resource: &Resource,
    trouble: Trouble,
    deadline: Deadline,
) -> Result<Option<SpanSink>, String> {
    let endpoint = match destination {
        Destination::None => return Ok(None),
        Destination::Console => return Ok(Some(SpanSink::Console)),
        Destination::Otlp(endpoint) => endpoint,
    };
    let refused = Arc::new(AtomicU64::new(0));
    let built = match endpoint.wire {
        Wire::Http => {
            let client = Courier::new(endpoint, &trouble, &refused, deadline)?;
            configured(SpanExporter::builder().with_http(), endpoint, client).build()
        }
        #[cfg(feature = "grpc")]
        Wire::Grpc => grpc::configured(SpanExporter::builder().with_tonic(), endpoint)?.build(),
        #[cfg(not(feature = "grpc"))]
        Wire::Grpc => return Ok(None),
    };
    let mut exporter = built.map_err(|_| unusable(endpoint))?;
    exporter.set_resource(resource);
    Ok(Some(SpanSink::Otlp {
        exporter: Box::new(exporter),
        refused,
        trouble,
    }))
}

/// Builds the sink of logs.
pub(super) fn logs(
    destination: &Destination,
    resource: &Resource,
    trouble: Trouble,
    deadline: Deadline,
) -> Result<Option<LogSink>, String> {
    let endpoint = match destination {
        Destination::None => return Ok(None),
        Destination::Console => return Ok(Some(LogSink::Console)),
        Destination::Otlp(endpoint) => endpoint,
    };
    let refused = Arc::new(AtomicU64::new(0));
    let built = match endpoint.wire {
        Wire::Http => {
            let client = Courier::new(endpoint, &trouble, &refused, deadline)?;
            configured(LogExporter::builder().with_http(), endpoint, client).build()
        }
        #[cfg(feature = "grpc")]
        Wire::Grpc => grpc::configured(LogExporter::builder().with_tonic(), endpoint)?.build(),
        #[cfg(not(feature = "grpc"))]
        Wire::Grpc => return Ok(None),
    };
    let mut exporter = built.map_err(|_| unusable(endpoint))?;
    exporter.set_resource(resource);
    Ok(Some(LogSink::Otlp {
        exporter: Box::new(exporter),
        refused,
        trouble,
    }))
}

/// Sets everything that an HTTP exporter needs.
fn configured<B: WithExportConfig + WithHttpConfig>(
    builder: B,
    endpoint: &Endpoint,
    client: Courier,
) -> B {
    let builder = builder
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(endpoint.shown())
        .with_timeout(endpoint.timeout)
        // The client tries again by itself, and knows when the run ends.
        .with_retry_policy(RetryPolicy::disabled())
        .with_http_client(client);
    if endpoint.gzip {
        builder.with_compression(Compression::Gzip)
    } else {
        builder
    }
}

impl Sink<SpanData> for SpanSink {
    async fn send(&self, batch: Vec<SpanData>) -> Result<u64, ()> {
        match self {
            Self::Console => {
                let mut out = io::stderr().lock();
                batch
                    .iter()
                    .try_for_each(|span| writeln!(out, "{}", line(span)))
                    .map(|()| 0)
                    .map_err(drop)
            }
            Self::Otlp { exporter, .. } => self.outcome(exporter.export(batch).await),
        }
    }
}

impl Sink<(SdkLogRecord, InstrumentationScope)> for LogSink {
    async fn send(&self, batch: Vec<(SdkLogRecord, InstrumentationScope)>) -> Result<u64, ()> {
        match self {
            Self::Console => {
                let mut out = io::stderr().lock();
                batch
                    .iter()
                    .try_for_each(|(record, _)| {
                        let severity = record.severity_text().unwrap_or("LOG");
                        let body = record.body().map(|body| format!("{body:?}"));
                        writeln!(out, "log  {severity} {}", body.unwrap_or_default())
                    })
                    .map(|()| 0)
                    .map_err(drop)
            }
            Self::Otlp { exporter, .. } => {
                let batch: Vec<_> = batch
                    .iter()
                    .map(|(record, scope)| (record, scope))
                    .collect();
                self.outcome(exporter.export(LogBatch::new(&batch)).await)
            }
        }
    }
}

/// A span on the console.
fn line(span: &SpanData) -> String {
    let length = span
        .end_time
        .duration_since(span.start_time)
        .unwrap_or_default();
    let status = match &span.status {
        Status::Unset => "",
        Status::Ok => " ok",
        Status::Error { .. } => " error",
    };
    format!(
        "span {} {} {} {:.6} s{status}",
        span.span_context.trace_id(),
        span.span_context.span_id(),
        span.name,
        length.as_secs_f64(),
    )
}
