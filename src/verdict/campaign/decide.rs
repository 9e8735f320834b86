//! From counts to a decision: the votes, and what else a pass needs.

use super::MISSING_ONE_IN;
use super::beside::{Beside, Finding};
use super::count::Count;
use crate::evidence::{own_failures, too_many_late, too_many_own};
use crate::objective::{Objective, Statistic};
use crate::plan::{Judging, Mode, ZERO_FAILURE};
use crate::stats::Tally;
use crate::stats::interval::Interval;
use crate::stats::sequential::{Design, FAIL_RATIO, Standing};
use crate::stats::votes::{Ballot, Vote};
use crate::verdict::bursts::Buckets;
use crate::verdict::rule::GAMMA;
use crate::verdict::seals::SealAccount;
use crate::verdict::track::observed;
use crate::verdict::{Decision, Inconclusive, Verdict};

/// One value in so many may be undefined.
const UNDEFINED_ONE_IN: u64 = 10;

/// How an objective is judged.
pub(super) struct Rules<'a> {
    pub(super) objective: &'a Objective,
    pub(super) judging: &'a Judging,
    /// Accounts among which the chance of a false violation is split.
    pub(super) accounts: u32,
    pub(super) is_final: bool,
    pub(super) seal_allowance_ppm: Option<u32>,
}

/// The two accounts of an objective: one is told the worst of missing slots, the other the best.
struct Accounts {
    pass: Ballot,
    /// As `pass`, had no slot been missing.
    hoped: Ballot,
    fail: Ballot,
    /// At the end of some stretch a violation was shown.
    failed: bool,
}

impl Accounts {
    fn of(design: Design, count: &Count) -> Self {
        let mut accounts = Self {
            pass: Ballot::new(design),
            hoped: Ballot::new(design),
            fail: Ballot::new(design),
            failed: false,
        };
        for stretch in count.stretches() {
            let all = stretch.n + stretch.missing;
            // A stretch in which nobody sampled casts no vote.
            if let Some(vote) = Vote::new(all, stretch.failures + stretch.missing) {
                accounts.pass.cast(vote);
            }
            if let Some(vote) = Vote::new(stretch.n, stretch.failures) {
                accounts.hoped.cast(vote);
            }
            if let Some(vote) = Vote::new(all, stretch.failures) {
                accounts.fail.cast(vote);
                accounts.failed |= accounts.fail.standing(None) == Standing::Fail;
            }
        }
        accounts
    }
}

/// The verdict, and the votes that it rests on.
pub(super) fn decide(count: &Count, rules: &Rules<'_>, beside: Option<&Beside>) -> (Verdict, u64) {
    let objective = rules.objective;
    let (n, failures) = (count.n(), count.failures());
    let (value, censored) = observed(objective, count.values());
    let mut verdict = Verdict {
        objective: objective.text.clone(),
        decision: Decision::Inconclusive(Inconclusive::NoData),
        n,
        failures,
        undefined: count.undefined,
        ineligible: count.ineligible,
        missing: count.missing() + count.absent,
        required: objective
            .required_ppm()
            .map_or(0.0, |ppm| f64::from(ppm) / 1e6),
        lower: Interval::UNKNOWN.lower,
        upper: Interval::UNKNOWN.upper,
        rule: String::new(),
        observed: value,
        censored,
        further_clean: None,
        failing: Vec::new(),
        seals: None,
        bursty: None,
        note: None,
    };
    if objective.statistic == Statistic::Mean {
        verdict.rule = "mean of the values, without bounds".to_owned();
        let holds = value.map(|mean| objective.op.holds(mean, objective.bound));
        if let Some(holds) = holds {
            let shown = if holds {
                Decision::Pass
            } else {
                Decision::Violated
            };
            verdict.decision = if rules.is_final {
                shown
            } else {
                Decision::Inconclusive(Inconclusive::StoppedEarly)
            };
        }
        return (verdict, 0);
    }
    let Some((design, words)) = design(rules, count) else {
        verdict.decision = Decision::Inconclusive(Inconclusive::CannotPass);
        verdict.rule = "no number of votes shows all or nothing".to_owned();
        return (verdict, 0);
    };
    let accounts = Accounts::of(design, count);
    let seals = seals(count, rules);
    verdict.rule = words;
    verdict.lower = accounts.pass.bounds().lower;
    verdict.upper = accounts.fail.bounds().upper;
    let (decision, note) = conclude(count, rules, &accounts, seals.as_ref(), beside);
    verdict.decision = decision;
    verdict.note = note;
    // The thresholds are whole votes; their rounding must not show as a pass below the required
    // share, nor a violation that was shown on an earlier day as one above it.
    match decision {
        Decision::Pass if rules.judging.mode == Mode::Prove => {
            verdict.lower = verdict.lower.max(verdict.required);
        }
        Decision::Violated => verdict.upper = verdict.upper.min(verdict.required),
        Decision::Pass | Decision::Inconclusive(_) => {}
    }
    verdict.seals = seals.as_ref().map(SealAccount::summary);
    let tallies = count
        .stretches()
        .filter_map(|it| Tally::new(it.n, it.failures));
    let width = u64::try_from(count.width.as_nanos()).unwrap_or(u64::MAX);
    verdict.bursty = Buckets::of(width.max(1), tallies.collect()).diagnose();
    (verdict, accounts.pass.votes())
}

