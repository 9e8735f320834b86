//! How an honest relay speaks each protocol: what it takes and what it writes.
//!
//! Written by hand and shared with no decoder, so that no mistake can be made twice.

mod chat;
mod gemini;
mod messages;
mod responses;

use std::time::Duration;

use serde_json::Value;

use super::ask::{Ask, Refusal};

/// A protocol that is spoken, and what the request's line says of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Api {
    /// OpenAI chat completions.
    Chat,
    /// OpenAI responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// Gemini `generateContent` and `streamGenerateContent`.
    Gemini(gemini::Method),
}

impl Api {
    /// The protocol of a path, which may have any prefix, and its query.
    pub(super) fn at(path: &str, query: &str) -> Option<Self> {
        if path.ends_with("/chat/completions") {
            return Some(Self::Chat);
        }
        if path.ends_with("/responses") {
            return Some(Self::Responses);
        }
        if path.ends_with("/messages") {
            return Some(Self::Messages);
        }
        gemini::Method::at(path, query).map(Self::Gemini)
    }

    /// Reads a request body.
    pub(super) fn ask(&self, body: &[u8]) -> Result<Ask, Refusal> {
        match self {
            Self::Chat => chat::parse(body),
            Self::Responses => responses::parse(body),
            Self::Messages => messages::parse(body),
            Self::Gemini(method) => method.parse(body),
        }
    }

    /// What an answer's id begins with.
    pub(super) const fn id_prefix(&self) -> &'static str {
        match self {
            Self::Chat => "chatcmpl-",
            Self::Responses => "resp_",
            Self::Messages => "msg_",
            Self::Gemini(_) => "",
        }
    }

    /// The voice of one answer.
    pub(super) fn voice(&self, id: &str, created: u64, model: &str, ask: &Ask) -> Box<dyn Voice> {
        match self {
            Self::Chat => Box::new(chat::Chat::new(id, created, model, ask.usage && ask.stream)),
            Self::Responses => Box::new(responses::Responses::new(id, created, model)),
            Self::Messages => Box::new(messages::Messages::new(id, model, ask.prompt_tokens)),
            Self::Gemini(method) => Box::new(method.voice(id, model, ask)),
        }
    }

    /// The body of an HTTP error, in the API's shape.
    pub(super) fn refusal(&self, error: &ApiError<'_>) -> String {
        match self {
            Self::Chat | Self::Responses => {
                chat::error(error.message, error.kind, error.param, error.code)
            }
            Self::Messages => messages::error(error),
            Self::Gemini(_) => gemini::error(error),
        }
    }
}

/// The list of models, for a path that asks for one.
pub(super) fn models(path: &str) -> Option<String> {
    if path.ends_with("/v1beta/models") {
        return Some(gemini::models());
    }
    path.ends_with("/models").then(chat::models)
}

/// What an HTTP error says, in the words of the OpenAI API, from which others translate.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiError<'a> {
    pub(super) status: u16,
    pub(super) message: &'a str,
    pub(super) kind: &'a str,
    pub(super) param: Option<&'a str>,
    pub(super) code: Option<&'a str>,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// All was said.
    Stop,
    /// The budget is used up.
    Length,
}

/// Token counts of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) completion: u64,
}

/// A server-sent event in the making.
#[derive(Clone, Debug)]
pub(super) struct Event {
    /// When it is due.
    pub(super) at: Duration,
    pub(super) name: Option<&'static str>,
    pub(super) data: String,
    /// Whether a reader finds model output in it.
    pub(super) output: bool,
}

impl Event {
    fn unnamed(data: String) -> Self {
        Self {
            at: Duration::ZERO,
            name: None,
            data,
            output: false,
        }
    }

    pub(super) fn text(&self) -> String {
        match self.name {
            None => ["data: ", &self.data, "\n\n"].concat(),
            Some(name) => ["event: ", name, "\ndata: ", &self.data, "\n\n"].concat(),
        }
    }
}

/// Writes the events of one answer, in order.
pub(super) trait Voice {
    /// What comes before the first token.
    fn opening(&mut self) -> Vec<Event>;

    /// A piece of text.
    fn token(&mut self, text: &str) -> Event;

    /// What follows the last token, the end mark included.
    fn closing(&mut self, reason: Reason, usage: Usage) -> Vec<Event>;

    /// An end mark in the middle of an answer, without a word about why.
    fn mark(&mut self) -> Vec<Event>;

    /// An error that is said in mid-stream.
    fn error(&mut self) -> Event;

    /// A whole answer without a stream.
    fn whole(&self, text: &str, reason: Reason, usage: Usage) -> String;
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

const WORDS: [&str; 64] = [
    "amber", "anchor", "apple", "autumn", "basket", "birch", "bridge", "bright", "candle",
    "canyon", "cedar", "cloud", "copper", "coral", "cotton", "crystal", "dawn", "delta", "ember",
    "evening", "fern", "field", "forest", "garden", "gentle", "glacier", "golden", "granite",
    "harbor", "hazel", "hollow", "island", "ivory", "jasmine", "juniper", "kettle", "lantern",
    "lemon", "linen", "maple", "marble", "meadow", "mellow", "mirror", "morning", "mountain",
    "nectar", "ocean", "olive", "orchard", "pebble", "pine", "quartz", "quiet", "river", "saffron",
    "silver", "summit", "timber", "valley", "velvet", "willow", "window", "winter",
];

/// `count` word-like tokens, the same for the same key, each but the first after a space.
pub(super) fn words(key: u64, count: usize) -> Vec<String> {
    let mut state = key;
    (0..count)
        .map(|index| {
            let pick = splitmix(&mut state) % WORDS.len() as u64;
            let word = WORDS.get(pick as usize).copied().unwrap_or_default();
            let space = if index == 0 { "" } else { " " };
            format!("{space}{word}")
        })
        .collect()
}

/// One step of the splitmix64 generator.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_depend_on_the_key_alone() {
        assert_eq!(words(1, 8), words(1, 8));
        assert_ne!(words(1, 8), words(2, 8));
        assert!(words(1, 3).iter().skip(1).all(|word| word.starts_with(' ')));
    }
}
