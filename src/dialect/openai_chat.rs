//! OpenAI chat completions: request, chunks, `[DONE]`.
//!
//! Strict about what the protocol requires and blind to everything it does not name.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::error::{Said, said_by, said_in};
use super::member::{Few, Loose, Present, Text};
use super::{DeltaKind, Frame, Prompt, Signal, Stop, Unreadable};
use crate::observation::{Usage, Warning};

/// Path of the request, under a base URL that ends in `/v1`.
pub(super) fn path(_model: &str) -> String {
    "/chat/completions".to_owned()
}

/// Whether data is the sentinel that ends the stream.
pub(super) fn is_end_mark(data: &str) -> bool {
    data.trim_ascii() == "[DONE]"
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
pub(super) fn body(prompt: &Prompt) -> Vec<u8> {
    let mut members = prompt.params.clone();
    members.insert("model".to_owned(), Value::String(prompt.model.clone()));
    let messages = prompt
        .messages
        .iter()
        .map(|message| json!({"role": message.role, "content": message.content}))
        .collect();
    members.insert("messages".to_owned(), Value::Array(messages));
    members.insert("stream".to_owned(), Value::Bool(prompt.stream));
    if prompt.stream && prompt.usage {
        let options = members
            .entry("stream_options")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(options) = options {
            options.insert("include_usage".to_owned(), Value::Bool(true));
        }
    }
    Value::Object(members).to_string().into_bytes()
}

// Members that are seldom there are boxed: these structs are moved several times while they are
// read, and that is a good part of the whole cost.

#[derive(Debug, serde::Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    object: Option<Object>,
    created: Option<i64>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    choices: Few<Choice<'a>>,
    #[serde(borrow)]
    system_fingerprint: Option<Loose<'a>>,
    usage: Option<Box<Counts>>,
    #[serde(borrow)]
    error: Option<Box<Said<'a>>>,
}

/// What a chunk calls itself.
#[derive(Debug)]
enum Object {
    Chunk,
    Other,
}

struct ObjectVisitor;

impl Visitor<'_> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        // Azure's filter frames leave the member empty.
        Ok(match name {
            "chat.completion.chunk" | "" => Object::Chunk,
            _ => Object::Other,
        })
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(ObjectVisitor)
    }
}

#[derive(Debug, serde::Deserialize)]
struct Choice<'a> {
    index: u64,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    message: Option<IgnoredAny>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    error: Option<Box<Said<'a>>>,
}

/// A delta, or the message of an answer that is not streamed.
#[derive(Debug, Default)]
struct Delta<'a> {
    role: bool,
    content: Option<Text<'a>>,
    more: Option<Box<More<'a>>>,
}

/// What few deltas hold.
#[derive(Debug, Default)]
struct More<'a> {
    refusal: Option<Text<'a>>,
    reasoning: Option<Cow<'a, str>>,
    tool_calls: Vec<ToolCall<'a>>,
    function_call: Option<Function<'a>>,
    error: Option<Said<'a>>,
}

struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = Delta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut delta = Delta::default();
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "content" => delta.content = map.next_value()?,
                "role" => delta.role = map.next_value::<Option<Present>>()?.is_some(),
                "refusal" => {
                    if let Some(text) = map.next_value()? {
                        delta.more().refusal = Some(text);
                    }
                }
                // Some relays say the same reasoning under both names.
                "reasoning" | "reasoning_content" => {
                    let Loose(text) = map.next_value()?;
                    if let Some(text) = text.filter(|text| !text.is_empty()) {
                        delta.more().reasoning = Some(text);
                    }
                }
                "tool_calls" => {
                    if let Some(calls) = map.next_value()? {
                        delta.more().tool_calls = calls;
                    }
                }
                "function_call" => {
                    if let Some(call) = map.next_value()? {
                        delta.more().function_call = Some(call);
                    }
                }
                "error" => {
                    if let Some(said) = map.next_value()? {
                        delta.more().error = Some(said);
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(delta)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Delta<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(DeltaVisitor)
    }
}

impl<'a> Delta<'a> {
    fn more(&mut self) -> &mut More<'a> {
        self.more.get_or_insert_default()
    }
}

#[derive(Debug, serde::Deserialize)]
struct ToolCall<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    id: Option<Text<'a>>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Debug, serde::Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    arguments: Option<Text<'a>>,
}

#[derive(Debug, serde::Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, serde::Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, serde::Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

#[derive(Debug, serde::Deserialize)]
struct Completion<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
    created: Option<i64>,
    #[serde(borrow)]
    model: Option<Text<'a>>,
    #[serde(borrow)]
    choices: Few<WholeChoice<'a>>,
    #[serde(borrow)]
    system_fingerprint: Option<Loose<'a>>,
    usage: Option<Box<Counts>>,
    #[serde(borrow)]
    error: Option<Box<Said<'a>>>,
}

