//! The sign-off document of a soak: one value that holds everything it shows, and its forms.
//!
//! Made from evidence and its verdicts alone. No clock, no folder, no file name and no order of
//! files is in it, and numbers are kept to nine digits, so that whoever has the same evidence makes
//! the same bytes. Counts and ranks what was decided elsewhere; decides nothing.

mod blocks;
mod exceptions;
#[cfg(test)]
pub(crate) mod fixtures;
mod gathered;
mod markdown;
mod provenance;
mod rows;
#[cfg(test)]
mod tests;
mod untested;

use serde::{Deserialize, Serialize};

pub(super) use blocks::paired;
pub use blocks::{Block, Column, Inline, Mark, Part, Picture, parts};
pub use exceptions::{Exception, ExceptionKind};
pub use gathered::{
    CostLine, DayFailures, FailureGroup, Failures, Hour, Latency, Limit, Named, RequestIds,
    Requested,
};
pub use markdown::render as markdown;
pub use provenance::{Asked, Probe, Provenance};
pub use rows::{Covered, MissingStretch, RelayVerdict, Row};

use crate::evidence::Evidence;
use crate::evidence::merge::Source;
use crate::plan::window::{UTC, Window};
use crate::signals::{Signal, signals};
use crate::verdict::Overall;
use crate::verdict::campaign::Campaign;

/// Version of the document; members are added, never renamed, within one.
pub const SCHEMA: u32 = 1;

/// What the JSON form calls itself.
pub const KIND: &str = "sign-off";

/// Who signs.
const SIGNATORIES: [&str; 3] = [
    "Measured by",
    "For the buyer",
    "For the operator of the relay",
];

/// Everything that the document shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignOff {
    /// [`SCHEMA`].
    pub schema: u32,
    /// [`KIND`].
    pub kind: String,
    /// What made it.
    pub tool: Tool,
    /// Name of the spec.
    pub spec: String,
    /// When the soak began, RFC 3339 in UTC, as all times.
    pub from: String,
    /// When its last slot is due.
    pub to: String,
    /// Up to when it is looked at.
    pub as_of: String,
    /// Whether all of it is over; until then the document is provisional and nothing passes.
    pub is_final: bool,
    /// Length of one vote in seconds.
    pub bucket_s: f64,
    /// Days that a pass needs.
    pub min_days: u32,
    /// The clock that hours and days are told by.
    pub clock: Clock,
    /// What all relays together come to.
    pub overall: Overall,
    /// What each relay comes to.
    pub relays: Vec<RelayVerdict>,
    /// Who signs: a line each, for name, date and signature.
    pub signatories: Vec<String>,
    /// Every objective in every window and region.
    pub rows: Vec<Row>,
    /// Planned against taken samples.
    pub coverage: Vec<Covered>,
    /// What went wrong, by whom to look at.
    pub failures: Failures,
    /// The first token by hour, and the spread of what objectives bound.
    pub latency: Vec<Latency>,
    /// What was looked at to see whether the model is the one that was asked for.
    pub signals: Vec<Signal>,
    /// What it cost.
    pub cost: Vec<CostLine>,
    /// What was left out, and what was judged otherwise than usual.
    pub exceptions: Vec<Exception>,
    /// Where the evidence comes from.
    pub provenance: Provenance,
    /// Failed samples by the relay's own names for them.
    pub requests: Vec<RequestIds>,
    /// What a verdict does not speak of, a sentence each.
    pub not_tested: Vec<String>,
}

/// What made the document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// Its version.
    pub version: String,
    /// The commit that it was built from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// The clock on the wall that hours and days are told by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Its zone: that of the peak window; UTC without one.
    pub zone: String,
    /// The peak: the first daily window that an objective is about, or else the first of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Window>,
}

impl Clock {
    fn of(evidence: &[&Evidence]) -> Self {
        let headers = || evidence.iter().map(|one| &one.header);
        let is_about = |window: &&Window| {
            let mut objectives = headers().flat_map(|it| &it.objectives);
            objectives.any(|it| it.window.as_deref() == Some(&window.name))
        };
        let daily = || {
            let windows = headers().flat_map(|it| &it.windows);
            windows.filter(|it| it.daily.is_some())
        };
        let peak = daily().find(is_about).or_else(|| daily().next()).cloned();
        Self {
            zone: peak.as_ref().map_or(UTC, |it| &it.zone).to_owned(),
            peak,
        }
    }

    /// Whether an hour of this clock lies in the peak, wholly or in part.
    pub(super) fn is_peak(&self, hour: u8) -> bool {
        let daily = self.peak.as_ref().and_then(|it| it.daily);
        daily.is_some_and(|daily| daily.touches(hour))
    }
}

/// What the document is made from.
#[derive(Clone, Copy, Debug)]
pub struct Material<'a> {
    /// Merged evidence, one piece for each cell.
    pub evidence: &'a [Evidence],
    /// The files that it was merged from.
    pub sources: &'a [Source],
    /// Samples of which two files said different things.
    pub contradictions: u64,
    /// The same evidence, judged.
    pub campaign: &'a Campaign,
    /// Root of all evidence files, hex, where it is known.
    pub root: Option<&'a str>,
    /// What makes the document.
    pub tool: &'a Tool,
}

impl SignOff {
    /// The document of a soak.
    pub fn of(material: &Material<'_>) -> Self {
        let mut evidence: Vec<&Evidence> = material.evidence.iter().collect();
        // In the order of their names, whatever the order of the files.
        evidence.sort_by(|a, b| a.header.cell.cmp(&b.header.cell));
        let campaign = material.campaign;
        let clock = Clock::of(&evidence);
        let gathered = gathered::gather(&evidence, campaign, &clock);
        let utc = crate::plan::window::shown;
        let mut signals = signals(material.evidence);
        for number in signals.iter_mut().flat_map(|it| it.numbers.values_mut()) {
            *number = digits(*number);
        }
        Self {
            schema: SCHEMA,
            kind: KIND.to_owned(),
            tool: material.tool.clone(),
            spec: campaign.spec.clone(),
            from: utc(campaign.start_unix_ns),
            to: utc(campaign.end_unix_ns),
            as_of: utc(campaign.as_of_unix_ns),
            is_final: campaign.is_final,
            bucket_s: digits(campaign.bucket_s),
            min_days: campaign.min_days,
            overall: campaign.overall(),
            relays: rows::relays(campaign),
            signatories: SIGNATORIES.map(str::to_owned).to_vec(),
            rows: rows::rows(campaign),
            coverage: rows::coverage(campaign, &clock),
            exceptions: exceptions::exceptions(&evidence, material, &gathered),
            provenance: provenance::provenance(&evidence, material),
            not_tested: untested::untested(&evidence, campaign, &clock, &gathered),
            clock,
            failures: gathered.failures,
            latency: gathered.latency,
            signals,
            cost: gathered.cost,
            requests: gathered.requests,
        }
    }

    /// As JSON: the members in one order, a line feed at the end, and no character that could steer
    /// a terminal.
    ///
    /// # Errors
    /// Never; that a value of this kind can be written is not something types say.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self).map(|text| super::json::harmless(&text))
    }
}

/// A number to nine significant digits: what machines differ in lies behind them.
fn digits(number: f64) -> f64 {
    format!("{number:.8e}").parse().unwrap_or(number)
}
