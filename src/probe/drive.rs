//! Samples one cell: starts its calls, hands finished samples on, stops when told.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Attempts;
use super::call::Said;
use super::cancel::{Cancel, CancelSwitch, cancel_pair};
use super::descriptors::make_room;
use super::endpoint::Endpoint;
use super::pace::{Finished, Pacing, most_open};
use super::self_check::{LoopProbe, Starts};
use super::transport::Transport;
use crate::evidence::{CloseReason, Sample, SelfCheck};
use crate::measure::purse::Allowance;
use crate::plan::{Cell, Sampling};

/// How long calls under way may still finish once no more are started.
const GRACE: Duration = Duration::from_secs(2);

/// Hears what was said in the call of a sample.
pub type Aside<'a> = &'a (dyn Fn(&Sample, Said) + Sync);

/// What to sample, and how.
pub struct Job<'a, T = Transport> {
    /// The cell.
    pub cell: &'a Cell,
    /// How its samples are drawn.
    pub sampling: &'a Sampling,
    /// The client.
    pub transport: T,
    /// Address and headers.
    pub endpoint: Endpoint,
    /// Name of the run; part of the trace ids.
    pub run_id: &'a str,
    /// Index to begin with: those before it are on record already.
    pub skip: u64,
    /// What calls may cost; nothing is counted without. A call that does not fit any more is not
    /// started, and none after it.
    pub allowance: Option<Allowance>,
    /// Who hears what was said in a call, right before its sample goes to the sink; nobody, and then
    /// no answer is kept.
    pub aside: Option<Aside<'a>>,
}

/// How sampling went.
#[derive(Clone, Debug, PartialEq)]
pub struct Driven {
    /// Why it ended: [`CloseReason::Decided`] when the sink had enough.
    pub reason: CloseReason,
    /// Calls that were under way and called off.
    pub abandoned: u64,
    /// How well the probe itself ran.
    pub self_check: SelfCheck,
    /// Our own failure, in words, with [`CloseReason::Failed`].
    pub error: Option<String>,
}

impl Driven {
    /// The outcome when nothing was left to sample.
    pub fn nothing_to_do() -> Self {
        Self {
            reason: CloseReason::Decided,
            abandoned: 0,
            self_check: SelfCheck::default(),
            error: None,
        }
    }
}

/// Samples a cell and hands every finished sample to `sink`, in the order in which calls end.
///
/// - When the sink breaks, or `max_duration` is over, no more calls are started; those under way
///   have two seconds to finish, their samples still go to the sink, then they are called off.
/// - When `cancel` comes, calls under way are called off at once.
///
/// Must be awaited on a runtime's own thread (`block_on`) for the sink not to hold up the calls,
/// which are tasks of their own.
pub async fn drive<T: Attempts>(
    job: Job<'_, T>,
    mut cancel: Cancel,
    sink: &mut dyn FnMut(Sample) -> ControlFlow<()>,
) -> Driven {
    let sampling = job.sampling;
    let aside = job.aside;
    let calls = sampling.max_samples.saturating_add(sampling.warmup.into());
    make_room(calls.min(most_open(job.cell, sampling).into())).await;
    let (stop, stopped) = cancel_pair();
    let (off, called_off) = cancel_pair();
    // Whoever drops this future ends its calls too.
    let (stop, off) = (OnDrop(stop), OnDrop(off));
    let (done, mut finished) = mpsc::unbounded_channel();
    let watching = tokio::spawn(watch_loop(stopped.clone()));
    let limit = job
        .sampling
        .max_duration
        .and_then(|limit| Instant::now().checked_add(limit));
    let pacing = tokio::spawn(
        Pacing {
            cell: job.cell.clone(),
            sampling: job.sampling.clone(),
            transport: Arc::new(job.transport),
            endpoint: job.endpoint,
            run_id: job.run_id.to_owned(),
            skip: job.skip,
            allowance: job.allowance,
            aloud: job.aside.is_some(),
            stop: stopped,
            off: called_off,
            done,
        }
        .run(),
    );

    let mut tally = Tally::default();
    let mut ended: Option<CloseReason> = None;
    let mut grace: Option<Instant> = None;
    let mut interrupted = false;
    loop {
        let stopping = tokio::select! {
            biased;
            () = cancel.cancelled(), if !interrupted => {
                interrupted = true;
                // In this order: an open call that ends must not make room for a new one.
                stop.0.cancel();
                off.0.cancel();
                Some(CloseReason::Interrupted)
            }
            () = at(limit), if ended.is_none() => Some(CloseReason::Limit),
            () = at(grace), if grace.is_some() => {
                grace = None;
                off.0.cancel();
                None
            }
            call = finished.recv() => match call {
                Some(call) => tally
                    .take(call, aside, sink)
                    .is_break()
                    .then_some(CloseReason::Decided),
                // Every call and the pacing itself are through.
                None => break,
            },
        };
        if let Some(reason) = stopping
            && ended.is_none()
        {
            ended = Some(reason);
            stop.0.cancel();
            grace = Some(Instant::now() + GRACE);
        }
    }
    stop.0.cancel();
    let started = pacing.await;
    let check = watching.await;
    let error = match (&started, &check) {
        (Ok(paced), Ok(_)) if paced.started == tally.calls => None,
        (Ok(paced), Ok(_)) => Some(format!(
            "{} of {} calls broke off inside the probe",
            paced.started.saturating_sub(tally.calls),
            paced.started
        )),
        (Err(panic), _) | (_, Err(panic)) => Some(format!("the probe broke off: {panic}")),
    };
    Driven {
        reason: match error {
            Some(_) => CloseReason::Failed,
            None => match (ended, started) {
                (Some(reason), _) => reason,
                (None, Ok(paced)) if paced.out_of_money => CloseReason::Limit,
                (None, _) => CloseReason::Budget,
            },
        },
        abandoned: tally.abandoned,
        self_check: check.map_or_else(
            |_| SelfCheck::default(),
            |probe| probe.finish(&tally.starts),
        ),
        error,
    }
}

/// What came of the calls so far.
#[derive(Default)]
struct Tally {
    calls: u64,
    abandoned: u64,
    starts: Starts,
}

impl Tally {
    fn take(
        &mut self,
        call: Finished,
        aside: Option<Aside<'_>>,
        sink: &mut dyn FnMut(Sample) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.calls += 1;
        match call {
            Finished::CalledOff => {
                self.abandoned += 1;
                ControlFlow::Continue(())
            }
            Finished::Sample { sample, said, held } => {
                if let (Some(said), Some(aside)) = (said, aside) {
                    aside(&sample, said);
                }
                if !sample.warmup {
                    self.starts.record(sample.lag, held);
                    self.starts.own_failures += u64::from(sample.failed_for_our_want());
                }
                sink(*sample)
            }
        }
    }
}

/// Probes the loop on which the calls run, not the thread that records them.
async fn watch_loop(mut stopped: Cancel) -> LoopProbe {
    let mut probe = LoopProbe::new();
    tokio::select! {
        () = stopped.cancelled() => {}
        () = probe.run() => {}
    }
    probe
}

/// The moment, or never.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Calls off when it goes out of scope.
struct OnDrop(CancelSwitch);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests;
