//! What the relay really did, and when: the truth that measurements are compared with.

use std::collections::VecDeque;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use super::fault::Fault;
use super::pace::now;

/// Answers that are kept; the oldest is dropped first.
const MAX_SERVED: usize = 10_000;

/// Writes that are kept over all answers.
const MAX_WRITES: usize = 2_000_000;

/// One chat completion as it was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The answer's `id` and `x-request-id`, as the client saw it; of a case its id.
    pub id: String,
    /// Hash of the relay's seed and the request body: what chose the fault.
    pub key: u64,
    /// SHA-256 of the request body, in hex.
    pub body_sha256: String,
    /// Status code that was sent.
    pub status: u16,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// What was done to the answer; `None` for an honest one.
    pub fault: Option<Fault>,
    /// The moment at which the request had been read whole.
    pub arrival: Instant,
    /// The same moment on the wall clock, nanoseconds since the epoch.
    pub arrival_unix_ns: u64,
    /// Every write that was done, in order; the first is the head.
    pub writes: Vec<Write>,
    /// Index in `writes` of the first that carried model output, if it was done.
    pub first_token: Option<usize>,
    /// Whether all that was meant to be written was written.
    pub complete: bool,
}

/// One write to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// From the arrival to the moment the write call had returned, in nanoseconds.
    pub at_ns: u64,
    /// Bytes of the response that it carried.
    pub bytes: u32,
}

impl Served {
    /// The true time of the first model output, counted from the arrival.
    pub fn first_token_after(&self) -> Option<Duration> {
        let write = self.writes.get(self.first_token?)?;
        Some(Duration::from_nanos(write.at_ns))
    }
}

/// The last answers, and how many are under way.
#[derive(Debug)]
pub(super) struct Log {
    start: Instant,
    start_unix: Duration,
    kept: Mutex<Kept>,
    under_way: watch::Sender<usize>,
    copy: Option<SyncSender<Served>>,
}

#[derive(Debug, Default)]
struct Kept {
    served: VecDeque<Served>,
    writes: usize,
}

impl Log {
    #[expect(clippy::disallowed_methods, reason = "the embedded relay keeps time")]
    pub(super) fn new(copy: Option<SyncSender<Served>>) -> Self {
        Self {
            start: now(),
            start_unix: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
            kept: Mutex::default(),
            under_way: watch::Sender::new(0),
            copy,
        }
    }

    /// Wall clock at a moment.
    pub(super) fn unix(&self, moment: Instant) -> Duration {
        self.start_unix + moment.saturating_duration_since(self.start)
    }

    pub(super) fn served(&self) -> Vec<Served> {
        self.kept().served.iter().cloned().collect()
    }

    /// Waits until no answer is under way.
    pub(super) async fn quiet(&self) {
        // The sender lives as long as `self`, so the wait ends only by its condition.
        let _ = self.under_way.subscribe().wait_for(|n| *n == 0).await;
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, served: Served) {
        if let Some(copy) = &self.copy {
            // The reader may have left; the answers are still kept here.
            let _ = copy.send(served.clone());
        }
        let mut kept = self.kept();
        kept.writes += served.writes.len();
        kept.served.push_back(served);
        while kept.served.len() > MAX_SERVED || kept.writes > MAX_WRITES {
            let Some(oldest) = kept.served.pop_front() else {
                break;
            };
            kept.writes -= oldest.writes.len();
        }
    }
}

/// An answer under way; it enters the log when this is dropped, however the answer ends.
#[derive(Debug)]
pub(super) struct Recording {
    log: Arc<Log>,
    served: Option<Served>,
    arrival: Instant,
    token: Option<usize>,
}

impl Recording {
    /// Starts before the first write, so that a client that has its answer finds it in the log
    /// once the log is quiet.
    pub(super) fn start(log: &Arc<Log>, served: Served, first_token: Option<usize>) -> Self {
        log.under_way.send_modify(|n| *n += 1);
        Self {
            log: Arc::clone(log),
            arrival: served.arrival,
            served: Some(served),
            token: first_token,
        }
    }

    /// Notes a write whose call has just returned.
    pub(super) fn wrote(&mut self, bytes: usize) {
        let at = now().saturating_duration_since(self.arrival);
        if let Some(served) = &mut self.served {
            served.writes.push(Write {
                at_ns: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
                bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            });
            if self.token.is_some_and(|index| index < served.writes.len()) {
                served.first_token = self.token;
            }
        }
    }

    /// Notes that nothing was left to write.
    pub(super) fn completed(&mut self) {
        if let Some(served) = &mut self.served {
            served.complete = true;
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(served) = self.served.take() {
            self.log.keep(served);
        }
        self.log.under_way.send_modify(|n| *n = n.saturating_sub(1));
    }
}
