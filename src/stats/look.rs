//! One look at a size fixed in advance: by Wilson's bounds, or by the exact ones.
//!
//! Not for looking more than once; the rule that may is [`super::sequential`].

use super::Tally;
use super::interval::{self, Interval, Sides};
use super::numeric::binomial_upper;

/// A rule for one look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Look {
    /// Wilson's score bounds with this z.
    Wilson {
        /// Standard normal quantile of the confidence.
        z: f64,
    },
    /// The exact bounds of Clopper and Pearson: two binomial tests.
    Exact {
        /// Chance of a false pass.
        alpha: f64,
        /// Chance of a false fail.
        gamma: f64,
    },
}

impl Look {
    /// Bounds of the share of good samples.
    pub fn bounds(self, tally: Tally) -> Interval {
        match self {
            Self::Wilson { z } => interval::wilson(tally, z),
            Self::Exact { alpha, gamma } => Interval {
                lower: interval::clopper_pearson(tally, 1.0 - alpha, Sides::One).lower,
                upper: interval::clopper_pearson(tally, 1.0 - gamma, Sides::One).upper,
            },
        }
    }

    /// Whether these counts show that the share of good samples is at least `required`.
    pub fn passes(self, tally: Tally, required: f64) -> bool {
        match self {
            Self::Wilson { z } => interval::wilson(tally, z).lower >= required,
            Self::Exact { alpha, .. } => {
                tally.n() > 0 && at_most(tally.failures(), tally.n(), 1.0 - required) <= alpha
            }
        }
    }

    /// Whether they show that it is below.
    pub fn fails(self, tally: Tally, required: f64) -> bool {
        match self {
            Self::Wilson { z } => interval::wilson(tally, z).upper < required,
            Self::Exact { gamma, .. } => {
                tally.failures() > 0
                    && at_least(tally.failures(), tally.n(), 1.0 - required) <= gamma
            }
        }
    }

    /// Fewest samples that pass when none of them is bad.
    pub fn min_n(self, required: f64) -> u64 {
        match self {
            Self::Wilson { z } => interval::wilson_min_n(required, z),
            Self::Exact { alpha, .. } => interval::exact_min_n(required, 1.0 - alpha),
        }
        .max(1)
    }

    /// Most bad ones with which `n` samples still pass; `None` when not even none does.
    pub fn tolerated(self, n: u64, required: f64) -> Option<u64> {
        let passes = |bad| Tally::new(n, bad).is_some_and(|tally| self.passes(tally, required));
        last(n, passes)
    }

    /// Fewest bad ones with which `n` samples fail; `None` when not even all of them do.
    pub fn refused(self, n: u64, required: f64) -> Option<u64> {
        let stands = |bad| Tally::new(n, bad).is_some_and(|tally| !self.fails(tally, required));
        match last(n, stands) {
            Some(most) => (most < n).then_some(most + 1),
            None => Some(0),
        }
    }

    /// Probability that `n` samples pass, and that they fail, where each is good with probability
    /// `p`.
    pub fn power(self, n: u64, required: f64, p: f64) -> (f64, f64) {
        let pass = self.tolerated(n, required);
        let fail = self.refused(n, required);
        (
            pass.map_or(0.0, |most| at_most(most, n, 1.0 - p)),
            fail.map_or(0.0, |least| at_least(least, n, 1.0 - p)),
        )
    }

    /// Fewest samples at which a relay that is good with probability `p` passes with probability
    /// `power`; `None` when `most` do not do.
    ///
    /// For each number of bad samples there is a smallest n that still passes with them; power is
    /// highest there, so only these need a look.
    pub fn samples_for(self, required: f64, p: f64, power: f64, most: u64) -> Option<u64> {
        let mut n = self.min_n(required);
        for bad in 0..=most {
            let passes = |n| Tally::new(n, bad).is_some_and(|tally| self.passes(tally, required));
            n = first(n, most, passes)?;
            if at_most(bad, n, 1.0 - p) >= power {
                return Some(n);
            }
        }
        None
    }
}

/// Probability of at most `most` bad ones among `n` samples that are bad with probability `q`.
pub fn at_most(most: u64, n: u64, q: f64) -> f64 {
    at_least(n.saturating_sub(most), n, 1.0 - q)
}

