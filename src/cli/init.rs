//! `relayproof init`: the files that a package needs to test a relay, here and in CI.
//!
//! Everything is read and decided before the first file is written; what is there stays.

mod changes;
mod manifest;
mod place;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use self::changes::{Change, Fate, FileError};
use self::manifest::{Edited, Source, Unusable, Wanted};
use self::place::{Place, relative, with_slashes};
use super::{Exit, complain, with_causes};

const RELAY: &str = include_str!("init/relay.yaml");
const EMBEDDED: &str = include_str!("init/embedded.yaml");
const ACCEPTANCE: &str = include_str!("init/acceptance.rs.txt");
const NEXTEST: &str = include_str!("init/nextest.toml");
const GITHUB: &str = include_str!("init/github.yml");
const GITLAB: &str = include_str!("init/gitlab.yml");

/// What a test file of ours has in it.
const OUR_MAIN: &str = "relayproof::";

/// Arguments of `init`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Write a workflow for this CI service as well
    #[arg(long, value_enum)]
    ci: Option<Service>,
    /// Folder of the package
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Name of the test target
    #[arg(long, default_value = "acceptance", value_name = "NAME", value_parser = target_name)]
    test: String,
    /// Take relayproof from a folder (a clone) instead of a registry
    #[arg(long, value_name = "PATH", conflicts_with = "relayproof_git")]
    relayproof_path: Option<PathBuf>,
    /// Take relayproof from a git repository instead of a registry
    #[arg(long, value_name = "URL")]
    relayproof_git: Option<String>,
    /// Only the specs; needs no package
    #[arg(long, conflicts_with_all = ["ci", "relayproof_path", "relayproof_git"])]
    spec_only: bool,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// Say what would become of each file, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// A CI service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Service {
    /// .github/workflows/relayproof.yml
    Github,
    /// .gitlab-ci.yml, or a file to include where there is one
    Gitlab,
}

fn target_name(text: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.len() <= 64 && text.chars().all(fine) {
        Ok(text.to_owned())
    } else {
        Err("a target's name has letters, digits, `_` and `-`".to_owned())
    }
}

/// Why nothing was written.
enum Refusal {
    /// The user's mistake, and a way out.
    Mistake(String, String),
    /// A file that cannot be read or written.
    File(FileError),
}

impl From<FileError> for Refusal {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

/// All that is to be done, and what is left to the user.
struct Work {
    root: PathBuf,
    changes: Vec<Change>,
    /// Lines to add by hand, each with the file that they belong to.
    by_hand: Vec<(String, String)>,
    notes: Vec<String>,
    next: Vec<String>,
}

/// Makes the files, or says what would be made.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    let work = match work(args) {
        Ok(work) => work,
        Err(refusal) => return Ok(refuse(&refusal)),
    };
    if !args.dry_run
        && let Err(error) = changes::write(&work.changes)
    {
        return Ok(refuse(&Refusal::File(error)));
    }
    work.print(args.dry_run, out)?;
    Ok(Exit::Pass)
}

fn refuse(refusal: &Refusal) -> Exit {
    match refusal {
        Refusal::Mistake(what, help) => {
            complain(&format!("error: {what}\n  = help: {help}"));
            Exit::Usage
        }
        Refusal::File(error) => {
            complain(&format!(
                "error: {}; nothing was changed",
                with_causes(error)
            ));
            Exit::NotMeasured
        }
    }
}

fn work(args: &Args) -> Result<Work, Refusal> {
    let folder = args.dir.canonicalize().map_err(|error| {
        Refusal::Mistake(
            format!("cannot use the folder {}: {error}", args.dir.display()),
            "`--dir` names the folder of a package".to_owned(),
        )
    })?;
    if args.spec_only {
        return specs_alone(&folder, args.force);
    }
    let manifest_path = folder.join("Cargo.toml");
    let manifest = match fs::read_to_string(&manifest_path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Refusal::Mistake(
                format!("there is no Cargo package in {}", args.dir.display()),
                "make one with `cargo init --lib`, name its folder with `--dir`, or use \
                 `--spec-only` and `relayproof run`"
                    .to_owned(),
            ));
        }
        Err(error) => {
            let path = manifest_path.display();
            return Err(Refusal::Mistake(
                format!("cannot read {path}: {error}"),
                "it has to be a readable text in UTF-8".to_owned(),
            ));
        }
    };
    for_package(args, &folder, &manifest_path, &manifest)
}

