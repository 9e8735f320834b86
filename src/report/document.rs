//! What every report is made from: judged cells, cells without a verdict, and what all come to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::evidence::{CloseReason, Evidence};
use crate::forms::named;
use crate::objective::Objective;
use crate::verdict::{Decision, Effect, Inconclusive, Overall, Summary, Verdict, effect, overall};

/// A judged cell.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The record, or the part of it that the verdicts name.
    pub evidence: &'a Evidence,
    /// Verdicts and counts.
    pub summary: &'a Summary,
    /// Where the record lies.
    pub path: &'a str,
}

/// A cell without a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmeasured {
    /// `relay/model/workload`.
    pub cell: String,
    /// Whether that is meant to be so: the spec says it, or a key is not set.
    pub ignored: bool,
    /// Why.
    pub reason: String,
}

/// All that a report says.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    /// The judged cells.
    pub cells: Vec<Cell<'a>>,
    /// The others.
    pub unmeasured: &'a [Unmeasured],
}

named! {
    /// What a verdict is in a report that knows more than pass and fail.
    Standing {
        /// Met.
        Passed = "passed",
        /// Not met, or open, where that is a warning only.
        Warned = "warning",
        /// Violated.
        Violated = "violated",
        /// Open, and the spec says that this fails.
        Open = "inconclusive",
        /// Not the relay's doing: the probe was not fit, or nothing was measured.
        Broken = "error",
    }
}

impl Standing {
    /// Whether the test of the objective fails.
    pub const fn fails(self) -> bool {
        match self {
            Self::Passed | Self::Warned => false,
            Self::Violated | Self::Open | Self::Broken => true,
        }
    }
}

impl<'a> Cell<'a> {
    /// The objectives with their verdicts and what those are here, in spec order.
    pub fn rows(self) -> impl Iterator<Item = (&'a Objective, &'a Verdict, Standing)> {
        let summary = self.summary;
        summary
            .objectives
            .iter()
            .zip(&summary.verdicts)
            .map(move |(objective, verdict)| {
                (objective, verdict, standing(summary, objective, verdict))
            })
    }

    /// The rows that fail their tests.
    pub fn failing(self) -> impl Iterator<Item = (&'a Objective, &'a Verdict, Standing)> {
        self.rows().filter(|(_, _, standing)| standing.fails())
    }
}

impl Document<'_> {
    /// What all cells come to: one that should have been measured and was not outweighs the rest.
    pub fn overall(&self) -> Overall {
        if self.unmeasured.iter().any(|one| !one.ignored) {
            Overall::Nothing
        } else {
            overall(self.cells.iter().map(|cell| cell.summary))
        }
    }
}

/// What all verdicts come to, as a heading.
pub(super) const fn heading(overall: Overall) -> &'static str {
    match overall {
        Overall::Pass => "pass",
        Overall::Violated => "violated",
        Overall::Inconclusive => "inconclusive",
        Overall::Nothing => "nothing measured",
    }
}

fn standing(summary: &Summary, objective: &Objective, verdict: &Verdict) -> Standing {
    let failed = summary
        .close
        .as_ref()
        .is_some_and(|close| close.reason == CloseReason::Failed);
    match (
        effect(verdict, objective, &summary.judging),
        verdict.decision,
    ) {
        (Effect::Ok, _) => Standing::Passed,
        (Effect::Warning, _) => Standing::Warned,
        (Effect::Failure, Decision::Violated | Decision::Pass) => Standing::Violated,
        (
            Effect::Failure,
            Decision::Inconclusive(Inconclusive::InvalidRun | Inconclusive::NoData),
        ) => Standing::Broken,
        (Effect::Failure, Decision::Inconclusive(_)) if failed => Standing::Broken,
        (Effect::Failure, Decision::Inconclusive(_)) => Standing::Open,
    }
}
