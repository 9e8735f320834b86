//! `relayproof run`: sample and judge the relays of spec files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::judge::{self, Judged};
use super::{Exit, Format, colour, complain, files, report, with_causes};
use crate::progress::Board;
use crate::report::document::Unmeasured;
use crate::run::{
    CellError, CellOutcome, Continuation, Ignored, Planned, content_warning, fresh_run_id,
};
use crate::session::{Session, Viewer};

/// How long telemetry may take at the end.
const TELEMETRY_BUDGET: Duration = Duration::from_secs(5);

/// Arguments of `run`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Spec files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Overlay of the specs
    #[arg(long, env = "RELAYPROOF_PROFILE")]
    profile: Option<String>,
    /// Folder that gets a folder per run
    #[arg(long, env = "RELAYPROOF_DIR", default_value_os_t = files::runs())]
    dir: PathBuf,
    /// Name of the run; a name that is there already goes on with its open cells
    #[arg(long, env = "RELAYPROOF_RUN_ID")]
    run_id: Option<String>,
    /// Go on with a run that is over, given by its folder or its name: its counts add up, decided
    /// objectives stay decided, and `sampling.max_samples` may have grown
    #[arg(long = "continue", value_name = "RUN", env = "RELAYPROOF_CONTINUE")]
    continued: Option<String>,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write a report as well: `junit=target/relayproof.xml`; may be given several times
    #[arg(long = "report", value_name = "FORM=FILE")]
    reports: Vec<report::Wanted>,
}

/// What is printed, and what is written beside it.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    /// On stdout.
    pub(super) format: Format,
    /// To files.
    pub(super) reports: &'a [report::Wanted],
}

impl Args {
    fn output(&self) -> Output<'_> {
        Output {
            format: self.format,
            reports: &self.reports,
        }
    }
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let mut plans = match load(&args.files, named(args.profile.as_deref())) {
        Ok(plans) => plans,
        Err(mistakes) => {
            complain(mistakes.trim_end());
            return Ok(Exit::Usage);
        }
    };
    if let (Some(_), Some(_)) = (
        named(args.continued.as_deref()),
        named(args.run_id.as_deref()),
    ) {
        complain(
            "error: a run that goes on keeps its name: ask for `--continue` or for `--run-id`",
        );
        return Ok(Exit::Usage);
    }
    if let Some(name) = there_twice(&plans) {
        complain(&format!(
            "error: the cell `{name}` is in two of the specs\n  = help: rename the relay or the \
             workload in one of them, or run them one by one"
        ));
        return Ok(Exit::Usage);
    }
    let Some(run) = named(args.continued.as_deref()) else {
        let run_id = args.run_id.clone().unwrap_or_else(fresh_run_id);
        return sample(&plans, &args.dir, &run_id, &args.output(), out);
    };
    match Continuation::prepare(&mut plans, &args.dir, run, &fresh_run_id()) {
        Ok(continuation) => {
            for note in &continuation.notes {
                complain(&format!("note: {note}"));
            }
            let Continuation { runs, run_id, .. } = &continuation;
            sample(&plans, runs, run_id, &args.output(), out)
        }
        Err(error) => {
            complain(&format!("error: {}", with_causes(&error)));
            Ok(Exit::Usage)
        }
    }
}

/// The first cell whose name is another's, too: nobody could tell their verdicts apart.
fn there_twice(plans: &[Planned]) -> Option<String> {
    let mut names = std::collections::BTreeSet::new();
    let mut cells = plans.iter().flat_map(|planned| &planned.plan.cells);
    cells
        .find(|cell| !names.insert(cell.name()))
        .map(crate::plan::Cell::name)
}

