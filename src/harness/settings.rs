//! What the process says about this run: package, run id, profile, runner.

use std::env;
use std::io::IsTerminal;
use std::path::PathBuf;

use libtest_mimic::{Arguments, ColorSetting};

use crate::run::fresh_run_id;

/// Settings of one test process.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// The package under test.
    pub(super) package: PathBuf,
    /// Folder of all runs.
    pub(super) runs: PathBuf,
    /// Name of this run.
    pub(super) run_id: String,
    /// Run that is to go on, by its folder or its name.
    pub(super) continued: Option<String>,
    /// Name of this going-on; the processes of one run of nextest have the same.
    pub(super) session: String,
    /// Overlay of the specs.
    pub(super) profile: Option<String>,
    /// Whether failure texts are coloured.
    pub(super) colour: bool,
    /// Whether ignored tests must be marked in the list: cargo-nextest takes a test that says
    /// "ignored" only when it runs for a pass.
    pub(super) mark_ignored: bool,
    /// Whether the user asked to run what the spec ignores.
    pub(super) run_ignored: bool,
}

impl Settings {
    /// Reads environment and command line.
    pub(super) fn from_process(arguments: &Arguments) -> Self {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
        let runs = match env::var_os("RELAYPROOF_DIR") {
            Some(folder) => package.join(folder),
            None => target_folder(&package).join("relayproof"),
        };
        let under_nextest = variable("NEXTEST").is_some();
        let run_ignored = arguments.ignored || arguments.include_ignored;
        Self {
            package,
            runs,
            run_id: variable("RELAYPROOF_RUN_ID")
                .or_else(|| variable("NEXTEST_RUN_ID"))
                .unwrap_or_else(fresh_run_id),
            continued: variable("RELAYPROOF_CONTINUE"),
            session: variable("NEXTEST_RUN_ID").unwrap_or_else(fresh_run_id),
            profile: variable("RELAYPROOF_PROFILE"),
            colour: colour(arguments, &variable),
            mark_ignored: under_nextest || arguments.list || run_ignored,
            run_ignored,
        }
    }
}

/// The target folder of the running test binary (`…/target/debug/deps/acceptance-…`), which also
/// knows about `CARGO_TARGET_DIR` and workspaces; `target` beside the manifest where it cannot be
/// told.
fn target_folder(package: &std::path::Path) -> PathBuf {
    let from_binary = env::current_exe().ok().and_then(|exe| {
        let deps = exe.parent()?;
        if deps.file_name()? != "deps" {
            return None;
        }
        Some(deps.parent()?.parent()?.to_owned())
    });
    from_binary.unwrap_or_else(|| package.join("target"))
}

fn colour(arguments: &Arguments, variable: &dyn Fn(&str) -> Option<String>) -> bool {
    match arguments.color {
        Some(ColorSetting::Always) => true,
        Some(ColorSetting::Never) => false,
        Some(ColorSetting::Auto) | None => {
            if variable("NO_COLOR").is_some() {
                return false;
            }
            variable("CLICOLOR_FORCE").is_some_and(|value| value != "0")
                || std::io::stdout().is_terminal()
        }
    }
}
