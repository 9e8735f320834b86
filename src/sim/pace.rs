//! Wakes tasks at their moment, closer than the runtime's millisecond timers can.
//!
//! One thread sleeps on the earliest moment and, when it has come, hands all bells that are due to
//! one task, which rings them: tasks wake each other at a fraction of what a thread pays for it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Least time between two rounds of ringing.
///
/// A lone stream is not delayed by it; thousands are woken in batches, which saves about a third of
/// the processor time that would be missing to whatever is measured on the same machine.
const SPACING: Duration = Duration::from_micros(500);

/// The relay's one reading of the clock.
#[expect(clippy::disallowed_methods, reason = "the embedded relay keeps time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

/// The pacing thread; dropping it stops the thread.
#[derive(Debug)]
pub(super) struct Pacer {
    pace: Pace,
    thread: Option<JoinHandle<()>>,
}

/// What connections hold to ask for a wake-up.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    earlier: Condvar,
    round: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: BinaryHeap<Ring>,
    due: Vec<Arc<Notify>>,
    stopped: bool,
}

impl Queue {
    /// Moves what is due out of the waiting; whether there was any.
    fn take_due(&mut self, earliest: Instant, now: Instant) -> bool {
        let before = self.due.len();
        while let Some(next) = self.waiting.peek_mut()
            && next.at.max(earliest) <= now
        {
            self.due.push(PeekMut::pop(next).bell);
        }
        self.due.len() > before
    }
}

#[derive(Debug)]
struct Ring {
    at: Instant,
    bell: Arc<Notify>,
}

impl Pacer {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let pace = Pace::default();
        let shared = Arc::clone(&pace.0);
        let thread = thread::Builder::new()
            .name("relay-pace".into())
            .spawn(move || shared.run())?;
        Ok(Self {
            pace,
            thread: Some(thread),
        })
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace.clone()
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.pace.0.lock(|queue| queue.stopped = true);
        self.pace.0.earlier.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has no one to go to from a destructor.
            let _ = thread.join();
        }
    }
}

impl Pace {
    /// Rings the bells that the thread finds due, for ever.
    pub(super) async fn ring(self) {
        let mut due = Vec::new();
        loop {
            self.0.round.notified().await;
            self.0
                .lock(|queue| std::mem::swap(&mut due, &mut queue.due));
            for bell in due.drain(..) {
                bell.notify_one();
            }
        }
    }

    /// Waits until `at`, on a bell that nobody else uses.
    pub(super) async fn until(&self, at: Instant, bell: &Arc<Notify>) {
        if at <= now() {
            return;
        }
        let first = self.0.lock(|queue| {
            let first = queue.waiting.peek().is_none_or(|next| at < next.at);
            queue.waiting.push(Ring {
                at,
                bell: Arc::clone(bell),
            });
            first
        });
        if first {
            self.0.earlier.notify_one();
        }
        bell.notified().await;
    }
}

impl Shared {
    fn lock<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn run(&self) {
        let mut earliest = now();
        while self.collect(earliest) {
            self.round.notify_one();
            earliest = now() + SPACING;
        }
    }

    /// Sleeps until at least one moment has come, but not before `earliest`, and takes out the
    /// bells of all that have; false when there is nothing more to wait for.
    fn collect(&self, earliest: Instant) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        while !queue.stopped {
            let now = now();
            if queue.take_due(earliest, now) {
                return true;
            }
            let pause = queue
                .waiting
                .peek()
                .map(|next| next.at.max(earliest).saturating_duration_since(now));
            queue = match pause {
                None => self
                    .earlier
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(pause) => {
                    self.earlier
                        .wait_timeout(queue, pause)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
        false
    }
}

/// The earliest moment is the greatest, as `BinaryHeap` puts the greatest first.
impl Ord for Ring {
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.cmp(&self.at)
    }
}

impl PartialOrd for Ring {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ring {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Ring {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_is_woken_before_the_moment_and_an_earlier_one_overtakes() {
        let pacer = Pacer::start().unwrap();
        let ringer = tokio::spawn(pacer.pace().ring());
        let start = now();
        let wait = |ms: u64| {
            let pace = pacer.pace();
            async move {
                let at = start + Duration::from_millis(ms);
                pace.until(at, &Arc::new(Notify::new())).await;
                let woken = now();
                assert!(woken >= at);
                woken
            }
        };
        let (late, early) = tokio::join!(wait(60), wait(5));
        assert!(early < late);
        ringer.abort();
    }

    #[tokio::test]
    async fn a_moment_that_has_passed_is_not_waited_for() {
        let pacer = Pacer::start().unwrap();
        pacer.pace().until(now(), &Arc::new(Notify::new())).await;
    }
}
