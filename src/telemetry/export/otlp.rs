//! The OTLP exporters and the HTTP client below them.
//!
//! Nothing here shows a header's value or a URL's user info: errors are put into our own words.

use std::error::Error;
use std::io;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::Status;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    Compression, LogExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, SdkLogRecord};
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use prost::Message;
use reqwest::{Certificate, Client, Identity, redirect};

use super::outbox::{Sink, pause};
use super::{Deadline, lock};
use crate::telemetry::env::{Destination, Endpoint, Wire};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// First and longest wait between two tries of one request.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Largest answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// Why the last request failed, for the warning at the end.
type Trouble = Arc<Mutex<Option<String>>>;

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

fn unusable(endpoint: &Endpoint) -> String {
    format!("no exporter can be made for {}", endpoint.shown())
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

/// Carries OTLP requests over HTTP, again and again while the run lasts.
///
/// A Collector that is restarted loses nothing as long as the queue holds. At the end of a run a
/// Collector that never answered gets one more try, one that did gets all the time there is.
struct Courier {
    client: Client,
    endpoint: Endpoint,
    reached: AtomicBool,
    refused: Arc<AtomicU64>,
    trouble: Trouble,
    deadline: Deadline,
}

impl std::fmt::Debug for Courier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Courier")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Courier {
    fn new(
        endpoint: &Endpoint,
        trouble: &Trouble,
        refused: &Arc<AtomicU64>,
        deadline: Deadline,
    ) -> Result<Self, String> {
        // reqwest panics without a process-wide provider; whoever installs one first wins.
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let mut builder = Client::builder()
            .connect_timeout(CONNECT)
            .timeout(endpoint.timeout)
            // A redirect could carry the headers, which are secrets, to another host.
            .redirect(redirect::Policy::none());
        if endpoint.is_loopback() {
            builder = builder.no_proxy();
        }
        if let Some(file) = &endpoint.certificate {
            let certificates = Certificate::from_pem_bundle(&read(file)?)
                .map_err(|_| format!("{file} holds no PEM certificates; nothing is sent"))?;
            builder = builder.tls_certs_only(certificates);
        }
        if let Some((certificate, key)) = &endpoint.client {
            let mut pem = read(certificate)?;
            pem.push(b'\n');
            pem.extend(read(key)?);
            let identity = Identity::from_pem(&pem).map_err(|_| {
                format!("{certificate} and {key} are no PEM certificate and key; nothing is sent")
            })?;
            builder = builder.identity(identity);
        }
        Ok(Self {
            client: builder.build().map_err(|_| unusable(endpoint))?,
            endpoint: endpoint.clone(),
            reached: AtomicBool::new(false),
            refused: Arc::clone(refused),
            trouble: Arc::clone(trouble),
            deadline,
        })
    }

    /// One try: the answer, or why there is none in our own words.
    async fn carry(
        &self,
        request: &http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, &'static str> {
        let mut headers = request.headers().clone();
        for (name, value) in &self.endpoint.headers {
            headers.insert(name, value.clone());
        }
        let mut response = self
            .client
            .post(self.endpoint.url.clone())
            .headers(headers)
            .body(request.body().clone())
            .send()
            .await
            .map_err(|error| reason(&error))?;
        let mut answer = http::Response::new(Bytes::new());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| reason(&error))? {
            let room = MAX_ANSWER.saturating_sub(body.len());
            if chunk.len() > room {
                return Err("the answer is too large");
            }
            body.extend_from_slice(&chunk);
        }
        *answer.body_mut() = body.into();
        Ok(answer)
    }

    fn note(&self, reason: String) {
        *lock(&self.trouble) = Some(reason);
    }
}

#[async_trait]
impl HttpClient for Courier {
    async fn send_bytes(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, HttpError> {
        let mut deadline = self.deadline.clone();
        let mut wait = BACKOFF.0;
        loop {
            let (outcome, again) = match self.carry(&request).await {
                Ok(answer) if answer.status().is_success() => {
                    self.reached.store(true, Ordering::Relaxed);
                    // Answers about logs have the same shape; one that is no OTLP is as good as
                    // an empty one.
                    let partial = ExportTraceServiceResponse::decode(answer.body().clone())
                        .ok()
                        .and_then(|answer| answer.partial_success);
                    if let Some(partial) = partial
                        && let Ok(refused @ 1..) = u64::try_from(partial.rejected_spans)
                    {
                        self.refused.fetch_add(refused, Ordering::Relaxed);
                        self.note("the other side refused some".to_owned());
                    }
                    return Ok(answer);
                }
                Ok(answer) => {
                    let status = answer.status();
                    self.note(format!("HTTP status {}", status.as_u16()));
                    let again = matches!(status.as_u16(), 429 | 502 | 503 | 504);
                    wait = retry_after(&answer)
                        .unwrap_or(wait)
                        .clamp(BACKOFF.0, BACKOFF.1);
                    (Ok(answer), again)
                }
                Err(reason) => {
                    self.note(reason.to_owned());
                    (Err(HttpError::from(reason)), true)
                }
            };
            let hopeless = deadline.borrow().is_some() && !self.reached.load(Ordering::Relaxed);
            if !again || hopeless {
                return outcome;
            }
            pause(wait, &mut deadline).await;
            wait = (wait * 2).min(BACKOFF.1);
        }
    }
}

/// What `Retry-After` asks for, in seconds.
fn retry_after(answer: &http::Response<Bytes>) -> Option<Duration> {
    let value = answer.headers().get(http::header::RETRY_AFTER)?;
    value.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// A client's error in our own words; its own may hold a URL with a password.
fn reason(error: &reqwest::Error) -> &'static str {
    let mut source = error.source();
    while let Some(cause) = source {
        match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => return "connection refused",
            Some(io::ErrorKind::ConnectionReset) => return "connection reset",
            _ => source = cause.source(),
        }
    }
    if error.is_timeout() {
        "no answer in time"
    } else if error.is_connect() {
        "cannot connect"
    } else {
        "the request broke off"
    }
}

fn read(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{file}: {error}; nothing is sent"))
}

#[cfg(feature = "grpc")]
mod grpc {
    //! What gRPC exporters need besides the endpoint.

    use opentelemetry_otlp::tonic_types::metadata::MetadataMap;
    use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
    use opentelemetry_otlp::{Compression, Protocol, WithExportConfig, WithTonicConfig};

    use super::read;
    use crate::telemetry::env::Endpoint;

    /// Sets endpoint, headers, TLS and compression.
    pub(super) fn configured<B: WithExportConfig + WithTonicConfig>(
        builder: B,
        endpoint: &Endpoint,
    ) -> Result<B, String> {
        let headers = endpoint.headers.iter().cloned().collect();
        let mut builder = builder
            .with_protocol(Protocol::Grpc)
            .with_endpoint(endpoint.shown())
            .with_timeout(endpoint.timeout)
            .with_metadata(MetadataMap::from_headers(headers));
        if endpoint.gzip {
            builder = builder.with_compression(Compression::Gzip);
        }
        if endpoint.url.scheme() == "https" {
            let mut tls = ClientTlsConfig::new();
            tls = match &endpoint.certificate {
                Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
                None => tls.with_native_roots(),
            };
            if let Some((certificate, key)) = &endpoint.client {
                tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
            }
            builder = builder.with_tls_config(tls);
        }
        Ok(builder)
    }
}
