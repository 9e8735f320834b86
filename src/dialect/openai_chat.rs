//! OpenAI chat completions: chunks, `[DONE]`.
//!
//! Strict about what the protocol requires and blind to everything it does not name.

mod kept;
mod request;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::Value;

use super::error::Said;
use super::foreign::foreign;
use super::member::{Few, Loose, Text};
use super::twin::Twin;
use super::{DeltaKind, Frame, Signal, Stop, Unreadable};
use crate::observation::{Usage, Warning};

pub(super) use kept::Kept;
pub(super) use request::{body, path};
use wire::{Chunk, Completion, Counts, Delta, Object};

/// Whether data is the sentinel that ends the stream.
pub(super) fn is_end_mark(data: &str) -> bool {
    data.trim_ascii() == "[DONE]"
}

/// Reads one event.
pub(super) fn frame(
    twin: &mut Twin<Kept>,
    frame: Frame<'_>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    if let Some(chunk) = twin.find(frame.data) {
        read(frame, &chunk, sink);
        return Ok(());
    }
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
    match serde_json::from_str::<Chunk<'_>>(frame.data) {
        Ok(chunk) => {
            read(frame, &chunk, sink);
            twin.learn(frame.data, &chunk);
            Ok(())
        }
        Err(error) => foreign(frame, |value| reason(value, &error), sink),
    }
}

/// Says what a chunk says.
fn read(frame: Frame<'_>, chunk: &Chunk<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
    if frame.name == "error" {
        sink(no_words());
        return;
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
    if let Some(flaw) = flaw(chunk) {
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
            return foreign(frame, |value| reason(value, &error), sink);
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
    } else if text.starts_with("a list of") {
        "a list of too many items"
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
    for call in more.tool_calls.iter().flat_map(Few::iter) {
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
