//! Watches over a runtime for as long as somebody wants to know how it fares.

use tokio::task::JoinHandle;

use super::cancel::{CancelSwitch, cancel_pair};
use super::self_check::{LoopProbe, Starts};
use crate::evidence::SelfCheck;

/// A watch over the runtime's loop and the wall clock; it ends when this is dropped.
#[derive(Debug)]
pub struct Health {
    stop: CancelSwitch,
    task: JoinHandle<LoopProbe>,
}

impl Health {
    /// Begins to watch the runtime in which this is called.
    pub fn watch() -> Self {
        let (stop, mut stopped) = cancel_pair();
        let task = tokio::spawn(async move {
            let mut probe = LoopProbe::new();
            tokio::select! {
                () = stopped.cancelled() => {}
                () = probe.run() => {}
            }
            probe
        });
        Self { stop, task }
    }

    /// Ends, and says what was seen of loop and clock. Whether that spoils anything is not said.
    pub async fn facts(mut self) -> SelfCheck {
        self.stop.cancel();
        // A task that broke off has seen nothing.
        let probe = (&mut self.task).await;
        let facts = probe.map(|probe| probe.finish(&Starts::default()));
        SelfCheck {
            invalid: None,
            ..facts.unwrap_or_default()
        }
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.task.abort();
    }
}
