//! Whether a relay got worse: a new cell against an old one of the same relay, model and workload.
//!
//! Two tests see different things: that of the shares sees failures and tails, that of the order of
//! all times to the first token sees a shift of the whole. One flag needs both, a p-value that all
//! tests together allow and a difference that matters.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::question::Question;
use super::tallied::{Counts, Tallied};
use crate::forms::named;
use crate::stats::Tally;
use crate::stats::difference::{Difference, newcombe};
use crate::stats::interval::{self, Sides};
use crate::stats::quantile::{nearest_rank, rank_interval};
use crate::stats::shift::{fisher_worse, holm, mann_whitney_worse};

/// Chance that relays which did not get worse are flagged, over all tests of one comparison.
pub const ALPHA: f64 = 0.01;
/// A share that fell by less, in percentage points, does not matter.
pub const FALL_POINTS: u32 = 1;
/// Medians whose ratio is below this do not matter.
pub const RATIO: f64 = 1.10;
/// A chance that a new time is above an old one that is below this does not matter.
pub const ABOVE: f64 = 0.56;
/// Confidence of the printed interval of a difference, two-sided.
pub const DIFFERENCE: f64 = 0.95;
/// Confidence of each end of a quantile's interval.
pub const QUANTILE: f64 = 0.95;
/// Quantiles that are shown side by side, in parts per million.
const QUANTILES: [u32; 2] = [500_000, 950_000];

named! {
    /// What a test comes to.
    Finding {
        /// It got worse, and by enough to matter.
        Worse = "worse",
        /// It got worse, by too little to matter.
        Slightly = "slightly_worse",
        /// Our own lag may be in the new times.
        InDoubt = "in_doubt",
        /// Not shown to be worse.
        NotShown = "not_shown",
        /// One side has no sample for it.
        NoData = "no_data",
    }
}

/// The shares of one question, old and new.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// What is asked.
    pub question: Question,
    /// Old answers.
    pub old: Tally,
    /// New answers.
    pub new: Tally,
    /// Samples of either side that have no value for it.
    pub undefined: (u64, u64),
    /// New share less old share, with Newcombe's interval.
    pub difference: Option<Difference>,
    /// Fisher's one-sided p.
    pub p: f64,
    /// The same after Holm's procedure over all tests.
    pub adjusted: f64,
    /// What it comes to.
    pub finding: Finding,
}

/// The times to the first token, old and new.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// New median over old; `None` where one of them is a failure.
    pub ratio: Option<f64>,
    /// Chance that a new time is above an old one, half of the ties included.
    pub above: f64,
    /// Mann and Whitney's one-sided p.
    pub p: f64,
    /// The same after Holm's procedure over all tests.
    pub adjusted: f64,
    /// What it comes to.
    pub finding: Finding,
}

/// A quantile with its interval, in seconds; a failure is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Located {
    /// By nearest rank.
    pub value: f64,
    /// Lower end; `None` where no sample is low enough.
    pub lower: Option<f64>,
    /// Upper end; `None` where no sample is high enough.
    pub upper: Option<f64>,
}

/// A quantile of the times to the first token; no test is made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Which, in parts per million.
    pub ppm: u32,
    /// Old.
    pub old: Option<Located>,
    /// New.
    pub new: Option<Located>,
}

/// One cell, old and new.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// Old evidence.
    pub old: &'a Tallied,
    /// New evidence.
    pub new: &'a Tallied,
    /// Each share.
    pub shares: Vec<Shares>,
    /// The times; `None` where one side has no sample.
    pub times: Option<Times>,
    /// Quantiles side by side.
    pub quantiles: Vec<Quantile>,
}

impl Comparison<'_> {
    /// Whether anything got worse.
    pub fn is_worse(&self) -> bool {
        self.findings().any(|finding| finding == Finding::Worse)
    }

    fn findings(&self) -> impl Iterator<Item = Finding> {
        let shares = self.shares.iter().map(|it| it.finding);
        shares.chain(self.times.iter().map(|it| it.finding))
    }
}

/// Compares pairs of old and new cells, whose tests are corrected together.
pub fn regress<'a>(
    pairs: impl IntoIterator<Item = (&'a Tallied, &'a Tallied)>,
) -> Vec<Comparison<'a>> {
    let mut comparisons: Vec<Comparison<'a>> = pairs
        .into_iter()
        .map(|(old, new)| compare(old, new))
        .collect();
    let mut tests: Vec<Test<'_>> = comparisons.iter_mut().flat_map(tests).collect();
    let p_values: Vec<f64> = tests.iter().map(|test| test.p).collect();
    for (test, adjusted) in tests.iter_mut().zip(holm(&p_values)) {
        *test.adjusted = adjusted;
        *test.finding = if adjusted > ALPHA {
            Finding::NotShown
        } else if !test.matters {
            Finding::Slightly
        } else if test.in_doubt {
            Finding::InDoubt
        } else {
            Finding::Worse
        };
    }
    comparisons
}

