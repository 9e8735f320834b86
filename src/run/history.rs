//! Runs of the same plan right before this one that did not pass.
//!
//! Each fresh start is a further chance of a false pass, which the record of the new run says. To go
//! on with a run is none.

use std::fs;
use std::path::{Path, PathBuf};

use super::RunFolder;
use super::folder::{latest_runs, readable_stem};
use crate::evidence::{self, CameTo, EarlierRun, Header};
use crate::plan::{Cell, Endpoint, Plan};
use crate::verdict::{Decision, Effect, Inconclusive, Overall, Summary, effect, judge_file};

/// Most runs that are looked at, the latest first.
const MOST_RUNS: usize = 32;
/// Most files of a run that are looked at.
const MOST_FILES: usize = 1_000;
/// Most bytes of evidence that are read.
const MOST_BYTES: u64 = 32 * 1024 * 1024;

/// The runs right before this one, as far as they lie beside it, that did not pass.
///
/// What cannot be read is left out: an old folder must not stop a new run. An embedded relay answers
/// the same in every run, so that a fresh start is no further chance.
pub(super) fn not_passed(folder: &RunFolder, plan: &Plan, cell: &Cell) -> Vec<EarlierRun> {
    if let Endpoint::Simulate(_) = cell.relay.endpoint {
        return Vec::new();
    }
    let mut earlier = files(folder, plan, cell);
    earlier.sort_by_key(|(header, _)| std::cmp::Reverse(header.started_unix_ns));
    let mut left = MOST_BYTES;
    let mut found = Vec::new();
    for (header, path) in earlier {
        let size = fs::metadata(&path).map_or(u64::MAX, |it| it.len());
        let Some(rest) = left.checked_sub(size) else {
            break;
        };
        left = rest;
        // Line by line, because what lies there may be large.
        let Ok((_, summary)) = judge_file(&path) else {
            continue;
        };
        match came_to(&summary) {
            Came::Pass => break,
            Came::ToNothing => {}
            Came::NotToAPass(came_to) => found.push(EarlierRun {
                run_id: header.run_id,
                came_to,
            }),
        }
    }
    found
}

enum Came {
    Pass,
    /// Nothing was measured, or not by a probe that was fit to.
    ToNothing,
    NotToAPass(CameTo),
}

fn came_to(summary: &Summary) -> Came {
    let failing = || {
        let all = summary.objectives.iter().zip(&summary.verdicts);
        all.filter(|(objective, verdict)| {
            effect(verdict, objective, &summary.judging) == Effect::Failure
        })
        .map(|(_, verdict)| verdict.decision)
    };
    let invalid = Decision::Inconclusive(Inconclusive::InvalidRun);
    match summary.overall() {
        Overall::Pass => Came::Pass,
        Overall::Nothing => Came::ToNothing,
        Overall::Violated => Came::NotToAPass(CameTo::Violated),
        Overall::Inconclusive if failing().any(|decision| decision == invalid) => Came::ToNothing,
        Overall::Inconclusive => Came::NotToAPass(CameTo::Inconclusive),
    }
}

/// Evidence of the same plan, whatever its budget, and the same cell in the latest other runs.
fn files(folder: &RunFolder, plan: &Plan, cell: &Cell) -> Vec<(Header, PathBuf)> {
    let stem = readable_stem(cell);
    let name = cell.name();
    let mut found = Vec::new();
    let root = folder.path().parent().unwrap_or_else(|| Path::new(""));
    let others = latest_runs(root)
        .into_iter()
        .filter(|path| path != folder.path());
    for run in others.take(MOST_RUNS) {
        let entries = fs::read_dir(run).into_iter().flatten().take(MOST_FILES);
        for path in entries.flatten().map(|entry| entry.path()) {
            let file = path.file_name().and_then(|it| it.to_str()).unwrap_or("");
            if !file.starts_with(&stem) || !file.ends_with(".jsonl") {
                continue;
            }
            if let Ok(reader) = evidence::Reader::open(&path)
                && reader.header().cell == name
                && reader.header().core_digest == plan.core_digest
            {
                found.push((reader.header().clone(), path));
            }
        }
    }
    found
}
