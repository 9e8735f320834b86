//! Whether two sets of short texts come from one distribution: the test of Model Equality Testing
//! (Gao, Liang, Guestrin, 2024, arXiv 2410.20247).
//!
//! The maximum mean discrepancy with a Hamming kernel, and its p by permutation.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::float;

/// Most texts of a side: the kernel is of all pairs of them.
pub const MOST_TEXTS: usize = 1000;

/// Texts are compared place by place, up to here.
pub const PLACES: usize = 64;

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Discrepancy {
    /// The unbiased estimate of the squared discrepancy; around 0 where both are alike.
    pub estimate: f64,
    /// Share of the permutations that give as much, the observed one among them.
    pub p: f64,
}

/// Texts as sequences of symbols; `None` where a side has fewer than two.
///
/// `permutations` bounds the smallest p that can come out: `1 / (permutations + 1)`. The same seed
/// gives the same p. Texts beyond [`MOST_TEXTS`] of a side are left out.
pub fn hamming_mmd(
    one: &[Vec<u32>],
    other: &[Vec<u32>],
    permutations: u32,
    seed: u64,
) -> Option<Discrepancy> {
    let one = &one[..one.len().min(MOST_TEXTS)];
    let other = &other[..other.len().min(MOST_TEXTS)];
    if one.len() < 2 || other.len() < 2 {
        return None;
    }
    let texts: Vec<&[u32]> = one.iter().chain(other).map(Vec::as_slice).collect();
    let n = texts.len();
    // Similarities as whole numbers: sums of them are exact, whatever their order.
    let mut kernel = vec![0_u32; n * n];
    for a in 0..n {
        for b in 0..a {
            let alike = alike(texts[a], texts[b]);
            kernel[a * n + b] = alike;
            kernel[b * n + a] = alike;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    let observed = discrepancy(&kernel, &order, one.len());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut as_much = 1_u64;
    for _ in 0..permutations {
        shuffle(&mut order, &mut rng);
        as_much += u64::from(discrepancy(&kernel, &order, one.len()) >= observed);
    }
    Some(Discrepancy {
        estimate: observed,
        p: float(as_much) / (f64::from(permutations) + 1.0),
    })
}

/// Places at which two texts have the same symbol; one that has ended has its end there.
fn alike(a: &[u32], b: &[u32]) -> u32 {
    let same = (0..PLACES).filter(|place| a.get(*place) == b.get(*place));
    u32::try_from(same.count()).unwrap_or(u32::MAX)
}

/// The unbiased estimate where the first `first` of the order are one side.
fn discrepancy(kernel: &[u32], order: &[usize], first: usize) -> f64 {
    let n = order.len();
    let (mut within_one, mut within_other, mut between) = (0_u64, 0_u64, 0_u64);
    for (place, &a) in order.iter().enumerate() {
        let row = &kernel[a * n..(a + 1) * n];
        for (other, &b) in order.iter().enumerate().take(place) {
            let alike = u64::from(row[b]);
            match (place < first, other < first) {
                (true, true) => within_one += alike,
                (false, false) => within_other += alike,
                (true, false) | (false, true) => between += alike,
            }
        }
    }
    let (x, y) = (float(first as u64), float((n - first) as u64));
    // Each pair once in the sums, twice in the mean.
    let mean = |sum: u64, of: f64| 2.0 * float(sum) / (of * (of - 1.0));
    let places = float(PLACES as u64);
    (mean(within_one, x) + mean(within_other, y) - 2.0 * float(between) / (x * y)) / places
}

/// Fisher and Yates; the bias of the remainder is far below what any p shows.
fn shuffle(order: &mut [usize], rng: &mut ChaCha8Rng) {
    for last in (1..order.len()).rev() {
        let bound = last as u64 + 1;
        let chosen = usize::try_from(rng.next_u64() % bound).unwrap_or(0);
        order.swap(last, chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of a model that says one of `words` at each place.
    fn texts(n: usize, words: u32, seed: u64) -> Vec<Vec<u32>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut word = || u32::try_from(rng.next_u64() % u64::from(words)).unwrap();
        (0..n).map(|_| (0..20).map(|_| word()).collect()).collect()
    }

    #[test]
    fn one_model_is_told_from_itself_as_often_as_chance_has_it() {
        let false_signals = (0..200)
            .filter(|run| {
                let (one, other) = (texts(20, 4, 2 * run), texts(20, 4, 2 * run + 1));
                hamming_mmd(&one, &other, 99, 7).unwrap().p <= 0.05
            })
            .count();
        // 99.9% quantile of Binomial(200, 0.05).
        assert!(false_signals <= 21, "{false_signals} of 200");
    }

    #[test]
    fn another_model_is_told_from_it() {
        let found = hamming_mmd(&texts(50, 4, 1), &texts(50, 3, 2), 999, 7).unwrap();
        assert!(found.p <= 0.001, "{found:?}");
        assert!(found.estimate > 0.0);
    }

    #[test]
    fn a_set_of_which_each_text_is_the_other_sides_is_no_discrepancy() {
        let one = texts(30, 4, 1);
        let found = hamming_mmd(&one, &one, 199, 7).unwrap();
        assert!(found.p > 0.5, "{found:?}");
        assert_eq!(
            found,
            hamming_mmd(&one, &one, 199, 7).unwrap(),
            "the same seed, the same p"
        );
    }

    #[test]
    fn the_estimate_is_that_of_the_definition() {
        // Two texts each: within a side all alike, between the sides nothing.
        let one = vec![vec![1; PLACES]; 2];
        let other = vec![vec![2; PLACES]; 2];
        let found = hamming_mmd(&one, &other, 0, 7).unwrap();
        assert!((found.estimate - 2.0).abs() < 1e-12, "{found:?}");
        assert_eq!(found.p, 1.0);
        // A text that has ended is unlike one that goes on, and like another that has ended.
        let short = vec![vec![1; PLACES / 2]; 2];
        let found = hamming_mmd(&one, &short, 0, 7).unwrap();
        assert!((found.estimate - 1.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn one_text_says_nothing() {
        assert_eq!(hamming_mmd(&texts(1, 4, 1), &texts(9, 4, 2), 9, 7), None);
    }

    #[test]
    fn more_texts_than_the_bound_take_no_longer() {
        let many = texts(MOST_TEXTS + 50, 4, 1);
        let all = hamming_mmd(&many, &texts(5, 4, 2), 0, 7).unwrap();
        let first = hamming_mmd(&many[..MOST_TEXTS], &texts(5, 4, 2), 0, 7).unwrap();
        assert_eq!(all, first);
    }
}
