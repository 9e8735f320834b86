//! What a request asks for, as far as it changes the answer, whatever the protocol.

use serde_json::{Map, Value};

/// Longest seal that is honoured, in bytes; a longer one is no seal.
const MAX_SEAL: usize = 256;

/// Most numbered lines that are given.
const MAX_LINES: u32 = 1_000;

/// What follows their number in a prompt that asks for them.
const LINES_CUE: &str = " numbered lines";

/// What precedes the seal in a prompt that asks for one.
const SEAL_CUE: &str = "nd your answer with";

/// A request, as far as it changes the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) model: String,
    pub(super) stream: bool,
    /// Whether a stream is to report token counts.
    pub(super) usage: bool,
    pub(super) max_tokens: Option<u64>,
    pub(super) seal: Option<String>,
    /// Numbered lines that the answer is to have.
    pub(super) lines: Option<u32>,
    pub(super) prompt_tokens: u64,
}

/// Why a request is refused, in the shape of the API's error object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) param: Option<&'static str>,
}

impl Refusal {
    pub(super) fn of(param: &'static str, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            param: Some(param),
        }
    }
}

/// The members of a JSON object.
pub(super) fn members(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
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
    Ok(members)
}

/// The model asked for in the body.
pub(super) fn model(members: &Map<String, Value>) -> Result<String, Refusal> {
    match members.get("model") {
        Some(Value::String(model)) if !model.is_empty() => Ok(model.clone()),
        _ => Err(Refusal::of("model", "you must provide a model")),
    }
}

/// A prompt's size in words, which are its tokens here.
pub(super) fn tokens(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

pub(super) fn flag(value: Option<&Value>, name: &'static str) -> Result<bool, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(_) => Err(Refusal::of(name, format!("`{name}` must be a boolean"))),
    }
}

pub(super) fn count(
    members: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<u64>, Refusal> {
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
pub(super) fn text_of(content: Option<&Value>) -> Result<String, Refusal> {
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

/// The number before `numbered lines`.
pub(super) fn lines(prompt: &str) -> Option<u32> {
    let (before, _) = prompt.rsplit_once(LINES_CUE)?;
    let number = before.rsplit(char::is_whitespace).next()?;
    number
        .parse()
        .ok()
        .filter(|lines| (1..=MAX_LINES).contains(lines))
}

/// The back-ticked text after the cue.
pub(super) fn seal(prompt: &str) -> Option<String> {
    let (_, after) = prompt.rsplit_once(SEAL_CUE)?;
    let (_, quoted) = after.split_once('`')?;
    let (seal, _) = quoted.split_once('`')?;
    let usable = !seal.is_empty() && seal.len() <= MAX_SEAL && !seal.contains('\n');
    usable.then(|| seal.to_owned())
}
