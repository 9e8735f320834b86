//! Spec files of folders and specs made in code, parsed and resolved; every mistake at once.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::plan;
use crate::run::{self, LoadError, Planned};

/// Where specs come from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The files of a folder, relative to the package.
    Folder(PathBuf),
    /// A text that the test's own code has made, and what mistakes in it are shown under.
    Text {
        /// Name.
        name: String,
        /// YAML.
        text: String,
    },
}

/// All specs, resolved, in the order of their sources and of the file names of a folder.
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
    Nothing,
    Profile(String),
    SameTest(String, String),
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
                Mistake::Nothing => {
                    "error: there is no spec to test by\n  = help: give the suite a \
                                     folder with `specs` or a text with `spec_text`\n"
                        .to_owned()
                }
                Mistake::SameTest(name, source) => format!(
                    "error: the test `{name}` of {source} is there already\n  = help: rename the \
                     relay or the workload in one of the two specs; tests are told apart by their \
                     names\n"
                ),
            };
            text.push_str(&words);
        }
        text
    }
}

/// Reads all specs of all sources; `package` is where relative paths start.
pub(super) fn load(
    package: &Path,
    sources: &[Source],
    profile: Option<&str>,
) -> Result<Loaded, Mistakes> {
    let mut loading = Loading::default();
    for source in sources {
        match source {
            Source::Folder(folder) => loading.folder(&package.join(folder), profile),
            Source::Text { name, text } => {
                loading.add(name, run::plan_text(name, text, package, profile));
            }
        }
    }
    let Loading {
        mut mistakes,
        plans,
        ..
    } = loading;
    if mistakes.is_empty() && plans.is_empty() {
        mistakes.push(Mistake::Nothing);
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

/// What has been read so far.
#[derive(Default)]
struct Loading {
    mistakes: Vec<Mistake>,
    plans: Vec<Planned>,
    names: BTreeSet<String>,
}

impl Loading {
    fn folder(&mut self, folder: &Path, profile: Option<&str>) {
        match spec_files(folder) {
            Err(error) => self
                .mistakes
                .push(Mistake::Folder(folder.to_owned(), error)),
            Ok(files) if files.is_empty() => {
                self.mistakes.push(Mistake::NoSpecs(folder.to_owned()));
            }
            Ok(files) => {
                for path in files {
                    self.add(&path.display().to_string(), run::load(&path, profile));
                }
            }
        }
    }

    fn add(&mut self, source: &str, planned: Result<Planned, LoadError>) {
        let planned = match planned {
            Ok(planned) => planned,
            Err(error) => return self.mistakes.push(Mistake::Spec(error)),
        };
        let clash = planned
            .plan
            .cells
            .iter()
            .flat_map(|cell| {
                let objectives = cell.objectives.iter();
                objectives.map(|objective| test_name(cell, objective))
            })
            .find(|name| !self.names.insert(name.clone()));
        if let Some(name) = clash {
            self.mistakes
                .push(Mistake::SameTest(name, source.to_owned()));
        }
        self.plans.push(planned);
    }
}

/// `relay/model/workload/objective`.
pub(super) fn test_name(cell: &plan::Cell, objective: &crate::objective::Objective) -> String {
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
