//! What is decided, when, and with which reason.

use std::time::Duration;

use super::*;
use crate::evidence::fixtures::*;
use crate::evidence::{CloseReason, Line, Sample};
use crate::objective::Objective;
use crate::objective::metric::Metric;
use crate::observation::{Class, Phase};
use crate::plan::{Method, Mode, Stop};

fn samples(outcomes: impl IntoIterator<Item = bool>) -> Vec<Sample> {
    outcomes
        .into_iter()
        .zip(0..)
        .map(|(fine, index)| sample(index, if fine { good() } else { slow(2000) }))
        .collect()
}

fn decided(evidence: &Evidence) -> Vec<Decision> {
    judge(evidence)
        .iter()
        .map(|verdict| verdict.decision)
        .collect()
}

const fn open(reason: Inconclusive) -> Decision {
    Decision::Inconclusive(reason)
}

#[test]
fn seventy_four_clean_samples_prove_a_p95() {
    let objectives = vec![ttft_p95()];
    let all = |n| {
        let mut evidence = evidence(objectives.clone(), 232, samples(vec![true; n]));
        evidence.close = Some(close(CloseReason::Decided));
        judge(&evidence).remove(0)
    };
    assert_eq!(all(73).decision, open(Inconclusive::StoppedEarly));
    assert_eq!(all(73).further_clean, Some(1));
    let verdict = all(74);
    assert_eq!(verdict.decision, Decision::Pass);
    assert_eq!((verdict.n, verdict.failures), (74, 0));
    assert!(verdict.lower >= 0.95);
    assert_eq!(verdict.observed, Some(0.12));
}

#[test]
fn samples_after_the_decision_are_not_used() {
    let mut outcomes = vec![true; 74];
    outcomes.extend([false; 20]);
    let verdict = judge(&evidence(vec![ttft_p95()], 232, samples(outcomes))).remove(0);
    assert_eq!(verdict.decision, Decision::Pass);
    assert_eq!((verdict.n, verdict.failures), (74, 0));
}

#[test]
fn three_failures_at_once_violate_a_p95() {
    let verdict = judge(&evidence(vec![ttft_p95()], 232, samples([false; 3]))).remove(0);
    assert_eq!(verdict.decision, Decision::Violated);
    assert_eq!(verdict.failing, [0, 1, 2]);
    assert!(verdict.upper <= 0.95);
}

#[test]
fn results_are_applied_in_planned_order() {
    // The failures are the last to finish; taken as they finish the relay would have passed.
    let mut all = samples((0..80).map(|index| index >= 4));
    all.rotate_left(4);
    let verdict = judge(&evidence(vec![ttft_p95()], 232, all.clone())).remove(0);
    assert_eq!(verdict.decision, Decision::Violated);
    assert_eq!(verdict.n, 3);

    let mut live = Judge::new(&[ttft_p95()], &judging(), 232, None);
    for sample in &all[..76] {
        live.take(sample);
        assert!(!live.is_decided(), "slots 0 to 3 are still open");
    }
    all[76..].iter().for_each(|sample| live.take(sample));
    assert!(live.is_decided());
    assert_eq!(live.standing().remove(0), live.finish(None).remove(0));
}

#[test]
fn the_record_gives_what_the_run_decided() {
    let objectives = [ttft_p95(), parse_success(), interruption(), tps_p05()];
    let mut live = Judge::new(&objectives, &judging(), 600, None);
    let mut record = evidence(objectives.to_vec(), 600, []);
    let mut index = 0;
    while !live.is_decided() {
        let seen = match index % 97 {
            13 => slow(1800),
            50 => truncated(),
            80 => refused(503),
            _ => good(),
        };
        let sample = sample(index, seen);
        live.take(&sample);
        record.push(Line::Sample(Box::new(sample)));
        index += 1;
    }
    let close = close(CloseReason::Decided);
    record.push(Line::Close(close.clone()));
    assert_eq!(live.finish(Some(&close)), judge(&record));
}

#[test]
fn a_slot_that_was_never_answered_may_not_help_a_pass() {
    let mut all = samples(vec![true; 75]);
    all.remove(40);
    let verdict = judge(&evidence(vec![ttft_p95()], 232, all)).remove(0);
    assert_eq!(verdict.decision, open(Inconclusive::MissingSlots));
    assert_eq!((verdict.n, verdict.missing), (74, 1));
    assert_eq!(verdict.further_clean, Some(113 - 75));
}

