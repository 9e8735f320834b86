//! Verdicts on counts that somebody else made: of a store of spans too large for files.
//!
//! The same rules as for evidence: one account for all samples, or one vote for each stretch of
//! time where the counts are by stretches. What counts do not hold (values, gaps, who failed) is not
//! in these verdicts either.

use std::collections::BTreeMap;

use serde::de::{self, Unexpected};
use serde::{Deserialize, Deserializer};

use super::bursts::Buckets;
use super::rule::GAMMA;
use super::{Decision, Inconclusive, Verdict};
use crate::objective::Objective;
use crate::objective::grammar::ObjectiveError;
use crate::plan::budget::fails_cell;
use crate::stats::Tally;
use crate::stats::sequential::{Design, FAIL_RATIO, PASS_RATIO, Standing};
use crate::stats::votes::{Ballot, Vote};

/// One row of counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// The cell.
    pub cell: String,
    /// The objective, as specs write it.
    pub objective: String,
    /// The stretch of time, whatever it is called; without it the row is of single samples.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Samples that count for the objective.
    #[serde(deserialize_with = "whole")]
    pub n: u64,
    /// Failures among them.
    #[serde(deserialize_with = "whole")]
    pub failures: u64,
}

/// A whole number, or one in quotes, as some databases write it.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u64),
        Text(String),
    }
    match Written::deserialize(from)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => text
            .parse()
            .map_err(|_| de::Error::invalid_value(Unexpected::Str(&text), &"a whole number")),
    }
}

/// Why counts cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum CountsError {
    /// A text that is no objective.
    #[error("`{text}` of `{cell}` is no objective")]
    Objective {
        /// The cell.
        cell: String,
        /// What was written.
        text: String,
        /// Why.
        #[source]
        source: Box<ObjectiveError>,
    },
    /// An objective that is not about a share.
    #[error("`{text}` of `{cell}` is no share: counts say nothing about it")]
    NoShare {
        /// The cell.
        cell: String,
        /// What was written.
        text: String,
    },
    /// More failures than samples.
    #[error("`{text}` of `{cell}` has more failures than samples")]
    Impossible {
        /// The cell.
        cell: String,
        /// What was written.
        text: String,
    },
}

/// The verdicts on counts, by cell and objective, at the usual 95%; `is_final` says that no more
/// will come.
///
/// The chance of a false violation is split among the objectives of a cell, as for evidence. An
/// objective may name a window behind ` @`, which only names it.
///
/// # Errors
/// Where a row cannot be of an objective.
pub fn judge_counts(
    rows: &[Counted],
    is_final: bool,
) -> Result<Vec<(String, Verdict)>, CountsError> {
    let mut cells: BTreeMap<&str, BTreeMap<&str, Vec<&Counted>>> = BTreeMap::new();
    for row in rows {
        let objectives = cells.entry(&row.cell).or_default();
        objectives.entry(&row.objective).or_default().push(row);
    }
    let mut verdicts = Vec::new();
    for (cell, objectives) in cells {
        let mut read = Vec::new();
        for (text, rows) in objectives {
            let bare = text.split(" @").next().unwrap_or(text);
            let objective = Objective::parse(bare).map_err(|source| CountsError::Objective {
                cell: cell.to_owned(),
                text: text.to_owned(),
                source: Box::new(source),
            })?;
            read.push((text, objective, rows));
        }
        let accounts = read.iter().filter(|(_, it, _)| fails_cell(it)).count();
        let gamma = GAMMA / f64::from(u32::try_from(accounts.max(1)).unwrap_or(u32::MAX));
        for (text, objective, rows) in read {
            let verdict = one(cell, text, &objective, &rows, gamma, is_final)?;
            verdicts.push((cell.to_owned(), verdict));
        }
    }
    Ok(verdicts)
}

/// 1 less the confidence.
const ALPHA: f64 = 0.05;

