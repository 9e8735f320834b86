//! What a workload expects of an answer, checked while the text is at hand.

use serde::{Deserialize, Serialize};

/// Conditions on one answer; each unmet one is named in `Observation::unmet`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expect {
    /// Finish reasons that are fine; empty means any.
    pub finish_reason: Vec<String>,
    /// Fewest characters of visible text.
    pub min_chars: Option<u64>,
    /// Texts that must be there.
    pub contains: Vec<String>,
    /// Texts that must not be there.
    pub not_contains: Vec<String>,
}
