//! The bounded queue to the network and the loop that empties it.
//!
//! Lives on one thread; an item leaves the queue when its request begins and is then counted as
//! exported or failed, never both.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until, timeout};

use super::{Deadline, Tally};

/// Items of one request.
const BATCH: usize = 512;

/// Longest wait for a batch to fill.
const FILL: Duration = Duration::from_millis(500);

/// Where batches go.
pub(in crate::telemetry) trait Sink<T> {
    /// Sends one batch; returns how many of it the other side refused, or an error for all.
    fn send(&self, batch: Vec<T>) -> impl Future<Output = Result<u64, ()>>;
}

/// Items on their way out.
pub(super) struct Outbox<T> {
    items: RefCell<VecDeque<T>>,
    filled: Notify,
    room: usize,
}

impl<T> Outbox<T> {
    pub(super) fn new(room: usize) -> Self {
        Self {
            items: RefCell::new(VecDeque::new()),
            filled: Notify::new(),
            room,
        }
    }

    /// Queues items; those without room are dropped and counted.
    pub(super) fn put(&self, items: Vec<T>, tally: &Tally) {
        let mut queue = self.items.borrow_mut();
        let count = items.len();
        let fit = count.min(self.room.saturating_sub(queue.len()));
        queue.extend(items.into_iter().take(fit));
        Tally::add(&tally.dropped, count - fit);
        self.filled.notify_one();
    }

    /// Sends until closed and empty, or until the deadline; the rest is then dropped.
    pub(super) async fn send(&self, sink: &impl Sink<T>, tally: &Tally, mut deadline: Deadline) {
        let mut closing = deadline.clone();
        let late = async {
            if let Ok(Some(end)) = deadline.wait_for(Option::is_some).await.map(|end| *end) {
                sleep_until(end).await;
            }
        };
        tokio::pin!(late);
        while let Some(batch) = self.batch(&mut closing).await {
            let count = batch.len();
            let sent = tokio::select! {
                biased;
                sent = sink.send(batch) => sent,
                () = &mut late => {
                    Tally::add(&tally.failed, count);
                    break;
                }
            };
            let refused = match sent {
                Ok(refused) => usize::try_from(refused).unwrap_or(count).min(count),
                Err(()) => count,
            };
            Tally::add(&tally.exported, count - refused);
            Tally::add(&tally.failed, refused);
        }
        Tally::add(&tally.dropped, self.items.borrow_mut().drain(..).count());
    }

    /// The next batch: full, or whatever there is after a while or at the end; `None` at the end.
    async fn batch(&self, closing: &mut Deadline) -> Option<Vec<T>> {
        loop {
            let closed = closing.borrow_and_update().is_some();
            let waiting = self.items.borrow().len();
            match waiting {
                0 if closed => return None,
                0 => {
                    tokio::select! {
                        () = self.filled.notified() => {}
                        _ = closing.changed() => {}
                    }
                }
                _ if closed || waiting >= BATCH => break,
                _ => {
                    let fill = async {
                        while self.items.borrow().len() < BATCH {
                            self.filled.notified().await;
                        }
                    };
                    tokio::select! {
                        _ = timeout(FILL, fill) => break,
                        _ = closing.changed() => {}
                    }
                }
            }
        }
        let mut queue = self.items.borrow_mut();
        let count = queue.len().min(BATCH);
        Some(queue.drain(..count).collect())
    }
}

/// Waits for a while, or until the end is near.
pub(super) async fn pause(length: Duration, closing: &mut Deadline) {
    if closing.borrow().is_some() {
        sleep(length).await;
        return;
    }
    tokio::select! {
        () = sleep(length) => {}
        _ = closing.changed() => {}
    }
}