#[test]
fn a_slot_that_was_never_answered_does_not_make_a_violation() {
    let mut all = samples([false; 4]);
    all.remove(1);
    let verdict = judge(&evidence(vec![ttft_p95()], 232, all)).remove(0);
    assert_eq!(verdict.decision, open(Inconclusive::StoppedEarly));
    assert_eq!((verdict.failures, verdict.missing), (3, 1));
}

#[test]
fn a_hopeless_objective_takes_no_violation_from_missing_slots() {
    // Out of reach after the first failure; six failures are a violation up to n = 30.
    let with_gap = |gap: u64| {
        let mut all = samples((0..16).map(|index| index > 0));
        all.extend((16 + gap..21 + gap).map(|index| sample(index, slow(2000))));
        judge(&evidence(vec![ttft_p95(), interruption()], 80, all)).remove(0)
    };
    let verdict = with_gap(9);
    assert_eq!(verdict.decision, Decision::Violated);
    assert_eq!((verdict.n, verdict.failures, verdict.missing), (21, 6, 9));
    assert_eq!(with_gap(10).decision, open(Inconclusive::CannotPass));
}

#[test]
fn a_call_that_we_called_off_leaves_a_gap_and_no_failure() {
    let mut all = samples([true; 3]);
    all[1].attempts[0].observation.ending = crate::observation::Ending::Cancelled;
    let verdict = judge(&evidence(vec![ttft_p95()], 232, all)).remove(0);
    assert_eq!((verdict.n, verdict.failures, verdict.missing), (2, 0, 1));
}

#[test]
fn a_run_that_goes_on_counts_the_slots_that_its_predecessor_lost() {
    let mut before = samples(vec![true; 40]);
    before.remove(20);
    let mut live = Judge::new(&[ttft_p95()], &judging(), 232, None);
    before.iter().for_each(|sample| live.take(sample));
    live.close_gaps();
    assert_eq!(live.used(), 39);
    for index in 40..112 {
        live.take(&sample(index, good()));
        assert!(!live.is_decided());
    }
    live.take(&sample(112, good()));
    assert!(live.is_decided());
    assert_eq!(live.finish(None)[0].decision, Decision::Pass);
}

#[test]
fn slots_beyond_the_plan_and_slots_seen_twice_change_nothing() {
    let mut all = samples([true; 10]);
    all.extend(samples([false; 10]));
    all.push(sample(u64::MAX, slow(2000)));
    let verdict = judge(&evidence(vec![ttft_p95()], 232, all)).remove(0);
    assert_eq!((verdict.n, verdict.failures, verdict.missing), (10, 0, 0));
}

#[test]
fn an_objective_that_can_no_longer_pass_is_closed_and_the_others_go_on() {
    // At 99 % two failures need 774 samples.
    let objectives = vec![parse_success(), interruption()];
    let mut live = Judge::new(&objectives, &judging(), 700, None);
    for index in 0..80 {
        let mut seen = good();
        seen.parse_ok = index != 20 && index != 50;
        live.take(&sample(index, seen));
        assert_eq!(live.is_decided(), index >= 73, "{index}");
    }
    let verdicts = live.finish(Some(&close(CloseReason::Decided)));
    assert_eq!(verdicts[0].decision, open(Inconclusive::CannotPass));
    assert_eq!(
        verdicts[0].further_clean,
        Some(774 - 74),
        "it still counts what comes for the other one"
    );
    assert_eq!(verdicts[1].decision, Decision::Pass);
}

#[test]
fn the_first_bad_news_ends_a_cell_where_the_spec_says_so() {
    let first = Judging {
        stop: Stop::First,
        ..judging()
    };
    let mut live = Judge::new(&[ttft_p95(), interruption()], &first, 232, None);
    for index in 0..4 {
        live.take(&sample(index, slow(2000)));
    }
    assert!(live.is_decided());
    let verdicts = live.finish(Some(&close(CloseReason::Decided)));
    assert_eq!(verdicts[0].decision, Decision::Violated);
    assert_eq!(
        verdicts[0].n, 4,
        "with two objectives each has half of gamma"
    );
    assert_eq!(verdicts[1].decision, open(Inconclusive::StoppedEarly));
}

