//! What was seen of one attempt: times, findings, counts, and how it ended.
//!
//! Facts only: nothing here judges, blames or aggregates, and nothing here is content.
//! An unknown time is `None`, never zero.

mod about;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::forms::{micros, named, opt_micros};

named! {
    /// One stage of an attempt, in the order in which stages happen.
    Phase {
        /// Waiting for a pooled connection to come free.
        Pool = "pool",
        /// Name resolution.
        Dns = "dns",
        /// TCP connect (to the proxy where one is used).
        Connect = "connect",
        /// CONNECT or SOCKS exchange with a proxy.
        Tunnel = "tunnel",
        /// TLS handshake.
        Tls = "tls",
        /// Writing the request.
        Send = "send",
        /// From the last request byte to the first response byte (to the head where the transport
        /// cannot show the first byte).
        Wait = "wait",
        /// From the first response byte to the end of the response head.
        Head = "head",
        /// From the response head to the first event of any kind.
        FirstEvent = "first_event",
        /// From the first event to the first non-empty model output.
        FirstToken = "first_token",
        /// From the first to the last model output.
        Stream = "stream",
        /// From the last model output to the end mark.
        End = "end",
    }
}

named! {
    /// One way in which an attempt is not a whole, honest answer.
    ///
    /// The order is the order of leadership: of several classes found on one stream the first one
    /// here names the outcome.
    Class {
        /// The name did not resolve.
        DnsFailure = "dns-failure",
        /// The TCP connection was refused, reset or never answered.
        ConnectRefused = "connect-refused",
        /// The TLS handshake failed.
        TlsFailure = "tls-failure",
        /// Connected, request sent, and the peer ended before a status line.
        NoResponse = "no-response",
        /// A status other than 2xx.
        HttpError = "http-error",
        /// HTTP framing is broken: bad chunk, wrong length, two framings, unasked coding.
        ProtocolViolation = "protocol-violation",
        /// 200 with a JSON error for a body.
        Fake200JsonError = "fake-200-json-error",
        /// 200 with an HTML page.
        Fake200Html = "fake-200-html",
        /// 200 and nothing.
        Fake200Empty = "fake-200-empty",
        /// An error said in-band.
        ErrorInStream = "error-in-stream",
        /// A finish reason that admits a break.
        UpstreamAbort = "upstream-abort",
        /// Cut off or replaced by a filter, and marked as such.
        ContentFiltered = "content-filtered",
        /// The error text is given as the model's words.
        ErrorAsContent = "error-as-content",
        /// Bytes that are not UTF-8.
        InvalidUtf8 = "invalid-utf8",
        /// One JSON object spread over several events.
        JsonSplitAcrossEvents = "json-split-across-events",
        /// A complete event whose data is not strict JSON.
        MalformedJson = "malformed-json",
        /// Valid JSON that is not the protocol's object.
        SchemaViolation = "schema-violation",
        /// Two generations in one stream.
        StreamSplice = "stream-splice",
        /// Each delta repeats all text so far.
        CumulativeDeltas = "cumulative-deltas",
        /// Joined tool-call arguments are no JSON, or calls are mixed up.
        ToolCallCorrupt = "tool-call-corrupt",
        /// Events after the end mark.
        DataAfterDone = "data-after-done",
        /// A second end mark.
        DuplicateTerminator = "duplicate-terminator",
        /// Open, but no model output within the limit.
        Stalled = "stalled",
        /// The body ended before the end mark.
        TruncatedNoTerminator = "truncated-no-terminator",
        /// The end mark arrived, but no finish reason ever did.
        SilentTruncation = "silent-truncation",
        /// Content after that choice had finished.
        ContentAfterFinish = "content-after-finish",
        /// A proper stream with no answer in it.
        EmptyAnswer = "empty-answer",
        /// Cut at a length below the budget that was asked for.
        UnexpectedLengthCut = "unexpected-length-cut",
        /// U+FFFD in the text, left by a decoder on the way.
        ReplacementChars = "replacement-chars",
        /// Not an event stream, or another stream format under that name.
        WrongContentType = "wrong-content-type",
        /// Another model answered.
        ModelMismatch = "model-mismatch",
        /// Usage was asked for and is missing, zero, or does not add up.
        UsageMismatch = "usage-mismatch",
        /// The whole answer came in one burst.
        NotStreamed = "not-streamed",
        /// A legal ending without the seal that the prompt asked for.
        MaskedTruncation = "masked-truncation",
    }
}

