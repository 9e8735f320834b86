//! One cell: from its plan to a closed evidence file and its verdicts.
//!
//! Each sample is on disk before the judge sees it, so that what decided a run can be read again.

use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::header::{Origin, header};
use super::target::{Target, TargetError};
use super::{CellOutcome, FolderError, Planned, Progress, Runner, continuation, history};
use crate::evidence::{Close, CloseReason, Evidence, EvidenceError, Line, Sample, Writer};
use crate::measure::cost::Cost;
use crate::measure::purse::{Allowance, Purse, Tariff};
use crate::plan::Cell;
use crate::probe::call::Said;
use crate::probe::clock::Clock;
use crate::probe::drive::{Driven, Job, drive};
use crate::verdict::{self, Judge};

/// How often evidence is made to survive the death of the machine; that of the process it survives
/// line by line.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// Why a cell could not be measured: our own failure or the user's setting, never the relay's.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// The plan has no such cell.
    #[error("the plan has no such cell")]
    NoSuchCell,
    /// Ctrl-C came before the cell's turn.
    #[error("interrupted before the first sample")]
    Interrupted,
    /// The run's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The relay cannot be asked.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The record cannot be kept; nothing counts that is not on record.
    #[error(transparent)]
    Evidence(#[from] EvidenceError),
}

/// Samples and judges a cell whose lock is held, or reads what another process has recorded.
pub(super) async fn settle(
    runner: &Runner<'_>,
    planned: &Planned,
    cell: &Cell,
    path: PathBuf,
) -> Result<CellOutcome, CellError> {
    let mut earlier = path.exists().then(|| Writer::reopen(&path)).transpose()?;
    if let Some((writer, evidence)) = &mut earlier
        && !runner.cancel.is_cancelled()
        && let Some(continued) = continuation::of_cell(planned, evidence)
    {
        writer.continued(&continued)?;
        evidence.push(Line::Continued(continued));
    }
    if let Some((_, evidence)) = &earlier
        && let Some(close) = &evidence.close
        // What Ctrl-C has ended goes on when its run is asked for again.
        && (close.reason != CloseReason::Interrupted || runner.cancel.is_cancelled())
    {
        return Ok(CellOutcome {
            verdicts: verdict::judge(evidence),
            evidence: evidence.clone(),
            path,
            sampled_here: false,
        });
    }
    if runner.cancel.is_cancelled() {
        return Err(CellError::Interrupted);
    }
    let target = Target::open(cell, &planned.base, planned.plan.sampling.seed).await?;
    let (writer, evidence) = match earlier {
        // Whoever held the lock before us died or was interrupted: its samples stand, and we go on
        // behind them.
        Some((writer, evidence)) => {
            let torn = false;
            // The writer has cut the torn end off.
            (writer, Evidence { torn, ..evidence })
        }
        None => {
            let origin = Origin {
                run_id: runner.folder.id().to_owned(),
                started_unix_ns: Clock::start().unix_ns(),
                base_url: target.endpoint.base().to_owned(),
                trace_url: runner
                    .watch
                    .trace_url(planned.plan.otel.trace_url.as_deref()),
            };
            let mut header = header(&planned.plan, cell, origin);
            header.earlier_runs = history::not_passed(runner.folder, &planned.plan, cell);
            (Writer::create(&path, &header)?, Evidence::new(header))
        }
    };
    let mut recorder = Recorder::new(runner, writer, evidence)?;
    runner
        .watch
        .begin(&recorder.evidence.header, &recorder.evidence.samples);
    // A run that goes on keeps its name, and with it the ids and texts of its calls.
    let run_id = recorder.evidence.header.run_id.clone();
    let driven = if recorder.judge.is_decided() {
        Driven::nothing_to_do()
    } else {
        let said = |sample: &Sample, said: Said| {
            runner.watch.said(sample, said);
        };
        let aloud = !planned.plan.otel.content.is_none();
        let job = Job {
            cell,
            sampling: &cell.sampling(&planned.plan.sampling),
            transport: target.transport,
            endpoint: target.endpoint,
            run_id: &run_id,
            skip: recorder.next_index(),
            allowance: allowance(planned, cell, &recorder.evidence),
            aside: aloud.then_some(&said),
        };
        drive(job, runner.cancel.clone(), &mut |sample| {
            recorder.take(sample)
        })
        .await
    };
    if let Some(embedded) = target.embedded {
        embedded.stop().await;
    }
    let (evidence, verdicts) = recorder.close(driven)?;
    Ok(CellOutcome {
        evidence,
        verdicts,
        path,
        sampled_here: true,
    })
}

