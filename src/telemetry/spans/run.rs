//! The spans of the run's own trace: suite, case and slo, drawn from what evidence says of cells.
//!
//! As pure as the spans of samples: whoever has the evidence draws the same spans, now or later. The
//! context of a CI job is the one thing that comes from outside.

use std::fmt;
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceId};
use opentelemetry_sdk::trace::SpanData;
use serde::{Deserialize, Serialize};

use super::draft::{Anchor, context, hashed_trace_id, span_id};
use super::{CellSpans, SampleFacts, SampleOutcome, integer, sample_context, scope, statistic};
use crate::evidence::{Close, CloseReason, Header, Sample};
use crate::forms::named;
use crate::telemetry::semconv::{self, span};
use crate::verdict::{Decision, Effect, Verdict, effect};

/// Most samples that a cell's span links to; the SDK keeps 128 links of a span.
const MAX_LINKS: usize = 32;

/// What the span of a suite says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteInfo {
    /// Name of the spec.
    pub spec: String,
    /// Digest of its plan, without the budget: what tells suites of one run apart.
    pub plan: String,
    /// SHA-256 of its text.
    pub spec_sha256: String,
    /// Cells that are expected to run.
    pub cells: u64,
    /// Most samples of all of them.
    pub planned_samples: u64,
    /// Whether a CI context is the parent; else it is linked to.
    pub ci_parent: bool,
}

impl SuiteInfo {
    /// The suite of a cell, as far as the cell's evidence knows it. `found` cells stand for all of
    /// them where it does not say how many the spec has.
    pub fn of(header: &Header, found: u64) -> Self {
        let cells = header.spec_cells.unwrap_or(found);
        Self {
            spec: header.spec_name.clone(),
            plan: plan_of(header).to_owned(),
            spec_sha256: header.spec_sha256.clone(),
            cells,
            planned_samples: header.sampling.max_samples.saturating_mul(cells),
            ci_parent: header.otel.ci_parent,
        }
    }
}

