//! What must hold of the sequential rule whatever the counts are, and its errors over a grid.

#![expect(
    clippy::unwrap_used,
    reason = "a test file: a missing value is a failed test"
)]

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use relayproof::evidence::Sample;
use relayproof::resolve::resolve;
use relayproof::spec;
use relayproof::stats::Tally;
use relayproof::stats::cluster::korn_graubard;
use relayproof::stats::difference::{Pairs, mcnemar_exact, newcombe, newcombe_paired};
use relayproof::stats::interval::{Sides, clopper_pearson, wilson};
use relayproof::stats::operating::{Operating, operating};
use relayproof::stats::quantile::{nearest_rank, nearest_rank_from_top};
use relayproof::stats::sequential::{Account, Design, FAIL_RATIO, Standing};
use relayproof::stats::shift::{fisher_worse, holm, mann_whitney_worse};
use relayproof::stats::votes::{Ballot, Vote};
use relayproof::verdict::{Decision, Judge};

fn designs() -> impl Strategy<Value = Design> {
    (
        0.5..0.9995_f64,
        0.001..0.2_f64,
        0.001..0.2_f64,
        1.5..20.0_f64,
        1.5..10.0_f64,
    )
        .prop_map(|(required, alpha, gamma, pass_ratio, fail_ratio)| {
            Design::with_ratios(required, alpha, gamma, pass_ratio, fail_ratio).unwrap()
        })
}

fn tallies() -> impl Strategy<Value = Tally> {
    // Good relays and bad ones: few failures often, many sometimes.
    (1..20_000_u64, prop_oneof![0.0..0.03_f64, 0.0..1.0_f64]).prop_map(|(n, share)| {
        let failures = (n as f64 * share) as u64;
        Tally::new(n, failures).unwrap()
    })
}

fn account(design: Design, tally: Tally) -> Account {
    let mut account = Account::new(design);
    // Failures first: only the counts matter.
    (0..tally.failures()).for_each(|_| account.step(false));
    (0..tally.good()).for_each(|_| account.step(true));
    account
}

