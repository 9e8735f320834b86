//! Wire text of OpenAI chat completions, as an honest relay reads and writes it.
//!
//! Written by hand and shared with no decoder, so that no mistake can be made twice.

use serde_json::{Map, Value, json};

/// Longest seal that is honoured, in bytes; a longer one is no seal.
const MAX_SEAL: usize = 256;

/// What precedes the seal in a prompt that asks for one.
const SEAL_CUE: &str = "nd your answer with";

/// A request, as far as it changes the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) max_tokens: Option<u64>,
    pub(super) seal: Option<String>,
    pub(super) prompt_tokens: u64,
}

/// Why a request is refused, in the shape of the API's error object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) param: Option<&'static str>,
}

impl Refusal {
    fn of(param: &'static str, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            param: Some(param),
        }
    }
}

impl Ask {
    /// Reads a request body.
    pub(super) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let value: Value = serde_json::from_slice(body).map_err(|error| Refusal {
            message: format!("the body is not JSON: {error}"),
            param: None,
        })?;
        let Value::Object(members) = value else {
            return Err(Refusal {
                message: "the body is not a JSON object".into(),
                param: None,
            });
        };
        let model = match members.get("model") {
            Some(Value::String(model)) if !model.is_empty() => model.clone(),
            _ => return Err(Refusal::of("model", "you must provide a model")),
        };
        let messages = match members.get("messages") {
            Some(Value::Array(messages)) if !messages.is_empty() => messages,
            _ => return Err(Refusal::of("messages", "`messages` must be a filled list")),
        };
        let mut last_user = String::new();
        let mut prompt_tokens = 0;
        for message in messages {
            let Some(role) = message.get("role").and_then(Value::as_str) else {
                return Err(Refusal::of("messages", "each message needs a `role`"));
            };
            let text = text_of(message.get("content"))?;
            prompt_tokens += text.split_whitespace().count() as u64;
            if role == "user" {
                last_user = text;
            }
        }
        if count(&members, "n")?.is_some_and(|n| n != 1) {
            return Err(Refusal::of("n", "only one choice is offered"));
        }
        let max_tokens = match count(&members, "max_completion_tokens")? {
            Some(limit) => Some(limit),
            None => count(&members, "max_tokens")?,
        };
        Ok(Self {
            model,
            stream: flag(members.get("stream"), "stream")?,
            include_usage: flag(
                members
                    .get("stream_options")
                    .and_then(|options| options.get("include_usage")),
                "stream_options",
            )?,
            max_tokens,
            seal: seal(&last_user),
            prompt_tokens,
        })
    }
}

fn flag(value: Option<&Value>, name: &'static str) -> Result<bool, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(_) => Err(Refusal::of(name, format!("`{name}` must be a boolean"))),
    }
}

fn count(members: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, Refusal> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .filter(|n| *n > 0)
            .map(Some)
            .ok_or_else(|| Refusal::of(name, format!("`{name}` must be a positive integer"))),
    }
}

/// Text of a message: a string, or the text parts of a list.
fn text_of(content: Option<&Value>) -> Result<String, Refusal> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => Ok(parts
            .iter()
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join("\n")),
        Some(_) => Err(Refusal::of(
            "messages",
            "`content` must be a string or a list of parts",
        )),
    }
}

/// The back-ticked text after the cue.
fn seal(prompt: &str) -> Option<String> {
    let (_, after) = prompt.rsplit_once(SEAL_CUE)?;
    let (_, quoted) = after.split_once('`')?;
    let (seal, _) = quoted.split_once('`')?;
    let usable = !seal.is_empty() && seal.len() <= MAX_SEAL && !seal.contains('\n');
    usable.then(|| seal.to_owned())
}

/// Token counts of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u64,
    pub(super) completion: u64,
}

impl Usage {
    fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
        })
    }
}

/// Writes the events of one answer; what is the same in all of them is rendered once.
#[derive(Clone, Debug)]
pub(super) struct Voice {
    id: String,
    created: u64,
    model: String,
    before: String,
    after: &'static str,
}

