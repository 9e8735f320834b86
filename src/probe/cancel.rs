//! A flag that calls work off, seen at once by everything that waits for it.

use tokio::sync::watch;

/// The side that calls off.
#[derive(Clone, Debug)]
pub struct CancelSwitch(watch::Sender<bool>);

/// The side that is called off.
#[derive(Clone, Debug)]
pub struct Cancel(watch::Receiver<bool>);

/// A switch and what it switches.
pub fn cancel_pair() -> (CancelSwitch, Cancel) {
    let (send, receive) = watch::channel(false);
    (CancelSwitch(send), Cancel(receive))
}

impl CancelSwitch {
    /// Calls off, for good.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }
}

impl Cancel {
    /// Whether it was called off.
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is called off; for ever when the switch is gone without having been used.
    pub async fn cancelled(&mut self) {
        if self.0.wait_for(|off| *off).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
