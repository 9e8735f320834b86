//! Two shares side by side: how far apart they are, of separate samples and of pairs.

use super::interval::wilson;
use super::numeric::upper_tail;
use super::{Tally, float};

/// A difference of two shares, with its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// Observed difference.
    pub estimate: f64,
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
}

/// Samples that were taken in pairs, each pair once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Good on both sides.
    pub both: u64,
    /// Good on side a only.
    pub only_a: u64,
    /// Good on side b only.
    pub only_b: u64,
    /// Good on neither.
    pub neither: u64,
}

impl Pairs {
    /// Number of pairs; `None` where it does not fit.
    pub fn n(self) -> Option<u64> {
        [self.only_a, self.only_b, self.neither]
            .iter()
            .try_fold(self.both, |sum, more| sum.checked_add(*more))
    }
}

/// The share of good samples of `a` less that of `b`, with Newcombe's hybrid score interval (1998,
/// method 10); `None` where a side has no sample.
pub fn newcombe(a: Tally, b: Tally, z: f64) -> Option<Difference> {
    let (share_a, share_b) = (a.share()?, b.share()?);
    Some(hybrid(share_a - share_b, arms(a, z)?, arms(b, z)?, 0.0))
}

/// The same of pairs: Newcombe's interval for paired samples (1998, method 10), whose correlation
/// is corrected for continuity; `None` without a pair.
pub fn newcombe_paired(pairs: Pairs, z: f64) -> Option<Difference> {
    let n = pairs.n().filter(|n| *n > 0)?;
    let good_a = pairs.both + pairs.only_a;
    let good_b = pairs.both + pairs.only_b;
    let a = Tally::new(n, n - good_a)?;
    let b = Tally::new(n, n - good_b)?;
    let estimate = (float(pairs.only_a) - float(pairs.only_b)) / float(n);
    let correlation = correlation(pairs, n, a, b);
    Some(hybrid(estimate, arms(a, z)?, arms(b, z)?, correlation))
}

/// How far the score interval reaches below the observed share, and above it.
fn arms(tally: Tally, z: f64) -> Option<(f64, f64)> {
    let share = tally.share()?;
    let interval = wilson(tally, z);
    Some((
        (share - interval.lower).max(0.0),
        (interval.upper - share).max(0.0),
    ))
}

fn hybrid(
    estimate: f64,
    (below_a, above_a): (f64, f64),
    (below_b, above_b): (f64, f64),
    correlation: f64,
) -> Difference {
    let reach = |one: f64, other: f64| {
        (one * one - 2.0 * correlation * one * other + other * other)
            .max(0.0)
            .sqrt()
    };
    Difference {
        estimate,
        lower: (estimate - reach(below_a, above_b)).clamp(-1.0, 1.0),
        upper: (estimate + reach(above_a, below_b)).clamp(-1.0, 1.0),
    }
}

/// The correlation of the two sides; 0 where one of them is all good or all bad.
fn correlation(pairs: Pairs, n: u64, a: Tally, b: Tally) -> f64 {
    let margins = [a.good(), a.failures(), b.good(), b.failures()];
    if margins.contains(&0) {
        return 0.0;
    }
    let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
    let along = product(pairs.both, pairs.neither);
    let across = product(pairs.only_a, pairs.only_b);
    // Twice the numerator, in whole numbers; half of n is taken off a positive one.
    let numerator = if along > across {
        wide((2 * (along - across)).saturating_sub(u128::from(n)))
    } else {
        -wide(2 * (across - along))
    };
    let roots: f64 = margins.iter().map(|margin| float(*margin).sqrt()).product();
    numerator / 2.0 / roots
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a product of counts, needed to some 16 digits"
)]
const fn wide(count: u128) -> f64 {
    count as f64
}

/// The exact test of McNemar: the two-sided p of pairs that differ `only_a` times one way and
/// `only_b` times the other, if either way were as likely. Twice the smaller binomial tail, at
/// most 1.
pub fn mcnemar_exact(only_a: u64, only_b: u64) -> f64 {
    let n = only_a.saturating_add(only_b);
    let more = only_a.max(only_b);
    let tail = upper_tail((0, n), n / 2, more, |x| float(n - x) / (float(x) + 1.0));
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(n: u64, failures: u64) -> Tally {
        Tally::new(n, failures).unwrap()
    }

    #[test]
    fn nothing_on_one_side_has_no_difference() {
        assert_eq!(newcombe(tally(0, 0), tally(9, 0), 1.96), None);
        assert_eq!(newcombe(tally(9, 0), tally(0, 0), 1.96), None);
        assert_eq!(newcombe_paired(Pairs::default(), 1.96), None);
        let too_many = Pairs {
            both: u64::MAX,
            only_a: 1,
            ..Pairs::default()
        };
        assert_eq!(newcombe_paired(too_many, 1.96), None);
    }

    #[test]
    fn all_against_none_is_a_difference_of_exactly_one() {
        let found = newcombe(tally(10, 0), tally(20, 20), 1.96).unwrap();
        assert_eq!((found.estimate, found.upper), (1.0, 1.0));
        let found = newcombe(tally(10, 10), tally(20, 0), 1.96).unwrap();
        assert_eq!((found.estimate, found.lower), (-1.0, -1.0));
        let pairs = Pairs {
            only_b: 7,
            ..Pairs::default()
        };
        let found = newcombe_paired(pairs, 1.96).unwrap();
        assert_eq!((found.estimate, found.lower), (-1.0, -1.0));
    }

    #[test]
    fn exchanging_the_sides_turns_the_difference_round() {
        let one = newcombe(tally(300, 1), tally(250, 9), 1.96).unwrap();
        let other = newcombe(tally(250, 9), tally(300, 1), 1.96).unwrap();
        assert_eq!(
            (one.estimate, one.lower, one.upper),
            (-other.estimate, -other.upper, -other.lower)
        );
    }

    #[test]
    fn pairs_that_never_differ_are_no_evidence() {
        assert_eq!(mcnemar_exact(0, 0), 1.0);
        assert_eq!(mcnemar_exact(1, 0), 1.0);
        assert!((mcnemar_exact(0, 6) - 1.0 / 32.0).abs() < 1e-15);
        assert_eq!(mcnemar_exact(400, 400), 1.0);
    }

    #[test]
    fn a_tiny_tail_is_a_power_of_two() {
        let p = mcnemar_exact(1000, 0);
        assert!((p / 2.0_f64.powi(-999) - 1.0).abs() < 1e-12, "{p:e}");
    }
}