#[test]
fn warnings_and_retries_neither_stop_a_run_nor_hold_it_open() {
    let warning = Objective {
        severity: Severity::Warn,
        ..interruption()
    };
    let objectives = [ttft_p95(), warning, retry_success(), ttft_mean()];
    let mut live = Judge::new(&objectives, &judging(), 232, None);
    for index in 0..113 {
        assert!(!live.is_decided(), "{index}");
        let seen = if index < 4 { truncated() } else { good() };
        let seen = if index == 60 { slow(2000) } else { seen };
        live.take(&sample(index, seen));
    }
    assert!(live.is_decided());
    let verdicts = live.finish(Some(&close(CloseReason::Decided)));
    assert_eq!(verdicts[0].decision, Decision::Pass);
    assert_eq!(verdicts[1].decision, Decision::Violated);
    assert_eq!(verdicts[2].decision, open(Inconclusive::NoData));
    assert_eq!(verdicts[3].decision, Decision::Pass);
    let effects: Vec<Effect> = objectives
        .iter()
        .zip(&verdicts)
        .map(|(objective, verdict)| effect(verdict, objective, &judging()))
        .collect();
    assert_eq!(
        effects,
        [Effect::Ok, Effect::Warning, Effect::Failure, Effect::Ok]
    );
}

#[test]
fn with_nothing_that_gates_the_whole_plan_is_measured() {
    let mut live = Judge::new(&[ttft_mean()], &judging(), 5, None);
    for index in 0..5 {
        assert!(!live.is_decided());
        live.take(&sample(index, slow(2000)));
    }
    assert!(live.is_decided());
    let verdict = live.finish(None).remove(0);
    assert_eq!(verdict.decision, Decision::Violated);
    assert_eq!(
        (verdict.lower, verdict.upper),
        (0.0, 1.0),
        "a mean claims nothing"
    );
    assert_eq!(verdict.observed, Some(2.0));
}

#[test]
fn many_undefined_values_leave_an_objective_undecided() {
    let tenth_unknown = |index: u64| {
        let mut seen = good();
        if index.is_multiple_of(8) {
            seen.usage = None;
        }
        sample(index, seen)
    };
    let all: Vec<Sample> = (0..232).map(tenth_unknown).collect();
    let verdict = judge(&evidence(vec![tps_p05()], 232, all)).remove(0);
    assert_eq!(verdict.decision, open(Inconclusive::UndefinedMetric));
    assert!(
        verdict.undefined <= 24,
        "closed as soon as one in ten of the plan is undefined"
    );
}

#[test]
fn a_few_undefined_values_at_the_start_only_delay_a_pass() {
    let all = (0..232).map(|index| {
        let mut seen = good();
        if index < 10 {
            seen.usage = None;
        }
        sample(index, seen)
    });
    let verdict = judge(&evidence(vec![tps_p05()], 232, all)).remove(0);
    assert_eq!(verdict.decision, Decision::Pass);
    assert_eq!((verdict.n, verdict.undefined), (90, 10));
}

#[test]
fn three_cut_streams_among_many_without_usage_violate_no_speed() {
    let all = (0..60).map(|index| {
        let mut seen = good();
        seen.usage = None;
        sample(
            index,
            if [20, 30, 40].contains(&index) {
                truncated()
            } else {
                seen
            },
        )
    });
    let verdicts = decided(&evidence(vec![tps_p05()], 4000, all));
    assert_ne!(verdicts, [Decision::Violated]);
}

#[test]
fn an_unfit_probe_says_nothing_of_the_relay() {
    let mut record = evidence(vec![ttft_p95()], 232, samples([false; 10]));
    let mut unfit = close(CloseReason::Decided);
    unfit.self_check.invalid = Some("client saturated".to_owned());
    record.push(Line::Close(unfit));
    let verdict = judge(&record).remove(0);
    assert_eq!(verdict.decision, open(Inconclusive::InvalidRun));
    assert_eq!(verdict.note.as_deref(), Some("client saturated"));
    // A later, sound session does not heal what an unfit one measured.
    record.push(Line::Close(close(CloseReason::Decided)));
    assert_eq!(decided(&record), [open(Inconclusive::InvalidRun)]);
}

