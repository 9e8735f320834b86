//! One (wall, monotonic) pair: the only place that reads a clock while measuring.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::forms::at_us;

/// A moment on both clocks; all later moments are offsets on the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    unix: Duration,
}

impl Clock {
    /// Takes the pair now.
    pub fn start() -> Self {
        Self {
            start: monotonic_now(),
            unix: wall_now(),
        }
    }

    /// A clock that starts now, and its start as an offset on this one.
    ///
    /// Offsets on both add up to the microsecond, and the wall clock is not read again: however
    /// it is set meanwhile, the later clock's start is this one's plus the offset.
    pub fn restart(&self) -> (Self, Duration) {
        let at = self.now();
        let later = Self {
            start: self.start + at,
            unix: self.unix + at,
        };
        (later, at)
    }

    /// Offset of now.
    pub fn now(&self) -> Duration {
        self.at(monotonic_now())
    }

    /// Offset of a moment; zero for one before the start.
    pub fn at(&self, moment: Instant) -> Duration {
        at_us(moment.saturating_duration_since(self.start))
    }

    /// The moment at an offset.
    pub fn moment(&self, at: Duration) -> Instant {
        self.start + at
    }

    /// How long after `due` this clock was started; zero if before.
    pub fn lag_behind(&self, due: Instant) -> Duration {
        at_us(self.start.saturating_duration_since(due))
    }

    /// Wall clock at the start, nanoseconds since the epoch.
    pub fn unix_ns(&self) -> u64 {
        u64::try_from(self.unix.as_nanos()).unwrap_or(u64::MAX)
    }

    /// How far the wall clock is now from where the monotonic one says it should be.
    pub fn wall_drift(&self) -> WallDrift {
        let expected = self.unix + monotonic_now().saturating_duration_since(self.start);
        let wall = wall_now();
        if wall >= expected {
            WallDrift::Ahead(wall - expected)
        } else {
            WallDrift::Behind(expected - wall)
        }
    }
}

/// Wall clock against monotonic clock since both were read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallDrift {
    /// The wall clock gained.
    Ahead(Duration),
    /// The wall clock lost.
    Behind(Duration),
}

impl WallDrift {
    /// How far two drifts are apart.
    pub fn distance(self, other: Self) -> Duration {
        match (self, other) {
            (Self::Ahead(a), Self::Ahead(b)) | (Self::Behind(a), Self::Behind(b)) => a.abs_diff(b),
            (Self::Ahead(a), Self::Behind(b)) | (Self::Behind(a), Self::Ahead(b)) => {
                a.saturating_add(b)
            }
        }
    }
}

/// The runtime's monotonic clock: the system's own, or the paused one of a test.
fn monotonic_now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[expect(clippy::disallowed_methods, reason = "the probe's one clock")]
fn wall_now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn offsets_of_a_restarted_clock_add_up_to_those_of_the_first() {
        let first = Clock::start();
        tokio::time::advance(Duration::from_nanos(1_500_700)).await;
        let (second, at) = first.restart();
        assert_eq!(at, Duration::from_micros(1500));
        tokio::time::advance(Duration::from_nanos(2_000_400)).await;
        assert_eq!(first.now(), at + second.now());
        assert_eq!(second.unix_ns(), first.unix_ns() + 1_500_000);
    }

    #[test]
    fn drifts_to_both_sides_are_apart_by_their_sum() {
        let (ahead, behind) = (Duration::from_millis(3), Duration::from_millis(4));
        let distance = WallDrift::Ahead(ahead).distance(WallDrift::Behind(behind));
        assert_eq!(distance, Duration::from_millis(7));
        let distance = WallDrift::Behind(ahead).distance(WallDrift::Behind(behind));
        assert_eq!(distance, Duration::from_millis(1));
    }
}
