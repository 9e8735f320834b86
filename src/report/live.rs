//! How far a cell is while it is being sampled, in words. No clock: what is left is counted in
//! samples, and the spec says how many a second there are.

use std::fmt::Write as _;

use crate::evidence::Header;
use crate::measure::cost::Cost;
use crate::verdict::{Decision, Verdict};
use crate::words;

/// `2 of 3 decided; ttft.p95 < 1.5s: between 91.2% and 99.9% of 95%, 40 more; about 20 s left`.
pub fn words(header: &Header, standing: &[Verdict], spent: Option<Cost>) -> String {
    let mut gating = 0_usize;
    let mut open: Vec<&Verdict> = Vec::new();
    for (objective, verdict) in header.objectives.iter().zip(standing) {
        if objective.gates() {
            gating += 1;
            if matches!(verdict.decision, Decision::Inconclusive(_)) {
                open.push(verdict);
            }
        }
    }
    let mut parts = Vec::new();
    if gating > 0 && !standing.is_empty() {
        parts.push(format!("{} of {gating} decided", gating - open.len()));
    }
    // The one that is the farthest from its decision holds the cell open.
    let last = open.into_iter().max_by_key(|verdict| verdict.further_clean);
    if let Some(verdict) = last {
        let mut text = format!("{}:", verdict.objective);
        if verdict.n == 0 {
            text.push_str(" nothing yet");
        } else {
            let _ = write!(
                text,
                " between {} and {}",
                words::at_least(verdict.lower, verdict.required),
                words::at_most(verdict.upper, verdict.required)
            );
        }
        if let Some(more) = verdict.further_clean.filter(|more| *more > 0) {
            let _ = write!(text, ", {more} more");
            let left = more as f64 / header.sampling.rate_per_s.max(1e-6);
            parts.push(text);
            // Calls that are held open start when the relay lets them.
            if header.concurrency.is_none() {
                parts.push(format!("about {} left", whole_time(left)));
            }
        } else {
            parts.push(text);
        }
    }
    if let Some(spent) = spent {
        let mut text = format!("{:.4} USD", spent.usd);
        if spent.unknown > 0 {
            let _ = write!(
                text,
                " and what {} cost",
                words::counted(spent.unknown, "call")
            );
        }
        parts.push(text);
    }
    parts.join("; ")
}

/// Seconds below two minutes, then minutes, then hours: it is a guess.
fn whole_time(seconds: f64) -> String {
    if seconds < 120.0 {
        format!("{:.0} s", seconds.ceil())
    } else if seconds < 7200.0 {
        format!("{:.0} min", (seconds / 60.0).ceil())
    } else {
        format!("{:.0} h", (seconds / 3600.0).ceil())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::fixtures::*;
    use crate::verdict::Judge;

    #[test]
    fn a_cell_says_what_holds_it_open_and_for_how_long() {
        let head = header(vec![ttft_p95(), interruption()], 600);
        let mut judge = Judge::for_header(&head);
        for index in 0..20 {
            judge.take(&sample(index, good()));
        }
        let text = words(&head, &judge.standing(), None);
        assert!(text.starts_with("0 of 2 decided; "), "{text}");
        assert!(text.contains(": between "), "{text}");
        assert!(text.contains(" more; about "), "{text}");
        assert!(!text.contains("USD"), "{text}");
        for index in 20..200 {
            judge.take(&sample(index, good()));
        }
        let text = words(&head, &judge.standing(), None);
        assert_eq!(text, "2 of 2 decided");
    }

    #[test]
    fn money_is_added_up_and_what_is_not_known_is_not_nothing() {
        let head = header(vec![ttft_p95()], 600);
        let mut spent = Cost::default();
        spent.add(Some(0.25));
        assert_eq!(words(&head, &[], Some(spent)), "0.2500 USD");
        spent.add(None);
        assert_eq!(
            words(&head, &[], Some(spent)),
            "0.2500 USD and what 1 call cost"
        );
        spent.add(None);
        assert_eq!(
            words(&head, &[], Some(spent)),
            "0.2500 USD and what 2 calls cost"
        );
    }

    #[test]
    fn what_is_left_is_said_in_units_of_a_guess() {
        assert_eq!(whole_time(0.2), "1 s");
        assert_eq!(whole_time(121.0), "3 min");
        assert_eq!(whole_time(9000.0), "3 h");
    }
}