named! {
    /// Something odd that does not fail an attempt.
    Warning {
        /// The body stayed open after the end mark.
        BodyNotEndedAfterDone = "body-not-ended-after-done",
        /// The connection was lost before the body's framed end, but after the end mark.
        MissingLastChunk = "missing-last-chunk",
        /// An event stream whose type names a charset other than UTF-8, which readers ignore.
        OddContentType = "odd-content-type",
        /// The body ended inside an event.
        UnfinishedLastEvent = "unfinished-last-event",
        /// A finish reason that the protocol does not know.
        UnknownFinishReason = "unknown-finish-reason",
        /// The finish reason is an empty string where null is meant.
        FinishReasonEmptyString = "finish-reason-empty-string",
        /// A choice was finished more than once, with no content after the first time.
        FinishRepeated = "finish-repeated",
        /// An event whose data is empty.
        EmptyEvent = "empty-event",
        /// Lines that are no field of the event stream's grammar.
        UnknownField = "unknown-field",
        /// An event whose type the protocol does not know.
        UnknownEvent = "unknown-event",
        /// An event without the name that the protocol gives it.
        MissingEventName = "missing-event-name",
        /// The body ended while the stream's own account had an item in progress.
        LeftOpen = "left-open",
        /// Another protocol's end mark after the true one.
        DoneAfterCompleted = "done-after-completed",
        /// Output came in a few big blocks, too few to tell a buffer from a model that does so.
        BigBlocks = "big-blocks",
        /// Text beyond the kept limit was not looked at by content checks.
        TextLimit = "text-limit",
    }
}

named! {
    /// How an attempt ended.
    Ending {
        /// The end mark arrived.
        Completed = "completed",
        /// A status other than 2xx.
        Refused = "refused",
        /// The relay said in-band that it failed.
        Errored = "errored",
        /// The body could not be read as the protocol.
        Malformed = "malformed",
        /// A time limit passed.
        Stalled = "stalled",
        /// The body ended before the end mark, even if the socket closed cleanly.
        Truncated = "truncated",
        /// No response head arrived.
        Unreachable = "unreachable",
        /// Our side called it off (Ctrl-C, the run was decided). Never counted.
        Cancelled = "cancelled",
    }
}

named! {
    /// How a connection was lost.
    Loss {
        /// Name resolution failed.
        Dns = "dns",
        /// The peer refused the connection.
        Refused = "refused",
        /// Host or network unreachable.
        Unreachable = "unreachable",
        /// The proxy refused the tunnel.
        Tunnel = "tunnel",
        /// The TLS handshake failed.
        Tls = "tls",
        /// The peer's certificate was not accepted.
        Certificate = "certificate",
        /// The peer's certificate begins to be valid later than this machine's clock says it is.
        CertificateEarly = "certificate-not-yet-valid",
        /// The peer's certificate ended to be valid before what this machine's clock says.
        CertificateLate = "certificate-expired",
        /// Plain bytes came back that are no HTTP, as from a port that expects TLS.
        NoHttp = "no-http",
        /// The peer closed (FIN) where it should not have.
        Closed = "closed",
        /// The peer reset the connection (RST).
        Reset = "reset",
        /// Our own machine had no file, port, memory or network for the call.
        Local = "local",
        /// The HTTP library gave up for a reason it does not tell apart.
        Other = "other",
    }
}

named! {
    /// What an error that the relay said is about, read from its code, status or wording.
    ///
    /// The wording itself is never kept.
    ErrorKind {
        /// Too many requests or tokens in a time.
        RateLimit = "rate-limit",
        /// Quota or balance used up, payment wanted.
        Quota = "quota",
        /// The key is missing, wrong, or not allowed to do this.
        Key = "key",
        /// The model service is overloaded.
        Overloaded = "overloaded",
        /// The relay has no upstream for this model.
        NoChannel = "no-channel",
        /// The model is not known here.
        UnknownModel = "unknown-model",
        /// A guardrail or filter spoke in place of the model.
        Guardrail = "guardrail",
        /// A web page of a gateway, a login or a challenge.
        Page = "page",
        /// Plain HTTP was spoken to a port that expects TLS.
        PlainHttp = "plain-http",
        /// Anything else.
        Other = "other",
    }
}