/// Probability of at least `least` bad ones among `n` samples that are bad with probability `q`.
pub fn at_least(least: u64, n: u64, q: f64) -> f64 {
    if (0.0..=1.0).contains(&q) {
        binomial_upper(n, q, least)
    } else {
        f64::NAN
    }
}

/// The last of `0..=to` for which a condition holds that holds up to some point.
fn last(to: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let first_not = first(0, to, |at| !holds(at));
    match first_not {
        None => Some(to),
        Some(at) => at.checked_sub(1),
    }
}

/// The first of `from..=to` for which a condition holds that holds from some point on.
fn first(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    // In growing steps first: what is looked for is nearly always close to `from`.
    let (mut low, mut step) = (from, 1);
    let mut high = low;
    while high <= to && !holds(high) {
        low = high + 1;
        high = low.saturating_add(step);
        step *= 2;
    }
    if low > to {
        return None;
    }
    let mut high = high.min(to.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    (low <= to).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::operating::good_relay;

    const EXACT: Look = Look::Exact {
        alpha: 0.05,
        gamma: 0.05,
    };

    fn tally(n: u64, failures: u64) -> Tally {
        Tally::new(n, failures).unwrap()
    }

    #[test]
    fn the_exact_rule_asks_for_the_published_numbers() {
        for (required, n0) in [(0.95, 59), (0.99, 299), (0.995, 598), (0.999, 2995)] {
            assert_eq!(EXACT.min_n(required), n0);
            assert_eq!(EXACT.tolerated(n0, required), Some(0));
            assert_eq!(EXACT.tolerated(n0 - 1, required), None);
        }
        // 773 samples with three failures are the exact design of the comparison table.
        assert_eq!(EXACT.tolerated(773, 0.99), Some(3));
        assert_eq!(EXACT.tolerated(772, 0.99), Some(2));
        let (pass, _) = EXACT.power(773, 0.99, 0.998);
        assert!((pass - 0.929).abs() < 5e-4, "{pass}");
    }

    #[test]
    fn at_its_limit_the_exact_rule_errs_as_seldom_as_it_says() {
        for required in [0.5, 0.9, 0.95, 0.99] {
            for n in [1, 20, 59, 100, 299, 500, 2000, 20_000] {
                let (pass, fail) = EXACT.power(n, required, required);
                assert!(
                    pass <= 0.05 && fail <= 0.05,
                    "{required} {n}: {pass} {fail}"
                );
            }
        }
    }

    #[test]
    fn a_decision_is_what_the_bounds_say() {
        let wilson = Look::Wilson { z: 1.959_964 };
        for look in [EXACT, wilson] {
            for n in [1, 10, 59, 100, 373, 1000] {
                for bad in (0..=n).step_by(3) {
                    let counts = tally(n, bad);
                    let bounds = look.bounds(counts);
                    assert_eq!(look.passes(counts, 0.9), bounds.lower >= 0.9, "{n} {bad}");
                    assert_eq!(look.fails(counts, 0.9), bounds.upper < 0.9, "{n} {bad}");
                }
            }
        }
    }

    #[test]
    fn a_good_relay_passes_nine_times_out_of_ten_with_so_many_samples_and_not_with_one_fewer() {
        for look in [EXACT, Look::Wilson { z: 1.959_964 }] {
            for required in [0.9, 0.95, 0.99] {
                let good = good_relay(required, 5.0);
                let n = look.samples_for(required, good, 0.9, 100_000).unwrap();
                assert!(look.power(n, required, good).0 >= 0.9);
                assert!(look.power(n - 1, required, good).0 < 0.9);
                assert_eq!(look.samples_for(required, good, 0.9, n - 1), None);
            }
        }
    }

    #[test]
    fn nothing_counted_shows_nothing() {
        assert!(!EXACT.passes(tally(0, 0), 0.1) && !EXACT.fails(tally(0, 0), 0.1));
        assert_eq!(EXACT.refused(1, 0.96), Some(1));
        assert_eq!(
            EXACT.refused(1, 0.9),
            None,
            "one failure has a chance of 10 %"
        );
    }
}
