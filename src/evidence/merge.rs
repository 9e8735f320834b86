//! Evidence of many files, from many probes, as one record for each cell.
//!
//! Pure, and a function of what the files say: their order changes nothing. A sample that is there
//! twice counts once; one that is there in two versions is a contradiction, and both are named.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

use super::{Close, Continued, EarlierRun, Evidence, Header, Sample, Session, Skipped};

/// Evidence, and where it was read from.
#[derive(Clone, Debug)]
pub struct Part {
    /// The file, as its user knows it.
    pub file: String,
    /// What is in it; of several segments, in all of them.
    pub evidence: Evidence,
}

/// The evidence of one cell, put together from all of its files.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// As if one probe had written it: the header of the file that began first, under the largest
    /// budget; the samples by slot, each id once; the closing lines by time, the last of them the
    /// close where every file has its own.
    pub evidence: Evidence,
    /// The files, by when they began; copies of one are one source.
    pub sources: Vec<Source>,
    /// Samples that were there more than once, the same each time.
    pub duplicates: u64,
    /// Samples that were there in several versions.
    pub contradictions: Vec<Contradiction>,
}

/// One file of merged evidence: who wrote it, when, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Source {
    /// The file; of copies that of which the most is there.
    pub file: String,
    /// Its first line, with the probe's host, the tool's version and the spec's digest.
    pub header: Header,
    /// Samples in it, warm-ups included.
    pub samples: u64,
    /// Its closing line; `None` where its last session was cut off or goes on still.
    pub close: Option<Close>,
    /// Closing lines of earlier sessions.
    pub earlier: Vec<Close>,
    /// It ended inside a line.
    pub torn: bool,
    /// Other files with the same beginning.
    pub copies: Vec<String>,
}

/// A sample of which two files say different things.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Contradiction {
    /// Its id.
    pub id: String,
    /// Where the version is that counts: the one that was started first, for it was on record when
    /// the other was made.
    pub counted: Place,
    /// Where the other is.
    pub dropped: Place,
}

/// Where a sample is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The file.
    pub file: String,
    /// Which of its samples, from 1, in file order.
    pub sample: u64,
    /// Its slot.
    pub index: u64,
    /// When it was started, nanoseconds since the epoch.
    pub t0_unix_ns: u64,
}

/// Why files cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They are not of the same plan.
    #[error(
        "{a} and {b} are not of one campaign: their {what} differs (`{in_a}`, `{in_b}`); judge them \
         apart, or leave one out"
    )]
    Differs {
        /// One of the files.
        a: String,
        /// The other.
        b: String,
        /// What differs: a member of the header.
        what: &'static str,
        /// What the one has.
        in_a: String,
        /// What the other has.
        in_b: String,
    },
    /// A later segment without those before it.
    #[error("{file} is segment {number} of its evidence; read all of its segments as one first")]
    Segment {
        /// The file.
        file: String,
        /// Its number.
        number: u32,
    },
    /// There is nothing to put together.
    #[error("no evidence to put together")]
    Nothing,
}

/// Puts together what many files say, one record for each cell id, in the order of the ids.
///
/// Files of other cells may be among them. Those of one spec and one cell must be of one plan, but
/// for its budget.
///
/// # Errors
/// When two files are of different plans, or one is a segment without those before it.
pub fn merge(parts: Vec<Part>) -> Result<Vec<Merged>, MergeError> {
    let mut by_name: BTreeMap<(&str, &str), &Part> = BTreeMap::new();
    for part in in_order(&parts) {
        let header = &part.evidence.header;
        let first = by_name
            .entry((&header.spec_name, &header.cell))
            .or_insert(part);
        same_core(first, part)?;
    }
    let mut cells: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for part in parts {
        let cell = cells.entry(part.evidence.header.cell_id.clone());
        cell.or_default().push(part);
    }
    cells.into_values().map(merge_cell).collect()
}