proptest! {
    #[test]
    fn a_pass_is_a_lower_bound_at_or_above_the_required_share(
        design in designs(),
        tally in tallies(),
    ) {
        let required = design.required();
        let standing = account(design, tally).standing(None);
        let (lower, upper) = (design.lower(tally), design.upper(tally));
        // Whole-number thresholds may round in the last digits.
        if (lower - required).abs() > 1e-12 {
            prop_assert_eq!(standing == Standing::Pass, lower >= required, "{} {}", lower, required);
        }
        if (upper - required).abs() > 1e-12 {
            prop_assert_eq!(standing == Standing::Fail, upper <= required, "{} {}", upper, required);
        }
        prop_assert!(lower <= upper);
    }

    #[test]
    fn bounds_fall_with_a_failure_and_rise_with_a_success(design in designs(), tally in tallies()) {
        prop_assert!(design.lower(tally.with(false)) <= design.lower(tally));
        prop_assert!(design.lower(tally.with(true)) >= design.lower(tally));
        prop_assert!(design.upper(tally.with(false)) <= design.upper(tally) + 1e-15);
        prop_assert!(design.upper(tally.with(true)) >= design.upper(tally) - 1e-15);
    }

    #[test]
    fn each_failure_asks_for_more_samples(design in designs()) {
        let ladder = design.pass_ladder(200_000);
        prop_assert!(ladder.windows(2).all(|pair| pair[0] < pair[1]));
        let fails: Vec<u64> = (0..100).map(|failures| design.fail_until(failures)).collect();
        prop_assert!(fails.windows(2).all(|pair| pair[0] < pair[1] || pair[1] == 0));
    }

    #[test]
    fn the_order_of_outcomes_changes_when_but_never_the_final_bounds(
        design in designs(),
        outcomes in prop::collection::vec(prop::bool::weighted(0.9), 1..300),
    ) {
        let walk = |outcomes: &[bool]| {
            let mut account = Account::new(design);
            outcomes.iter().for_each(|good| account.step(*good));
            account
        };
        let mut sorted = outcomes.clone();
        sorted.sort_unstable();
        let (one, other) = (walk(&outcomes), walk(&sorted));
        prop_assert_eq!(one.bounds(), other.bounds());
        prop_assert_eq!(one.standing(Some(400)), other.standing(Some(400)));
    }

    #[test]
    fn missing_slots_only_widen_the_bounds(
        design in designs(),
        tally in tallies(),
        missing in 1..100_u64,
    ) {
        let known = account(design, tally).bounds();
        let mut account = account(design, tally);
        account.miss(missing);
        let bounds = account.bounds();
        prop_assert!(bounds.lower <= known.lower && bounds.upper >= known.upper - 1e-15);
    }

    #[test]
    fn clean_samples_as_many_as_promised_make_a_pass(design in designs(), tally in tallies()) {
        let mut account = account(design, tally);
        let more = account.further_clean().unwrap();
        prop_assume!(more < 100_000);
        if more > 0 {
            (1..more).for_each(|_| account.step(true));
            prop_assert_ne!(account.standing(None), Standing::Pass);
            account.step(true);
        }
        prop_assert_eq!(account.standing(None), Standing::Pass);
    }

    #[test]
    fn fixed_bounds_hold_the_observed_share_between_them(tally in tallies()) {
        let share = tally.share().unwrap();
        for interval in [wilson(tally, 1.96), clopper_pearson(tally, 0.95, Sides::Two)] {
            prop_assert!(interval.lower <= share + 1e-9 && share <= interval.upper + 1e-9);
            prop_assert!((0.0..=1.0).contains(&interval.lower));
            prop_assert!((0.0..=1.0).contains(&interval.upper));
        }
    }

    #[test]
    fn the_nearest_rank_says_the_same_as_the_share(
        mut values in prop::collection::vec(0..1000_u32, 1..400),
        ppm in 1..1_000_000_u32,
        limit in 0..1000_u32,
    ) {
        values.sort_unstable();
        let n = values.len() as u64;
        let at = |rank: u64| values[usize::try_from(rank - 1).unwrap()];
        let enough = |count: usize, ppm: u64| count as u64 * 1_000_000 >= ppm * n;
        let below = values.iter().filter(|value| **value < limit).count();
        prop_assert_eq!(
            at(nearest_rank(n, ppm).unwrap()) < limit,
            enough(below, u64::from(ppm))
        );
        let above = values.iter().filter(|value| **value > limit).count();
        prop_assert_eq!(
            at(nearest_rank_from_top(n, ppm).unwrap()) > limit,
            enough(above, 1_000_000 - u64::from(ppm))
        );
    }
}

/// Exact binomial coefficient, as far as it fits.
fn choose(n: u64, k: u64) -> f64 {
    let mut product = 1_u128;
    for i in 0..k.min(n - k.min(n)) {
        product = product * u128::from(n - i) / u128::from(i + 1);
    }
    if k > n { 0.0 } else { product as f64 }
}

