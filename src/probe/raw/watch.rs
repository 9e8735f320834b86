//! Lets one attempt wait: for its work, for the exchange's deadline, for being called off.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::probe::clock::Clock;
use crate::stream::{Exchange, Input};

/// The clock, the timer and the cancel switch of one attempt.
pub(super) struct Watch<'a, C> {
    clock: &'a Clock,
    cancelled: Pin<&'a mut C>,
    timer: Pin<&'a mut Sleep>,
    /// Deadline that the exchange has been told has passed.
    told: Option<Duration>,
}

enum Turn<T> {
    Done(T),
    Deadline,
    Cancelled,
}

impl<'a, C: Future<Output = ()>> Watch<'a, C> {
    /// `timer` may be set to any moment.
    pub(super) fn new(
        clock: &'a Clock,
        cancelled: Pin<&'a mut C>,
        timer: Pin<&'a mut Sleep>,
    ) -> Self {
        Self {
            clock,
            cancelled,
            timer,
            told: None,
        }
    }

    /// Tells the exchange what happens now.
    pub(super) fn tell(&self, exchange: &mut Exchange, input: Input<'_>) {
        exchange.handle(self.clock.now(), input);
    }

    /// The attempt's clock.
    pub(super) fn clock(&self) -> &'a Clock {
        self.clock
    }

    /// Offset of now.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The work's result, or `None` when the attempt is over before.
    pub(super) async fn until<T>(
        &mut self,
        exchange: &mut Exchange,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            if exchange.is_over() {
                return None;
            }
            let due = exchange.deadline().map(|(at, _)| at);
            // Looked at before the work too: a peer that always has bytes ready (heartbeats) would
            // else never let the timer speak.
            if let Some(at) = due
                && self.told != due
                && self.clock.now() >= at
            {
                self.told = due;
                self.tell(exchange, Input::Deadline);
                continue;
            }
            let due = due.filter(|_| self.told != due);
            match self.turn(due, work.as_mut()).await {
                Turn::Done(result) => return Some(result),
                Turn::Cancelled => self.tell(exchange, Input::Cancelled),
                Turn::Deadline => {}
            }
        }
    }

    async fn turn<T>(
        &mut self,
        due: Option<Duration>,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Turn<T> {
        let due = due.map(|at| Instant::from_std(self.clock.moment(at)));
        poll_fn(|cx| {
            if self.cancelled.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Turn::Cancelled);
            }
            // Before the timer: bytes that are here have arrived in time, if we are the late ones.
            if let Poll::Ready(result) = work.as_mut().poll(cx) {
                return Poll::Ready(Turn::Done(result));
            }
            let Some(due) = due else {
                return Poll::Pending;
            };
            // A deadline that moved away with every token is only followed when the timer fires.
            if due < self.timer.deadline() {
                self.timer.as_mut().reset(due);
            }
            while self.timer.as_mut().poll(cx).is_ready() {
                if Instant::now() >= due {
                    return Poll::Ready(Turn::Deadline);
                }
                self.timer.as_mut().reset(due);
            }
            Poll::Pending
        })
        .await
    }
}