#[test]
fn late_starts_make_a_run_without_a_closing_line_invalid() {
    let mut all = samples(vec![true; 100]);
    for late in &mut all[3..8] {
        late.lag = Duration::from_millis(101);
    }
    assert_eq!(
        decided(&evidence(vec![parse_success()], 700, all.clone())),
        [open(Inconclusive::StoppedEarly)],
        "one pause of the machine"
    );
    all[8].lag = Duration::from_millis(101);
    assert_eq!(
        decided(&evidence(vec![parse_success()], 700, all)),
        [open(Inconclusive::InvalidRun)]
    );
}

#[test]
fn the_reason_of_an_open_verdict_is_how_sampling_ended() {
    let with = |n, max_samples, reason: Option<CloseReason>| {
        let all = samples((0..n).map(|index| index != 5));
        let mut record = evidence(vec![ttft_p95()], max_samples, all);
        record.close = reason.map(close);
        judge(&record).remove(0)
    };
    assert_eq!(with(0, 232, None).decision, open(Inconclusive::NoData));
    let cut = with(50, 232, None);
    assert_eq!(cut.decision, open(Inconclusive::StoppedEarly));
    assert_eq!(cut.further_clean, Some(113 - 50));
    let limit = with(50, 232, Some(CloseReason::Limit));
    assert_eq!(limit.decision, open(Inconclusive::StoppedEarly));
    assert_eq!(
        limit.note.as_deref(),
        Some("a limit of the spec was reached")
    );
    let hopeless = with(50, 100, Some(CloseReason::Limit));
    assert_eq!(hopeless.decision, open(Inconclusive::CannotPass));
    assert_eq!(
        (hopeless.n, hopeless.further_clean),
        (13, Some(113 - 13)),
        "a few samples more could still have shown a violation"
    );
    let record = |judging: Judging| {
        let mut record = evidence(vec![ttft_p95()], 100, samples((0..100).map(|i| i != 5)));
        record.header.judge = judging;
        record.close = Some(close(CloseReason::Budget));
        judge(&record).remove(0)
    };
    let patient = Judging {
        futility: false,
        ..judging()
    };
    assert_eq!(record(patient).decision, open(Inconclusive::Budget));
}

#[test]
fn a_guard_passes_unless_violated_and_says_what_it_did_not_show() {
    let guard = Judging {
        mode: Mode::Guard,
        ..judging()
    };
    let run = |outcomes: Vec<bool>, max_samples| {
        let mut record = evidence(vec![ttft_p95()], max_samples, samples(outcomes));
        record.header.judge = guard.clone();
        judge(&record).remove(0)
    };
    let short = run(vec![true; 20], 20);
    assert_eq!(short.decision, Decision::Pass);
    assert!(
        short
            .note
            .is_some_and(|note| note.contains("not shown to meet it"))
    );
    assert!(short.lower < 0.95);
    assert_eq!(run(vec![false; 3], 20).decision, Decision::Violated);
    assert_eq!(
        run(vec![true; 10], 20).decision,
        open(Inconclusive::StoppedEarly),
        "half a guard is none"
    );
}

#[test]
fn wilson_looks_once_at_the_planned_size() {
    let run = |failures: usize, n: usize, max_samples| {
        let mut record = evidence(
            vec![ttft_p95()],
            max_samples,
            samples((0..n).map(|i| i >= failures)),
        );
        record.header.judge.method = Method::Wilson;
        record.close = Some(close(CloseReason::Budget));
        judge(&record).remove(0)
    };
    // Two-sided 95 %: 73 clean samples are the fewest that pass.
    assert_eq!(run(0, 73, 73).decision, Decision::Pass);
    assert_eq!(run(0, 72, 72).decision, open(Inconclusive::Budget));
    assert_eq!(run(0, 100, 173).decision, open(Inconclusive::StoppedEarly));
    assert_eq!(run(30, 173, 173).decision, Decision::Violated);
    assert!(run(0, 73, 73).rule.contains("z 1.959964"));
    let mut live = Judge::new(
        &[ttft_p95()],
        &Judging {
            method: Method::Wilson,
            ..judging()
        },
        73,
        None,
    );
    for index in 0..73 {
        assert!(!live.is_decided(), "one look, at the end");
        live.take(&sample(index, slow(2000)));
    }
    assert!(live.is_decided());
}

