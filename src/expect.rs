//! What a workload expects of an answer, checked while the text is at hand.
//!
//! Pure, and without content in its results: an unmet condition is named, never quoted.

use std::time::Duration;

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
    /// Shape of a whole answer: a seal that needs no nonce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
    /// Where the detectors of odd streams draw their lines.
    #[serde(skip_serializing_if = "Detect::is_default")]
    pub detect: Detect,
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
            shape: None,
            detect: Detect::default(),
            seal_allowance_ppm: SEAL_ALLOWANCE_PPM,
        }
    }
}

/// A shape that the prompt asks for and that an answer cut short does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Lines that begin with `1.`, `2)`, … up to this number, the last one with words in it.
    NumberedLines(u32),
    /// One JSON object with these members, in a code fence or not.
    Json(Vec<String>),
}

impl Shape {
    /// Whether a text has the shape.
    pub fn fits(&self, text: &str) -> bool {
        match self {
            Self::NumberedLines(most) => {
                let mut next = 1;
                for line in text.lines() {
                    next += u32::from(next <= *most && is_numbered(line, next));
                }
                next > *most
            }
            Self::Json(members) => {
                let read = serde_json::from_str::<serde_json::Value>(unfenced(text.trim()));
                let object = read.ok();
                let object = object.as_ref().and_then(serde_json::Value::as_object);
                object.is_some_and(|object| members.iter().all(|name| object.contains_key(name)))
            }
        }
    }
}

/// Whether a line begins with this number and a mark, and goes on; bold and indented ones count.
fn is_numbered(line: &str, number: u32) -> bool {
    let line = line.trim_start().trim_start_matches('*');
    let rest = line.strip_prefix(&number.to_string());
    let rest = rest.and_then(|rest| rest.strip_prefix(['.', ')', ':']));
    rest.is_some_and(|rest| rest.chars().any(char::is_alphanumeric))
}

/// What stands inside a code fence, where the whole text is one.
fn unfenced(text: &str) -> &str {
    let inside = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .and_then(|rest| rest.split_once('\n'));
    inside.map_or(text, |(_, inside)| inside.trim())
}

/// Where the detectors of odd streams draw their lines.
///
/// What each number is for is in docs/streams.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detect {
    /// A silence of this length ends a burst.
    #[serde(rename = "burst_gap_us", with = "crate::forms::micros")]
    pub burst_gap: Duration,
    /// Fewest tokens of an answer that has to arrive piece by piece.
    pub least_tokens: u64,
    /// Fewest characters of such an answer.
    pub least_chars: u64,
    /// Fewest events of an answer in one burst, where one event ordinarily holds many tokens.
    pub heap_events: u64,
    /// Fewest tokens of an answer that makes up for having fewer events than that.
    pub heap_tokens: u64,
    /// Fewest events in a block.
    pub block_events: u64,
    /// Shortest pause between blocks, on average.
    #[serde(rename = "block_pause_us", with = "crate::forms::micros")]
    pub block_pause: Duration,
    /// Fewest blocks that are a buffer's and not a model's.
    pub blocks: u64,
    /// Shortest piece that is no token of a model but a text that somebody put there, in bytes.
    pub put_bytes: u64,
    /// Fewest times that a delta must have grown out of the one before.
    pub growths: u32,
    /// Most changes of an id that can be a second generation; more are a habit.
    pub id_changes: u64,
    /// How far below the budget a cut at the budget may be, in parts per million.
    pub length_tolerance_ppm: u32,
}

impl Default for Detect {
    fn default() -> Self {
        Self {
            burst_gap: Duration::from_millis(50),
            least_tokens: 16,
            least_chars: 32,
            heap_events: 4,
            heap_tokens: 512,
            block_events: 8,
            block_pause: Duration::from_millis(200),
            blocks: 3,
            put_bytes: 16,
            growths: 2,
            id_changes: 3,
            length_tolerance_ppm: 100_000,
        }
    }
}

impl Detect {
    fn is_default(&self) -> bool {
        *self == Self::default()
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
    fn numbered_lines_fit_when_the_last_one_says_something() {
        let shape = Shape::NumberedLines(3);
        assert!(shape.fits("Here they are:\n1. one\n2) two\n\n **3.** three\nBye"));
        assert!(shape.fits("1: a\n1: again\n2: b\n3: c\n4: d"));
        for text in [
            "",
            "1. one\n2. two",
            "1. one\n2. two\n3.",
            "1. one\n3. three",
        ] {
            assert!(!shape.fits(text), "{text}");
        }
    }

    #[test]
    fn a_json_object_fits_when_it_is_whole_and_has_its_members() {
        let shape = Shape::Json(vec!["a".to_owned(), "b".to_owned()]);
        assert!(shape.fits("{\"a\": 1, \"b\": null, \"c\": []}"));
        assert!(shape.fits("```json\n{\"b\": 1, \"a\": 2}\n```\n"));
        for text in [
            "{\"a\": 1, \"b\": 2",
            "{\"a\": 1}",
            "[]",
            "",
            "{\"a\":1,\"b\":2} and more",
        ] {
            assert!(!shape.fits(text), "{text}");
        }
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
