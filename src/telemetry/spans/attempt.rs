//! The spans of one HTTP attempt: `POST` and its phases.
//!
//! Every time is an offset that evidence holds; nothing is interpolated. A phase that did not
//! happen has no span, and the phase in which an attempt died runs to the attempt's end.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::draft::{Anchor, Draft, bounded};
use super::{CellSpans, integer, seconds};
use crate::evidence::Attempt;
use crate::observation::{
    Class, Ending, Finding, Limit, Observation, Phase, Stretch, Timeline, Warning,
};
use crate::telemetry::semconv::{self, span};

/// Shortest silence that is recorded as a stall.
pub const STALL: Duration = Duration::from_millis(250);

/// Most stalls of one stream that become events: as many gaps as evidence keeps.
const MAX_STALLS: usize = 16;

/// Most findings of one attempt that become events.
const MAX_FINDINGS: usize = 8;

/// Most addresses of a name that become an attribute.
const MAX_ADDRESSES: usize = 16;

/// `error.type` of an attempt; `None` for a whole answer and for one that we called off.
///
/// A limit that was passed says more than the class it led to, so it comes first.
pub fn error_type(observation: &Observation) -> Option<Cow<'static, str>> {
    if observation.ending == Ending::Cancelled {
        return None;
    }
    let class = observation.class()?;
    if observation
        .timed_out
        .is_some_and(|limit| limit != Limit::AfterDone)
    {
        return Some(format!("{}_timeout", observation.last_phase).into());
    }
    match (class, observation.status) {
        (Class::HttpError, Some(status)) => Some(status.to_string().into()),
        _ => Some(class.as_str().into()),
    }
}

/// Adds `POST` and everything below it.
pub(super) fn draw(
    cell: &CellSpans,
    anchor: &Anchor,
    chat: SpanId,
    index: usize,
    attempt: &Attempt,
    spans: &mut Vec<SpanData>,
) {
    let observation = &attempt.observation;
    let pen = Pen {
        anchor,
        prefix: format!("post/{index}"),
        start: attempt.start,
        over: observation.timeline.over,
        last_phase: observation.last_phase,
        failure: error_type(observation),
    };
    let mut post = anchor.span(
        &pen.prefix,
        Some(chat),
        SpanKind::Client,
        span::POST,
        (pen.start, pen.start.saturating_add(pen.over)),
    );
    describe(cell, &mut post, index, observation);
    for finding in observation
        .findings
        .iter()
        .filter(|finding| !is_parse_error(finding.class))
        .take(MAX_FINDINGS)
    {
        post.event(
            semconv::EVENT_FINDING,
            pen.moment(finding.at.unwrap_or(pen.over)),
            finding_attributes(finding),
        );
    }
    if let Some(failure) = &pen.failure {
        post.fail(failure.clone(), "");
    }
    let parent = post.id();
    spans.push(post.0);
    connection(cell, &pen, parent, observation, spans);
    exchange(&pen, parent, observation, spans);
    if let Some(head) = observation.timeline.head {
        body(&pen, parent, observation, head, spans);
    }
}

/// What all spans of one attempt share.
struct Pen<'a> {
    anchor: &'a Anchor,
    prefix: String,
    start: Duration,
    over: Duration,
    last_phase: Phase,
    failure: Option<Cow<'static, str>>,
}

impl Pen<'_> {
    /// The moment at an offset of the attempt.
    fn moment(&self, at: Duration) -> SystemTime {
        self.anchor.at(self.start.saturating_add(at.min(self.over)))
    }

    /// A span inside the attempt; it is the failed one if the attempt died in its phase.
    fn phase(
        &self,
        parent: SpanId,
        name: &'static str,
        phase: Phase,
        start: Duration,
        end: Duration,
    ) -> Draft {
        let start = start.min(self.over);
        let end = end.min(self.over);
        let mut draft = self.anchor.span(
            &format!("{}/{name}", self.prefix),
            Some(parent),
            SpanKind::Internal,
            name,
            (
                self.start.saturating_add(start),
                self.start.saturating_add(end),
            ),
        );
        draft.put(semconv::RELAY_PHASE, phase.as_str());
        if phase == self.last_phase
            && let Some(failure) = &self.failure
        {
            draft.fail(failure.clone(), "");
        }
        draft
    }

    /// A span over a stretch; one without an end runs to the attempt's end.
    fn stretch(&self, parent: SpanId, name: &'static str, phase: Phase, stretch: Stretch) -> Draft {
        let end = stretch.end.unwrap_or(self.over);
        self.phase(parent, name, phase, stretch.start, end)
    }
}