proptest! {
    #[test]
    fn adjusted_p_values_are_no_smaller_and_keep_their_order(
        p in prop::collection::vec(0.0..1.0_f64, 0..30),
        place in any::<prop::sample::Index>(),
    ) {
        let adjusted = holm(&p);
        prop_assert_eq!(adjusted.len(), p.len());
        for (i, one) in p.iter().enumerate() {
            prop_assert!(adjusted[i] >= *one && adjusted[i] <= 1.0);
            for (j, other) in p.iter().enumerate() {
                prop_assert!(one > other || adjusted[i] <= adjusted[j]);
            }
        }
        // Lowering one of them raises none.
        if !p.is_empty() {
            let mut lower = p.clone();
            lower[place.index(p.len())] /= 3.0;
            let lower = holm(&lower);
            prop_assert!(lower.iter().zip(&adjusted).all(|(new, old)| *new <= *old + 1e-15));
        }
    }

    #[test]
    fn fisher_counts_tables(old in 0..26_u64, new in 0..26_u64, a in 0..26_u64, b in 0..26_u64) {
        let (a, b) = (a.min(old), b.min(new));
        let all = choose(old + new, a + b);
        let worse: f64 = (b..=new.min(a + b))
            .filter(|x| a + b - x <= old)
            .map(|x| choose(new, x) * choose(old, a + b - x) / all)
            .sum();
        let found = fisher_worse(Tally::new(old, a).unwrap(), Tally::new(new, b).unwrap());
        prop_assert!((found - worse).abs() <= 1e-12 * worse, "{found} {worse}");
    }

    #[test]
    fn mcnemar_counts_coins(a in 0..45_u64, b in 0..45_u64) {
        let tail: f64 = (0..=a.min(b)).map(|k| choose(a + b, k)).sum();
        let expected = (2.0 * tail / 2.0_f64.powi(i32::try_from(a + b).unwrap())).min(1.0);
        let found = mcnemar_exact(a, b);
        prop_assert!((found - expected).abs() <= 1e-12 * expected, "{found} {expected}");
        prop_assert_eq!(found, mcnemar_exact(b, a));
    }

    #[test]
    fn mann_whitney_counts_pairs(
        old in prop::collection::vec(0..12_u8, 1..40),
        new in prop::collection::vec(0..12_u8, 1..40),
    ) {
        // The highest value stands for failures.
        let value = |v: &u8| if *v == 11 { f64::INFINITY } else { f64::from(*v) };
        let values = |list: &[u8]| list.iter().map(value).collect::<Vec<_>>();
        let mut pairs = 0.0;
        for one in &old {
            for other in &new {
                pairs += if other > one { 1.0 } else if other == one { 0.5 } else { 0.0 };
            }
        }
        let found = mann_whitney_worse(&values(&old), &values(&new)).unwrap();
        prop_assert_eq!(found.u, pairs);
        prop_assert!((found.effect - pairs / (old.len() * new.len()) as f64).abs() < 1e-15);
        prop_assert!((0.0..=1.0).contains(&found.p));
        // The other way round the pairs are those that are left.
        let back = mann_whitney_worse(&values(&new), &values(&old)).unwrap();
        prop_assert_eq!(found.u + back.u, (old.len() * new.len()) as f64);
        prop_assert!((found.effect + back.effect - 1.0).abs() < 1e-15);
    }

    #[test]
    fn a_difference_lies_within_its_bounds(one in tallies(), other in tallies()) {
        let found = newcombe(one, other, 1.96).unwrap();
        prop_assert!(found.lower <= found.estimate && found.estimate <= found.upper);
        prop_assert!(found.lower >= -1.0 && found.upper <= 1.0);
        let back = newcombe(other, one, 1.96).unwrap();
        prop_assert!((found.lower + back.upper).abs() < 1e-15);
    }

    #[test]
    fn a_difference_of_pairs_lies_within_its_bounds(
        both in 0..500_u64, only_a in 0..50_u64, only_b in 0..50_u64, neither in 0..500_u64,
    ) {
        prop_assume!(both + only_a + only_b + neither > 0);
        let pairs = Pairs { both, only_a, only_b, neither };
        let found = newcombe_paired(pairs, 1.96).unwrap();
        prop_assert!(found.lower <= found.estimate && found.estimate <= found.upper);
        prop_assert!(found.lower >= -1.0 && found.upper <= 1.0);
        let turned = Pairs { only_a: only_b, only_b: only_a, ..pairs };
        let turned = newcombe_paired(turned, 1.96).unwrap();
        prop_assert!((found.lower + turned.upper).abs() < 1e-12);
    }

    #[test]
    fn the_exact_bounds_leave_their_tails(
        n in 1..60_u64,
        k in 0..60_u64,
        confidence in 0.5..0.999_f64,
    ) {
        let k = k.min(n);
        let chance = |p: f64, i: u64| {
            let (good, bad) = (i32::try_from(i).unwrap(), i32::try_from(n - i).unwrap());
            choose(n, i) * p.powi(good) * (1.0 - p).powi(bad)
        };
        let bounds = clopper_pearson(Tally::new(n, n - k).unwrap(), confidence, Sides::One);
        if k > 0 {
            let at_least: f64 = (k..=n).map(|i| chance(bounds.lower, i)).sum();
            prop_assert!((at_least - (1.0 - confidence)).abs() < 1e-11, "{at_least}");
        }
        if k < n {
            let at_most: f64 = (0..=k).map(|i| chance(bounds.upper, i)).sum();
            prop_assert!((at_most - (1.0 - confidence)).abs() < 1e-11, "{at_most}");
        }
    }

    #[test]
    fn a_bucket_costs_less_than_its_failures_one_by_one_in_as_many_buckets(
        samples in 1..200_u64,
        failures in 0..200_u64,
        ratio in 1.5..20.0_f64,
    ) {
        let failures = failures.min(samples);
        let vote = Vote::new(samples, failures).unwrap();
        let share = failures as f64 / samples as f64;
        // The mean of bets is worth more than their geometric mean, on both accounts.
        prop_assert!(vote.failures_for_pass(ratio) <= share + 1e-12);
        prop_assert!(vote.failures_for_fail(ratio) >= share - 1e-12);
    }

    #[test]
    fn a_ballot_passes_and_fails_by_its_bounds(
        design in designs(),
        buckets in prop::collection::vec((1..12_u64, 0..12_u64), 1..150),
        clean in 0..3000_u64,
    ) {
        let mut ballot = Ballot::new(design);
        for (samples, failures) in buckets {
            ballot.cast(Vote::new(samples, failures.saturating_sub(8).min(samples)).unwrap());
        }
        (0..clean).for_each(|_| ballot.cast(Vote::new(5, 0).unwrap()));
        let (required, bounds) = (design.required(), ballot.bounds());
        if (bounds.lower - required).abs() > 1e-12 {
            prop_assert_eq!(
                ballot.standing(None) == Standing::Pass,
                bounds.lower >= required
            );
        }
        if (bounds.upper - required).abs() > 1e-12 {
            prop_assert_eq!(
                ballot.standing(None) == Standing::Fail,
                bounds.upper <= required
            );
        }
    }

    #[test]
    fn clusters_never_say_more_than_their_samples(
        clusters in prop::collection::vec((1..30_u64, 0..30_u64), 2..30),
    ) {
        let clusters: Vec<Tally> = clusters
            .into_iter()
            .map(|(n, bad)| Tally::new(n, bad.min(n)).unwrap())
            .collect();
        let found = korn_graubard(&clusters, 0.95).unwrap();
        let n: u64 = clusters.iter().map(|cluster| cluster.n()).sum();
        let failures = clusters.iter().map(|cluster| cluster.failures()).sum();
        prop_assert!(found.effective_n <= n as f64);
        let alone = clopper_pearson(Tally::new(n, failures).unwrap(), 0.95, Sides::Two);
        prop_assert!(found.interval.lower <= alone.lower + 1e-9);
        prop_assert!(found.interval.upper >= alone.upper - 1e-9);
    }
}