/// What is left of the cell's part of the cost limit, after what is on record.
///
/// Slots before the last one on record that have no sample were sent and lost, and calls that were
/// called off were sent as well. Those that were open behind the last one when a process was killed
/// nobody knows of.
fn allowance(planned: &Planned, cell: &Cell, evidence: &Evidence) -> Option<Allowance> {
    let allowance = Allowance {
        purse: Purse::new(planned.plan.cost_cap_of(cell)?),
        tariff: Tariff::of(cell)?,
    };
    let counted = evidence.samples.iter().filter(|it| !it.warmup);
    let (there, next) = counted.fold((0_u64, 0_u64), |(there, next), sample| {
        (there + 1, next.max(sample.index.saturating_add(1)))
    });
    let closes = evidence.earlier.iter().chain(&evidence.close);
    let abandoned: u64 = closes.map(|close| close.abandoned).sum();
    allowance.spend(&evidence.samples, abandoned.max(next.saturating_sub(there)));
    Some(allowance)
}

/// Writes, judges and announces samples as they come.
struct Recorder<'a> {
    runner: &'a Runner<'a>,
    writer: Writer,
    syncing: Syncing,
    evidence: Evidence,
    judge: Judge,
    /// Counted samples on record, and what they cost where the spec has a price.
    done: u64,
    spent: Option<Cost>,
    failure: Option<EvidenceError>,
}

impl<'a> Recorder<'a> {
    fn new(
        runner: &'a Runner<'a>,
        writer: Writer,
        evidence: Evidence,
    ) -> Result<Self, EvidenceError> {
        let mut judge = Judge::for_header(&evidence.header);
        for sample in &evidence.samples {
            judge.take(sample);
        }
        judge.close_gaps();
        let done = evidence.samples.iter().filter(|s| s.counts()).count() as u64;
        let spent = evidence.header.price.map(|price| {
            let mut spent = Cost::default();
            for sample in &evidence.samples {
                spent.add(sample.usd(&price));
            }
            spent
        });
        Ok(Self {
            runner,
            syncing: Syncing::start(writer.handle()?),
            writer,
            evidence,
            judge,
            done,
            spent,
            failure: None,
        })
    }

    /// The index after the last one on record.
    fn next_index(&self) -> u64 {
        let counted = self.evidence.samples.iter().filter(|s| !s.warmup);
        counted.map(|s| s.index + 1).max().unwrap_or(0)
    }

    fn take(&mut self, sample: Sample) -> ControlFlow<()> {
        // Calls that were open when the record failed still end; what is lost stays in one piece.
        if self.failure.is_some() {
            return ControlFlow::Break(());
        }
        // A run that goes on warms up again; the slots of its warm-ups are on record already.
        let recorded = |earlier: &Sample| earlier.warmup && earlier.id == sample.id;
        if sample.warmup && self.evidence.samples.iter().any(recorded) {
            return ControlFlow::Continue(());
        }
        if let Err(error) = self.writer.sample(&sample) {
            self.failure = Some(error);
            return ControlFlow::Break(());
        }
        self.judge.take(&sample);
        if sample.counts() {
            self.done += 1;
        }
        let header = &self.evidence.header;
        if let (Some(price), Some(spent)) = (&header.price, &mut self.spent) {
            spent.add(sample.usd(price));
        }
        let progress = Progress {
            done: self.done,
            most: header.sampling.max_samples,
            spent: self.spent,
            judge: &self.judge,
        };
        self.runner.watch.sample(header, &sample, progress);
        self.evidence.push(Line::Sample(Box::new(sample)));
        if self.judge.is_decided() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn close(mut self, driven: Driven) -> Result<(Evidence, Vec<verdict::Verdict>), EvidenceError> {
        self.syncing.stop();
        if let Some(error) = self.failure {
            return Err(error);
        }
        let close = Close {
            // What the user or our own failure ended is not to read as the judge's decision.
            reason: match driven.reason {
                ended @ (CloseReason::Interrupted | CloseReason::Failed) => ended,
                _ if self.judge.is_decided() => CloseReason::Decided,
                ended @ (CloseReason::Decided
                | CloseReason::Budget
                | CloseReason::Limit
                | CloseReason::Paused) => ended,
            },
            at_unix_ns: Clock::start().unix_ns(),
            abandoned: driven.abandoned,
            self_check: driven.self_check,
            error: driven.error,
        };
        self.writer.close(&close)?;
        self.evidence.push(Line::Close(close));
        // From the record, not from the judge that watched: what is printed now is what anyone who
        // reads the file later gets.
        let verdicts = verdict::judge(&self.evidence);
        Ok((self.evidence, verdicts))
    }
}

/// A thread that syncs the evidence file every second, off the measuring threads.
struct Syncing {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Syncing {
    fn start(file: File) -> Self {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            while stopped.recv_timeout(SYNC_EVERY) == Err(RecvTimeoutError::Timeout) {
                // An error comes back at the final sync, which is waited for.
                file.sync_data().ok();
            }
        };
        // Without the thread the final sync still happens; only a power cut can tell.
        let thread = thread::Builder::new()
            .name("relayproof-sync".to_owned())
            .spawn(work)
            .ok();
        Self {
            stop: Some(stop),
            thread,
        }
    }

    fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It cannot panic; and if it did, there is nothing left to sync from it.
            thread.join().ok();
        }
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.stop();
    }
}
