//! From samples to decisions: pass, violated or inconclusive, with the numbers behind it.
//!
//! Looks at [`crate::evidence`] only, never at raw bytes; results are applied in planned order.
//! Anything that reports, traces or exits renders what is decided here and decides nothing itself.

pub mod about;
mod bursts;
pub mod campaign;
pub mod counts;
pub mod judge;
mod rule;
mod seals;
mod streamed;
pub mod summary;
mod track;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::Evidence;
use crate::forms::named;
use crate::objective::{Objective, Severity};
use crate::plan::{Judging, OnInconclusive};
pub use judge::Judge;
pub use streamed::judge_file;
pub use summary::{Overall, Summary, overall};

/// Failing samples that a verdict names.
const NAMED_FAILURES: usize = 16;

named! {
    /// Why nothing could be decided.
    Inconclusive {
        /// The planned number of samples was used up.
        Budget = "budget",
        /// A pass is out of reach with the samples that are left.
        CannotPass = "cannot_pass",
        /// Stopped before the plan's end.
        StoppedEarly = "stopped_early",
        /// The probe itself was not fit to measure.
        InvalidRun = "invalid_run",
        /// More than 10 % of the samples have no value for the metric.
        UndefinedMetric = "undefined_metric",
        /// Failures come in bursts.
        Bursty = "bursty",
        /// The trusted upstream failed too.
        BaselineDown = "baseline_down",
        /// Planned samples are missing.
        MissingSlots = "missing_slots",
        /// Nothing was measured.
        NoData = "no_data",
    }
}

/// The decision on one objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Shown to meet the objective (or, in guard mode, not shown to violate it).
    Pass,
    /// Shown to violate it.
    Violated,
    /// Neither.
    Inconclusive(Inconclusive),
}

/// The decision on one objective, with everything that a report needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Objective, as written.
    pub objective: String,
    /// Decision.
    pub decision: Decision,
    /// Samples that counted.
    pub n: u64,
    /// Failures among them.
    pub failures: u64,
    /// Samples without a defined value.
    pub undefined: u64,
    /// Samples that the objective is not about.
    pub ineligible: u64,
    /// Planned slots that were never answered, though later ones were: failures for a pass, none
    /// for a violation.
    pub missing: u64,
    /// Share that must be met; 0 for a mean, which is no share.
    pub required: f64,
    /// Lower bound of the share of good samples; 0 claims nothing.
    pub lower: f64,
    /// Upper bound of the share of good samples; 1 claims nothing.
    pub upper: f64,
    /// Rule in words: `sequential, 95%`, with the numbers that are needed to check it by hand.
    pub rule: String,
    /// Observed statistic in the metric's base unit (nearest rank; infinity is absent and
    /// `censored` is set), or the observed share.
    pub observed: Option<f64>,
    /// The observed rank falls among samples without a value.
    pub censored: bool,
    /// Further clean samples that would settle an inconclusive verdict, where any number would.
    pub further_clean: Option<u64>,
    /// Sample indices of the failures, first 16.
    pub failing: Vec<u64>,
    /// Normal stops and their seals, where `usable` goes by an allowance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seals: Option<Seals>,
    /// Failures that came together in time, where that is no accident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursty: Option<Bursts>,
    /// Further words on the reason.
    pub note: Option<String>,
}

/// Normal stops, and those among them that lack the seal that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seals {
    /// Answers that claim to have come to their normal end.
    pub stops: u64,
    /// Those without the seal.
    pub unsealed: u64,
    /// Share that is allowed, in parts per million.
    pub allowance_ppm: u32,
    /// Shown to be more than that, which violates the objective.
    pub violated: bool,
}

/// Failures that crowd in time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// Failures in the bucket that holds the least likely number of them.
    pub crowd: u64,
    /// Failures in all.
    pub failures: u64,
    /// Length of a bucket in seconds.
    pub bucket_s: f64,
    /// Buckets with samples.
    pub buckets: u64,
    /// Variance of the share over that of as many independent samples.
    pub design_effect: f64,
}

/// What a verdict does to its test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Nothing to say.
    Ok,
    /// The test passes, and a warning is printed.
    Warning,
    /// The test fails.
    Failure,
}

/// What a verdict does to its test, as the spec has it.
pub const fn effect(verdict: &Verdict, objective: &Objective, judging: &Judging) -> Effect {
    match (
        verdict.decision,
        objective.severity,
        judging.on_inconclusive,
    ) {
        (Decision::Pass, _, _) => Effect::Ok,
        (_, Severity::Warn, _) | (Decision::Inconclusive(_), _, OnInconclusive::Warn) => {
            Effect::Warning
        }
        (Decision::Violated | Decision::Inconclusive(_), Severity::Gate, _) => Effect::Failure,
    }
}

/// The verdicts of one evidence file: what the run that wrote it decided.
///
/// Samples are taken in the order of their slots, whatever their order in the file, and each slot
/// once. A slot without a sample, when there are samples of later slots, is missing: called off or
/// lost with its process. It counts as a failure where a pass is asked for and as a success where a
/// violation is, so that it can help neither. Samples after the decision are not used.
pub fn judge(evidence: &Evidence) -> Vec<Verdict> {
    let mut judge = Judge::for_header(&evidence.header);
    for sample in &evidence.samples {
        judge.take(sample);
    }
    judge.invalidate_by(&evidence.earlier);
    judge.finish(evidence.close.as_ref())
}

#[cfg(test)]
mod tests;
