//! Going on with a run that is over: with which of its cells, and whether that is sound.
//!
//! The sequential rule holds whenever one stops, so whoever is not satisfied may go on: the counts
//! add up. What is asked and how it is judged must then stay as it was; only the budget may grow.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Planned;
use crate::evidence::{self, Continued, Evidence};
use crate::plan::{Method, Plan};
use crate::probe::clock::Clock;
use crate::verdict::{self, Decision, Inconclusive, Judge};

/// Most files of a run's folder that are looked at.
const MOST_FILES: usize = 10_000;

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ContinueError {
    /// There is no such run.
    #[error("there is no run {} to continue", path.display())]
    NoRun {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The folder cannot be read.
    #[error("cannot read the run {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The folder has no evidence of the specs.
    #[error("{} has no evidence of {wanted}", path.display())]
    NothingThere {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        wanted: String,
    },
    /// It would not be sound.
    #[error("cannot continue {cell}: {why}")]
    Unsound {
        /// The cell.
        cell: String,
        /// Why, and what to do.
        why: String,
    },
}

/// A run that goes on.
#[derive(Clone, Debug)]
pub struct Continuation {
    /// Folder of all runs.
    pub runs: PathBuf,
    /// Name of the run.
    pub run_id: String,
    /// What there is to know before it goes on.
    pub notes: Vec<String>,
}

/// The folder of all runs and the name of a run, which is given by its folder or, under `runs`, by
/// its name.
///
/// # Errors
/// When there is no such folder.
fn existing_run(runs: &Path, given: &str) -> Result<(PathBuf, String), ContinueError> {
    let as_path = Path::new(given);
    let path = if as_path.is_dir() {
        as_path.to_owned()
    } else {
        runs.join(given)
    };
    let name = path.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) if path.is_dir() => {
            let parent = path.parent().unwrap_or_else(|| Path::new(""));
            Ok((parent.to_owned(), name.to_owned()))
        }
        Some(_) | None => Err(ContinueError::NoRun { path }),
    }
}

impl Continuation {
    /// Makes the plans go on with what is in the folder of a run. `session` names this going-on;
    /// processes of one session go on together.
    ///
    /// # Errors
    /// When there is nothing to go on with, or when going on would not be sound.
    pub fn prepare(
        plans: &mut [Planned],
        runs: &Path,
        given: &str,
        session: &str,
    ) -> Result<Self, ContinueError> {
        let (runs, run_id) = existing_run(runs, given)?;
        let folder = runs.join(&run_id);
        let files = evidence_files(&folder)?;
        let mut notes = Vec::new();
        let mut any = false;
        for planned in plans.iter_mut() {
            for index in 0..planned.plan.cells.len() {
                let Some(found) = of_cell_in(&files, &planned.plan, index) else {
                    continue;
                };
                any = true;
                let plan = &planned.plan;
                let Some(cell) = plan.cells.get(index) else {
                    continue;
                };
                sound(plan, &found).map_err(|why| ContinueError::Unsound {
                    cell: cell.name(),
                    why,
                })?;
                notes.extend(used_up(plan, &found));
                // The cell keeps its identity, and with it its file and the ids of its calls.
                if let Some(cell) = planned.plan.cells.get_mut(index) {
                    cell.id = found.header.cell_id;
                }
            }
            planned.continued_by = Some(session.to_owned());
        }
        if any {
            Ok(Self {
                runs,
                run_id,
                notes,
            })
        } else {
            let names: Vec<&str> = plans.iter().map(|it| it.plan.source.as_str()).collect();
            Err(ContinueError::NothingThere {
                path: folder,
                wanted: names.join(", "),
            })
        }
    }
}

