//! When the exporter thread wakes up: soon, but not for each item.
//!
//! Waking up costs more processor time than drawing most samples does, on the side that is timed as
//! well as on this one, so what comes within a moment is looked at together.

use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

/// How long the first item of several waits for the others.
const GATHER: Duration = Duration::from_millis(100);

/// What the senders of items and the thread know of each other.
#[derive(Debug, Default)]
pub(super) struct Wake {
    some: Notify,
    now: Notify,
}

impl Wake {
    /// There is an item.
    pub(super) fn soon(&self) {
        self.some.notify_one();
    }

    /// There is something that cannot wait: the end, or a full queue.
    pub(super) fn now(&self) {
        self.now.notify_one();
        self.some.notify_one();
    }

    /// Waits until there are items, and a moment longer for more of them.
    pub(super) async fn some(&self) {
        self.some.notified().await;
        tokio::select! {
            biased;
            () = self.now.notified() => {}
            () = sleep(GATHER) => {}
        }
    }
}
