//! The connection state machine: timed inputs in, one [`Observation`] out.
//!
//! Sans-IO: no clock, no socket, no async. A transport calls [`Exchange::handle`] with each thing
//! that happened and its offset from the attempt's start, and asks [`Exchange::deadline`] when to
//! call back if nothing does. All time limits live here, so both transports obey the same ones.

pub mod sse;

use std::time::Duration;

use crate::dialect::Protocol;
use crate::observation::{Connection, Limit, Observation, Phase};

/// What a transport tells an exchange.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection phase (pool, dns, connect, tunnel, tls, send) began.
    Enter(Phase),
    /// That phase ended well.
    Leave(Phase),
    /// Facts about the connection; later facts win over earlier ones, `None` overwrites nothing.
    Connected(Connection),
    /// The first response byte was read (raw transport only).
    FirstByte,
    /// The response head is complete.
    Head(Head<'a>),
    /// Body bytes, HTTP framing taken off.
    Body(&'a [u8]),
    /// The HTTP framing of the response is broken; the body cannot be trusted from here on.
    Framing(FramingFault),
    /// The body ended as HTTP says it should (last chunk, Content-Length, close-delimited EOF).
    BodyEnd,
    /// The connection was lost.
    Lost(Loss),
    /// The deadline that [`Exchange::deadline`] named has passed.
    Deadline,
    /// Our side called the attempt off.
    Cancelled,
}

/// A response head.
#[derive(Debug)]
pub struct Head<'a> {
    /// Status code.
    pub status: u16,
    /// `1.0`, `1.1`, `2`.
    pub version: &'static str,
    /// Header names (lower case) and values as they came, in order.
    pub headers: Vec<(&'a str, &'a [u8])>,
}

/// How a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Name resolution failed.
    Dns,
    /// The peer refused the connection.
    Refused,
    /// Host or network unreachable.
    Unreachable,
    /// The proxy refused the tunnel.
    Tunnel,
    /// The TLS handshake failed.
    Tls,
    /// The peer's certificate was not accepted.
    Certificate,
    /// The peer closed (FIN) where it should not have.
    Closed,
    /// The peer reset the connection (RST).
    Reset,
    /// The HTTP library gave up for a reason it does not tell apart.
    Other,
}

/// A fault of HTTP framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingFault {
    /// The status line or a header is no HTTP.
    BadHead,
    /// The head passed a size or count limit.
    HeadTooLarge,
    /// A chunk-size line is no hexadecimal number.
    BadChunkSize,
    /// A chunk is not closed by CRLF.
    BadChunkEnd,
    /// Both Content-Length and Transfer-Encoding.
    TwoFramings,
    /// Content-Length values that differ, or no number.
    BadContentLength,
    /// Bytes after the body's end.
    BytesAfterBody,
    /// The body is shorter than Content-Length.
    ShortBody,
    /// A content or transfer coding that was not asked for.
    UnaskedCoding,
    /// The HTTP library does not say which.
    Unspecified,
}

/// What was asked of the relay, as far as reading the answer depends on it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Wire protocol.
    pub protocol: Protocol,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// Model asked for.
    pub model: String,
    /// Output budget asked for.
    pub max_tokens: Option<u64>,
    /// Whether usage was asked for.
    pub usage: bool,
    /// Text that the prompt asked the answer to end with.
    pub seal: Option<String>,
    /// Size of the request body.
    pub request_bytes: u64,
    /// What the workload expects of the answer.
    pub expect: crate::expect::Expect,
    /// Whether to hand the visible answer out in [`Observation::text`].
    pub keep_text: bool,
}

/// Time limits of one attempt (0-decisions: `headers` and `first_token` count from t0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Timeouts {
    /// Name resolution.
    #[serde(rename = "dns_us", with = "crate::observation::micros")]
    pub dns: Duration,
    /// TCP connect and tunnel.
    #[serde(rename = "connect_us", with = "crate::observation::micros")]
    pub connect: Duration,
    /// TLS handshake.
    #[serde(rename = "tls_us", with = "crate::observation::micros")]
    pub tls: Duration,
    /// Response head, from t0.
    #[serde(rename = "headers_us", with = "crate::observation::micros")]
    pub headers: Duration,
    /// First model output, from t0.
    #[serde(rename = "first_token_us", with = "crate::observation::micros")]
    pub first_token: Duration,
    /// Silence between model outputs; heartbeats do not reset it.
    #[serde(rename = "idle_us", with = "crate::observation::micros")]
    pub idle: Duration,
    /// The whole attempt, from t0.
    #[serde(rename = "total_us", with = "crate::observation::micros")]
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            dns: Duration::from_secs(2),
            connect: Duration::from_secs(3),
            tls: Duration::from_secs(3),
            headers: Duration::from_secs(30),
            first_token: Duration::from_secs(60),
            idle: Duration::from_secs(10),
            total: Duration::from_secs(120),
        }
    }
}

/// One attempt being watched.
#[derive(Debug)]
pub struct Exchange {
    asked: Asked,
    timeouts: Timeouts,
}

impl Exchange {
    /// Starts watching; offset zero is the moment the attempt starts.
    pub fn new(asked: Asked, timeouts: Timeouts) -> Self {
        Self { asked, timeouts }
    }

    /// Takes one thing that happened at `at` (an offset from the attempt's start).
    pub fn handle(&mut self, at: Duration, input: Input<'_>) {
        let _ = (&self.asked, &self.timeouts, at, input);
        todo!()
    }

    /// When to call back with [`Input::Deadline`] if nothing happens before, and which limit it is.
    pub fn deadline(&self) -> Option<(Duration, Limit)> {
        todo!()
    }

    /// Whether the attempt is over and the transport should stop reading.
    pub fn is_over(&self) -> bool {
        todo!()
    }

    /// Whether any model output has arrived (no retry after that).
    pub fn has_output(&self) -> bool {
        todo!()
    }

    /// Closes the books.
    pub fn finish(self) -> Observation {
        todo!()
    }
}