/// One test that was made.
struct Test<'c> {
    p: f64,
    matters: bool,
    in_doubt: bool,
    adjusted: &'c mut f64,
    finding: &'c mut Finding,
}

fn tests<'c>(comparison: &'c mut Comparison<'_>) -> impl Iterator<Item = Test<'c>> + use<'c> {
    // Our lag makes times longer, never shorter, so only that of the new run can accuse.
    let doubt = comparison.new.doubt.is_some();
    let shares = comparison
        .shares
        .iter_mut()
        .filter(|it| it.finding != Finding::NoData)
        .map(move |it| Test {
            p: it.p,
            matters: fell(it.old, it.new),
            in_doubt: doubt && it.question.is_of_time(),
            adjusted: &mut it.adjusted,
            finding: &mut it.finding,
        });
    let times = comparison.times.iter_mut().map(move |it| Test {
        p: it.p,
        matters: it.above >= ABOVE || it.ratio.is_some_and(|ratio| ratio >= RATIO),
        in_doubt: doubt,
        adjusted: &mut it.adjusted,
        finding: &mut it.finding,
    });
    shares.chain(times)
}

fn compare<'a>(old: &'a Tallied, new: &'a Tallied) -> Comparison<'a> {
    let shares = new
        .questions
        .iter()
        .map(|question| {
            let of = |side: &Tallied| side.counts_of(question).unwrap_or_default();
            shares(question, of(old), of(new), new.doubt.is_some())
        })
        .collect();
    let (before, after) = (sorted(&old.ttft), sorted(&new.ttft));
    Comparison {
        old,
        new,
        shares,
        times: times(&before, &after),
        quantiles: QUANTILES
            .iter()
            .map(|ppm| Quantile {
                ppm: *ppm,
                old: located(&before, *ppm),
                new: located(&after, *ppm),
            })
            .collect(),
    }
}

fn shares(question: &Question, old: Counts, new: Counts, doubt: bool) -> Shares {
    let before = old.tally;
    // A saturated client sees honest answers come in one burst, too.
    let after = if doubt {
        new.without_bursts()
    } else {
        new.tally
    };
    let z = interval::z(DIFFERENCE, Sides::Two);
    let difference = newcombe(after, before, z);
    Shares {
        question: question.clone(),
        old: before,
        new: after,
        undefined: (old.undefined, new.undefined),
        difference,
        p: fisher_worse(before, after),
        adjusted: 1.0,
        finding: if difference.is_some() {
            Finding::NotShown
        } else {
            Finding::NoData
        },
    }
}

/// Whether the share of good samples fell by enough to matter.
fn fell(old: Tally, new: Tally) -> bool {
    let product = |one: u64, two: u64| u128::from(one) * u128::from(two);
    let (before, after) = (product(old.good(), new.n()), product(new.good(), old.n()));
    let least = u128::from(FALL_POINTS).saturating_mul(product(old.n(), new.n()));
    old.n() > 0 && new.n() > 0 && before.saturating_sub(after).saturating_mul(100) >= least
}

fn times(old: &[f64], new: &[f64]) -> Option<Times> {
    let shift = mann_whitney_worse(old, new)?;
    let median = |values: &[f64]| at_rank(values, nearest_rank(values.len() as u64, 500_000));
    let ratio = median(old)
        .zip(median(new))
        .filter(|(old, new)| *old > 0.0 && old.is_finite() && new.is_finite())
        .map(|(old, new)| new / old);
    Some(Times {
        ratio,
        above: shift.effect,
        p: shift.p,
        adjusted: 1.0,
        finding: Finding::NotShown,
    })
}

fn located(sorted: &[f64], ppm: u32) -> Option<Located> {
    let n = sorted.len() as u64;
    let ranks = rank_interval(n, ppm, QUANTILE, Sides::One);
    Some(Located {
        value: at_rank(sorted, nearest_rank(n, ppm))?,
        lower: at_rank(sorted, ranks.lower),
        upper: at_rank(sorted, ranks.upper),
    })
}

fn at_rank(sorted: &[f64], rank: Option<u64>) -> Option<f64> {
    let place = usize::try_from(rank?.checked_sub(1)?).ok()?;
    sorted.get(place).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests;
