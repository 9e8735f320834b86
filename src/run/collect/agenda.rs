//! Which slot of which cell comes next: all cells of a soak merged by planned start, in memory that
//! does not grow with the soak.
//!
//! Pure: knows no clock, and not what is on file.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::plan::{Cell, Plan};

/// Slots of the trusted upstream stand half a second before or after those they are paired with, so
/// each may be out of order by this much.
const OUT_OF_ORDER: Duration = Duration::from_secs(1);

/// Planned slots, each with the number of its cell.
pub(super) struct Agenda {
    sources: Vec<Source>,
    /// The next slot of each cell that has one.
    heads: BinaryHeap<Reverse<Head>>,
}

/// A planned slot, of which no more is made than it takes to put it in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head {
    /// Planned start.
    pub(super) start: Duration,
    /// Number of the cell among those of the agenda.
    pub(super) cell: usize,
    /// Index of the slot.
    pub(super) index: u64,
}

impl Agenda {
    /// All slots of these cells that start at `from` or later; the number of a cell is its place.
    pub(super) fn new(plan: &Plan, cells: &[&Cell], from: Duration) -> Self {
        let sources = (0..).zip(cells);
        let sources = sources.map(|(number, cell)| Source::new(number, plan.soak_starts(cell)));
        let mut agenda = Self {
            sources: sources.collect(),
            heads: BinaryHeap::with_capacity(cells.len()),
        };
        for source in &mut agenda.sources {
            let first = source.find(|head| head.start >= from);
            agenda.heads.extend(first.map(Reverse));
        }
        agenda
    }

    /// When the next slot starts.
    pub(super) fn next_start(&self) -> Option<Duration> {
        self.heads.peek().map(|Reverse(head)| head.start)
    }

    /// The next slot.
    pub(super) fn pop(&mut self) -> Option<Head> {
        let Reverse(head) = self.heads.pop()?;
        let next = self.sources.get_mut(head.cell).and_then(Iterator::next);
        self.heads.extend(next.map(Reverse));
        Some(head)
    }
}

/// The slots of one cell in the order of their starts.
struct Source {
    cell: usize,
    planned: Box<dyn Iterator<Item = (u64, Duration)> + Send>,
    /// Slots before which none can come any more, once the last of them is far enough ahead.
    ahead: BinaryHeap<Reverse<Head>>,
    last: Option<Duration>,
}

impl Source {
    fn new(cell: usize, planned: Box<dyn Iterator<Item = (u64, Duration)> + Send>) -> Self {
        Self {
            cell,
            planned,
            ahead: BinaryHeap::new(),
            last: None,
        }
    }
}

impl Iterator for Source {
    type Item = Head;

    fn next(&mut self) -> Option<Head> {
        loop {
            if let Some(Reverse(first)) = self.ahead.peek()
                && self.last > Some(first.start + OUT_OF_ORDER)
            {
                break;
            }
            let Some((index, start)) = self.planned.next() else {
                break;
            };
            self.last = self.last.max(Some(start));
            let cell = self.cell;
            self.ahead.push(Reverse(Head { start, cell, index }));
        }
        self.ahead.pop().map(|Reverse(head)| head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Slot;
    use crate::run::collect::testing::soak;

    /// As the judge has them.
    fn slots(plan: &Plan, cell: &Cell) -> Vec<Slot> {
        let beside = plan.cells.iter().find(|it| Some(it.name()) == cell.beside);
        match beside {
            None => cell.slots(&cell.sampling(&plan.sampling)).collect(),
            Some(beside) => {
                let sampling = beside.sampling(&plan.sampling);
                cell.paired_slots(beside, &sampling, plan.pair_ppm)
                    .collect()
            }
        }
    }

    #[test]
    fn every_slot_of_every_cell_comes_once_in_the_order_of_their_starts() {
        let plan = soak("").plan;
        let cells: Vec<&Cell> = plan.cells.iter().chain(&plan.baselines).collect();
        let pairs = slots(&plan, &plan.baselines[0]);
        let sorted = pairs.is_sorted_by_key(|slot| slot.start);
        assert!(pairs.len() > 100 && !sorted, "pairs are out of order");
        let mut agenda = Agenda::new(&plan, &cells, Duration::ZERO);
        let (mut seen, mut last) = (vec![Vec::new(); cells.len()], Duration::ZERO);
        while let Some(next) = agenda.next_start() {
            let head = agenda.pop().unwrap();
            assert_eq!(head.start, next);
            assert!(next >= last, "{head:?}");
            last = next;
            seen[head.cell].push(plan.soak_slot(cells[head.cell], head.index, head.start));
        }
        for (mut seen, cell) in seen.into_iter().zip(cells) {
            seen.sort_by_key(|slot| slot.index);
            assert_eq!(seen, slots(&plan, cell), "{}", cell.name());
        }
    }

    #[test]
    fn whoever_comes_late_begins_with_what_is_still_to_come() {
        let plan = soak("").plan;
        let cells: Vec<&Cell> = plan.cells.iter().chain(&plan.baselines).collect();
        let from = Duration::from_secs(3600);
        let mut agenda = Agenda::new(&plan, &cells, from);
        let mut left = 0;
        while let Some(head) = agenda.pop() {
            assert!(head.start >= from);
            left += 1;
        }
        let planned = cells.iter().flat_map(|cell| slots(&plan, cell));
        assert_eq!(left, planned.filter(|slot| slot.start >= from).count());
    }
}