/// Puts together what many files say of one cell.
///
/// # Errors
/// When there is none, two are of different cells or plans, or one is a segment without those
/// before it.
pub fn merge_cell(parts: Vec<Part>) -> Result<Merged, MergeError> {
    let parts = in_order(&parts);
    let Some(first) = parts.first() else {
        return Err(MergeError::Nothing);
    };
    for part in &parts {
        if let Some(segment) = part.evidence.header.segment {
            return Err(MergeError::Segment {
                file: part.file.clone(),
                number: segment.number,
            });
        }
        let id = |part: &Part| part.evidence.header.cell_id.clone();
        same(first, part, "cell_id", id)?;
        same_core(first, part)?;
    }
    let (samples, duplicates, contradictions) = samples_of(&parts);
    let skipped = skipped_of(&parts, &samples);
    let origins = origins_of(&parts);
    let (close, earlier) = closes_of(&origins);
    let evidence = Evidence {
        header: header_of(first, &origins),
        samples,
        close,
        earlier,
        continued: continued_of(&origins),
        sessions: sessions_of(&origins),
        skipped,
        torn: origins.iter().any(|(it, _)| it.evidence.torn),
    };
    let source = |(part, copies): (&Part, Vec<String>)| Source {
        file: part.file.clone(),
        header: part.evidence.header.clone(),
        samples: part.evidence.samples.len() as u64,
        close: part.evidence.close.clone(),
        earlier: part.evidence.earlier.clone(),
        torn: part.evidence.torn,
        copies,
    };
    Ok(Merged {
        evidence,
        sources: origins.into_iter().map(source).collect(),
        duplicates,
        contradictions,
    })
}

/// The parts by when they began, then by whatever else tells two apart.
fn in_order(parts: &[Part]) -> Vec<&Part> {
    let mut parts: Vec<&Part> = parts.iter().collect();
    parts.sort_by_cached_key(|part| {
        let header = &part.evidence.header;
        (
            header.started_unix_ns,
            header.run_id.clone(),
            header.host.clone(),
            text(header),
            part.file.clone(),
            part.evidence.samples.len(),
        )
    });
    parts
}

/// A record as text, to compare records by; they always have one.
fn text(record: &impl Serialize) -> String {
    serde_json::to_string(record).unwrap_or_default()
}

fn same(
    a: &Part,
    b: &Part,
    what: &'static str,
    of: impl Fn(&Part) -> String,
) -> Result<(), MergeError> {
    let (in_a, in_b) = (of(a), of(b));
    if in_a == in_b {
        return Ok(());
    }
    Err(MergeError::Differs {
        a: a.file.clone(),
        b: b.file.clone(),
        what,
        in_a,
        in_b,
    })
}

/// Whether two files are of one plan, its budget apart. Versions that noted no such digest noted
/// that of the whole plan.
fn same_core(a: &Part, b: &Part) -> Result<(), MergeError> {
    same(a, b, "core_digest", |it| {
        it.evidence.header.core_digest.clone()
    })?;
    if a.evidence.header.core_digest.is_empty() {
        same(a, b, "plan_digest", |it| {
            it.evidence.header.plan_digest.clone()
        })?;
    }
    Ok(())
}

/// A sample, and where it is: which part, and which of its samples.
#[derive(Clone, Copy)]
struct Found<'a> {
    sample: &'a Sample,
    part: &'a Part,
    number: u64,
}

impl Found<'_> {
    fn place(&self) -> Place {
        Place {
            file: self.part.file.clone(),
            sample: self.number,
            index: self.sample.index,
            t0_unix_ns: self.sample.t0_unix_ns,
        }
    }
}

/// The samples of all files, each id once.
fn samples_of(parts: &[&Part]) -> (Vec<Sample>, u64, Vec<Contradiction>) {
    let mut all: Vec<Found<'_>> = Vec::new();
    for part in parts {
        let numbered = (1..).zip(&part.evidence.samples);
        all.extend(numbered.map(|(number, sample)| Found {
            sample,
            part,
            number,
        }));
    }
    all.sort_by(|a, b| a.sample.id.cmp(&b.sample.id));
    let (mut samples, mut duplicates, mut contradictions) = (Vec::new(), 0, Vec::new());
    for same_id in all.chunk_by(|a, b| a.sample.id == b.sample.id) {
        let mut same_id = same_id.to_vec();
        if same_id.len() > 1 {
            let key = |it: &Found<'_>| (it.sample.t0_unix_ns, text(it.sample), it.place());
            same_id.sort_by_cached_key(key);
        }
        let mut same_id = same_id.into_iter();
        let Some(counted) = same_id.next() else {
            continue;
        };
        let mut last = counted.sample;
        for found in same_id {
            if found.sample == last {
                duplicates += 1;
                continue;
            }
            last = found.sample;
            contradictions.push(Contradiction {
                id: found.sample.id.clone(),
                counted: counted.place(),
                dropped: found.place(),
            });
        }
        samples.push(counted.sample.clone());
    }
    samples.sort_by(|a, b| {
        let key = |it: &Sample| (it.index, !it.warmup, it.t0_unix_ns);
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    contradictions.sort();
    (samples, duplicates, contradictions)
}

/// A part for each thing that was written, and the files that are copies of its beginning: a copy
/// that was made while the probe still wrote has no closing line, and that of the whole counts.
fn origins_of<'a>(parts: &[&'a Part]) -> Vec<(&'a Part, Vec<String>)> {
    let mut origins: BTreeMap<_, Vec<&Part>> = BTreeMap::new();
    for &part in parts {
        let header = &part.evidence.header;
        // All files of a soak share beginning and name; who collected first tells them apart.
        let first = part.evidence.sessions.first();
        let first = first.map(|it| (it.at_unix_ns, it.pid, it.boot_id.as_deref()));
        let key = (
            header.started_unix_ns,
            &*header.run_id,
            &*header.host,
            first,
        );
        origins.entry(key).or_default().push(part);
    }
    origins
        .into_values()
        .filter_map(|mut copies| {
            copies.sort_by_cached_key(|part| {
                let it = &part.evidence;
                let ends = it.earlier.len() + usize::from(it.close.is_some());
                // The longest first; among equals whatever tells two apart.
                (
                    Reverse((it.samples.len(), ends + it.continued.len())),
                    it.torn,
                    part.file.clone(),
                    text(&it.close),
                )
            });
            let mut copies = copies.into_iter();
            let longest = copies.next()?;
            Some((longest, copies.map(|part| part.file.clone()).collect()))
        })
        .collect()
}

