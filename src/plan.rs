//! What will be done: every default resolved, every seed fixed, before anything is sent.
//!
//! Pure: touches no environment, clock or network. Names of keys and files are kept; their
//! contents are read by whoever runs the plan.

pub mod budget;
mod price;
pub mod prospects;
mod schedule;
mod step;
pub mod trace_url;
pub mod votes;
pub mod window;

use std::collections::BTreeMap;
use std::time::Duration;

pub use price::Price;
pub(crate) use schedule::short_hash;
pub use schedule::{is_paired, starts};
pub use step::Step;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::dialect::{self, Message, Protocol};
use crate::expect::Expect;
use crate::forms::named;
use crate::objective::Objective;
use crate::stream::Timeouts;
use std::fmt;

/// One spec file, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the spec.
    pub name: String,
    /// Path as the user gave it.
    pub source: String,
    /// SHA-256 of the spec's text, hex.
    pub spec_sha256: String,
    /// SHA-256 of the canonical resolved plan without secrets and comments, hex.
    pub digest: String,
    /// [`Plan::digest`] without what a run may use up: samples, tokens, time. Plans that agree in it
    /// ask the same and judge it alike, and one may go on with the samples of the other.
    pub core_digest: String,
    /// How samples are drawn.
    pub sampling: Sampling,
    /// How they are judged.
    pub judge: Judging,
    /// What telemetry may carry and where its links point.
    pub otel: OtelSettings,
    /// Parts of the day that objectives refer to.
    pub windows: Vec<window::Window>,
    /// Where probes stand; empty where it makes no difference.
    pub regions: Vec<Region>,
    /// Share of the slots that the trusted upstream is asked too, in parts per million; 0 without
    /// one.
    pub pair_ppm: u32,
    /// The cells, in spec order.
    pub cells: Vec<Cell>,
    /// The trusted upstream beside each cell that has one: asked in pairs, not judged.
    pub baselines: Vec<Cell>,
}

impl Plan {
    /// What calls from a region may cost together, in US dollars: its share of `limits.max_cost`,
    /// for relays and the trusted upstream. `None` where the spec has no such limit.
    pub fn cost_cap(&self, region: Option<&str>) -> Option<f64> {
        let cap = self.sampling.max_cost_usd?;
        let share = region.and_then(|name| self.regions.iter().find(|it| it.name == name));
        Some(share.map_or(cap, |it| cap * f64::from(it.share_ppm) / 1e6))
    }

    /// Most calls to a cell: its own samples and warm-ups, or the pairs of the trusted upstream.
    pub fn calls_of(&self, cell: &Cell) -> u64 {
        if cell.beside.is_some() {
            return self.soak_starts(cell).count() as u64;
        }
        let own = cell.sampling(&self.sampling);
        own.max_samples.saturating_add(own.warmup.into())
    }

    /// What the calls of one cell of a burst may cost, in US dollars: an even part of what its
    /// region has, so that processes that sample one cell each need not ask each other.
    pub fn cost_cap_of(&self, cell: &Cell) -> Option<f64> {
        let region = cell.region.as_ref().map(|it| it.name.as_str());
        let there = self
            .cells
            .iter()
            .filter(|it| it.region.as_ref().map(|it| it.name.as_str()) == region);
        let cells = u32::try_from(there.count()).unwrap_or(u32::MAX);
        Some(self.cost_cap(region)? / f64::from(cells.max(1)))
    }
}

/// Where a probe stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Name, as the probe says it.
    pub name: String,
    /// Its share of samples and money, in parts per million.
    pub share_ppm: u32,
}

named! {
    /// When samples are drawn.
    #[derive(Default)]
    Timing {
        /// Now, one after the other at the rate.
        #[default]
        Burst = "burst",
        /// Spread over a duration.
        Soak = "soak",
    }
}

impl Timing {
    /// Whether they are drawn now.
    pub fn is_burst(&self) -> bool {
        *self == Self::Burst
    }
}

