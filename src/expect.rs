//! What a workload expects of an answer, checked while the text is at hand.
//!
//! Pure, and without content in its results: an unmet condition is named, never quoted.

use serde::{Deserialize, Serialize};

/// Conditions on one answer; each unmet one is named in `Observation::unmet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Share of normal stops that may lack the seal that was asked for, in parts per million:
    /// models disobey at times, and only what goes beyond is the relay's.
    pub seal_allowance_ppm: u32,
}

/// What models leave out of their own accord, where a workload does not say.
const SEAL_ALLOWANCE_PPM: u32 = 20_000;

impl Default for Expect {
    fn default() -> Self {
        Self {
            finish_reason: Vec::new(),
            min_chars: None,
            contains: Vec::new(),
            not_contains: Vec::new(),
            seal_allowance_ppm: SEAL_ALLOWANCE_PPM,
        }
    }
}

impl Expect {
    /// Names of the conditions that a whole answer does not meet, in the order of the fields.
    pub fn unmet(&self, text: &str, finish_reason: Option<&str>) -> Vec<String> {
        let reasons = &self.finish_reason;
        let finished = reasons.is_empty()
            || finish_reason.is_some_and(|reason| reasons.iter().any(|fine| fine == reason));
        let long = self
            .min_chars
            .is_none_or(|least| text.chars().count() as u64 >= least);
        let holds = |wanted: &String| text.contains(wanted.as_str());
        [
            ("finish_reason", finished),
            ("min_chars", long),
            ("contains", self.contains.iter().all(holds)),
            ("not_contains", !self.not_contains.iter().any(holds)),
        ]
        .into_iter()
        .filter(|(_, met)| !met)
        .map(|(name, _)| name.to_owned())
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_expected_is_always_met() {
        assert!(Expect::default().unmet("", None).is_empty());
    }

    #[test]
    fn every_unmet_condition_is_named_once() {
        let expect = Expect {
            finish_reason: vec!["stop".to_owned()],
            min_chars: Some(6),
            contains: vec!["Paris".to_owned(), "France".to_owned()],
            not_contains: vec!["quota".to_owned()],
            ..Expect::default()
        };
        assert!(expect.unmet("Paris, France", Some("stop")).is_empty());
        assert_eq!(
            expect.unmet("quota", Some("length")),
            ["finish_reason", "min_chars", "contains", "not_contains"]
        );
        assert_eq!(expect.unmet("Paris, France", None), ["finish_reason"]);
    }
}