/// The attributes of `POST`.
fn describe(cell: &CellSpans, post: &mut Draft, index: usize, observation: &Observation) {
    let resends = (index > 0).then(|| integer(index));
    post.extend(&cell.common)
        .extend(&cell.server)
        .put(semconv::HTTP_REQUEST_METHOD, "POST")
        .put(semconv::URL_FULL, cell.url.clone())
        .put(semconv::USER_AGENT_SYNTHETIC_TYPE, "test")
        .put(semconv::RELAY_ATTEMPT_INDEX, integer(index))
        .maybe(semconv::HTTP_REQUEST_RESEND_COUNT, resends)
        .put(
            semconv::HTTP_REQUEST_BODY_SIZE,
            integer(observation.counts.request_bytes),
        )
        .put(
            semconv::HTTP_RESPONSE_BODY_SIZE,
            integer(observation.counts.body_bytes),
        )
        .maybe(
            semconv::HTTP_RESPONSE_STATUS_CODE,
            observation.status.map(i64::from),
        )
        .text(
            semconv::NETWORK_PROTOCOL_VERSION,
            observation.connection.http_version.as_deref(),
        )
        .maybe(
            semconv::RELAY_CONNECTION_REUSED,
            observation.connection.reused,
        )
        .maybe(
            semconv::RELAY_TTFT,
            observation.timeline.first_token.map(seconds),
        )
        .put(semconv::RELAY_ENDING, observation.ending.as_str())
        .text(semconv::RELAY_ERROR_CODE, observation.error_code.as_deref())
        .maybe(semconv::RELAY_WARNINGS, joined(&observation.warnings));
    peer(post, observation);
    for (name, value) in observation.headers.iter().take(MAX_ADDRESSES) {
        post.0.attributes.push(KeyValue::new(
            format!(
                "{}.{}",
                semconv::HTTP_RESPONSE_HEADER,
                bounded(name).to_ascii_lowercase()
            ),
            bounded(value).to_owned(),
        ));
    }
}

/// Adds the peer's address and port.
fn peer(draft: &mut Draft, observation: &Observation) {
    let Some(peer) = observation.connection.peer.as_deref() else {
        return;
    };
    let Ok(peer) = peer.parse::<SocketAddr>() else {
        draft.text(semconv::NETWORK_PEER_ADDRESS, Some(peer));
        return;
    };
    draft
        .put(semconv::NETWORK_PEER_ADDRESS, peer.ip().to_string())
        .put(semconv::NETWORK_PEER_PORT, i64::from(peer.port()));
}

fn joined(warnings: &[Warning]) -> Option<String> {
    let names: Vec<_> = warnings.iter().map(|warning| warning.as_str()).collect();
    (!names.is_empty()).then(|| bounded(&names.join(",")).to_owned())
}

