//! `relayproof ramp`: climb steps of concurrency and say how much a relay carries.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Exit, Format, complain, files, results, run, with_causes};
use crate::compare::ramp::{Bend, Knee, Step, knee};
use crate::evidence::CloseReason;
use crate::plan::{self, Cell, Plan, budget};
use crate::progress::Board;
use crate::report::ramp::{Climb, json, text};
use crate::run::{Planned, content_warning, fresh_run_id, why_ignored};
use crate::session::{Session, Viewer};
use crate::spec::{self, MOST_STREAMS};
use crate::words::{did_you_mean, listed};

/// How long telemetry may take at the end.
const TELEMETRY_BUDGET: Duration = Duration::from_secs(5);
/// Calls of a step for each of its streams, at least: fewer would show its beginning and end alone.
const ROUNDS: u64 = 4;
/// Most calls of a step that is bounded by time: a relay that refuses at once is asked no more.
const MOST_CALLS: u64 = 10_000;
/// Most steps.
const MOST_STEPS: usize = 64;

/// Arguments of `ramp`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Spec file
    file: PathBuf,
    /// Only this relay
    #[arg(long, value_name = "NAME")]
    relay: Option<String>,
    /// Calls held open, step by step
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N,N…",
        default_value = "1,2,4,8,16,32"
    )]
    steps: Vec<u32>,
    /// Calls of a step, at least four for each stream
    #[arg(
        long,
        value_name = "N",
        default_value_t = 40,
        conflicts_with = "step_duration"
    )]
    per_step: u64,
    /// Length of a step instead, like 20s
    #[arg(long, value_name = "D", value_parser = spec::duration)]
    step_duration: Option<Duration>,
    /// Overlay of the spec
    #[arg(long, env = "RELAYPROOF_PROFILE")]
    profile: Option<String>,
    /// Folder that gets a folder per run
    #[arg(long, env = "RELAYPROOF_DIR", default_value_os_t = files::runs())]
    dir: PathBuf,
    /// Name of the run
    #[arg(long, env = "RELAYPROOF_RUN_ID")]
    run_id: Option<String>,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let asked = check(args).and_then(|()| {
        let files = std::slice::from_ref(&args.file);
        let mut plans = run::load(files, run::named(args.profile.as_deref()))?;
        let planned = plans.pop().ok_or_else(String::new)?;
        let cells = cells(&planned.plan, args.relay.as_deref())?;
        Ok((planned, cells))
    });
    let (planned, cells) = match asked {
        Ok(asked) => asked,
        Err(mistake) => {
            complain(mistake.trim_end());
            return Ok(Exit::Usage);
        }
    };
    if let Some(warning) = content_warning(&planned.plan) {
        complain(&format!("warning: {warning}"));
    }
    let board = Arc::new(Board::on_stderr());
    let run_id = args.run_id.clone().unwrap_or_else(fresh_run_id);
    let viewer = Arc::clone(&board) as Arc<dyn Viewer>;
    let session = match Session::start(&args.dir, &run_id, Some(viewer)) {
        Ok(session) => session,
        Err(error) => {
            complain(&format!("error: {}", with_causes(&error)));
            return Ok(Exit::NotMeasured);
        }
    };
    let mut purse = Purse::of(&planned.plan);
    // One after the other: relays that share an upstream or this machine would load each other.
    let (mut climbs, mut failed) = (Vec::new(), false);
    for cell in &cells {
        let (climb, halt) = climb(args, &planned, cell, &session, &mut purse);
        match halt.filter(|_| climb.steps.is_empty()) {
            Some(Halt::Ignored(why)) => {
                complain(&format!("ignored: {}: {why}", climb.cell));
                continue;
            }
            Some(halt @ (Halt::Failed(_) | Halt::Limits(_) | Halt::Interrupted)) => {
                failed |= matches!(halt, Halt::Failed(_));
                complain(&format!("error: {}: {halt}", climb.cell));
            }
            Some(Halt::Broken(_) | Halt::Ours) | None => {}
        }
        climbs.push(climb);
    }
    board.clear();
    if climbs.iter().all(|climb| climb.steps.is_empty()) {
        complain("error: nothing was measured");
        failed = true;
    }
    let printed = print(args, &session, &climbs, out);
    let exported = session.close(TELEMETRY_BUDGET);
    for warning in &exported.warnings {
        complain(&format!("warning: {warning}"));
    }
    printed?;
    if args.format == Format::Text {
        let folder = session.folder().path().display();
        writeln!(out, "\n{exported}, in {folder}")?;
        if exit(&climbs) == Exit::Violated {
            writeln!(
                out,
                "what went wrong, and whom to look at: relayproof judge {folder}"
            )?;
        }
    }
    Ok(if failed {
        Exit::NotMeasured
    } else {
        exit(&climbs)
    })
}

