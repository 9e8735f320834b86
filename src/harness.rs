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
use self::specs::{Loaded, Source};
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
/// exit code too: 0, or 101 when a test failed. [`Suite`] takes specs from elsewhere.
pub fn main(specs: impl AsRef<Path>) -> ExitCode {
    Suite::new().specs(specs).main()
}

/// Specs from folders and from code, run as tests: for those who have a list of relays already and
/// do not want to write it down a second time.
///
/// ```no_run
/// /// What the rest of the crate calls its relays by.
/// const RELAYS: [(&str, &str); 2] = [
///     ("alpha", "https://api.alpha.example/v1"),
///     ("beta", "https://beta.example/v1"),
/// ];
///
/// fn main() -> std::process::ExitCode {
///     let mut spec = "relayproof: 1\nrelays:\n".to_owned();
///     for (name, base_url) in RELAYS {
///         let key = format!("{}_KEY", name.to_uppercase());
///         spec += &format!(
///             "  - {{ name: {name}, base_url: {base_url}, api_key: {{ env: {key} }}, models: [m] }}\n"
///         );
///     }
///     spec += "slos: [ttft.p95 < 1.5s, interruption < 5%]\n";
///     relayproof::Suite::new()
///         .specs("specs")
///         .spec_text("our relays", spec)
///         .main()
/// }
/// ```
///
/// The same program has to make the same specs each time: cargo-nextest starts it once for each
/// test, and the tests of a cell meet by what their specs say.
#[derive(Clone, Debug, Default)]
#[must_use = "a suite does nothing before its `main`"]
pub struct Suite {
    sources: Vec<Source>,
}

impl Suite {
    /// A suite without specs, which is no pass.
    pub const fn new() -> Self {
        Self {
            sources: Vec::new(),
        }
    }

    /// Adds every spec (`*.yaml`, `*.yml`) of a folder, relative to the package.
    pub fn specs(mut self, folder: impl AsRef<Path>) -> Self {
        self.sources
            .push(Source::Folder(folder.as_ref().to_owned()));
        self
    }

    /// Adds a spec by its text; mistakes in it are shown under `name`, and its relative paths start
    /// at the package.
    pub fn spec_text(mut self, name: impl Into<String>, yaml: impl Into<String>) -> Self {
        self.sources.push(Source::Text {
            name: name.into(),
            text: yaml.into(),
        });
        self
    }

    /// Runs the suite as the whole `main` of a test target, as [`main`] does with one folder.
    pub fn main(self) -> ExitCode {
        run(&self.sources, Arguments::from_args())
    }
}

fn run(sources: &[Source], arguments: Arguments) -> ExitCode {
    let mut settings = Settings::from_process(&arguments);
    let mut loaded = match specs::load(&settings.package, sources, settings.profile.as_deref()) {
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
