//! One objective being judged: its counts, its rule, and the moment it was decided.

use std::time::Duration;

use super::bursts::Buckets;
use super::rule::{GAMMA, Rule};
use super::seals::SealAccount;
use super::{Decision, Inconclusive, NAMED_FAILURES, Verdict};
use crate::measure::{Outcome, Reading};
use crate::objective::metric::{Direction, Metric, Unit};
use crate::objective::{Objective, Statistic};
use crate::plan::budget;
use crate::plan::{Judging, Mode};
use crate::stats::float;
use crate::stats::interval::Interval;
use crate::stats::quantile;
use crate::stats::sequential::{Account, Standing};
use crate::words::counted;

/// Further samples that an objective that cannot pass is given to show a violation.
const LAST_CHANCE: u64 = 10;
/// One undefined value in so many is still fine.
const UNDEFINED_ONE_IN: u64 = 10;

/// Everything about the end of sampling that a verdict depends on.
#[derive(Clone, Debug, Default)]
pub(super) struct End {
    /// Why the run says nothing about the relay.
    pub(super) invalid: Option<String>,
    /// Lag of ours that may be in any measured time.
    pub(super) doubt: Option<Duration>,
    /// Every planned slot is accounted for.
    pub(super) used_up: bool,
    /// Why sampling stopped before that, in words.
    pub(super) stopped: Option<String>,
}

/// What a sample is beside its readings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// Its slot.
    pub(super) index: u64,
    /// When it started, nanoseconds since the epoch.
    pub(super) at: u64,
    /// Of a normal stop, whether its seal is there.
    pub(super) sealed: Option<bool>,
}

/// One objective being judged.
#[derive(Clone, Debug)]
pub(super) struct Track {
    objective: Objective,
    rule: Rule,
    rule_words: String,
    guard: bool,
    futility: bool,
    /// Most samples of the cell.
    max_samples: u64,
    /// Values of the samples that counted; a failure is infinite, or 0 where more is better.
    values: Vec<f64>,
    undefined: u64,
    ineligible: u64,
    failing: Vec<u64>,
    /// Failures that are none but for the whole answer coming in one burst.
    bursts: u64,
    /// Each rate, the seconds over which it was taken, and whether it was good.
    rates: Vec<(f64, f64, bool)>,
    /// The samples that counted, by time.
    buckets: Buckets,
    /// Normal stops and their seals, where the objective goes by an allowance.
    seals: Option<SealAccount>,
    /// Samples with which nothing is wrong but that the seal is missing; neither good nor bad.
    unsealed: u64,
    /// Samples when a pass went out of reach.
    hopeless_at: Option<u64>,
    decision: Option<Decision>,
}

impl Track {
    /// `accounts` is the number of accounts among which the chance of a false violation is split.
    pub(super) fn new(
        objective: &Objective,
        judging: &Judging,
        max_samples: u64,
        accounts: u32,
        seal_allowance_ppm: Option<u32>,
    ) -> Self {
        let (rule, rule_words) = Rule::new(objective, judging, max_samples, accounts);
        let seals = seal_allowance_ppm
            .filter(|ppm| *ppm > 0 && objective.metric == Metric::Usable)
            .and_then(|ppm| SealAccount::new(ppm, GAMMA / f64::from(accounts.max(1))));
        let decision = matches!(rule, Rule::Unprovable { .. })
            .then_some(Decision::Inconclusive(Inconclusive::CannotPass));
        let guard = judging.mode == Mode::Guard;
        Self {
            objective: objective.clone(),
            rule,
            rule_words,
            guard,
            futility: judging.futility && !guard,
            max_samples,
            values: Vec::new(),
            undefined: 0,
            ineligible: 0,
            failing: Vec::new(),
            bursts: 0,
            rates: Vec::new(),
            buckets: Buckets::new(),
            seals,
            unsealed: 0,
            hopeless_at: None,
            decision,
        }
    }