/// Samples every cell of the plans, all at once, and prints what came of it.
pub(super) fn sample(
    plans: &[Planned],
    dir: &Path,
    run_id: &str,
    output: &Output<'_>,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    for warning in plans.iter().filter_map(|it| content_warning(&it.plan)) {
        complain(&format!("warning: {warning}"));
    }
    let board = Arc::new(Board::on_stderr());
    let session = match Session::start(dir, run_id, Some(Arc::clone(&board) as Arc<dyn Viewer>)) {
        Ok(session) => session,
        Err(error) => {
            complain(&format!("error: {}", with_causes(&error)));
            return Ok(Exit::NotMeasured);
        }
    };
    let settled = settle_all(&session, plans);
    board.clear();
    let (mut judged, mut unmeasured, mut is_unset) = (Vec::new(), Vec::new(), false);
    for (cell, result) in settled {
        match result {
            Ok(outcome) => judged.push(Judged::new(&outcome)),
            Err(skipped) => {
                let (ignored, reason) = match skipped {
                    Skipped::Ignored(why) => {
                        is_unset |= matches!(why, Ignored::NoKey(_));
                        (true, why.to_string())
                    }
                    Skipped::Failed(error) => (false, with_causes(&*error)),
                };
                let word = if ignored { "ignored" } else { "error" };
                complain(&format!("{word}: {cell}: {reason}"));
                unmeasured.push(Unmeasured {
                    cell,
                    ignored,
                    reason,
                });
            }
        }
    }
    if judged.is_empty() {
        complain("error: nothing was measured");
        // Other reasons say what to do themselves.
        if is_unset {
            complain("  = help: set what is not set, or give another spec");
        }
    }
    let printed = judge::print(&judged, &unmeasured, output.format, colour(), out);
    let written = report::write_all(output.reports, &judged, &unmeasured);
    // Spans are due whether or not anyone could be told the verdicts.
    let exported = session.close(TELEMETRY_BUDGET);
    for warning in &exported.warnings {
        complain(&format!("warning: {warning}"));
    }
    let exit = printed?;
    if output.format == Format::Text {
        writeln!(
            out,
            "\n{exported}, in {}",
            session.folder().path().display()
        )?;
    }
    if let Err(mistakes) = written {
        complain(mistakes.trim_end());
        return Ok(Exit::NotMeasured);
    }
    Ok(exit)
}

enum Skipped {
    Ignored(Ignored),
    Failed(Arc<CellError>),
}

type Settled = (String, Result<Arc<CellOutcome>, Skipped>);

/// Cells do not wait for each other: starts are drawn in advance, and a relay that is slow must not
/// move the times at which another one is asked.
fn settle_all(session: &Session, plans: &[Planned]) -> Vec<Settled> {
    thread::scope(|scope| {
        let mut running = Vec::new();
        for planned in plans {
            for (index, cell) in planned.plan.cells.iter().enumerate() {
                let name = cell.name();
                let work = move || {
                    if let Some(why) = crate::run::why_ignored(&planned.plan, cell) {
                        return Err(Skipped::Ignored(why));
                    }
                    session.settle(planned, index).map_err(Skipped::Failed)
                };
                running.push((name, scope.spawn(work)));
            }
        }
        running
            .into_iter()
            .map(|(name, thread)| {
                let result = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (name, result)
            })
            .collect()
    })
}

/// The profile or run that was asked for; an empty variable asks for none, as everywhere.
pub(super) fn named(name: Option<&str>) -> Option<&str> {
    name.filter(|name| !name.is_empty())
}

/// Reads and resolves spec files; every mistake of every file at once.
pub(super) fn load(files: &[PathBuf], profile: Option<&str>) -> Result<Vec<Planned>, String> {
    let mut plans = Vec::new();
    let mut mistakes = String::new();
    for path in files {
        match crate::run::load(path, profile) {
            Ok(planned) => plans.push(planned),
            Err(error) => mistakes.push_str(&error.render(colour())),
        }
    }
    if mistakes.is_empty()
        && let Some(unknown) = crate::run::unknown_profile(profile, &plans)
    {
        mistakes = unknown;
    }
    if mistakes.is_empty() {
        Ok(plans)
    } else {
        Err(mistakes)
    }
}
