//! A wall clock that is set and put to sleep as a test says, and relays that answer from a record.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use relayproof::evidence::{self, Attempt, Sample, Session, SessionClock, ids};
use relayproof::plan::{Cell, Plan, Slot};
use relayproof::probe::cancel::Cancel;
use relayproof::run::collect::{Caller, Clock, run_id};
use relayproof::run::{Planned, plan_text};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Wall clock = the runtime's paused clock + whatever the machine's clock is off by.
pub(crate) struct VirtualClock {
    start: Instant,
    epoch: u64,
    off_by: AtomicI64,
    /// Ends every sleep, as the real clock does by looking again each half second.
    jumped: Notify,
}

impl VirtualClock {
    /// A clock that is right, and says so many nanoseconds since the epoch now.
    pub(crate) fn new(epoch: u64) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            epoch,
            off_by: AtomicI64::new(0),
            jumped: Notify::new(),
        })
    }

    /// Sets the clock, forwards or back. A machine that sleeps for an hour wakes up the same way:
    /// its timers have not moved.
    pub(crate) fn jump(&self, seconds: i64) {
        self.off_by
            .fetch_add(seconds * 1_000_000_000, Ordering::SeqCst);
        self.jumped.notify_waiters();
    }

    /// Waits for a moment of true time, from the start.
    pub(crate) async fn until(&self, at: Duration) {
        tokio::time::sleep_until(self.start + at).await;
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> u64 {
        let ran = u64::try_from(self.start.elapsed().as_nanos()).unwrap();
        (self.epoch + ran)
            .checked_add_signed(self.off_by.load(Ordering::SeqCst))
            .unwrap()
    }

    async fn sleep(&self, at_most: Duration) {
        tokio::select! {
            () = tokio::time::sleep(at_most) => {}
            () = self.jumped.notified() => {}
        }
    }
}

/// What a relay answers to a slot at a moment of wall time.
pub(crate) type Script = Box<dyn Fn(&Cell, &Slot, u64) -> Vec<Attempt> + Send + Sync>;

/// Relays that answer from a record, and the calls that they got.
pub(crate) struct Replay {
    clock: Arc<VirtualClock>,
    run_id: String,
    script: Script,
    /// By cell and index: how often it was asked.
    pub(crate) asked: Mutex<BTreeMap<(String, u64), u32>>,
}

impl Replay {
    pub(crate) fn new(plan: &Plan, clock: &Arc<VirtualClock>, script: Script) -> Arc<Self> {
        Arc::new(Self {
            clock: Arc::clone(clock),
            run_id: run_id(plan),
            script,
            asked: Mutex::default(),
        })
    }

    /// Slots that were asked, each once.
    pub(crate) fn asked_once(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        assert!(asked.values().all(|times| *times == 1), "asked twice");
        asked.len()
    }
}

impl Caller for Replay {
    async fn call(
        &self,
        cell: &Cell,
        slot: Slot,
        lag: Duration,
        mut off: Cancel,
    ) -> Option<Sample> {
        let t0_unix_ns = self.clock.now();
        let key = (cell.id.clone(), slot.index);
        *self.asked.lock().unwrap().entry(key).or_default() += 1;
        let attempts = (self.script)(cell, &slot, t0_unix_ns);
        let took = attempts.last().unwrap();
        let took = took.start + took.observation.timeline.over;
        tokio::select! {
            () = tokio::time::sleep(took) => {}
            () = off.cancelled() => return None,
        }
        Some(Sample {
            trace_id: ids::trace_id(&self.run_id, &slot.id),
            id: slot.id,
            index: slot.index,
            warmup: false,
            t0_unix_ns,
            planned: slot.start,
            lag,
            attempts,
        })
    }

    fn base_url(&self, cell: &Cell) -> String {
        format!("http://{}.example/v1", cell.relay.name)
    }
}

/// An honest answer, as one was recorded once.
pub(crate) fn recorded() -> Vec<Attempt> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/evidence/unchained.jsonl");
    let record = evidence::read(&path).unwrap();
    record.samples.into_iter().next().unwrap().attempts
}

/// A machine; each boot has a name of its own.
pub(crate) fn machine(host: &str, boot: &str) -> Session {
    Session {
        at_unix_ns: 0,
        host: host.to_owned(),
        pid: 1,
        tool_version: "0".to_owned(),
        boot_id: Some(boot.to_owned()),
        clock: SessionClock::default(),
    }
}

pub(crate) fn planned(text: &str) -> Planned {
    plan_text("soak.yaml", text, Path::new(""), None)
        .unwrap_or_else(|error| panic!("{}", error.render(false)))
}