    pub(super) const fn objective(&self) -> &Objective {
        &self.objective
    }

    /// Whether sampling goes on until it is decided.
    pub(super) fn holds_open(&self) -> bool {
        budget::fails_cell(&self.objective) && self.objective.gates()
    }

    /// Where it stands, once decided for good.
    pub(super) const fn standing(&self) -> Standing {
        match self.decision {
            None => Standing::Open,
            Some(Decision::Pass) => Standing::Pass,
            Some(Decision::Violated) => Standing::Fail,
            Some(Decision::Inconclusive(_)) => Standing::CannotPass,
        }
    }

    /// Takes what the metric says of the sample of slot `index`; a decided objective takes nothing.
    ///
    /// One that can no longer pass is not waited for, but samples that come for the others may
    /// still show that it is violated, which says more.
    pub(super) fn take(&mut self, taken: Taken, reading: Reading) {
        let Taken { index, at, sealed } = taken;
        if self.is_final() {
            return;
        }
        if let Some(seals) = &mut self.seals {
            if let Some(sealed) = sealed {
                seals.take(index, sealed);
            }
            if reading == Reading::Unsealed {
                self.unsealed += 1;
                self.decision = self.decide();
                return;
            }
        }
        let good = match self.objective.outcome_of(reading) {
            Outcome::Good => true,
            Outcome::Bad => false,
            Outcome::Undefined => {
                self.undefined += 1;
                self.decision = self.decide();
                return;
            }
            Outcome::Ineligible => {
                self.ineligible += 1;
                self.decision = self.decide();
                return;
            }
        };
        self.values
            .push(reading.value().unwrap_or_else(|| self.worst()));
        if let Reading::Rate { per_second, over_s } = reading {
            self.rates.push((per_second, over_s, good));
        }
        self.bursts += u64::from(reading == Reading::Burst);
        if !good && self.failing.len() < NAMED_FAILURES {
            self.failing.push(index);
        }
        self.buckets.take(at, good);
        self.rule.step(good);
        self.decision = self.decide();
        let most = self.most();
        if let Rule::Sequential(account) = &self.rule
            && account.standing(most) == Standing::CannotPass
        {
            let n = account.tally().n();
            self.hopeless_at = self.hopeless_at.or(Some(n));
        }
    }

    /// Takes slots that were never answered.
    pub(super) fn miss(&mut self, slots: u64) {
        if !self.is_final() {
            self.rule.miss(slots);
            if let Some(seals) = &mut self.seals {
                seals.miss(slots);
            }
        }
    }

    /// Whether no further sample can change the decision.
    const fn is_final(&self) -> bool {
        match self.decision {
            None | Some(Decision::Inconclusive(Inconclusive::CannotPass)) => false,
            Some(Decision::Pass | Decision::Violated | Decision::Inconclusive(_)) => true,
        }
    }

    /// Decides after a sample, where the rule may.
    fn decide(&self) -> Option<Decision> {
        let Rule::Sequential(account) = &self.rule else {
            return self.decision;
        };
        if self.lacks_seals() {
            return Some(Decision::Violated);
        }
        // Samples that this objective cannot use are lost to it; what is left is its own maximum.
        let eligible = self
            .max_samples
            .saturating_sub(self.ineligible + self.unsealed);
        if self.futility && self.undefined > eligible / UNDEFINED_ONE_IN {
            return Some(Decision::Inconclusive(Inconclusive::UndefinedMetric));
        }
        match account.standing(self.most()) {
            Standing::Open => None,
            // A relay that fails all the time is about to be refused: a few samples more give the
            // verdict that says so.
            Standing::CannotPass if self.has_last_chance(account) => None,
            Standing::CannotPass => Some(Decision::Inconclusive(Inconclusive::CannotPass)),
            // The few values that there are must not speak for the many that are missing.
            Standing::Pass | Standing::Fail if self.too_undefined() => None,
            Standing::Pass => Some(Decision::Pass),
            Standing::Fail => Some(Decision::Violated),
        }
    }

