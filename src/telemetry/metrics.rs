//! From evidence to metrics: what a sample and a cell's verdicts add to the series of a run.
//!
//! Pure: no clock, no exporter. No run, index or trace is an attribute; what a relay decides on
//! is bounded before it becomes one.

mod store;
mod wire;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Sent;
use super::semconv::metric::Instrument;
use super::semconv::{self, OTHER, SLO_BREACH};
use super::spans::{
    SampleFacts, SampleOutcome, bounded, error_type, flavour, sample_context, server,
};
use crate::evidence::{Attempt, Header, Sample};
use crate::objective::Objective;
use crate::observation::{Ending, Observation, Phase, Stretch};
use crate::verdict::{Decision, Verdict};
use opentelemetry::Value;
pub(super) use store::Store;
use store::{Label, Labels, Origin};
pub use wire::Temporality;
pub(super) use wire::{Reporter, lines};

/// What the metrics of one cell have in common.
#[derive(Debug)]
pub(super) struct CellMeter {
    cell: Arc<str>,
    /// The relay and a phase.
    phases: BTreeMap<Phase, Labels>,
    /// The relay and the spec.
    spec: Labels,
    /// The relay, the spec and the model.
    ours: Labels,
    /// The relay, the spec and the cell.
    verdict: Labels,
    /// Server, protocol and model, in the words of the GenAI conventions.
    gen_ai: Labels,
    /// Server and method.
    http: Labels,
    objectives: Vec<Objective>,
}

impl CellMeter {
    /// Reads a cell's header once.
    pub(super) fn new(header: &Header) -> Self {
        let none = Labels::default();
        let (operation, provider, _) = flavour(header.protocol);
        let mut address = none.clone();
        for attribute in server(&header.base_url).1 {
            address = match (attribute.key.as_str(), attribute.value) {
                (semconv::SERVER_ADDRESS, Value::String(host)) => {
                    address.with(semconv::SERVER_ADDRESS, host.as_str())
                }
                (semconv::SERVER_PORT, Value::I64(port)) => {
                    address.with(semconv::SERVER_PORT, Label::Number(port))
                }
                _ => address,
            };
        }
        let relay = none.with(semconv::RELAY_NAME, bounded(&header.relay));
        let named = relay.with(semconv::RELAY_SPEC, bounded(&header.spec_name));
        let model = bounded(&header.model);
        Self {
            cell: header.cell.as_str().into(),
            ours: named.with(semconv::GEN_AI_REQUEST_MODEL, model),
            verdict: named.with(semconv::TEST_CASE_NAME, bounded(&header.cell)),
            phases: Phase::ALL
                .iter()
                .map(|phase| (*phase, relay.with(semconv::RELAY_PHASE, phase.as_str())))
                .collect(),
            spec: named,
            gen_ai: address
                .with(semconv::GEN_AI_OPERATION_NAME, operation)
                .with(semconv::GEN_AI_PROVIDER_NAME, provider)
                .with(semconv::GEN_AI_REQUEST_MODEL, model),
            http: address.with(semconv::HTTP_REQUEST_METHOD, "POST"),
            objectives: header.objectives.clone(),
        }
    }

    /// Adds one sample.
    pub(super) fn sample(&self, store: &mut Store, sample: &Sample, facts: &SampleFacts) {
        let Some(last) = sample.attempts.last() else {
            return;
        };
        let over = last.start.saturating_add(last.observation.timeline.over);
        let context = sample_context(sample);
        let origin = Origin {
            trace_id: context.trace_id().to_bytes(),
            span_id: context.span_id().to_bytes(),
            unix_ns: sample.t0_unix_ns.saturating_add(nanoseconds(over)),
            failing: match facts.outcome {
                SampleOutcome::Slow | SampleOutcome::Error => true,
                SampleOutcome::Good | SampleOutcome::Excluded => false,
            },
        };
        self.outcome(store, sample, facts, origin);
        for attempt in &sample.attempts {
            self.attempt(store, &attempt.observation, origin);
        }
        // How long a call that we called off would have taken is not known.
        if last.observation.ending != Ending::Cancelled {
            self.call(store, last, over, origin);
        }
    }