named! {
    /// The limit that a time-out passed.
    Limit {
        /// Name resolution.
        Dns = "dns",
        /// TCP connect, tunnel included.
        Connect = "connect",
        /// TLS handshake.
        Tls = "tls",
        /// Response head, from t0.
        Headers = "headers",
        /// First model output, from t0.
        FirstToken = "first_token",
        /// Silence between model outputs.
        Idle = "idle",
        /// The whole attempt, from t0.
        Total = "total",
        /// Grace for the body's end after the end mark; not a fault.
        AfterDone = "after_done",
    }
}

/// A stretch of one attempt; `end` is `None` when the attempt ended inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stretch {
    /// Offset of the start.
    #[serde(rename = "start_us", with = "micros")]
    pub start: Duration,
    /// Offset of the end.
    #[serde(rename = "end_us", with = "opt_micros", default)]
    pub end: Option<Duration>,
}

impl Stretch {
    /// Length, if the stretch was completed.
    pub fn length(&self) -> Option<Duration> {
        Some(self.end?.saturating_sub(self.start))
    }
}

/// Offsets of one attempt on one monotonic clock, from the attempt's start.
///
/// Absent means that it did not happen: no DNS for an IP literal or a reused connection, no first
/// token in an attempt that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timeline {
    /// Waiting for a pooled connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Stretch>,
    /// Name resolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<Stretch>,
    /// TCP connect, over all addresses tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect: Option<Stretch>,
    /// Proxy tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<Stretch>,
    /// TLS handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Stretch>,
    /// First to last request byte handed to the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Stretch>,
    /// First response byte; `None` where the transport cannot show it apart from the head.
    #[serde(
        rename = "first_byte_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_byte: Option<Duration>,
    /// Response head complete.
    #[serde(
        rename = "head_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub head: Option<Duration>,
    /// First body bytes.
    #[serde(
        rename = "first_chunk_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_chunk: Option<Duration>,
    /// First event of any kind, also one without content.
    #[serde(
        rename = "first_event_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_event: Option<Duration>,
    /// First non-empty content, reasoning, refusal or tool-call delta.
    ///
    /// Role-only frames and keep-alive comments do not count, so this is never before
    /// `first_event`.
    #[serde(
        rename = "first_token_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub first_token: Option<Duration>,
    /// Last non-empty delta.
    #[serde(
        rename = "last_token_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_token: Option<Duration>,
    /// The protocol's own end mark.
    #[serde(
        rename = "end_mark_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub end_mark: Option<Duration>,
    /// The attempt was over for us.
    #[serde(rename = "over_us", with = "micros")]
    pub over: Duration,
}

/// One thing wrong with an attempt, without content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What is wrong.
    pub class: Class,
    /// Phase in which it was seen.
    pub phase: Phase,
    /// When it was seen.
    #[serde(
        rename = "at_us",
        with = "opt_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub at: Option<Duration>,
    /// Byte offset in the body (after HTTP framing is taken off).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Index of the event, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<u64>,
    /// Which form of the class, in our own words; never the relay's text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// A silence between two packets of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Offset at which the silence ended.
    #[serde(rename = "at_us", with = "micros")]
    pub at: Duration,
    /// Its length.
    #[serde(rename = "length_us", with = "micros")]
    pub length: Duration,
    /// Index of the packet that ended it, from 1.
    pub packet: u64,
}

/// The shape of the model's output over time (3-statistics §4), enough for TPS and jitter.
///
/// A packet is all content events less than 1 ms after the packet's first event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Packets {
    /// Packets.
    pub count: u64,
    /// Content events before merging.
    pub content_events: u64,
    /// Characters (Unicode scalar values) of all packets.
    pub chars: u64,
    /// Characters of the first packet.
    pub first_chars: u64,
    /// Whether any of the output was reasoning: only then are reasoning tokens part of the stream.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reasoning: bool,
    /// Time of the first packet.
    #[serde(
        rename = "first_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub first: Option<Duration>,
    /// Time of the last packet.
    #[serde(
        rename = "last_us",
        with = "opt_micros",
        skip_serializing_if = "Option::is_none"
    )]
    pub last: Option<Duration>,
    /// Mean of the gaps, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_mean_s: Option<f64>,
    /// Sum of squared deviations of the gaps from their mean, seconds squared (Welford).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_m2_s2: Option<f64>,
    /// The 16 longest gaps, longest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub longest: Vec<Gap>,
}

/// Token counts as the relay reported them; never estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens of the answer, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Reasoning tokens, where told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
    /// Cached prompt tokens, where told apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// The total, where given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
}