    /// Whether more normal stops lack their seal than is allowed.
    fn lacks_seals(&self) -> bool {
        self.seals.as_ref().is_some_and(SealAccount::is_violated)
    }

    /// Whether a violation may still show in the few samples that a hopeless objective is given.
    fn has_last_chance(&self, account: &Account) -> bool {
        let n = account.tally().n();
        let since = n - self.hopeless_at.unwrap_or(n);
        account.fails_within(LAST_CHANCE.saturating_sub(since))
    }

    /// Most samples that the objective can ever count, where futility is looked at.
    fn most(&self) -> Option<u64> {
        let lost = self.ineligible + self.undefined + self.unsealed;
        self.futility.then(|| self.max_samples.saturating_sub(lost))
    }

    fn too_undefined(&self) -> bool {
        self.undefined.saturating_mul(UNDEFINED_ONE_IN)
            > self.rule.tally().n().saturating_add(self.undefined)
    }

    /// The verdict if sampling ends like this.
    pub(super) fn verdict(&self, end: &End) -> Verdict {
        let tally = self.rule.tally();
        let (decision, note) = self.conclude(end);
        let lacks_seals = decision == Decision::Violated && self.lacks_seals();
        let note = match decision {
            Decision::Pass | Decision::Violated => joined(note, self.seals_in_words()),
            Decision::Inconclusive(_) => note,
        };
        let mut bounds = self.rule.bounds();
        // The thresholds are whole numbers of samples; their rounding must not show as a pass below
        // the required share.
        match decision {
            Decision::Pass if !self.guard => bounds.lower = bounds.lower.max(self.rule.required()),
            Decision::Violated if !lacks_seals => {
                bounds.upper = bounds.upper.min(self.rule.required());
            }
            Decision::Pass | Decision::Violated | Decision::Inconclusive(_) => {}
        }
        if matches!(self.rule, Rule::Mean { .. }) {
            bounds = Interval::UNKNOWN;
        }
        let (observed, censored) = self.observed();
        Verdict {
            objective: self.objective.text.clone(),
            decision,
            n: tally.n(),
            failures: tally.failures(),
            undefined: self.undefined,
            ineligible: self.ineligible,
            missing: self.rule.missing(),
            required: self.rule.required(),
            lower: bounds.lower,
            upper: bounds.upper,
            rule: self.rule_words.clone(),
            observed,
            censored,
            further_clean: self.further_clean(decision),
            failing: match &self.seals {
                Some(seals) if lacks_seals => seals.unsealed().to_vec(),
                Some(_) | None => self.failing.clone(),
            },
            seals: self.seals.as_ref().map(SealAccount::summary),
            bursty: self.buckets.diagnose(),
            note,
        }
    }