fn print(args: &Args, session: &Session, climbs: &[Climb], out: &mut dyn Write) -> io::Result<()> {
    if args.format == Format::Json {
        return results::json(&json(session.folder().id(), climbs), out);
    }
    for (place, climb) in climbs.iter().enumerate() {
        let gap = if place > 0 { "\n" } else { "" };
        write!(out, "{gap}{}", results::printable(&text(climb)))?;
    }
    Ok(())
}

/// How the climbs end together.
fn exit(climbs: &[Climb]) -> Exit {
    let not_one = |knee: &Knee| knee.streams.is_none() && matches!(knee.bend, Bend::Broken { .. });
    if climbs
        .iter()
        .any(|climb| climb.knee.as_ref().is_some_and(not_one))
    {
        Exit::Violated
    } else if climbs
        .iter()
        .any(|climb| climb.knee.is_none() && climb.stopped.is_some())
    {
        Exit::Inconclusive
    } else {
        Exit::Pass
    }
}

/// What no spec can make right.
fn check(args: &Args) -> Result<(), String> {
    let wrong = |why: &str, help: &str| Err(format!("error: {why}\n  = help: {help}"));
    let rising = args.steps.windows(2).all(|pair| pair[0] < pair[1]);
    let within = args.steps.iter().all(|it| (1..=MOST_STREAMS).contains(it));
    if !rising || !within || args.steps.len() > MOST_STEPS {
        return wrong(
            &format!("`--steps` climbs from 1 to {MOST_STREAMS} streams at most"),
            &format!("write up to {MOST_STEPS} rising numbers, like `--steps 1,2,4,8`"),
        );
    }
    if !(1..=MOST_CALLS).contains(&args.per_step) {
        return wrong(
            &format!("a step has 1 to {MOST_CALLS} calls"),
            "write a number like `--per-step 100`",
        );
    }
    Ok(())
}

/// The cells to climb with.
fn cells(plan: &Plan, relay: Option<&str>) -> Result<Vec<Cell>, String> {
    let Some(wanted) = relay else {
        return Ok(plan.cells.clone());
    };
    let own = plan.cells.iter().filter(|cell| cell.relay.name == wanted);
    let own: Vec<Cell> = own.cloned().collect();
    if !own.is_empty() {
        return Ok(own);
    }
    let names = || plan.cells.iter().map(|cell| cell.relay.name.as_str());
    let help = match did_you_mean(wanted, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let mut all: Vec<&str> = names().collect();
            all.dedup();
            format!("its relays are {}", listed(all.into_iter()))
        }
    };
    Err(format!(
        "error: no relay `{wanted}` in {}\n  = help: {help}",
        plan.source
    ))
}

