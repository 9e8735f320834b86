//! Failures over time: whether they come in bursts.
//!
//! A diagnosis beside the verdict, in bounded memory; it decides nothing.

use super::Bursts;
use crate::stats::Tally;
use crate::stats::cluster::korn_graubard;
use crate::stats::look::at_least;

/// Most buckets; beyond, each two become one.
const MOST: usize = 32;
/// Finest bucket, nanoseconds.
const FINEST: u64 = 1_000_000_000;
/// Design effect above which samples are fewer than they seem.
const DESIGN_EFFECT: f64 = 1.5;
/// Failures in one bucket that are a crowd.
const CROWD: u64 = 3;
/// Chance below which a crowd is no accident.
const ACCIDENT: f64 = 0.01;

/// Samples of one objective by the time of their start.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    origin: Option<u64>,
    width: u64,
    counts: Vec<Tally>,
}

impl Buckets {
    pub(super) const fn new() -> Self {
        Self {
            origin: None,
            width: FINEST,
            counts: Vec::new(),
        }
    }

    /// Samples that lie in buckets of a fixed width already, in nanoseconds.
    pub(super) const fn of(width: u64, counts: Vec<Tally>) -> Self {
        Self {
            origin: Some(0),
            width,
            counts,
        }
    }

    /// Counts a sample that started `at` so many nanoseconds.
    pub(super) fn take(&mut self, at: u64, good: bool) {
        let since = at.saturating_sub(*self.origin.get_or_insert(at));
        // The width doubles until the place is within reach: 64 times at most.
        while since / self.width >= MOST as u64 {
            self.coarsen();
        }
        let place = usize::try_from(since / self.width).unwrap_or(MOST - 1);
        if place >= self.counts.len() {
            self.counts.resize(place + 1, Tally::default());
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count = count.with(good);
        }
    }

    fn coarsen(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.counts = self
            .counts
            .chunks(2)
            .map(|pair| {
                pair.iter().fold(Tally::default(), |sum, one| {
                    sum.with_good(one.good()).with_bad(one.failures())
                })
            })
            .collect();
    }

    /// The burst that is no accident; `None` where failures are spread as chance spreads them.
    pub(super) fn diagnose(&self) -> Option<Bursts> {
        let clustered = korn_graubard(&self.counts, 0.95)?;
        let (n, failures) = self.counts.iter().fold((0, 0), |(n, failures), one| {
            (n + one.n(), failures + one.failures())
        });
        let crowd = self.counts.iter().map(|one| one.failures()).max()?;
        if clustered.design_effect <= DESIGN_EFFECT && crowd < CROWD {
            return None;
        }
        let filled = self.counts.iter().filter(|one| one.n() > 0).count() as u64;
        let chance = |one: &Tally| {
            let share = crate::stats::float(one.n()) / crate::stats::float(n);
            at_least(one.failures(), failures, share)
        };
        let (worst, chance) = self
            .counts
            .iter()
            .filter(|one| one.failures() > 0)
            .map(|one| (one, chance(one)))
            .min_by(|a, b| a.1.total_cmp(&b.1))?;
        (chance * crate::stats::float(filled) < ACCIDENT).then(|| Bursts {
            crowd: worst.failures(),
            failures,
            bucket_s: crate::stats::float(self.width) / 1e9,
            buckets: filled,
            design_effect: clustered.design_effect,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn counted(samples: impl IntoIterator<Item = (u64, bool)>) -> Buckets {
        let mut buckets = Buckets::new();
        for (at, good) in samples {
            buckets.take(at, good);
        }
        buckets
    }

    #[test]
    fn failures_within_two_seconds_of_a_minute_are_a_burst() {
        let samples = (0..240).map(|i| (i * SECOND / 4, !(100..107).contains(&i)));
        let bursts = counted(samples).diagnose().unwrap();
        assert_eq!((bursts.failures, bursts.buckets), (7, 30));
        assert_eq!(bursts.bucket_s, 2.0);
        assert!(bursts.crowd >= 4, "{bursts:?}");
        assert!(bursts.design_effect > 1.5, "{bursts:?}");
    }

    #[test]
    fn failures_that_are_spread_and_failures_all_the_time_are_none() {
        let spread = (0..240).map(|i| (i * SECOND / 4, i % 20 != 7));
        assert_eq!(counted(spread).diagnose(), None);
        let always = (0..240).map(|i| (i * SECOND / 4, false));
        assert_eq!(counted(always).diagnose(), None);
        let never = (0..240).map(|i| (i * SECOND / 4, true));
        assert_eq!(counted(never).diagnose(), None);
    }

    #[test]
    fn within_one_bucket_nothing_can_be_told() {
        let all = (0..20).map(|i| (i * SECOND / 40, i > 9));
        assert_eq!(counted(all).diagnose(), None);
        assert_eq!(Buckets::new().diagnose(), None);
    }

    #[test]
    fn any_stretch_of_time_fits_into_a_few_buckets() {
        let times = [0, SECOND, 40 * SECOND, 3600 * SECOND, u64::MAX, 5];
        let buckets = counted(times.map(|at| (at, false)));
        assert!(buckets.counts.len() <= MOST);
        let n: u64 = buckets.counts.iter().map(|one| one.n()).sum();
        assert_eq!(n, 6, "none is lost");
    }

    #[test]
    fn failures_at_random_are_called_bursty_less_than_once_in_a_hundred() {
        use rand_chacha::ChaCha8Rng;
        use rand_chacha::rand_core::{Rng, SeedableRng};
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let called = (0..1000)
            .filter(|_| {
                let samples = (0..400).map(|i| (i * SECOND / 8, rng.next_u64() % 20 != 0));
                let samples: Vec<_> = samples.collect();
                counted(samples).diagnose().is_some()
            })
            .count();
        // 99.9% quantile of Binomial(1000, 0.01).
        assert!(called <= 21, "{called} of 1000");
    }
}
