//! The spans that last as long as the work does: `relay.suite` and `relay.case`.
//!
//! Made through `tracing`, in a subscriber of their own, so that they exist whether or not the
//! process has one, and so that what is logged inside them carries their ids.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::trace::{SpanContext, SpanId, Status, TraceContextExt, TraceId, TracerProvider};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord};
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, Sampler, SdkTracerProvider, Span as SdkSpan, SpanData,
    SpanProcessor,
};
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use super::export::{Inlet, Work, lock};
use super::metrics::CellMeter;
use super::semconv;
use super::spans::{
    CellSpans, SampleFacts, SampleOutcome, context, hashed_trace_id, sample_context, scope, span_id,
};
use crate::evidence::{Header, Sample};
use crate::observation::named;
use crate::verdict::{Decision, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most samples that a cell's span links to; the SDK keeps 128 links of a span.
const MAX_LINKS: usize = 32;

/// Hands finished live spans to the exporter thread.
#[derive(Debug)]
struct Forward(Inlet);

impl SpanProcessor for Forward {
    fn on_start(&self, _span: &mut SdkSpan, _cx: &Context) {}

    fn on_end(&self, span: SpanData) {
        self.0.send(Work::Spans(vec![span]));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Hands log records to the exporter thread.
#[derive(Debug)]
pub(super) struct ForwardLogs(pub(super) Inlet);

impl LogProcessor for ForwardLogs {
    fn emit(&self, record: &mut SdkLogRecord, scope: &opentelemetry::InstrumentationScope) {
        self.0.log(record.clone(), scope.clone());
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Gives the next span an id that was chosen for it, and any other a random one.
#[derive(Clone, Debug)]
struct Ids {
    run: TraceId,
    next: Arc<Mutex<Option<SpanId>>>,
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        self.run
    }

    fn new_span_id(&self) -> SpanId {
        lock(&self.next)
            .take()
            .unwrap_or_else(|| RandomIdGenerator::default().new_span_id())
    }
}

/// The stage on which live spans appear.
#[derive(Clone)]
pub(super) struct Stage {
    dispatch: Dispatch,
    ids: Ids,
    /// Held while a span with a chosen id is made, so that nobody else takes the id.
    making: Arc<Mutex<()>>,
    inlet: Inlet,
    ci: Option<SpanContext>,
    baggage: Arc<[(String, String)]>,
}

impl Stage {
    /// Every span of the run is kept: a sampler, or a CI context that is not sampled, would thin
    /// out the evidence.
    pub(super) fn new(
        run_id: &str,
        resource: Resource,
        inlet: Inlet,
        ci: Option<SpanContext>,
        baggage: &[(String, String)],
    ) -> Self {
        let ids = Ids {
            run: hashed_trace_id(&["relayproof run", run_id]),
            next: Arc::default(),
        };
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_id_generator(ids.clone())
            .with_resource(resource)
            .with_span_processor(Forward(inlet.clone()))
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer_with_scope(scope()))
            .with_threads(false)
            .with_location(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        Self {
            dispatch: Dispatch::new(tracing_subscriber::registry().with(layer)),
            ids,
            making: Arc::default(),
            inlet,
            ci,
            baggage: baggage.into(),
        }
    }

    /// Makes a span and starts it, under an id of our choice where one is given.
    fn make(&self, id: Option<SpanId>, make: impl FnOnce() -> Span) -> (Live, SpanContext) {
        let _making = lock(&self.making);
        *lock(&self.ids.next) = id;
        let span = dispatcher::with_default(&self.dispatch, make);
        let context = span.context().span().span_context().clone();
        let dispatch = self.dispatch.clone();
        (Live { span, dispatch }, context)
    }

    /// Starts the span of one spec's run.
    pub(super) fn suite(&self, info: &SuiteInfo) -> Suite {
        let parent = self.ci.as_ref().filter(|_| info.ci_parent);
        let (span, context) = self.make(None, || {
            let span = info_span!(target: "relayproof", parent: None, "relay.suite");
            if let Some(ci) = parent {
                let remote = Context::new().with_remote_span_context(ci.clone());
                // Refused only for a span that has started, and this one has not.
                span.set_parent(remote).ok();
            }
            span
        });
        if let (Some(ci), None) = (&self.ci, parent) {
            let attributes = vec![KeyValue::new(semconv::RELAY_LINK_TYPE, "ci")];
            span.add_link_with_attributes(ci.clone(), attributes);
        }
        span.set_attribute(semconv::TEST_SUITE_NAME, info.spec.clone());
        span.set_attribute(semconv::RELAY_SPEC, info.spec.clone());
        span.set_attribute(semconv::RELAY_SPEC_DIGEST, info.spec_sha256.clone());
        span.set_attribute(semconv::RELAY_CASE_EXPECTED, as_i64(info.cells));
        span.set_attribute(semconv::RELAY_SAMPLE_PLANNED, as_i64(info.planned_samples));
        for (name, value) in &*self.baggage {
            span.set_attribute(format!("{}.{name}", semconv::RELAY_BAGGAGE), value.clone());
        }
        Suite {
            stage: self.clone(),
            span,
            context,
        }
    }
}

/// A span with the subscriber it lives in.
///
/// When a span closes, the registry gives up its hold on the parent through whichever subscriber
/// is the thread's default at that moment; any other than ours would leave the parent open for
/// good.
#[derive(Clone)]
struct Live {
    span: Span,
    dispatch: Dispatch,
}

impl std::ops::Deref for Live {
    type Target = Span;

    fn deref(&self) -> &Span {
        &self.span
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let span = std::mem::replace(&mut self.span, Span::none());
        dispatcher::with_default(&self.dispatch, || drop(span));
    }
}

fn as_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What the span of a suite says.
#[derive(Clone, Debug)]
pub struct SuiteInfo {
    /// Name of the spec.
    pub spec: String,
    /// SHA-256 of its text.
    pub spec_sha256: String,
    /// Cells that are expected to run.
    pub cells: u64,
    /// Most samples of all of them.
    pub planned_samples: u64,
    /// Whether a CI context is the parent; else it is linked to.
    pub ci_parent: bool,
}

named! {
    /// How the run of a suite went.
    SuiteStatus {
        /// Every gating objective passed.
        Success = "success",
        /// One did not.
        Failure = "failure",
        /// Called off before the end.
        Aborted = "aborted",
        /// Nothing was to be run.
        Skipped = "skipped",
    }
}

/// The live span of one spec's run; ends when dropped.
pub struct Suite {
    stage: Stage,
    span: Live,
    context: SpanContext,
}

impl Suite {
    /// Where the span is.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Starts the span of one cell.
    pub fn case(&self, header: &Header) -> Case {
        let cell = Arc::new(CellSpans::new(header));
        let trace = self.context.trace_id();
        let id = span_id(trace, &format!("case/{}", header.cell_id));
        let (span, _) = self.stage.make(
            Some(id),
            || info_span!(target: "relayproof", parent: &*self.span, "relay.case"),
        );
        for attribute in cell.common() {
            span.set_attribute(attribute.key.clone(), attribute.value.clone());
        }
        span.set_attribute(semconv::GEN_AI_REQUEST_MODEL, header.model.clone());
        Case {
            inlet: self.stage.inlet.clone(),
            cell,
            meter: Arc::new(CellMeter::new(header)),
            context: context(trace, id),
            span,
            counts: Arc::default(),
            failing: Arc::default(),
        }
    }

    /// Ends the span with the suite's status.
    pub fn finish(self, status: SuiteStatus) {
        self.span
            .set_attribute(semconv::TEST_SUITE_RUN_STATUS, status.as_str());
        self.span.set_status(match status {
            SuiteStatus::Success => Status::Ok,
            SuiteStatus::Failure => Status::error("an objective is not met"),
            SuiteStatus::Aborted => Status::error("called off"),
            SuiteStatus::Skipped => Status::Unset,
        });
    }

    /// Runs `work` inside the span, so that what it logs carries the span's ids.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }
}

/// The live span of one cell; ends when the last handle is dropped.
#[derive(Clone)]
pub struct Case {
    inlet: Inlet,
    cell: Arc<CellSpans>,
    meter: Arc<CellMeter>,
    context: SpanContext,
    span: Live,
    counts: Arc<[AtomicU64; 3]>,
    failing: Arc<Mutex<Vec<SpanContext>>>,
}

impl Case {
    /// Where the span is.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// Exports one sample; it is drawn on the exporter thread.
    pub fn sample(&self, sample: &Sample, facts: &SampleFacts) {
        let [all, errors, slow] = &*self.counts;
        all.fetch_add(1, Ordering::Relaxed);
        let failing = match facts.outcome {
            SampleOutcome::Error => Some(errors),
            SampleOutcome::Slow => Some(slow),
            SampleOutcome::Good | SampleOutcome::Excluded => None,
        };
        if let Some(count) = failing {
            count.fetch_add(1, Ordering::Relaxed);
            let mut links = lock(&self.failing);
            if links.len() < MAX_LINKS {
                links.push(sample_context(sample));
            }
        }
        self.inlet.send(Work::Sample {
            cell: Arc::clone(&self.cell),
            meter: Arc::clone(&self.meter),
            sample: Box::new(sample.clone()),
            facts: Box::new(facts.clone()),
            case: Some(self.context.clone()),
        });
    }

    /// Exports the verdicts, links to failing samples and sets the cell's status.
    pub fn finish(self, verdicts: &[Verdict], closed_unix_ns: u64) {
        let slos = verdicts
            .iter()
            .map(|verdict| self.cell.slo(&self.context, closed_unix_ns, verdict))
            .collect();
        self.inlet.send(Work::Spans(slos));
        self.inlet.send(Work::Verdicts {
            meter: Arc::clone(&self.meter),
            verdicts: verdicts.to_vec(),
        });
        for failing in lock(&self.failing).drain(..) {
            let attributes = vec![KeyValue::new(semconv::RELAY_LINK_TYPE, "failing_sample")];
            self.span.add_link_with_attributes(failing, attributes);
        }
        let names = [
            semconv::RELAY_SAMPLE_COUNT,
            semconv::RELAY_SAMPLE_ERROR_COUNT,
            semconv::RELAY_SAMPLE_SLOW_COUNT,
        ];
        for (name, count) in names.into_iter().zip(&*self.counts) {
            self.span
                .set_attribute(name, as_i64(count.load(Ordering::Relaxed)));
        }
        let gating = |verdict: &&Verdict| self.cell.gates(&verdict.objective);
        let mut result = ("pass", Status::Ok);
        for verdict in verdicts.iter().filter(gating) {
            match verdict.decision {
                Decision::Violated => {
                    let why = format!("violated: {}", verdict.objective);
                    result = ("fail", Status::error(why));
                    break;
                }
                Decision::Inconclusive(_) => result = ("inconclusive", Status::Unset),
                Decision::Pass => {}
            }
        }
        self.span
            .set_attribute(semconv::TEST_CASE_RESULT_STATUS, result.0);
        self.span.set_status(result.1);
    }

    /// Runs `work` inside the span, so that what it logs carries the span's ids.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }
}
