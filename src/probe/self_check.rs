//! How well the probe itself runs: loop lag, late starts, steps of the wall clock.
//!
//! A run whose numbers may be the probe's own fault is invalid; the relay is not blamed for it.

use std::time::Duration;

use tokio::time::Instant;

use super::clock::{Clock, WallDrift};
use crate::evidence::{LATE, SelfCheck, own_failures, too_many_late, too_many_own};

/// Time between two probes of the event loop.
const EVERY: Duration = Duration::from_millis(20);

/// A wall clock that moves this much between two probes was set.
const STEP: Duration = Duration::from_millis(250);

/// Watches the event loop and the wall clock until it is dropped or told to stop.
#[derive(Debug)]
pub(super) struct LoopProbe {
    clock: Clock,
    lags: Lags,
    drift: WallDrift,
    step: Duration,
}

impl LoopProbe {
    pub(super) fn new() -> Self {
        let clock = Clock::start();
        Self {
            clock,
            lags: Lags::default(),
            drift: clock.wall_drift(),
            step: Duration::ZERO,
        }
    }

    /// Probes for ever; what was found so far stays in `self` when the future is dropped.
    pub(super) async fn run(&mut self) {
        let mut due = Instant::now() + EVERY;
        loop {
            tokio::time::sleep_until(due).await;
            let lag = due.elapsed();
            self.lags.record(lag);
            // A loop that stood still would have been late for every probe that did not take place.
            let mut missed = lag;
            while missed > EVERY {
                missed -= EVERY;
                self.lags.record(missed);
            }
            self.look_at_clock();
            due = Instant::now() + EVERY;
        }
    }

    fn look_at_clock(&mut self) {
        let drift = self.clock.wall_drift();
        self.step = self.step.max(drift.distance(self.drift));
        self.drift = drift;
    }

    /// Sums up, with what the pacing saw.
    pub(super) fn finish(mut self, starts: &Starts) -> SelfCheck {
        self.look_at_clock();
        let mut check = SelfCheck {
            late_starts: starts.late,
            max_lag: starts.max_lag,
            loop_lag_p99: self.lags.p99(),
            loop_lag_max: self.lags.max,
            loop_probes: self.lags.count,
            clock_step: self.step,
            own_failures: starts.own_failures,
            invalid: None,
        };
        check.invalid = invalid(&check, starts);
        check
    }
}

/// Lags of the starts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Starts {
    /// Counted starts.
    pub(super) count: u64,
    /// Those that were late.
    pub(super) late: u64,
    /// Late ones that had to wait for an open call to end.
    pub(super) held: u64,
    /// Longest lag.
    pub(super) max_lag: Duration,
    /// Calls that failed for want of something on our side.
    pub(super) own_failures: u64,
}

impl Starts {
    /// Counts one start; `held` if the limit of open calls delayed it.
    pub(super) fn record(&mut self, lag: Duration, held: bool) {
        self.count += 1;
        self.max_lag = self.max_lag.max(lag);
        if lag > LATE {
            self.late += 1;
            self.held += u64::from(held);
        }
    }
}

/// Why the run is invalid as a whole, in words. A lagging loop is not among the reasons: it matters
/// to times only, and only where it could move a verdict, which is the judge's to say.
fn invalid(check: &SelfCheck, starts: &Starts) -> Option<String> {
    if check.clock_step > STEP {
        return Some(format!(
            "the wall clock was set by {} ms during the run",
            check.clock_step.as_millis()
        ));
    }
    if too_many_own(starts.own_failures, starts.count) {
        return Some(own_failures(starts.own_failures, starts.count));
    }
    if too_many_late(starts.late, starts.count) {
        let why = if starts.held.saturating_mul(2) > starts.late {
            "held back by sampling.concurrency"
        } else {
            "client saturated"
        };
        return Some(format!(
            "{why}: {} of {} starts were more than {} ms late",
            starts.late,
            starts.count,
            LATE.as_millis()
        ));
    }
    None
}

/// A histogram of fixed size: quarter milliseconds up to 128 ms, and the maximum.
#[derive(Debug)]
struct Lags {
    counts: [u64; BUCKETS],
    count: u64,
    max: Duration,
}

const BUCKETS: usize = 512;
const BUCKET: Duration = Duration::from_micros(250);

impl Default for Lags {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            count: 0,
            max: Duration::ZERO,
        }
    }
}

impl Lags {
    fn record(&mut self, lag: Duration) {
        let bucket = usize::try_from(lag.as_micros() / BUCKET.as_micros()).unwrap_or(BUCKETS);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.count += 1;
        self.max = self.max.max(lag);
    }

