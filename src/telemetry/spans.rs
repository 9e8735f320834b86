//! From one sample's evidence to the spans of its trace.
//!
//! Pure: no clock, no exporter, no global. The same evidence gives the same spans, ids included,
//! whenever they are made. Content-free: prompts, answers and error texts are not in evidence.

mod attempt;
mod draft;
mod run;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, TraceId};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;
use serde::{Deserialize, Serialize};
use url::Url;

pub use attempt::{STALL, error_type};
pub(super) use draft::bounded_to;
pub use draft::{span_id, trace_id};
pub use run::{CaseEnd, CaseTally, SuiteInfo, SuiteSpan, SuiteStatus, Window, plan_of};

use super::semconv::{self, span};
use crate::dialect::Protocol;
use crate::evidence::{Header, Sample};
use crate::forms::named;
use crate::measure::Outcome;
use crate::objective::metric::Metric;
use crate::objective::{Objective, Severity, Statistic};
use crate::observation::Observation;
pub(super) use draft::bounded;
use draft::{Anchor, context};

named! {
    /// What a sample is to its cell's objectives.
    SampleOutcome {
        /// Whole, and it met every objective.
        Good = "good",
        /// Whole, but it missed an objective.
        Slow = "slow",
        /// Not a whole, honest answer.
        Error = "error",
        /// Never counted: a warm-up, or called off by us.
        Excluded = "excluded",
    }
}

/// What judging says of one sample; evidence says the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleFacts {
    /// What the sample is to its cell's objectives.
    pub outcome: SampleOutcome,
    /// Objectives that it missed, as written.
    pub violations: Vec<String>,
    /// Tokens a second after the first packet, where defined.
    pub tps: Option<f64>,
    /// Standard deviation of the gaps between packets in seconds, where defined.
    pub jitter: Option<f64>,
    /// Longest silence after the first token in seconds, where defined.
    pub max_gap: Option<f64>,
}

impl SampleFacts {
    /// What the cell's gating objectives say of a sample.
    ///
    /// The last attempt tells whether there was a whole answer in the end; a first attempt that
    /// failed before it is a miss of the objectives that look at first attempts.
    pub fn of(header: &Header, sample: &Sample) -> Self {
        let value = |metric: Metric| metric.reading(sample, &header.judge).value();
        let counts = sample.counts();
        let violations: Vec<_> = header
            .objectives
            .iter()
            .filter(|objective| objective.severity == Severity::Gate)
            .filter(|objective| counts && objective.outcome(sample, &header.judge) == Outcome::Bad)
            .map(|objective| objective.text.clone())
            .collect();
        let whole = sample
            .attempts
            .last()
            .is_some_and(|last| last.observation.class().is_none());
        let outcome = match (counts, whole, violations.is_empty()) {
            (false, _, _) => SampleOutcome::Excluded,
            (true, false, _) => SampleOutcome::Error,
            (true, true, false) => SampleOutcome::Slow,
            (true, true, true) => SampleOutcome::Good,
        };
        Self {
            outcome,
            violations,
            tps: value(Metric::Tps),
            jitter: value(Metric::Jitter),
            max_gap: value(Metric::MaxGap),
        }
    }
}

/// Seconds as a number; exact enough that whole microseconds come back by rounding.
fn seconds(length: Duration) -> f64 {
    length.as_secs_f64()
}

/// A count as the signed number that OTLP wants.
fn integer<N: TryInto<i64>>(count: N) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Draws the spans of one cell's samples; holds what all of them have in common.
#[derive(Clone, Debug)]
pub struct CellSpans {
    scope: InstrumentationScope,
    cell_id: String,
    common: Vec<KeyValue>,
    server: Vec<KeyValue>,
    url: StringValue,
    model: StringValue,
    workload: StringValue,
    transport: &'static str,
    propagation: Option<&'static str>,
    protocol: Protocol,
    max_tokens: Option<u64>,
    objectives: Vec<Objective>,
    started_unix_ns: u64,
}

impl CellSpans {
    /// Reads a cell's header once.
    pub fn new(header: &Header) -> Self {
        let shared = |text: &str| StringValue::from(Arc::<str>::from(bounded(text)));
        let (base, server) = server(&header.base_url);
        let (path, query) = header.protocol.target(&header.model, header.stream);
        let query = query.map_or_else(String::new, |query| format!("?{query}"));
        let url = format!("{}{path}{query}", base.trim_end_matches('/'));
        Self {
            scope: scope(),
            cell_id: header.cell_id.clone(),
            common: vec![
                KeyValue::new(semconv::RELAY_NAME, shared(&header.relay)),
                KeyValue::new(semconv::RELAY_SPEC, shared(&header.spec_name)),
                KeyValue::new(semconv::TEST_CASE_NAME, shared(&header.cell)),
            ],
            server,
            url: shared(&url),
            model: shared(&header.model),
            workload: shared(&header.workload),
            transport: header.transport.as_str(),
            propagation: (!header.propagation.is_none()).then(|| header.propagation.as_str()),
            protocol: header.protocol,
            max_tokens: header.max_tokens,
            objectives: header.objectives.clone(),
            started_unix_ns: header.started_unix_ns,
        }
    }

