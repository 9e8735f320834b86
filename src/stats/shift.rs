//! Whether a new set of samples is worse than an old one: more failures, longer times.

use super::numeric::{normal_upper, upper_tail};
use super::{Tally, float};

/// Fisher's exact test: the one-sided p that `new` fails more often than `old`; the chance of at
/// least so many failures on the new side if all failures were dealt out at random. 1 where a side
/// has no sample.
///
/// Summed over the ratios of neighbouring tables, because differences of log-gammas lose a digit
/// with every power of ten of the counts.
pub fn fisher_worse(old: Tally, new: Tally) -> f64 {
    let failures = old.failures().saturating_add(new.failures());
    let all = u128::from(old.n()) + u128::from(new.n());
    let low = failures.saturating_sub(old.n());
    let high = failures.min(new.n());
    let mode = (u128::from(new.n()) + 1) * (u128::from(failures) + 1) / (all + 2);
    let mode = u64::try_from(mode).unwrap_or(high).clamp(low, high);
    upper_tail((low, high), mode, new.failures(), |x| {
        let dealt = float(failures - x) / (float(x) + 1.0);
        // Old samples that are left when the old side holds the rest of the failures.
        let spared = float(old.n() - (failures - x)) + 1.0;
        dealt * float(new.n() - x) / spared
    })
}

/// What the test of Mann and Whitney says of two sets of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Pairs of which the new value is the greater one, ties counted as halves.
    pub u: f64,
    /// The standardised `u`, half a pair taken off for continuity; minus infinity where all values
    /// are equal.
    pub z: f64,
    /// One-sided p that new values are greater.
    pub p: f64,
    /// Chance that a new value is greater than an old one, half of the ties included.
    pub effect: f64,
}

/// Tests whether new values are greater than old ones: Mann and Whitney's test, by the normal
/// approximation with corrections for ties and continuity. A failed sample is +∞ and ties with
/// every other one. `None` where a side is empty or a value is not a number.
pub fn mann_whitney_worse(old: &[f64], new: &[f64]) -> Option<Shift> {
    if old.is_empty() || new.is_empty() {
        return None;
    }
    if old.iter().chain(new).any(|value| value.is_nan()) {
        return None;
    }
    let mut all: Vec<(f64, bool)> = old
        .iter()
        .map(|value| (*value, false))
        .chain(new.iter().map(|value| (*value, true)))
        .collect();
    all.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));

    // Whole numbers as long as possible: twice the pairs won, and t³ − t of each group of ties.
    let (mut won_twice, mut old_below, mut tied): (u128, u128, u128) = (0, 0, 0);
    for group in all.chunk_by(|one, other| one.0 == other.0) {
        let size = group.len() as u128;
        let of_new = group.iter().filter(|(_, is_new)| *is_new).count() as u128;
        let of_old = size - of_new;
        won_twice += of_new * (2 * old_below + of_old);
        old_below += of_old;
        tied += size * (size * size - 1);
    }

    let (n_old, n_new) = (float(old.len() as u64), float(new.len() as u64));
    let n = all.len() as u128;
    let untied = n * (n * n - 1) - tied;
    let u = wide(won_twice) / 2.0;
    let pairs = n_old * n_new;
    // A single value on either side still makes two, so the last factor is not 0.
    let variance = pairs * wide(untied) / (12.0 * wide(n * (n - 1)));
    let z = (u - pairs / 2.0 - 0.5) / variance.sqrt();
    Some(Shift {
        u,
        z,
        p: normal_upper(z),
        effect: u / pairs,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a product of counts, needed to some 16 digits"
)]
const fn wide(count: u128) -> f64 {
    count as f64
}

/// Holm's adjusted p-values, in the order of the given ones: rejecting those that are at most α
/// keeps the chance of any wrong rejection below α, whatever hangs together among them.
///
/// What is not a number is taken as 1, no evidence.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut ordered: Vec<(usize, f64)> = p_values
        .iter()
        .map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) })
        .enumerate()
        .collect();
    ordered.sort_by(|one, other| one.1.total_cmp(&other.1));
    let mut left = p_values.len() as u64;
    let mut highest = 0.0_f64;
    for (_, p) in &mut ordered {
        highest = highest.max((*p * float(left)).min(1.0));
        *p = highest;
        left -= 1;
    }
    ordered.sort_unstable_by_key(|(place, _)| *place);
    ordered.into_iter().map(|(_, p)| p).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(n: u64, failures: u64) -> Tally {
        Tally::new(n, failures).unwrap()
    }

    #[test]
    fn nothing_is_no_evidence_of_more_failures() {
        assert_eq!(fisher_worse(tally(0, 0), tally(0, 0)), 1.0);
        assert_eq!(fisher_worse(tally(0, 0), tally(9, 9)), 1.0);
        assert_eq!(fisher_worse(tally(9, 9), tally(0, 0)), 1.0);
        assert_eq!(fisher_worse(tally(9, 9), tally(9, 9)), 1.0);
        assert_eq!(fisher_worse(tally(9, 3), tally(9, 0)), 1.0);
    }

    #[test]
    fn all_new_failed_and_no_old_one_is_one_table_of_many() {
        // 1 of 10 over 5 tables.
        let p = fisher_worse(tally(5, 0), tally(5, 5));
        assert!((p - 1.0 / 252.0).abs() < 1e-15, "{p}");
    }

    #[test]
    fn a_million_samples_are_no_matter_of_time() {
        let p = fisher_worse(tally(1_000_000, 5000), tally(1_000_000, 5500));
        assert!((4e-7..6e-7).contains(&p), "{p}");
    }

    #[test]
    fn values_that_cannot_be_compared_have_no_shift() {
        assert_eq!(mann_whitney_worse(&[], &[1.0]), None);
        assert_eq!(mann_whitney_worse(&[1.0], &[]), None);
        assert_eq!(mann_whitney_worse(&[1.0], &[f64::NAN]), None);
    }

    #[test]
    fn equal_values_and_equal_failures_are_no_shift() {
        for value in [1.5, f64::INFINITY] {
            let shift = mann_whitney_worse(&[value; 4], &[value; 3]).unwrap();
            assert_eq!((shift.u, shift.effect, shift.p), (6.0, 0.5, 1.0));
        }
        let zeros = mann_whitney_worse(&[0.0, -0.0], &[-0.0, 0.0]).unwrap();
        assert_eq!(zeros.effect, 0.5);
    }

    #[test]
    fn a_hundred_thousand_values_are_no_matter_of_time() {
        let old: Vec<f64> = (0..100_000).map(f64::from).collect();
        let new: Vec<f64> = (0..100_000).map(|value| f64::from(value) + 0.5).collect();
        let shift = mann_whitney_worse(&old, &new).unwrap();
        // Each new value is above its own old one and all lower ones.
        assert_eq!(shift.u, 100_000.0 * 100_001.0 / 2.0);
        assert!(shift.p < 0.5);
    }

    #[test]
    fn adjusted_p_values_keep_their_order() {
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15, "{found}");
        }
        assert_eq!(holm(&[]), Vec::<f64>::new());
        assert_eq!(holm(&[0.5, f64::NAN, 0.7]), [1.0; 3]);
    }
}
