//! One cell as reports show it: what was promised, decided and counted, and when.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Decision, Effect, Verdict, effect, judge};
use crate::attribution::groups::Groups;
use crate::evidence::{Close, CloseReason, Continued, EarlierRun, Evidence, Sample};
use crate::forms::named;
use crate::objective::Objective;
use crate::plan::Judging;

/// One cell, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// `relay/model/workload`.
    pub cell: String,
    /// The run: the run folder's name.
    pub run_id: String,
    /// Path of the spec as the user gave it.
    pub spec_source: String,
    /// How it was judged.
    pub judging: Judging,
    /// What is promised, in spec order.
    pub objectives: Vec<Objective>,
    /// What was decided, in the same order.
    pub verdicts: Vec<Verdict>,
    /// Planned samples.
    pub planned: u64,
    /// Counted samples on file, those after the decision included.
    pub samples: u64,
    /// Warm-ups and calls that were called off.
    pub uncounted: u64,
    /// Attempts of the counted samples.
    pub attempts: u64,
    /// Counted samples by the class of their first attempt, `ok` included.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// What went wrong in their first attempts, by who is to be looked at.
    pub failures: Groups,
    /// Wall clock of the first start, nanoseconds since the epoch.
    pub first_unix_ns: Option<u64>,
    /// Wall clock of the last end.
    pub last_unix_ns: Option<u64>,
    /// The closing line.
    pub close: Option<Close>,
    /// The times that the run went on after its end.
    pub continued: Vec<Continued>,
    /// Runs of the same plan right before this one that did not pass.
    pub earlier_runs: Vec<EarlierRun>,
    /// The file ended inside a line.
    pub torn: bool,
}

named! {
    /// What all verdicts together come to, in order of precedence.
    Overall {
        /// Nothing fails.
        Pass = "pass",
        /// Something was not decided, and the spec says that this fails.
        Inconclusive = "inconclusive",
        /// A gating objective is violated.
        Violated = "violated",
        /// Nothing could be measured, or we failed ourselves.
        Nothing = "nothing_measured",
    }
}

impl Overall {
    /// Exit code of the command.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Pass => 0,
            Self::Violated => 1,
            Self::Inconclusive => 3,
            Self::Nothing => 4,
        }
    }
}

impl Summary {
    /// Judges the evidence of one cell and counts what is in it.
    pub fn of(evidence: &Evidence) -> Self {
        Self::with(evidence, judge(evidence))
    }

    /// Counts what is in the evidence of one cell that is judged already.
    pub fn with(evidence: &Evidence, verdicts: Vec<Verdict>) -> Self {
        let mut summary = Self::uncounted(evidence, verdicts);
        for sample in &evidence.samples {
            summary.count(sample);
        }
        summary
    }

    /// A summary before the first sample is counted.
    pub(super) fn uncounted(evidence: &Evidence, verdicts: Vec<Verdict>) -> Self {
        let header = &evidence.header;
        Self {
            cell: header.cell.clone(),
            run_id: header.run_id.clone(),
            spec_source: header.spec_source.clone(),
            judging: header.judge.clone(),
            objectives: header.objectives.clone(),
            verdicts,
            planned: header.sampling.max_samples,
            samples: 0,
            uncounted: 0,
            attempts: 0,
            outcomes: BTreeMap::new(),
            failures: Groups::default(),
            first_unix_ns: None,
            last_unix_ns: None,
            close: evidence.close.clone(),
            continued: evidence.continued.clone(),
            earlier_runs: header.earlier_runs.clone(),
            torn: evidence.torn,
        }
    }

    /// Counts a sample.
    pub(super) fn count(&mut self, sample: &Sample) {
        if !sample.counts() {
            self.uncounted += 1;
            return;
        }
        self.samples += 1;
        self.failures.take(sample);
        self.attempts += sample.attempts.len() as u64;
        if let Some(first) = sample.attempts.first() {
            *self
                .outcomes
                .entry(first.observation.outcome())
                .or_default() += 1;
        }
        let end = sample.attempts.last().map_or(sample.t0_unix_ns, |last| {
            let over = last.start.saturating_add(last.observation.timeline.over);
            let over = u64::try_from(over.as_nanos()).unwrap_or(u64::MAX);
            sample.t0_unix_ns.saturating_add(over)
        });
        let start = sample.t0_unix_ns;
        self.first_unix_ns = Some(self.first_unix_ns.map_or(start, |at| at.min(start)));
        self.last_unix_ns = self.last_unix_ns.max(Some(end));
    }