#[derive(Debug, serde::Deserialize)]
struct WholeChoice<'a> {
    index: u64,
    #[serde(borrow)]
    message: Delta<'a>,
    #[serde(borrow)]
    finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    error: Option<Box<Said<'a>>>,
}

/// Reads one event.
pub(super) fn frame(frame: Frame<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> Result<(), Unreadable> {
    if is_end_mark(frame.data) {
        sink(Signal::Terminator);
        return Ok(());
    }
    let named = !matches!(frame.name, "message" | "error");
    if frame.data.trim_ascii().is_empty() {
        if frame.name == "error" {
            sink(no_words());
        } else if !named {
            sink(Signal::Odd(Warning::EmptyEvent));
        }
        return Ok(());
    }
    let chunk = match serde_json::from_str::<Chunk<'_>>(frame.data) {
        Ok(chunk) => chunk,
        Err(error) => return foreign(frame, &error, sink),
    };
    if frame.name == "error" {
        sink(no_words());
        return Ok(());
    }
    let role = chunk
        .choices
        .iter()
        .any(|choice| choice.delta.as_ref().is_some_and(|delta| delta.role));
    meta(
        &chunk.id,
        &chunk.model,
        chunk.system_fingerprint.as_ref(),
        role,
        sink,
    );
    if let Some(flaw) = flaw(&chunk) {
        sink(Signal::Flaw(flaw));
    }
    error(chunk.error.as_deref(), sink);
    for choice in chunk.choices.iter() {
        if let Some(delta) = &choice.delta {
            output(choice.index, delta, sink);
        }
        error(choice.error.as_deref(), sink);
        finish(choice.index, choice.finish_reason.as_ref(), sink);
    }
    usage(chunk.usage.as_deref(), sink);
    Ok(())
}

/// Reads a whole answer that was not streamed.
pub(super) fn answer(body: &str, sink: &mut dyn FnMut(Signal<'_>)) -> Result<(), Unreadable> {
    let whole = match serde_json::from_str::<Completion<'_>>(body) {
        Ok(whole) => whole,
        Err(error) => {
            let frame = Frame {
                name: "message",
                data: body,
            };
            return foreign(frame, &error, sink);
        }
    };
    if whole.choices.is_empty() && whole.error.is_none() {
        return Err(Unreadable::Shape("no choices"));
    }
    meta(
        &whole.id,
        &whole.model,
        whole.system_fingerprint.as_ref(),
        true,
        sink,
    );
    if whole.id.is_none() || whole.created.is_none() || whole.model.is_none() {
        sink(Signal::Flaw("a required member is missing"));
    }
    error(whole.error.as_deref(), sink);
    for choice in whole.choices.iter() {
        output(choice.index, &choice.message, sink);
        error(choice.error.as_deref(), sink);
        finish(choice.index, choice.finish_reason.as_ref(), sink);
    }
    usage(whole.usage.as_deref(), sink);
    sink(Signal::Terminator);
    Ok(())
}

fn no_words() -> Signal<'static> {
    Signal::Error {
        code: None,
        message: None,
    }
}

/// Data that is no chunk: broken JSON, an error, a named event of the relay's own, or a fault.
fn foreign(
    frame: Frame<'_>,
    error: &serde_json::Error,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    let value = match serde_json::from_str::<Value>(frame.data) {
        Ok(value) => value,
        Err(_) if frame.name == "error" => {
            sink(Signal::Error {
                code: None,
                message: Some(frame.data),
            });
            return Ok(());
        }
        Err(_) => return Err(Unreadable::NotJson),
    };
    let said = if frame.name == "error" {
        Some(said_by(&value))
    } else {
        said_in(&value)
    };
    if let Some(said) = said {
        sink(Signal::Error {
            code: said.code.as_deref(),
            message: said.message.as_deref(),
        });
        return Ok(());
    }
    let heartbeat = value.get("type").and_then(Value::as_str) == Some("ping");
    if frame.name != "message" || heartbeat {
        sink(Signal::Odd(Warning::UnknownEvent));
        return Ok(());
    }
    Err(Unreadable::Shape(reason(&value, error)))
}

/// Names the fault of a JSON value that is no chunk, without any of its content.
fn reason(value: &Value, error: &serde_json::Error) -> &'static str {
    if !value.is_object() {
        return "no JSON object";
    }
    if value.get("choices").is_none() {
        return "no choices";
    }
    let text = error.to_string();
    if text.starts_with("missing field") {
        "a required member is missing"
    } else if text.starts_with("duplicate field") {
        "a member comes twice"
    } else {
        "a member has the wrong type"
    }
}

