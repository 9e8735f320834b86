//! Judged against weeks that were made up.

use super::fixtures::{DAY, HOUR, PROMISES, at, recorded, week, week_of};
use super::*;
use crate::evidence::fixtures::{good, header, refused, slow};
use crate::evidence::{Evidence, Line, SkipReason, Skipped};
use crate::plan::{Cell as PlannedCell, Slot};
use crate::verdict::Inconclusive;

fn after(evidence: &[Evidence]) -> Campaign {
    judge_campaign(evidence, at("2026-12-09T00:00:00Z")).unwrap()
}

fn row<'c>(campaign: &'c Campaign, name: &str) -> &'c Row {
    let rows = campaign.pools.iter().flat_map(|pool| &pool.rows);
    let names: Vec<String> = rows.clone().map(Row::to_string).collect();
    let found = rows.into_iter().find(|row| row.to_string() == name);
    found.unwrap_or_else(|| panic!("no row `{name}` among {names:?}"))
}

fn open(reason: Inconclusive) -> Decision {
    Decision::Inconclusive(reason)
}

/// Whether an hour of Shanghai's clocks is in its evening peak.
fn at_peak(slot: &Slot) -> bool {
    let hour = slot.start.as_secs() / 3600 % 24;
    !(1..21).contains(&hour)
}

#[test]
fn a_clean_week_passes_and_says_on_what() {
    let campaign = after(&recorded(&week(PROMISES), |_, _| Some(good())));
    assert_eq!(campaign.overall(), Overall::Pass);
    assert!(campaign.is_final);
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(
        (all.verdict.decision, all.verdict.n),
        (Decision::Pass, 4032)
    );
    assert!((985..=1008).contains(&all.votes), "{}", all.votes);
    assert_eq!(all.votes, all.planned_votes);
    assert!(all.verdict.lower > 0.99);
    let peak = row(&campaign, "ttft.p95 < 1.5s @peak");
    assert_eq!(peak.verdict.decision, Decision::Pass);
    assert!((160..=168).contains(&peak.votes), "{}", peak.votes);
    let days: Vec<String> = peak.days.iter().map(|day| day.day.to_string()).collect();
    // The hour after the first midnight belongs to the evening before it.
    assert_eq!(days.first().map(String::as_str), Some("2026-11-30"));
    assert_eq!(days.len(), 8);
    let shown = row(&campaign, "success_in_4 >= 99% @peak");
    assert_eq!(shown.role, Role::Shown);
    assert_eq!(campaign.pools[0].coverage[0].gap_count, 0);
}

#[test]
fn slow_evenings_break_the_promise_about_evenings_and_no_other() {
    let seen = |_: &PlannedCell, slot: &Slot| {
        Some(if at_peak(slot) && slot.index.is_multiple_of(4) {
            slow(3000)
        } else {
            good()
        })
    };
    let campaign = after(&recorded(&week(PROMISES), seen));
    assert_eq!(
        row(&campaign, "ttft.p95 < 1.5s @peak").verdict.decision,
        Decision::Violated
    );
    assert_eq!(
        row(&campaign, "success_in_4 >= 99%").verdict.decision,
        Decision::Pass
    );
    assert_eq!(campaign.overall(), Overall::Violated);
}

#[test]
fn a_bad_spell_is_a_few_votes_however_many_samples_it_holds() {
    // Twenty minutes in which everything fails: eight samples, two or three votes.
    let spell = 3 * DAY..3 * DAY + HOUR / 3;
    let seen = |_: &PlannedCell, slot: &Slot| {
        Some(if spell.contains(&slot.start) {
            refused(503)
        } else {
            good()
        })
    };
    let campaign = after(&recorded(&week(PROMISES), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    assert!(all.verdict.failures >= 4, "{}", all.verdict.failures);
    assert_eq!(all.verdict.decision, Decision::Pass);
    let bursty = all.verdict.bursty.unwrap();
    assert!(bursty.design_effect > 1.5, "{bursty:?}");
    let worst = all.worst_day().unwrap();
    assert_eq!(
        worst.day.to_string(),
        "2026-12-03",
        "16:00 UTC is midnight there"
    );
    assert_eq!(worst.failures, all.verdict.failures);
}

#[test]
fn nothing_passes_before_the_end_but_a_violation_may_be_shown() {
    let plan = week(PROMISES);
    let clean = recorded(&plan, |_, slot| (slot.start < 4 * DAY).then(good));
    let campaign = judge_campaign(&clean, at("2026-12-04T16:00:00Z")).unwrap();
    assert!(!campaign.is_final);
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, open(Inconclusive::StoppedEarly));
    assert!(all.verdict.note.as_deref().unwrap().contains("would pass"));
    assert_eq!(all.verdict.missing, 0, "what is not due yet is not missing");
    assert!(all.votes < all.planned_votes);
    let bad = recorded(&plan, |_, slot| (slot.start < DAY).then(|| refused(503)));
    let campaign = judge_campaign(&bad, at("2026-12-01T20:00:00Z")).unwrap();
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, Decision::Violated);
}