/// The evidence files of a folder.
fn evidence_files(folder: &Path) -> Result<Vec<PathBuf>, ContinueError> {
    let unreadable = |source| ContinueError::Folder {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)?.take(MOST_FILES) {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or("");
        if name.ends_with(".jsonl") && !name.ends_with(".otlp.jsonl") {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// The evidence of a cell; of several files that of the same plan, else that of one that differs in
/// its budget only, else any.
fn of_cell_in(files: &[PathBuf], plan: &Plan, index: usize) -> Option<Evidence> {
    let name = plan.cells.get(index)?.name();
    let mut found: Vec<Evidence> = files
        .iter()
        .filter(|path| {
            // Headers first: the rest may be large.
            evidence::Reader::open(path).is_ok_and(|file| {
                let header = file.header();
                header.cell == name && header.spec_name == plan.name
            })
        })
        .filter_map(|path| evidence::read(path).ok())
        .collect();
    found.sort_by_key(|it| {
        let header = &it.header;
        (
            header.plan_digest == plan.digest,
            header.core_digest == plan.core_digest,
            header.started_unix_ns,
        )
    });
    found.pop()
}

/// Whether a plan may go on with this evidence; if not, why.
fn sound(plan: &Plan, evidence: &Evidence) -> Result<(), String> {
    let header = &evidence.header;
    let invalid = Decision::Inconclusive(Inconclusive::InvalidRun);
    let verdicts = verdict::judge(evidence);
    if let Some(spoilt) = verdicts.iter().find(|it| it.decision == invalid) {
        return Err(format!(
            "the run is invalid ({}), which no further sample heals; start afresh, which counts as \
             no second try",
            spoilt
                .note
                .as_deref()
                .unwrap_or("the probe was not fit to measure")
        ));
    }
    if header.plan_digest == plan.digest {
        return Ok(());
    }
    if header.core_digest != plan.core_digest || header.core_digest.is_empty() {
        return Err(format!(
            "{} since; only `sampling.max_samples` and `sampling.limits` may change, or the error \
             rates would no longer hold",
            difference(plan, evidence)
        ));
    }
    let (old, new) = (header.sampling.max_samples, plan.sampling.max_samples);
    if new < old {
        return Err(format!(
            "`sampling.max_samples` was {old} and is {new} now; it may only grow"
        ));
    }
    if new != old && plan.judge.method != Method::Sequential {
        return Err(format!(
            "`judge.method: {}` looks once, at {old} samples; a second look at {new} would err \
             more often than it says. `judge.method: sequential` may go on",
            plan.judge.method
        ));
    }
    Ok(())
}

/// What is not as it was, as far as the evidence tells.
fn difference(plan: &Plan, evidence: &Evidence) -> String {
    let header = &evidence.header;
    let objectives = plan.cells.first().map(|cell| {
        let told =
            |it: &crate::objective::Objective| (it.text.clone(), it.confidence_ppm, it.severity);
        let now: Vec<_> = cell.objectives.iter().map(told).collect();
        let then: Vec<_> = header.objectives.iter().map(told).collect();
        now == then
    });
    if objectives == Some(false) {
        "the objectives have changed".to_owned()
    } else if header.judge != plan.judge {
        "`judge` has changed".to_owned()
    } else if header.sampling.seed != plan.sampling.seed {
        "`sampling.seed` has changed".to_owned()
    } else {
        "the relays, the workloads or how they are sampled have changed".to_owned()
    }
}

/// Says that the budget is used up, where more of it is what is missing.
fn used_up(plan: &Plan, evidence: &Evidence) -> Option<String> {
    let counted = evidence.samples.iter().filter(|it| !it.warmup);
    let next = counted.map(|it| it.index + 1).max().unwrap_or(0);
    let open = !judged(plan, evidence).is_decided_by_objectives();
    (open && next >= plan.sampling.max_samples).then(|| {
        format!(
            "{}: all {} planned samples are used; raise `sampling.max_samples` to go on",
            evidence.header.cell, plan.sampling.max_samples
        )
    })
}

/// The judge of a cell under the budget of the plan.
fn judged(plan: &Plan, evidence: &Evidence) -> Judge {
    let mut header = evidence.header.clone();
    header.sampling.max_samples = plan.sampling.max_samples;
    let mut judge = Judge::for_header(&header);
    for sample in &evidence.samples {
        judge.take(sample);
    }
    judge.close_gaps();
    judge
}

/// The line with which a cell goes on; `None` where it has no need of one, or is decided.
pub(super) fn of_cell(planned: &Planned, evidence: &Evidence) -> Option<Continued> {
    let session = planned.continued_by.as_ref()?;
    let plan = &planned.plan;
    let by_us = evidence.continued.last().map(|it| &it.session) == Some(session);
    let goes_on = evidence.close.is_some() || evidence.header.plan_digest != plan.digest;
    if by_us || !goes_on || judged(plan, evidence).is_decided() {
        return None;
    }
    Some(Continued {
        session: session.clone(),
        at_unix_ns: Clock::start().unix_ns(),
        plan_digest: plan.digest.clone(),
        spec_sha256: plan.spec_sha256.clone(),
        max_samples: plan.sampling.max_samples,
        max_tokens: plan.sampling.max_tokens,
        max_duration: plan.sampling.max_duration,
        max_cost_usd: plan.sampling.max_cost_usd,
    })
}
