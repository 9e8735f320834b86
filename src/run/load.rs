//! Spec files on disk become plans; and why a cell's tests are ignored.

use std::collections::BTreeSet;
use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Planned;
use crate::plan::{Cell, Content, KeySource, Plan, Timing};
use crate::probe::key;
use crate::resolve::resolve;
use crate::spec::{self, SpecErrors};

/// Largest spec that is read; the parser has its own limit, this one keeps a wrong path (a log, a
/// device) from filling the memory first.
const MAX_SPEC: u64 = 4 * 1024 * 1024;

/// Why a spec file gives no plan.
#[derive(Debug)]
pub enum LoadError {
    /// It cannot be read.
    Read(PathBuf, io::Error),
    /// It is wrong, with every mistake.
    Spec(SpecErrors),
}

impl LoadError {
    /// The text for a person; ends with a line break.
    pub fn render(&self, colour: bool) -> String {
        match self {
            Self::Spec(errors) => errors.render(colour),
            Self::Read(path, error) if error.kind() == io::ErrorKind::IsADirectory => {
                let folder = path.display();
                format!("error: {folder} is a folder\n  = help: name its files: {folder}/*.yaml\n")
            }
            Self::Read(path, error) if error.kind() == io::ErrorKind::NotFound => format!(
                "error: cannot read {}: there is no such file\n  = help: give the path of a spec from \
                 the folder that you are in, like specs/relay.yaml\n",
                path.display()
            ),
            Self::Read(path, error) => format!("error: cannot read {}: {error}\n", path.display()),
        }
    }
}

/// Reads, parses and resolves one spec file.
///
/// # Errors
/// When it cannot be read or is wrong.
pub fn load(path: &Path, profile: Option<&str>) -> Result<Planned, LoadError> {
    let text = read(path)?;
    plan_text(
        &shown(path),
        &text,
        path.parent().unwrap_or_else(|| Path::new("")),
        profile,
    )
}

/// Parses and resolves a spec that is at hand; its relative paths start at `base`. A profile that
/// the spec does not have changes nothing: see [`unknown_profile`].
///
/// # Errors
/// When it is wrong.
pub fn plan_text(
    source: &str,
    text: &str,
    base: &Path,
    profile: Option<&str>,
) -> Result<Planned, LoadError> {
    let spec = spec::parse(source, text, &|name| env::var(name).ok()).map_err(LoadError::Spec)?;
    let profile = profile.filter(|wanted| spec.profiles().any(|known| known == *wanted));
    let plan = resolve(&spec, profile).map_err(LoadError::Spec)?;
    let profiles = spec.profiles().map(str::to_owned).collect();
    Ok(Planned::new(plan, base, profiles))
}

/// What is wrong with a profile that none of the specs has; one that only some of them have is
/// laid over those.
pub fn unknown_profile(wanted: Option<&str>, plans: &[Planned]) -> Option<String> {
    let wanted = wanted?;
    let known: BTreeSet<&str> = plans
        .iter()
        .flat_map(|planned| planned.profiles.iter().map(String::as_str))
        .collect();
    if known.contains(wanted) {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    Some(match known.as_slice() {
        [] => format!(
            "error: unknown profile `{wanted}`: the specs have none\n  = help: add `profiles: {{ \
             {wanted}: … }}` to a spec, or ask for no profile\n"
        ),
        known => format!(
            "error: unknown profile `{wanted}`\n  = help: the specs have {}\n",
            known.join(", ")
        ),
    })
}

/// What there is to say of a spec whose prompts and answers go into traces.
pub fn content_warning(plan: &Plan) -> Option<String> {
    (plan.otel.content == Content::Full).then(|| {
        format!(
            "{}: `otel.content: full` puts prompts and answers, cut to 2 kB, into spans: into the \
             run's folder and to whoever gets or reads the traces",
            plan.source
        )
    })
}

/// The text of a spec file, as far as it can be one.
///
/// # Errors
/// When it cannot be read, or is not UTF-8.
pub fn read(path: &Path) -> Result<String, LoadError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_SPEC).read_to_end(&mut bytes))
        .map_err(|error| LoadError::Read(path.to_owned(), error))?;
    spec::decode(&shown(path), bytes).map_err(LoadError::Spec)
}

/// The path as a person would type it: relative to the working folder where it lies below it.
fn shown(path: &Path) -> String {
    let here = env::current_dir().unwrap_or_default();
    let shown = path.strip_prefix(&here).unwrap_or(path);
    shown.display().to_string()
}

/// Why a cell's tests are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// The spec says so; they run when the user asks for ignored tests.
    BySpec(String),
    /// The key's environment variable is not set.
    NoKey(String),
    /// Its samples are spread over days, which no test waits for.
    Soak(String),
    /// It is sampled from another region than this one.
    Elsewhere(String),
}

/// The environment variable that says where this probe stands.
pub const REGION: &str = "RELAYPROOF_REGION";

/// Where this probe stands, as the environment says it.
pub fn named_region() -> Option<String> {
    env::var(REGION).ok().filter(|name| !name.is_empty())
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BySpec(why) => f.write_str(why),
            Self::NoKey(name) => write!(f, "{name} is not set"),
            Self::Soak(spec) => write!(
                f,
                "a soak is sampled by `relayproof collect {spec}` and judged by `relayproof judge`"
            ),
            Self::Elsewhere(region) => {
                write!(
                    f,
                    "sampled from {region}: {REGION}={region} says that this is there"
                )
            }
        }
    }
}

/// Why a cell's tests are ignored, as far as it can be told before anything runs: keys in files and
/// from commands are asked when they are needed.
pub fn why_ignored(plan: &Plan, cell: &Cell) -> Option<Ignored> {
    if plan.sampling.mode == Timing::Soak {
        return Some(Ignored::Soak(plan.source.clone()));
    }
    if let Some(region) = &cell.region
        && named_region().as_ref() != Some(&region.name)
    {
        return Some(Ignored::Elsewhere(region.name.clone()));
    }
    not_asked(cell)
}

/// Why the relay of a cell is not asked at all, wherever and whenever.
pub fn not_asked(cell: &Cell) -> Option<Ignored> {
    if let Some(why) = &cell.ignored {
        return Some(Ignored::BySpec(why.clone()));
    }
    match &cell.relay.api_key {
        Some(KeySource::Env(name)) if !cell.relay.required => {
            let unset = key::variable(name).is_none_or(|value| value.trim().is_empty());
            unset.then(|| Ignored::NoKey(name.clone()))
        }
        Some(KeySource::Env(_) | KeySource::File(_) | KeySource::Command(_)) | None => None,
    }
}
