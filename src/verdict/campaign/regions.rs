//! One region against the others.

use serde::{Deserialize, Serialize};

use super::count::Count;
use crate::stats::Tally;
use crate::stats::difference::newcombe;
use crate::stats::interval::{Sides, z};
use crate::stats::shift::{fisher_worse, holm};

/// Chance of a false finding over all regions.
const ALPHA: f64 = 0.05;
/// Smallest difference that is worth a word.
const LEAST: f64 = 0.01;

/// A region beside the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgainstRest {
    /// Share of failures of this region less that of the others.
    pub added: f64,
    /// Lower bound of that, 95% for both bounds (Newcombe's).
    pub added_lower: f64,
    /// Upper bound.
    pub added_upper: f64,
    /// One-sided p of Fisher's exact test, corrected for the number of regions (Holm's).
    pub p: f64,
    /// Whether only this region is bad: look at the way from there, or at the relay's edge there.
    pub is_worse: bool,
}

/// Each region against all others together; `None` where a side has no sample.
pub(super) fn against_rest(counts: &[Count]) -> Vec<Option<AgainstRest>> {
    let tally = |count: &Count| Tally::new(count.n(), count.failures()).unwrap_or_default();
    let tallies: Vec<Tally> = counts.iter().map(tally).collect();
    let rest = |region: usize| {
        let others = tallies.iter().enumerate().filter(|(at, _)| *at != region);
        others.fold(Tally::default(), |sum, (_, one)| {
            sum.with_good(one.good()).with_bad(one.failures())
        })
    };
    let tests: Vec<f64> = (0..tallies.len())
        .map(|at| fisher_worse(rest(at), tallies[at]))
        .collect();
    holm(&tests)
        .into_iter()
        .enumerate()
        .map(|(at, p)| {
            // Of shares of good samples, so the other way round.
            let difference = newcombe(rest(at), tallies[at], z(1.0 - ALPHA, Sides::Two))?;
            Some(AgainstRest {
                added: difference.estimate,
                added_lower: difference.lower,
                added_upper: difference.upper,
                p,
                is_worse: p <= ALPHA && difference.estimate >= LEAST,
            })
        })
        .collect()
}