    /// Upper bound of the chance that one of the runs up to this one passes falsely, the earlier
    /// ones that did not pass included; of the objective whose confidence is the least.
    pub fn false_pass(&self) -> f64 {
        let confidence = |it: &Objective| it.confidence_ppm.unwrap_or(self.judging.confidence_ppm);
        let gating = self.objectives.iter().filter(|it| it.gates());
        let least = gating.map(confidence).min();
        let least = f64::from(least.unwrap_or(self.judging.confidence_ppm)) / 1e6;
        let runs = i32::try_from(self.earlier_runs.len()).unwrap_or(i32::MAX);
        1.0 - least.powi(runs.saturating_add(1))
    }

    /// What the verdicts of this cell come to.
    pub fn overall(&self) -> Overall {
        let failed = self
            .close
            .as_ref()
            .is_some_and(|close| close.reason == CloseReason::Failed);
        if failed || self.samples == 0 {
            return Overall::Nothing;
        }
        self.objectives
            .iter()
            .zip(&self.verdicts)
            .filter(|(objective, verdict)| {
                effect(verdict, objective, &self.judging) == Effect::Failure
            })
            .map(|(_, verdict)| match verdict.decision {
                Decision::Violated => Overall::Violated,
                Decision::Pass | Decision::Inconclusive(_) => Overall::Inconclusive,
            })
            .max()
            .unwrap_or(Overall::Pass)
    }
}

/// What the verdicts of all cells come to; without a cell, nothing was measured.
pub fn overall<'a>(summaries: impl IntoIterator<Item = &'a Summary>) -> Overall {
    summaries
        .into_iter()
        .map(Summary::overall)
        .max()
        .unwrap_or(Overall::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::Sample;
    use crate::evidence::fixtures::*;
    use crate::plan::OnInconclusive;

    fn samples(outcomes: impl IntoIterator<Item = bool>) -> Vec<Sample> {
        outcomes
            .into_iter()
            .zip(0..)
            .map(|(fine, index)| sample(index, if fine { good() } else { slow(2000) }))
            .collect()
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_cell() {
        let of = |record: &Evidence| Summary::of(record);
        let pass = of(&evidence(vec![ttft_p95()], 232, samples(vec![true; 74])));
        let open = of(&evidence(vec![ttft_p95()], 232, samples(vec![true; 7])));
        let violated = of(&evidence(vec![ttft_p95()], 232, samples([false; 3])));
        let nothing = of(&evidence(vec![ttft_p95()], 232, []));
        let code = |cells: &[&Summary]| overall(cells.iter().copied()).exit_code();
        assert_eq!(code(&[&pass]), 0);
        assert_eq!(code(&[&pass, &open]), 3);
        assert_eq!(code(&[&violated, &open]), 1);
        assert_eq!(code(&[&violated, &nothing]), 4);
        assert_eq!(code(&[]), 4);
        let mut lenient = open;
        lenient.judging.on_inconclusive = OnInconclusive::Warn;
        assert_eq!(code(&[&lenient]), 0);
    }

    #[test]
    fn a_summary_counts_what_was_sampled() {
        let mut all = samples([true, true]);
        all.push(retried(2, vec![refused(503), good()]));
        let mut warm = sample(0, good());
        warm.warmup = true;
        all.push(warm);
        let summary = Summary::of(&evidence(vec![ttft_p95()], 232, all));
        assert_eq!(
            (summary.samples, summary.uncounted, summary.attempts),
            (3, 1, 4)
        );
        assert_eq!(summary.outcomes.get("ok"), Some(&2));
        assert_eq!(summary.outcomes.get("http-error"), Some(&1));
        assert_eq!(summary.first_unix_ns, Some(1_000_000_000));
        assert_eq!(summary.last_unix_ns, Some(3_522_000_000));
    }
}
