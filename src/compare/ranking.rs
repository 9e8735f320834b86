//! Relays in the order of what is proven of them, and which neighbours are too close to call.

use super::question::Question;
use super::tallied::{Counts, Tallied};
use crate::stats::Tally;
use crate::stats::difference::{Difference, newcombe};
use crate::stats::interval::{self, Interval, Sides, wilson, wilson_min_n};

/// How sure neighbours must differ to be told apart; two-sided, over all neighbours together.
pub const APART: f64 = 0.95;
/// Beyond this z every difference is one.
const FARTHEST: f64 = 40.0;
/// Most clean samples that are worth naming.
const MOST_CLEAN: u64 = 1_000_000_000;

/// Which bound of the share is the score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Confidence of the bound, in parts per million.
    pub confidence_ppm: u32,
    /// Whether it is that of the bound alone or of the pair.
    pub sides: Sides,
}

impl Default for Score {
    fn default() -> Self {
        Self {
            confidence_ppm: 950_000,
            sides: Sides::Two,
        }
    }
}

impl Score {
    /// The z of the bound; 1.959964 unless something else is asked for.
    pub fn z(self) -> f64 {
        interval::z(f64::from(self.confidence_ppm) / 1e6, self.sides)
    }
}

/// One relay in a ranking.
#[derive(Clone, Debug)]
pub struct Ranked<'a> {
    /// Its evidence.
    pub tallied: &'a Tallied,
    /// Its answers to the question.
    pub counts: Counts,
    /// Its interval; the lower end is the score.
    pub interval: Interval,
    /// Place of the tie group, from 1: that of its first member.
    pub place: usize,
    /// How it could get above the one that is above it, where it looks no worse.
    pub outrank: Option<Outrank>,
}

impl Ranked<'_> {
    /// What the order goes by.
    pub const fn score(&self) -> f64 {
        self.interval.lower
    }
}

/// What a relay needs to get above another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outrank {
    /// Index of the other one.
    pub above: usize,
    /// Samples, with no failure but those that it has, with which its score would be the higher
    /// one; `None` beyond any number worth naming.
    pub samples: Option<u64>,
}

/// Two that stand one below the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbours {
    /// Share of the upper one less that of the lower one, at [`APART`].
    pub difference: Difference,
    /// The confidence at which Holm's procedure looked at this difference, over all neighbours.
    pub confidence: f64,
    /// No difference is shown at that confidence.
    pub tied: bool,
}

/// Relays by score.
#[derive(Clone, Debug)]
pub struct Ranking<'a> {
    /// What the score is.
    pub score: Score,
    /// Best first.
    pub ranked: Vec<Ranked<'a>>,
    /// Between each and the next.
    pub neighbours: Vec<Neighbours>,
    /// Those of which nothing was measured.
    pub unmeasured: Vec<&'a Tallied>,
}

/// Ranks by the answers to the question of index `question`.
pub fn rank<'a>(
    contestants: impl IntoIterator<Item = &'a Tallied>,
    question: &Question,
    score: Score,
) -> Ranking<'a> {
    let z = score.z();
    let (mut ranked, mut unmeasured) = (Vec::new(), Vec::new());
    for tallied in contestants {
        match tallied.counts_of(question) {
            Some(counts) if counts.tally.n() > 0 => ranked.push(Ranked {
                tallied,
                counts,
                interval: wilson(counts.tally, z),
                place: 0,
                outrank: None,
            }),
            Some(_) | None => unmeasured.push(tallied),
        }
    }
    // Ties by the number of samples, then by name, so that the order is that of no argument list.
    ranked.sort_by(|one, two| {
        let name = |it: &Ranked<'_>| {
            let header = &it.tallied.header;
            (header.cell.clone(), header.run_id.clone())
        };
        two.score()
            .total_cmp(&one.score())
            .then(two.counts.tally.n().cmp(&one.counts.tally.n()))
            .then_with(|| name(one).cmp(&name(two)))
    });
    let tallies: Vec<Tally> = ranked.iter().map(|it| it.counts.tally).collect();
    let neighbours = neighbours(&tallies);
    for at in 0..ranked.len() {
        let tied = at
            .checked_sub(1)
            .and_then(|above| Some((above, neighbours.get(above)?.tied)));
        let place = match tied {
            Some((above, true)) => ranked.get(above).map_or(at + 1, |it| it.place),
            Some((_, false)) | None => at + 1,
        };
        let outrank = tied.and_then(|(above, _)| outrank(&tallies, above, at, z));
        if let Some(it) = ranked.get_mut(at) {
            it.place = place;
            it.outrank = outrank;
        }
    }
    Ranking {
        score,
        ranked,
        neighbours,
        unmeasured,
    }
}

