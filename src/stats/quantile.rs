//! Ranks of a quantile: which of `n` ordered values stands for it, and between which ranks it lies.
//!
//! A quantile is held in integer parts per million, because `ceil((1 - 0.95) * n)` in floating
//! point is wrong at every multiple of 20.

use super::interval::Sides;
use super::numeric::binomial_upper;

const PPM: u128 = 1_000_000;
/// Equal probabilities computed on two ways differ by this much at most.
const SLACK: f64 = 1e-12;

/// Nearest rank from below: the `ceil(q n)`-th smallest, from 1; `None` without values.
pub fn nearest_rank(n: u64, ppm: u32) -> Option<u64> {
    (n > 0).then(|| ceil_share(n, ppm).clamp(1, n))
}

/// Nearest rank counted from the top: that of the `ceil((1 - q) n)`-th largest; `None` without
/// values.
///
/// For metrics of which more is better, so that the value again agrees with the share: `p05` of
/// 100 values is the 95th largest.
pub fn nearest_rank_from_top(n: u64, ppm: u32) -> Option<u64> {
    (n > 0).then(|| n + 1 - ceil_share(n, 1_000_000_u32.saturating_sub(ppm)).clamp(1, n))
}

fn ceil_share(n: u64, ppm: u32) -> u64 {
    let exact = (u128::from(ppm.min(1_000_000)) * u128::from(n)).div_ceil(PPM);
    u64::try_from(exact).unwrap_or(n)
}

/// Ranks between which a quantile lies, at a size fixed in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankInterval {
    /// Rank of the lower bound; `None` when no value is low enough.
    pub lower: Option<u64>,
    /// Rank of the upper bound; `None` when no value is high enough.
    pub upper: Option<u64>,
}

/// The order-statistic interval of a quantile.
///
/// `upper` is the smallest rank r with P(Bin(n, q) ≤ r − 1) ≥ confidence, `lower` the largest rank
/// l with P(Bin(n, q) ≥ l) ≥ confidence.
pub fn rank_interval(n: u64, ppm: u32, confidence: f64, sides: Sides) -> RankInterval {
    let share = f64::from(ppm) / 1e6;
    let enough = 1.0 - sides.tail(confidence) - SLACK;
    if !(0.0..=1.0).contains(&share) {
        return RankInterval {
            lower: None,
            upper: None,
        };
    }
    let at_least = |rank| binomial_upper(n, share, rank);
    // Both conditions are monotone in the rank, so the first or last rank is found by halving.
    let upper = first(1, n, |rank| 1.0 - at_least(rank) >= enough);
    let lower = match first(1, n, |rank| at_least(rank) < enough) {
        Some(1) => None,
        Some(too_high) => Some(too_high - 1),
        None => (n > 0).then_some(n),
    };
    RankInterval { lower, upper }
}

/// The first of `from..=to` that a monotone condition holds for.
fn first(from: u64, to: u64, holds: impl Fn(u64) -> bool) -> Option<u64> {
    let (mut low, mut high) = (from, to.checked_add(1)?);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    (low <= to).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_right_at_multiples_of_twenty() {
        for n in (20..=2000).step_by(20) {
            assert_eq!(nearest_rank(n, 950_000), Some(n - n / 20));
            assert_eq!(nearest_rank_from_top(n, 50_000), Some(n / 20 + 1));
        }
    }

    #[test]
    fn the_rank_from_the_top_agrees_with_the_share() {
        // "p05 > x" says that at least 95 % are above x: exactly then the value is above x.
        for n in 1..200_u64 {
            let rank = nearest_rank_from_top(n, 50_000).unwrap();
            let at_or_above = n - rank + 1;
            assert!(at_or_above * 100 >= 95 * n, "{n}");
            assert!((at_or_above - 1) * 100 < 95 * n, "{n}");
        }
    }

    #[test]
    fn nothing_has_no_rank() {
        assert_eq!(nearest_rank(0, 500_000), None);
        assert_eq!(nearest_rank_from_top(0, 500_000), None);
        let none = rank_interval(0, 950_000, 0.95, Sides::One);
        assert_eq!((none.lower, none.upper), (None, None));
    }
}