/// The rule of the votes, and in words.
fn design(rules: &Rules<'_>, count: &Count) -> Option<(Design, String)> {
    let required_ppm = rules.objective.required_ppm()?;
    let confidence = rules.objective.confidence_ppm;
    let confidence_ppm = confidence.unwrap_or(rules.judging.confidence_ppm);
    let alpha = f64::from(1_000_000_u32.saturating_sub(confidence_ppm)) / 1e6;
    let gamma = GAMMA / f64::from(rules.accounts.max(1));
    let ratio = rules.judging.design_ratio;
    let required = f64::from(required_ppm) / 1e6;
    let design = Design::with_ratios(required, alpha, gamma, ratio, FAIL_RATIO)?;
    let ratio = if ratio.is_finite() {
        ratio.to_string()
    } else {
        ZERO_FAILURE.to_owned()
    };
    let words = format!(
        "sequential by votes of {}s, {}% (alpha {alpha:.4}, gamma {gamma:.4}, ratios {ratio} and \
         {FAIL_RATIO})",
        count.width.as_secs_f64(),
        f64::from(confidence_ppm) / 1e4,
    );
    Some((design, words))
}

/// The account of missing seals, by samples: they are a habit of the model or of the relay, not of
/// a moment.
fn seals(count: &Count, rules: &Rules<'_>) -> Option<SealAccount> {
    let (stops, unsealed) = count.stops;
    let ppm = rules.seal_allowance_ppm.filter(|_| stops > 0)?;
    let gamma = GAMMA / f64::from(rules.accounts.max(1));
    let mut account = SealAccount::new(ppm, gamma)?;
    // Where it stands goes by the counts, in whatever order they came.
    (0..stops).for_each(|stop| account.take(stop, stop >= unsealed));
    Some(account)
}

fn conclude(
    count: &Count,
    rules: &Rules<'_>,
    accounts: &Accounts,
    seals: Option<&SealAccount>,
    beside: Option<&Beside>,
) -> (Decision, Option<String>) {
    let open = |reason| Decision::Inconclusive(reason);
    let n = count.n();
    let seen = n + count.undefined + count.ineligible;
    if too_many_own(count.own_failures, seen + count.own_failures) {
        let why = own_failures(count.own_failures, seen + count.own_failures);
        return (open(Inconclusive::InvalidRun), Some(why));
    }
    if too_many_late(count.late, seen) {
        let why = format!("{} of {seen} starts were more than 100 ms late", count.late);
        return (open(Inconclusive::InvalidRun), Some(why));
    }
    let lacks_seals = seals.is_some_and(SealAccount::is_violated);
    if accounts.failed || lacks_seals {
        let upstream = beside.is_some_and(|it| it.finding == Finding::UpstreamDown);
        if upstream && !lacks_seals {
            let note =
                "broken, but the upstream breaks it itself and the relay adds next to nothing";
            return (open(Inconclusive::BaselineDown), Some(note.to_owned()));
        }
        return (Decision::Violated, seals.and_then(SealAccount::words));
    }
    if n == 0 && count.undefined == 0 {
        let note = (count.ineligible > 0)
            .then(|| format!("none of {} samples is about this", count.ineligible));
        return (open(Inconclusive::NoData), note);
    }
    if count.undefined.saturating_mul(UNDEFINED_ONE_IN) > n + count.undefined {
        let note = format!(
            "{} of {} samples have no value",
            count.undefined,
            n + count.undefined
        );
        return (open(Inconclusive::UndefinedMetric), Some(note));
    }
    if !rules.is_final {
        let would = accounts.pass.standing(None) == Standing::Pass;
        let note = if would {
            "provisional: it would pass if the soak ended now"
        } else {
            "provisional: the soak goes on"
        };
        return (open(Inconclusive::StoppedEarly), Some(note.to_owned()));
    }
    if rules.judging.mode == Mode::Guard {
        let note = "not shown to violate it; not shown to meet it either";
        let shown = accounts.pass.standing(None) == Standing::Pass;
        return (Decision::Pass, (!shown).then(|| note.to_owned()));
    }
    let lost = count.missing() + count.absent;
    let gaps = || Some(format!("{lost} of {} slots have no sample", count.due));
    if lost.saturating_mul(MISSING_ONE_IN) > count.due {
        return (open(Inconclusive::MissingSlots), gaps());
    }
    let days = u32::try_from(count.days().len()).unwrap_or(u32::MAX);
    if days < rules.judging.min_days {
        let note = format!(
            "seen on {days} days; a pass needs {}",
            rules.judging.min_days
        );
        return (open(Inconclusive::MissingSlots), Some(note));
    }
    if accounts.pass.standing(None) == Standing::Pass {
        (Decision::Pass, None)
    } else if accounts.hoped.standing(None) == Standing::Pass {
        (open(Inconclusive::MissingSlots), gaps())
    } else {
        (open(Inconclusive::Budget), None)
    }
}
