//! What must hold of the sequential rule whatever the counts are, and its errors over a grid.

#![expect(
    clippy::unwrap_used,
    reason = "a test file: a missing value is a failed test"
)]

use proptest::prelude::*;
use relayproof::stats::Tally;
use relayproof::stats::interval::{Sides, clopper_pearson, wilson};
use relayproof::stats::operating::operating;
use relayproof::stats::quantile::{nearest_rank, nearest_rank_from_top};
use relayproof::stats::sequential::{Account, Design, Standing};

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
