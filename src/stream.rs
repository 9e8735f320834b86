//! The connection state machine: timed inputs in, one [`Observation`] out.
//!
//! Sans-IO: no clock, no socket, no async. A transport calls [`Exchange::handle`] with each thing
//! that happened and its offset from the attempt's start, and asks [`Exchange::deadline`] when to
//! call back if nothing does. All time limits live here, so both transports obey the same ones.

mod answer;
mod clean;
mod close;
mod head;
mod limits;
mod naming;
mod notes;
mod outside;
mod pacing;
mod reading;
pub mod sse;
mod tools;
mod wording;

use std::time::Duration;

use crate::dialect::Protocol;
use crate::forms::at_us;
use crate::observation::{Connection, Limit, Observation, Phase, Stretch, Timeline};

use head::Kept;
use notes::Spot;
use reading::Reading;

pub use crate::observation::Loss;

/// Most body bytes of one attempt.
pub const MAX_BODY_BYTES: u64 = 64 << 20;

/// Most body bytes of an answer that is not streamed.
pub const MAX_WHOLE_BYTES: usize = 4 << 20;

/// Most body bytes that are read of an error response, and after an end mark.
pub const MAX_REST_BYTES: u64 = 1 << 20;

/// Most events and comments of one attempt.
pub const MAX_ITEMS: u64 = 1 << 20;

/// What a transport tells an exchange.
#[derive(Debug)]
pub enum Input<'a> {
    /// A connection phase (pool, dns, connect, tunnel, tls, send) began.
    Enter(Phase),
    /// That phase ended well.
    Leave(Phase),
    /// Facts about the connection; later facts win over earlier ones, `None` overwrites nothing.
    ///
    /// With `reused: Some(true)` an opening that this attempt had begun turns into a wait for the
    /// pool: it was overtaken by a connection that another request had opened.
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
    /// Model asked for; empty where the answered one is not to be compared with it.
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
    #[serde(rename = "dns_us", with = "crate::forms::micros")]
    pub dns: Duration,
    /// TCP connect and tunnel.
    #[serde(rename = "connect_us", with = "crate::forms::micros")]
    pub connect: Duration,
    /// TLS handshake.
    #[serde(rename = "tls_us", with = "crate::forms::micros")]
    pub tls: Duration,
    /// Response head, from t0.
    #[serde(rename = "headers_us", with = "crate::forms::micros")]
    pub headers: Duration,
    /// First model output, from t0.
    #[serde(rename = "first_token_us", with = "crate::forms::micros")]
    pub first_token: Duration,
    /// Silence between model outputs; heartbeats do not reset it.
    #[serde(rename = "idle_us", with = "crate::forms::micros")]
    pub idle: Duration,
    /// The whole attempt, from t0.
    #[serde(rename = "total_us", with = "crate::forms::micros")]
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

/// Why an attempt is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// The body ended as HTTP says it should.
    Ended,
    /// The connection was lost.
    Lost(Loss),
    /// HTTP framing broke beyond reading on.
    Framing,
    /// A time limit passed.
    TimedOut(Limit),
    /// A limit of size or count passed.
    TooMuch,
    /// Our side called it off.
    Cancelled,
}

/// One attempt being watched.
#[derive(Debug)]
pub struct Exchange {
    asked: Asked,
    timeouts: Timeouts,
    now: Duration,
    timeline: Timeline,
    /// Phase of the connection; after the head, the answer knows the phase.
    phase: Phase,
    connection: Connection,
    head: Option<Kept>,
    reading: Reading,
    /// Body of an answer that was not to be streamed.
    whole: Vec<u8>,
    framing: Option<(FramingFault, Spot)>,
    /// Body bytes at the end mark.
    end_mark_bytes: u64,
    over: Option<Over>,
}

impl Exchange {
    /// Starts watching; offset zero is the moment the attempt starts.
    pub fn new(asked: Asked, timeouts: Timeouts) -> Self {
        let reading = Reading::new(asked.protocol.reader(), &asked.model, &asked.expect.detect);
        Self {
            asked,
            timeouts,
            now: Duration::ZERO,
            timeline: Timeline::default(),
            phase: Phase::Pool,
            connection: Connection::default(),
            head: None,
            reading,
            whole: Vec::new(),
            framing: None,
            end_mark_bytes: 0,
            over: None,
        }
    }

