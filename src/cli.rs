//! The command line: clap types, one file per command, all terminal text, exit codes.
//!
//! Computes no results: each command asks the library and prints what it says.

pub mod check;
mod collect;
mod compare;
mod completions;
mod counts;
mod demo;
mod explain;
mod export;
mod files;
mod init;
mod inspect;
mod judge;
pub mod plan;
mod probe;
mod ramp;
mod report;
mod results;
mod run;
mod schema;
mod signed;
pub mod simulate;
mod soak;
mod verify;
mod waterfall;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};

/// How the command ends; the whole list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Every objective is met (or could not be shown to be violated, where that is asked).
    Pass = 0,
    /// An objective is violated; for `probe`, any outcome but ok; for `compare`, a regression.
    Violated = 1,
    /// The command line or a spec is wrong.
    Usage = 2,
    /// Nothing is violated, something is open, and the policy says fail.
    Inconclusive = 3,
    /// Nothing could be measured (no key, no folder), or relayproof itself failed.
    NotMeasured = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[derive(Parser)]
#[command(
    name = "relayproof",
    version,
    about = "Acceptance tests for LLM API relays",
    after_help = "Exit codes: 0 pass, 1 violated, 2 usage or spec, 3 inconclusive, 4 nothing measured."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Four embedded relays, one pass, two violations, one open question; needs nothing
    Demo(demo::Args),
    /// Set a package up: spec, test target, cargo-nextest profile, CI workflow
    Init(init::Args),
    /// Sample and judge the relays of spec files
    Run(run::Args),
    /// Sample a soak: each planned call at its moment, for minutes or for days
    Collect(collect::Args),
    /// Say whether spec files are right, and every mistake if not
    Check {
        /// Spec files
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Show what a run would send and what it could prove, before anything is sent
    Plan(plan::Args),
    /// Judge evidence again, offline
    Judge(judge::Args),
    /// Write what evidence says for CI servers, pull requests and programs
    Report(report::Args),
    /// Rank relays by their evidence, or say whether one got worse
    Compare(compare::Args),
    /// Send the spans of recorded evidence to an OTLP endpoint, or write them to a file
    Export(export::Args),
    /// Say whether evidence is as it was written, and whether a trace backend holds what it says
    Verify(verify::Args),
    /// One streamed call: where its time went, what was found, whose fault
    Probe(probe::Args),
    /// Climb steps of concurrency, and say how many calls at a time a relay carries
    Ramp(ramp::Args),
    /// Serve the embedded relay on loopback
    Simulate(simulate::Args),
    /// Print completions for a shell
    Completions {
        /// Shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
    /// One recorded call: where its time went, what was found, and how to repeat it
    Inspect(inspect::Args),
    /// Write the JSON Schema of specs, for editors, or of reports, for programs
    Schema(schema::Args),
    /// Say what a metric, class, rule, reason or fault means
    Explain(explain::Args),
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON document, schema-versioned
    Json,
}

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap picks stdout for help and stderr for mistakes; a closed pipe is nobody's error.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Pass
            });
        }
    };
    let mut out = io::BufWriter::new(results::Results::new(io::stdout().lock()));
    let exit = match cli.command {
        Command::Demo(args) => demo::run(&args, &mut out),
        Command::Init(args) => init::run(&args, &mut out),
        Command::Run(args) => run::run(&args, &mut out),
        Command::Collect(args) => collect::run(&args, &mut out),
        Command::Check { files } => check::check(&files, &mut out),
        Command::Plan(args) => plan::plan(&args, &mut out),
        Command::Judge(args) => judge::run(&args, &mut out),
        Command::Report(args) => report::run(&args, &mut out),
        Command::Compare(args) => compare::run(&args, &mut out),
        Command::Export(args) => export::run(&args, &mut out),
        Command::Verify(args) => verify::run(&args, &mut out),
        Command::Probe(args) => probe::run(&args, &mut out),
        Command::Ramp(args) => ramp::run(&args, &mut out),
        Command::Simulate(args) => simulate::run(&args, &mut out),
        Command::Completions { shell } => completions::completions(shell, Cli::command(), &mut out),
        Command::Man => completions::man(Cli::command(), &mut out),
        Command::Inspect(args) => inspect::run(&args, &mut out),
        Command::Schema(args) => schema::run(&args, &mut out),
        Command::Explain(args) => explain::run(&args, &mut out),
    };
    let exit = exit.and_then(|exit| out.flush().map(|()| exit));
    match exit {
        Ok(exit) => exit.into(),
        Err(error) => {
            complain(&format!("error: cannot write the results: {error}"));
            Exit::NotMeasured.into()
        }
    }
}

/// Whether the command takes these arguments; nothing is run.
///
/// # Errors
///
/// What the command would say.
#[doc(hidden)]
pub fn understands(arguments: &[String]) -> Result<(), String> {
    let name = std::iter::once("relayproof");
    let all = name.chain(arguments.iter().map(String::as_str));
    match Cli::try_parse_from(all) {
        Err(error) if error.use_stderr() => Err(error.to_string()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether results are coloured: a terminal, unless `NO_COLOR` or `CLICOLOR_FORCE` say otherwise.
pub(crate) fn colour() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    if set("NO_COLOR") {
        return false;
    }
    let forced =
        std::env::var_os("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0");
    forced || io::stdout().is_terminal()
}

/// A line on stderr.
pub(crate) fn complain(line: &str) {
    // Nobody may be left to read it (`relayproof … 2>&1 | head`), and that changes no result.
    writeln!(io::stderr(), "{line}").ok();
}

/// An error with its causes, on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