fn specs_alone(folder: &Path, force: bool) -> Result<Work, Refusal> {
    Ok(Work {
        root: folder.to_owned(),
        changes: specs(folder, force)?,
        by_hand: Vec::new(),
        notes: Vec::new(),
        next: vec![
            "relayproof run specs/embedded.yaml      # the embedded relay: passes".to_owned(),
            "export RELAYPROOF_BASE_URL=… RELAYPROOF_API_KEY=…".to_owned(),
            "relayproof plan specs/relay.yaml        # what your relay would be sent".to_owned(),
            "relayproof run specs/relay.yaml".to_owned(),
        ],
    })
}

fn for_package(
    args: &Args,
    folder: &Path,
    manifest_path: &Path,
    manifest: &str,
) -> Result<Work, Refusal> {
    let unusable = |error| unusable(&error, args);
    let package = manifest::package_name(manifest).map_err(unusable)?;
    let wanted = Wanted {
        source: source(args, folder)?,
        named: args.relayproof_path.is_some() || args.relayproof_git.is_some(),
        test: &args.test,
    };
    let edited = manifest::edit(manifest, &wanted).map_err(unusable)?;
    let place = Place::of(folder);
    let mut work = Work {
        root: place.repository.clone(),
        changes: specs(folder, args.force)?,
        by_hand: Vec::new(),
        notes: Vec::new(),
        next: Vec::new(),
    };
    work.changes.push(test_file(args, folder)?);
    work.manifest(edited, manifest_path, &wanted);
    work.nextest(args, &place, &package)?;
    match args.ci {
        Some(Service::Github) => work.github(args, &place, &package)?,
        Some(Service::Gitlab) => work.gitlab(args, &place, &package)?,
        None => {}
    }
    if wanted.source == Source::Version
        && work
            .changes
            .iter()
            .any(|change| change.writes(manifest_path))
    {
        work.notes.push(
            concat!(
                "relayproof ",
                env!("CARGO_PKG_VERSION"),
                " is not released yet: until it is, have Cargo take it from a clone with \
                 `relayproof init --relayproof-path CLONE`, or with `--relayproof-git URL`"
            )
            .to_owned(),
        );
    }
    let arguments = cargo_arguments(args, &place, &package);
    work.next = vec![
        format!("cargo test {arguments}"),
        format!("cargo nextest run --profile relay {arguments}"),
        "export RELAYPROOF_BASE_URL=… RELAYPROOF_API_KEY=…    # for your relay, and once more"
            .to_owned(),
    ];
    if args.ci.is_none() {
        let hint = "relayproof init --ci github    # or gitlab: the workflow";
        work.next.push(hint.to_owned());
    }
    Ok(work)
}

fn unusable(error: &Unusable, args: &Args) -> Refusal {
    let folder = args.dir.display();
    let (what, help) = match error {
        Unusable::Toml(words) => (
            format!("{folder}/Cargo.toml is no TOML\n{}", words.trim_end()),
            "`cargo metadata` has to be able to read it".to_owned(),
        ),
        Unusable::NoPackage => (
            format!("{folder}/Cargo.toml has no package"),
            "at the root of a workspace, name the folder of a member with `--dir`".to_owned(),
        ),
        Unusable::TestTaken => (
            format!(
                "{folder}/Cargo.toml has a test `{}` that is not `harness = false`",
                args.test
            ),
            "give the acceptance tests another name with `--test NAME`".to_owned(),
        ),
    };
    Refusal::Mistake(what, help)
}