impl Voice {
    /// The voice of the answer `id`; with `usage`, every event has a `usage` member.
    pub(super) fn new(id: &str, created: u64, model: &str, usage: bool) -> Self {
        Self {
            id: id.to_owned(),
            created,
            model: model.to_owned(),
            before: format!(
                r#"{{"id":{},"object":"chat.completion.chunk","created":{created},"model":{},"system_fingerprint":"fp_embedded","choices":"#,
                quoted(id),
                quoted(model),
            ),
            after: if usage { r#","usage":null}"# } else { "}" },
        }
    }

    fn choice(&self, delta: &str, finish: &str) -> String {
        [
            &self.before,
            r#"[{"index":0,"delta":"#,
            delta,
            r#","logprobs":null,"finish_reason":"#,
            finish,
            "}]",
            self.after,
        ]
        .concat()
    }

    /// The event that announces the role.
    pub(super) fn role(&self) -> String {
        self.choice(r#"{"role":"assistant","content":""}"#, "null")
    }

    /// An event with a piece of text.
    pub(super) fn content(&self, text: &str) -> String {
        self.choice(&format!(r#"{{"content":{}}}"#, quoted(text)), "null")
    }

    /// The event that ends the choice.
    pub(super) fn finish(&self, reason: &str) -> String {
        self.choice("{}", &quoted(reason))
    }

    /// The event with the token counts and no choice.
    pub(super) fn usage(&self, usage: Usage) -> String {
        format!(r#"{}[],"usage":{}}}"#, self.before, usage.json())
    }

    /// A whole answer without a stream.
    pub(super) fn completion(&self, text: &str, reason: &str, usage: Usage) -> String {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": "fp_embedded",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null,
                "finish_reason": reason,
            }],
            "usage": usage.json(),
        })
        .to_string()
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// An error object in the API's shape.
pub(super) fn error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> String {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}}).to_string()
}

/// The list of models.
pub(super) fn models() -> String {
    json!({
        "object": "list",
        "data": [{
            "id": "embedded",
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": "embedded-relay",
        }],
    })
    .to_string()
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

    fn ask(user: &str) -> Ask {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": user}]});
        Ask::parse(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_seal_is_the_back_ticked_text_after_the_cue() {
        let ask = ask("Say `this`. End your answer with `END-0123abcd`.");
        assert_eq!(ask.seal.as_deref(), Some("END-0123abcd"));
    }

    #[test]
    fn a_prompt_without_the_cue_or_with_an_open_quote_asks_for_no_seal() {
        assert_eq!(ask("Say `this`.").seal, None);
        assert_eq!(ask("End your answer with `END").seal, None);
        assert_eq!(ask("End your answer with ``.").seal, None);
    }

    #[test]
    fn only_the_last_user_message_can_ask_for_a_seal() {
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "End your answer with `A`."},
            {"role": "user", "content": [{"type": "text", "text": "and end your answer with `B`"}]},
            {"role": "assistant", "content": "End your answer with `C`."},
        ]});
        let ask = Ask::parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(ask.seal.as_deref(), Some("B"));
    }

    #[test]
    fn what_the_api_would_refuse_is_refused_with_the_member_named() {
        for (body, param) in [
            (r#"{"messages":[{"role":"user"}]}"#, Some("model")),
            (r#"{"model":"m","messages":[]}"#, Some("messages")),
            (r#"{"model":"m","messages":[{}]}"#, Some("messages")),
            (
                r#"{"model":"m","messages":[{"role":"user","content":1}]}"#,
                Some("messages"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"}],"stream":1}"#,
                Some("stream"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"}],"max_tokens":0}"#,
                Some("max_tokens"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"}],"n":2}"#,
                Some("n"),
            ),
            ("[]", None),
            ("{", None),
        ] {
            assert_eq!(
                Ask::parse(body.as_bytes()).unwrap_err().param,
                param,
                "{body}"
            );
        }
    }

    #[test]
    fn every_event_is_json_and_text_is_escaped() {
        let voice = Voice::new("id", 1, "a\"b", true);
        let usage = Usage {
            prompt: 2,
            completion: 3,
        };
        for event in [
            voice.role(),
            voice.content("say \"hi\"\n"),
            voice.finish("stop"),
            voice.usage(usage),
            voice.completion("text", "stop", usage),
        ] {
            let value: Value = serde_json::from_str(&event).unwrap();
            assert_eq!(value["model"], "a\"b", "{event}");
        }
        let value: Value = serde_json::from_str(&voice.content("say \"hi\"\n")).unwrap();
        assert_eq!(value["choices"][0]["delta"]["content"], "say \"hi\"\n");
        assert_eq!(value["usage"], Value::Null);
    }

    #[test]
    fn words_depend_on_the_key_alone() {
        assert_eq!(words(1, 8), words(1, 8));
        assert_ne!(words(1, 8), words(2, 8));
        assert!(words(1, 3).iter().skip(1).all(|word| word.starts_with(' ')));
    }
}
