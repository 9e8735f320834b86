//! One timer for all limits of an exchange: moved only when a limit comes nearer.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::probe::clock::Clock;
use crate::stream::{Exchange, Input};

/// Longest wait for a limit, so that no offset can pass the end of the clock.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// The timer of one attempt.
///
/// A limit that moves away (the next output came in time) leaves the timer where it is: it rings
/// early and is set again then, once per limit and not once per chunk.
pub(super) struct Alarm<'a> {
    sleep: Pin<&'a mut Sleep>,
    armed: bool,
    clock: Clock,
}

impl<'a> Alarm<'a> {
    pub(super) fn new(sleep: Pin<&'a mut Sleep>, clock: Clock) -> Self {
        Self {
            sleep,
            armed: false,
            clock,
        }
    }

    /// Tells the exchange if its limit has passed, and sets the timer; whether the attempt is over.
    pub(super) fn is_due(&mut self, exchange: &mut Exchange) -> bool {
        loop {
            let Some((limit, _)) = exchange.deadline() else {
                self.armed = false;
                return false;
            };
            let now = self.clock.now();
            if now < limit {
                self.aim(limit.min(now + LONGEST));
                return false;
            }
            exchange.handle(now, Input::Deadline);
            // An exchange that stays at a limit that has passed has nothing more to wait for.
            if exchange.is_over() || exchange.deadline().is_some_and(|(next, _)| next <= limit) {
                return true;
            }
        }
    }

    fn aim(&mut self, limit: Duration) {
        let moment = Instant::from_std(self.clock.moment(limit));
        if !self.armed || self.sleep.is_elapsed() || moment < self.sleep.deadline() {
            self.sleep.as_mut().reset(moment);
            self.armed = true;
        }
    }

    /// Waits for the timer; for ever when nothing is limited.
    pub(super) async fn rings(&mut self) {
        if self.armed {
            self.sleep.as_mut().await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}
