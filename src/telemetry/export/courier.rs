//! The HTTP client below the OTLP exporters: tries again while the run lasts, and says in our own
//! words why it failed.
//!
//! Nothing here shows a header's value or a URL's user info.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use reqwest::{Certificate, Client, Identity, redirect};

use super::outbox::pause;
use super::{Deadline, Trouble, lock};
use crate::telemetry::env::Endpoint;

/// Longest wait for a connection.
pub(super) const CONNECT: Duration = Duration::from_secs(2);

/// First and longest wait between two tries of one request.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Largest answer that is read.
const MAX_ANSWER: usize = 64 * 1024;

/// Carries OTLP requests over HTTP, again and again while the run lasts.
///
/// A Collector that is restarted loses nothing as long as the queue holds. At the end of a run a
/// Collector that never answered gets one more try, one that did gets all the time there is.
pub(super) struct Courier {
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
    /// Reads the files that the endpoint names.
    pub(super) fn new(
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
            if endpoint.url.scheme() == "http" {
                // Nothing will ever be encrypted, and reading the system's certificates costs as much
                // as the spans of some dozen samples.
                builder = builder.tls_certs_only([]);
            }
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
                    // Answers about logs and metrics have the same shape; one that is no OTLP is as good as
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

/// Posts protobuf bodies to one endpoint.
#[derive(Debug)]
pub(in crate::telemetry) struct Post {
    courier: Courier,
    gzip: bool,
    refused: Arc<AtomicU64>,
}

impl Post {
    /// Reads the files that the endpoint names.
    pub(super) fn new(
        endpoint: &Endpoint,
        trouble: &Trouble,
        deadline: Deadline,
    ) -> Result<Self, String> {
        let refused = Arc::new(AtomicU64::new(0));
        Ok(Self {
            courier: Courier::new(endpoint, trouble, &refused, deadline)?,
            gzip: endpoint.gzip,
            refused,
        })
    }

    /// Sends one body; gives the items that were refused, or an error for all.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<u64, ()> {
        let request = packed(body, self.gzip).map_err(drop)?;
        let answer = self.courier.send_bytes(request).await.map_err(drop)?;
        if answer.status().is_success() {
            Ok(self.refused.swap(0, Ordering::Relaxed))
        } else {
            Err(())
        }
    }
}

/// A body as a request; the client knows where to.
fn packed(mut body: Vec<u8>, gzip: bool) -> Result<http::Request<Bytes>, HttpError> {
    let mut request = http::Request::post("/")
        .header(http::header::CONTENT_TYPE, "application/x-protobuf")
        .header(
            http::header::USER_AGENT,
            concat!("relayproof/", env!("CARGO_PKG_VERSION")),
        );
    if gzip {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&body)?;
        body = packer.finish()?;
        request = request.header(http::header::CONTENT_ENCODING, "gzip");
    }
    Ok(request.body(body.into())?)
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

/// What is said of an endpoint for which there is no exporter.
pub(super) fn unusable(endpoint: &Endpoint) -> String {
    format!("no exporter can be made for {}", endpoint.shown())
}

/// The content of a file that a variable names.
pub(super) fn read(file: &str) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{file}: {error}; nothing is sent"))
}