/// What all cells of one plan have in common, and nothing else; the budget may grow.
pub fn plan_of(header: &Header) -> &str {
    if header.core_digest.is_empty() {
        &header.plan_digest
    } else {
        &header.core_digest
    }
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

impl SuiteStatus {
    /// What cells make of their suite: aborted when one has no proper end, failed when one fails its
    /// test.
    pub fn of<'a>(
        cells: impl IntoIterator<Item = (&'a Header, Option<&'a Close>, &'a [Verdict])>,
    ) -> Self {
        let mut status = Self::Skipped;
        for (header, close, verdicts) in cells {
            let ended = close.is_some_and(|close| match close.reason {
                CloseReason::Decided | CloseReason::Budget | CloseReason::Limit => true,
                CloseReason::Paused | CloseReason::Interrupted | CloseReason::Failed => false,
            });
            if !ended {
                return Self::Aborted;
            }
            let fails = header
                .objectives
                .iter()
                .zip(verdicts)
                .any(|(it, verdict)| effect(verdict, it, &header.judge) == Effect::Failure);
            if fails {
                status = Self::Failure;
            } else if status == Self::Skipped {
                status = Self::Success;
            }
        }
        status
    }
}

/// A time range, in nanoseconds since the epoch, that grows with what lies in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

impl Window {
    /// The range that holds both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }

    fn anchor(self, trace: TraceId, scope: InstrumentationScope) -> (Anchor, Duration) {
        let anchor = Anchor {
            trace,
            unix_ns: self.start,
            scope,
        };
        let length = Duration::from_nanos(self.end.saturating_sub(self.start));
        (anchor, length)
    }
}

/// A suite's place in its trace.
#[derive(Clone, Debug)]
pub struct SuiteSpan {
    info: SuiteInfo,
    path: String,
    context: SpanContext,
    ci: Option<SpanContext>,
}

impl SuiteSpan {
    /// The place of a suite of a run; in the trace of the CI job where that is to be its parent.
    pub fn new(run_id: &str, info: SuiteInfo, ci: Option<SpanContext>) -> Self {
        let parent = ci.as_ref().filter(|_| info.ci_parent);
        let trace = parent.map_or_else(
            || hashed_trace_id(&["relayproof run", run_id]),
            SpanContext::trace_id,
        );
        let path = format!("suite/{run_id}/{}/{}", info.plan, info.spec);
        Self {
            context: context(trace, span_id(trace, &path)),
            info,
            path,
            ci,
        }
    }

    /// Where the span is.
    pub fn context(&self) -> &SpanContext {
        &self.context
    }

    /// The span, over the time of its cells.
    pub fn draw(&self, window: Window, status: Option<SuiteStatus>) -> SpanData {
        let (anchor, length) = window.anchor(self.context.trace_id(), scope());
        let parent = self.ci.as_ref().filter(|_| self.info.ci_parent);
        let mut suite = anchor.span(
            &self.path,
            parent.map(SpanContext::span_id),
            SpanKind::Internal,
            span::SUITE,
            (Duration::ZERO, length),
        );
        suite.0.parent_span_is_remote = parent.is_some();
        suite
            .text(semconv::TEST_SUITE_NAME, Some(&self.info.spec))
            .text(semconv::RELAY_SPEC, Some(&self.info.spec))
            .text(semconv::RELAY_SPEC_DIGEST, Some(&self.info.spec_sha256))
            .put(semconv::RELAY_CASE_EXPECTED, integer(self.info.cells))
            .put(
                semconv::RELAY_SAMPLE_PLANNED,
                integer(self.info.planned_samples),
            )
            .maybe(
                semconv::TEST_SUITE_RUN_STATUS,
                status.map(SuiteStatus::as_str),
            );
        suite.0.status = match status {
            Some(SuiteStatus::Success) => Status::Ok,
            Some(SuiteStatus::Failure) => Status::error("an objective is not met"),
            Some(SuiteStatus::Aborted) => Status::error("called off"),
            Some(SuiteStatus::Skipped) | None => Status::Unset,
        };
        if let (Some(ci), None) = (&self.ci, parent) {
            suite.link(ci, "ci");
        }
        suite.finish()
    }

    /// Where the span of one of its cells is.
    pub fn case_context(&self, header: &Header) -> SpanContext {
        let trace = self.context.trace_id();
        context(trace, span_id(trace, &self.case_path(&header.cell_id)))
    }

    fn case_path(&self, cell_id: &str) -> String {
        format!("case/{}/{cell_id}", self.context.span_id())
    }
}

/// What a cell's span says of its samples.
#[derive(Clone, Debug, Default)]
pub struct CaseTally {
    all: u64,
    errors: u64,
    slow: u64,
    failing: Vec<SpanContext>,
    last_end: u64,
}

impl CaseTally {
    /// Counts a sample, the first failing ones to be linked to.
    pub fn take(&mut self, sample: &Sample, facts: &SampleFacts) {
        self.all += 1;
        let failing = match facts.outcome {
            SampleOutcome::Error => Some(&mut self.errors),
            SampleOutcome::Slow => Some(&mut self.slow),
            SampleOutcome::Good | SampleOutcome::Excluded => None,
        };
        if let Some(count) = failing {
            *count += 1;
            if self.failing.len() < MAX_LINKS {
                self.failing.push(sample_context(sample));
            }
        }
        let length = u64::try_from(length(sample).as_nanos()).unwrap_or(u64::MAX);
        self.last_end = self.last_end.max(sample.t0_unix_ns.saturating_add(length));
    }
}

/// From t0 to the end of the last attempt.
pub(super) fn length(sample: &Sample) -> Duration {
    let ends = sample.attempts.iter().map(|attempt| {
        let over = attempt.observation.timeline.over;
        attempt.start.saturating_add(over)
    });
    ends.max().unwrap_or_default()
}

/// The end of a cell's sampling.
#[derive(Clone, Copy, Debug)]
pub struct CaseEnd<'a> {
    /// When, nanoseconds since the epoch.
    pub at_unix_ns: u64,
    /// The verdicts, in spec order.
    pub verdicts: &'a [Verdict],
}

impl CellSpans {
    /// Whether a miss of this objective fails its test.
    fn gates(&self, text: &str) -> bool {
        let mut objectives = self.objectives.iter();
        objectives.any(|it| it.text == text && it.severity == crate::objective::Severity::Gate)
    }

    /// The time of the cell's sampling; without a proper end, to the end of its last sample.
    pub fn window(&self, tally: &CaseTally, end: Option<CaseEnd<'_>>) -> Window {
        let end = end.map_or(tally.last_end, |end| end.at_unix_ns);
        Window {
            start: self.started_unix_ns,
            end: end.max(self.started_unix_ns),
        }
    }

