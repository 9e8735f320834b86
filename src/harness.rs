//! `cargo test`: spec files become trials, one per objective and cell.
//!
//! The trials of a cell share one set of samples, inside this process and across processes
//! (cargo-nextest). Knows nothing of the YAML grammar and computes no statistics.

mod settings;
mod specs;
mod trials;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::Arguments;

use self::settings::Settings;
use self::specs::Loaded;
use self::trials::Session;
use crate::run::{Continuation, ContinueError, content_warning};

/// How long telemetry may take at the end.
const TELEMETRY_BUDGET: Duration = Duration::from_secs(5);

/// Exit code of libtest for a failed run.
const FAILED: u8 = 101;

/// Runs every spec (`*.yaml`, `*.yml`) of a folder as tests; `specs` is relative to the package.
///
/// This is the whole `main` of a test target with `harness = false`:
///
/// ```no_run
/// fn main() -> std::process::ExitCode {
///     relayproof::main("specs")
/// }
/// ```
///
/// The command line is libtest's (`--list`, `--exact`, filters, `--ignored`, `--format json`), the
/// exit code too: 0, or 101 when a test failed.
pub fn main(specs: impl AsRef<Path>) -> ExitCode {
    run(specs.as_ref(), Arguments::from_args())
}

fn run(specs: &Path, arguments: Arguments) -> ExitCode {
    let mut settings = Settings::from_process(&arguments);
    let mut loaded = match specs::load(&settings.package.join(specs), settings.profile.as_deref()) {
        Ok(loaded) => loaded,
        Err(mistakes) => {
            say(&mistakes.render(settings.colour));
            return ExitCode::from(FAILED);
        }
    };
    if arguments.list {
        return libtest_mimic::run(&arguments, trials::listed(&loaded, &settings)).exit_code();
    }
    if let Err(error) = go_on(&mut loaded, &mut settings) {
        say(&format!("error: {error}\n"));
        return ExitCode::from(FAILED);
    }
    sample_and_judge(loaded, settings, &arguments)
}

/// Makes the specs go on with a run that is over, where one is named.
fn go_on(loaded: &mut Loaded, settings: &mut Settings) -> Result<(), ContinueError> {
    let Some(given) = &settings.continued else {
        return Ok(());
    };
    // Relative to the package, as the folder of all runs is.
    let beside = settings.package.join(given);
    let given = if beside.is_dir() {
        beside.to_string_lossy().into_owned()
    } else {
        given.clone()
    };
    let (plans, runs) = (&mut loaded.plans, &settings.runs);
    let continuation = Continuation::prepare(plans, runs, &given, &settings.session)?;
    for note in &continuation.notes {
        say(&format!("note: {note}\n"));
    }
    settings.runs = continuation.runs;
    settings.run_id = continuation.run_id;
    Ok(())
}

fn sample_and_judge(loaded: Loaded, settings: Settings, arguments: &Arguments) -> ExitCode {
    for warning in loaded
        .plans
        .iter()
        .filter_map(|it| content_warning(&it.plan))
    {
        say(&format!("warning: {warning}\n"));
    }
    let session = Arc::new(Session::new(loaded, settings));
    let conclusion = libtest_mimic::run(arguments, Session::trials(&session));
    let closing = session.close(TELEMETRY_BUDGET);
    if closing_goes_to_stdout(arguments) {
        print(&closing);
    } else {
        say(&closing);
    }
    conclusion.exit_code()
}

/// Machine-readable output keeps stdout to itself.
fn closing_goes_to_stdout(arguments: &Arguments) -> bool {
    use libtest_mimic::FormatSetting;
    !matches!(arguments.format, Some(FormatSetting::Json))
}

/// The harness's own closing words. Nobody may be left to read them, which changes no result.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .ok();
}

/// The harness's own errors.
fn say(text: &str) {
    io::stderr().write_all(text.as_bytes()).ok();
}