/// How samples are drawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Seed of everything random.
    pub seed: u64,
    /// Starts per second, open loop.
    pub rate_per_s: f64,
    /// Most counted samples of a cell.
    pub max_samples: u64,
    /// Most open calls at once; a start delayed by it is recorded as lag.
    pub concurrency: u32,
    /// Calls sent before counting begins.
    pub warmup: u32,
    /// Most tokens of the whole spec, prompt and answer.
    pub max_tokens: Option<u64>,
    /// Longest wall-clock time of a cell.
    #[serde(rename = "max_duration_us", with = "crate::forms::opt_micros")]
    pub max_duration: Option<Duration>,
    /// Most US dollars of the whole spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    /// Now, or spread over a duration.
    #[serde(default, skip_serializing_if = "Timing::is_burst")]
    pub mode: Timing,
    /// Over how long a soak is spread.
    #[serde(
        rename = "duration_us",
        with = "crate::forms::opt_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    /// When a soak begins, nanoseconds since the epoch; `None`: when it is first collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_unix_ns: Option<u64>,
}

named! {
    /// Which rule decides.
    Method {
        /// Looks after every sample, stops early.
        Sequential = "sequential",
        /// Wilson bounds at a fixed n, one look.
        Wilson = "wilson",
        /// Exact binomial bounds (Clopper and Pearson) at a fixed n, one look.
        Exact = "exact",
    }
}

named! {
    /// What a pass claims.
    Mode {
        /// Shown to meet the objective.
        Prove = "prove",
        /// Not shown to violate it.
        Guard = "guard",
    }
}

named! {
    /// What an inconclusive verdict does to the test.
    OnInconclusive {
        /// The test fails.
        Fail = "fail",
        /// The test passes with a printed warning.
        Warn = "warn",
    }
}

named! {
    /// About what a verdict speaks.
    #[derive(Default)]
    Scope {
        /// The moments that were sampled.
        #[default]
        Run = "run",
        /// The days that were sampled: one stretch of time, one vote.
        Campaign = "campaign",
    }
}

impl Scope {
    /// Whether a verdict speaks about the sampled moments only.
    pub fn is_run(&self) -> bool {
        *self == Self::Run
    }
}

/// How long one vote of a campaign lasts, where the spec does not say.
pub const USUAL_BUCKET: Duration = Duration::from_secs(600);

/// Days that a campaign has to see, where the spec does not say.
pub const USUAL_MIN_DAYS: u32 = 3;

named! {
    /// When a cell stops.
    Stop {
        /// When every gating objective is decided.
        All = "all",
        /// At the first violation.
        First = "first",
    }
}

/// How samples are judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judging {
    /// The rule.
    pub method: Method,
    /// 1 − α of each objective, unless it says otherwise, in parts per million.
    pub confidence_ppm: u32,
    /// What a pass claims.
    pub mode: Mode,
    /// What inconclusive does.
    pub on_inconclusive: OnInconclusive,
    /// When a cell stops.
    pub stop: Stop,
    /// Odds ratio of the relay that the pass account bets on (2 to 20); infinite for
    /// `zero_failure`, with which the first failure ends the hope of a pass.
    #[serde(with = "design_ratio")]
    pub design_ratio: f64,
    /// Whether an objective that can no longer pass is closed early.
    pub futility: bool,
    /// How tokens are counted when usage is missing.
    pub tokens: Tokens,
    /// About what a verdict speaks.
    #[serde(default, skip_serializing_if = "Scope::is_run")]
    pub scope: Scope,
    /// How long one vote of a campaign lasts.
    #[serde(
        rename = "bucket_us",
        with = "crate::forms::micros",
        default = "usual_bucket",
        skip_serializing_if = "is_usual_bucket"
    )]
    pub bucket: Duration,
    /// Days that a pass of a campaign needs.
    #[serde(default = "usual_min_days", skip_serializing_if = "is_usual_min_days")]
    pub min_days: u32,
}

const fn usual_bucket() -> Duration {
    USUAL_BUCKET
}

fn is_usual_bucket(bucket: &Duration) -> bool {
    *bucket == USUAL_BUCKET
}

