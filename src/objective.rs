//! One promise: `METRIC[.pNN[.N] | .mean] OP NUMBER[UNIT]`, and what it asks of the samples.

pub mod grammar;
pub mod metric;
pub(crate) mod quantity;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::forms::named;
use metric::Metric;

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
    /// As written, white space normalised, with ` @window` behind it where it names one: the last
    /// part of the test's name.
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
    /// The window whose samples it is about; `None`: all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// Line of the spec, from 1.
    pub line: u32,
    /// Column of the spec, from 1.
    pub column: u32,
}

impl Objective {
    /// Share of samples that must be good, in parts per million; `None` for a mean.
    ///
    /// Every quantile is a share: `ttft.p95 < 1.5s` means that at least 95 % of the samples are
    /// under 1.5 s, and `tps.p05 >= 20/s` that at least 95 % reach 20 tokens per second.
    pub fn required_ppm(&self) -> Option<u32> {
        match self.statistic {
            Statistic::Quantile(ppm) => Some(match self.op {
                Op::Less | Op::AtMost => ppm,
                Op::More | Op::AtLeast => WHOLE_PPM.saturating_sub(ppm),
            }),
            Statistic::Rate => {
                let bound = ppm_of(self.bound);
                Some(match self.op {
                    Op::Less | Op::AtMost => WHOLE_PPM.saturating_sub(bound),
                    Op::More | Op::AtLeast => bound,
                })
            }
            Statistic::Mean => None,
        }
    }

    /// Whether a miss fails the test and an open question keeps the cell sampling.
    ///
    /// Warnings do neither, nor does `retry_success`: it looks at calls that failed first, and a
    /// good relay has too few of those.
    pub fn gates(&self) -> bool {
        self.severity == Severity::Gate && self.metric != Metric::RetrySuccess
    }
}

/// One whole in parts per million.
pub(crate) const WHOLE_PPM: u32 = 1_000_000;

/// A share between 0 and 1 in parts per million.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to 0..=1000000 before the cast"
)]
fn ppm_of(share: f64) -> u32 {
    (share * f64::from(WHOLE_PPM)).round().clamp(0.0, 1e6) as u32
}
