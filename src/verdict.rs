//! From samples to decisions: pass, violated or inconclusive, with the numbers behind it.
//!
//! Looks at [`crate::evidence`] only, never at raw bytes; results are applied in planned order.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::observation::named;

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
    /// Share that must be met.
    pub required: f64,
    /// Lower bound of the share of good samples.
    pub lower: f64,
    /// Upper bound of the share of good samples.
    pub upper: f64,
    /// Rule in words: `sequential, 95 %`.
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
    /// Further words on the reason.
    pub note: Option<String>,
}
