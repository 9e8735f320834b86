//! Numbers in, numbers out: bounds of a share, ranks of a quantile, the sequential rule, tests.
//!
//! Knows nothing of relays, metrics or files and imports nothing of ours. Nearly every rule here is
//! a function of two counts, how many samples there were and how many of them were bad.

pub mod cluster;
pub mod difference;
pub mod interval;
pub mod look;
pub mod mmd;
mod numeric;
pub mod operating;
pub mod quantile;
pub mod sequential;
pub mod shift;
pub mod votes;
pub mod wald;

/// Samples, and the bad ones among them; never more bad ones than samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    n: u64,
    failures: u64,
}

impl Tally {
    /// Takes counts as they are; `None` when there are more failures than samples.
    pub const fn new(n: u64, failures: u64) -> Option<Self> {
        if failures > n {
            None
        } else {
            Some(Self { n, failures })
        }
    }

    /// Counts one more sample.
    #[must_use]
    pub const fn with(self, good: bool) -> Self {
        Self {
            n: self.n.saturating_add(1),
            failures: if good {
                self.failures
            } else {
                self.failures.saturating_add(1)
            },
        }
    }

    /// Counts `more` bad samples.
    #[must_use]
    pub const fn with_bad(self, more: u64) -> Self {
        Self {
            n: self.n.saturating_add(more),
            failures: self.failures.saturating_add(more),
        }
    }

    /// Counts `more` good samples.
    #[must_use]
    pub const fn with_good(self, more: u64) -> Self {
        Self {
            n: self.n.saturating_add(more),
            failures: self.failures,
        }
    }

    /// Samples.
    pub const fn n(self) -> u64 {
        self.n
    }

    /// Bad samples.
    pub const fn failures(self) -> u64 {
        self.failures
    }

    /// Good samples.
    pub const fn good(self) -> u64 {
        self.n - self.failures
    }

    /// Observed share of good samples; `None` without a sample.
    pub fn share(self) -> Option<f64> {
        (self.n > 0).then(|| float(self.good()) / float(self.n))
    }
}

/// Counts as floating point; exact below 2⁵³.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of samples stay far below 2^53"
)]
pub(crate) const fn float(count: u64) -> f64 {
    count as f64
}

/// A non-negative whole number back from floating point, saturating; zero for NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
pub(crate) const fn count(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_failures_than_samples_are_refused() {
        assert_eq!(Tally::new(3, 4), None);
        assert_eq!(Tally::new(4, 4).map(Tally::good), Some(0));
    }

    #[test]
    fn nothing_counted_has_no_share() {
        assert_eq!(Tally::default().share(), None);
    }
}
