//! All objectives of one cell, fed with samples as they come, judged in planned order.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Verdict;
use super::track::{End, Taken, Track};
use crate::evidence::{
    Close, CloseReason, Header, LATE, Sample, own_failures, too_many_late, too_many_own,
};
use crate::measure::{self, Reading};
use crate::objective::Objective;
use crate::plan::window::Calendar;
use crate::plan::{Judging, Stop, budget};
use crate::stats::sequential::joint_over;

/// The objectives of one cell being judged.
///
/// Samples may be handed over in any order; they are applied in the order of their slots, because
/// slow answers finish last and taking them as they finish would look at the fast ones first. What
/// lies behind a slot that has not been answered yet waits.
#[derive(Clone, Debug)]
pub struct Judge {
    judging: Judging,
    max_samples: u64,
    asks_for_seals: bool,
    tracks: Vec<Track>,
    /// For each track the window that it is about, where it is about one.
    windows: Vec<Option<Calendar>>,
    /// The slot that is applied next.
    next: u64,
    /// Samples applied before the decision.
    used: u64,
    /// Samples behind an open slot.
    waiting: BTreeMap<u64, Row>,
    over: bool,
    invalid: Option<String>,
    /// Longest loop lag of a session whose loop was saturated.
    doubt: Option<Duration>,
    starts: u64,
    late_starts: u64,
    /// Calls that failed for want of something on our side.
    own_failures: u64,
}

/// What is needed of a sample that waits for its turn.
#[derive(Clone, Debug)]
struct Row {
    taken: Taken,
    /// One per objective.
    readings: Vec<Reading>,
}

impl Judge {
    /// A judge without samples. `max_samples` is the planned number of counted samples,
    /// `seal_allowance_ppm` the share of normal stops that may lack the seal, where one is asked for.
    pub fn new(
        objectives: &[Objective],
        judging: &Judging,
        max_samples: u64,
        seal_allowance_ppm: Option<u32>,
    ) -> Self {
        let accounts = budget::accounts(objectives, seal_allowance_ppm);
        let track = |it| Track::new(it, judging, max_samples, accounts, seal_allowance_ppm);
        let tracks: Vec<Track> = objectives.iter().map(track).collect();
        let mut judge = Self {
            windows: vec![None; tracks.len()],
            judging: judging.clone(),
            max_samples,
            asks_for_seals: seal_allowance_ppm.is_some(),
            tracks,
            next: 0,
            used: 0,
            waiting: BTreeMap::new(),
            over: false,
            invalid: None,
            doubt: None,
            starts: 0,
            late_starts: 0,
            own_failures: 0,
        };
        judge.over = judge.is_over();
        judge
    }

    /// A judge for the file that begins with this header.
    pub fn for_header(header: &Header) -> Self {
        let judge = Self::new(
            &header.objectives,
            &header.judge,
            header.sampling.max_samples,
            header.seal_allowance_ppm,
        );
        let calendar = |objective: &Objective| {
            let name = objective.window.as_deref()?;
            let window = header.windows.iter().find(|it| it.name == name)?;
            Calendar::of(window)
        };
        Self {
            windows: header.objectives.iter().map(calendar).collect(),
            ..judge
        }
    }

    /// What each objective's metric says of a sample; those about a window say nothing of samples
    /// whose planned start lies outside of it.
    fn readings<'s>(&'s self, sample: &'s Sample) -> impl Iterator<Item = Reading> + 's {
        let lag = u64::try_from(sample.lag.as_nanos()).unwrap_or(u64::MAX);
        let planned = sample.t0_unix_ns.saturating_sub(lag);
        self.tracks
            .iter()
            .zip(&self.windows)
            .map(move |(track, window)| match window {
                Some(calendar) if !calendar.holds(planned) => Reading::Ineligible,
                Some(_) | None => track.objective().metric.reading(sample, &self.judging),
            })
    }

    /// Takes a sample. Warm-ups, calls that were called off, slots that were there before and
    /// slots beyond the plan change nothing, and neither does anything after the decision.
    pub fn take(&mut self, sample: &Sample) {
        if !self.over && !sample.warmup {
            self.own_failures += u64::from(sample.failed_for_our_want());
        }
        if self.over || !sample.counts() {
            return;
        }
        if sample.index < self.next || sample.index >= self.max_samples {
            return;
        }
        if self.waiting.contains_key(&sample.index) {
            return;
        }
        self.starts += 1;
        self.late_starts += u64::from(sample.lag > LATE);
        if sample.index > self.next {
            let readings = self.readings(sample).collect();
            let row = Row {
                taken: self.taken(sample),
                readings,
            };
            self.waiting.insert(sample.index, row);
            return;
        }
        let taken = self.taken(sample);
        let readings: Vec<Reading> = self.readings(sample).collect();
        self.apply(&Row { taken, readings });
        while !self.over
            && let Some(row) = self.waiting.remove(&self.next)
        {
            self.apply(&row);
        }
    }

