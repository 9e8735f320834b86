//! The record: one append-only file of JSON lines per cell, the only thing that verdicts, reports
//! and traces are made from.
//!
//! Line 1 is a [`Header`]; each further line is a [`Line`]. A line is written with one `write`
//! before its sample counts. No presentation here, and nothing secret: prompts, answers, keys and
//! header values are not part of any type in this module.
//!
//! Each line ends with a value that follows from the line and the value before it ([`chain`]), so
//! that what was changed afterwards can be found ([`check()`]).

pub mod chain;
pub mod check;
mod error;
mod file;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod ids;
pub mod merge;
mod segments;

pub use chain::{ChainValue, root};
pub use check::{check, check_all};
pub use error::EvidenceError;
pub use file::{Evidence, MAX_LINE, Reader, Writer, last_header, read};
pub use segments::{Parked, SEGMENT_BYTES, Segments, read_segments, segment_files, segment_path};

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::forms::{micros, named, opt_micros};
use crate::objective::Objective;
use crate::observation::{Loss, Observation};
use crate::plan::window::Window;
use crate::plan::{Judging, OtelSettings, Price, Propagation, Region, Sampling};

/// Version of the file format.
pub const SCHEMA: u32 = 1;

/// First line of an evidence file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Format version.
    pub schema: u32,
    /// Version of relayproof that wrote it.
    pub tool_version: String,
    /// The run: the run folder's name.
    pub run_id: String,
    /// When the cell's sampling began, nanoseconds since the epoch.
    pub started_unix_ns: u64,
    /// Host name of the probe.
    pub host: String,
    /// Spec: name, path as given, SHA-256 of its text.
    pub spec_name: String,
    /// Path as given.
    pub spec_source: String,
    /// SHA-256 of the spec's text.
    pub spec_sha256: String,
    /// Digest of the resolved plan.
    pub plan_digest: String,
    /// Digest of the plan without its budget; empty in files of versions that had none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub core_digest: String,
    /// The cell's id.
    pub cell_id: String,
    /// `relay/model/workload`.
    pub cell: String,
    /// Relay name.
    pub relay: String,
    /// Model asked for.
    pub model: String,
    /// Workload name.
    pub workload: String,
    /// Scheme, host, port and path of the base URL, user info and query removed.
    pub base_url: String,
    /// Wire protocol.
    pub protocol: crate::dialect::Protocol,
    /// Transport that sent the requests.
    pub transport: crate::plan::TransportKind,
    /// Whether streams were asked for.
    #[serde(default = "streamed")]
    pub stream: bool,
    /// Output budget asked for.
    pub max_tokens: Option<u64>,
    /// Length and SHA-256 of each message template, in place of its text.
    pub prompt: Vec<Fingerprint>,
    /// How samples were drawn.
    pub sampling: Sampling,
    /// How they are judged.
    pub judge: Judging,
    /// Telemetry settings.
    pub otel: OtelSettings,
    /// What is promised.
    pub objectives: Vec<Objective>,
    /// What the relay charges for the model, where the spec says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Cells of the spec, this one included; unknown in files of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_cells: Option<u64>,
    /// What the relay is told of our traces.
    #[serde(default, skip_serializing_if = "Propagation::is_none")]
    pub propagation: Propagation,
    /// Share of normal stops that may lack their seal, in parts per million, where one is asked
    /// for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seal_allowance_ppm: Option<u32>,
    /// Runs of the same plan and cell right before this one that did not pass, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_runs: Vec<EarlierRun>,
    /// From where the cell is sampled; `None` where the spec has no regions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Every region of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<Region>,
    /// Parts of the day that objectives refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Name of the cell whose pairs this one is the other half of, where it is the trusted
    /// upstream's; nothing is promised for it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// Share of the slots that the trusted upstream is asked too, in parts per million.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pair_ppm: u32,
    /// Whether it asks the one prompt of a calibration; nothing is promised for it then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calibration: bool,
    /// Where this file goes on with another one; absent in the first file of a cell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<Segment>,
    /// Calls that were held open at all times; `None` where calls started at the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
const fn is_zero(ppm: &u32) -> bool {
    *ppm == 0
}

impl Header {
    /// `relay/model/workload`: cells of several regions that share it ask the same of the same.
    pub fn pooled_name(&self) -> String {
        format!("{}/{}/{}", self.relay, self.model, self.workload)
    }
}

/// That a file is not the first of its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Which one it is, from 2.
    pub number: u32,
    /// The chain value at the end of the file before.
    pub previous: ChainValue,
}

/// A run that did not pass and was not continued but followed by a fresh one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierRun {
    /// Its name.
    pub run_id: String,
    /// What it came to.
    pub came_to: CameTo,
}