/// Waiting for a connection, or making one.
fn connection(
    cell: &CellSpans,
    pen: &Pen<'_>,
    parent: SpanId,
    observation: &Observation,
    spans: &mut Vec<SpanData>,
) {
    let Timeline {
        pool,
        dns,
        connect,
        tunnel,
        tls,
        ..
    } = observation.timeline;
    if let Some(pool) = pool {
        let draft = pen.stretch(parent, span::WAIT_FOR_CONNECTION, Phase::Pool, pool);
        spans.push(draft.0);
    }
    let steps = [dns, connect, tunnel, tls];
    let start = steps.iter().flatten().map(|step| step.start).min();
    let end = steps
        .iter()
        .flatten()
        .map(|step| step.end.unwrap_or(pen.over))
        .max();
    let (Some(start), Some(end)) = (start, end) else {
        return;
    };
    let known = &observation.connection;
    let mut setup = pen.anchor.span(
        &format!("{}/{}", pen.prefix, span::CONNECTION_SETUP),
        Some(parent),
        SpanKind::Internal,
        span::CONNECTION_SETUP,
        (
            pen.start.saturating_add(start.min(pen.over)),
            pen.start.saturating_add(end.min(pen.over)),
        ),
    );
    setup
        .extend(&cell.server)
        .text(semconv::RELAY_PROXY, known.proxy.as_deref());
    peer(&mut setup, observation);
    if matches!(
        pen.last_phase,
        Phase::Dns | Phase::Connect | Phase::Tunnel | Phase::Tls
    ) && let Some(failure) = &pen.failure
    {
        setup.fail(failure.clone(), "");
    }
    let setup_id = setup.id();
    spans.push(setup.0);

    if let Some(dns) = dns {
        let mut draft = pen.stretch(setup_id, span::DNS, Phase::Dns, dns);
        draft
            .text(semconv::DNS_QUESTION_NAME, known.dns_name.as_deref())
            .maybe(semconv::DNS_ANSWERS, texts(&known.addresses));
        spans.push(draft.0);
    }
    if let Some(connect) = connect {
        let mut draft = pen.stretch(setup_id, span::CONNECT, Phase::Connect, connect);
        peer(&mut draft, observation);
        let family = known.peer.as_deref().and_then(|peer| peer.parse().ok());
        draft.maybe(
            semconv::NETWORK_TYPE,
            family.map(|peer: SocketAddr| if peer.is_ipv4() { "ipv4" } else { "ipv6" }),
        );
        spans.push(draft.0);
    }
    if let Some(tunnel) = tunnel {
        let mut draft = pen.stretch(setup_id, span::TUNNEL, Phase::Tunnel, tunnel);
        draft.text(semconv::RELAY_PROXY, known.proxy.as_deref());
        spans.push(draft.0);
    }
    if let Some(tls) = tls {
        let mut draft = pen.stretch(setup_id, span::TLS, Phase::Tls, tls);
        draft
            .extend(&cell.server)
            .put(semconv::TLS_PROTOCOL_NAME, "tls")
            .text(semconv::TLS_PROTOCOL_VERSION, known.tls_version.as_deref())
            .text(semconv::TLS_NEXT_PROTOCOL, known.alpn.as_deref())
            .text(semconv::TLS_CIPHER, known.cipher.as_deref())
            .maybe(semconv::TLS_RESUMED, known.resumed);
        spans.push(draft.0);
    }
}

fn texts(addresses: &[String]) -> Option<Value> {
    let texts: Vec<StringValue> = addresses
        .iter()
        .take(MAX_ADDRESSES)
        .map(|address| bounded(address).to_owned().into())
        .collect();
    (!texts.is_empty()).then_some(Value::Array(Array::String(texts)))
}

/// Request out, head in.
fn exchange(pen: &Pen<'_>, parent: SpanId, observation: &Observation, spans: &mut Vec<SpanData>) {
    let timeline = &observation.timeline;
    let answered = timeline.first_byte.or(timeline.head);
    if let Some(send) = timeline.send {
        let mut draft = pen.stretch(parent, span::SEND, Phase::Send, send);
        draft.put(
            semconv::HTTP_REQUEST_BODY_SIZE,
            integer(observation.counts.request_bytes),
        );
        spans.push(draft.0);
    }
    // A relay that answers before it has read the request leaves nothing to wait for.
    let sent = timeline.send.and_then(|send| send.end);
    if let Some(sent) = sent
        && answered.is_none_or(|answered| answered >= sent)
    {
        let end = answered.unwrap_or(pen.over);
        let mut draft = pen.phase(parent, span::WAIT, Phase::Wait, sent, end);
        if let Some(first_byte) = timeline.first_byte {
            draft.event(semconv::EVENT_FIRST_BYTE, pen.moment(first_byte), vec![]);
        }
        spans.push(draft.0);
    }
    if let Some(first_byte) = timeline.first_byte {
        let end = timeline.head.unwrap_or(pen.over);
        let mut draft = pen.phase(parent, span::HEAD, Phase::Head, first_byte, end);
        draft.maybe(
            semconv::HTTP_RESPONSE_STATUS_CODE,
            observation.status.map(i64::from),
        );
        spans.push(draft.0);
    }
}