#[test]
fn exact_looks_once_and_needs_the_fewest_clean_samples() {
    let run = |failures: usize, n: usize, max_samples| {
        let mut record = evidence(
            vec![ttft_p95()],
            max_samples,
            samples((0..n).map(|i| i >= failures)),
        );
        record.header.judge.method = Method::Exact;
        record.close = Some(close(CloseReason::Budget));
        judge(&record).remove(0)
    };
    let verdict = run(0, 59, 59);
    assert_eq!(verdict.decision, Decision::Pass);
    assert!(verdict.lower >= 0.95 && verdict.upper == 1.0);
    assert_eq!(
        verdict.rule,
        "exact, 95% (Clopper-Pearson, alpha 0.05, gamma 0.05), one look at 59 samples"
    );
    assert_eq!(run(0, 58, 58).decision, open(Inconclusive::Budget));
    assert_eq!(run(1, 92, 92).decision, open(Inconclusive::Budget));
    assert_eq!(run(1, 93, 93).decision, Decision::Pass);
    assert_eq!(run(0, 60, 93).decision, open(Inconclusive::StoppedEarly));
    // P(at least 6 of 59 fail | 5 %) = 0.0765, at least 7: 0.0280.
    assert_eq!(run(6, 59, 59).decision, open(Inconclusive::Budget));
    let violated = run(7, 59, 59);
    assert_eq!(violated.decision, Decision::Violated);
    assert!(violated.upper <= 0.95);
}

#[test]
fn an_exact_pass_does_not_hang_on_samples_that_are_missing() {
    let mut all = samples(vec![true; 59]);
    all.remove(7);
    let mut record = evidence(vec![ttft_p95()], 59, all);
    record.header.judge.method = Method::Exact;
    record.close = Some(close(CloseReason::Budget));
    assert_eq!(decided(&record), [open(Inconclusive::Budget)]);
    let mut all = samples(vec![true; 61]);
    all.remove(7);
    let mut record = evidence(vec![ttft_p95()], 61, all);
    record.header.judge.method = Method::Exact;
    record.close = Some(close(CloseReason::Budget));
    assert_eq!(decided(&record), [open(Inconclusive::MissingSlots)]);
}

#[test]
fn the_first_failure_ends_the_hope_of_a_pass_where_none_is_allowed() {
    let strict = Judging {
        design_ratio: f64::INFINITY,
        ..judging()
    };
    let run = |outcomes: Vec<bool>| {
        let mut record = evidence(vec![parse_success()], 600, []);
        record.header.judge = strict.clone();
        for (index, fine) in (0..).zip(outcomes) {
            let mut seen = good();
            seen.parse_ok = fine;
            record.push(Line::Sample(Box::new(sample(index, seen))));
        }
        record.close = Some(close(CloseReason::Decided));
        judge(&record).remove(0)
    };
    assert_eq!(
        run(vec![true; 298]).decision,
        open(Inconclusive::StoppedEarly)
    );
    assert_eq!(run(vec![true; 298]).further_clean, Some(1));
    let pass = run(vec![true; 299]);
    assert_eq!((pass.decision, pass.n), (Decision::Pass, 299));
    assert!((0.99..0.9901).contains(&pass.lower), "{}", pass.lower);
    assert!(pass.rule.contains("no failure allowed"), "{}", pass.rule);
    let mut one = vec![true; 400];
    one[20] = false;
    let hopeless = run(one);
    assert_eq!(hopeless.decision, open(Inconclusive::CannotPass));
    assert_eq!((hopeless.lower, hopeless.further_clean), (0.0, None));
    assert_eq!(run(vec![false; 10]).decision, Decision::Violated);
    // And the setting survives the file.
    let text = serde_json::to_string(&strict).unwrap();
    assert!(text.contains("\"design_ratio\":\"zero_failure\""), "{text}");
    assert_eq!(serde_json::from_str::<Judging>(&text).unwrap(), strict);
}

fn usable() -> Objective {
    Objective {
        text: "usable >= 95%".to_owned(),
        metric: Metric::Usable,
        bound: 0.95,
        ..parse_success()
    }
}

/// A cell that asks for seals, of which `lacks` says which samples lack theirs.
fn with_seals(n: u64, allowance_ppm: u32, lacks: impl Fn(u64) -> bool) -> Evidence {
    let seen = |index| {
        let mut seen = good();
        if lacks(index) {
            seen.sealed = Some(false);
            seen.findings = vec![finding(Class::MaskedTruncation, Phase::End)];
        }
        sample(index, seen)
    };
    let mut record = evidence(vec![usable()], 600, (0..n).map(seen));
    record.header.seal_allowance_ppm = Some(allowance_ppm);
    record.close = Some(close(CloseReason::Decided));
    record
}

