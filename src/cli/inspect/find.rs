//! Which sample is meant, and where it lies.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::files::in_place;
use super::super::with_causes;
use crate::evidence::{Header, Line, Reader, Sample};
use crate::words::counted;

/// Most runs whose age is compared.
const MOST_RUNS: usize = 10_000;
/// Fewest digits that an id can be told by.
const LEAST_DIGITS: usize = 4;
/// Most matches that are listed.
const MOST_LISTED: usize = 8;

/// A sample and the record it is from.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) header: Header,
    pub(super) sample: Sample,
}

/// What was asked for.
enum Wanted<'w> {
    Index(u64),
    InCell(&'w str, u64),
    Id(String),
}

impl<'w> Wanted<'w> {
    fn read(text: &'w str) -> Result<Self, String> {
        let text = text.trim();
        if let Some((cell, index)) = text.rsplit_once('#') {
            return index.parse().map_or_else(
                |_| Err(format!("`{index}` is no index: write CELL#INDEX, like `alpha/gpt-4o-mini/default#12`")),
                |index| Ok(Self::InCell(cell, index)),
            );
        }
        // No id is all digits for long, and no run has so many samples.
        if text.len() <= 9
            && let Ok(index) = text.parse()
        {
            return Ok(Self::Index(index));
        }
        let hex = text.len() >= LEAST_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
        if hex {
            return Ok(Self::Id(text.to_ascii_lowercase()));
        }
        Err(format!(
            "`{text}` names no sample: write its index, CELL#INDEX, or at least {LEAST_DIGITS} \
             digits of its id or trace id"
        ))
    }

    fn is(&self, header: &Header, sample: &Sample) -> bool {
        match self {
            Self::Index(index) => !sample.warmup && sample.index == *index,
            Self::InCell(cell, index) => {
                !sample.warmup && sample.index == *index && header.cell.contains(cell)
            }
            Self::Id(digits) => {
                sample.id.starts_with(digits) || sample.trace_id.starts_with(digits)
            }
        }
    }
}

/// The sample, or why there is not exactly one.
pub(super) fn find(wanted: &str, within: Option<&str>, root: &Path) -> Result<Found, String> {
    let meant = Wanted::read(wanted)?;
    let place = place(within, root)?;
    let files =
        in_place(&place).map_err(|error| format!("cannot read {}: {error}", place.display()))?;
    if files.is_empty() {
        return Err(format!("{}: no evidence (*.jsonl) in it", place.display()));
    }
    let mut found: Vec<Found> = Vec::new();
    let (mut samples, mut cells) = (0_u64, Vec::new());
    for path in files {
        let mut reader = Reader::open(&path).map_err(|error| with_causes(&error))?;
        let header = reader.header().clone();
        cells.push(header.cell.clone());
        while let Some(line) = reader.next_record().map_err(|error| with_causes(&error))? {
            let Line::Sample(sample) = line else { continue };
            samples += 1;
            if meant.is(&header, &sample) && found.len() <= MOST_LISTED {
                found.push(Found {
                    path: path.clone(),
                    header: header.clone(),
                    sample: *sample,
                });
            }
        }
    }
    // A whole cell's name beats one that only holds it.
    if let Wanted::InCell(cell, _) = meant
        && found.iter().any(|one| one.header.cell == cell)
    {
        found.retain(|one| one.header.cell == cell);
    }
    match found.len() {
        0 => Err(format!(
            "there is no sample `{wanted}` in {}\n  = help: it has {} of {}",
            place.display(),
            counted(samples, "sample"),
            cells.join(", ")
        )),
        1 => found.pop().ok_or_else(String::new),
        _ => Err(ambiguous(wanted, &found)),
    }
}

fn ambiguous(wanted: &str, found: &[Found]) -> String {
    let mut text = format!("several samples are meant by `{wanted}`\n  = help: write one of");
    for one in found.iter().take(MOST_LISTED) {
        text.push_str(&format!("\n    '{}#{}'", one.header.cell, one.sample.index));
    }
    text
}

/// Where to look: what was named, or the latest run.
fn place(within: Option<&str>, root: &Path) -> Result<PathBuf, String> {
    if let Some(named) = within.map(str::trim).filter(|name| !name.is_empty()) {
        let path = PathBuf::from(named);
        let below = root.join(named);
        return if path.exists() {
            Ok(path)
        } else if below.exists() {
            Ok(below)
        } else {
            Err(format!(
                "there is no run `{named}`, neither as a path nor in {}",
                root.display()
            ))
        };
    }
    let entries = fs::read_dir(root).into_iter().flatten().take(MOST_RUNS);
    let latest: Option<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let files = in_place(&path).ok().filter(|_| path.is_dir())?;
            let written = files
                .iter()
                .filter_map(|file| fs::metadata(file).ok()?.modified().ok())
                .max()?;
            Some((written, path))
        })
        .max();
    latest.map(|(_, path)| path).ok_or_else(|| {
        format!(
            "there is no run in {}\n  = help: sample first (`relayproof run SPEC`), or say where: \
             `--in RUN`",
            root.display()
        )
    })
}