fn one(
    cell: &str,
    text: &str,
    objective: &Objective,
    rows: &[&Counted],
    gamma: f64,
    is_final: bool,
) -> Result<Verdict, CountsError> {
    let named = || (cell.to_owned(), text.to_owned());
    let no_share = || {
        let (cell, text) = named();
        CountsError::NoShare { cell, text }
    };
    let required = f64::from(objective.required_ppm().ok_or_else(no_share)?) / 1e6;
    let design =
        Design::with_ratios(required, ALPHA, gamma, PASS_RATIO, FAIL_RATIO).ok_or_else(no_share)?;
    let mut stretches: BTreeMap<&str, Tally> = BTreeMap::new();
    let mut single = Tally::default();
    for row in rows {
        let tally = Tally::new(row.n, row.failures).ok_or_else(|| {
            let (cell, text) = named();
            CountsError::Impossible { cell, text }
        })?;
        let sum = match &row.bucket {
            Some(bucket) => stretches.entry(bucket).or_default(),
            None => &mut single,
        };
        *sum = sum.with_good(tally.good()).with_bad(tally.failures());
    }
    let by_votes = !stretches.is_empty();
    let all = stretches.values().fold(single, |sum, one| {
        sum.with_good(one.good()).with_bad(one.failures())
    });
    let (standing, bounds) = if by_votes {
        let mut ballot = Ballot::new(design);
        let mut failed = false;
        let votes = stretches.values().chain([&single]);
        for vote in votes.filter_map(|it| Vote::new(it.n(), it.failures())) {
            ballot.cast(vote);
            failed |= ballot.standing(None) == Standing::Fail;
        }
        let standing = if failed {
            Standing::Fail
        } else {
            ballot.standing(None)
        };
        (standing, ballot.bounds())
    } else {
        let passes = design
            .pass_at(all.failures())
            .is_some_and(|at| all.n() >= at);
        let standing = if passes {
            Standing::Pass
        } else if all.n() <= design.fail_until(all.failures()) {
            Standing::Fail
        } else {
            Standing::Open
        };
        (standing, design.bounds(all))
    };
    let decision = match standing {
        _ if all.n() == 0 => Decision::Inconclusive(Inconclusive::NoData),
        Standing::Fail => Decision::Violated,
        Standing::Pass if is_final || !by_votes => Decision::Pass,
        Standing::Pass | Standing::Open | Standing::CannotPass if !is_final => {
            Decision::Inconclusive(Inconclusive::StoppedEarly)
        }
        Standing::Pass | Standing::Open | Standing::CannotPass => {
            Decision::Inconclusive(Inconclusive::Budget)
        }
    };
    let of = if by_votes { " by votes" } else { "" };
    Ok(Verdict {
        objective: text.to_owned(),
        decision,
        n: all.n(),
        failures: all.failures(),
        undefined: 0,
        ineligible: 0,
        missing: 0,
        required,
        lower: if decision == Decision::Pass {
            bounds.lower.max(required)
        } else {
            bounds.lower
        },
        upper: if decision == Decision::Violated {
            bounds.upper.min(required)
        } else {
            bounds.upper
        },
        rule: format!("sequential{of}, 95% (alpha {ALPHA}, gamma {gamma:.4}) on counts"),
        observed: all.share(),
        censored: false,
        further_clean: None,
        failing: Vec::new(),
        seals: None,
        bursty: Buckets::of(1_000_000_000, stretches.into_values().collect()).diagnose(),
        note: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(objective: &str, bucket: Option<u64>, n: u64, failures: u64) -> Counted {
        Counted {
            cell: "alpha/m/chat".to_owned(),
            objective: objective.to_owned(),
            bucket: bucket.map(|number| number.to_string()),
            n,
            failures,
        }
    }

    fn decided(rows: &[Counted], is_final: bool) -> Decision {
        judge_counts(rows, is_final).unwrap()[0].1.decision
    }

    #[test]
    fn counts_of_samples_are_judged_as_samples_are() {
        let of = |n, failures| decided(&[row("ttft.p95 < 1.5s", None, n, failures)], true);
        assert_eq!(of(73, 0), Decision::Inconclusive(Inconclusive::Budget));
        assert_eq!(of(74, 0), Decision::Pass);
        assert_eq!(of(74, 1), Decision::Inconclusive(Inconclusive::Budget));
        assert_eq!(of(113, 1), Decision::Pass);
        assert_eq!(of(20, 9), Decision::Violated);
        assert_eq!(of(0, 0), Decision::Inconclusive(Inconclusive::NoData));
    }

    #[test]
    fn counts_of_stretches_are_votes() {
        let clean: Vec<Counted> = (0..74)
            .map(|at| row("ttft.p95 < 1.5s", Some(at), 40, 0))
            .collect();
        assert_eq!(decided(&clean, true), Decision::Pass);
        assert_eq!(
            decided(&clean, false),
            Decision::Inconclusive(Inconclusive::StoppedEarly),
            "votes pass at the end only"
        );
        assert_eq!(
            decided(&clean[..73], true),
            Decision::Inconclusive(Inconclusive::Budget),
            "many samples of few stretches are few votes"
        );
    }

    #[test]
    fn the_parts_of_a_stretch_are_one_vote() {
        let halves: Vec<Counted> = (0..148)
            .map(|at| row("ttft.p95 < 1.5s", Some(at / 2), 20, 0))
            .collect();
        let verdict = &judge_counts(&halves, true).unwrap()[0].1;
        assert_eq!((verdict.decision, verdict.n), (Decision::Pass, 2960));
    }

    #[test]
    fn numbers_in_quotes_are_numbers() {
        let text = r#"{"cell":"a","objective":"ttft.p95 < 1s","bucket":"x","n":"5","failures":1}"#;
        let row: Counted = serde_json::from_str(text).unwrap();
        assert_eq!((row.n, row.failures), (5, 1));
        for bad in ["-1", "\"x\"", "1.5"] {
            let text = format!(r#"{{"cell":"a","objective":"o","n":{bad},"failures":0}}"#);
            assert!(serde_json::from_str::<Counted>(&text).is_err(), "{bad}");
        }
    }

    #[test]
    fn rows_that_make_no_sense_are_refused() {
        let refused = |objective: &str, n, failures| {
            judge_counts(&[row(objective, None, n, failures)], true)
                .unwrap_err()
                .to_string()
        };
        assert!(refused("quick", 1, 0).contains("is no objective"));
        assert!(refused("ttft.mean < 1s", 1, 0).contains("is no share"));
        assert!(refused("ttft.p95 < 1s", 1, 2).contains("more failures"));
    }
}
