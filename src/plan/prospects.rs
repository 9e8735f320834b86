//! What a plan says of its chances: for each objective what it takes to pass, and what a relay of
//! stated quality has to expect.

use super::budget::{self, Forecast, Outlook, Together};
use super::votes::Votes;
use super::{Cell, Plan, Timing};
use crate::objective::Objective;

/// What can be said before anything is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Prospects {
    /// In spec order; `None` for a mean, which nothing decides.
    pub outlooks: Vec<Option<Outlook>>,
    /// For each of them the samples that there can be; of a soak the votes that are to be expected.
    pub most: Vec<u64>,
    /// Relays of stated quality.
    pub scenarios: Vec<Scenario>,
}

/// What a relay of stated quality has to expect.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Share of good samples, for all objectives alike; `None` for a relay at a fifth of the failure
    /// odds that each objective allows.
    pub assumed: Option<f64>,
    /// For each objective, in spec order.
    pub forecasts: Vec<Option<Forecast>>,
    /// For the objectives that a cell waits for.
    pub together: Option<Together>,
}

impl Prospects {
    /// The prospects of the cells of a plan, for a good relay and for each assumed share.
    pub fn of(plan: &Plan, assumed: &[f64]) -> Self {
        let Some(first) = plan.cells.first() else {
            return Self {
                outlooks: Vec::new(),
                most: Vec::new(),
                scenarios: Vec::new(),
            };
        };
        // The cells of a spec promise the same; where only some ask for a seal, the shares of the
        // chance of a false violation differ by that, which moves no number that is shown.
        let accounts = budget::accounts(&first.objectives, first.seal_allowance_ppm());
        let outlooks: Vec<Option<Outlook>> = first
            .objectives
            .iter()
            .map(|objective| Outlook::among(objective, &plan.judge, accounts))
            .collect();
        let most: Vec<u64> = first
            .objectives
            .iter()
            .map(|it| most(plan, first, it))
            .collect();
        let scenarios = std::iter::once(None)
            .chain(assumed.iter().copied().map(Some))
            .map(|assumed| scenario(&first.objectives, &outlooks, assumed, &most))
            .collect();
        Self {
            outlooks,
            most,
            scenarios,
        }
    }

    /// Samples of a cell that a good relay is expected to need at least, warm-ups not counted.
    pub fn expected_samples(&self) -> Option<f64> {
        Some(self.scenarios.first()?.together?.samples)
    }

    /// Calls to a cell of a good relay, rounded up: all of them in a soak, which goes on to its end.
    pub fn expected_calls(&self, plan: &Plan, cell: &Cell) -> Option<u64> {
        let most = plan.calls_of(cell);
        if plan.sampling.mode == Timing::Soak {
            return Some(most);
        }
        let samples = crate::stats::count(self.expected_samples()?.ceil());
        Some(
            samples
                .saturating_add(plan.sampling.warmup.into())
                .min(most),
        )
    }

    /// Most tokens of that many calls to a cell.
    pub fn expected_tokens(&self, plan: &Plan, cell: &Cell) -> Option<u64> {
        let per_call = budget::tokens_per_call(&cell.workload);
        Some(self.expected_calls(plan, cell)?.saturating_mul(per_call))
    }
}

/// Samples of a cell; of a soak the votes on an objective, by all regions together.
fn most(plan: &Plan, cell: &Cell, objective: &Objective) -> u64 {
    let (sampling, bucket) = (&plan.sampling, plan.judge.bucket);
    Votes::of(objective, sampling, bucket, &plan.windows, plan.pair_ppm).map_or_else(
        || cell.sampling(&plan.sampling).max_samples,
        |votes| votes.expected,
    )
}

fn scenario(
    objectives: &[Objective],
    outlooks: &[Option<Outlook>],
    assumed: Option<f64>,
    most: &[u64],
) -> Scenario {
    let forecasts: Vec<Option<Forecast>> = outlooks
        .iter()
        .zip(most)
        .map(|(outlook, &most)| {
            let outlook = outlook.as_ref()?;
            outlook.forecast(assumed.unwrap_or_else(|| outlook.good_share()), most)
        })
        .collect();
    let waited_for: Option<Vec<Forecast>> = objectives
        .iter()
        .zip(&forecasts)
        .filter(|(objective, _)| objective.gates())
        .map(|(_, forecast)| *forecast)
        .collect();
    Scenario {
        assumed,
        together: waited_for.and_then(Together::of),
        forecasts,
    }
}