const fn usual_min_days() -> u32 {
    USUAL_MIN_DAYS
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
const fn is_usual_min_days(days: &u32) -> bool {
    *days == USUAL_MIN_DAYS
}

/// Word for a design ratio that is infinite.
pub const ZERO_FAILURE: &str = "zero_failure";

/// A design ratio in JSON, which has no infinity: a number, or [`ZERO_FAILURE`].
mod design_ratio {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::ZERO_FAILURE;

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Word(String),
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "the signature that serde asks for"
    )]
    pub(super) fn serialize<S: Serializer>(ratio: &f64, to: S) -> Result<S::Ok, S::Error> {
        if ratio.is_finite() {
            Written::Number(*ratio).serialize(to)
        } else {
            Written::Word(ZERO_FAILURE.to_owned()).serialize(to)
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        match Written::deserialize(from)? {
            Written::Number(ratio) => Ok(ratio),
            Written::Word(word) if word == ZERO_FAILURE => Ok(f64::INFINITY),
            Written::Word(_) => Err(de::Error::custom("not a design ratio")),
        }
    }
}

named! {
    /// How the tokens of a stream are counted.
    Tokens {
        /// As the relay reports them; missing is undefined.
        Usage = "usage",
        /// One content event is one token.
        Events = "events",
    }
}

/// Telemetry settings of a spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtelSettings {
    /// How the address of a trace is made, as [`trace_url::TraceUrl`] reads it; in evidence only
    /// where the traces went somewhere.
    pub trace_url: Option<String>,
    /// Whether a CI trace context is the parent of the run (else it is linked).
    pub ci_parent: bool,
    /// What spans say of prompts and answers.
    #[serde(default, skip_serializing_if = "Content::is_none")]
    pub content: Content,
}

named! {
    /// What spans say of prompts and answers.
    #[derive(Default)]
    Content {
        /// Nothing.
        #[default]
        None = "none",
        /// Their lengths, and hashes under a key that nobody keeps.
        Hash = "hash",
        /// The texts themselves, cut to a bound.
        Full = "full",
    }
}

impl Content {
    /// Whether spans say nothing of them.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

named! {
    /// What a relay is told of our traces.
    #[derive(Default)]
    Propagation {
        /// Nothing.
        #[default]
        None = "none",
        /// `traceparent`: what the relay records can join the trace of its call.
        Traceparent = "traceparent",
        /// `x-request-id` with the ids of the call.
        RequestId = "request_id",
    }
}

impl Propagation {
    /// Whether the relay is told nothing.
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// Relay × model × workload: one set of samples, judged by all its objectives.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The relay.
    pub relay: Relay,
    /// The model.
    pub model: String,
    /// The workload.
    pub workload: Workload,
    /// What is promised, in spec order.
    pub objectives: Vec<Objective>,
    /// Stable id: hash of the plan's digest and the cell's name, hex.
    pub id: String,
    /// Why the cell's tests are ignored, where the spec says so.
    pub ignored: Option<String>,
    /// What the relay charges for the model, where the spec says so.
    pub price: Option<Price>,
    /// From where it is sampled; `None` where the spec has no regions.
    pub region: Option<Region>,
    /// Name of the cell whose pairs it is the other half of, where it is the trusted upstream's.
    pub beside: Option<String>,
}

impl Cell {
    /// `relay/model/workload`, with the region behind it where there are any.
    pub fn name(&self) -> String {
        let mut name = format!("{}/{}/{}", self.relay.name, self.model, self.workload.name);
        if let Some(region) = &self.region {
            name = format!("{name}/{}", region.name);
        }
        match &self.beside {
            Some(other) => format!("{name} (beside {other})"),
            None => name,
        }
    }

    /// The name without the region: cells that share it ask the same of the same.
    pub fn pooled_name(&self) -> String {
        format!("{}/{}/{}", self.relay.name, self.model, self.workload.name)
    }

    /// How its own samples are drawn: a region takes its share of them, rounded up, and of the rate.
    pub fn sampling(&self, all: &Sampling) -> Sampling {
        let mut own = all.clone();
        if let Some(samples) = self.workload.calibration {
            own.rate_per_s *= crate::stats::float(samples) / crate::stats::float(all.max_samples);
            own.max_samples = samples;
        }
        if let Some(region) = &self.region {
            let whole = u128::from(own.max_samples) * u128::from(region.share_ppm);
            own.max_samples = u64::try_from(whole.div_ceil(1_000_000)).unwrap_or(u64::MAX);
            own.rate_per_s *= f64::from(region.share_ppm) / 1e6;
        }
        own
    }

