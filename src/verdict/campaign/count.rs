//! Samples of one objective, counted by stretch of time and by day.

use std::collections::BTreeMap;
use std::time::Duration;

use super::beside::{Beside, Twins};
use super::soak::{Cell, Planned, Soak, nanos, stretch};
use super::{DayCount, Failing};
use crate::evidence::{LATE, Sample};
use crate::measure::{self, Outcome, Reading};
use crate::objective::Objective;
use crate::objective::metric::Metric;
use crate::plan::Judging;
use crate::plan::window::{Calendar, Day};
use crate::verdict::NAMED_FAILURES;
use crate::verdict::track::worst;

/// Where an objective is counted.
pub(super) struct Place<'a> {
    pub(super) soak: &'a Soak<'a>,
    pub(super) cell: &'a Cell<'a>,
    pub(super) upstream: Option<&'a Cell<'a>>,
    pub(super) calendar: &'a Calendar,
}

/// One stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Samples that counted.
    pub(super) n: u64,
    /// Failures among them.
    pub(super) failures: u64,
    /// Slots without a sample although their region sampled others in this stretch.
    pub(super) missing: u64,
    /// Slots, due or not.
    pub(super) planned: u64,
}

/// What came of the samples.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    stretches: BTreeMap<u64, Stretch>,
    days: BTreeMap<Day, (u64, u64)>,
    values: Vec<f64>,
    failing: Vec<Failing>,
    twins: Twins,
    has_upstream: bool,
    pub(super) width: Duration,
    /// Slots that are due.
    pub(super) due: u64,
    /// Samples without a value.
    pub(super) undefined: u64,
    /// Samples that the objective is not about.
    pub(super) ineligible: u64,
    /// Slots without a sample in a stretch in which their region sampled nothing.
    pub(super) absent: u64,
    pub(super) late: u64,
    pub(super) own_failures: u64,
    /// Normal stops, and those without their seal.
    pub(super) stops: (u64, u64),
}

impl Count {
    pub(super) fn of(objective: &Objective, place: &Place<'_>) -> Self {
        let header = &place.cell.evidence.header;
        let mut count = Self {
            width: header.judge.bucket,
            has_upstream: place.upstream.is_some(),
            ..Self::default()
        };
        let present = place.soak.present.get(place.cell.region());
        let mut twins: BTreeMap<u64, &Sample> = BTreeMap::new();
        if let Some(upstream) = place.upstream {
            let taken = upstream.slots.iter();
            twins.extend(taken.filter_map(|slot| Some((slot.index, slot.sample?))));
        }
        for slot in &place.cell.slots {
            let at = place.soak.start.saturating_add(nanos(slot.start));
            let Some(day) = place.calendar.day(at) else {
                continue;
            };
            let number = stretch(slot.start, count.width);
            let is_due = place.soak.is_due(slot.start, count.width);
            let here = count.stretches.entry(number).or_default();
            here.planned += 1;
            if !is_due {
                continue;
            }
            count.due += 1;
            let Some(sample) = slot.sample else {
                if present.is_some_and(|stretches| stretches.contains(&number)) {
                    here.missing += 1;
                } else {
                    count.absent += 1;
                }
                continue;
            };
            let twin = twins.get(&slot.index).copied();
            count.take(objective, place.cell, *slot, sample, twin, (number, day));
        }
        let own = place.cell.evidence.samples.iter();
        count.own_failures = own.filter(|it| it.failed_for_our_want()).count() as u64;
        count
    }