/// What ends a climb before its last step.
#[derive(Debug)]
enum Halt {
    /// Ctrl-C.
    Interrupted,
    /// A promise that is shown to be broken, as written.
    Broken(String),
    /// A limit of the spec.
    Limits(String),
    /// The step before says nothing of the relay.
    Ours,
    /// The spec or the environment says that the cell is not for this run.
    Ignored(String),
    /// Our own failure, or a setting of the user's.
    Failed(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Broken(objective) => write!(f, "`{objective}` is broken"),
            Self::Ours => f.write_str("the step before failed on our side"),
            Self::Limits(why) | Self::Ignored(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Climbs until a promise is broken, the last step is taken, or something ends it.
fn climb(
    args: &Args,
    planned: &Planned,
    cell: &Cell,
    session: &Session,
    purse: &mut Purse,
) -> (Climb, Option<Halt>) {
    let mut steps: Vec<Step> = Vec::new();
    let mut halt = None;
    for streams in args.steps.iter().copied() {
        if halt.is_some() {
            break;
        }
        match step(args, planned, cell, streams, session, purse) {
            Ok(step) => {
                halt = ended_by(&step);
                steps.push(step);
            }
            Err(why) => halt = Some(why),
        }
    }
    // Nothing was left out after the last step.
    let through = steps.len() == args.steps.len() && matches!(halt, Some(Halt::Broken(_)));
    let climb = Climb {
        cell: cell.name(),
        knee: knee(&steps),
        steps,
        stopped: halt.as_ref().filter(|_| !through).map(ToString::to_string),
    };
    (climb, halt)
}

/// Why the climb ends with this step, where it does.
fn ended_by(step: &Step) -> Option<Halt> {
    if step.ended == Some(CloseReason::Interrupted) {
        return Some(Halt::Interrupted);
    }
    if step.invalid.is_some() || step.ended == Some(CloseReason::Failed) {
        return Some(Halt::Ours);
    }
    let broken = step.broken()?;
    Some(Halt::Broken(broken.objective.text.clone()))
}

/// Takes one step, unless something is in its way.
fn step(
    args: &Args,
    planned: &Planned,
    cell: &Cell,
    streams: u32,
    session: &Session,
    purse: &mut Purse,
) -> Result<Step, Halt> {
    if session.is_cancelled() {
        return Err(Halt::Interrupted);
    }
    let calls = match args.step_duration {
        Some(_) => MOST_CALLS.min(purse.calls(cell)),
        None => args.per_step.max(ROUNDS * u64::from(streams)),
    };
    let asked = plan::Step {
        streams,
        calls,
        time: args.step_duration,
    };
    let plan = planned.plan.at_step(cell, asked);
    let ignored = plan.cells.first().and_then(|cell| why_ignored(&plan, cell));
    if let Some(why) = ignored {
        return Err(Halt::Ignored(why.to_string()));
    }
    purse.has(cell, calls.max(streams.into()))?;
    let planned = Planned::new(plan, &planned.base, Vec::new());
    let outcome = session
        .settle(&planned, 0)
        .map_err(|error| Halt::Failed(with_causes(&*error)))?;
    let step = Step::of(&outcome.evidence);
    purse.pay(cell, step.calls + step.abandoned);
    Ok(step)
}

/// What the spec's limits leave: each call is counted as the most that it can use.
struct Purse {
    tokens: Option<u64>,
    usd: Option<f64>,
}

impl Purse {
    fn of(plan: &Plan) -> Self {
        Self {
            tokens: plan.sampling.max_tokens,
            usd: plan.sampling.max_cost_usd,
        }
    }

    /// Calls that there is enough for.
    fn calls(&self, cell: &Cell) -> u64 {
        let by_tokens = self.tokens.map_or(u64::MAX, |left| {
            left / budget::tokens_per_call(&cell.workload).max(1)
        });
        let by_cost = match (self.usd, budget::cost_of(cell, 1)) {
            (Some(left), Some(price)) if price > 0.0 => crate::stats::count((left / price).floor()),
            (Some(_) | None, _) => u64::MAX,
        };
        by_tokens.min(by_cost)
    }

    fn has(&self, cell: &Cell, calls: u64) -> Result<(), Halt> {
        let affordable = self.calls(cell);
        if calls <= affordable {
            return Ok(());
        }
        Err(Halt::Limits(format!(
            "the limits of the spec leave {affordable} calls, and the next step takes {calls}; \
             raise `sampling.limits`, or lower `--per-step` or `--steps`"
        )))
    }

    fn pay(&mut self, cell: &Cell, calls: u64) {
        let used = budget::tokens_per_call(&cell.workload).saturating_mul(calls);
        self.tokens = self.tokens.map(|left| left.saturating_sub(used));
        let cost = budget::cost_of(cell, calls).unwrap_or(0.0);
        self.usd = self.usd.map(|left| (left - cost).max(0.0));
    }
}