    /// Takes one thing that happened at `at` (an offset from the attempt's start).
    ///
    /// Offsets never run backwards: an earlier one counts as the latest seen. After the end, only
    /// facts about the connection and its framing are still taken.
    pub fn handle(&mut self, at: Duration, input: Input<'_>) {
        let at = at_us(at).max(self.now);
        if self.over.is_some() {
            match input {
                Input::Connected(facts) => self.connected(facts),
                Input::Framing(fault) => self.framing(fault),
                Input::Enter(_)
                | Input::Leave(_)
                | Input::FirstByte
                | Input::Head(_)
                | Input::Body(_)
                | Input::BodyEnd
                | Input::Lost(_)
                | Input::Deadline
                | Input::Cancelled => {}
            }
            return;
        }
        self.now = at;
        match input {
            Input::Enter(phase) => self.enter(phase),
            Input::Leave(phase) => self.leave(phase),
            Input::Connected(facts) => self.connected(facts),
            Input::FirstByte => {
                self.timeline.first_byte.get_or_insert(at);
                self.phase = Phase::Head;
            }
            Input::Head(head) => self.take_head(&head),
            Input::Body(bytes) => self.body(bytes),
            Input::Framing(fault) => self.framing(fault),
            Input::BodyEnd => self.end(Over::Ended),
            Input::Lost(loss) => self.end(Over::Lost(loss)),
            Input::Deadline => {
                if let Some((due, limit)) = self.deadline()
                    && due <= at
                {
                    self.end(Over::TimedOut(limit));
                }
            }
            Input::Cancelled => self.end(Over::Cancelled),
        }
    }

    /// When to call back with [`Input::Deadline`] if nothing happens before, and which limit it is.
    pub fn deadline(&self) -> Option<(Duration, Limit)> {
        limits::deadline(self)
    }

    /// Whether the attempt is over and the transport should stop reading.
    pub fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Whether any model output has arrived (no retry after that).
    pub fn has_output(&self) -> bool {
        self.reading.heard.answer.has_output()
    }

    /// Closes the books; an attempt that is not over was called off.
    pub fn finish(mut self) -> Observation {
        if self.over.is_none() {
            self.end(Over::Cancelled);
        }
        close::observation(self)
    }

    /// The phase that the attempt is in.
    fn phase(&self) -> Phase {
        match &self.head {
            None => self.phase,
            Some(head) if !head.is_2xx() => Phase::Head,
            Some(_) => self.reading.heard.answer.phase(),
        }
    }

    fn spot(&self) -> Spot {
        Spot {
            at: self.now,
            phase: self.phase(),
            offset: self
                .head
                .as_ref()
                .map(|_| self.reading.heard.counts.body_bytes),
            event: None,
        }
    }

    fn stretch(&mut self, phase: Phase) -> Option<&mut Option<Stretch>> {
        let timeline = &mut self.timeline;
        match phase {
            Phase::Pool => Some(&mut timeline.pool),
            Phase::Dns => Some(&mut timeline.dns),
            Phase::Connect => Some(&mut timeline.connect),
            Phase::Tunnel => Some(&mut timeline.tunnel),
            Phase::Tls => Some(&mut timeline.tls),
            Phase::Send => Some(&mut timeline.send),
            Phase::Wait
            | Phase::Head
            | Phase::FirstEvent
            | Phase::FirstToken
            | Phase::Stream
            | Phase::End => None,
        }
    }

    fn enter(&mut self, phase: Phase) {
        let now = self.now;
        self.phase = phase;
        if let Some(stretch) = self.stretch(phase) {
            // Several addresses are one phase: it lasts from the first try on.
            let start = stretch.map_or(now, |before| before.start);
            *stretch = Some(Stretch { start, end: None });
        }
    }

    fn leave(&mut self, phase: Phase) {
        let now = self.now;
        if let Some(Some(stretch)) = self.stretch(phase) {
            stretch.end = Some(now);
        }
        // What comes next is said by the next `Enter`; a transport that shows no sending goes on
        // to wait for the answer.
        self.phase = if phase == Phase::Send {
            Phase::Wait
        } else {
            Phase::Send
        };
    }