    /// The span of the cell, and below it one of each verdict.
    pub fn case(
        &self,
        suite: &SuiteSpan,
        tally: &CaseTally,
        end: Option<CaseEnd<'_>>,
    ) -> Vec<SpanData> {
        let window = self.window(tally, end);
        let (anchor, length) = window.anchor(suite.context.trace_id(), self.scope.clone());
        let mut case = anchor.span(
            &suite.case_path(&self.cell_id),
            Some(suite.context.span_id()),
            SpanKind::Internal,
            span::CASE,
            (Duration::ZERO, length),
        );
        case.extend(&self.common)
            .put(semconv::GEN_AI_REQUEST_MODEL, self.model.clone())
            .put(semconv::RELAY_SAMPLE_COUNT, integer(tally.all))
            .put(semconv::RELAY_SAMPLE_ERROR_COUNT, integer(tally.errors))
            .put(semconv::RELAY_SAMPLE_SLOW_COUNT, integer(tally.slow));
        for failing in &tally.failing {
            case.link(failing, "failing_sample");
        }
        if let Some(end) = end {
            let (word, status) = self.result(end.verdicts);
            case.put(semconv::TEST_CASE_RESULT_STATUS, word);
            case.0.status = status;
        }
        let id = case.id();
        let mut spans = vec![case.finish()];
        if let Some(end) = end {
            let slos = end.verdicts.iter();
            spans.extend(slos.map(|verdict| self.slo(&anchor, id, length, verdict)));
        }
        spans
    }

    fn result(&self, verdicts: &[Verdict]) -> (&'static str, Status) {
        let gating = |verdict: &&Verdict| self.gates(&verdict.objective);
        let mut result = ("pass", Status::Ok);
        for verdict in verdicts.iter().filter(gating) {
            match verdict.decision {
                Decision::Violated => {
                    let why = format!("violated: {}", verdict.objective);
                    return ("fail", Status::error(why));
                }
                Decision::Inconclusive(_) => result = ("inconclusive", Status::Unset),
                Decision::Pass => {}
            }
        }
        result
    }

    /// The span of one verdict, below its cell's span; lasts as long as the sampling did.
    fn slo(&self, anchor: &Anchor, case: SpanId, length: Duration, verdict: &Verdict) -> SpanData {
        let mut slo = anchor.span(
            &format!("slo/{case}/{}", verdict.objective),
            Some(case),
            SpanKind::Internal,
            span::SLO,
            (Duration::ZERO, length),
        );
        let objective = self
            .objectives
            .iter()
            .find(|objective| objective.text == verdict.objective);
        let (decision, reason) = match verdict.decision {
            Decision::Pass => ("pass", None),
            Decision::Violated => ("violated", None),
            Decision::Inconclusive(reason) => ("inconclusive", Some(reason.as_str())),
        };
        slo.extend(&self.common)
            .text(semconv::RELAY_SLO_ID, Some(&verdict.objective))
            .maybe(
                semconv::RELAY_SLO_STATISTIC,
                objective.map(|objective| statistic(objective.statistic)),
            )
            .maybe(
                semconv::RELAY_SLO_BOUND,
                objective.map(|objective| objective.bound),
            )
            .maybe(semconv::RELAY_SLO_OBSERVED, verdict.observed)
            .put(semconv::RELAY_SLO_REQUIRED, verdict.required)
            .put(semconv::RELAY_SLO_CI_LOW, verdict.lower)
            .put(semconv::RELAY_SLO_CI_HIGH, verdict.upper)
            .put(semconv::RELAY_SLO_N, integer(verdict.n))
            .put(semconv::RELAY_SLO_FAILURES, integer(verdict.failures))
            .text(semconv::RELAY_SLO_RULE, Some(&verdict.rule))
            .put(semconv::RELAY_SLO_VERDICT, decision)
            .maybe(semconv::RELAY_SLO_REASON, reason);
        match verdict.decision {
            Decision::Pass => {
                slo.succeed();
            }
            Decision::Violated => {
                let why = format!("{} of {} samples missed it", verdict.failures, verdict.n);
                slo.fail(semconv::SLO_BREACH, why);
            }
            Decision::Inconclusive(_) => {}
        }
        slo.finish()
    }
}
