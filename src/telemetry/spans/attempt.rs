//! The spans of one HTTP attempt: `POST` and its phases.
//!
//! Every time is an offset that evidence holds; nothing is interpolated. A phase that did not
//! happen has no span, and the phase in which an attempt died runs to the attempt's end.

mod body;
mod connection;

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry_sdk::trace::SpanData;

pub use body::STALL;

use super::draft::{Anchor, Draft, bounded};
use super::{CellSpans, integer, seconds};
use crate::evidence::{Attempt, ids};
use crate::observation::{Class, Ending, Finding, Limit, Observation, Phase, Stretch, Warning};
use crate::telemetry::semconv::{self, span};

/// Most findings of one attempt that become events.
const MAX_FINDINGS: usize = 8;

/// Most response headers that become attributes.
const MAX_HEADERS: usize = 16;

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
        prefix: ids::post_path(index),
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
    pen.fail(&mut post);
    let parent = post.id();
    spans.push(post.finish());
    connection::draw(cell, &pen, parent, observation, spans);
    exchange(&pen, parent, observation, spans);
    if let Some(head) = observation.timeline.head {
        body::draw(&pen, parent, observation, head, spans);
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
        let mut draft = self.piece(parent, name, name, phase, (start, end));
        if phase == self.last_phase {
            self.fail(&mut draft);
        }
        draft
    }

    /// A span inside the attempt; `step` tells spans of one name apart.
    fn piece(
        &self,
        parent: SpanId,
        step: &str,
        name: &'static str,
        phase: Phase,
        (start, end): (Duration, Duration),
    ) -> Draft {
        let mut draft = self.anchor.span(
            &format!("{}/{step}", self.prefix),
            Some(parent),
            SpanKind::Internal,
            name,
            self.shown(start, end),
        );
        draft.put(semconv::RELAY_PHASE, phase.as_str());
        draft
    }

    /// Start and end of a span, as offsets of the sample.
    ///
    /// Jaeger takes a span without length for a broken clock, moves its end past the attempt's and
    /// warns of both; a nanosecond inside the attempt is less than evidence can tell.
    fn shown(&self, start: Duration, end: Duration) -> (Duration, Duration) {
        let tick = Duration::from_nanos(1);
        let (start, end) = (start.min(self.over), end.min(self.over));
        let (start, end) = match (start < end, end < self.over) {
            (true, _) => (start, end),
            (false, true) => (start, start.saturating_add(tick)),
            (false, false) => (start.saturating_sub(tick), end),
        };
        (
            self.start.saturating_add(start),
            self.start.saturating_add(end),
        )
    }

    /// Marks a span as failed if the attempt failed.
    fn fail(&self, draft: &mut Draft) {
        if let Some(failure) = &self.failure {
            draft.fail(failure.clone(), "");
        }
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
        .maybe(semconv::RELAY_PROPAGATION, cell.propagation)
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
        .maybe(
            semconv::RELAY_LOSS,
            observation.lost.map(|lost| lost.as_str()),
        )
        .text(semconv::RELAY_ERROR_CODE, observation.error_code.as_deref())
        .maybe(
            semconv::RELAY_ERROR_KIND,
            observation.error_kind.map(|kind| kind.as_str()),
        )
        .maybe(semconv::RELAY_WARNINGS, joined(&observation.warnings));
    connection::peer(post, observation.connection.peer.as_deref());
    for (name, value) in observation.headers.iter().take(MAX_HEADERS) {
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

fn joined(warnings: &[Warning]) -> Option<String> {
    let names: Vec<_> = warnings.iter().map(|warning| warning.as_str()).collect();
    (!names.is_empty()).then(|| bounded(&names.join(",")).to_owned())
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
        spans.push(draft.finish());
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
        spans.push(draft.finish());
    }
    if let Some(first_byte) = timeline.first_byte {
        let end = timeline.head.unwrap_or(pen.over);
        let mut draft = pen.phase(parent, span::HEAD, Phase::Head, first_byte, end);
        draft.maybe(
            semconv::HTTP_RESPONSE_STATUS_CODE,
            observation.status.map(i64::from),
        );
        spans.push(draft.finish());
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
