//! Planned slots against taken samples, and the gaps between them.

use serde::{Deserialize, Serialize};

use super::soak::{Cell, Soak, nanos, stretch};

/// Most gaps that are listed; the number of all is kept.
const LISTED: usize = 100;

/// What became of the slots of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// The cell.
    pub cell: String,
    /// Its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The cell whose pairs it is the other half of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Slots of the whole soak.
    pub planned: u64,
    /// Slots that are due.
    pub due: u64,
    /// Samples on file for them.
    pub taken: u64,
    /// Slots without a sample although others of the region were sampled around them: called off,
    /// or lost with their process.
    pub missing: u64,
    /// Slots at which nobody sampled.
    pub absent: u64,
    /// Stretches of slots in a row without a sample, the first of them.
    pub gaps: Vec<Gap>,
    /// How many there are.
    pub gap_count: u64,
}

/// Slots in a row without a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Planned start of the first, nanoseconds since the epoch.
    pub from_unix_ns: u64,
    /// Planned start of the last.
    pub to_unix_ns: u64,
    /// How many.
    pub slots: u64,
}

impl Coverage {
    pub(super) fn of(soak: &Soak<'_>, cell: &Cell<'_>) -> Self {
        let header = &cell.evidence.header;
        let mut coverage = Self {
            cell: header.cell.clone(),
            region: header.region.clone(),
            beside: header.beside.clone(),
            planned: cell.slots.len() as u64,
            due: 0,
            taken: 0,
            missing: 0,
            absent: 0,
            gaps: Vec::new(),
            gap_count: 0,
        };
        let bucket = header.judge.bucket;
        let present = soak.present.get(cell.region());
        let mut open: Option<Gap> = None;
        for slot in &cell.slots {
            if slot.sample.is_some() {
                coverage.taken += 1;
                coverage.due += 1;
                coverage.list(open.take());
                continue;
            }
            if !soak.is_due(slot.start, bucket) {
                continue;
            }
            coverage.due += 1;
            let number = stretch(slot.start, bucket);
            if present.is_some_and(|stretches| stretches.contains(&number)) {
                coverage.missing += 1;
            } else {
                coverage.absent += 1;
            }
            let at = soak.start.saturating_add(nanos(slot.start));
            let gap = open.get_or_insert(Gap {
                from_unix_ns: at,
                to_unix_ns: at,
                slots: 0,
            });
            gap.to_unix_ns = at;
            gap.slots += 1;
        }
        coverage.list(open);
        coverage
    }

    fn list(&mut self, gap: Option<Gap>) {
        let Some(gap) = gap else {
            return;
        };
        self.gap_count += 1;
        if self.gaps.len() < LISTED {
            self.gaps.push(gap);
        }
    }
}
