//! The OTLP exporters of spans and logs.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::Status;
#[cfg(feature = "grpc")]
use opentelemetry_otlp::SpanExporter;
use opentelemetry_otlp::{
    Compression, LogExporter, Protocol, RetryPolicy, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLogRecord};
use opentelemetry_sdk::trace::SpanData;
#[cfg(feature = "grpc")]
use opentelemetry_sdk::trace::SpanExporter as _;

use super::courier::{Courier, Post, unusable};
#[cfg(feature = "grpc")]
use super::grpc;
use super::outbox::Sink;
use super::protobuf::Envelope;
use super::{Deadline, Trouble, lock};
use crate::telemetry::env::{Destination, Endpoint, Wire};

/// Where spans go.
pub(in crate::telemetry) enum SpanSink {
    /// Standard error.
    Console,
    /// An OTLP endpoint over HTTP.
    Http {
        /// The client.
        post: Box<Post>,
        /// What is the same in every request.
        envelope: Envelope,
    },
    /// An OTLP endpoint over gRPC.
    #[cfg(feature = "grpc")]
    Grpc(Carried<SpanExporter>),
}

/// Where logs go.
pub(super) enum LogSink {
    /// Standard error.
    Console,
    /// An OTLP endpoint.
    Otlp(Carried<LogExporter>),
}

/// An exporter of the SDK's.
pub(in crate::telemetry) struct Carried<E> {
    exporter: Box<E>,
    /// Items that the other side refused although it took the request.
    refused: Arc<AtomicU64>,
    /// Why the last request failed.
    trouble: Trouble,
}

impl<E> Carried<E> {
    /// What became of one request.
    fn outcome(&self, exported: OTelSdkResult) -> Result<u64, ()> {
        if exported.is_ok() {
            return Ok(self.refused.swap(0, Ordering::Relaxed));
        }
        // The client has said why; gRPC has none of ours below it.
        lock(&self.trouble).get_or_insert_with(|| "the export failed".to_owned());
        Err(())
    }
}

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
    match endpoint.wire {
        Wire::Http => Ok(Some(SpanSink::Http {
            post: Box::new(Post::new(endpoint, &trouble, deadline)?),
            envelope: Envelope::new(resource),
        })),
        #[cfg(feature = "grpc")]
        Wire::Grpc => {
            let built = grpc::configured(SpanExporter::builder().with_tonic(), endpoint)?.build();
            let mut exporter = built.map_err(|_| unusable(endpoint))?;
            exporter.set_resource(resource);
            Ok(Some(SpanSink::Grpc(Carried {
                exporter: Box::new(exporter),
                refused: Arc::default(),
                trouble,
            })))
        }
        #[cfg(not(feature = "grpc"))]
        Wire::Grpc => Ok(None),
    }
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
    Ok(Some(LogSink::Otlp(Carried {
        exporter: Box::new(exporter),
        refused,
        trouble,
    })))
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
            Self::Http { post, envelope } => post.send(envelope.request(&batch)).await,
            #[cfg(feature = "grpc")]
            Self::Grpc(carried) => carried.outcome(carried.exporter.export(batch).await),
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
            Self::Otlp(carried) => {
                let batch: Vec<_> = batch
                    .iter()
                    .map(|(record, scope)| (record, scope))
                    .collect();
                carried.outcome(carried.exporter.export(LogBatch::new(&batch)).await)
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