    /// Upper edge of the bucket that holds the 99th percentile, at most the maximum.
    fn p99(&self) -> Duration {
        let rank = self.count.saturating_mul(99).div_ceil(100);
        let mut below = 0;
        let mut edge = Duration::ZERO;
        for count in self.counts {
            below += count;
            edge += BUCKET;
            if below >= rank {
                return edge.min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn starts(lags: &[(u64, u64)], held: bool) -> Starts {
        let mut starts = Starts::default();
        for &(count, lag) in lags {
            for _ in 0..count {
                starts.record(ms(lag), held);
            }
        }
        starts
    }

    fn verdict(check: SelfCheck, starts: &Starts) -> Option<String> {
        invalid(&check, starts)
    }

    #[test]
    fn one_pause_or_one_late_start_in_a_hundred_is_allowed_and_more_is_not() {
        let check = SelfCheck::default();
        assert_eq!(
            verdict(check.clone(), &starts(&[(95, 100), (5, 101)], false)),
            None
        );
        assert_eq!(
            verdict(check.clone(), &starts(&[(990, 100), (10, 101)], false)),
            None
        );
        assert_eq!(
            verdict(check.clone(), &starts(&[(94, 0), (6, 101)], false)).as_deref(),
            Some("client saturated: 6 of 100 starts were more than 100 ms late")
        );
        assert_eq!(
            verdict(check, &starts(&[(94, 0), (6, 101)], true)).as_deref(),
            Some("held back by sampling.concurrency: 6 of 100 starts were more than 100 ms late")
        );
    }

    #[test]
    fn one_call_in_a_hundred_may_fail_for_our_own_want_and_no_more() {
        let failed = |own_failures| Starts {
            count: 100,
            own_failures,
            ..Starts::default()
        };
        assert_eq!(verdict(SelfCheck::default(), &failed(1)), None);
        assert_eq!(
            verdict(SelfCheck::default(), &failed(2)).as_deref(),
            Some("2 of 100 calls failed for want of files, ports, memory or a network on our side")
        );
    }

    #[test]
    fn a_set_clock_makes_the_run_invalid_and_a_lagging_loop_puts_its_times_in_doubt() {
        let none = Starts::default();
        let stepped = |by| SelfCheck {
            clock_step: ms(by),
            ..SelfCheck::default()
        };
        assert_eq!(verdict(stepped(250), &none), None);
        assert!(verdict(stepped(251), &none).is_some_and(|why| why.contains("wall clock")));
        let lagging = |by| SelfCheck {
            loop_lag_p99: ms(by),
            loop_lag_max: ms(40),
            ..SelfCheck::default()
        };
        assert_eq!(lagging(25).doubt(), None);
        assert_eq!(lagging(26).doubt(), Some(ms(40)));
        assert_eq!(verdict(lagging(26), &none), None);
    }

    #[test]
    fn the_99th_percentile_is_right_to_a_quarter_millisecond() {
        let mut lags = Lags::default();
        assert_eq!(lags.p99(), Duration::ZERO);
        for lag in 1..=100 {
            lags.record(ms(lag));
        }
        let error = lags.p99().abs_diff(ms(99));
        assert!(error <= BUCKET, "{:?}", lags.p99());
        for _ in 0..100 {
            lags.record(ms(5000));
        }
        assert_eq!(lags.p99(), ms(5000));
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_stands_still_is_late_for_all_probes_it_missed() {
        let mut probe = LoopProbe::new();
        {
            let run = probe.run();
            tokio::pin!(run);
            let _ = futures_util::poll!(&mut run);
            tokio::time::advance(ms(120)).await;
            let _ = futures_util::poll!(&mut run);
        }
        let check = probe.finish(&Starts::default());
        // Due at 20, run at 120: late by 100, and by 80, 60, 40 and 20 for those in between.
        assert_eq!(check.loop_probes, 5);
        assert!(check.loop_lag_max >= ms(100));
        assert!(check.doubt() >= Some(ms(100)));
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_loop_is_not_late() {
        let mut probe = LoopProbe::new();
        let _ = tokio::time::timeout(Duration::from_secs(2), probe.run()).await;
        let check = probe.finish(&Starts::default());
        assert!(check.loop_probes >= 90);
        assert!(check.loop_lag_p99 <= ms(1));
        assert_eq!(
            check.invalid.filter(|why| !why.contains("wall clock")),
            None
        );
    }
}
