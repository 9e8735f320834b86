//! Regressions that are there and are found, and those that are not and are not.

use super::*;
use crate::evidence::fixtures::*;
use crate::evidence::{CloseReason, Line};

/// What the objectives of the made-up relay ask.
const BOUND: f64 = 1.5;

fn question() -> Question {
    Question::parse("ttft < 1.5s").unwrap()
}

/// A cell with these times to the first token.
fn cell(times: &[f64]) -> Tallied {
    let mut tallied = Tallied::new(header(Vec::new(), 300), String::new(), vec![question()]);
    let failures = times.iter().filter(|time| **time >= BOUND).count() as u64;
    tallied.counts[0].tally = Tally::new(times.len() as u64, failures).unwrap();
    tallied.ttft = times.to_vec();
    tallied
}

/// Random numbers, the same each time.
struct Dice(u64);

impl Dice {
    /// Between 0 and 1, neither of them.
    fn share(&mut self) -> f64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// A time to the first token: lognormal, 95 % of them under the bound.
    fn time(&mut self) -> f64 {
        let normal = interval::normal_quantile(self.share());
        BOUND * (0.4 * (normal - 1.644_854)).exp()
    }

    fn times(&mut self, change: impl Fn(&mut Self, f64) -> f64) -> Vec<f64> {
        (0..300)
            .map(|_| {
                let time = self.time();
                change(self, time)
            })
            .collect()
    }
}

/// How often Mann-Whitney and Fisher alone say p ≤ 0.01, and how often the whole flags, 300 old
/// against 300 new calls.
fn power(runs: u32, change: impl Fn(&mut Dice, f64) -> f64) -> [f64; 3] {
    let mut dice = Dice(7);
    let mut hits = [0_u32; 3];
    for _ in 0..runs {
        let (old, new) = (
            cell(&dice.times(|_, time| time)),
            cell(&dice.times(&change)),
        );
        let found = regress([(&old, &new)]);
        let comparison = &found[0];
        hits[0] += u32::from(comparison.times.unwrap().p <= ALPHA);
        hits[1] += u32::from(comparison.shares[0].p <= ALPHA);
        hits[2] += u32::from(comparison.is_worse());
    }
    hits.map(|hits| f64::from(hits) / f64::from(runs))
}

/// The powers of the design, each test alone, and what the two together flag.
#[test]
fn the_two_tests_find_what_they_are_there_to_find() {
    let timeout = |dice: &mut Dice, time: f64| {
        if dice.share() < 0.05 {
            f64::INFINITY
        } else {
            time
        }
    };
    let tail = |dice: &mut Dice, time: f64| {
        if dice.share() < 0.08 {
            time * 3.0
        } else {
            time
        }
    };
    let near = |found: [f64; 3], wanted: [f64; 3], what: &str| {
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(
                (found - wanted).abs() < 0.07,
                "{what}: {found} for {wanted}"
            );
        }
    };
    near(
        power(400, |_, time| time * 1.1),
        [0.69, 0.15, 0.60],
        "10 % slower",
    );
    near(
        power(400, |_, time| time * 1.2),
        [1.0, 0.70, 1.0],
        "20 % slower",
    );
    near(
        power(400, tail),
        [0.21, 0.70, 0.60],
        "a tail three times as long",
    );
    near(power(400, timeout), [0.11, 0.42, 0.33], "5 % time-outs");
}

#[test]
fn a_relay_that_did_not_change_is_hardly_ever_flagged() {
    let [shift, share, flagged] = power(1500, |_, time| time);
    assert!(shift <= 0.015 && share <= 0.01, "{shift} {share}");
    assert!(flagged <= 0.015, "{flagged}");
}

#[test]
fn a_faster_relay_is_not_worse() {
    let mut dice = Dice(1);
    let (old, new) = (
        cell(&dice.times(|_, time| time)),
        cell(&dice.times(|_, time| time * 0.5)),
    );
    let found = regress([(&old, &new)]);
    assert!(!found[0].is_worse());
    assert!(found[0].times.unwrap().ratio.unwrap() < 0.6);
    assert!(found[0].shares[0].difference.unwrap().lower > 0.0);
}

/// Cells of one share each, without times.
fn share_of(n: u64, failures: u64) -> Tallied {
    let mut tallied = cell(&[]);
    tallied.counts[0].tally = Tally::new(n, failures).unwrap();
    tallied
}

