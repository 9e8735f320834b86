//! `relayproof judge FILE…`: the verdicts of evidence files, made again offline.

use std::io::{self, Write};
use std::path::PathBuf;

use super::counts;
use super::soak::{self, Given};
use super::{Exit, Format, colour, complain, files, results, with_causes};
use crate::evidence::Evidence;
use crate::report::document::{Cell, Document, Unmeasured};
use crate::report::{json, terminal};
use crate::run::CellOutcome;
use crate::telemetry::env::TRACE_URL;
use crate::verdict::{Overall, Summary, judge_file};

/// Arguments of `judge`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Evidence files, or folders of them; those of a soak are judged together
    #[arg(required_unless_present = "from")]
    files: Vec<PathBuf>,
    /// Judge counts that a database made, lines of JSON: docs/scale.md
    #[arg(long, value_name = "COUNTS", conflicts_with_all = ["files", "as_of"])]
    from: Option<PathBuf>,
    /// More counts will come: nothing passes by votes yet
    #[arg(long, requires = "from")]
    so_far: bool,
    /// Look at a soak as of this time, such as 2026-12-08T00:00:00Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = soak::moment)]
    as_of: Option<u64>,
    /// Output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What `--as-of` is of no use for.
pub(super) const AS_OF: &str = "`--as-of` is for evidence of a soak; this is of runs";

/// Judges evidence files, or all those in a folder, and prints what they say: each on its own, or
/// together where they are of a soak.
///
/// A file of a run that cannot be read is our user's mistake; the others are judged all the same. Of
/// a soak without a part no verdict could be told.
///
/// # Errors
/// When the results cannot be printed.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> io::Result<Exit> {
    if let Some(from) = &args.from {
        return counts::judge(from, !args.so_far, args.format, out);
    }
    match soak::given(&args.files) {
        Err(mistake) => Ok(soak::refuse(&[mistake])),
        Ok(Given::Soak(files)) => soak::judge(files, args.as_of, args.format, out),
        Ok(Given::Runs) if args.as_of.is_some() => Ok(soak::refuse(&[AS_OF.to_owned()])),
        Ok(Given::Runs) => runs(&args.files, args.format, out),
    }
}

fn runs(files: &[PathBuf], format: Format, out: &mut dyn Write) -> io::Result<Exit> {
    let (judged, mistakes) = read_all(files);
    for mistake in &mistakes {
        complain(&format!("error: {mistake}"));
    }
    let exit = print(&judged, &[], format, colour(), out)?;
    Ok(if mistakes.is_empty() {
        exit
    } else {
        Exit::Usage
    })
}

/// One evidence file, judged.
pub(super) struct Judged {
    path: PathBuf,
    evidence: Evidence,
    summary: Summary,
}

impl Judged {
    /// A cell that was just sampled.
    pub(super) fn new(outcome: &CellOutcome) -> Self {
        Self {
            path: outcome.path.clone(),
            evidence: outcome.evidence.clone(),
            summary: Summary::of(&outcome.evidence),
        }
    }
}

/// Where the records lie, as they are shown.
pub(super) fn paths(judged: &[Judged]) -> Vec<String> {
    let shown = judged.iter().map(|one| one.path.display().to_string());
    shown.collect()
}

/// What reports are made from; `paths` are those of the judged cells.
pub(super) fn document<'a>(
    judged: &'a [Judged],
    paths: &'a [String],
    unmeasured: &'a [Unmeasured],
) -> Document<'a> {
    let cells = judged.iter().zip(paths).map(|(one, path)| Cell {
        evidence: &one.evidence,
        summary: &one.summary,
        path,
    });
    Document {
        cells: cells.collect(),
        unmeasured,
    }
}

/// The evidence files that are meant, judged, and what is wrong with the others.
pub(super) fn read_all(given: &[PathBuf]) -> (Vec<Judged>, Vec<String>) {
    let (files, mut mistakes) = files::found(given);
    files::warn_of_altered(&files);
    let mut judged = Vec::new();
    for path in files {
        match judge_file(&path) {
            Ok((mut evidence, summary)) => {
                // Spans of a run without an endpoint may have been sent since.
                let url = &mut evidence.header.otel.trace_url;
                *url = url.take().or_else(named_trace_url);
                judged.push(Judged {
                    path,
                    evidence,
                    summary,
                });
            }
            Err(error) => mistakes.push(with_causes(&error)),
        }
    }
    (judged, mistakes)
}

/// How addresses of traces are made, where the environment says it.
fn named_trace_url() -> Option<String> {
    std::env::var(TRACE_URL).ok().filter(|it| !it.is_empty())
}

/// Prints judged cells and gives the exit code they come to, together with those that could not be
/// measured.
///
/// # Errors
/// When they cannot be printed.
pub(super) fn print(
    judged: &[Judged],
    unmeasured: &[Unmeasured],
    format: Format,
    colour: bool,
    out: &mut dyn Write,
) -> io::Result<Exit> {
    let paths = paths(judged);
    let document = document(judged, &paths, unmeasured);
    match format {
        Format::Json => results::json(&json::render(&document), out)?,
        Format::Text => {
            for one in judged {
                write!(out, "{}", terminal::table(&one.summary, colour))?;
            }
            for (one, path) in judged.iter().zip(&paths) {
                let verdicts = &one.summary.verdicts;
                let blocks = terminal::failures(&one.evidence, verdicts, path, colour);
                if !blocks.is_empty() {
                    write!(out, "\n{}\n{blocks}", one.summary.cell)?;
                }
            }
        }
    }
    Ok(match document.overall() {
        Overall::Pass => Exit::Pass,
        Overall::Violated => Exit::Violated,
        Overall::Inconclusive => Exit::Inconclusive,
        Overall::Nothing => Exit::NotMeasured,
    })
}