    fn take(
        &mut self,
        objective: &Objective,
        cell: &Cell<'_>,
        slot: Planned<'_>,
        sample: &Sample,
        twin: Option<&Sample>,
        (number, day): (u64, Day),
    ) {
        let header = &cell.evidence.header;
        self.late += u64::from(sample.lag > LATE);
        let reading = reading(objective, sample, twin, &header.judge);
        if objective.metric == Metric::Usable && header.seal_allowance_ppm.is_some_and(|it| it > 0)
        {
            if let Some(sealed) = measure::sealed(sample) {
                self.stops.0 += 1;
                self.stops.1 += u64::from(!sealed);
            }
            if reading == Reading::Unsealed {
                self.ineligible += 1;
                return;
            }
        }
        let good = match objective.outcome_of(reading) {
            Outcome::Good => true,
            Outcome::Bad => false,
            Outcome::Undefined => {
                self.undefined += 1;
                return;
            }
            Outcome::Ineligible => {
                self.ineligible += 1;
                return;
            }
        };
        if objective.metric != Metric::Overhead
            && let Some(twin) = twin
        {
            self.twins
                .take(good, objective.outcome(twin, &header.judge));
        }
        let value = reading.value().unwrap_or_else(|| worst(objective));
        self.values.push(value);
        let here = self.stretches.entry(number).or_default();
        here.n += 1;
        here.failures += u64::from(!good);
        let (n, failures) = self.days.entry(day).or_default();
        *n += 1;
        *failures += u64::from(!good);
        if !good && self.failing.len() < NAMED_FAILURES {
            self.failing.push(Failing {
                cell: header.cell.clone(),
                index: slot.index,
                trace_id: sample.trace_id.clone(),
            });
        }
    }

    /// Both together, stretch by stretch.
    pub(super) fn with(mut self, other: &Self) -> Self {
        for (number, more) in &other.stretches {
            let here = self.stretches.entry(*number).or_default();
            here.n += more.n;
            here.failures += more.failures;
            here.missing += more.missing;
            here.planned += more.planned;
        }
        for (day, (n, failures)) in &other.days {
            let here = self.days.entry(*day).or_default();
            here.0 += n;
            here.1 += failures;
        }
        self.values.extend(&other.values);
        let room = NAMED_FAILURES.saturating_sub(self.failing.len());
        self.failing
            .extend(other.failing.iter().take(room).cloned());
        self.twins = self.twins.with(&other.twins);
        self.has_upstream |= other.has_upstream;
        self.width = other.width;
        self.due += other.due;
        self.undefined += other.undefined;
        self.ineligible += other.ineligible;
        self.absent += other.absent;
        self.late += other.late;
        self.own_failures += other.own_failures;
        self.stops.0 += other.stops.0;
        self.stops.1 += other.stops.1;
        self
    }

    pub(super) fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.stretches.values()
    }

    /// Stretches that have a slot: votes, had all been answered.
    pub(super) fn planned_votes(&self) -> u64 {
        self.stretches.values().filter(|it| it.planned > 0).count() as u64
    }

    pub(super) fn n(&self) -> u64 {
        self.stretches.values().map(|it| it.n).sum()
    }

    pub(super) fn failures(&self) -> u64 {
        self.stretches.values().map(|it| it.failures).sum()
    }

    pub(super) fn missing(&self) -> u64 {
        self.stretches.values().map(|it| it.missing).sum()
    }

    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    pub(super) fn failing(&self) -> &[Failing] {
        &self.failing
    }

    pub(super) fn days(&self) -> Vec<DayCount> {
        let days = self.days.iter();
        days.map(|(day, (n, failures))| DayCount {
            day: *day,
            n: *n,
            failures: *failures,
        })
        .collect()
    }

    /// What the pairs say; `None` without an upstream.
    pub(super) fn beside(
        &self,
        objective: &Objective,
        judging: &Judging,
        is_final: bool,
    ) -> Option<Beside> {
        if !self.has_upstream || objective.metric == Metric::Overhead {
            return None;
        }
        Some(self.twins.finding(objective, judging, is_final))
    }
}

/// What the objective's metric says of a sample, or of a pair.
fn reading(
    objective: &Objective,
    sample: &Sample,
    twin: Option<&Sample>,
    judging: &Judging,
) -> Reading {
    if objective.metric != Metric::Overhead {
        return objective.metric.reading(sample, judging);
    }
    let Some(twin) = twin else {
        return Reading::Ineligible;
    };
    let first = |sample| Metric::Ttft.reading(sample, judging).value();
    match (first(sample), first(twin)) {
        (Some(relay), Some(upstream)) => Reading::Value(relay - upstream),
        (None, Some(_)) => Reading::Worst,
        // Nothing to compare with: counted, and no one's failure.
        (_, None) => Reading::Ineligible,
    }
}
