//! The answers to one fixed prompt, the relay's against the upstream's.

use super::{About, Pool, Seen, Signal, answered, upstream};
use crate::evidence::Evidence;
use crate::stats::float;
use crate::stats::mmd::{MOST_TEXTS, hamming_mmd};

/// Answers of a side below which nothing is said.
const FEWEST: usize = 10;
/// Permutations; the smallest p that can come out is 1 in 2,000.
const PERMUTATIONS: u32 = 1_999;
/// Chance of a false signal.
const ALPHA: f64 = 0.01;

/// Whether the answers could be those of one model.
pub(super) fn look(pool: &Pool<'_>, all: &[Evidence]) -> Signal {
    let (mut relay, mut theirs) = (Vec::new(), Vec::new());
    for one in &pool.own {
        relay.extend(words(one));
        if let Some(upstream) = upstream(one, all) {
            theirs.extend(words(upstream));
        }
    }
    let seed = pool.own.first().map_or(0, |one| one.header.sampling.seed);
    let n = [
        ("relay", float(relay.len() as u64)),
        ("upstream", float(theirs.len() as u64)),
    ];
    let enough = relay.len() >= FEWEST && theirs.len() >= FEWEST;
    let found = enough
        .then(|| hamming_mmd(&relay, &theirs, PERMUTATIONS, seed))
        .flatten();
    let Some(found) = found else {
        let (own, upstream) = (relay.len(), theirs.len());
        let statement = format!("{own} answers and {upstream} of the upstream are too few to say");
        return pool.said(About::Answers, Seen::TooFew, statement, &n);
    };
    let signal = found.p <= ALPHA;
    let left_out = if relay.len().max(theirs.len()) > MOST_TEXTS {
        format!(" (the first {MOST_TEXTS} of each)")
    } else {
        String::new()
    };
    let statement = format!(
        "{} answers to one prompt and {} of the upstream{left_out}: {} (discrepancy {:.4}, p {:.4})",
        relay.len(),
        theirs.len(),
        if signal {
            "one model would hardly give both"
        } else {
            "one model may have given both"
        },
        found.estimate,
        found.p,
    );
    let [own, upstream] = n;
    let numbers = [
        own,
        upstream,
        ("discrepancy", found.estimate),
        ("p", found.p),
    ];
    pool.said(About::Answers, super::seen(signal), statement, &numbers)
}

/// The answers as words; in the order of their slots, so that the same evidence gives the same p.
fn words(evidence: &Evidence) -> Vec<Vec<u32>> {
    let mut answers: Vec<(u64, Vec<u32>)> = answered(evidence)
        .filter(|(_, seen)| !seen.words.is_empty())
        .map(|(index, seen)| (index, seen.words.clone()))
        .collect();
    answers.sort_unstable();
    answers.into_iter().map(|(_, words)| words).collect()
}
