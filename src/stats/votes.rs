//! One vote per time bucket: the accounts of [`super::sequential`] where failures come in bursts.
//!
//! Samples of one bucket may hang together as they like: a vote is the average of the bets that
//! each of them would have been, and an average of fair bets is a fair bet. A vote counts as one
//! sample, and its failures as a real number between 0 and 1, another one for each account.

use super::float;
use super::interval::Interval;
use super::sequential::{Design, Standing};

/// Sums are held in units of this, as whole numbers: neither the order of votes nor the day that
/// they were cast on changes them.
const UNIT: f64 = 1.0 / 18_446_744_073_709_551_616.0;

/// What one closed bucket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    samples: u64,
    failures: u64,
}

impl Vote {
    /// The vote of a bucket; `None` where it is empty, or has more failures than samples.
    pub const fn new(samples: u64, failures: u64) -> Option<Self> {
        if samples == 0 || failures > samples {
            None
        } else {
            Some(Self { samples, failures })
        }
    }

    fn bad_share(self) -> f64 {
        float(self.failures) / float(self.samples)
    }

    /// What it takes from the pass account: minus the logarithm of the mean of the bets of its samples, apart
    /// from what one sample gives.
    fn pass_cost(self, pass_ratio: f64) -> f64 {
        -(-self.bad_share() * (1.0 - 1.0 / pass_ratio)).ln_1p()
    }

    /// What it adds to the fail account.
    fn fail_gain(self, fail_ratio: f64) -> f64 {
        (self.bad_share() * (fail_ratio - 1.0)).ln_1p()
    }

    /// Failures that it counts as in a pass account of this ratio, which is finite and above 1.
    pub fn failures_for_pass(self, pass_ratio: f64) -> f64 {
        if self.failures == 0 {
            0.0
        } else if self.failures == self.samples {
            1.0
        } else {
            self.pass_cost(pass_ratio) / pass_ratio.ln()
        }
    }

    /// Failures that it counts as in a fail account of this ratio, which is finite and above 1.
    pub fn failures_for_fail(self, fail_ratio: f64) -> f64 {
        if self.failures == self.samples {
            1.0
        } else {
            self.fail_gain(fail_ratio) / fail_ratio.ln()
        }
    }
}

/// The votes on one claim.
#[derive(Clone, Copy, Debug)]
pub struct Ballot {
    design: Design,
    votes: u64,
    pass_cost: u128,
    fail_gain: u128,
}

impl Ballot {
    /// A ballot without votes.
    pub const fn new(design: Design) -> Self {
        Self {
            design,
            votes: 0,
            pass_cost: 0,
            fail_gain: 0,
        }
    }

    /// The rule.
    pub const fn design(&self) -> &Design {
        &self.design
    }

    /// Votes that were cast.
    pub const fn votes(&self) -> u64 {
        self.votes
    }

    /// Counts a vote.
    pub fn cast(&mut self, vote: Vote) {
        let cost = vote.pass_cost(self.design.pass_ratio());
        let gain = vote.fail_gain(self.design.fail_ratio());
        self.votes = self.votes.saturating_add(1);
        self.pass_cost = self.pass_cost.saturating_add(units(cost));
        self.fail_gain = self.fail_gain.saturating_add(units(gain));
    }

    /// Counts the votes of another ballot on the same claim, as of another day; `None`, and nothing
    /// counted, where its rule is another one.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Option<Self> {
        if self.design != other.design {
            return None;
        }
        self.votes = self.votes.saturating_add(other.votes);
        self.pass_cost = self.pass_cost.saturating_add(other.pass_cost);
        self.fail_gain = self.fail_gain.saturating_add(other.fail_gain);
        Some(self)
    }

    /// Where the ballot stands; `most` is the most votes that can ever be cast, `None` to leave
    /// futility aside.
    pub fn standing(&self, most: Option<u64>) -> Standing {
        let pass_at = self.design.pass_at_cost(amount(self.pass_cost));
        let fail_until = self.design.fail_until_gain(amount(self.fail_gain));
        if pass_at.is_some_and(|at| self.votes >= at) {
            Standing::Pass
        } else if self.votes > 0 && self.votes <= fail_until {
            Standing::Fail
        } else if most.is_some_and(|most| pass_at.is_none_or(|at| at > most)) {
            Standing::CannotPass
        } else {
            Standing::Open
        }
    }

    /// Bounds of the share of good samples.
    pub fn bounds(&self) -> Interval {
        Interval {
            lower: self
                .design
                .lower_at_cost(self.votes, amount(self.pass_cost)),
            upper: self
                .design
                .upper_at_gain(self.votes, amount(self.fail_gain)),
        }
    }
}