named! {
    /// What a run came to that did not pass.
    CameTo {
        /// An objective was violated.
        Violated = "violated",
        /// Something was left open.
        Inconclusive = "inconclusive",
    }
}

/// Evidence without the member is of runs that asked for streams.
const fn streamed() -> bool {
    true
}

/// Length and hash of a text that is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Role of the message.
    pub role: String,
    /// Characters.
    pub chars: u64,
    /// SHA-256, hex.
    pub sha256: String,
}

/// Any line after the header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// One call.
    Sample(Box<Sample>),
    /// Sampling of the cell ended, for now.
    Close(Close),
    /// Sampling of the cell goes on, under a budget that may be larger.
    Continued(Continued),
    /// A process that collects a soak writes to this file from here on.
    Session(Session),
    /// A planned call that was not made, or whose answer was lost, and why.
    Skipped(Skipped),
}

/// A process that collects a soak: which machine, and how its clock stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// When it began, nanoseconds since the epoch.
    pub at_unix_ns: u64,
    /// Name of the machine.
    pub host: String,
    /// Number of the process on it.
    pub pid: u32,
    /// Version of relayproof.
    pub tool_version: String,
    /// Which boot of the machine; another one says that it was started anew in between. Absent
    /// where the system has no such name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The wall clock, as far as the system tells.
    #[serde(default)]
    pub clock: SessionClock,
}

/// How the wall clock of a machine stood when a session began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionClock {
    /// When the machine was booted, by this clock: sessions of one boot that differ in it have the
    /// clock set in between. Absent where the system does not tell how long it is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted_unix_ns: Option<u64>,
    /// Whether the system says that it follows a time server; absent where it says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronised: Option<bool>,
}

/// A slot of a soak without a sample, as far as whoever collected it knows why.
///
/// A slot for which there is neither this nor a sample came due while nobody collected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Id that the sample would have.
    pub id: String,
    /// Index of the slot.
    pub index: u64,
    /// Planned start, from the start of the cell's sampling.
    #[serde(rename = "planned_us", with = "micros")]
    pub planned: Duration,
    /// Why.
    pub why: SkipReason,
}

named! {
    /// Why a slot of a soak has no sample.
    SkipReason {
        /// Its worst case did not fit into what was left of the cost limit.
        Cost = "cost",
        /// The machine slept, its clock was set, or it was too busy: the moment was over.
        Late = "late",
        /// As many calls to the cell were open as `sampling.concurrency` allows.
        Concurrency = "concurrency",
        /// Asked, and called off when the collector had to end.
        Abandoned = "abandoned",
        /// Asked, and the answer lost: the collector died, or broke off the call.
        Lost = "lost",
    }
}

impl SkipReason {
    /// Whether the call was sent, as far as anybody knows, and so may have cost what it can cost.
    pub const fn was_sent(self) -> bool {
        matches!(self, Self::Abandoned | Self::Lost)
    }
}

/// That a run goes on after its end, and with which budget.
///
/// The rule of an objective holds whenever one stops, and so also for who goes on; what is asked and
/// how it is judged must stay as it was, and only the budget may grow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Continued {
    /// Who went on: a name that no other going-on has.
    pub session: String,
    /// When, nanoseconds since the epoch.
    pub at_unix_ns: u64,
    /// Digest of the plan that it goes on with.
    pub plan_digest: String,
    /// SHA-256 of the text of that spec.
    pub spec_sha256: String,
    /// Most counted samples from here on, those on file included.
    pub max_samples: u64,
    /// Most tokens of the spec from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Longest time of the cell from here on.
    #[serde(
        rename = "max_duration_us",
        with = "opt_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub max_duration: Option<Duration>,
    /// Most US dollars of the spec from here on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
}

impl Header {
    /// The chain value that the header's line follows.
    pub fn chain_start(&self) -> ChainValue {
        self.segment
            .map_or(ChainValue::START, |segment| segment.previous)
    }

    /// Takes over the budget of a run that goes on.
    fn go_on_with(&mut self, continued: &Continued) {
        self.plan_digest.clone_from(&continued.plan_digest);
        self.spec_sha256.clone_from(&continued.spec_sha256);
        self.sampling.max_samples = continued.max_samples;
        self.sampling.max_tokens = continued.max_tokens;
        self.sampling.max_duration = continued.max_duration;
        self.sampling.max_cost_usd = continued.max_cost_usd;
    }
}