    /// The spans of one sample: `relay.sample`, `chat {model}`, and for each attempt `POST` with
    /// its phases. `case` is linked to.
    pub fn sample(
        &self,
        sample: &Sample,
        facts: &SampleFacts,
        case: Option<&SpanContext>,
    ) -> Vec<SpanData> {
        let anchor = Anchor {
            trace: trace_id(&sample.trace_id, &sample.id),
            unix_ns: sample.t0_unix_ns,
            scope: self.scope.clone(),
        };
        let end = run::length(sample);
        let mut spans = Vec::with_capacity(2 + 10 * sample.attempts.len());
        let root = self.root(&anchor, sample, facts, case, end);
        let root_id = root.span_context.span_id();
        spans.push(root);
        let chat = self.chat(&anchor, root_id, sample, facts, end);
        let chat_id = chat.span_context.span_id();
        spans.push(chat);
        for (index, attempt) in sample.attempts.iter().enumerate() {
            if let Some(backoff) = &attempt.backoff {
                let start = attempt.start.saturating_sub(backoff.length);
                let mut wait = anchor.span(
                    &format!("backoff/{index}"),
                    Some(chat_id),
                    SpanKind::Internal,
                    span::BACKOFF,
                    (start, attempt.start),
                );
                let before = index.checked_sub(1).and_then(|i| sample.attempts.get(i));
                let reason = before.and_then(|before| error_type(&before.observation));
                wait.maybe(
                    semconv::RELAY_BACKOFF_REASON,
                    reason.map(|reason| reason.into_owned()),
                )
                .maybe(semconv::RELAY_RETRY_AFTER, backoff.retry_after.map(seconds));
                spans.push(wait.finish());
            }
            attempt::draw(self, &anchor, chat_id, index, attempt, &mut spans);
        }
        spans
    }

    /// Adds attributes to the span of the call among the spans of one sample.
    pub(super) fn add_to_chat(spans: &mut [SpanData], attributes: Vec<KeyValue>) {
        // Below the root, which comes first.
        if let Some(chat) = spans.get_mut(1) {
            chat.attributes.extend(attributes);
        }
    }

    fn root(
        &self,
        anchor: &Anchor,
        sample: &Sample,
        facts: &SampleFacts,
        case: Option<&SpanContext>,
        end: Duration,
    ) -> SpanData {
        let first = sample.attempts.first().map(|attempt| &attempt.observation);
        let last = sample.attempts.last().map(|attempt| &attempt.observation);
        let mut root = anchor.span(
            "sample",
            None,
            SpanKind::Internal,
            span::SAMPLE,
            (Duration::ZERO, end),
        );
        root.extend(&self.common)
            .put(semconv::GEN_AI_REQUEST_MODEL, self.model.clone())
            .put(semconv::RELAY_WORKLOAD, self.workload.clone())
            .put(semconv::RELAY_TRANSPORT, self.transport)
            .text(semconv::RELAY_SAMPLE_ID, Some(&sample.id))
            .put(semconv::RELAY_SAMPLE_INDEX, integer(sample.index))
            .put(semconv::RELAY_SAMPLE_WARMUP, sample.warmup)
            .put(semconv::RELAY_SAMPLE_OUTCOME, facts.outcome.as_str())
            .put(
                semconv::RELAY_SAMPLE_CLASS,
                last.map_or("ok", Observation::outcome),
            )
            .put(semconv::RELAY_SCHEDULE_DELAY, seconds(sample.lag))
            .put(semconv::RELAY_ATTEMPT_COUNT, integer(sample.attempts.len()))
            .maybe(
                semconv::RELAY_TTFT,
                first
                    .and_then(|first| first.timeline.first_token)
                    .map(seconds),
            )
            .maybe(semconv::RELAY_TPS, facts.tps)
            .maybe(semconv::RELAY_JITTER, facts.jitter)
            .maybe(semconv::RELAY_GAP, facts.max_gap);
        let missed = facts.violations.join(", ");
        if !missed.is_empty() {
            root.text(semconv::RELAY_SLO_VIOLATIONS, Some(&missed));
        }
        match facts.outcome {
            SampleOutcome::Good => {
                root.succeed();
            }
            SampleOutcome::Slow => {
                let why = format!("missed {}", bounded(&missed));
                root.fail(semconv::SLO_BREACH, why);
            }
            SampleOutcome::Error => {
                let why = sample
                    .attempts
                    .iter()
                    .rev()
                    .find_map(|attempt| error_type(&attempt.observation));
                root.fail(why.unwrap_or(Cow::Borrowed(semconv::OTHER)), "");
            }
            SampleOutcome::Excluded => {}
        }
        if let Some(case) = case {
            root.link(case, "test_case");
        }
        root.finish()
    }

