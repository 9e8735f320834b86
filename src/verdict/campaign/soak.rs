//! The evidence of one soak, slot by slot.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{CLOSING, CampaignError};
use crate::evidence::{Evidence, Sample};
use crate::plan::{self, Timing};

/// Everything that the rows of a campaign are made from.
pub(super) struct Soak<'a> {
    pub(super) cells: Vec<Cell<'a>>,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) as_of: u64,
    /// Stretches in which a region sampled anything at all.
    pub(super) present: BTreeMap<String, BTreeSet<u64>>,
}

/// One cell, its planned starts beside what became of them.
pub(super) struct Cell<'a> {
    pub(super) evidence: &'a Evidence,
    pub(super) slots: Vec<Planned<'a>>,
    /// Whether there is for each slot a sample, or a reason why there is none.
    is_complete: bool,
}

/// A slot, and the sample that it led to.
#[derive(Clone, Copy)]
pub(super) struct Planned<'a> {
    pub(super) index: u64,
    /// From the start of the soak.
    pub(super) start: Duration,
    /// The sample, where it says something of the relay.
    pub(super) sample: Option<&'a Sample>,
}

impl Cell<'_> {
    pub(super) const fn is_upstream(&self) -> bool {
        self.evidence.header.beside.is_some()
    }

    pub(super) fn region(&self) -> &str {
        self.evidence.header.region.as_deref().unwrap_or_default()
    }
}

impl<'a> Soak<'a> {
    pub(super) fn of(evidence: &'a [Evidence], as_of: u64) -> Result<Self, CampaignError> {
        let first = &evidence.first().ok_or(CampaignError::Nothing)?.header;
        let mut seen = BTreeSet::new();
        for one in evidence {
            let header = &one.header;
            let cell = || header.cell.clone();
            if header.sampling.mode != Timing::Soak {
                let run = header.run_id.clone();
                return Err(CampaignError::NotASoak { cell: cell(), run });
            }
            if header.plan_digest != first.plan_digest {
                return Err(CampaignError::TwoPlans {
                    cell: cell(),
                    found: header.plan_digest.clone(),
                    wanted: first.plan_digest.clone(),
                });
            }
            if !seen.insert(&header.cell_id) {
                return Err(CampaignError::Twice { cell: cell() });
            }
        }
        let duration = first.sampling.duration.unwrap_or_default();
        let start = first.started_unix_ns;
        let mut cells: Vec<Cell<'_>> = evidence.iter().map(|one| cell(one, evidence)).collect();
        // In the order of their names, whatever the order of the files.
        cells.sort_by(|a, b| a.evidence.header.cell.cmp(&b.evidence.header.cell));
        let bucket = first.judge.bucket;
        let mut present: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for cell in &cells {
            let stretches = present.entry(cell.region().to_owned()).or_default();
            let taken = cell.slots.iter().filter(|slot| slot.sample.is_some());
            stretches.extend(taken.map(|slot| stretch(slot.start, bucket)));
        }
        let end = start.saturating_add(nanos(duration));
        let closed = end.saturating_add(nanos(CLOSING));
        // Nothing more can come where it is known of each slot what became of it.
        let is_over = as_of >= end && cells.iter().all(|cell| cell.is_complete);
        Ok(Self {
            cells,
            start,
            end,
            // Once all is over it makes no difference how long ago.
            as_of: if is_over { closed } else { as_of.min(closed) },
            present,
        })
    }

    pub(super) fn first(&self) -> &'a Evidence {
        // `of` refuses evidence without a file.
        self.cells[0].evidence
    }

    pub(super) fn is_final(&self) -> bool {
        self.end.saturating_add(nanos(CLOSING)) <= self.as_of
    }

    /// Whether all answers of a stretch that begins with this slot's are in.
    pub(super) fn is_due(&self, start: Duration, bucket: Duration) -> bool {
        let next = u32::try_from(stretch(start, bucket) + 1).unwrap_or(u32::MAX);
        let closes = nanos(bucket.saturating_mul(next)).saturating_add(nanos(CLOSING));
        self.is_final() || self.start.saturating_add(closes) <= self.as_of
    }

    pub(super) fn upstream_of(&self, cell: &Cell<'_>) -> Option<&Cell<'a>> {
        let name = cell.evidence.header.cell.as_str();
        let beside = |it: &&Cell<'_>| it.evidence.header.beside.as_deref() == Some(name);
        self.cells.iter().find(beside)
    }
}

/// The slots of a cell; of the trusted upstream those of its pairs.
fn cell<'a>(evidence: &'a Evidence, all: &'a [Evidence]) -> Cell<'a> {
    let header = &evidence.header;
    let taken: BTreeMap<u64, &Sample> = evidence
        .samples
        .iter()
        .filter(|sample| sample.counts())
        .map(|sample| (sample.index, sample))
        .collect();
    let asked = evidence.samples.iter().filter(|sample| !sample.warmup);
    let asked = asked.map(|sample| sample.index);
    let skipped = evidence.skipped.iter().map(|skipped| skipped.index);
    let known: BTreeSet<u64> = asked.chain(skipped).collect();
    let slot = |(index, start): (u64, Duration)| Planned {
        index,
        start,
        sample: taken.get(&index).copied(),
    };
    let slots: Vec<Planned<'_>> = match &header.beside {
        None => (0..)
            .zip(plan::starts(&header.sampling, &header.cell))
            .map(slot)
            .collect(),
        Some(beside) => {
            // Its own starts lie within half a second of those that it is paired with.
            let sampling = all
                .iter()
                .find(|it| it.header.cell == *beside)
                .map_or(&header.sampling, |it| &it.header.sampling);
            (0..)
                .zip(plan::starts(sampling, beside))
                .filter(|(index, _)| {
                    plan::is_paired(&header.cell_id, sampling.seed, *index, header.pair_ppm)
                })
                .map(slot)
                .collect()
        }
    };
    Cell {
        evidence,
        is_complete: slots.iter().all(|slot| known.contains(&slot.index)),
        slots,
    }
}

/// The stretch of time that holds an offset from the start.
pub(super) fn stretch(start: Duration, bucket: Duration) -> u64 {
    u64::try_from(start.as_micros() / bucket.as_micros().max(1)).unwrap_or(u64::MAX)
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