    fn conclude(&self, end: &End) -> (Decision, Option<String>) {
        let open = |reason| Decision::Inconclusive(reason);
        if let Some(why) = &end.invalid {
            return (open(Inconclusive::InvalidRun), Some(why.clone()));
        }
        // A seal that is missing is no matter of time.
        if self.lacks_seals() && !matches!(self.decision, Some(Decision::Pass)) {
            return (Decision::Violated, None);
        }
        if let Some(why) = end.doubt.and_then(|lag| self.moved_by(lag)) {
            return (open(Inconclusive::InvalidRun), Some(why));
        }
        if let Some(decision) = self.decision {
            return (decision, None);
        }
        if self.rule.tally().n() == 0 && self.undefined == 0 {
            let note = (self.ineligible > 0)
                .then(|| {
                    format!(
                        "none of {} is about this",
                        counted(self.ineligible, "sample")
                    )
                })
                .or_else(|| end.stopped.clone());
            return (open(Inconclusive::NoData), note);
        }
        if self.too_undefined() {
            let all = self.rule.tally().n() + self.undefined;
            let note = format!(
                "{} of {} without a value",
                self.undefined,
                counted(all, "sample")
            );
            return (open(Inconclusive::UndefinedMetric), Some(note));
        }
        let gaps = || {
            Some(format!(
                "{} missing",
                counted(self.rule.missing(), "planned sample")
            ))
        };
        match &self.rule {
            Rule::Mean { .. } => self.conclude_mean(),
            Rule::Unprovable { .. } => (open(Inconclusive::CannotPass), None),
            Rule::Look { .. } if !end.used_up => {
                (open(Inconclusive::StoppedEarly), end.stopped.clone())
            }
            Rule::Look {
                required,
                look,
                tally,
                missing,
            } => {
                if look.passes(tally.with_bad(*missing), *required) {
                    (Decision::Pass, None)
                } else if look.fails(tally.with_good(*missing), *required) {
                    (Decision::Violated, None)
                } else if look.passes(*tally, *required) {
                    (open(Inconclusive::MissingSlots), gaps())
                } else {
                    self.unshown(Inconclusive::Budget, None)
                }
            }
            Rule::Sequential(account) if account.would_pass_without_gaps() => {
                (open(Inconclusive::MissingSlots), gaps())
            }
            Rule::Sequential(_) if end.used_up => self.unshown(Inconclusive::Budget, None),
            Rule::Sequential(_) => (open(Inconclusive::StoppedEarly), end.stopped.clone()),
        }
    }

    /// Why lag of our own could have moved the verdict; `None` where it could not.
    ///
    /// Our lag makes times longer, so what is in time stays in time, and heaps up what came piece by
    /// piece. A rate errs both ways, by as much as the lag is of the time over which it was taken.
    /// What is no matter of time does not err.
    fn moved_by(&self, lag: Duration) -> Option<String> {
        let saturated = format!(
            "client saturated: event-loop lag up to {} ms",
            lag.as_millis()
        );
        let (op, bound) = (self.objective.op, self.objective.bound);
        let metric = self.objective.metric;
        let late_by_less = match (metric.unit(), metric.direction()) {
            (Unit::YesNo, _) => 0,
            (Unit::Seconds, Direction::Lower) => {
                let late = |value: &&f64| !op.holds(**value, bound);
                let within = |value: &&f64| op.holds(**value - lag.as_secs_f64(), bound);
                self.values.iter().filter(late).filter(within).count() as u64
            }
            (Unit::PerSecond, Direction::Higher) => return self.rate_moved_by(lag, saturated),
            (Unit::Seconds, Direction::Higher) | (Unit::PerSecond, Direction::Lower) => {
                return Some(saturated);
            }
        };
        let doubtful = late_by_less + self.bursts;
        let stands = doubtful == 0
            || self.decision == Some(Decision::Pass)
            || self.decision == Some(Decision::Violated) && self.fails_without(doubtful);
        (!stands).then(|| {
            if self.bursts == 0 {
                format!(
                    "{saturated}, and {} late by less",
                    counted(late_by_less, "sample")
                )
            } else {
                format!(
                    "{saturated}, and {} that came in one burst may be its doing",
                    counted(self.bursts, "answer"),
                )
            }
        })
    }

    /// [`Track::moved_by`] for rates, of which more is better.
    fn rate_moved_by(&self, lag: Duration, saturated: String) -> Option<String> {
        let (op, bound, lag) = (self.objective.op, self.objective.bound, lag.as_secs_f64());
        let (mut too_good, mut too_bad) = (0, 0);
        for &(rate, over, good) in &self.rates {
            if good {
                too_good += u64::from(!op.holds(rate * over / (over + lag), bound));
            } else {
                let shortest = (over - lag).max(f64::MIN_POSITIVE);
                too_bad += u64::from(op.holds(rate * over / shortest, bound));
            }
        }
        let stands = match self.decision {
            Some(Decision::Pass) => too_good == 0 || self.passes_with(too_good),
            Some(Decision::Violated) => too_bad == 0 || self.fails_without(too_bad),
            Some(Decision::Inconclusive(_)) | None => too_good + too_bad == 0,
        };
        let doubtful = too_good + too_bad;
        (!stands).then(|| {
            format!(
                "{saturated}, which decides on {}",
                counted(doubtful, "sample")
            )
        })
    }

