//! What every sample of a cell measured, as far as a plot of it is drawn.

use crate::evidence::{Header, Sample};
use crate::measure::Reading;
use crate::objective::metric::Unit;
use crate::objective::{Objective, Statistic};
use crate::plan::Judging;

/// The values of one objective's metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Values of the samples that have one, in the metric's base unit.
    pub values: Vec<f64>,
    /// Samples that failed: worse than any value.
    pub failed: u64,
}

/// Curves of a cell, one for each of its objectives that is a quantile of something that can be
/// drawn.
#[derive(Clone, Debug)]
pub struct Curves {
    judging: Judging,
    objectives: Vec<Objective>,
    curves: Vec<Option<Curve>>,
}

impl Curves {
    /// No samples yet.
    pub fn new(header: &Header) -> Self {
        let drawn = |objective: &Objective| {
            let is_quantile = matches!(objective.statistic, Statistic::Quantile(_));
            (is_quantile && objective.metric.unit() != Unit::YesNo).then(Curve::default)
        };
        Self {
            judging: header.judge.clone(),
            curves: header.objectives.iter().map(drawn).collect(),
            objectives: header.objectives.clone(),
        }
    }

    /// Takes one sample; one that does not count is passed over.
    pub fn take(&mut self, sample: &Sample) {
        if !sample.counts() {
            return;
        }
        for (objective, curve) in self.objectives.iter().zip(&mut self.curves) {
            let Some(curve) = curve else { continue };
            let reading = objective.metric.reading(sample, &self.judging);
            match (reading.value(), reading) {
                (Some(value), _) if value.is_finite() => curve.values.push(value),
                (_, Reading::Undefined | Reading::Ineligible) => {}
                (_, _) => curve.failed += 1,
            }
        }
    }

    /// In the order of the objectives.
    pub fn all(&self) -> &[Option<Curve>] {
        &self.curves
    }
}