    /// Share of its slots that the trusted upstream is asked too: all of them in a calibration.
    pub const fn pair_ppm(&self, usual: u32) -> u32 {
        if self.workload.calibration.is_some() {
            1_000_000
        } else {
            usual
        }
    }

    /// Most tokens that an answer may have, as the workload asks for it.
    pub fn max_tokens(&self) -> Option<u64> {
        self.workload.max_tokens()
    }

    /// Share of normal stops that may lack their seal, in parts per million; `None` where the
    /// workload asks for none.
    pub fn seal_allowance_ppm(&self) -> Option<u32> {
        let expect = &self.workload.expect;
        let nonce = self.workload.messages.iter().any(Message::asks_for_seal);
        (nonce || expect.shape.is_some()).then_some(expect.seal_allowance_ppm)
    }
}

/// One planned start.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Index in the cell, from 0; warm-up slots have their own count.
    pub index: u64,
    /// Planned start, from the start of the cell's sampling.
    pub start: Duration,
    /// Sent and traced, never counted.
    pub warmup: bool,
    /// Stable id of the sample, hex.
    pub id: String,
    /// Nonce of the prompt; unique, so that no cache can answer.
    pub nonce: String,
}

/// Where a relay is.
#[derive(Clone, Debug, PartialEq)]
pub enum Endpoint {
    /// A base URL, as the official SDK takes it.
    Url(String),
    /// The embedded relay.
    Simulate(Simulate),
}

/// One relay, resolved.
///
/// `Debug` shows the names of its headers, not their values.
#[derive(Clone, PartialEq)]
pub struct Relay {
    /// Name.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Wire protocol.
    pub protocol: Protocol,
    /// Whether answers are streamed.
    pub stream: bool,
    /// Fresh connections or a warm pool.
    pub connection: ConnectionMode,
    /// Which HTTP client.
    pub transport: TransportKind,
    /// HTTP version.
    pub http: HttpVersion,
    /// Proxy.
    pub proxy: Proxy,
    /// Additional trusted CA, a PEM file; the path is relative to the spec's folder.
    pub ca_file: Option<String>,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Retries.
    pub retry: Retry,
    /// Extra request headers.
    pub headers: BTreeMap<String, String>,
    /// Where the API key comes from; `None` sends none.
    pub api_key: Option<KeySource>,
    /// What it is told of our traces.
    pub propagate: Propagation,
    /// Whether a missing key is an error rather than an ignored test.
    pub required: bool,
}

named! {
    /// Whether each sample opens its own connection.
    ConnectionMode {
        /// DNS, TCP and TLS on each sample.
        Fresh = "fresh",
        /// A warm pool.
        Reuse = "reuse",
    }
}

named! {
    /// Which HTTP client sends the requests.
    TransportKind {
        /// reqwest, with phase hooks.
        Reqwest = "reqwest",
        /// HTTP/1.1 over a plain or TLS socket, which shows framing and the first byte.
        Raw = "raw",
    }
}

named! {
    /// Which HTTP version is used.
    HttpVersion {
        /// What TLS agrees on; HTTP/1.1 on plain connections.
        Auto = "auto",
        /// HTTP/1.1 only.
        Http1 = "1.1",
        /// HTTP/2 only (with prior knowledge on plain connections).
        Http2 = "2",
    }
}

/// Proxy setting.
///
/// `Debug` shows no user and no password.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub enum Proxy {
    /// Straight to the relay.
    None,
    /// From `HTTPS_PROXY` and its kin.
    Env,
    /// `http://`, `https://`, `socks5://` or `socks5h://`.
    Url(String),
}

/// Where a key comes from.
///
/// `Debug` shows a command's program, not its arguments.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// An environment variable.
    Env(String),
    /// A file, relative to the spec's folder.
    File(String),
    /// The standard output of a command.
    Command(Vec<String>),
}

/// When to try again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Statuses that are tried again.
    pub statuses: Vec<u16>,
    /// Whether a failure to connect is tried again.
    pub connect: bool,
    /// Most retries after the first attempt.
    pub max: u32,
    /// First wait.
    #[serde(rename = "backoff_us", with = "crate::forms::micros")]
    pub backoff: Duration,
    /// Growth of the wait.
    pub factor: f64,
    /// Full jitter: the wait is drawn between zero and the computed one.
    pub jitter: bool,
    /// Longest wait.
    #[serde(rename = "cap_us", with = "crate::forms::micros")]
    pub cap: Duration,
    /// Whether `Retry-After` is obeyed (up to a minute).
    pub obey_retry_after: bool,
}