/// One call to the relay, made of 1 to 4 attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Stable id, hex.
    pub id: String,
    /// Index of the slot.
    pub index: u64,
    /// Sent and traced, never counted.
    #[serde(default)]
    pub warmup: bool,
    /// Trace id, 32 hex digits.
    pub trace_id: String,
    /// Wall clock at t0, nanoseconds since the epoch; every other time is an offset from it.
    pub t0_unix_ns: u64,
    /// Planned start, from the start of the cell's sampling.
    #[serde(rename = "planned_us", with = "micros")]
    pub planned: Duration,
    /// t0 minus the planned start; never charged to the relay.
    #[serde(rename = "lag_us", with = "micros")]
    pub lag: Duration,
    /// The attempts, in order.
    pub attempts: Vec<Attempt>,
}

/// One HTTP request and its stream, inside a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// Start, as an offset from t0 (zero for the first attempt).
    #[serde(rename = "start_us", with = "micros")]
    pub start: Duration,
    /// The wait before this attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// What was seen.
    pub observation: Observation,
}

/// A wait between two attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// How long it was.
    #[serde(rename = "length_us", with = "micros")]
    pub length: Duration,
    /// What the relay had asked for.
    #[serde(
        rename = "retry_after_us",
        with = "opt_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub retry_after: Option<Duration>,
}

/// Why sampling of a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Every gating objective is decided (or the first was violated, where the spec stops there).
    Decided,
    /// The planned number of samples is used up.
    Budget,
    /// `max_duration` or the cell's part of `max_cost` was reached.
    Limit,
    /// The time that a collector was given is over; the soak goes on.
    Paused,
    /// Ctrl-C.
    Interrupted,
    /// Our own failure.
    Failed,
}

/// Last line of a finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Close {
    /// Why.
    pub reason: CloseReason,
    /// When, nanoseconds since the epoch.
    pub at_unix_ns: u64,
    /// Calls that were under way and called off: sent, not recorded as samples.
    pub abandoned: u64,
    /// What the probe knows of its own health.
    pub self_check: SelfCheck,
    /// Our own failure, in words without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// How well the probe itself ran; when this could move a verdict the run is invalid, not the relay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Starts later than 100 ms after their plan.
    pub late_starts: u64,
    /// Longest lag of a start.
    #[serde(rename = "max_lag_us", with = "micros")]
    pub max_lag: Duration,
    /// Event-loop lag, 99th percentile of its probes.
    #[serde(rename = "loop_lag_p99_us", with = "micros")]
    pub loop_lag_p99: Duration,
    /// Longest event-loop lag.
    #[serde(rename = "loop_lag_max_us", with = "micros")]
    pub loop_lag_max: Duration,
    /// Event-loop probes.
    pub loop_probes: u64,
    /// Wall clock against monotonic clock over the run; a step of the wall clock shows here.
    #[serde(rename = "clock_step_us", with = "micros")]
    pub clock_step: Duration,
    /// Calls that failed for want of files, ports, memory or a network on our side.
    #[serde(default)]
    pub own_failures: u64,
    /// Why the run is invalid, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// A start later than this after its plan is late.
pub const LATE: Duration = Duration::from_millis(100);

/// Loop lag at the 99th percentile beyond which measured times may be ours.
pub const SATURATED: Duration = Duration::from_millis(25);

/// Late starts that one pause of the machine explains.
const ONE_PAUSE: u64 = 5;

/// Whether so many late starts make a run invalid: more than one in a hundred, and more than one
/// pause of the machine explains. A run of 74 starts would otherwise hang on a single one.
pub const fn too_many_late(late: u64, starts: u64) -> bool {
    late > ONE_PAUSE && late.saturating_mul(100) > starts
}

/// Whether so many calls that failed for our own want make a run invalid: more than one in a
/// hundred. Each is a missing slot besides, which helps no verdict.
pub const fn too_many_own(failed: u64, calls: u64) -> bool {
    failed.saturating_mul(100) > calls
}

/// Why such a run is invalid, in words.
pub fn own_failures(failed: u64, calls: u64) -> String {
    format!(
        "{failed} of {calls} calls failed for want of files, ports, memory or a network on our side"
    )
}

impl Sample {
    /// Whether the call failed because this machine had no file, port, memory or network for it.
    pub fn failed_for_our_want(&self) -> bool {
        let mut attempts = self.attempts.iter();
        attempts.any(|attempt| attempt.observation.lost == Some(Loss::Local))
    }
}

impl SelfCheck {
    /// The lag that may be in any measured time; `None` where the loop was quick enough.
    ///
    /// A saturated loop does not spoil what is no matter of time: whether an answer was whole.
    pub fn doubt(&self) -> Option<Duration> {
        (self.loop_lag_p99 > SATURATED).then_some(self.loop_lag_max)
    }
}
