//! From plans to trials: names, ignored tests and their reasons, and what a trial says.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libtest_mimic::{Completion, Failed, Trial};

use super::settings::Settings;
use super::specs::{Loaded, test_name};
use crate::progress::Board;
use crate::report::terminal;
use crate::run::{CellOutcome, Ignored, why_ignored};
use crate::session::{Session as RunSession, StartError};
use crate::verdict::{Effect, Verdict, effect};

/// One test process: the specs and everything their cells share.
pub(super) struct Session {
    loaded: Loaded,
    settings: Settings,
    /// Begins with the first test that measures: where a filter leaves none, nothing is left behind.
    run: OnceLock<Result<RunSession, StartError>>,
}

impl Session {
    /// A session that has begun nothing yet.
    pub(super) const fn new(loaded: Loaded, settings: Settings) -> Self {
        Self {
            loaded,
            settings,
            run: OnceLock::new(),
        }
    }

    /// The measuring runtime, the run's folder and telemetry, started by the first caller.
    fn run(&self) -> Result<&RunSession, Failed> {
        let Settings { runs, run_id, .. } = &self.settings;
        self.run
            .get_or_init(|| RunSession::start(runs, run_id, Some(Arc::new(Board::calm()))))
            .as_ref()
            .map_err(|error| Failed::from(not_measured(error)))
    }

    /// One trial per objective and cell.
    pub(super) fn trials(session: &Arc<Self>) -> Vec<Trial> {
        each(&session.loaded)
            .map(|(spec, cell, objective, name)| {
                let plan = &session.loaded.plans[spec].plan;
                let ignored = why_ignored(plan, &plan.cells[cell]);
                let flag = ignored.is_some() && session.settings.mark_ignored;
                let session = Arc::clone(session);
                Trial::ignorable_test(name, move || match ignored {
                    Some(Ignored::BySpec(_)) if session.settings.run_ignored => {
                        session.judge(spec, cell, objective)
                    }
                    Some(why) => Ok(Completion::ignored_with(why.to_string())),
                    None => session.judge(spec, cell, objective),
                })
                .with_ignored_flag(flag)
            })
            .collect()
    }

    fn judge(&self, spec: usize, cell: usize, objective: usize) -> Result<Completion, Failed> {
        let planned = &self.loaded.plans[spec];
        let outcome = self
            .run()?
            .settle(planned, cell)
            .map_err(|error| Failed::from(not_measured(&*error)))?;
        let header = &outcome.evidence.header;
        let stated = header.objectives.get(objective);
        let (Some(stated), Some(verdict)) = (stated, outcome.verdicts.get(objective)) else {
            // Evidence of this run that another version of the spec has written.
            return Err(Failed::from(format!(
                "ERROR  {} was written for other objectives; remove it and run again",
                outcome.path.display()
            )));
        };
        match effect(verdict, stated, &header.judge) {
            Effect::Ok | Effect::Warning => Ok(Completion::Completed),
            Effect::Failure => Err(Failed::from(self.failure(&outcome, verdict))),
        }
    }

    fn failure(&self, outcome: &CellOutcome, verdict: &Verdict) -> String {
        terminal::failure(
            &outcome.evidence,
            verdict,
            &outcome.path.display().to_string(),
            self.settings.colour,
        )
    }

    /// Ends telemetry and says what was measured.
    pub(super) fn close(&self, budget: Duration) -> String {
        let mut text = String::new();
        let Some(Ok(run)) = self.run.get() else {
            return text;
        };
        for outcome in run.outcomes() {
            text.push_str(&terminal::cell(
                &outcome.evidence,
                &outcome.verdicts,
                self.settings.colour,
            ));
        }
        let exported = run.close(budget);
        for warning in &exported.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        if !text.is_empty() {
            let folder = run.folder().path().display();
            text.push_str(&format!("{exported}, in {folder}\n"));
        }
        text
    }
}

/// The trials of a listing: same names and flags, nothing behind them.
pub(super) fn listed(loaded: &Loaded, settings: &Settings) -> Vec<Trial> {
    each(loaded)
        .map(|(spec, cell, _, name)| {
            let plan = &loaded.plans[spec].plan;
            let ignored = why_ignored(plan, &plan.cells[cell]).is_some();
            Trial::test(name, || Ok(())).with_ignored_flag(ignored && settings.mark_ignored)
        })
        .collect()
}

/// Spec index, cell index, objective index and test name.
fn each(loaded: &Loaded) -> impl Iterator<Item = (usize, usize, usize, String)> + '_ {
    loaded.plans.iter().enumerate().flat_map(|(spec, planned)| {
        planned
            .plan
            .cells
            .iter()
            .enumerate()
            .flat_map(move |(index, cell)| {
                cell.objectives
                    .iter()
                    .enumerate()
                    .map(move |(number, objective)| {
                        (spec, index, number, test_name(cell, objective))
                    })
            })
    })
}

fn not_measured(error: &dyn std::error::Error) -> String {
    let mut text = format!("ERROR  nothing was measured: {error}");
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}
