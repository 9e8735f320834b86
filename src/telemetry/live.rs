//! The spans of a run while it runs: who is open, what was seen of it so far, and where its spans go.
//!
//! Draws nothing itself and measures nothing: suite and case are drawn like all other spans, from
//! what evidence says ([`super::spans`]), when they end. What is logged inside of them carries the
//! ids that they are going to have.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::SpanContext;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord};

use super::content::{self, HashKey};
use super::entrance::{Entered, Entrance};
use super::export::{Inlet, Work, lock};
use super::metrics::CellMeter;
use super::semconv;
use super::spans::{
    CaseEnd, CaseTally, CellSpans, SampleFacts, SuiteInfo, SuiteSpan, SuiteStatus, Window,
};
use crate::evidence::{Header, Sample};
use crate::plan::Content;
use crate::probe::call::Said;
use crate::probe::clock::Clock;
use crate::verdict::Verdict;

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

/// The stage on which live spans appear.
#[derive(Clone)]
pub(super) struct Stage {
    run_id: String,
    key: HashKey,
    inlet: Inlet,
    ci: Option<SpanContext>,
    baggage: Arc<[(String, String)]>,
    entrance: Entrance,
}

impl Stage {
    /// Every span of the run is kept: a sampler, or a CI context that is not sampled, would thin
    /// out the evidence.
    pub(super) fn new(
        run_id: &str,
        inlet: Inlet,
        ci: Option<SpanContext>,
        baggage: &[(String, String)],
    ) -> Self {
        Self {
            run_id: run_id.to_owned(),
            key: HashKey::random(),
            inlet,
            ci,
            baggage: baggage.into(),
            entrance: Entrance::new(),
        }
    }

    /// Opens the span of one spec's run.
    pub(super) fn suite(&self, info: &SuiteInfo) -> Suite {
        let span = SuiteSpan::new(&self.run_id, info.clone(), self.ci.clone());
        Suite {
            stage: self.clone(),
            entered: self.entrance.open(span.context()),
            span: Arc::new(span),
            opened: Clock::start().unix_ns(),
            window: Arc::default(),
            status: None,
        }
    }
}

/// The open span of one spec's run; ends when dropped.
pub struct Suite {
    stage: Stage,
    span: Arc<SuiteSpan>,
    entered: Entered,
    /// What stands for its time as long as no cell has one.
    opened: u64,
    /// The time of the cells that have ended.
    window: Arc<Mutex<Option<Window>>>,
    status: Option<SuiteStatus>,
}

impl Suite {
    /// Where the span is.
    pub fn context(&self) -> &SpanContext {
        self.span.context()
    }

    /// Opens the span of one cell.
    pub fn case(&self, header: &Header) -> Case {
        let context = self.span.case_context(header);
        Case(Arc::new(Open {
            inlet: self.stage.inlet.clone(),
            entered: self.stage.entrance.open(&context),
            cell: Arc::new(CellSpans::new(header)),
            meter: Arc::new(CellMeter::new(header)),
            context,
            suite: Arc::clone(&self.span),
            window: Arc::clone(&self.window),
            content: header.otel.content,
            key: self.stage.key.clone(),
            tally: Mutex::default(),
            ended: Mutex::new(false),
        }))
    }

    /// Ends the span with the suite's status; its cells should have ended before.
    pub fn finish(mut self, status: SuiteStatus) {
        self.status = Some(status);
    }

    /// Runs `work` inside the span, so that what it logs carries the span's ids.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.entered.run(work)
    }
}

impl Drop for Suite {
    fn drop(&mut self) {
        let window = lock(&self.window).unwrap_or(Window {
            start: self.opened,
            end: self.opened,
        });
        let mut span = self.span.draw(window, self.status);
        let baggage = self.stage.baggage.iter().map(|(name, value)| {
            KeyValue::new(format!("{}.{name}", semconv::RELAY_BAGGAGE), value.clone())
        });
        span.attributes.extend(baggage);
        self.stage.inlet.send(Work::Spans(vec![span]));
    }
}

/// The open span of one cell; ends when the last handle is dropped.
#[derive(Clone)]
pub struct Case(Arc<Open>);

struct Open {
    inlet: Inlet,
    entered: Entered,
    cell: Arc<CellSpans>,
    meter: Arc<CellMeter>,
    context: SpanContext,
    suite: Arc<SuiteSpan>,
    window: Arc<Mutex<Option<Window>>>,
    /// What is told of prompts and answers.
    content: Content,
    key: HashKey,
    tally: Mutex<CaseTally>,
    ended: Mutex<bool>,
}

impl Open {
    /// Draws the span, once.
    fn end(&self, end: Option<CaseEnd<'_>>) {
        if std::mem::replace(&mut *lock(&self.ended), true) {
            return;
        }
        let tally = lock(&self.tally);
        let own = self.cell.window(&tally, end);
        let mut window = lock(&self.window);
        *window = Some(window.map_or(own, |all| all.with(own)));
        let spans = self.cell.case(&self.suite, &tally, end);
        self.inlet.send(Work::Spans(spans));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end(None);
    }
}

impl Case {
    /// Where the span is.
    pub fn context(&self) -> &SpanContext {
        &self.0.context
    }

    /// Counts a sample that was exported before: by whoever began what this process goes on with.
    pub fn recall(&self, sample: &Sample, facts: &SampleFacts) {
        lock(&self.0.tally).take(sample, facts);
    }

    /// Exports one sample; it is drawn on the exporter thread.
    pub fn sample(&self, sample: &Sample, facts: &SampleFacts) {
        self.export(sample, facts, Vec::new());
    }

    /// Exports one sample with what the spec wants told of its prompt and answer.
    pub fn sample_with(&self, sample: &Sample, facts: &SampleFacts, said: &Said) {
        let content = content::attributes(self.0.content, said, &self.0.key);
        self.export(sample, facts, content);
    }

    fn export(&self, sample: &Sample, facts: &SampleFacts, content: Vec<KeyValue>) {
        self.recall(sample, facts);
        self.0.inlet.send(Work::Sample {
            cell: Arc::clone(&self.0.cell),
            meter: Arc::clone(&self.0.meter),
            sample: Box::new(sample.clone()),
            facts: Box::new(facts.clone()),
            case: Some(self.0.context.clone()),
            content,
        });
    }

    /// Ends the span: with the verdicts, and with links to failing samples.
    pub fn finish(self, verdicts: &[Verdict], closed_unix_ns: u64) {
        self.0.inlet.send(Work::Verdicts {
            meter: Arc::clone(&self.0.meter),
            verdicts: verdicts.to_vec(),
        });
        self.0.end(Some(CaseEnd {
            at_unix_ns: closed_unix_ns,
            verdicts,
        }));
    }

    /// Runs `work` inside the span, so that what it logs carries the span's ids.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.0.entered.run(work)
    }
}
