//! One process's part of a run: measuring runtime, run folder, telemetry, Ctrl-C.
//!
//! The test harness and the command both stand on it. Decides nothing.

mod measuring;

use std::collections::{HashMap, HashSet};
use std::env;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use measuring::Collecting;

use self::measuring::Measuring;
use crate::evidence::{Header, Sample};
use crate::plan::Plan;
use crate::probe::call::Said;
use crate::probe::cancel::Cancel;
use crate::probe::hooks::ConnectEvents;
use crate::run::{
    CellError, CellOutcome, FolderError, Planned, Progress, RunFolder, Runner, Watch,
};
use crate::telemetry::spans::{SampleFacts, plan_of};
use crate::telemetry::{Case, Exported, RunInfo, Suite, SuiteInfo, SuiteStatus, Telemetry};
use crate::verdict::Decision;

/// Why a run cannot begin; our own failure.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The run's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The measuring runtime.
    #[error("cannot start the measuring threads")]
    Runtime(#[source] io::Error),
    /// Ctrl-C, without which a run could not be ended with its evidence whole.
    #[error("cannot listen for Ctrl-C")]
    Interrupts(#[source] io::Error),
}

/// Shows how far the cells are. Called from the measuring threads: it must not block.
pub trait Viewer: Send + Sync {
    /// A further call of a cell is on record.
    fn progress(&self, header: &Header, progress: Progress<'_>);

    /// A cell is decided or given up.
    fn end(&self, header: &Header);
}

/// One process's part of a run.
pub struct Session {
    // Before the runtime in drop order: spans end while their exporter still runs.
    board: Board,
    folder: RunFolder,
    cancel: Cancel,
    runtime: Measuring,
}

/// What the cells tell while they run.
struct Board {
    telemetry: Mutex<Option<Telemetry>>,
    /// What the span of each spec says, by the digest of its plan without the budget.
    infos: Mutex<HashMap<String, SuiteInfo>>,
    /// Spans of the specs of which this process samples a cell; one that only reads has none.
    suites: Mutex<HashMap<String, Suite>>,
    cases: Mutex<HashMap<String, Case>>,
    outcomes: Mutex<Vec<Arc<CellOutcome>>>,
    /// Plans of which a cell could not be measured.
    unmeasured: Mutex<HashSet<String>>,
    /// What was said in a call that is about to be told of.
    said: Mutex<HashMap<String, Said>>,
    viewer: Option<Arc<dyn Viewer>>,
}

impl Session {
    /// Opens the run's folder under `runs`, starts the measuring threads and telemetry, and takes
    /// Ctrl-C: the first one ends sampling and keeps the evidence, the second one ends the process.
    pub fn start(
        runs: &Path,
        run_id: &str,
        viewer: Option<Arc<dyn Viewer>>,
    ) -> Result<Self, StartError> {
        let folder = RunFolder::open(runs, run_id)?;
        let runtime = Measuring::start().map_err(StartError::Runtime)?;
        let info = RunInfo {
            run_id: folder.id().to_owned(),
            folder: folder.path().to_owned(),
            host: crate::run::host_name(),
        };
        let telemetry = Telemetry::start(&info, &|name| env::var(name).ok());
        // A process that has a subscriber already keeps it; it then sees no per-address connects.
        tracing_subscriber::registry()
            .with(ConnectEvents::layer())
            .with(telemetry.log_layer())
            .try_init()
            .ok();
        let shown = folder.path().display().to_string();
        let words = format!("interrupted: sampling ends, the evidence so far is kept in {shown}");
        let cancel = runtime.heed_ctrl_c(words).map_err(StartError::Interrupts)?;
        Ok(Self {
            board: Board {
                telemetry: Mutex::new(Some(telemetry)),
                infos: Mutex::default(),
                suites: Mutex::default(),
                cases: Mutex::default(),
                outcomes: Mutex::default(),
                unmeasured: Mutex::default(),
                said: Mutex::default(),
                viewer,
            },
            folder,
            cancel,
            runtime,
        })
    }

    /// Where this run leaves its evidence.
    pub fn folder(&self) -> &RunFolder {
        &self.folder
    }

    /// Whether Ctrl-C has come.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The outcome of one cell: sampled by whoever comes first, in this process or in another one
    /// of the same run.
    pub fn settle(
        &self,
        planned: &Planned,
        cell: usize,
    ) -> Result<Arc<CellOutcome>, Arc<CellError>> {
        self.board.announce(&planned.plan);
        let runner = Runner {
            folder: &self.folder,
            runtime: self.runtime.handle(),
            cancel: self.cancel.clone(),
            watch: &self.board,
        };
        planned.settle(cell, &runner).inspect_err(|_| {
            lock(&self.board.unmeasured).insert(planned.plan.core_digest.clone());
        })
    }

    /// The cells that were settled so far, by name.
    pub fn outcomes(&self) -> Vec<Arc<CellOutcome>> {
        let mut outcomes = lock(&self.board.outcomes).clone();
        outcomes.sort_by(|a, b| a.evidence.header.cell.cmp(&b.evidence.header.cell));
        outcomes
    }

    /// Ends telemetry within the budget and gives its account; the second call gives an empty one.
    pub fn close(&self, budget: Duration) -> Exported {
        lock(&self.board.cases).clear();
        for (digest, suite) in lock(&self.board.suites).drain() {
            suite.finish(self.board.status(&digest));
        }
        let telemetry = lock(&self.board.telemetry).take();
        telemetry.map_or_else(Exported::default, |telemetry| telemetry.finish(budget))
    }
}

impl Board {
    fn announce(&self, plan: &Plan) {
        let cells = u64::try_from(plan.cells.len()).unwrap_or(u64::MAX);
        let info = || SuiteInfo {
            spec: plan.name.clone(),
            plan: plan.core_digest.clone(),
            spec_sha256: plan.spec_sha256.clone(),
            cells,
            planned_samples: plan.sampling.max_samples.saturating_mul(cells),
            ci_parent: plan.otel.ci_parent,
        };
        lock(&self.infos)
            .entry(plan.core_digest.clone())
            .or_insert_with(info);
    }

    /// How the suite of a plan went, as far as its evidence says; a cell without any was called off.
    fn status(&self, digest: &str) -> SuiteStatus {
        if lock(&self.unmeasured).contains(digest) {
            return SuiteStatus::Aborted;
        }
        let outcomes = lock(&self.outcomes);
        let cells = outcomes
            .iter()
            .filter(|it| plan_of(&it.evidence.header) == digest);
        SuiteStatus::of(cells.map(|it| {
            let evidence = &it.evidence;
            (&evidence.header, evidence.close.as_ref(), &*it.verdicts)
        }))
    }

    fn case(&self, header: &Header) -> Option<Case> {
        let mut suites = lock(&self.suites);
        let plan = plan_of(header);
        if !suites.contains_key(plan) {
            let info = lock(&self.infos).get(plan).cloned()?;
            let suite = lock(&self.telemetry).as_ref()?.suite(&info);
            suites.insert(plan.to_owned(), suite);
        }
        Some(suites.get(plan)?.case(header))
    }
}

impl Watch for Board {
    fn begin(&self, header: &Header, earlier: &[Sample]) {
        if let Some(case) = self.case(header) {
            for sample in earlier {
                case.recall(sample, &SampleFacts::of(header, sample));
            }
            lock(&self.cases).insert(header.cell_id.clone(), case);
        }
    }

    fn trace_url(&self, asked: Option<&str>) -> Option<String> {
        lock(&self.telemetry).as_ref()?.trace_url(asked)
    }

    fn said(&self, sample: &Sample, said: Said) {
        lock(&self.said).insert(sample.id.clone(), said);
    }

    fn sample(&self, header: &Header, sample: &Sample, progress: Progress<'_>) {
        let said = lock(&self.said).remove(&sample.id);
        let case = lock(&self.cases).get(&header.cell_id).cloned();
        if let Some(case) = case {
            let facts = SampleFacts::of(header, sample);
            match said {
                Some(said) => case.sample_with(sample, &facts, &said),
                None => case.sample(sample, &facts),
            }
        }
        if let Some(viewer) = &self.viewer {
            viewer.progress(header, progress);
        }
    }

    fn end(&self, outcome: &Arc<CellOutcome>) {
        let header = &outcome.evidence.header;
        if let Some(viewer) = &self.viewer {
            viewer.end(header);
        }
        let case = lock(&self.cases).remove(&header.cell_id);
        if let Some(case) = case {
            let closed = outcome.evidence.close.as_ref();
            let closed = closed.map_or(header.started_unix_ns, |close| close.at_unix_ns);
            case.enter(|| log_verdicts(outcome));
            case.finish(&outcome.verdicts, closed);
        }
        lock(&self.outcomes).push(Arc::clone(outcome));
    }
}

/// Verdicts as log lines, inside the cell's span so that they carry its trace.
fn log_verdicts(outcome: &CellOutcome) {
    for verdict in &outcome.verdicts {
        let cell = outcome.evidence.header.cell.as_str();
        let (n, failures) = (verdict.n, verdict.failures);
        let objective = verdict.objective.as_str();
        match verdict.decision {
            Decision::Pass => tracing::info!(cell, objective, n, failures, "pass"),
            Decision::Violated => tracing::error!(cell, objective, n, failures, "violated"),
            Decision::Inconclusive(reason) => {
                let reason = reason.as_str();
                tracing::warn!(cell, objective, n, failures, reason, "inconclusive");
            }
        }
    }
}

/// A lock that a panic elsewhere does not close: what it guards is valid between any two lines.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