/// Where Cargo finds relayproof, as the manifest has to say it.
fn source(args: &Args, folder: &Path) -> Result<Source, Refusal> {
    if let Some(url) = &args.relayproof_git {
        return Ok(Source::Git(url.clone()));
    }
    let Some(path) = &args.relayproof_path else {
        return Ok(Source::Version);
    };
    let manifest = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
    let is_ours = manifest::package_name(&manifest).is_ok_and(|name| name == "relayproof");
    match path.canonicalize() {
        Ok(whole) if is_ours => Ok(Source::Path(if path.is_absolute() {
            with_slashes(path)
        } else {
            with_slashes(&relative(folder, &whole))
        })),
        Ok(_) | Err(_) => Err(Refusal::Mistake(
            format!("{} is not relayproof's folder", path.display()),
            "`--relayproof-path` names a clone: the folder with its Cargo.toml".to_owned(),
        )),
    }
}

/// The specs; none where there are some, for they are tests already.
fn specs(folder: &Path, force: bool) -> Result<Vec<Change>, Refusal> {
    let specs = folder.join("specs");
    let is_spec = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml")
    };
    let mut there: Vec<PathBuf> = fs::read_dir(&specs)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(is_spec)
        .collect();
    there.sort();
    let ours = [
        (
            "relay.yaml",
            RELAY,
            "your relay; ignored until its key is set",
        ),
        (
            "embedded.yaml",
            EMBEDDED,
            "a relay inside the test, so that something passes",
        ),
    ];
    let none = there.is_empty();
    let mut changes = Vec::new();
    for (name, text, note) in ours {
        let path = specs.join(name);
        if none || there.contains(&path) {
            there.retain(|other| *other != path);
            changes.push(Change::file(path, text.to_owned(), note, force)?);
        }
    }
    changes.extend(
        there
            .into_iter()
            .map(|path| Change::kept(path, "a spec of yours")),
    );
    Ok(changes)
}

fn test_file(args: &Args, folder: &Path) -> Result<Change, Refusal> {
    let path = folder.join("tests").join(format!("{}.rs", args.test));
    if let Some(text) = changes::read(&path)?
        && !text.contains(OUR_MAIN)
    {
        return Err(Refusal::Mistake(
            format!(
                "tests/{}.rs is there, and is no test of relayproof",
                args.test
            ),
            "give the acceptance tests another name with `--test NAME`".to_owned(),
        ));
    }
    Ok(Change::file(path, ACCEPTANCE.to_owned(), "", args.force)?)
}

/// What stands behind `cargo test`, from the workspace's root.
fn cargo_arguments(args: &Args, place: &Place, package: &str) -> String {
    if place.is_member() {
        format!("-p {package} --test {}", args.test)
    } else {
        format!("--test {}", args.test)
    }
}

impl Work {
    fn manifest(&mut self, edited: Edited, path: &Path, wanted: &Wanted<'_>) {
        let path = path.to_owned();
        self.changes.push(match edited {
            Edited::Same => Change::kept(path, "has all that it needs"),
            Edited::Changed(text) => {
                Change::changed(path, text, "the dev-dependency and the test target")
            }
            Edited::ByHand => {
                let lines = manifest::lines(wanted);
                self.by_hand.push(("Cargo.toml".to_owned(), lines));
                Change::kept(path, "for you to edit: see below")
            }
        });
    }

    fn nextest(&mut self, args: &Args, place: &Place, package: &str) -> Result<(), Refusal> {
        let text = NEXTEST
            .replace("@PACKAGE@", package)
            .replace("@TEST@", &args.test);
        let path = place.workspace.join(".config/nextest.toml");
        // A configuration that has our group is ours or has been seen to.
        let unaware = changes::read(&path)?.is_some_and(|there| !there.contains("relayproof"));
        let change = Change::file(
            path,
            text.clone(),
            "cargo-nextest: profile `relay`",
            args.force,
        )?;
        if unaware && change.fate == Fate::Kept {
            self.by_hand.push((".config/nextest.toml".to_owned(), text));
        }
        self.changes.push(change);
        Ok(())
    }