/// Tokens by a tokenizer of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnCount {
    /// Tokens of the texts of the prompt, without what a protocol puts around them.
    pub prompt: u64,
    /// Tokens of the visible answer.
    pub answer: u64,
}

/// Bytes and events of one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Request body bytes.
    pub request_bytes: u64,
    /// Response body bytes, HTTP framing taken off.
    pub body_bytes: u64,
    /// Reads that brought body bytes.
    pub reads: u64,
    /// Dispatched events.
    pub events: u64,
    /// Comment lines (heartbeats).
    pub comments: u64,
    /// Comment lines since the last model output.
    pub idle_comments: u64,
    /// Tool calls begun.
    pub tool_calls: u64,
}

/// One TCP connect to one address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpAttempt {
    /// `ip:port`.
    pub address: String,
    /// Offset of its start.
    #[serde(rename = "start_us", with = "micros")]
    pub start: Duration,
    /// Offset of its end; `None` when another address overtook it or the attempt ended first.
    #[serde(rename = "end_us", with = "opt_micros", default)]
    pub end: Option<Duration>,
    /// Whether it connected.
    pub connected: bool,
}

/// What is known of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// Whether an earlier request had used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reused: Option<bool>,
    /// Name that was resolved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_name: Option<String>,
    /// Addresses that the name gave, at most 16.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// TCP connects in the order in which they began, at most 16; empty where the transport cannot
    /// show them apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<TcpAttempt>,
    /// The peer's `ip:port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// HTTP version of the response: `1.0`, `1.1`, `2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_version: Option<String>,
    /// TLS version: `1.2`, `1.3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_version: Option<String>,
    /// Application protocol agreed on in TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    /// Cipher suite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher: Option<String>,
    /// Whether the TLS session was resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed: Option<bool>,
    /// Host and port of the proxy, never its user or password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// Everything that was seen of one attempt: one HTTP request and its stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Offsets of the phases.
    pub timeline: Timeline,
    /// How it ended.
    pub ending: Ending,
    /// The limit that was passed, when the attempt timed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<Limit>,
    /// How the connection was lost, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<Loss>,
    /// Phase that the attempt was in when it ended.
    pub last_phase: Phase,
    /// What was wrong, leading finding first; empty means ok.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// What was odd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// All received bytes were valid at every layer (HTTP framing, UTF-8, SSE, strict JSON, event
    /// shape), no error payload, a 2xx status. How the connection ended is left out.
    pub parse_ok: bool,
    /// The body ended or went silent before the end mark.
    pub interrupted: bool,
    /// Response status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Allow-listed response headers (request ids, rate limits, server marks), bounded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// `Retry-After`, as a length.
    #[serde(
        rename = "retry_after_us",
        with = "opt_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_after: Option<Duration>,
    /// The error that the relay named, as a short code of the protocol's own list, never its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// What the relay's error is about, where it said one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_kind: Option<ErrorKind>,
    /// Model named in the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Response id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
    /// System fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
    /// Finish reason of the first choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Reported usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Whether the answer ended with the seal that the prompt asked for; `None` without a seal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<bool>,
    /// Names of the workload's expectations that the answer did not meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet: Vec<String>,
    /// Tokens as we count them, where the model's tokenizer is known and on board.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_count: Option<OwnCount>,
    /// The words of the answer, each a keyed hash, where the prompt is that of a calibration: equal
    /// words are equal numbers, and nothing can be read from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<u32>,
    /// Output over time.
    pub packets: Packets,
    /// Bytes and events.
    pub counts: Counts,
    /// The connection.
    pub connection: Connection,
    /// The visible answer, only when the caller asked to keep it; never serialised.
    #[serde(skip)]
    pub text: Option<String>,
}

impl Observation {
    /// The leading class, or `None` for a whole, honest answer.
    pub fn class(&self) -> Option<Class> {
        self.findings.iter().map(|finding| finding.class).min()
    }

    /// The leading class's name, or `ok`.
    pub fn outcome(&self) -> &'static str {
        self.class().map_or("ok", Class::as_str)
    }

    /// Whether any finding has this class.
    pub fn has(&self, class: Class) -> bool {
        self.findings.iter().any(|finding| finding.class == class)
    }

    /// Whether the response head was a 2xx.
    pub fn answered_2xx(&self) -> bool {
        self.status
            .is_some_and(|status| (200..300).contains(&status))
    }
}
