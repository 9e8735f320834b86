//! What both HTTP clients are given: how to reach a relay, and a request to send.

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;
use url::Url;

use crate::plan::{ConnectionMode, HttpVersion};

/// One HTTP request, ready to send: `POST` with a JSON body.
///
/// `Debug` shows neither header values nor the body.
#[derive(Clone)]
pub struct Request {
    /// Full URL.
    pub url: Url,
    /// All headers, `authorization` included (marked sensitive).
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// How to reach a relay: what both clients need to be built.
#[derive(Clone)]
pub struct Dial {
    /// Fresh connections or a warm pool.
    pub connection: ConnectionMode,
    /// HTTP version.
    pub http: HttpVersion,
    /// Proxy for this relay, already looked up in the environment where the plan says so; user and
    /// password may be in it, so this type's `Debug` shows host and port only.
    pub proxy: Option<Url>,
    /// Additional trusted certificates, PEM.
    pub extra_ca_pem: Vec<Vec<u8>>,
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dial")
            .field("connection", &self.connection)
            .field("http", &self.http)
            .field(
                "proxy",
                &self.proxy.as_ref().map(|url| (url.host_str(), url.port())),
            )
            .field("extra_ca", &self.extra_ca_pem.len())
            .finish()
    }
}

/// Our own failure to set a client up; never the relay's.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// A certificate file is no PEM certificate.
    #[error("the CA certificates cannot be read: {0}")]
    Certificates(String),
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be built: {0}")]
    Client(String),
    /// The settings do not go together.
    #[error("{0}")]
    Unsupported(&'static str),
}
