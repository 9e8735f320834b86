//! What is measured: who asks, how, and what the relay answers.

use serde::{Deserialize, Serialize};

/// What the relay answers.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Shape {
    /// From the request to the first token.
    pub(crate) first_token_us: u64,
    /// From one token to the next.
    pub(crate) gap_us: u64,
    /// Tokens of an answer.
    pub(crate) tokens: u32,
}

/// How it is asked.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Load {
    /// Answers open at once.
    pub(crate) streams: u32,
    /// Most answers open at once.
    pub(crate) concurrency: u32,
    /// Answers in all.
    pub(crate) samples: u64,
    /// Starts a second, on average.
    pub(crate) rate_per_s: f64,
    /// The answers.
    pub(crate) shape: Shape,
    /// How often each client is measured.
    pub(crate) repeats: usize,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Client {
    /// The probe over reqwest.
    Reqwest,
    /// The probe over its own HTTP/1.1.
    Raw,
    /// reqwest and nothing around it.
    Bare,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Task {
    /// Where the relay is.
    pub(crate) base_url: String,
    /// Who asks.
    pub(crate) client: Client,
    /// Where spans are sent, once they are drawn and written; without it there is no telemetry.
    pub(crate) sink: Option<String>,
    /// How it asks.
    pub(crate) load: Load,
}
