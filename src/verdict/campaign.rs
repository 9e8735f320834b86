//! A soak, judged: every objective in every window and region, one stretch of time one vote.
//!
//! The samples of a stretch may hang together as they like, so it votes once, however many of them
//! it holds. A pass is said at the end only and speaks of the days that were sampled; a violation may
//! be shown before. Made from evidence alone: which slots were planned follows from its headers.

mod beside;
mod count;
mod coverage;
mod decide;
#[cfg(test)]
pub(crate) mod fixtures;
mod regions;
mod rows;
mod soak;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use beside::{Beside, Finding};
pub use coverage::{Coverage, Gap};
pub use regions::AgainstRest;
pub use rows::judge_campaign;

use super::summary::Overall;
use super::{Decision, Effect, Verdict, effect};
use crate::forms::named;
use crate::objective::Objective;
use crate::plan::Judging;
use crate::plan::window::Day;

/// How long after its last slot a stretch of time may still get answers: with the usual time limits
/// four attempts and their waits, which are eleven minutes, fit in.
pub const CLOSING: Duration = Duration::from_secs(900);

/// One slot in so many may be missing from a pass.
const MISSING_ONE_IN: u64 = 10;

/// A soak, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Name of the spec.
    pub spec: String,
    /// SHA-256 of its text, hex.
    pub spec_sha256: String,
    /// Digest of the plan.
    pub plan_digest: String,
    /// When it began, nanoseconds since the epoch.
    pub start_unix_ns: u64,
    /// When its last slot is due.
    pub end_unix_ns: u64,
    /// What is looked at: slots after this moment are not due yet. When all is over, the moment at
    /// which it was, so that a later look at the same evidence says the same.
    pub as_of_unix_ns: u64,
    /// Whether all of it is over; until then nothing passes.
    pub is_final: bool,
    /// Length of one vote in seconds.
    pub bucket_s: f64,
    /// Days that a pass needs.
    pub min_days: u32,
    /// What relays are asked, regions put together.
    pub pools: Vec<Pool>,
}

/// Relay × model × workload, all regions together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// `relay/model/workload`.
    pub name: String,
    /// The relay.
    pub relay: String,
    /// The model.
    pub model: String,
    /// The workload.
    pub workload: String,
    /// How it is judged.
    pub judging: Judging,
    /// Every objective in every window and region.
    pub rows: Vec<Row>,
    /// Planned against taken samples, of its cells and of the trusted upstream beside them.
    pub coverage: Vec<Coverage>,
}

/// One objective in one window and region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What is promised.
    pub objective: Objective,
    /// The window; `None`: all samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<String>,
    /// The region; `None`: all of them together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// What its decision does.
    pub role: Role,
    /// What was decided. Counts are of samples, bounds are of votes.
    pub verdict: Verdict,
    /// Votes that were cast.
    pub votes: u64,
    /// Votes of the whole soak, had every slot been answered.
    pub planned_votes: u64,
    /// Samples and failures of each day, by the calendar of the window.
    pub days: Vec<DayCount>,
    /// The trusted upstream, asked the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
    /// This region against the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_rest: Option<AgainstRest>,
    /// The first failing samples.
    pub failing: Vec<Failing>,
}

named! {
    /// What the decision of a row does.
    Role {
        /// It decides about the relay.
        Gate = "gate",
        /// A violation decides; too few votes for a pass of its own.
        Guard = "guard",
        /// It is shown and decides nothing.
        Shown = "shown",
    }
}

/// Samples of one day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCount {
    /// The day.
    pub day: Day,
    /// Samples that counted.
    pub n: u64,
    /// Failures among them.
    pub failures: u64,
}

/// A failing sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failing {
    /// Its cell.
    pub cell: String,
    /// Its slot.
    pub index: u64,
    /// Its trace.
    pub trace_id: String,
}

/// Why evidence cannot be judged as a campaign.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// No file.
    #[error("no evidence of a soak")]
    Nothing,
    /// Evidence of a run among that of a soak.
    #[error("`{cell}` of {run} was not sampled as a soak: judge it on its own")]
    NotASoak {
        /// The cell.
        cell: String,
        /// Its run.
        run: String,
    },
    /// Evidence of two plans.
    #[error(
        "evidence of two plans: `{cell}` is of {found:.12}, the files before it of {wanted:.12}; \
         judge one spec at a time"
    )]
    TwoPlans {
        /// The cell.
        cell: String,
        /// Its plan.
        found: String,
        /// The plan of the others.
        wanted: String,
    },
    /// The same cell in two pieces of evidence.
    #[error("`{cell}` is there twice: merge its files first")]
    Twice {
        /// The cell.
        cell: String,
    },
    /// A time zone that this version does not know.
    #[error("the time zone `{zone}` is not known to this version")]
    Zone {
        /// Its name.
        zone: String,
    },
}

impl Campaign {
    /// What all pools come to.
    pub fn overall(&self) -> Overall {
        let pools = self.pools.iter().map(Pool::overall);
        pools.max().unwrap_or(Overall::Nothing)
    }

    /// What each relay comes to, in the order of the evidence.
    pub fn relays(&self) -> Vec<(&str, Overall)> {
        let mut relays: Vec<(&str, Overall)> = Vec::new();
        for pool in &self.pools {
            let overall = pool.overall();
            match relays.iter_mut().find(|(name, _)| *name == pool.relay) {
                Some((_, so_far)) => *so_far = overall.max(*so_far),
                None => relays.push((&pool.relay, overall)),
            }
        }
        relays
    }
}

impl Pool {
    /// What the rows that decide come to; without a sample, nothing was measured.
    pub fn overall(&self) -> Overall {
        // A calibration promises nothing.
        if self.rows.is_empty() {
            return Overall::Pass;
        }
        let upstream = |coverage: &&Coverage| coverage.beside.is_none();
        let own = self.coverage.iter().filter(upstream);
        if own.map(|it| it.taken).sum::<u64>() == 0 {
            return Overall::Nothing;
        }
        let rows = self.rows.iter().map(|row| row.comes_to(&self.judging));
        rows.max().unwrap_or(Overall::Pass)
    }
}

impl Row {
    /// What the row does to the relay.
    pub fn comes_to(&self, judging: &Judging) -> Overall {
        let violated = self.verdict.decision == Decision::Violated;
        let weighs = match self.role {
            Role::Gate => true,
            Role::Guard => violated,
            Role::Shown => false,
        };
        if !weighs || effect(&self.verdict, &self.objective, judging) != Effect::Failure {
            Overall::Pass
        } else if violated {
            Overall::Violated
        } else {
            Overall::Inconclusive
        }
    }

    /// The day with the largest share of failures; `None` without a sample.
    pub fn worst_day(&self) -> Option<DayCount> {
        let sampled = self.days.iter().filter(|day| day.n > 0);
        // Shares as products, so that equal ones are equal; of equal ones the first day.
        let worse = |a: &&DayCount, b: &&DayCount| {
            let (of_a, of_b) = (
                u128::from(a.failures) * u128::from(b.n),
                u128::from(b.failures) * u128::from(a.n),
            );
            of_a.cmp(&of_b).then(b.day.cmp(&a.day))
        };
        sampled.max_by(worse).copied()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.objective.text)?;
        if let Some(window) = self
            .window
            .as_ref()
            .filter(|_| self.objective.window.is_none())
        {
            write!(f, " @{window}")?;
        }
        match &self.region {
            Some(region) => write!(f, " in {region}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
