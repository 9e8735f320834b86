//! One promise: `METRIC[.pNN[.N] | .mean] OP NUMBER[UNIT]`, and what it asks of the samples.

pub mod grammar;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::measure::metric::Metric;
use crate::observation::named;

named! {
    /// Which statistic of a metric is bounded.
    Op {
        /// Less than.
        Less = "<",
        /// At most.
        AtMost = "<=",
        /// More than.
        More = ">",
        /// At least.
        AtLeast = ">=",
    }
}

/// The statistic of an objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Statistic {
    /// A quantile, in parts per million: `p95` is 950000.
    Quantile(u32),
    /// The arithmetic mean; allowed as a warning only.
    Mean,
    /// The share of samples for which a yes/no metric holds.
    Rate,
}

named! {
    /// What a miss does.
    Severity {
        /// The test fails.
        Gate = "gate",
        /// The test passes with a printed warning.
        Warn = "warn",
    }
}

/// One promise about one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// As written, white space normalised: the last part of the test's name.
    pub text: String,
    /// What is measured.
    pub metric: Metric,
    /// Which statistic of it.
    pub statistic: Statistic,
    /// Comparison.
    pub op: Op,
    /// Bound in the metric's base unit (seconds, tokens per second, a share between 0 and 1).
    pub bound: f64,
    /// 1 − α of this objective in parts per million, where it differs from the spec's.
    pub confidence_ppm: Option<u32>,
    /// What a miss does.
    pub severity: Severity,
    /// Line of the spec, from 1.
    pub line: u32,
    /// Column of the spec, from 1.
    pub column: u32,
}

impl Objective {
    /// Whether the cell's sampling waits for this objective and ends with it.
    ///
    /// Warnings do neither, nor does a metric about calls that failed first: a good relay has too
    /// few of those.
    pub fn gates(&self) -> bool {
        self.severity == Severity::Gate && !self.metric.is_about_failures()
    }
}