    /// What a sample is to its cell, and what it showed if it counts.
    fn outcome(&self, store: &mut Store, sample: &Sample, facts: &SampleFacts, origin: Origin) {
        let why = match facts.outcome {
            SampleOutcome::Good | SampleOutcome::Excluded => None,
            SampleOutcome::Slow => Some(Cow::Borrowed(SLO_BREACH)),
            SampleOutcome::Error => Some(
                sample
                    .attempts
                    .iter()
                    .rev()
                    .find_map(|attempt| failure(&attempt.observation))
                    .unwrap_or(Cow::Borrowed(OTHER)),
            ),
        };
        let labels = self
            .spec
            .with(semconv::RELAY_SAMPLE_OUTCOME, facts.outcome.as_str())
            .maybe(semconv::ERROR_TYPE, why.as_deref());
        store.add(Instrument::Samples, &labels, 1, Some(origin));
        if facts.outcome == SampleOutcome::Excluded {
            return;
        }
        let first = sample.attempts.first().map(|attempt| &attempt.observation);
        let ttft = first.and_then(|first| first.timeline.first_token);
        let gap = first.and_then(|first| first.packets.gap_mean_s);
        for (instrument, value) in [
            (Instrument::Ttft, ttft.map(seconds)),
            (Instrument::Tps, facts.tps),
            (Instrument::Itl, gap),
        ] {
            if let Some(value) = value {
                store.observe(instrument, &self.ours, value, Some(origin));
            }
        }
    }

    /// One HTTP attempt and its phases.
    fn attempt(&self, store: &mut Store, observation: &Observation, origin: Origin) {
        if observation.ending != Ending::Cancelled {
            let status = observation.status.filter(|status| is_known(*status));
            let labels = self
                .http
                .maybe(
                    semconv::HTTP_RESPONSE_STATUS_CODE,
                    status.map(|status| Label::Number(status.into())),
                )
                .maybe(semconv::ERROR_TYPE, failure(observation).as_deref());
            let over = seconds(observation.timeline.over);
            store.observe(Instrument::HttpDuration, &labels, over, Some(origin));
        }
        for (phase, length) in phases(observation) {
            let length = seconds(length);
            if let Some(labels) = self.phases.get(&phase) {
                store.observe(Instrument::PhaseDuration, labels, length, Some(origin));
            }
            if phase == Phase::Dns
                && let Some(name) = observation.connection.dns_name.as_deref()
            {
                let name = Labels::default().with(semconv::DNS_QUESTION_NAME, bounded(name));
                store.observe(Instrument::DnsDuration, &name, length, Some(origin));
            }
        }
    }

    /// The call as a whole, in the words of the GenAI conventions.
    fn call(&self, store: &mut Store, last: &Attempt, over: Duration, origin: Origin) {
        let answer = &last.observation;
        let model = answer
            .model
            .as_deref()
            .map(|model| store.admit(&self.cell, bounded(model)));
        let labels = self
            .gen_ai
            .maybe(semconv::GEN_AI_RESPONSE_MODEL, model.map(Label::Text));
        let failed = labels.maybe(semconv::ERROR_TYPE, failure(answer).as_deref());
        store.observe(
            Instrument::GenAiDuration,
            &failed,
            seconds(over),
            Some(origin),
        );
        let time = &answer.timeline;
        if let Some(first) = time.first_event {
            let first = seconds(last.start.saturating_add(first));
            store.observe(Instrument::GenAiFirstChunk, &labels, first, Some(origin));
        }
        if let (Some(first), Some(last)) = (time.first_token, time.last_token) {
            let gaps = answer.packets.content_events.saturating_sub(1);
            let sum = seconds(last.saturating_sub(first));
            store.observe_sum(Instrument::GenAiPerChunk, &labels, (gaps, sum));
        }
        let usage = answer.usage.unwrap_or_default();
        for (kind, count, per_call, in_all) in [
            (
                "input",
                usage.input,
                Instrument::GenAiInputTokens,
                Instrument::GenAiInputUsage,
            ),
            (
                "output",
                usage.output,
                Instrument::GenAiOutputTokens,
                Instrument::GenAiOutputUsage,
            ),
        ] {
            // A count beyond what a float holds exactly is no count of tokens.
            let Some(count) = count.and_then(|count| u32::try_from(count).ok()) else {
                continue;
            };
            let kind = labels.with(semconv::GEN_AI_TOKEN_TYPE, kind);
            let value = f64::from(count);
            store.observe(Instrument::GenAiTokens, &kind, value, Some(origin));
            store.observe(per_call, &labels, value, Some(origin));
            store.add(in_all, &labels, count.into(), Some(origin));
        }
    }