/// The first fault of a chunk that can be read all the same.
fn flaw(chunk: &Chunk<'_>) -> Option<&'static str> {
    match chunk.object {
        Some(Object::Chunk) => {}
        Some(Object::Other) => return Some("the object is no chat.completion.chunk"),
        None => return Some("no object"),
    }
    if chunk.choices.iter().any(|choice| choice.message.is_some()) {
        return Some("a choice has a message in place of a delta");
    }
    if chunk.id.is_none() {
        return Some("no id");
    }
    if chunk.created.is_none() {
        return Some("no created");
    }
    chunk.model.is_none().then_some("no model")
}

fn meta(
    id: &Option<Text<'_>>,
    model: &Option<Text<'_>>,
    fingerprint: Option<&Loose<'_>>,
    role: bool,
    sink: &mut dyn FnMut(Signal<'_>),
) {
    sink(Signal::Meta {
        id: text(id.as_ref()),
        model: text(model.as_ref()),
        fingerprint: fingerprint
            .and_then(|loose| loose.0.as_deref())
            .and_then(filled),
        role,
    });
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn error(said: Option<&Said<'_>>, sink: &mut dyn FnMut(Signal<'_>)) {
    if let Some(said) = said.filter(|said| said.real) {
        sink(Signal::Error {
            code: said.code.as_deref(),
            message: said.message.as_deref(),
        });
    }
}

fn output(choice: u64, delta: &Delta<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
    let mut piece = |kind, text: Option<&str>| {
        if let Some(text) = text.and_then(filled) {
            sink(Signal::Delta { kind, choice, text });
        }
    };
    let Some(more) = delta.more.as_deref() else {
        piece(DeltaKind::Content, text(delta.content.as_ref()));
        return;
    };
    piece(DeltaKind::Reasoning, more.reasoning.as_deref());
    piece(DeltaKind::Content, text(delta.content.as_ref()));
    piece(DeltaKind::Refusal, text(more.refusal.as_ref()));
    error(more.error.as_ref(), sink);
    for call in &more.tool_calls {
        let function = call.function.as_ref();
        sink(Signal::ToolCall {
            choice,
            index: call.index,
            id: text(call.id.as_ref()),
            name: function.and_then(|function| text(function.name.as_ref())),
            arguments: function
                .and_then(|function| text(function.arguments.as_ref()))
                .unwrap_or_default(),
        });
    }
    if let Some(function) = &more.function_call {
        sink(Signal::ToolCall {
            choice,
            index: Some(0),
            id: None,
            name: text(function.name.as_ref()),
            arguments: text(function.arguments.as_ref()).unwrap_or_default(),
        });
    }
}

fn text<'a>(text: Option<&'a Text<'_>>) -> Option<&'a str> {
    text.and_then(|text| filled(&text.0))
}

fn finish(choice: u64, reason: Option<&Text<'_>>, sink: &mut dyn FnMut(Signal<'_>)) {
    let Some(Text(reason)) = reason else { return };
    if reason.is_empty() {
        sink(Signal::Odd(Warning::FinishReasonEmptyString));
        return;
    }
    let stop = stop(reason);
    if stop == Stop::Unknown {
        sink(Signal::Odd(Warning::UnknownFinishReason));
    }
    sink(Signal::Finish {
        choice,
        stop,
        reason,
    });
}

/// What a reason means; the second row of each kind is other providers' words that relays leak.
fn stop(reason: &str) -> Stop {
    match reason {
        "stop" => Stop::Natural,
        "length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter" => Stop::Filter,
        _ => match reason.to_ascii_lowercase().as_str() {
            "max_tokens" => Stop::Length,
            "safety"
            | "sensitive"
            | "recitation"
            | "blocklist"
            | "prohibited_content"
            | "spii"
            | "guardrail_intervened"
            | "content_filtered" => Stop::Filter,
            "abort"
            | "aborted"
            | "error"
            | "cancelled"
            | "canceled"
            | "failed"
            | "timeout"
            | "network_error"
            | "insufficient_system_resource"
            | "malformed_function_call"
            | "engine_error"
            | "server_error"
            | "interrupted" => Stop::Abort,
            _ => Stop::Unknown,
        },
    }
}

fn usage(counts: Option<&Counts>, sink: &mut dyn FnMut(Signal<'_>)) {
    if let Some(counts) = counts {
        sink(Signal::Usage(Usage {
            input: counts.prompt_tokens,
            output: counts.completion_tokens,
            reasoning: counts
                .completion_tokens_details
                .as_ref()
                .and_then(|details| details.reasoning_tokens),
            cached_input: counts
                .prompt_tokens_details
                .as_ref()
                .and_then(|details| details.cached_tokens),
            total: counts.total_tokens,
        }));
    }
}