/// One workload, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// Messages, placeholders (`{{nonce}}`, `{{seal}}`, `{{index}}`) not yet filled in.
    pub messages: Vec<Message>,
    /// Request members.
    pub params: Map<String, Value>,
    /// What the answer must be like.
    pub expect: Expect,
    /// Samples of it, where it is that of a calibration: one fixed prompt, whose answers are
    /// compared with the trusted upstream's.
    pub calibration: Option<u64>,
    /// Calls that are held open at all times (closed loop: one starts when another one ends);
    /// `None`: calls start at the rate, whatever became of the ones before.
    pub concurrency: Option<u32>,
}

impl Workload {
    /// Most tokens that an answer may have, where the parameters say.
    pub fn max_tokens(&self) -> Option<u64> {
        dialect::budget(&self.params)
    }
}

/// Settings of the embedded relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulate {
    /// From request to first token.
    #[serde(rename = "first_token_us", with = "crate::forms::micros")]
    pub first_token: Duration,
    /// Between tokens.
    #[serde(rename = "token_gap_us", with = "crate::forms::micros")]
    pub token_gap: Duration,
    /// Tokens of an answer.
    pub tokens: u32,
    /// Serve HTTPS with a certificate made at start.
    pub tls: bool,
    /// Faults with their shares in parts per million and their parameters.
    pub faults: Vec<PlannedFault>,
    /// Most answers at a time; `None`: as many as are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u32>,
    /// What becomes of a call beyond the capacity.
    #[serde(default, skip_serializing_if = "Overload::is_queue")]
    pub overload: Overload,
}

named! {
    /// What the embedded relay does with a call beyond its capacity.
    #[derive(Default)]
    Overload {
        /// It waits for its turn, in the order of arrival.
        #[default]
        Queue = "queue",
        /// It is answered 429.
        Reject = "reject",
    }
}

impl Overload {
    /// Whether it waits.
    pub fn is_queue(&self) -> bool {
        *self == Self::Queue
    }
}

/// One fault of the embedded relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Name from the embedded relay's catalogue.
    pub fault: String,
    /// Share of the requests that it hits, in parts per million.
    pub share_ppm: u32,
    /// Extra wait (`slow_first_token`, `stall` before it gives up).
    #[serde(rename = "delay_us", with = "crate::forms::opt_micros", default)]
    pub delay: Option<Duration>,
    /// Status code (`status`).
    pub code: Option<u16>,
    /// Tries of the same request that fail before one succeeds (`status`); `None`: all fail.
    pub recover_after: Option<u32>,
    /// Tokens that are sent before the fault strikes.
    pub after_tokens: Option<u32>,
    /// `Retry-After` to send (`status`), whole seconds.
    pub retry_after_s: Option<u32>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("protocol", &self.protocol)
            .field("connection", &self.connection)
            .field("transport", &self.transport)
            .field("http", &self.http)
            .field("proxy", &self.proxy)
            .field("ca_file", &self.ca_file)
            .field("timeouts", &self.timeouts)
            .field("retry", &self.retry)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("api_key", &self.api_key)
            .field("required", &self.required)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Env => f.write_str("Env"),
            Self::Url(url) => f.debug_tuple("Url").field(&without_user_info(url)).finish(),
        }
    }
}

/// The part of a URL behind user and password.
pub(crate) fn without_user_info(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority_end = rest.find('/').unwrap_or(rest.len());
    rest[..authority_end]
        .rfind('@')
        .map_or(rest, |at| &rest[at + 1..])
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Command(words) => f.debug_tuple("Command").field(&words.first()).finish(),
        }
    }
}

impl Default for Retry {
    /// Up to three retries of what a relay answers when it is overloaded or cannot be reached.
    fn default() -> Self {
        Self {
            statuses: vec![429, 500, 502, 503, 504],
            connect: true,
            max: 3,
            backoff: Duration::from_millis(500),
            factor: 2.0,
            jitter: true,
            cap: Duration::from_secs(8),
            obey_retry_after: true,
        }
    }
}