#[test]
fn nearest_ranks_are_right_at_all_multiples_of_twenty() {
    // There every multiple of 5 % is a whole number of samples, and no rounding is due at all.
    for n in (20..=20_000_u64).step_by(20) {
        for percent in (5..100_u32).step_by(5) {
            let ppm = percent * 10_000;
            let exact = n / 20 * u64::from(percent / 5);
            assert_eq!(nearest_rank(n, ppm), Some(exact), "{n} {percent}");
            assert_eq!(
                nearest_rank_from_top(n, ppm),
                Some(exact + 1),
                "{n} {percent}"
            );
        }
    }
}

/// The operating characteristics by walking every account there can be, one for each number of
/// failures.
fn by_accounts(design: Design, n_max: u64, futility: bool, p: f64) -> Operating {
    let mut found = Operating {
        pass: 0.0,
        fail: 0.0,
        cannot_pass: 0.0,
        budget: 0.0,
        expected_n: 0.0,
    };
    let mut open = vec![(Account::new(design), 1.0)];
    for _ in 0..n_max {
        let mut next: Vec<(Account, f64)> = Vec::new();
        for (account, mass) in open {
            found.expected_n += mass;
            for (good, chance) in [(true, p), (false, 1.0 - p)] {
                let mut account = account;
                account.step(good);
                let mass = mass * chance;
                match account.standing(futility.then_some(n_max)) {
                    Standing::Pass => found.pass += mass,
                    Standing::Fail => found.fail += mass,
                    Standing::CannotPass => found.cannot_pass += mass,
                    Standing::Open => match next.last_mut() {
                        Some((last, sum)) if last.tally() == account.tally() => *sum += mass,
                        _ => next.push((account, mass)),
                    },
                }
            }
        }
        open = next;
    }
    found.budget = open.iter().map(|(_, mass)| mass).sum();
    found
}