/// A sum in whole units; what is infinite stays the largest one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and amounts are not negative"
)]
fn units(amount: f64) -> u128 {
    (amount / UNIT) as u128
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rounded once, to the nearest amount"
)]
fn amount(units: u128) -> f64 {
    if units == u128::MAX {
        f64::INFINITY
    } else {
        units as f64 * UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Tally;

    fn design() -> Design {
        Design::new(0.95, 0.05, 0.05).unwrap()
    }

    fn vote(samples: u64, failures: u64) -> Vote {
        Vote::new(samples, failures).unwrap()
    }

    #[test]
    fn an_empty_bucket_casts_no_vote() {
        assert_eq!(Vote::new(0, 0), None);
        assert_eq!(Vote::new(3, 4), None);
    }

    #[test]
    fn votes_of_one_sample_decide_as_samples_do() {
        for failures in 0..6_u64 {
            let mut ballot = Ballot::new(design());
            (0..failures).for_each(|_| ballot.cast(vote(1, 1)));
            for n in failures..300 {
                let tally = Tally::new(n, failures).unwrap();
                let (found, expected) = (ballot.bounds(), design().bounds(tally));
                assert!((found.lower - expected.lower).abs() < 1e-12, "{n}");
                assert!((found.upper - expected.upper).abs() < 1e-12, "{n}");
                let passes = design().pass_at(failures).is_some_and(|at| n >= at);
                let fails = n > 0 && n <= design().fail_until(failures);
                let expected = match (passes, fails) {
                    (true, _) => Standing::Pass,
                    (false, true) => Standing::Fail,
                    (false, false) => Standing::Open,
                };
                assert_eq!(ballot.standing(None), expected, "{n} {failures}");
                ballot.cast(vote(1, 0));
            }
        }
    }

    #[test]
    fn neither_order_nor_day_changes_a_ballot() {
        let votes: Vec<Vote> = (0..200).map(|i| vote(7 + i % 5, i % 7)).collect();
        let cast = |votes: &mut dyn Iterator<Item = &Vote>| {
            let mut ballot = Ballot::new(design());
            votes.for_each(|vote| ballot.cast(*vote));
            ballot
        };
        let forth = cast(&mut votes.iter());
        let back = cast(&mut votes.iter().rev());
        let (early, late) = votes.split_at(77);
        let days = cast(&mut late.iter()).with(&cast(&mut early.iter()));
        for other in [back, days.unwrap()] {
            assert_eq!(forth.bounds(), other.bounds());
            assert_eq!(forth.votes(), other.votes());
        }
        let stricter = Ballot::new(Design::new(0.99, 0.05, 0.05).unwrap());
        assert!(forth.with(&stricter).is_none());
    }

    #[test]
    fn a_design_without_failures_passes_only_clean_buckets_in_its_number() {
        let design = Design::with_ratios(0.95, 0.05, 0.05, f64::INFINITY, 3.0).unwrap();
        let mut ballot = Ballot::new(design);
        (0..59).for_each(|_| ballot.cast(vote(4, 0)));
        assert_eq!(ballot.standing(None), Standing::Pass);
        ballot.cast(vote(4, 4));
        assert_eq!(ballot.standing(Some(100_000)), Standing::CannotPass);
        assert_eq!(ballot.bounds().lower, 0.0);
    }

    #[test]
    fn a_burst_in_one_bucket_is_one_vote_however_many_samples_it_hit() {
        let mut ballot = Ballot::new(design());
        ballot.cast(vote(50, 50));
        assert_eq!(ballot.standing(None), Standing::Open);
        (0..112).for_each(|_| ballot.cast(vote(50, 0)));
        assert_eq!(ballot.standing(None), Standing::Pass);
    }
}
