//! What was decided: relays, objectives, and the slots that the decisions rest on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::said;
use super::{Clock, digits};
use crate::evidence::Evidence;
use crate::objective::metric::Metric;
use crate::objective::{Severity, Statistic};
use crate::plan::window::{shown, shown_in};
use crate::verdict::campaign::{self, AgainstRest, Beside, Campaign, DayCount, Pool, Role};
use crate::verdict::{Bursts, Decision, Effect, Inconclusive, Overall, effect};
use crate::words;

/// What a relay comes to, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayVerdict {
    /// The relay.
    pub relay: String,
    /// What it comes to.
    pub overall: Overall,
    /// Rows that decide about it.
    pub deciding: u64,
    /// Those of them that hold nothing against it.
    pub met: u64,
    /// What stands in the way of a pass, a line each.
    pub why: Vec<String>,
}

/// One objective in one window and region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The relay.
    pub relay: String,
    /// `relay/model/workload`.
    pub pool: String,
    /// Objective, window and region in one: unique among the rows of a pool.
    pub name: String,
    /// The objective, as written.
    pub objective: String,
    /// What is measured.
    pub metric: Metric,
    /// The window; `None`: all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The region; `None`: all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// What its decision does.
    pub role: Role,
    /// What a miss does, as the spec has it.
    pub severity: Severity,
    /// `pass`, `violated` or `inconclusive`.
    pub decision: String,
    /// Why nothing was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Inconclusive>,
    /// What the row comes to for its relay.
    pub comes_to: Overall,
    /// It is not met, and that is a warning only.
    pub is_warning: bool,
    /// Samples that counted.
    pub n: u64,
    /// Failures among them.
    pub failures: u64,
    /// Samples without a value.
    pub undefined: u64,
    /// Samples that the objective is not about.
    pub ineligible: u64,
    /// Slots without a sample.
    pub missing: u64,
    /// Share of good samples, as observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Lower bound of the share of good moments; 0 claims nothing.
    pub lower: f64,
    /// Upper bound; 1 claims nothing.
    pub upper: f64,
    /// Share that is asked for; 0 for a mean, which is no share.
    pub required: f64,
    /// The observed statistic, in the metric's base unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<f64>,
    /// The rule, with the numbers to check it by hand.
    pub rule: String,
    /// Votes that were cast.
    pub votes: u64,
    /// Votes, had every slot been answered.
    pub planned_votes: u64,
    /// The day with the largest share of failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_day: Option<DayCount>,
    /// Every day.
    pub days: Vec<DayCount>,
    /// Failures that came together in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursty: Option<Bursts>,
    /// The trusted upstream, asked the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// This region against the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_rest: Option<AgainstRest>,
    /// What is to be known besides, a phrase each.
    pub remarks: Vec<String>,
}

/// Planned against taken samples of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Covered {
    /// The cell.
    pub cell: String,
    /// Its region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The cell beside which the trusted upstream is asked, where it is the upstream's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Slots of the whole soak.
    pub planned: u64,
    /// Slots that are due.
    pub due: u64,
    /// Samples on file for them.
    pub taken: u64,
    /// Slots without a sample amid others.
    pub missing: u64,
    /// Slots at which nobody sampled.
    pub absent: u64,
    /// Slots of which the collector noted why they have no sample, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noted: BTreeMap<String, u64>,
    /// Gaps in all.
    pub gap_count: u64,
    /// The first of them.
    pub gaps: Vec<MissingStretch>,
}

/// Slots in a row without a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingStretch {
    /// Planned start of the first, in UTC.
    pub from: String,
    /// Planned start of the last.
    pub to: String,
    /// Both by the clock of the document, where that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<(String, String)>,
    /// How many.
    pub slots: u64,
}

/// What each relay comes to.
pub(super) fn relays(campaign: &Campaign) -> Vec<RelayVerdict> {
    let of = |(relay, overall): (&str, Overall)| {
        let pools = campaign.pools.iter().filter(|pool| pool.relay == relay);
        let (mut deciding, mut met, mut why) = (0, 0, Vec::new());
        for pool in pools {
            if pool.overall() == Overall::Nothing {
                why.push(format!("{}: nothing was measured", pool.name));
            }
            for row in &pool.rows {
                let comes_to = row.comes_to(&pool.judging);
                deciding += u64::from(row.role != Role::Shown);
                met += u64::from(row.role != Role::Shown && comes_to == Overall::Pass);
                if comes_to != Overall::Pass {
                    let said = said::said(&pool.judging, &row.objective, &row.verdict);
                    let word = super::super::document::heading(comes_to);
                    why.push(format!("{}: {row}: {word}: {said}", pool.name));
                }
            }
        }
        RelayVerdict {
            relay: relay.to_owned(),
            overall,
            deciding,
            met,
            why,
        }
    };
    campaign.relays().into_iter().map(of).collect()
}

/// Every row of every pool.
pub(super) fn rows(campaign: &Campaign) -> Vec<Row> {
    let pools = campaign.pools.iter();
    pools
        .flat_map(|pool| pool.rows.iter().map(move |row| one(pool, row)))
        .collect()
}