    /// Whether the objective would pass with so many more failures.
    fn passes_with(&self, doubtful: u64) -> bool {
        let Rule::Sequential(account) = &self.rule else {
            return false;
        };
        let tally = account.tally();
        let failures = tally.failures().saturating_add(doubtful);
        account
            .design()
            .pass_at(failures)
            .is_some_and(|at| tally.n() >= at)
    }

    /// Whether the objective would be violated if so many of its failures were none.
    fn fails_without(&self, doubtful: u64) -> bool {
        let Rule::Sequential(account) = &self.rule else {
            return false;
        };
        let tally = account.tally();
        let failures = tally.failures().saturating_sub(doubtful);
        failures > 0 && tally.n() <= account.design().fail_until(failures)
    }

    /// All planned samples are in and nothing is shown: enough for a guard, for no one else.
    fn unshown(&self, reason: Inconclusive, note: Option<String>) -> (Decision, Option<String>) {
        if self.guard {
            let note = "not shown to violate it; not shown to meet it either";
            (Decision::Pass, Some(note.to_owned()))
        } else {
            (Decision::Inconclusive(reason), note)
        }
    }

    fn conclude_mean(&self) -> (Decision, Option<String>) {
        let (mean, _) = self.observed();
        let holds = mean.is_some_and(|mean| self.objective.op.holds(mean, self.objective.bound));
        let note = "an observed mean; nothing is proven about further samples".to_owned();
        let decision = if holds {
            Decision::Pass
        } else {
            Decision::Violated
        };
        (decision, Some(note))
    }

    fn further_clean(&self, decision: Decision) -> Option<u64> {
        let Rule::Sequential(account) = &self.rule else {
            return None;
        };
        match decision {
            Decision::Pass | Decision::Violated => None,
            Decision::Inconclusive(Inconclusive::InvalidRun | Inconclusive::UndefinedMetric) => {
                None
            }
            Decision::Inconclusive(_) => account.further_clean(),
        }
    }

    fn seals_in_words(&self) -> Option<String> {
        self.seals.as_ref().and_then(SealAccount::words)
    }

    fn worst(&self) -> f64 {
        worst(&self.objective)
    }

    /// The observed statistic, and whether it falls among the failures.
    fn observed(&self) -> (Option<f64>, bool) {
        observed(&self.objective, &self.values)
    }
}

/// The value of a sample that failed.
pub(super) const fn worst(objective: &Objective) -> f64 {
    match (objective.metric.direction(), objective.metric.unit()) {
        (Direction::Higher, _) => 0.0,
        (Direction::Lower, Unit::YesNo) => 1.0,
        (Direction::Lower, Unit::Seconds | Unit::PerSecond) => f64::INFINITY,
    }
}

/// The observed statistic of values, and whether it falls among the failures.
pub(super) fn observed(objective: &Objective, values: &[f64]) -> (Option<f64>, bool) {
    let n = values.len() as u64;
    let value = match objective.statistic {
        Statistic::Mean | Statistic::Rate => (n > 0).then(|| values.iter().sum::<f64>() / float(n)),
        Statistic::Quantile(ppm) => {
            let rank = match objective.metric.direction() {
                Direction::Lower => quantile::nearest_rank(n, ppm),
                Direction::Higher => quantile::nearest_rank_from_top(n, ppm),
            };
            rank.and_then(|rank| usize::try_from(rank - 1).ok())
                .map(|place| {
                    let mut values = values.to_vec();
                    *values.select_nth_unstable_by(place, f64::total_cmp).1
                })
        }
    };
    match value {
        Some(value) if value.is_finite() => (Some(value), false),
        Some(_) => (None, true),
        None => (None, false),
    }
}

/// Two notes as one.
fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    }
}
