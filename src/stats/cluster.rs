//! Samples that lie in clusters: how much less they say than as many independent ones.

use super::interval::Interval;
use super::numeric::{beta_quantile, student_two_sided};
use super::{Tally, float};

/// What clusters of samples say of a share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustered {
    /// Observed share of good samples.
    pub share: f64,
    /// Design effect: the variance over that of as many independent samples. 1 where all samples
    /// are good or all are bad: it cannot be told then.
    pub design_effect: f64,
    /// Independent samples that say as much, corrected for the few clusters that tell; at most as
    /// many as there are.
    pub effective_n: f64,
    /// Bounds of the share.
    pub interval: Interval,
}

/// The interval of Korn and Graubard (1998) for the share of good samples, `confidence` for the
/// pair of bounds: that of Clopper and Pearson for the effective number of samples.
///
/// Clusters without samples do not count; `None` with fewer than two others, or where `confidence`
/// is not strictly between 0 and 1. With few clusters the interval is too narrow.
pub fn korn_graubard(clusters: &[Tally], confidence: f64) -> Option<Clustered> {
    let filled = || clusters.iter().filter(|cluster| cluster.n() > 0);
    let number = filled().count() as u64;
    if number < 2 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let all = filled().try_fold(Tally::default(), |sum, cluster| {
        Tally::new(
            sum.n().checked_add(cluster.n())?,
            sum.failures().checked_add(cluster.failures())?,
        )
    })?;
    let share = all.share()?;
    let n = float(all.n());
    let design_effect = if all.good() == 0 || all.failures() == 0 {
        1.0
    } else {
        let squares: f64 = filled()
            .map(|cluster| (float(cluster.good()) - share * float(cluster.n())).powi(2))
            .sum();
        let between = squares * float(number) / float(number - 1);
        between / (n * share * (1.0 - share))
    };
    let few =
        student_two_sided(n - 1.0, confidence) / student_two_sided(float(number - 1), confidence);
    let effective_n = (n / design_effect * few * few).min(n);
    let tail = (1.0 - confidence) / 2.0;
    let good = effective_n * share;
    let bad = effective_n - good;
    let interval = Interval {
        lower: if all.good() == 0 {
            0.0
        } else if all.failures() == 0 {
            tail.powf(1.0 / effective_n)
        } else {
            beta_quantile(good, bad + 1.0, tail)
        },
        upper: if all.failures() == 0 {
            1.0
        } else if all.good() == 0 {
            -(tail.ln() / effective_n).exp_m1()
        } else {
            beta_quantile(good + 1.0, bad, 1.0 - tail)
        },
    };
    Some(Clustered {
        share,
        design_effect,
        effective_n,
        interval,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(n: u64, failures: u64) -> Tally {
        Tally::new(n, failures).unwrap()
    }

    #[test]
    fn fewer_than_two_clusters_tell_nothing() {
        assert_eq!(korn_graubard(&[], 0.95), None);
        assert_eq!(korn_graubard(&[tally(9, 1), tally(0, 0)], 0.95), None);
        assert_eq!(korn_graubard(&[tally(9, 1), tally(9, 0)], 1.0), None);
    }

    #[test]
    fn clusters_that_are_all_alike_are_no_more_than_independent_samples() {
        let found = korn_graubard(&[tally(10, 1); 8], 0.95).unwrap();
        assert_eq!((found.design_effect, found.effective_n), (0.0, 80.0));
        assert!(found.interval.lower < 0.9 && found.interval.upper > 0.9);
    }

    #[test]
    fn the_ends_are_exact() {
        let clean = korn_graubard(&[tally(8, 0); 10], 0.95).unwrap();
        assert_eq!((clean.design_effect, clean.interval.upper), (1.0, 1.0));
        let failed = korn_graubard(&[tally(8, 8); 10], 0.95).unwrap();
        assert_eq!((failed.design_effect, failed.interval.lower), (1.0, 0.0));
        let sum = clean.interval.lower + failed.interval.upper;
        assert!((sum - 1.0).abs() < 1e-15, "{sum}");
    }
}
