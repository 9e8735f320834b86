//! The share of samples up to each value of a metric, against its limit: what a picture is drawn
//! from.

use serde::{Deserialize, Serialize};

use crate::objective::metric::Metric;
use crate::objective::{Objective, Op};
use crate::verdict::Verdict;

/// Points that are kept; more could not be told apart in a picture.
const POINTS: usize = 240;

/// How the values of one objective's samples are spread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The objective, as written.
    pub objective: String,
    /// What is measured, in its base unit.
    pub metric: Metric,
    /// Whether a larger value is a better one.
    pub more_is_better: bool,
    /// The limit that the objective sets.
    pub bound: f64,
    /// Share of samples that has to keep it.
    pub required: f64,
    /// Lower bound of the share that does.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
    /// Samples, failed ones included.
    pub total: u64,
    /// Samples that failed: worse than any value.
    pub failed: u64,
    /// Values and the shares of samples that are at most so large, from the least value to the
    /// largest.
    pub points: Vec<(f64, f64)>,
}

impl Distribution {
    /// The distribution of values, of which `failed` more samples have none; `None` where nothing
    /// can be drawn: no value, or no limit above 0.
    pub fn of(
        objective: &Objective,
        verdict: &Verdict,
        values: &[f64],
        failed: u64,
    ) -> Option<Self> {
        let is_positive = objective.bound > 0.0;
        let last = values.len().checked_sub(1).filter(|_| is_positive)?;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let more_is_better = match objective.op {
            Op::More | Op::AtLeast => true,
            Op::Less | Op::AtMost => false,
        };
        let float = |count: usize| crate::stats::float(count as u64);
        let total = float(sorted.len()) + crate::stats::float(failed);
        // A failed sample is worse than any value: never reached on one side, below all on the
        // other.
        let below = if more_is_better {
            crate::stats::float(failed)
        } else {
            0.0
        };
        let step = sorted.len().div_ceil(POINTS).max(1);
        let kept = sorted.iter().enumerate();
        let kept = kept.filter(|(index, _)| index % step == 0 || *index == last);
        Some(Self {
            objective: objective.text.clone(),
            metric: objective.metric,
            more_is_better,
            bound: objective.bound,
            required: verdict.required,
            lower: verdict.lower,
            upper: verdict.upper,
            total: sorted.len() as u64 + failed,
            failed,
            points: kept
                .map(|(index, value)| (*value, (below + float(index) + 1.0) / total))
                .collect(),
        })
    }

    /// The share below all values: that of the failed samples, where more is better.
    pub fn below(&self) -> f64 {
        if self.more_is_better && self.total > 0 {
            crate::stats::float(self.failed) / crate::stats::float(self.total)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::verdict::Summary;

    fn verdict(objective: Objective) -> Verdict {
        let one = evidence(vec![objective], 100, [sample(0, good())]);
        Summary::of(&one).verdicts.remove(0)
    }

    #[test]
    fn failed_samples_are_never_reached_or_below_all() {
        let late = Distribution::of(&ttft_p95(), &verdict(ttft_p95()), &[0.3, 0.1], 2).unwrap();
        assert_eq!(late.points, [(0.1, 0.25), (0.3, 0.5)]);
        assert!((late.below() - 0.0).abs() < 1e-12);
        let fast = Distribution::of(&tps_p05(), &verdict(tps_p05()), &[30.0, 10.0], 2).unwrap();
        assert_eq!(fast.points, [(10.0, 0.75), (30.0, 1.0)]);
        assert!((fast.below() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_million_values_are_few_points_from_the_first_to_the_last() {
        let values: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let seen = Distribution::of(&ttft_p95(), &verdict(ttft_p95()), &values, 0).unwrap();
        assert!(seen.points.len() <= POINTS + 1, "{}", seen.points.len());
        assert_eq!(seen.points.first().unwrap().0, 1.0);
        assert_eq!(*seen.points.last().unwrap(), (100_000.0, 1.0));
    }

    #[test]
    fn without_a_value_there_is_nothing_to_draw() {
        assert_eq!(
            Distribution::of(&ttft_p95(), &verdict(ttft_p95()), &[], 9),
            None
        );
    }
}