    /// Says that no slot below the highest one taken will be answered any more, as when a run goes
    /// on from the evidence of one that ended: the open ones are missing.
    pub fn close_gaps(&mut self) {
        while !self.over
            && let Some((index, row)) = self.waiting.pop_first()
        {
            let gap = index - self.next;
            if gap > 0 {
                self.tracks.iter_mut().for_each(|track| track.miss(gap));
                self.next = index;
            }
            self.apply(&row);
        }
    }

    fn taken(&self, sample: &Sample) -> Taken {
        let sealed = || measure::sealed(sample);
        Taken {
            index: sample.index,
            at: sample.t0_unix_ns,
            sealed: self.asks_for_seals.then(sealed).flatten(),
        }
    }

    fn apply(&mut self, row: &Row) {
        for (track, reading) in self.tracks.iter_mut().zip(&row.readings) {
            track.take(row.taken, *reading);
        }
        self.applied();
    }

    fn applied(&mut self) {
        self.next += 1;
        self.used += 1;
        self.over = self.is_over();
    }

    fn is_over(&self) -> bool {
        self.next >= self.max_samples || self.objectives_end_it()
    }

    fn objectives_end_it(&self) -> bool {
        let stop_at_first = self.judging.stop == Stop::First;
        let mut holding = self
            .tracks
            .iter()
            .filter(|track| track.holds_open())
            .peekable();
        // With nothing that gates, the whole plan is measured.
        holding.peek().is_some() && joint_over(holding.map(Track::standing), stop_at_first)
    }

    /// Whether sampling may stop: every gating objective is decided, or the first bad news ends the
    /// cell and has come, or every planned slot is accounted for.
    pub const fn is_decided(&self) -> bool {
        self.over
    }

    /// Whether the objectives themselves end sampling, and not only the planned number of samples.
    pub fn is_decided_by_objectives(&self) -> bool {
        self.objectives_end_it()
    }

    /// Samples that the decision rests on.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Takes over what closing lines of earlier sessions say against the run.
    pub(super) fn invalidate_by(&mut self, closes: &[Close]) {
        self.invalid = closes
            .iter()
            .find_map(|close| close.self_check.invalid.clone())
            .or_else(|| self.invalid.take());
        let doubts = closes.iter().filter_map(|close| close.self_check.doubt());
        self.doubt = doubts.chain(self.doubt).max();
    }

    /// The verdicts if sampling stopped here.
    pub fn standing(&self) -> Vec<Verdict> {
        self.verdicts(&End {
            invalid: self.invalid.clone(),
            doubt: self.doubt,
            used_up: self.next >= self.max_samples,
            stopped: None,
        })
    }

    /// The verdicts, now that sampling has ended; without a closing line the process was killed.
    pub fn finish(mut self, close: Option<&Close>) -> Vec<Verdict> {
        self.close_gaps();
        match close {
            Some(close) => self.invalidate_by(std::slice::from_ref(close)),
            // Nobody was left to check the probe's health; what the samples show of it must do.
            None if too_many_late(self.late_starts, self.starts) => {
                self.invalid.get_or_insert_with(|| {
                    let (late, all) = (self.late_starts, self.starts);
                    format!("{late} of {all} starts were more than 100 ms late")
                });
            }
            None if too_many_own(self.own_failures, self.starts + self.own_failures) => {
                self.invalid.get_or_insert_with(|| {
                    own_failures(self.own_failures, self.starts + self.own_failures)
                });
            }
            None => {}
        }
        let stopped = match close.map(|close| close.reason) {
            None => Some("the evidence has no closing line: its run was cut off"),
            Some(CloseReason::Limit) => Some("a limit of the spec was reached"),
            Some(CloseReason::Paused) => Some("its collector has ended, and the soak goes on"),
            Some(CloseReason::Interrupted) => Some("the run was interrupted"),
            Some(CloseReason::Failed) => Some("the run failed on our side"),
            Some(CloseReason::Decided) => Some("the other objectives were decided"),
            Some(CloseReason::Budget) => None,
        };
        let failure = close.and_then(|close| close.error.as_deref());
        let end = End {
            used_up: self.next >= self.max_samples,
            stopped: match (stopped, failure) {
                (Some(stopped), Some(failure)) => Some(format!("{stopped}: {failure}")),
                (stopped, _) => stopped.map(str::to_owned),
            },
            invalid: self.invalid.take(),
            doubt: self.doubt,
        };
        self.verdicts(&end)
    }

    fn verdicts(&self, end: &End) -> Vec<Verdict> {
        self.tracks.iter().map(|track| track.verdict(end)).collect()
    }
}