/// Says of each pair of neighbours whether they differ.
///
/// Newcombe's interval is a test at each confidence: the difference is shown where the interval
/// leaves 0 out. Holm's procedure takes the clearest of m differences at 1 − 0.05 / m, the next one
/// at 1 − 0.05 / (m − 1), and so on until the first that is not shown.
fn neighbours(tallies: &[Tally]) -> Vec<Neighbours> {
    let apart = interval::z(APART, Sides::Two);
    let pairs: Vec<(Tally, Tally)> = tallies
        .iter()
        .copied()
        .zip(tallies.iter().copied().skip(1))
        .collect();
    let mut order: Vec<(usize, f64)> = pairs
        .iter()
        .map(|(above, below)| reaches_zero(*above, *below))
        .enumerate()
        .collect();
    order.sort_by(|one, two| two.1.total_cmp(&one.1));
    let mut found: Vec<(usize, Neighbours)> = Vec::with_capacity(pairs.len());
    let mut left = order.len();
    let mut shown = true;
    for (at, reach) in order {
        let share = crate::stats::float(left as u64);
        let confidence = 1.0 - (1.0 - APART) / share;
        shown = shown && reach > interval::z(confidence, Sides::Two);
        left -= 1;
        let difference = pairs
            .get(at)
            .and_then(|(above, below)| newcombe(*above, *below, apart));
        if let Some(difference) = difference {
            found.push((
                at,
                Neighbours {
                    difference,
                    confidence,
                    tied: !shown,
                },
            ));
        }
    }
    found.sort_unstable_by_key(|(at, _)| *at);
    found
        .into_iter()
        .map(|(_, neighbours)| neighbours)
        .collect()
}