#[test]
fn a_few_missing_seals_are_neither_good_nor_bad_and_are_told_with_the_pass() {
    let verdict = judge(&with_seals(75, 20_000, |index| index == 30)).remove(0);
    assert_eq!(verdict.decision, Decision::Pass);
    assert_eq!(
        (verdict.n, verdict.failures),
        (74, 0),
        "the one leaves the counts"
    );
    let seals = verdict.seals.unwrap();
    assert_eq!(
        (seals.stops, seals.unsealed, seals.violated),
        (75, 1, false)
    );
    assert_eq!(
        verdict.note.as_deref(),
        Some("1 of 75 normal stops without the seal (1.3%, 2% allowed)")
    );
    let clean = judge(&with_seals(75, 20_000, |_| false)).remove(0);
    assert_eq!((clean.decision, clean.note), (Decision::Pass, None));
}

#[test]
fn more_missing_seals_than_allowed_violate_what_is_usable() {
    let verdict = judge(&with_seals(200, 20_000, |index| index % 10 == 3)).remove(0);
    assert_eq!(verdict.decision, Decision::Violated);
    let seals = verdict.seals.unwrap();
    assert!(seals.violated);
    assert_eq!(
        verdict.failing.len() as u64,
        seals.unsealed,
        "they are named"
    );
    assert_eq!(verdict.failing[0], 3);
    let note = verdict.note.unwrap();
    assert!(note.contains("normal stops without the seal ("), "{note}");
    assert!(note.contains("2% allowed"), "{note}");
    assert_eq!(verdict.upper, 1.0, "of the others nothing is said");
    // All of them at once: nothing is left to be good or bad.
    let none = judge(&with_seals(10, 20_000, |_| true)).remove(0);
    assert_eq!((none.decision, none.n), (Decision::Violated, 0));
}

#[test]
fn with_an_allowance_of_nothing_every_missing_seal_is_a_failure() {
    let verdict = judge(&with_seals(75, 0, |index| index == 30)).remove(0);
    assert_eq!((verdict.n, verdict.failures), (75, 1));
    assert_eq!(verdict.seals, None);
    assert_eq!(verdict.failing, [30]);
}

#[test]
fn a_relay_that_leaves_out_as_many_seals_as_are_allowed_is_seldom_violated() {
    // Both accounts hold at any time; one of the two has half of gamma.
    use crate::stats::operating::operating;
    use crate::stats::sequential::Design;
    let design = Design::new(0.98, 0.025, 0.025).unwrap();
    let oc = operating(&design, 600, false, 0.98);
    assert!(oc.fail <= 0.025, "{oc:?}");
    assert_eq!(crate::plan::budget::accounts(&[usable()], Some(20_000)), 2);
    let rule = judge(&with_seals(1, 20_000, |_| false)).remove(0).rule;
    assert!(rule.contains("gamma 0.025"), "{rule}");
}

#[test]
fn missing_seals_violate_under_a_single_look_too() {
    let mut record = with_seals(100, 20_000, |index| index % 5 == 0);
    record.header.judge.method = Method::Exact;
    record.header.sampling.max_samples = 100;
    let verdict = judge(&record).remove(0);
    assert_eq!(verdict.decision, Decision::Violated);
    assert!(verdict.seals.unwrap().violated);
}