    fn chat(
        &self,
        anchor: &Anchor,
        root: SpanId,
        sample: &Sample,
        facts: &SampleFacts,
        end: Duration,
    ) -> SpanData {
        let (operation, provider, api) = flavour(self.protocol);
        let mut chat = anchor.span(
            "chat",
            Some(root),
            SpanKind::Client,
            format!("{operation} {}", self.model),
            (Duration::ZERO, end),
        );
        chat.extend(&self.common)
            .extend(&self.server)
            .put(semconv::GEN_AI_OPERATION_NAME, operation)
            .put(semconv::GEN_AI_PROVIDER_NAME, provider)
            .maybe(semconv::OPENAI_API_TYPE, api)
            .put(semconv::GEN_AI_REQUEST_MODEL, self.model.clone())
            .maybe(
                semconv::GEN_AI_REQUEST_MAX_TOKENS,
                self.max_tokens.map(integer),
            );
        let Some(last) = sample.attempts.last() else {
            return chat.finish();
        };
        let answer = &last.observation;
        let usage = answer.usage.unwrap_or_default();
        if answer.timeline.first_event.is_some() {
            chat.put(semconv::GEN_AI_REQUEST_STREAM, true);
        }
        chat.text(semconv::GEN_AI_RESPONSE_MODEL, answer.model.as_deref())
            .text(semconv::GEN_AI_RESPONSE_ID, answer.response_id.as_deref())
            .text(
                semconv::OPENAI_RESPONSE_SYSTEM_FINGERPRINT,
                answer.fingerprint.as_deref(),
            )
            .maybe(
                semconv::GEN_AI_RESPONSE_FINISH_REASONS,
                answer.finish_reason.as_deref().map(one_text),
            )
            .maybe(
                semconv::GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
                answer
                    .timeline
                    .first_event
                    .map(|at| seconds(last.start.saturating_add(at))),
            )
            .maybe(semconv::GEN_AI_USAGE_INPUT_TOKENS, usage.input.map(integer))
            .maybe(
                semconv::GEN_AI_USAGE_OUTPUT_TOKENS,
                usage.output.map(integer),
            )
            .maybe(
                semconv::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
                usage.cached_input.map(integer),
            )
            .maybe(
                semconv::GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
                usage.reasoning.map(integer),
            );
        if facts.outcome != SampleOutcome::Excluded
            && let Some(failure) = error_type(answer)
        {
            chat.fail(failure, "");
        }
        chat.finish()
    }
}

/// Where the span of a sample is: what links point to.
pub fn sample_context(sample: &Sample) -> SpanContext {
    let trace: TraceId = trace_id(&sample.trace_id, &sample.id);
    context(trace, span_id(trace, "sample"))
}

/// The scope of every span.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(semconv::SCOPE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .build()
}

/// Operation, provider and OpenAI API of a protocol, in the words of the GenAI conventions.
pub(super) fn flavour(protocol: Protocol) -> (&'static str, &'static str, Option<&'static str>) {
    match protocol {
        Protocol::OpenaiChat => ("chat", "openai", Some("chat_completions")),
        Protocol::OpenaiResponses => ("chat", "openai", Some("responses")),
        Protocol::AnthropicMessages => ("chat", "anthropic", None),
        Protocol::Gemini => ("generate_content", "gcp.gemini", None),
    }
}

fn statistic(statistic: Statistic) -> String {
    match statistic {
        Statistic::Quantile(ppm) => format!("p{}", f64::from(ppm) / 10_000.0),
        Statistic::Mean => "mean".to_owned(),
        Statistic::Rate => "rate".to_owned(),
    }
}

fn one_text(text: &str) -> Value {
    Value::Array(Array::String(vec![bounded(text).to_owned().into()]))
}

/// The URL without user info and query, and the attributes that name its host.
pub(super) fn server(base_url: &str) -> (String, Vec<KeyValue>) {
    let Ok(mut url) = Url::parse(base_url) else {
        return (String::new(), Vec::new());
    };
    // Evidence holds neither; a hand-made file might.
    if url
        .set_username("")
        .and_then(|()| url.set_password(None))
        .is_err()
    {
        return (String::new(), Vec::new());
    }
    url.set_query(None);
    url.set_fragment(None);
    let mut attributes = vec![KeyValue::new(semconv::URL_SCHEME, url.scheme().to_owned())];
    if let Some(host) = url.host_str() {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        attributes.push(KeyValue::new(
            semconv::SERVER_ADDRESS,
            bounded(host).to_owned(),
        ));
    }
    if let Some(port) = url.port_or_known_default() {
        attributes.push(KeyValue::new(semconv::SERVER_PORT, i64::from(port)));
    }
    (url.into(), attributes)
}
