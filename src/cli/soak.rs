//! Evidence of a soak: all its files read, put together cell by cell, and judged as one.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use super::{Exit, Format, colour, complain, files, results, with_causes};
use crate::evidence::merge::{Contradiction, Part, Source, merge};
use crate::evidence::{Evidence, Reader, Sample, check_all, read_segments, segment_files};
use crate::plan::{Timing, window};
use crate::probe::clock::Clock;
use crate::report::signoff::{self, Material, SignOff, Tool};
use crate::report::{campaign, html};
use crate::verdict::Overall;
use crate::verdict::campaign::{Campaign, judge_campaign};

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Contradictions that are told of.
const TOLD: usize = 5;

/// What paths hold.
pub(super) enum Given {
    /// Evidence of runs, or of nothing: each file is judged on its own.
    Runs,
    /// Evidence of a soak: its files.
    Soak(Vec<PathBuf>),
}

/// A form of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// One JSON document.
    Json,
    /// One page for a browser.
    Html,
    /// Markdown.
    Markdown,
}

impl Page {
    /// The document in this form.
    ///
    /// # Errors
    /// Never; that a value of this kind can be written is not something types say.
    pub(super) fn write(self, document: &SignOff) -> io::Result<String> {
        Ok(match self {
            Self::Json => document.json()?,
            Self::Html => html::sign_off(document),
            Self::Markdown => signoff::markdown(document),
        })
    }
}

/// Reads a moment of the command line.
pub(super) fn moment(text: &str) -> Result<u64, String> {
    let wanted = "expected a time with its offset, such as 2026-12-08T00:00:00Z";
    window::moment(text).ok_or_else(|| wanted.to_owned())
}

/// Whether paths hold evidence of runs or of a soak.
///
/// # Errors
/// When they hold both, which would be two reports, or a folder of a soak's holds nothing.
pub(super) fn given(paths: &[PathBuf]) -> Result<Given, String> {
    let (files, mistakes) = files::found(paths);
    let (mut soak, mut run) = (None, None);
    for file in &files {
        match Reader::open(file).map(|reader| reader.header().sampling.mode) {
            Ok(Timing::Soak) => soak = soak.or(Some(file)),
            Ok(Timing::Burst) => run = run.or(Some(file)),
            Err(_) => {}
        }
    }
    match (soak, run) {
        (None, _) => Ok(Given::Runs),
        // A soak without one of its parts is another one.
        (Some(_), None) => match mistakes.into_iter().next() {
            Some(mistake) => Err(mistake),
            None => Ok(Given::Soak(files)),
        },
        (Some(soak), Some(run)) => Err(format!(
            "{} is of a soak and {} of a run: name them apart, for they are judged by different \
             rules",
            soak.display(),
            run.display()
        )),
    }
}

/// The evidence of a soak, judged.
pub(super) struct Soak {
    files: Vec<PathBuf>,
    evidence: Vec<Evidence>,
    sources: Vec<Source>,
    contradictions: Vec<Contradiction>,
    /// What it comes to.
    pub(super) campaign: Campaign,
}

impl Soak {
    /// Reads all files and judges them as of a moment; now, where none is given.
    ///
    /// # Errors
    /// When a file cannot be read, or the files are not of one soak; each mistake in words.
    pub(super) fn read(files: Vec<PathBuf>, as_of: Option<u64>) -> Result<Self, Vec<String>> {
        let (parts, mistakes) = parts(&files);
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let merged = merge(parts).map_err(|error| vec![with_causes(&error)])?;
        let (mut evidence, mut sources, mut contradictions) = (Vec::new(), Vec::new(), Vec::new());
        for one in merged {
            evidence.push(one.evidence);
            sources.extend(one.sources);
            contradictions.extend(one.contradictions);
        }
        // In whole seconds, as the document says it, so that it can be made again from that.
        let as_of = as_of.unwrap_or_else(|| Clock::start().unix_ns()) / SECOND * SECOND;
        let campaign =
            judge_campaign(&evidence, as_of).map_err(|error| vec![with_causes(&error)])?;
        Ok(Self {
            files,
            evidence,
            sources,
            contradictions,
            campaign,
        })
    }

    /// Samples of which two files say different things, for a reader of the terminal.
    fn contradictions(&self) -> Vec<String> {
        let all = self.contradictions.iter();
        let mut told: Vec<String> = all
            .take(TOLD)
            .map(|it| {
                format!(
                    "note: sample {} is in two versions: that of {} counts, that of {} does not",
                    it.id, it.counted.file, it.dropped.file
                )
            })
            .collect();
        let more = self.contradictions.len().saturating_sub(TOLD);
        if more > 0 {
            told.push(format!("note: and {more} more of that kind"));
        }
        told
    }