    fn github(&mut self, args: &Args, place: &Place, package: &str) -> Result<(), Refusal> {
        let inside = place.workspace_in_repository();
        let (defaults, cache, target) = if inside.is_empty() {
            (String::new(), String::new(), "target".to_owned())
        } else {
            (
                format!("    defaults:\n      run:\n        working-directory: {inside}\n"),
                format!("        with:\n          workspaces: {inside}\n"),
                format!("{inside}/target"),
            )
        };
        let text = GITHUB
            .replace("@DEFAULTS@", &defaults)
            .replace("@CACHE@", &cache)
            .replace("@TARGET@", &target)
            .replace("@ARGUMENTS@", &cargo_arguments(args, place, package));
        let path = place.repository.join(".github/workflows/relayproof.yml");
        let note = "needs the secret RELAYPROOF_API_KEY";
        self.changes
            .push(Change::file(path, text, note, args.force)?);
        Ok(())
    }

    fn gitlab(&mut self, args: &Args, place: &Place, package: &str) -> Result<(), Refusal> {
        let inside = place.workspace_in_repository();
        let (enter, target) = if inside.is_empty() {
            (String::new(), "target".to_owned())
        } else {
            (format!("    - cd {inside}\n"), format!("{inside}/target"))
        };
        let text = GITLAB
            .replace("@ENTER@", &enter)
            .replace("@TARGET@", &target)
            .replace("@ARGUMENTS@", &cargo_arguments(args, place, package));
        let own = place.repository.join(".gitlab-ci.yml");
        let included = ".gitlab/relayproof.gitlab-ci.yml";
        let note = "needs the variable RELAYPROOF_API_KEY";
        let Some(there) = changes::read(&own)?.filter(|there| *there != text) else {
            self.changes
                .push(Change::file(own, text, note, args.force)?);
            return Ok(());
        };
        // The pipeline of a repository is never ours to replace.
        let path = place.repository.join(included);
        self.changes
            .push(Change::file(path, text, note, args.force)?);
        if there.contains(included) {
            self.changes.push(Change::kept(own, "includes it"));
        } else {
            self.changes
                .push(Change::kept(own, "for you to edit: see below"));
            self.by_hand.push((
                ".gitlab-ci.yml".to_owned(),
                format!("include:\n  - local: {included}\n"),
            ));
        }
        Ok(())
    }

    fn print(&self, dry_run: bool, out: &mut dyn Write) -> io::Result<()> {
        let shown: Vec<String> = self
            .changes
            .iter()
            .map(|change| with_slashes(&relative(&self.root, &change.path)))
            .collect();
        let width = shown.iter().map(|path| path.chars().count()).max();
        let width = width.unwrap_or_default();
        for (change, path) in self.changes.iter().zip(&shown) {
            let fate = match (change.fate, dry_run) {
                (Fate::Made, false) => "made",
                (Fate::Made, true) => "would make",
                (Fate::Changed, false) => "changed",
                (Fate::Changed, true) => "would change",
                (Fate::Replaced, false) => "replaced",
                (Fate::Replaced, true) => "would replace",
                (Fate::Kept, _) => "kept",
            };
            let line = format!("{fate:<13} {path:<width$}  {}", change.note);
            writeln!(out, "{}", line.trim_end())?;
        }
        for note in &self.notes {
            writeln!(out, "\nnote: {note}")?;
        }
        for (file, lines) in &self.by_hand {
            writeln!(out, "\nTo be added to {file} by you:\n")?;
            for line in lines.lines() {
                writeln!(out, "{}", format!("  {line}").trim_end())?;
            }
        }
        if dry_run {
            return writeln!(out, "\nNothing was written.");
        }
        writeln!(out, "\nNext:")?;
        for command in &self.next {
            writeln!(out, "  {command}")?;
        }
        Ok(())
    }
}
