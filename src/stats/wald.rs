//! Wald's sequential test between two simple hypotheses, as a yardstick for [`super::sequential`].
//!
//! Nothing is judged by it: of a relay between the two shares it decides one way or the other by
//! chance, and so it turns away relays that meet their objective.

use super::Tally;
use super::sequential::Standing;

/// What distinguishes a good relay from a bad one, and the two errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sprt {
    log_upper: f64,
    log_lower: f64,
    per_success: f64,
    per_failure: f64,
}

impl Sprt {
    /// The test of share `p_bad` against share `p_good`: it accepts a bad relay with a chance of
    /// about `alpha` and turns a good one away with about `beta`. `None` unless
    /// 0 < `p_bad` < `p_good` < 1, both errors are above 0, and together they are below 1.
    pub fn new(p_bad: f64, p_good: f64, alpha: f64, beta: f64) -> Option<Self> {
        let fine = 0.0 < p_bad
            && p_bad < p_good
            && p_good < 1.0
            && alpha > 0.0
            && beta > 0.0
            && alpha + beta < 1.0;
        fine.then(|| Self {
            log_upper: ((1.0 - beta) / alpha).ln(),
            log_lower: (beta / (1.0 - alpha)).ln(),
            per_success: (p_good / p_bad).ln(),
            per_failure: ((1.0 - p_good) / (1.0 - p_bad)).ln(),
        })
    }

    /// Logarithm of the likelihood ratio from which on a relay is accepted.
    pub const fn log_upper(&self) -> f64 {
        self.log_upper
    }

    /// Logarithm of the likelihood ratio down to which it is turned away.
    pub const fn log_lower(&self) -> f64 {
        self.log_lower
    }

    /// What a good sample adds.
    pub const fn per_success(&self) -> f64 {
        self.per_success
    }

    /// What a failure adds, a negative number.
    pub const fn per_failure(&self) -> f64 {
        self.per_failure
    }

    /// Failures per sample on the lines between which sampling goes on.
    pub fn slope(&self) -> f64 {
        self.per_success / (self.per_success - self.per_failure)
    }

    /// Failures at which the line of acceptance begins; negative.
    pub fn accept_intercept(&self) -> f64 {
        -self.log_upper / (self.per_success - self.per_failure)
    }

    /// Failures at which the line of rejection begins; positive.
    pub fn reject_intercept(&self) -> f64 {
        -self.log_lower / (self.per_success - self.per_failure)
    }

    /// Fewest samples without a failure that are accepted.
    pub fn accept_at(&self) -> u64 {
        super::count((self.log_upper / self.per_success - 1e-9).ceil())
    }

    /// Where the test stands.
    pub fn standing(&self, tally: Tally) -> Standing {
        let ratio = super::float(tally.good()) * self.per_success
            + super::float(tally.failures()) * self.per_failure;
        if ratio >= self.log_upper {
            Standing::Pass
        } else if ratio <= self.log_lower {
            Standing::Fail
        } else {
            Standing::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_apart_is_no_test() {
        for (bad, good, alpha, beta) in [
            (0.99, 0.99, 0.05, 0.1),
            (0.99, 0.98, 0.05, 0.1),
            (0.0, 0.98, 0.05, 0.1),
            (0.9, 1.0, 0.05, 0.1),
            (0.9, 0.99, 0.0, 0.1),
            (0.9, 0.99, 0.5, 0.5),
            (f64::NAN, 0.99, 0.05, 0.1),
        ] {
            assert_eq!(Sprt::new(bad, good, alpha, beta), None);
        }
    }

    #[test]
    fn clean_samples_are_accepted_at_360_and_not_before() {
        let test = Sprt::new(0.99, 0.998, 0.05, 0.1).unwrap();
        assert_eq!(test.accept_at(), 360);
        let clean = |n| test.standing(Tally::default().with_good(n));
        assert_eq!((clean(359), clean(360)), (Standing::Open, Standing::Pass));
        assert_eq!(test.standing(Tally::default().with_bad(2)), Standing::Fail);
    }
}