    /// The root of its evidence.
    ///
    /// # Errors
    /// When the evidence is not as it was written: nobody should report or sign that.
    pub(super) fn root(&self) -> Result<String, String> {
        let set = check_all(&self.files, 1);
        if !set.is_whole() {
            let altered = set.files.iter().find(|file| !file.is_whole());
            let name = altered.map_or_else(String::new, |file| file.path.display().to_string());
            return Err(format!(
                "{name}: altered evidence; `relayproof verify` says where"
            ));
        }
        Ok(set.root().to_string())
    }

    /// The document to sign, and the root of its evidence.
    ///
    /// # Errors
    /// When the evidence is not as it was written.
    pub(super) fn sign_off(&self) -> Result<(SignOff, String), String> {
        let root = self.root()?;
        let document = SignOff::of(&Material {
            evidence: &self.evidence,
            sources: &self.sources,
            contradictions: self.contradictions.len() as u64,
            campaign: &self.campaign,
            root: Some(&root),
            tool: &Tool {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: option_env!("RELAYPROOF_COMMIT").map(str::to_owned),
            },
        });
        Ok((document, root))
    }

    /// What its verdicts come to, as an exit code.
    pub(super) fn exit(&self) -> Exit {
        match self.campaign.overall() {
            Overall::Pass => Exit::Pass,
            Overall::Violated => Exit::Violated,
            Overall::Inconclusive => Exit::Inconclusive,
            Overall::Nothing => Exit::NotMeasured,
        }
    }
}

/// The evidence of each first file with all of its segments, and what is wrong with the files.
fn parts(files: &[PathBuf]) -> (Vec<Part>, Vec<String>) {
    let (mut parts, mut mistakes) = (Vec::new(), Vec::new());
    let mut covered: BTreeSet<PathBuf> = BTreeSet::new();
    let mut later: Vec<(PathBuf, u32)> = Vec::new();
    for file in files {
        let segment = match Reader::open(file) {
            Ok(reader) => reader.header().segment,
            Err(error) => {
                mistakes.push(with_causes(&error));
                continue;
            }
        };
        if let Some(segment) = segment {
            later.push((file.clone(), segment.number));
            continue;
        }
        let read = segment_files(file).and_then(|all| {
            covered.extend(all);
            read_segments(file)
        });
        match read {
            Ok(mut evidence) => {
                evidence.samples.iter_mut().for_each(slim);
                parts.push(Part {
                    file: file.display().to_string(),
                    evidence,
                });
            }
            Err(error) => mistakes.push(with_causes(&error)),
        }
    }
    for (file, number) in later.iter().filter(|(file, _)| !covered.contains(file)) {
        mistakes.push(format!(
            "{} is segment {number} of its evidence, and the first file is not among these; name it, \
             or their folder",
            file.display()
        ));
    }
    (parts, mistakes)
}

/// Leaves out of a sample what neither verdicts nor documents look at: all samples of a soak are in
/// memory at once.
fn slim(sample: &mut Sample) {
    for attempt in &mut sample.attempts {
        let seen = &mut attempt.observation;
        // The longest gap is a value; the next ones are for who looks at one sample.
        seen.packets.longest.truncate(1);
        seen.packets.longest.shrink_to_fit();
        seen.connection.tried = Vec::new();
        seen.connection.addresses = Vec::new();
    }
}

/// Judges a soak and prints what it says.
///
/// # Errors
/// When that cannot be printed.
pub(super) fn judge(
    files: Vec<PathBuf>,
    as_of: Option<u64>,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let soak = match Soak::read(files, as_of) {
        Ok(soak) => soak,
        Err(mistakes) => return Ok(refuse(&mistakes)),
    };
    files::warn_of_altered(&soak.files);
    for note in soak.contradictions() {
        complain(&results::printable(&note));
    }
    match format {
        Format::Json => results::json(&campaign::json(&soak.campaign), out)?,
        Format::Text => {
            // Colours are ours; names in evidence are anybody's.
            let text = campaign::text(&soak.campaign, colour());
            write!(out, "{text}")?;
        }
    }
    Ok(soak.exit())
}

/// Says what is wrong with evidence.
pub(super) fn refuse(mistakes: &[String]) -> Exit {
    for mistake in mistakes {
        complain(&format!("error: {}", results::printable(mistake)));
    }
    Exit::Usage
}