#[test]
fn the_recursion_is_that_of_the_accounts() {
    for (required, n_max) in [(0.9, 120), (0.95, 232), (0.99, 400)] {
        let design = Design::new(required, 0.05, 0.0125).unwrap();
        for p in [0.7, required, 0.5 + required / 2.0, 1.0] {
            for futility in [false, true] {
                let one = operating(&design, n_max, futility, p);
                let other = by_accounts(design, n_max, futility, p);
                let pairs = [
                    (one.pass, other.pass),
                    (one.fail, other.fail),
                    (one.cannot_pass, other.cannot_pass),
                    (one.budget, other.budget),
                    (one.expected_n / 1e3, other.expected_n / 1e3),
                ];
                for (one, other) in pairs {
                    assert!(
                        (one - other).abs() < 1e-12,
                        "{required} {p} {futility}: {one} {other}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_ratio_and_no_confidence_lets_a_bad_relay_pass_or_a_good_one_fail_more_often() {
    for required in [0.8, 0.9, 0.95, 0.99, 0.999] {
        for ratio in [2.0, 3.0, 5.0, 8.0, 13.0, 20.0, f64::INFINITY] {
            for confidence in [0.9, 0.95, 0.99, 0.995, 0.999] {
                let error = 1.0 - confidence;
                let design =
                    Design::with_ratios(required, error, error, ratio, FAIL_RATIO).unwrap();
                // Enough for a pass with some failures, at least.
                let n_max = 2 * design.pass_at(0).unwrap();
                if n_max > 9000 {
                    continue;
                }
                let case = |oc: Operating| format!("{required} {ratio} {confidence}: {oc:?}");
                // A relay at its limit is the hardest one for both errors.
                let oc = operating(&design, n_max, false, required);
                assert!(oc.pass <= error && oc.fail <= error, "{}", case(oc));
                let worse = operating(&design, n_max, false, required - 0.1 * (1.0 - required));
                assert!(worse.pass <= oc.pass, "{}", case(worse));
                let better = operating(&design, n_max, false, required + 0.1 * (1.0 - required));
                assert!(better.fail <= oc.fail, "{}", case(better));
                let sum = oc.pass + oc.fail + oc.cannot_pass + oc.budget;
                assert!((sum - 1.0).abs() < 1e-9, "{}", case(oc));
            }
        }
    }
}

#[test]
fn a_relay_at_its_objective_passes_and_fails_no_more_often_than_promised() {
    for required in [0.9, 0.95, 0.98, 0.99, 0.995] {
        for alpha in [0.01, 0.05, 0.1] {
            for gamma in [0.0125, 0.05] {
                let design = Design::new(required, alpha, gamma).unwrap();
                for n_max in [50, 300, 2000] {
                    for futility in [false, true] {
                        let oc = operating(&design, n_max, futility, required);
                        let case = format!("{required} {alpha} {gamma} {n_max} {futility}: {oc:?}");
                        assert!(oc.pass <= alpha, "{case}");
                        assert!(oc.fail <= gamma, "{case}");
                        let sum = oc.pass + oc.fail + oc.cannot_pass + oc.budget;
                        assert!((sum - 1.0).abs() < 1e-9, "{case}");
                        assert!(oc.expected_n <= n_max as f64 + 1e-9, "{case}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_relay_below_its_objective_passes_even_less_often() {
    let design = Design::new(0.99, 0.05, 0.05).unwrap();
    let passes: Vec<f64> = [0.99, 0.985, 0.98, 0.97, 0.95]
        .iter()
        .map(|p| operating(&design, 2000, false, *p).pass)
        .collect();
    assert!(
        passes.windows(2).all(|pair| pair[0] > pair[1]),
        "{passes:?}"
    );
}

/// A whole answer, or one that broke off.
fn answer(whole: bool) -> Sample {
    serde_json::from_value(serde_json::json!({
        "id": "", "index": 0, "trace_id": "", "t0_unix_ns": 1, "planned_us": 1, "lag_us": 1,
        "attempts": [{"start_us": 0, "observation": {
            "timeline": {"head_us": 1000, "over_us": 2000}, "ending": "completed",
            "last_phase": "end", "parse_ok": whole, "interrupted": !whole, "status": 200,
            "packets": {
                "count": 0, "content_events": 0, "chars": 0, "first_chars": 0, "longest": [],
            },
            "counts": {"body_bytes": 9000, "reads": 64, "events": 67},
            "connection": {"http_version": "1.1"},
        }}],
    }))
    .unwrap()
}

/// What the judge of `cargo test` says of 200 relays with the same true share of failures.
fn decisions(failures_ppm: u32) -> Vec<Decision> {
    let spec = "
relayproof: 1
relays: [{ name: a, base_url: http://127.0.0.1/v1, models: [m] }]
sampling: { max_samples: 975 }
slos: [interruption < 1%]
";
    let spec = spec::parse("test.yaml", spec, &|_| None).unwrap();
    let plan = resolve(&spec, None).unwrap();
    let (mut whole, mut broken) = (answer(true), answer(false));
    (0..200)
        .map(|seed| {
            let mut draws = ChaCha8Rng::seed_from_u64(seed);
            let objectives = &plan.cells[0].objectives;
            let mut judge = Judge::new(objectives, &plan.judge, 975, None);
            for index in 0.. {
                if judge.is_decided() {
                    break;
                }
                let ticket = (u128::from(draws.next_u64()) * 1_000_000) >> 64;
                let sample = if ticket < u128::from(failures_ppm) {
                    &mut broken
                } else {
                    &mut whole
                };
                sample.index = index;
                judge.take(sample);
            }
            judge.finish(None)[0].decision
        })
        .collect()
}

#[test]
fn a_relay_at_its_limit_does_not_flap() {
    let decisions = decisions(10_000);
    let passed = decisions.iter().filter(|one| **one == Decision::Pass);
    // Exactly 4.5 % of such relays pass; of 200, at most 17 with a chance of 99.5 %.
    let passed = passed.count();
    assert!((1..=17).contains(&passed), "{passed}");
    let violated = decisions.iter().filter(|one| **one == Decision::Violated);
    // Neither are they violated: 0.6 %, and a few more that are given a last chance to show it.
    assert!(violated.count() <= 8);
}

#[test]
fn a_relay_far_from_its_limit_never_flaps() {
    let flawless = decisions(0);
    assert!(flawless.iter().all(|one| *one == Decision::Pass));
    let broken = decisions(100_000);
    assert!(broken.iter().all(|one| *one != Decision::Pass));
    let violated = broken.iter().filter(|one| **one == Decision::Violated);
    // Exactly 93 % are violated, the others out of reach.
    assert!(violated.count() >= 175);
}