    /// Sets what the cell's verdicts say.
    pub(super) fn verdicts(&self, store: &mut Store, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let labels = self
                .verdict
                .with(semconv::RELAY_SLO_ID, bounded(&verdict.objective));
            let objective = self
                .objectives
                .iter()
                .find(|objective| objective.text == verdict.objective);
            let passed = match verdict.decision {
                Decision::Pass => Some(1.0),
                Decision::Violated => Some(0.0),
                Decision::Inconclusive(_) => None,
            };
            for (instrument, value) in [
                (Instrument::SloObserved, verdict.observed),
                (
                    Instrument::SloBound,
                    objective.map(|objective| objective.bound),
                ),
                (Instrument::SloPassed, passed),
            ] {
                if let Some(value) = value {
                    store.set(instrument, &labels, value);
                }
            }
        }
    }
}

/// Sets what became of the spans so far.
pub(super) fn account(store: &mut Store, spans: Sent) {
    for (result, count) in [
        ("exported", spans.exported),
        ("failed", spans.failed),
        ("dropped", spans.dropped),
    ] {
        if count > 0 {
            let labels = Labels::default().with(semconv::RELAY_EVIDENCE_RESULT, result);
            store.total(Instrument::EvidenceSpans, &labels, count);
        }
    }
}

/// `error.type`, with one name for all statuses that nobody has defined.
fn failure(observation: &Observation) -> Option<Cow<'static, str>> {
    let failure = error_type(observation)?;
    let unknown = failure.parse().is_ok_and(|status| !is_known(status));
    Some(if unknown {
        Cow::Borrowed(OTHER)
    } else {
        failure
    })
}

/// Whether a status is in IANA's registry, or is one that well-known proxies make up.
///
/// A relay may answer any of a thousand; each would be a series.
fn is_known(status: u16) -> bool {
    matches!(
        status,
        100..=103
            | 200..=208
            | 226
            | 300..=308
            | 400..=418
            | 421..=426
            | 428
            | 429
            | 431
            | 451
            | 498
            | 499
            | 500..=508
            | 510
            | 511
            | 520..=530
    )
}

/// The phases that came to their end, with their lengths: those of the spans.
fn phases(observation: &Observation) -> Vec<(Phase, Duration)> {
    let time = &observation.timeline;
    let whole = |stretch: Option<Stretch>| {
        let stretch = stretch?;
        Some(stretch.end?.saturating_sub(stretch.start))
    };
    let between = |start: Option<Duration>, end: Option<Duration>| end?.checked_sub(start?);
    let sent = time.send.and_then(|send| send.end);
    let streamed = time.end_mark.is_some() || observation.last_phase > Phase::Stream;
    let unstreamed = time.first_event.is_none() && observation.ending == Ending::Completed;
    let end = if unstreamed {
        between(time.head, Some(time.over))
    } else {
        between(time.last_token, time.end_mark)
    };
    [
        (Phase::Pool, whole(time.pool)),
        (Phase::Dns, whole(time.dns)),
        (Phase::Connect, whole(time.connect)),
        (Phase::Tunnel, whole(time.tunnel)),
        (Phase::Tls, whole(time.tls)),
        (Phase::Send, whole(time.send)),
        (Phase::Wait, between(sent, time.first_byte.or(time.head))),
        (Phase::Head, between(time.first_byte, time.head)),
        (Phase::FirstToken, between(time.head, time.first_token)),
        (
            Phase::Stream,
            between(time.first_token, time.last_token).filter(|_| streamed),
        ),
        (Phase::End, end),
    ]
    .into_iter()
    .filter_map(|(phase, length)| Some((phase, length?)))
    .collect()
}

fn seconds(length: Duration) -> f64 {
    length.as_secs_f64()
}

fn nanoseconds(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