#[test]
fn a_soak_is_over_when_it_is_known_of_each_slot_what_became_of_it() {
    let plan = week(PROMISES);
    let end = at("2026-12-07T16:00:00Z");
    let is_final = |evidence: &[Evidence], as_of| {
        let campaign = judge_campaign(evidence, as_of).unwrap();
        (campaign.is_final, campaign.as_of_unix_ns)
    };
    let closed = end + soak::nanos(CLOSING);
    let whole = recorded(&plan, |_, _| Some(good()));
    assert_eq!(is_final(&whole, end - 1), (false, end - 1));
    assert_eq!(is_final(&whole, end), (true, closed));
    assert_eq!(is_final(&whole, closed + 1), (true, closed));

    let mut gap = recorded(&plan, |_, slot| (slot.index != 7).then(good));
    assert_eq!(is_final(&gap, end), (false, end));
    assert_eq!(is_final(&gap, closed), (true, closed));
    gap[0].push(Line::Skipped(Skipped {
        id: "7".to_owned(),
        index: 7,
        planned: Duration::ZERO,
        why: SkipReason::Late,
    }));
    assert_eq!(is_final(&gap, end), (true, closed));
}

#[test]
fn a_violation_that_was_shown_once_is_not_taken_back() {
    let seen = |_: &PlannedCell, slot: &Slot| {
        Some(if slot.start < 2 * HOUR {
            refused(503)
        } else {
            good()
        })
    };
    let campaign = after(&recorded(&week(PROMISES), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, Decision::Violated);
    assert!(all.verdict.upper <= 0.99);
}

#[test]
fn a_reboot_of_the_probe_is_a_gap_and_no_failure() {
    let away = 2 * DAY..2 * DAY + 2 * HOUR;
    let seen = |_: &PlannedCell, slot: &Slot| (!away.contains(&slot.start)).then(good);
    let campaign = after(&recorded(&week(PROMISES), seen));
    assert_eq!(campaign.overall(), Overall::Pass);
    let coverage = &campaign.pools[0].coverage[0];
    assert_eq!(coverage.gap_count, 1);
    assert_eq!(
        coverage.planned,
        coverage.taken + coverage.missing + coverage.absent
    );
    let gap = coverage.gaps[0];
    assert_eq!(gap.slots, coverage.missing + coverage.absent);
    let hours = (gap.to_unix_ns - gap.from_unix_ns) as f64 / 3.6e12;
    assert!((1.7..2.0).contains(&hours), "{hours}");
    let all = row(&campaign, "success_in_4 >= 99%");
    assert!(all.verdict.missing > 20);
}

#[test]
fn a_tenth_of_the_slots_missing_is_no_pass() {
    let seen = |_: &PlannedCell, slot: &Slot| (slot.start < 6 * DAY).then(good);
    let campaign = after(&recorded(&week(PROMISES), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, open(Inconclusive::MissingSlots));
    assert_eq!(campaign.overall(), Overall::Inconclusive);
}

#[test]
fn samples_lost_amid_others_count_against_a_pass() {
    // One in twenty: far fewer than the tenth that is too many, far more than one in a hundred.
    let seen = |_: &PlannedCell, slot: &Slot| (slot.index % 20 != 3).then(good);
    let campaign = after(&recorded(&week(PROMISES), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, open(Inconclusive::MissingSlots));
    assert!(
        all.verdict
            .note
            .as_deref()
            .unwrap()
            .contains("of 4032 slots")
    );
}

#[test]
fn too_few_days_are_no_pass() {
    let plan = week("judge: { min_days: 7 }\nslos: [success_in_4 >= 95%]\n");
    let seen = |_: &PlannedCell, slot: &Slot| {
        // Half a day out of each of six days, and nothing of the others.
        (slot.start > DAY).then(good)
    };
    let campaign = after(&recorded(&plan, seen));
    let all = row(&campaign, "success_in_4 >= 95%");
    assert_eq!(all.verdict.decision, open(Inconclusive::MissingSlots));
}

#[test]
fn without_a_sample_nothing_is_measured() {
    let campaign = after(&recorded(&week(PROMISES), |_, _| None));
    assert_eq!(campaign.overall(), Overall::Nothing);
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, open(Inconclusive::NoData));
    assert_eq!(campaign.pools[0].coverage[0].absent, 4032);
}

const BASELINE: &str =
    "baseline: { name: official, base_url: \"https://o.example/v1\", pair: 20% }\n";

#[test]
fn an_outage_of_the_upstream_is_not_charged_to_the_relay() {
    let down = 3 * DAY..3 * DAY + 8 * HOUR;
    let seen = |_: &PlannedCell, slot: &Slot| {
        Some(if down.contains(&slot.start) {
            refused(503)
        } else {
            good()
        })
    };
    let campaign = after(&recorded(&week(&format!("{BASELINE}{PROMISES}")), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    let beside = all.beside.unwrap();
    assert_eq!(beside.finding, Finding::UpstreamDown, "{beside:?}");
    assert_eq!((beside.relay_only, beside.upstream_only), (0, 0));
    assert_eq!(all.verdict.decision, open(Inconclusive::BaselineDown));
}

#[test]
fn failures_that_only_the_relay_has_are_the_relays() {
    let seen = |cell: &PlannedCell, slot: &Slot| {
        let relay = cell.beside.is_none();
        Some(if relay && slot.index.is_multiple_of(20) {
            refused(503)
        } else {
            good()
        })
    };
    let campaign = after(&recorded(&week(&format!("{BASELINE}{PROMISES}")), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    let beside = all.beside.unwrap();
    assert_eq!(beside.finding, Finding::RelayAddsFailures, "{beside:?}");
    assert!(beside.added_lower.unwrap() > 0.0);
    assert_eq!(all.verdict.decision, Decision::Violated);
}

#[test]
fn a_relay_that_fails_no_more_than_the_upstream_is_said_to() {
    let campaign = after(&recorded(
        &week(&format!("{BASELINE}{PROMISES}")),
        |_, _| Some(good()),
    ));
    let beside = row(&campaign, "success_in_4 >= 99%").beside.unwrap();
    assert_eq!(beside.finding, Finding::NotTheRelay, "{beside:?}");
    assert!((700..900).contains(&beside.pairs), "{}", beside.pairs);
    let own = campaign.pools[0].coverage.len();
    assert_eq!(own, 2, "the upstream's own slots are accounted for, too");
}

#[test]
fn overhead_is_what_the_relay_adds_pair_by_pair() {
    let promise = format!("{BASELINE}slos: [overhead.p50 < 300ms, overhead.p95 < 300ms]\n");
    let seen = |cell: &PlannedCell, slot: &Slot| {
        let added = if slot.index.is_multiple_of(5) {
            800
        } else {
            100
        };
        Some(slow(400 + if cell.beside.is_none() { added } else { 0 }))
    };
    let campaign = after(&recorded(&week(&promise), seen));
    let half = row(&campaign, "overhead.p50 < 300ms");
    assert_eq!(half.verdict.decision, Decision::Pass, "{:?}", half.verdict);
    assert_eq!(
        half.verdict.observed.map(|s| (s * 1e3).round()),
        Some(100.0)
    );
    assert!(half.verdict.ineligible > 3000, "slots without a pair");
    let most = row(&campaign, "overhead.p95 < 300ms");
    assert_eq!(most.verdict.decision, Decision::Violated);
}

const REGIONS: &str = "regions: [hk, usw, eu]\n";

#[test]
fn one_bad_region_is_found_among_the_others() {
    let plan = week(&format!("{REGIONS}slos: [success_in_4 >= 95%]\n"));
    let seen = |cell: &PlannedCell, slot: &Slot| {
        let bad = cell.region.as_ref().unwrap().name == "usw" && slot.index.is_multiple_of(6);
        Some(if bad { refused(503) } else { good() })
    };
    let campaign = after(&recorded(&plan, seen));
    let worse: Vec<&str> = campaign.pools[0]
        .rows
        .iter()
        .filter(|row| row.window.is_none() && row.against_rest.is_some_and(|it| it.is_worse))
        .filter_map(|row| row.region.as_deref())
        .collect();
    assert_eq!(worse, ["usw"]);
    let usw = row(&campaign, "success_in_4 >= 95% in usw");
    assert_eq!(
        (usw.role, usw.verdict.decision),
        (Role::Gate, Decision::Violated)
    );
    let hk = row(&campaign, "success_in_4 >= 95% in hk");
    assert_eq!(hk.verdict.decision, Decision::Pass);
    let all = row(&campaign, "success_in_4 >= 95%");
    assert_eq!(all.role, Role::Shown, "each region can pass on its own");
    assert_eq!(campaign.overall(), Overall::Violated);
}

#[test]
fn regions_with_too_few_votes_of_their_own_only_guard() {
    // Most stretches hold no slot of a region: fewer than the 373 votes that 99% needs.
    let plan = week_of(800, "regions: [hk, usw]\nslos: [success_in_4 >= 99%]\n");
    let campaign = after(&recorded(&plan, |_, _| Some(good())));
    let all = row(&campaign, "success_in_4 >= 99%");
    let hk = row(&campaign, "success_in_4 >= 99% in hk");
    assert!(hk.planned_votes < 373 && all.planned_votes > 373);
    assert_eq!((all.role, hk.role), (Role::Gate, Role::Guard));
    assert_eq!(hk.verdict.decision, open(Inconclusive::Budget));
    assert_eq!(
        hk.comes_to(&plan.judge),
        Overall::Pass,
        "open, and only a guard"
    );
    assert_eq!(campaign.overall(), Overall::Pass);
    let seen = |cell: &PlannedCell, _: &Slot| {
        let bad = cell.region.as_ref().unwrap().name == "usw";
        Some(if bad { refused(503) } else { good() })
    };
    let campaign = after(&recorded(&plan, seen));
    let usw = row(&campaign, "success_in_4 >= 99% in usw");
    assert_eq!(usw.comes_to(&plan.judge), Overall::Violated);
}

#[test]
fn the_order_of_the_files_changes_nothing() {
    let plan = week(&format!("{BASELINE}{REGIONS}{PROMISES}"));
    let seen = |cell: &PlannedCell, slot: &Slot| {
        Some(
            if (slot.index + cell.name().len() as u64).is_multiple_of(90) {
                refused(503)
            } else {
                good()
            },
        )
    };
    let mut evidence = recorded(&plan, seen);
    let forth = after(&evidence);
    evidence.reverse();
    for one in &mut evidence {
        one.samples.reverse();
    }
    assert_eq!(forth, after(&evidence));
    let text = serde_json::to_string(&forth).unwrap();
    assert_eq!(serde_json::from_str::<Campaign>(&text).unwrap(), forth);
}

#[test]
fn evidence_of_something_else_is_refused() {
    let plan = week(PROMISES);
    let soak = recorded(&plan, |_, _| None);
    assert!(matches!(
        judge_campaign(&[], 0),
        Err(CampaignError::Nothing)
    ));
    let twice = [soak[0].clone(), soak[0].clone()];
    assert!(matches!(
        judge_campaign(&twice, 0),
        Err(CampaignError::Twice { .. })
    ));
    let mut other = soak[0].clone();
    other.header.plan_digest = "another".to_owned();
    other.header.cell_id = "another".to_owned();
    let two = [soak[0].clone(), other];
    assert!(matches!(
        judge_campaign(&two, 0),
        Err(CampaignError::TwoPlans { .. })
    ));
    let run = [Evidence::new(header(Vec::new(), 1))];
    assert!(matches!(
        judge_campaign(&run, 0),
        Err(CampaignError::NotASoak { .. })
    ));
}

#[test]
fn a_probe_that_could_not_sample_says_nothing_of_the_relay() {
    let seen = |_: &PlannedCell, slot: &Slot| {
        let mut seen = good();
        if slot.index.is_multiple_of(10) {
            seen = refused(503);
            seen.status = None;
            seen.lost = Some(crate::observation::Loss::Local);
            seen.ending = crate::observation::Ending::Cancelled;
        }
        Some(seen)
    };
    let campaign = after(&recorded(&week(PROMISES), seen));
    let all = row(&campaign, "success_in_4 >= 99%");
    assert_eq!(all.verdict.decision, open(Inconclusive::InvalidRun));
}