/// The z at which Newcombe's interval of the difference just reaches 0; 0 where there is none.
fn reaches_zero(above: Tally, below: Tally) -> f64 {
    let holds = |z: f64| newcombe(above, below, z).is_some_and(|it| it.lower > 0.0);
    let (mut low, mut high) = (0.0, FARTHEST);
    if holds(high) {
        return high;
    }
    // The interval grows with z, so halving finds the place.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// How the one at `at` could get above its upper neighbour, where its share looks no worse.
fn outrank(tallies: &[Tally], above: usize, at: usize, z: f64) -> Option<Outrank> {
    let (upper, own) = (tallies.get(above)?, tallies.get(at)?);
    if own.share()? < upper.share()? {
        return None;
    }
    let goal = wilson(*upper, z).lower;
    Some(Outrank {
        above,
        samples: clean_above(own.failures(), goal, z),
    })
}

/// Fewest samples with so many failures whose score is above `goal`.
fn clean_above(failures: u64, goal: f64, z: f64) -> Option<u64> {
    let above = |n: u64| {
        n > failures && Tally::new(n, failures).is_some_and(|it| wilson(it, z).lower > goal)
    };
    if failures == 0 {
        // The closed form, and one more where it gives exactly the goal.
        let least = wilson_min_n(goal, z).max(1);
        return (least..least.saturating_add(3)).find(|n| above(*n));
    }
    let (mut low, mut high) = (failures, MOST_CLEAN);
    if !above(high) {
        return None;
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if above(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;

    /// A relay with so many failures in so many samples.
    fn relay(name: &str, n: u64, failures: u64) -> Tallied {
        let mut header = header(Vec::new(), n);
        header.relay = name.to_owned();
        header.cell = format!("{name}/test-model/chat");
        let mut tallied = Tallied::new(header, String::new(), vec![Question::usable()]);
        tallied.counts[0].tally = Tally::new(n, failures).unwrap();
        tallied
    }

    fn ranking(relays: &[Tallied]) -> Ranking<'_> {
        rank(relays, &Question::usable(), Score::default())
    }

    fn order(ranking: &Ranking<'_>) -> Vec<(usize, String)> {
        let name = |it: &Ranked<'_>| (it.place, it.tallied.header.relay.clone());
        ranking.ranked.iter().map(name).collect()
    }

    fn named(order: &[(usize, &str)]) -> Vec<(usize, String)> {
        order
            .iter()
            .map(|(at, name)| (*at, (*name).to_owned()))
            .collect()
    }

    #[test]
    fn ten_of_ten_rank_below_9900_of_10000_and_it_is_said_what_would_change_that() {
        let relays = [relay("few", 10, 0), relay("many", 10_000, 100)];
        let ranking = ranking(&relays);
        // Neither is shown to be better.
        assert_eq!(order(&ranking), named(&[(1, "many"), (1, "few")]));
        let [many, few] = &ranking.ranked[..] else {
            panic!()
        };
        assert!((many.score() - 0.987_853).abs() < 5e-7);
        assert!((few.score() - 0.722_467).abs() < 5e-7);
        assert_eq!(
            few.outrank,
            Some(Outrank {
                above: 0,
                samples: Some(313)
            })
        );
        assert_eq!(many.outrank, None);
        assert!(ranking.neighbours[0].tied);
    }

    #[test]
    fn the_one_sided_score_needs_228_clean_samples() {
        let score = Score {
            sides: Sides::One,
            ..Score::default()
        };
        let relays = [relay("few", 10, 0), relay("many", 10_000, 100)];
        let ranking = rank(&relays, &Question::usable(), score);
        assert!((score.z() - 1.644_854).abs() < 5e-7);
        assert!((ranking.ranked[0].score() - 0.988_226).abs() < 5e-7);
        assert_eq!(ranking.ranked[1].outrank.unwrap().samples, Some(228));
    }

    #[test]
    fn one_clean_sample_less_would_not_outrank() {
        let z = Score::default().z();
        for (failures, goal) in [(0, 0.987_853), (1, 0.95), (7, 0.99)] {
            let n = clean_above(failures, goal, z).unwrap();
            let score = |n| wilson(Tally::new(n, failures).unwrap(), z).lower;
            assert!(score(n) > goal && score(n - 1) <= goal, "{failures} {n}");
        }
        assert_eq!(clean_above(1_000_000, 0.999_999, z), None);
    }

    #[test]
    fn neighbours_that_differ_are_apart_and_those_that_may_not_share_a_place() {
        let relays = [
            relay("bad", 1000, 200),
            relay("good", 1000, 5),
            relay("better", 1000, 2),
            relay("worse", 1000, 100),
        ];
        let ranking = ranking(&relays);
        assert_eq!(
            order(&ranking),
            named(&[(1, "better"), (1, "good"), (3, "worse"), (4, "bad")])
        );
        let tied: Vec<bool> = ranking.neighbours.iter().map(|it| it.tied).collect();
        assert_eq!(tied, [true, false, false]);
    }

    #[test]
    fn more_neighbours_ask_for_clearer_differences() {
        // Apart at 95 %, but not at 97.5 %.
        let pair = [(500, 3), (500, 11)];
        let alone: Vec<Tally> = pair
            .iter()
            .map(|(n, f)| Tally::new(*n, *f).unwrap())
            .collect();
        assert!(!neighbours(&alone)[0].tied);
        assert!((neighbours(&alone)[0].confidence - 0.95).abs() < 1e-12);
        let with_twin = [alone[0], alone[1], alone[1]];
        let found = neighbours(&with_twin);
        assert!((found[0].confidence - 0.975).abs() < 1e-12);
        assert!(found[0].tied && found[1].tied, "{found:?}");
        // A clear difference beside it takes the strict level and leaves 95 % for this one.
        let with_bad = [alone[0], alone[1], Tally::new(500, 250).unwrap()];
        let found = neighbours(&with_bad);
        assert!(!found[0].tied && !found[1].tied, "{found:?}");
    }

    #[test]
    fn two_are_apart_exactly_where_newcombes_interval_leaves_zero_out() {
        let z = interval::z(0.95, Sides::Two);
        for failures in 0..60 {
            let (one, two) = (
                Tally::new(300, 3).unwrap(),
                Tally::new(300, failures).unwrap(),
            );
            let difference = newcombe(one, two, z).unwrap();
            assert_eq!(
                neighbours(&[one, two])[0].tied,
                difference.lower <= 0.0,
                "{failures}"
            );
        }
    }

    #[test]
    fn equal_scores_go_by_samples_and_what_was_not_measured_has_no_place() {
        let relays = [relay("b", 0, 0), relay("z", 5, 5), relay("a", 9, 9)];
        let ranking = ranking(&relays);
        assert_eq!(order(&ranking), named(&[(1, "a"), (1, "z")]));
        assert_eq!(ranking.unmeasured.len(), 1);
    }

    #[test]
    fn the_order_is_that_of_no_argument_list() {
        let one = [relay("b", 9, 1), relay("a", 9, 1), relay("c", 9, 0)];
        let two = [relay("c", 9, 0), relay("a", 9, 1), relay("b", 9, 1)];
        assert_eq!(order(&ranking(&one)), order(&ranking(&two)));
    }
}