fn one(pool: &Pool, row: &campaign::Row) -> Row {
    let verdict = &row.verdict;
    let (decision, reason) = match verdict.decision {
        Decision::Pass => ("pass", None),
        Decision::Violated => ("violated", None),
        Decision::Inconclusive(reason) => ("inconclusive", Some(reason)),
    };
    let float = crate::stats::float;
    let is_share = row.objective.statistic != Statistic::Mean && verdict.n > 0;
    let good = verdict.n - verdict.failures.min(verdict.n);
    let weighs = row.role == Role::Gate;
    Row {
        relay: pool.relay.clone(),
        pool: pool.name.clone(),
        name: row.to_string(),
        objective: row.objective.text.clone(),
        metric: row.objective.metric,
        window: row.window.clone(),
        region: row.region.clone(),
        role: row.role,
        severity: row.objective.severity,
        decision: decision.to_owned(),
        reason,
        comes_to: row.comes_to(&pool.judging),
        is_warning: weighs && effect(verdict, &row.objective, &pool.judging) == Effect::Warning,
        n: verdict.n,
        failures: verdict.failures,
        undefined: verdict.undefined,
        ineligible: verdict.ineligible,
        missing: verdict.missing,
        share: is_share.then(|| digits(float(good) / float(verdict.n))),
        lower: digits(verdict.lower),
        upper: digits(verdict.upper),
        required: digits(verdict.required),
        observed: verdict.observed.map(digits),
        rule: verdict.rule.clone(),
        votes: row.votes,
        planned_votes: row.planned_votes,
        worst_day: row.worst_day().filter(|day| day.failures > 0),
        days: row.days.clone(),
        bursty: verdict.bursty.map(|bursts| Bursts {
            bucket_s: digits(bursts.bucket_s),
            design_effect: digits(bursts.design_effect),
            ..bursts
        }),
        beside: row.beside.map(|it| Beside {
            p: digits(it.p),
            added: it.added.map(digits),
            added_lower: it.added_lower.map(digits),
            added_upper: it.added_upper.map(digits),
            ..it
        }),
        against_rest: row.against_rest.map(|it| AgainstRest {
            added: digits(it.added),
            added_lower: digits(it.added_lower),
            added_upper: digits(it.added_upper),
            p: digits(it.p),
            ..it
        }),
        remarks: remarks(row),
    }
}

fn remarks(row: &campaign::Row) -> Vec<String> {
    let verdict = &row.verdict;
    let mut remarks = Vec::new();
    if row.objective.statistic != Statistic::Rate {
        remarks.extend(said::observed(&row.objective, verdict));
    }
    match (verdict.decision, &verdict.note) {
        (Decision::Inconclusive(reason), _) => remarks.push(said::why(reason, verdict)),
        (_, Some(note)) => remarks.push(note.clone()),
        (_, None) => {}
    }
    if verdict.undefined > 0 {
        remarks.push(format!("{} without a value", verdict.undefined));
    }
    if verdict.missing > 0 {
        remarks.push(format!("{} slots without a sample", verdict.missing));
    }
    if let Some(bursts) = &verdict.bursty {
        remarks.push(format!(
            "bursty: {} of {} failures within {}",
            bursts.crowd,
            bursts.failures,
            words::seconds(bursts.bucket_s)
        ));
    }
    if row.against_rest.is_some_and(|it| it.is_worse) {
        remarks.push("worse than the other regions: look at the way from there".to_owned());
    }
    remarks
}

/// Planned against taken samples of every cell.
pub(super) fn coverage(evidence: &[&Evidence], campaign: &Campaign, clock: &Clock) -> Vec<Covered> {
    let noted = |cell: &str| {
        let mut noted: BTreeMap<String, u64> = BTreeMap::new();
        let of_cell = evidence.iter().filter(|one| one.header.cell == cell);
        for skipped in of_cell.flat_map(|one| &one.skipped) {
            *noted.entry(skipped.why.to_string()).or_default() += 1;
        }
        noted
    };
    let all = campaign.pools.iter().flat_map(|pool| &pool.coverage);
    let of = |it: &campaign::Coverage| Covered {
        cell: it.cell.clone(),
        region: it.region.clone(),
        beside: it.beside.clone(),
        noted: noted(&it.cell),
        planned: it.planned,
        due: it.due,
        taken: it.taken,
        missing: it.missing,
        absent: it.absent,
        gap_count: it.gap_count,
        gaps: it.gaps.iter().map(|gap| stretch(gap, clock)).collect(),
    };
    all.map(of).collect()
}

fn stretch(gap: &campaign::Gap, clock: &Clock) -> MissingStretch {
    let is_other = clock.zone != crate::plan::window::UTC;
    let local = |at| shown_in(&clock.zone, at).filter(|_| is_other);
    MissingStretch {
        from: shown(gap.from_unix_ns),
        to: shown(gap.to_unix_ns),
        local: local(gap.from_unix_ns).zip(local(gap.to_unix_ns)),
        slots: gap.slots,
    }
}
