//! Which slot of which cell comes next: all cells of a soak merged by planned start, in memory that
//! does not grow with the soak.
//!
//! Pure: knows no clock, and not what is on file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::plan::{Cell, Plan, Slot};

/// Slots of the trusted upstream stand half a second before or after those they are paired with, so
/// each may be out of order by this much.
const OUT_OF_ORDER: Duration = Duration::from_secs(1);

/// Planned slots, each with the number of its cell.
pub(super) struct Agenda {
    sources: Vec<Source>,
    /// The next slot of each cell that has one.
    heads: BinaryHeap<Reverse<Head>>,
}

/// A slot and whose it is.
#[derive(Debug, PartialEq)]
pub(super) struct Head {
    /// Number of the cell among those of the agenda.
    pub(super) cell: usize,
    /// The slot.
    pub(super) slot: Slot,
}

impl Head {
    fn key(&self) -> (Duration, usize, u64) {
        (self.slot.start, self.cell, self.slot.index)
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Agenda {
    /// All slots of these cells that start at `from` or later; the number of a cell is its place.
    pub(super) fn new(plan: &Plan, cells: &[&Cell], from: Duration) -> Self {
        let sources = cells.iter().map(|cell| Source::new(slots(plan, cell)));
        let mut agenda = Self {
            sources: sources.collect(),
            heads: BinaryHeap::with_capacity(cells.len()),
        };
        for (cell, source) in agenda.sources.iter_mut().enumerate() {
            let first = source.find(|slot| slot.start >= from);
            agenda
                .heads
                .extend(first.map(|slot| Reverse(Head { cell, slot })));
        }
        agenda
    }

    /// When the next slot starts.
    pub(super) fn next_start(&self) -> Option<Duration> {
        self.heads.peek().map(|Reverse(head)| head.slot.start)
    }

    /// The next slot.
    pub(super) fn pop(&mut self) -> Option<Head> {
        let Reverse(head) = self.heads.pop()?;
        let cell = head.cell;
        let next = self.sources.get_mut(cell).and_then(Iterator::next);
        self.heads
            .extend(next.map(|slot| Reverse(Head { cell, slot })));
        Some(head)
    }
}

/// The slots of a cell, or of the trusted upstream beside one.
pub(super) fn slots(plan: &Plan, cell: &Cell) -> Box<dyn Iterator<Item = Slot> + Send> {
    match &cell.beside {
        None => Box::new(cell.slots(&cell.sampling(&plan.sampling))),
        Some(name) => match plan.cells.iter().find(|it| it.name() == *name) {
            Some(beside) => {
                let sampling = beside.sampling(&plan.sampling);
                Box::new(cell.paired_slots(beside, &sampling, plan.pair_ppm))
            }
            None => Box::new(std::iter::empty()),
        },
    }
}

/// The slots of one cell in the order of their starts.
struct Source {
    planned: Box<dyn Iterator<Item = Slot> + Send>,
    /// Slots before which none can come any more, once the last of them is far enough ahead.
    ahead: BinaryHeap<Reverse<Head>>,
    last: Option<Duration>,
}

impl Source {
    fn new(planned: Box<dyn Iterator<Item = Slot> + Send>) -> Self {
        Self {
            planned,
            ahead: BinaryHeap::new(),
            last: None,
        }
    }
}

impl Iterator for Source {
    type Item = Slot;

    fn next(&mut self) -> Option<Slot> {
        loop {
            if let Some(Reverse(first)) = self.ahead.peek()
                && self.last > Some(first.slot.start + OUT_OF_ORDER)
            {
                break;
            }
            let Some(slot) = self.planned.next() else {
                break;
            };
            self.last = self.last.max(Some(slot.start));
            self.ahead.push(Reverse(Head { cell: 0, slot }));
        }
        self.ahead.pop().map(|Reverse(head)| head.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::collect::testing::soak;

    #[test]
    fn every_slot_of_every_cell_comes_once_in_the_order_of_their_starts() {
        let plan = soak("").plan;
        let cells: Vec<&Cell> = plan.cells.iter().chain(&plan.baselines).collect();
        assert!(
            plan.baselines.len() >= 2,
            "pairs are what may be out of order"
        );
        let mut agenda = Agenda::new(&plan, &cells, Duration::ZERO);
        let (mut seen, mut last) = (Vec::new(), Duration::ZERO);
        while let Some(next) = agenda.next_start() {
            let head = agenda.pop().unwrap();
            assert_eq!(head.slot.start, next);
            assert!(next >= last, "{head:?}");
            last = next;
            seen.push(head.slot.id);
        }
        let planned = |cell: &&Cell| slots(&plan, cell).map(|slot| slot.id).collect::<Vec<_>>();
        let mut all: Vec<String> = cells.iter().flat_map(planned).collect();
        all.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, all);
    }

    #[test]
    fn whoever_comes_late_begins_with_what_is_still_to_come() {
        let plan = soak("").plan;
        let cells: Vec<&Cell> = plan.cells.iter().chain(&plan.baselines).collect();
        let from = Duration::from_secs(3600);
        let mut agenda = Agenda::new(&plan, &cells, from);
        let mut left = 0;
        while let Some(head) = agenda.pop() {
            assert!(head.slot.start >= from);
            left += 1;
        }
        let planned = cells.iter().flat_map(|cell| slots(&plan, cell));
        assert_eq!(left, planned.filter(|slot| slot.start >= from).count());
    }
}
