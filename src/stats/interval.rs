//! Fixed-n bounds of a share: Wilson's score interval and the exact one of Clopper and Pearson.
//!
//! Both are for one look at a size fixed in advance. Stopping when such a bound clears a limit
//! multiplies its error; the rule that may look after each sample is [`super::sequential`].

use statrs::distribution::{ContinuousCDF, Normal};

use super::numeric::beta_quantile;
use super::{Tally, count, float};

/// A lower and an upper bound of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound.
    pub lower: f64,
    /// Upper bound.
    pub upper: f64,
}

impl Interval {
    /// What is known of a share before the first sample.
    pub const UNKNOWN: Self = Self {
        lower: 0.0,
        upper: 1.0,
    };
}

/// Whether a confidence is that of each bound alone or of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Each bound alone has the stated confidence.
    One,
    /// The pair has it.
    Two,
}

impl Sides {
    /// Chance that one bound is wrong.
    pub fn tail(self, confidence: f64) -> f64 {
        match self {
            Self::One => 1.0 - confidence,
            Self::Two => (1.0 - confidence) / 2.0,
        }
    }
}

/// Quantile of the standard normal distribution; infinite at 0 and 1, NaN outside.
pub fn normal_quantile(p: f64) -> f64 {
    if p == 0.0 {
        f64::NEG_INFINITY
    } else if p == 1.0 {
        f64::INFINITY
    } else {
        Normal::standard().try_inverse_cdf(p).unwrap_or(f64::NAN)
    }
}

/// The z that belongs to a confidence.
pub fn z(confidence: f64, sides: Sides) -> f64 {
    normal_quantile(1.0 - sides.tail(confidence))
}

/// Wilson's score interval of the share of good samples.
pub fn wilson(tally: Tally, z: f64) -> Interval {
    if tally.n() == 0 {
        return Interval::UNKNOWN;
    }
    let n = float(tally.n());
    let share = float(tally.good()) / n;
    let z2 = z * z;
    let centre = share + z2 / (2.0 * n);
    let half = z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z2 / n;
    // At the ends the formula leaves noise of about 1e-17 where the bound is exactly 0 or 1.
    Interval {
        lower: if tally.good() == 0 {
            0.0
        } else {
            ((centre - half) / scale).clamp(0.0, 1.0)
        },
        upper: if tally.failures() == 0 {
            1.0
        } else {
            ((centre + half) / scale).clamp(0.0, 1.0)
        },
    }
}

/// The exact interval of Clopper and Pearson of the share of good samples.
///
/// statrs' beta quantile is not exact enough beyond some 100,000 samples, so the quantile is our
/// own; the ends, where all or none are good, have a closed form and use it.
pub fn clopper_pearson(tally: Tally, confidence: f64, sides: Sides) -> Interval {
    if tally.n() == 0 {
        return Interval::UNKNOWN;
    }
    let tail = sides.tail(confidence);
    let (n, good, bad) = (
        float(tally.n()),
        float(tally.good()),
        float(tally.failures()),
    );
    Interval {
        lower: if tally.good() == 0 {
            0.0
        } else if tally.failures() == 0 {
            tail.powf(1.0 / n)
        } else {
            beta_quantile(good, bad + 1.0, tail)
        },
        upper: if tally.failures() == 0 {
            1.0
        } else if tally.good() == 0 {
            -(tail.ln() / n).exp_m1()
        } else {
            beta_quantile(good + 1.0, bad, 1.0 - tail)
        },
    }
}

/// Fewest samples without a failure whose exact lower bound reaches `required`.
pub fn exact_min_n(required: f64, confidence: f64) -> u64 {
    count(((1.0 - confidence).ln() / required.ln() - 1e-9).ceil())
}

/// Fewest samples without a failure whose Wilson lower bound reaches `required`.
pub fn wilson_min_n(required: f64, z: f64) -> u64 {
    count((z * z * required / (1.0 - required) - 1e-9).ceil())
}

/// Largest share that `n` samples without a failure prove exactly.
pub fn exact_max_provable(n: u64, confidence: f64) -> f64 {
    if n == 0 {
        0.0
    } else {
        (1.0 - confidence).powf(1.0 / float(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(n: u64, failures: u64) -> Tally {
        Tally::new(n, failures).unwrap()
    }

    #[test]
    fn ten_of_ten_rank_below_9900_of_10000() {
        let z = z(0.95, Sides::Two);
        assert!(wilson(tally(10, 0), z).lower < wilson(tally(10_000, 100), z).lower);
    }

    #[test]
    fn the_ends_are_exact() {
        for n in [1, 10, 1000] {
            for interval in [
                |t| wilson(t, 1.96),
                |t| clopper_pearson(t, 0.95, Sides::Two),
            ] {
                assert_eq!(interval(tally(n, n)).lower, 0.0);
                assert_eq!(interval(tally(n, 0)).upper, 1.0);
            }
        }
    }

    #[test]
    fn nothing_is_known_without_samples() {
        assert_eq!(wilson(tally(0, 0), 1.96), Interval::UNKNOWN);
        assert_eq!(
            clopper_pearson(tally(0, 0), 0.95, Sides::One),
            Interval::UNKNOWN
        );
    }
}
