//! Runs plans: embedded relays and keys, sampling, evidence on disk, decisions.
//!
//! Shared by the test harness and the command. Prints nothing; whoever runs it watches through
//! [`Watch`].

pub mod collect;
mod continuation;
mod folder;
mod header;
mod history;
mod load;
mod sampler;
mod target;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use continuation::{Continuation, ContinueError};
pub use folder::{FolderError, RunFolder, fresh_run_id, latest_runs};
pub use load::{
    Ignored, LoadError, REGION, content_warning, load, named_region, not_asked, plan_text, read,
    unknown_profile, why_ignored,
};
pub use sampler::CellError;
pub use target::TargetError;

use crate::evidence::{Evidence, Header, Sample};
use crate::measure::cost::Cost;
use crate::plan::{Cell, Plan};
use crate::probe::call::Said;
use crate::probe::cancel::Cancel;
use crate::verdict::{Judge, Verdict};

/// What a run tells whoever watches it, as it happens. Called from the measuring runtime: it must
/// not block.
pub trait Watch: Send + Sync {
    /// Sampling of a cell begins, or goes on after these samples.
    fn begin(&self, header: &Header, earlier: &[Sample]) {
        let _ = (header, earlier);
    }

    /// How the addresses of traces are made, given what the spec says; `None` where traces go
    /// nowhere.
    fn trace_url(&self, asked: Option<&str>) -> Option<String> {
        let _ = asked;
        None
    }

    /// What was said in a call, right before it is on record; only where the spec asks for it.
    fn said(&self, sample: &Sample, said: Said) {
        let _ = (sample, said);
    }

    /// One call is on record.
    fn sample(&self, header: &Header, sample: &Sample, progress: Progress<'_>) {
        let _ = (header, sample, progress);
    }

    /// The cell is decided or given up.
    fn end(&self, outcome: &Arc<CellOutcome>) {
        let _ = outcome;
    }
}

/// How far a cell is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Counted samples on record.
    pub done: u64,
    /// Most that will be taken.
    pub most: u64,
    /// What they cost together, where the spec has a price.
    pub spent: Option<Cost>,
    judge: &'a Judge,
}

impl<'a> Progress<'a> {
    /// How far a cell is whose samples were all judged.
    #[cfg(test)]
    pub(crate) const fn of(done: u64, most: u64, judge: &'a Judge) -> Self {
        Self {
            done,
            most,
            spent: None,
            judge,
        }
    }

    /// The verdicts if sampling stopped here. Their bounds are roots of polynomials: for whoever
    /// shows them now and then, not for each sample.
    pub fn standing(&self) -> Vec<Verdict> {
        self.judge.standing()
    }
}

/// A sampled and judged cell.
#[derive(Clone, Debug)]
pub struct CellOutcome {
    /// The record.
    pub evidence: Evidence,
    /// One verdict per objective, in spec order.
    pub verdicts: Vec<Verdict>,
    /// Where the record lies.
    pub path: PathBuf,
    /// Whether this process took the samples (else another one of the same run did).
    pub sampled_here: bool,
}

/// A spec file's plan and where its relative paths start.
#[derive(Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Folder of the spec file.
    pub base: PathBuf,
    /// Names of the spec's profiles.
    pub profiles: Vec<String>,
    /// Name of this going-on, where the run goes on after its end.
    continued_by: Option<String>,
    cells: Vec<Mutex<Option<Settled>>>,
}

type Settled = Result<Arc<CellOutcome>, Arc<CellError>>;

impl Planned {
    /// A plan whose relative paths start at `base`.
    pub fn new(plan: Plan, base: &Path, profiles: Vec<String>) -> Self {
        let cells = plan.cells.iter().map(|_| Mutex::new(None)).collect();
        Self {
            plan,
            base: base.to_owned(),
            profiles,
            continued_by: None,
            cells,
        }
    }

    /// The cell's outcome: sampled by the first caller, awaited by the others.
    ///
    /// Blocks; not for use inside the runtime.
    pub fn settle(&self, index: usize, runner: &Runner<'_>) -> Settled {
        let (Some(slot), Some(cell)) = (self.cells.get(index), self.plan.cells.get(index)) else {
            return Err(Arc::new(CellError::NoSuchCell));
        };
        // A panic in another trial must not turn into a second, unrelated failure here.
        let mut settled = slot.lock().unwrap_or_else(PoisonError::into_inner);
        settled
            .get_or_insert_with(|| runner.cell(self, cell).map_err(Arc::new))
            .clone()
    }
}

/// Everything the cells of a run share.
pub struct Runner<'a> {
    /// Where evidence goes.
    pub folder: &'a RunFolder,
    /// The measuring runtime.
    pub runtime: &'a tokio::runtime::Handle,
    /// Calls the run off.
    pub cancel: Cancel,
    /// Who watches.
    pub watch: &'a dyn Watch,
}

impl Runner<'_> {
    /// Samples and judges one cell, or reads what another process of this run recorded.
    fn cell(&self, planned: &Planned, cell: &Cell) -> Result<Arc<CellOutcome>, CellError> {
        let path = self.folder.evidence(cell);
        let _lock = self.folder.lock(cell)?;
        let outcome = sampler::settle(self, planned, cell, path);
        let outcome = Arc::new(self.runtime.block_on(outcome)?);
        self.watch.end(&outcome);
        Ok(outcome)
    }
}

/// A name as every file system takes it.
pub fn folder_name(name: &str) -> String {
    folder::component(name)
}

/// The machine's name, for evidence and traces.
pub fn host_name() -> String {
    let from_system = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    from_system
        .or_else(|| std::env::var("HOSTNAME").ok())
        .or_else(|| std::env::var("COMPUTERNAME").ok())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}
