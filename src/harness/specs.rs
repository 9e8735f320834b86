//! Spec files of a folder, parsed and resolved; every mistake of every file at once.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::plan;
use crate::run::{self, LoadError, Planned};

/// All specs of a folder, resolved, in the order of their file names.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) plans: Vec<Planned>,
}

/// What is wrong with the specs.
#[derive(Debug)]
pub(super) struct Mistakes(Vec<Mistake>);

#[derive(Debug)]
enum Mistake {
    Spec(LoadError),
    Folder(PathBuf, io::Error),
    NoSpecs(PathBuf),
    Profile(String),
    SameTest(String, PathBuf),
}

impl Mistakes {
    /// The text for a person.
    pub(super) fn render(&self, colour: bool) -> String {
        let mut text = String::new();
        for mistake in &self.0 {
            let words = match mistake {
                Mistake::Spec(errors) => errors.render(colour),
                Mistake::Folder(path, error) => format!(
                    "error: cannot read the folder {}: {error}\n  = help: specs are looked for there; \
                     give `relayproof::main` the right folder, relative to the package\n",
                    path.display()
                ),
                Mistake::Profile(words) => words.clone(),
                Mistake::NoSpecs(folder) => format!(
                    "error: no spec found in {}\n  = help: put a file that ends in .yaml there, or \
                     give `relayproof::main` another folder\n",
                    folder.display()
                ),
                Mistake::SameTest(name, path) => format!(
                    "error: the test `{name}` of {} is there already\n  = help: rename the relay or \
                     the workload in one of the two specs; tests are told apart by their names\n",
                    path.display()
                ),
            };
            text.push_str(&words);
        }
        text
    }
}

/// Reads all specs of `folder`.
pub(super) fn load(folder: &Path, profile: Option<&str>) -> Result<Loaded, Mistakes> {
    let mut mistakes = Vec::new();
    let mut plans: Vec<Planned> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    let files = match spec_files(folder) {
        Ok(files) => files,
        Err(error) => return Err(Mistakes(vec![Mistake::Folder(folder.to_owned(), error)])),
    };
    for path in &files {
        match run::load(path, profile) {
            Ok(planned) => {
                let clash = planned
                    .plan
                    .cells
                    .iter()
                    .flat_map(|cell| {
                        cell.objectives
                            .iter()
                            .map(|objective| test_name(cell, objective))
                    })
                    .find(|name| !names.insert(name.clone()));
                if let Some(name) = clash {
                    mistakes.push(Mistake::SameTest(name, path.clone()));
                }
                plans.push(planned);
            }
            Err(error) => mistakes.push(Mistake::Spec(error)),
        }
    }
    if files.is_empty() {
        mistakes.push(Mistake::NoSpecs(folder.to_owned()));
    }
    if mistakes.is_empty()
        && let Some(unknown) = run::unknown_profile(profile, &plans)
    {
        mistakes.push(Mistake::Profile(unknown));
    }
    if mistakes.is_empty() {
        Ok(Loaded { plans })
    } else {
        Err(Mistakes(mistakes))
    }
}

/// `relay/model/workload/objective`.
pub(super) fn test_name(
    cell: &plan::Cell,
    objective: &crate::spec::objective::Objective,
) -> String {
    format!("{}/{}", cell.name(), objective.text)
}

fn spec_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_spec = path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml");
        if is_spec && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
