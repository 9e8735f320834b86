//! The threads on which a process measures, and how they are told to end.

use std::io::{self, Write};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::StartError;
use crate::probe::cancel::{Cancel, CancelSwitch, cancel_pair};
use crate::probe::hooks::ConnectEvents;

/// The measuring threads.
pub(super) struct Measuring {
    handle: tokio::runtime::Handle,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Measuring {
    pub(super) fn start() -> io::Result<Self> {
        crate::probe::tls::install_crypto();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("relayproof")
            .enable_all()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    pub(super) const fn handle(&self) -> &tokio::runtime::Handle {
        &self.handle
    }

    /// From here on, not from whenever a task first runs, Ctrl-C is ours: the first one says these
    /// words and calls off, the second one ends the process.
    pub(super) fn heed_ctrl_c(&self, words: String) -> io::Result<Cancel> {
        let (switch, cancel) = cancel_pair();
        let interrupts = {
            let _inside = self.handle.enter();
            interrupts()?
        };
        self.handle.spawn(heed(interrupts, switch, words));
        Ok(cancel)
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        // A name that is still being resolved for a call long given up would hold the end up for
        // as long as the system's resolver tries.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The threads of a process that collects a soak, and Ctrl-C. Without telemetry: the spans of a soak
/// are made from its evidence.
pub struct Collecting {
    cancel: Cancel,
    runtime: Measuring,
}

impl Collecting {
    /// Starts the threads, and takes Ctrl-C and the request to end: the first one says these words
    /// and calls off, the second one ends the process.
    ///
    /// # Errors
    /// When the system gives no threads, or does not let us listen.
    pub fn start(words: &str) -> Result<Self, StartError> {
        let runtime = Measuring::start().map_err(StartError::Runtime)?;
        // A process that has a subscriber already keeps it; it then sees no per-address connects.
        tracing_subscriber::registry()
            .with(ConnectEvents::layer())
            .try_init()
            .ok();
        let cancel = runtime
            .heed_ctrl_c(words.to_owned())
            .map_err(StartError::Interrupts)?;
        Ok(Self { cancel, runtime })
    }

    /// The threads.
    pub fn runtime(&self) -> &tokio::runtime::Handle {
        self.runtime.handle()
    }

    /// What calls off.
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}

/// Ctrl-C, and the plain request to end that runners and containers send before they kill.
#[cfg(unix)]
struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    async fn recv(&mut self) -> Option<()> {
        tokio::select! {
            come = self.interrupt.recv() => come,
            come = self.terminate.recv() => come,
        }
    }
}

#[cfg(unix)]
fn interrupts() -> io::Result<Interrupts> {
    use tokio::signal::unix::{SignalKind, signal};
    Ok(Interrupts {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
    })
}

#[cfg(windows)]
type Interrupts = tokio::signal::windows::CtrlC;

#[cfg(windows)]
fn interrupts() -> io::Result<Interrupts> {
    tokio::signal::windows::ctrl_c()
}

#[expect(
    clippy::exit,
    reason = "the user pressed Ctrl-C and waits for an answer; a second time means now, as it does \
              from a runner"
)]
async fn heed(mut interrupts: Interrupts, switch: CancelSwitch, words: String) {
    if interrupts.recv().await.is_none() {
        return;
    }
    switch.cancel();
    // Whoever read stderr may have got the same signal and be gone.
    writeln!(io::stderr(), "\n{words}").ok();
    if interrupts.recv().await.is_some() {
        std::process::exit(130);
    }
}