#[test]
fn the_value_beside_a_quantile_agrees_with_its_share() {
    // First tokens after 1 to 200 ms, in an order of their own; speeds of 20 tokens in 10 to 209 ms.
    let place = |index: u64| (index * 77) % 200;
    let seen = |index: u64| {
        let mut seen = slow(place(index) + 1);
        seen.packets.first = Some(ms(0));
        seen.packets.last = Some(ms(place(index) + 60));
        sample(index, seen)
    };
    let observed = |text: &str| {
        let objective = Objective::parse(text).unwrap();
        let mut record = evidence(vec![objective], 200, (0..200).map(seen));
        record.header.judge.method = Method::Exact;
        record.close = Some(close(CloseReason::Budget));
        judge(&record).remove(0)
    };
    for (text, value, failures) in [
        ("ttft.p50 < 101ms", 0.100, 100),
        ("ttft.p50 < 100ms", 0.100, 101),
        ("ttft.p95 <= 190ms", 0.190, 10),
        ("ttft.p95 < 190ms", 0.190, 11),
        ("ttft.p99 < 199ms", 0.198, 2),
        ("ttft.p99 < 198ms", 0.198, 3),
        ("ttft.p99.9 <= 200ms", 0.200, 0),
    ] {
        let verdict = observed(text);
        assert_eq!(verdict.observed, Some(value), "{text}");
        assert_eq!((verdict.n, verdict.failures), (200, failures), "{text}");
        // The value keeps the promise exactly when enough samples do.
        let objective = Objective::parse(text).unwrap();
        let share = 1.0 - verdict.failures as f64 / 200.0;
        let enough = share >= verdict.required - 1e-12;
        assert_eq!(objective.op.holds(value, objective.bound), enough, "{text}");
    }
    // Of which more is better: the rank is counted from the top, the tenth slowest of 200.
    let slowest = 20.0 / 0.249;
    let verdict = observed(&format!("tps.p05 >= {slowest:.3}/s"));
    let exactly = 21.0 * 80.0 / 84.0 / 0.249;
    assert!(
        (verdict.observed.unwrap() - exactly).abs() < 1e-9,
        "{verdict:?}"
    );
}

#[test]
fn a_sample_that_an_objective_is_not_about_leaves_its_counts_and_its_budget() {
    let all = |refusals: u64, n: u64| {
        let seen = move |index| {
            sample(
                index,
                if index < refusals {
                    refused(503)
                } else {
                    good()
                },
            )
        };
        let record = evidence(vec![parse_success()], 400, (0..n).map(seen));
        judge(&record).remove(0)
    };
    let verdict = all(20, 393);
    assert_eq!(verdict.decision, Decision::Pass);
    assert_eq!(
        (verdict.n, verdict.failures, verdict.ineligible),
        (373, 0, 20)
    );
    // 372 are left of 400: too few for 99 %.
    assert_eq!(all(28, 400).decision, open(Inconclusive::CannotPass));
}

#[test]
fn interruptions_and_time_outs_are_the_worst_value_and_never_left_out() {
    for objective in [
        "ttft.p95 < 60s",
        "total.p95 < 60s",
        "jitter.p95 < 60s",
        "tps.p05 >= 1/s",
    ] {
        let objective = Objective::parse(objective).unwrap();
        let all = (0..20).map(|index| sample(index, if index < 2 { refused(503) } else { good() }));
        let verdict = judge(&evidence(vec![objective.clone()], 232, all)).remove(0);
        assert_eq!((verdict.n, verdict.failures), (20, 2), "{}", objective.text);
        let censored = verdict.censored || verdict.observed == Some(0.0);
        assert!(censored, "{}: {verdict:?}", objective.text);
    }
}

#[test]
fn calls_for_which_this_machine_had_no_means_help_no_verdict_and_spoil_the_run() {
    use crate::observation::{Ending, Loss};
    let run = |failed: u64| {
        let seen = move |index| {
            let mut seen = good();
            if index % 30 == 7 && index / 30 < failed {
                seen.ending = Ending::Cancelled;
                seen.lost = Some(Loss::Local);
            }
            sample(index, seen)
        };
        judge(&evidence(vec![ttft_p95()], 400, (0..113).map(seen))).remove(0)
    };
    let one = run(1);
    assert_eq!((one.n, one.failures, one.missing), (112, 0, 1));
    assert_eq!(one.decision, Decision::Pass, "as with one failure");
    let two = run(2);
    assert_eq!(two.decision, open(Inconclusive::InvalidRun));
    assert!(two.note.unwrap().contains("on our side"));
}

#[test]
fn a_quantile_among_the_failures_has_no_value() {
    let all = (0..20).map(|index| sample(index, if index < 2 { refused(503) } else { good() }));
    let verdict = judge(&evidence(vec![ttft_p95()], 232, all)).remove(0);
    assert_eq!(verdict.observed, None);
    assert!(verdict.censored);
}

#[test]
fn impossible_settings_pass_nothing() {
    let whole = Objective {
        bound: 1.0,
        ..parse_success()
    };
    let record = evidence(vec![whole, ttft_p95()], 232, samples([true; 10]));
    assert_eq!(
        decided(&record),
        [
            open(Inconclusive::CannotPass),
            open(Inconclusive::StoppedEarly)
        ]
    );
    let mut record = evidence(vec![parse_success()], 10, samples([true; 10]));
    record.header.judge.design_ratio = 0.5;
    assert_eq!(decided(&record), [open(Inconclusive::CannotPass)]);
}