/// The header of the source that began first, with the largest budget of any.
fn header_of(first: &Part, origins: &[(&Part, Vec<String>)]) -> Header {
    let headers = || origins.iter().map(|(part, _)| &part.evidence.header);
    let first = headers().next().unwrap_or(&first.evidence.header);
    let widest = headers().max_by_key(|it| {
        let sampling = &it.sampling;
        // No limit is the widest.
        let tokens = sampling.max_tokens.unwrap_or(u64::MAX);
        let duration = sampling.max_duration.unwrap_or(Duration::MAX);
        (sampling.max_samples, tokens, duration, text(it))
    });
    let widest = widest.unwrap_or(first);
    let mut header = Header {
        sampling: widest.sampling.clone(),
        plan_digest: widest.plan_digest.clone(),
        spec_sha256: widest.spec_sha256.clone(),
        ..first.clone()
    };
    let mut earlier: Vec<&EarlierRun> = headers().flat_map(|it| &it.earlier_runs).collect();
    // Their names begin with their time; the latest is first.
    earlier.sort_by(|a, b| b.run_id.cmp(&a.run_id).then(a.came_to.cmp(&b.came_to)));
    earlier.dedup();
    header.earlier_runs = earlier.into_iter().cloned().collect();
    header
}

/// The closing line and those before it, by time. Where one source has none, its last session was
/// cut off, and so the whole has none.
fn closes_of(origins: &[(&Part, Vec<String>)]) -> (Option<Close>, Vec<Close>) {
    let mut all: Vec<&Close> = origins
        .iter()
        .flat_map(|(part, _)| part.evidence.earlier.iter().chain(&part.evidence.close))
        .collect();
    all.sort_by_cached_key(|it| (it.at_unix_ns, text(it)));
    let ended = origins
        .iter()
        .all(|(part, _)| part.evidence.close.is_some());
    let close = if ended { all.pop().cloned() } else { None };
    (close, all.into_iter().cloned().collect())
}

/// The processes that collected, by when they began.
fn sessions_of(origins: &[(&Part, Vec<String>)]) -> Vec<Session> {
    let mut all: Vec<&Session> = origins
        .iter()
        .flat_map(|(part, _)| &part.evidence.sessions)
        .collect();
    all.sort_by_cached_key(|it| (it.at_unix_ns, text(it)));
    all.dedup();
    all.into_iter().cloned().collect()
}

/// Slots that nobody has a sample of, each once; of several reasons that by which the most was done.
fn skipped_of(parts: &[&Part], samples: &[Sample]) -> Vec<Skipped> {
    let there: BTreeSet<&str> = samples.iter().map(|it| it.id.as_str()).collect();
    let mut all: Vec<&Skipped> = parts
        .iter()
        .flat_map(|part| &part.evidence.skipped)
        .filter(|it| !there.contains(it.id.as_str()))
        .collect();
    all.sort_by_cached_key(|it| (it.index, it.id.clone(), !it.why.was_sent(), it.why));
    all.dedup_by(|a, b| a.id == b.id);
    all.into_iter().cloned().collect()
}

fn continued_of(origins: &[(&Part, Vec<String>)]) -> Vec<Continued> {
    let mut all: Vec<&Continued> = origins
        .iter()
        .flat_map(|(part, _)| &part.evidence.continued)
        .collect();
    all.sort_by_cached_key(|it| (it.at_unix_ns, text(it)));
    all.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests;