    fn connected(&mut self, facts: Connection) {
        let Connection {
            reused,
            dns_name,
            addresses,
            tried,
            peer,
            http_version,
            tls_version,
            alpn,
            cipher,
            resumed,
            proxy,
        } = facts;
        let known = &mut self.connection;
        known.reused = reused.or(known.reused);
        known.resumed = resumed.or(known.resumed);
        for (known, fact) in [
            (&mut known.dns_name, dns_name),
            (&mut known.peer, peer),
            (&mut known.http_version, http_version),
            (&mut known.tls_version, tls_version),
            (&mut known.alpn, alpn),
            (&mut known.cipher, cipher),
            (&mut known.proxy, proxy),
        ] {
            if let Some(fact) = fact {
                *known = Some(clean::short(&fact));
            }
        }
        if !addresses.is_empty() {
            known.addresses = addresses;
            known.addresses.truncate(16);
        }
        if !tried.is_empty() {
            known.tried = tried;
            known.tried.truncate(16);
        }
        if reused == Some(true) {
            self.overtaken();
        }
    }

    /// What looked like opening a connection was waiting for another one.
    fn overtaken(&mut self) {
        let line = &mut self.timeline;
        let opening = [
            line.dns.take(),
            line.connect.take(),
            line.tunnel.take(),
            line.tls.take(),
        ];
        let waits = opening.into_iter().chain([line.pool]).flatten();
        if let Some(start) = waits.map(|stretch| stretch.start).min() {
            // Something may have been opened after the sending began, by who knows whom.
            let end = line.send.map_or(self.now, |send| send.start).max(start);
            line.pool = Some(Stretch {
                start,
                end: Some(end),
            });
        }
    }

    fn take_head(&mut self, head: &Head<'_>) {
        // An interim response says nothing about the answer; 101 is final, for nobody asked to
        // switch protocols.
        let interim = head.status < 200 && head.status != 101;
        if interim || self.head.is_some() {
            return;
        }
        self.timeline.head = Some(self.now);
        self.connection.http_version = Some(head.version.to_owned());
        let kept = Kept::new(head);
        self.reading.heard.answer.refused = !kept.is_2xx();
        let fault = kept.fault;
        self.head = Some(kept);
        if let Some(fault) = fault {
            self.framing(fault);
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        // Without a head there is no saying what the bytes are; no transport reports them so.
        if bytes.is_empty() || self.head.is_none() {
            return;
        }
        self.timeline.first_chunk.get_or_insert(self.now);
        let refused = self.reading.heard.answer.refused;
        if self.asked.stream || refused {
            self.reading.feed(self.now, bytes);
        } else {
            self.reading.heard.counts.reads += 1;
            self.reading.heard.counts.body_bytes += bytes.len() as u64;
            let room = MAX_WHOLE_BYTES.saturating_sub(self.whole.len());
            self.whole
                .extend_from_slice(&bytes[..room.min(bytes.len())]);
        }
        let heard = &self.reading.heard;
        let taken = heard.counts.body_bytes;
        let items = heard.counts.events + heard.counts.comments;
        if heard.answer.moments.end_mark.is_none() || heard.reader.goes_on_after_end() {
            self.end_mark_bytes = taken;
        }
        if refused && taken > MAX_REST_BYTES || taken - self.end_mark_bytes > MAX_REST_BYTES {
            self.end(Over::Ended);
        } else if taken > MAX_BODY_BYTES
            || items > MAX_ITEMS
            || (!self.asked.stream && taken > MAX_WHOLE_BYTES as u64)
        {
            self.end(Over::TooMuch);
        }
    }

    fn framing(&mut self, fault: FramingFault) {
        let spot = self.spot();
        // A body cut short is told by the loss that follows, as any other early end.
        if fault == FramingFault::ShortBody {
            if self.over.is_none() {
                self.end(Over::Lost(Loss::Closed));
            }
            return;
        }
        self.framing.get_or_insert((fault, spot));
        let readable = matches!(
            fault,
            FramingFault::TwoFramings | FramingFault::BytesAfterBody | FramingFault::UnaskedCoding
        );
        if !readable && self.over.is_none() {
            self.end(Over::Framing);
        }
    }

    fn end(&mut self, over: Over) {
        self.timeline.over = self.now;
        self.over = Some(over);
        if self.head.is_some() {
            let heard = &mut self.reading.heard;
            let lost = matches!(over, Over::Lost(_) | Over::Framing);
            if lost && heard.reader.ends_with_body() {
                heard.answer.moments.end_mark = None;
            }
            self.reading.end(self.now);
        }
    }
}

#[cfg(test)]
mod tests;