/// Everything after the head: three spans for a stream, one for any other body.
fn body(
    pen: &Pen<'_>,
    parent: SpanId,
    observation: &Observation,
    head: Duration,
    spans: &mut Vec<SpanData>,
) {
    let timeline = &observation.timeline;
    if timeline.first_event.is_none() && !expected_a_stream(observation) {
        let phase = pen.last_phase.max(Phase::FirstEvent);
        let mut draft = pen.phase(parent, span::BODY, phase, head, pen.over);
        parse_errors(pen, &mut draft, observation, head, pen.over);
        spans.push(draft.0);
        return;
    }
    let first_end = timeline
        .first_token
        .or(timeline.end_mark)
        .unwrap_or(pen.over);
    let first_phase = match timeline.first_event {
        Some(_) => Phase::FirstToken,
        None => Phase::FirstEvent,
    };
    let mut first = pen.phase(parent, span::FIRST_TOKEN, first_phase, head, first_end);
    if let Some(at) = timeline.first_event {
        first.event(semconv::EVENT_FIRST_EVENT, pen.moment(at), vec![]);
    }
    if let Some(at) = timeline.first_token {
        first.event(semconv::EVENT_FIRST_TOKEN, pen.moment(at), vec![]);
    }
    parse_errors(pen, &mut first, observation, Duration::ZERO, first_end);
    let Some(first_token) = timeline.first_token else {
        ending(pen, &mut first, observation);
        spans.push(first.0);
        return;
    };
    spans.push(first.0);

    let last_token = timeline.last_token.unwrap_or(first_token);
    // The silence in which a stream died belongs to the stream, not to its end.
    let died_streaming = timeline.end_mark.is_none() && pen.last_phase <= Phase::Stream;
    let tokens_end = if died_streaming { pen.over } else { last_token };
    let mut tokens = pen.phase(parent, span::TOKENS, Phase::Stream, first_token, tokens_end);
    count(&mut tokens, observation);
    stalls(pen, &mut tokens, observation);
    parse_errors(pen, &mut tokens, observation, first_end, tokens_end);
    if died_streaming {
        ending(pen, &mut tokens, observation);
        spans.push(tokens.0);
        return;
    }
    spans.push(tokens.0);

    let done_end = timeline.end_mark.unwrap_or(pen.over);
    let mut done = pen.phase(parent, span::DONE, Phase::End, last_token, done_end);
    parse_errors(pen, &mut done, observation, tokens_end, pen.over);
    ending(pen, &mut done, observation);
    spans.push(done.0);
}

/// Whether a body without a single event would still have been a stream.
fn expected_a_stream(observation: &Observation) -> bool {
    observation.answered_2xx()
        && !matches!(
            observation.class(),
            Some(
                Class::Fake200JsonError
                    | Class::Fake200Html
                    | Class::Fake200Empty
                    | Class::WrongContentType
            )
        )
}

/// How the stream ended, on its last span.
fn ending(pen: &Pen<'_>, draft: &mut Draft, observation: &Observation) {
    let end_mark = observation.timeline.end_mark;
    draft
        .put(semconv::RELAY_DONE_MARKER, end_mark.is_some())
        .text(
            semconv::RELAY_FINISH_REASON,
            observation.finish_reason.as_deref(),
        )
        .maybe(semconv::RELAY_SEALED, observation.sealed);
    if let Some(at) = end_mark {
        draft.event(semconv::EVENT_DONE, pen.moment(at), vec![]);
    }
    if observation.ending == Ending::Truncated {
        draft.event(semconv::EVENT_EOF, pen.moment(pen.over), vec![]);
    }
}

