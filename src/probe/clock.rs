//! One (wall, monotonic) pair: the only place that reads a clock while measuring.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::observation::at_us;

/// A moment on both clocks; all later moments are offsets on the monotonic one.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    unix: Duration,
}

impl Clock {
    /// Takes the pair now.
    #[expect(clippy::disallowed_methods, reason = "the probe's one clock")]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
            unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// Offset of now.
    #[expect(clippy::disallowed_methods, reason = "the probe's one clock")]
    pub fn now(&self) -> Duration {
        self.at(Instant::now())
    }

    /// Offset of a moment; zero for one before the start.
    pub fn at(&self, moment: Instant) -> Duration {
        at_us(moment.saturating_duration_since(self.start))
    }

    /// The moment at an offset.
    pub fn moment(&self, at: Duration) -> Instant {
        self.start + at
    }

    /// Wall clock at the start, nanoseconds since the epoch.
    pub fn unix_ns(&self) -> u64 {
        u64::try_from(self.unix.as_nanos()).unwrap_or(u64::MAX)
    }
}