/// 74 samples, of which `late` come in 1.51 s where 1.5 s are promised, from a saturated client.
fn saturated(late: usize, lag_ms: u64) -> Verdict {
    let seen = |index| {
        let mut seen = good();
        if index < late {
            seen.timeline.first_token = Some(Duration::from_millis(1510));
        }
        seen
    };
    let all: Vec<Sample> = (0..74_usize)
        .map(|index| sample(index as u64, seen(index)))
        .collect();
    let mut record = evidence(vec![ttft_p95()], 232, all);
    let mut end = close(CloseReason::Budget);
    end.self_check.loop_lag_p99 = Duration::from_millis(26);
    end.self_check.loop_lag_max = Duration::from_millis(lag_ms);
    record.close = Some(end);
    judge(&record).remove(0)
}

#[test]
fn a_saturated_client_does_not_spoil_what_was_in_time_all_the_same() {
    assert_eq!(saturated(0, 500).decision, Decision::Pass);
}

#[test]
fn a_saturated_client_is_no_witness_against_a_relay_that_was_late_by_less() {
    assert_eq!(saturated(74, 9).decision, Decision::Violated);
    let verdict = saturated(74, 11);
    assert_eq!(verdict.decision, open(Inconclusive::InvalidRun));
    assert!(
        verdict
            .note
            .is_some_and(|note| note.contains("late by less"))
    );
}

#[test]
fn a_saturated_client_is_no_witness_of_answers_in_one_burst() {
    let judged = |metric: Metric, p99_ms, broken: usize| {
        let seen = |index: usize| {
            let mut seen = good();
            seen.findings = vec![finding(Class::NotStreamed, Phase::Stream)];
            if index < broken {
                seen.findings
                    .push(finding(Class::ModelMismatch, Phase::Stream));
            }
            seen
        };
        let all: Vec<Sample> = (0..30_usize)
            .map(|index| sample(index as u64, seen(index)))
            .collect();
        let objective = Objective {
            metric,
            ..if metric == Metric::Jitter {
                ttft_p95()
            } else {
                parse_success()
            }
        };
        let mut record = evidence(vec![objective], 232, all);
        let mut end = close(CloseReason::Budget);
        end.self_check.loop_lag_p99 = Duration::from_millis(p99_ms);
        end.self_check.loop_lag_max = Duration::from_millis(40);
        record.close = Some(end);
        judge(&record).remove(0).decision
    };
    for metric in [Metric::Usable, Metric::Jitter] {
        assert_eq!(judged(metric, 5, 0), Decision::Violated, "{metric}");
        assert_eq!(
            judged(metric, 40, 0),
            open(Inconclusive::InvalidRun),
            "{metric}"
        );
    }
    // What is wrong beside the burst needs no clock.
    assert_eq!(judged(Metric::Usable, 40, 30), Decision::Violated);
}

#[test]
fn a_relay_that_always_fails_is_violated_and_not_only_hopeless() {
    // With 80 samples at most, one failure is already too many for a pass.
    let none = samples([false; 10]);
    let verdict = judge(&evidence(vec![ttft_p95()], 80, none)).remove(0);
    assert_eq!((verdict.decision, verdict.n), (Decision::Violated, 3));
}

#[test]
fn a_rate_is_in_doubt_only_where_the_lag_could_reach_the_bound() {
    let rates = |lag_ms: u64| {
        let all: Vec<Sample> = (0..74).map(|index| sample(index, good())).collect();
        let speed = all[0].attempts[0].observation.packets.clone();
        assert!(speed.first.is_some() && speed.last.is_some());
        let mut record = evidence(vec![tps_p05()], 232, all);
        let mut end = close(CloseReason::Budget);
        end.self_check.loop_lag_p99 = Duration::from_millis(26);
        end.self_check.loop_lag_max = Duration::from_millis(lag_ms);
        record.close = Some(end);
        judge(&record).remove(0).decision
    };
    assert_eq!(rates(30), Decision::Pass);
    assert_eq!(rates(600_000), open(Inconclusive::InvalidRun));
}
