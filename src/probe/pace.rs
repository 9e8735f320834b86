//! Starts calls at their planned moments, whatever became of the calls before (open loop); or, where
//! a workload says so, holds a number of calls open (closed loop).
//!
//! Waits by the runtime's timer, which is up to 2 ms late: the moment at which a call really starts
//! is what is recorded and what all its times count from, so precision here would buy nothing and
//! would cost a spinning core.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::Attempts;
use super::call::{Call, Said, make};
use super::cancel::Cancel;
use super::endpoint::Endpoint;
use crate::evidence::Sample;
use crate::measure::purse::{Allowance, Reservation};
use crate::plan::{Cell, Sampling, Slot};

/// What became of a call.
pub(super) enum Finished {
    /// It is through.
    Sample {
        sample: Box<Sample>,
        /// What was said in it, where that was asked for.
        said: Option<Said>,
        /// Whether it had to wait for another call to end before it could start.
        held: bool,
    },
    /// Our side ended it.
    CalledOff,
}

/// Everything that starting calls takes.
pub(super) struct Pacing<T> {
    pub(super) cell: Cell,
    pub(super) sampling: Sampling,
    pub(super) transport: Arc<T>,
    pub(super) endpoint: Endpoint,
    pub(super) run_id: String,
    /// First index to start with.
    pub(super) skip: u64,
    /// What calls may cost; nothing is counted without.
    pub(super) allowance: Option<Allowance>,
    /// Whether what is said is handed out.
    pub(super) aloud: bool,
    /// No more calls are to be started.
    pub(super) stop: Cancel,
    /// Open calls are to end.
    pub(super) off: Cancel,
    /// Where finished calls go.
    pub(super) done: UnboundedSender<Finished>,
}

/// How pacing ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Paced {
    /// Calls that were started.
    pub(super) started: u64,
    /// Whether a further one did not fit into the allowance.
    pub(super) out_of_money: bool,
}

impl<T: Attempts> Pacing<T> {
    /// Starts the warm-ups, waits for their end, then starts the counted calls.
    ///
    /// The first call that does not fit into the allowance ends it: to wait until open calls turn
    /// out to be cheaper would let the relay decide when it is asked.
    pub(super) async fn run(mut self) -> Paced {
        let open = most_open(&self.cell, &self.sampling);
        let permits = Arc::new(Semaphore::new(usize::try_from(open).unwrap_or(1)));
        let skip = self.skip;
        let mut slots = self
            .cell
            .slots_of_run(&self.sampling, &self.run_id)
            .filter(move |slot| slot.warmup || slot.index >= skip)
            .peekable();
        let warmups: Vec<Slot> = std::iter::from_fn(|| slots.next_if(|slot| slot.warmup)).collect();
        let mut paced = Paced::default();
        let mut base = Duration::ZERO;
        if let Some(last) = warmups.last() {
            base = last.start;
            self.play(warmups.into_iter(), Duration::ZERO, &permits, &mut paced)
                .await;
            // All permits are back when all warm-ups are over.
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return paced,
                _ = permits.acquire_many(open) => {}
            }
        }
        if let Some(first) = slots.peek().filter(|_| skip > 0) {
            // A run that is taken up again does not wait for the part of the plan that is done.
            base = first.start;
        }
        if !paced.out_of_money {
            self.play(slots, base, &permits, &mut paced).await;
        }
        paced
    }

    /// Starts each slot at its offset from `base`; ends early when told to stop.
    async fn play(
        &mut self,
        slots: impl Iterator<Item = Slot>,
        base: Duration,
        permits: &Arc<Semaphore>,
        paced: &mut Paced,
    ) {
        let epoch = Instant::now();
        for slot in slots {
            // Whoever holds a number of calls open has planned no moment for any of them.
            let planned = self.cell.workload.concurrency.is_none();
            let due = epoch + slot.start.saturating_sub(base);
            let write = if self.aloud { Call::aloud } else { Call::new };
            let call = write(&self.cell, slot, &self.endpoint, &self.run_id);
            let turn = async {
                if planned {
                    tokio::time::sleep_until(due).await;
                }
                turn(permits).await
            };
            let turn = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                turn = turn => turn,
            };
            // The semaphore is never closed.
            let Some((permit, held)) = turn else {
                return;
            };
            let (due, held) = if planned {
                (due, held)
            } else {
                (Instant::now(), false)
            };
            let money = match self.allowance.as_ref().map(Allowance::reserve) {
                None => None,
                Some(Some(money)) => Some(money),
                Some(None) => {
                    paced.out_of_money = true;
                    return;
                }
            };
            self.start(call, due, money, permit, held);
            paced.started += 1;
        }
    }

    fn start(
        &self,
        call: Call,
        due: Instant,
        money: Option<Reservation>,
        permit: OwnedSemaphorePermit,
        held: bool,
    ) {
        let transport = Arc::clone(&self.transport);
        let tariff = self.allowance.as_ref().map(|it| it.tariff);
        let mut off = self.off.clone();
        let done = self.done.clone();
        tokio::spawn(async move {
            let made = make(&*transport, call, Some(due.into_std()), &mut off).await;
            let finished = if made.called_off {
                // What it has cost by then nobody says: its money is gone.
                drop(money);
                Finished::CalledOff
            } else {
                if let (Some(money), Some(tariff)) = (money, tariff) {
                    money.settle(tariff.of_sample(&made.sample));
                }
                Finished::Sample {
                    sample: Box::new(made.sample),
                    said: made.said,
                    held,
                }
            };
            // Behind the money: whoever waits for the permit needs some of it.
            drop(permit);
            // Nobody listens any more when the run was dropped.
            let _ = done.send(finished);
        });
    }
}

/// Most calls of a cell that are open at a time.
pub(super) fn most_open(cell: &Cell, sampling: &Sampling) -> u32 {
    let held = cell.workload.concurrency;
    held.unwrap_or(sampling.concurrency).max(1)
}

/// Waits until one more call may be open, and says whether it had to wait.
async fn turn(permits: &Arc<Semaphore>) -> Option<(OwnedSemaphorePermit, bool)> {
    match Arc::clone(permits).try_acquire_owned() {
        Ok(permit) => Some((permit, false)),
        Err(_) => {
            let permit = Arc::clone(permits).acquire_owned().await.ok()?;
            Some((permit, true))
        }
    }
}
