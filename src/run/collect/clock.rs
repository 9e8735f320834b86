//! The machine's own clock.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::Clock;
use crate::evidence::SelfCheck;
use crate::probe::clock::Clock as Now;
use crate::probe::health::Health;

/// Longest sleep between two looks at the wall clock. Timers do not run while a machine sleeps and
/// do not follow a clock that is set; half a second later both are seen, in time for a slot that is
/// due just then.
const STEP: Duration = Duration::from_millis(500);

/// The machine's wall clock, and the runtime's timer.
#[derive(Debug)]
pub struct SystemClock {
    health: Mutex<Option<Health>>,
}

impl SystemClock {
    /// A clock that also watches over the runtime in which it is started.
    pub fn start() -> Self {
        Self {
            health: Mutex::new(Some(Health::watch())),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> u64 {
        Now::start().unix_ns()
    }

    async fn sleep(&self, at_most: Duration) {
        tokio::time::sleep(at_most.min(STEP)).await;
    }

    async fn self_check(&self) -> SelfCheck {
        let health = {
            let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
            health.replace(Health::watch())
        };
        match health {
            Some(health) => health.facts().await,
            None => SelfCheck::default(),
        }
    }
}