/// Counts of the output.
fn count(tokens: &mut Draft, observation: &Observation) {
    let packets = &observation.packets;
    let reported = observation.usage.and_then(|usage| usage.output);
    let (token_count, source) = match reported {
        Some(reported) => (reported, "usage"),
        None => (packets.content_events, "events"),
    };
    tokens
        .put(semconv::RELAY_CHUNK_COUNT, integer(packets.content_events))
        .put(semconv::RELAY_PACKET_COUNT, integer(packets.count))
        .put(
            semconv::RELAY_EVENT_COUNT,
            integer(observation.counts.events),
        )
        .put(semconv::RELAY_TOKEN_COUNT, integer(token_count))
        .put(semconv::RELAY_TOKEN_SOURCE, source)
        .maybe(semconv::RELAY_GAP_MEAN, packets.gap_mean_s)
        .maybe(
            semconv::RELAY_GAP,
            packets.longest.first().map(|gap| seconds(gap.length)),
        );
}

/// The longest silences, in the order in which they happened.
fn stalls(pen: &Pen<'_>, tokens: &mut Draft, observation: &Observation) {
    let mut gaps: Vec<_> = observation
        .packets
        .longest
        .iter()
        .filter(|gap| gap.length >= STALL)
        .take(MAX_STALLS)
        .collect();
    gaps.sort_by_key(|gap| gap.at);
    tokens.put(semconv::RELAY_STALL_COUNT, integer(gaps.len()));
    for gap in gaps {
        tokens.event(
            semconv::EVENT_STALL,
            pen.moment(gap.at),
            vec![
                KeyValue::new(semconv::RELAY_GAP, seconds(gap.length)),
                KeyValue::new(semconv::RELAY_PACKET_INDEX, integer(gap.packet)),
            ],
        );
    }
}

/// Whether a class means that bytes could not be read.
fn is_parse_error(class: Class) -> bool {
    matches!(
        class,
        Class::InvalidUtf8
            | Class::JsonSplitAcrossEvents
            | Class::MalformedJson
            | Class::SchemaViolation
    )
}

/// The parse errors seen after `from` and up to `to`; one without a time is at the end.
fn parse_errors(
    pen: &Pen<'_>,
    draft: &mut Draft,
    observation: &Observation,
    from: Duration,
    to: Duration,
) {
    let at = |finding: &Finding| finding.at.unwrap_or(pen.over).min(pen.over);
    for finding in observation
        .findings
        .iter()
        .filter(|finding| is_parse_error(finding.class))
        .filter(|finding| (from == Duration::ZERO || at(finding) > from) && at(finding) <= to)
        .take(MAX_FINDINGS)
    {
        draft.event(
            semconv::EVENT_PARSE_ERROR,
            pen.moment(at(finding)),
            finding_attributes(finding),
        );
    }
}

fn finding_attributes(finding: &Finding) -> Vec<KeyValue> {
    let mut attributes = vec![
        KeyValue::new(semconv::RELAY_FINDING_CLASS, finding.class.as_str()),
        KeyValue::new(semconv::RELAY_PHASE, finding.phase.as_str()),
    ];
    if !finding.detail.is_empty() {
        attributes.push(KeyValue::new(
            semconv::RELAY_FINDING_DETAIL,
            bounded(&finding.detail).to_owned(),
        ));
    }
    if let Some(offset) = finding.offset {
        attributes.push(KeyValue::new(
            semconv::RELAY_FINDING_OFFSET,
            integer(offset),
        ));
    }
    if let Some(event) = finding.event {
        attributes.push(KeyValue::new(semconv::RELAY_FINDING_EVENT, integer(event)));
    }
    attributes
}
