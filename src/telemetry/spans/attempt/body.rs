//! Spans of a response body: three for a stream, one for any other.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::SpanData;

use super::{MAX_FINDINGS, Pen, finding_attributes, is_parse_error};
use crate::observation::{Class, Ending, Finding, Observation, Phase};
use crate::telemetry::semconv::{self, span};
use crate::telemetry::spans::draft::Draft;
use crate::telemetry::spans::{integer, seconds};

/// Shortest silence that is recorded as a stall.
pub const STALL: Duration = Duration::from_millis(250);

/// Most stalls of one stream that become events: as many gaps as evidence keeps.
const MAX_STALLS: usize = 16;

/// Everything after the head: three spans for a stream, one for any other body.
pub(super) fn draw(
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
        spans.push(draft.finish());
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
        spans.push(first.finish());
        return;
    };
    spans.push(first.finish());

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
        spans.push(tokens.finish());
        return;
    }
    spans.push(tokens.finish());

    let done_end = timeline.end_mark.unwrap_or(pen.over);
    let mut done = pen.phase(parent, span::DONE, Phase::End, last_token, done_end);
    parse_errors(pen, &mut done, observation, tokens_end, pen.over);
    ending(pen, &mut done, observation);
    spans.push(done.finish());
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