fn finding(old: &Tallied, new: &Tallied) -> Finding {
    regress([(old, new)])[0].shares[0].finding
}

#[test]
fn a_difference_that_is_sure_and_tiny_is_no_regression() {
    let old = share_of(1_000_000, 1000);
    let finding = |failures| finding(&old, &share_of(1_000_000, failures));
    assert_eq!(finding(1000), Finding::NotShown);
    assert_eq!(finding(10_999), Finding::Slightly);
    assert_eq!(finding(11_000), Finding::Worse, "exactly one point");
}

#[test]
fn without_samples_on_both_sides_nothing_is_tested() {
    let some = share_of(300, 30);
    assert_eq!(finding(&some, &share_of(0, 0)), Finding::NoData);
    assert_eq!(finding(&share_of(0, 0), &some), Finding::NoData);
    let more = share_of(300, 90);
    let found = regress([(&some, &more)]);
    assert_eq!(found[0].times, None);
    // What was not tested takes no part in the correction of the rest.
    let share = &found[0].shares[0];
    assert!((share.p - share.adjusted).abs() < 1e-15);
}

#[test]
fn all_tests_of_a_command_are_corrected_together() {
    let (old, new) = (share_of(300, 3), share_of(300, 14));
    let alone = regress([(&old, &new)]);
    assert_eq!(alone[0].shares[0].finding, Finding::Worse);
    let same = share_of(300, 3);
    let three = regress([(&old, &new), (&old, &same), (&old, &same)]);
    let share = &three[0].shares[0];
    assert!((share.adjusted - 3.0 * share.p).abs() < 1e-15);
    assert_eq!(share.finding, Finding::NotShown);
}

#[test]
fn a_lag_of_our_own_accuses_nobody_of_being_slow() {
    let mut dice = Dice(3);
    let old = cell(&dice.times(|_, time| time));
    let mut new = cell(&dice.times(|_, time| time * 1.5));
    assert_eq!(finding(&old, &new), Finding::Worse);
    let mut saturated = close(CloseReason::Budget);
    saturated.self_check.loop_lag_p99 = ms(40);
    saturated.self_check.loop_lag_max = ms(90);
    new.take(&Line::Close(saturated.clone()));
    let found = regress([(&old, &new)]);
    assert_eq!(found[0].shares[0].finding, Finding::InDoubt);
    assert_eq!(found[0].times.unwrap().finding, Finding::InDoubt);
    assert!(!found[0].is_worse());

    // Bytes are not later than they are: a cut answer stays one, a burst may be ours.
    let parse = Question::parse("usable").unwrap();
    let side = |failures, bursts| {
        let mut side = Tallied::new(header(Vec::new(), 300), String::new(), vec![parse.clone()]);
        side.counts[0].tally = Tally::new(300, failures).unwrap();
        side.counts[0].bursts = bursts;
        side.take(&Line::Close(saturated.clone()));
        side
    };
    assert_eq!(finding(&side(0, 0), &side(60, 0)), Finding::Worse);
    assert_eq!(finding(&side(0, 0), &side(60, 60)), Finding::NotShown);
}

#[test]
fn quantiles_stand_side_by_side_with_the_ranks_between_which_they_lie() {
    let times: Vec<f64> = (1..=100).map(f64::from).collect();
    let mut failing = times.clone();
    failing[90..].fill(f64::INFINITY);
    let (old, new) = (cell(&times), cell(&failing));
    let found = regress([(&old, &new)]);
    let [median, p95] = &found[0].quantiles[..] else {
        panic!()
    };
    assert_eq!(median.ppm, 500_000);
    let of_old = p95.old.unwrap();
    assert_eq!(
        (of_old.value, of_old.lower, of_old.upper),
        (95.0, Some(91.0), Some(99.0))
    );
    assert_eq!(p95.new.unwrap().value, f64::INFINITY);
    let few = cell(&[1.0, 2.0]);
    let found = regress([(&few, &few)]);
    assert_eq!(found[0].quantiles[1].old.unwrap().upper, None);
}

#[test]
fn a_median_that_is_a_failure_has_no_ratio_but_an_effect() {
    let (old, new) = (cell(&[0.1; 30]), cell(&[f64::INFINITY; 30]));
    let found = regress([(&old, &new)]);
    let times = found[0].times.unwrap();
    assert_eq!((times.ratio, times.above), (None, 1.0));
    assert_eq!(times.finding, Finding::Worse);
    assert!(found[0].is_worse());
}
