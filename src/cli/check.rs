//! `relayproof check FILE…`: whether spec files are right, and every mistake if not.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cli::{Exit, colour};
use crate::resolve::resolve;
use crate::run;
use crate::spec::{self, SpecErrors};
use crate::words::counted;

/// Checks all files, says `ok` for each right one and every mistake of the others.
///
/// # Errors
///
/// When the results cannot be written.
pub fn check(files: &[PathBuf], out: &mut dyn Write) -> io::Result<Exit> {
    let mut exit = Exit::Pass;
    for file in files {
        match read(file) {
            Ok(facts) => writeln!(out, "ok  {}: {facts}", file.display())?,
            Err(mistake) => {
                exit = Exit::Usage;
                writeln!(out, "{}", mistake.trim_end())?;
                writeln!(out)?;
            }
        }
    }
    Ok(exit)
}

/// What a right file holds, or what is wrong with it.
fn read(file: &Path) -> Result<String, String> {
    let text = text(file)?;
    let shown = |errors: SpecErrors| {
        format!(
            "{}\nerror: {} has {}",
            errors.render(colour()),
            file.display(),
            counted(errors.count() as u64, "mistake")
        )
    };
    let spec = parse(file, &text).map_err(shown)?;
    let mut cells = 0;
    let mut objectives = 0;
    // Each profile is a spec of its own, and may ask for what the file as such does not.
    for profile in std::iter::once(None).chain(spec.profiles().map(Some)) {
        let plan = resolve(&spec, profile).map_err(shown)?;
        if profile.is_none() {
            cells = plan.cells.len();
            objectives = plan.cells.first().map_or(0, |cell| cell.objectives.len());
        }
    }
    let profiles: Vec<&str> = spec.profiles().collect();
    let mut facts = format!(
        "{}, {} each",
        counted(cells as u64, "cell"),
        counted(objectives as u64, "objective")
    );
    if !profiles.is_empty() {
        facts.push_str(&format!(", profiles {}", profiles.join(" ")));
    }
    Ok(facts)
}

/// The text of a spec file, or why there is none.
pub(super) fn text(file: &Path) -> Result<String, String> {
    run::read(file).map_err(|error| error.render(colour()).trim_end().to_owned())
}

/// Reads a spec with the process's environment.
pub(super) fn parse(file: &Path, text: &str) -> Result<spec::Spec, SpecErrors> {
    let lookup = |name: &str| std::env::var(name).ok();
    spec::parse(&file.display().to_string(), text, &lookup)
}
