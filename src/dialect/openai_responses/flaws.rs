//! What is wrong with JSON that can be read.

use serde_json::Value;

use super::said::text;
use super::wire::{Event, Kind, Response};
use crate::dialect::member::Text;

/// A payload without which an event says nothing.
pub(super) fn missing(kind: Kind, event: &Event<'_>) -> Option<&'static str> {
    let there = match kind {
        Kind::TextDelta
        | Kind::RefusalDelta
        | Kind::ReasoningDelta
        | Kind::SummaryDelta
        | Kind::ArgumentsDelta
        | Kind::InputDelta
        | Kind::HostedDelta => event.delta.is_some(),
        Kind::TextDone | Kind::ReasoningDone | Kind::SummaryDone => event.text.is_some(),
        Kind::RefusalDone => event.refusal.is_some(),
        Kind::ArgumentsDone => event.arguments.is_some(),
        Kind::InputDone => event.input.is_some(),
        Kind::PartAdded | Kind::PartDone | Kind::SummaryPartAdded | Kind::SummaryPartDone => {
            event.part.is_some()
        }
        Kind::ItemAdded | Kind::ItemDone => event.item.is_some(),
        Kind::Created | Kind::Queued | Kind::InProgress => event.response.is_some(),
        Kind::Completed
        | Kind::Incomplete
        | Kind::Failed
        | Kind::Error
        | Kind::Aside
        | Kind::Unknown => true,
    };
    (!there).then_some("a required member is missing")
}

/// The first fault of a response that can be read all the same.
pub(super) fn flaw(response: &Response<'_>) -> Option<&'static str> {
    match &response.object {
        Some(Text(object)) if object == "response" => {}
        Some(_) => return Some("the object is no response"),
        None => return Some("a response without an object"),
    }
    if text(response.id.as_ref()).is_none() {
        return Some("a response without an id");
    }
    if response.model.is_none() {
        return Some("a response without a model");
    }
    if response.output.is_none() {
        return Some("a response without an output");
    }
    let whole = response.created_at.is_some()
        && response.parallel_tool_calls.is_some()
        && response.tool_choice.is_some()
        && response.tools.is_some();
    (!whole).then_some("a response without a required member")
}

/// Names the fault of a JSON value that is no event, without any of its content.
pub(super) fn reason(value: &Value, error: Option<&serde_json::Error>) -> &'static str {
    match error {
        Some(error) => shape(value, "type", error),
        None if value.is_object() => "an event without a type",
        None => "no JSON object",
    }
}

pub(super) fn shape(value: &Value, member: &str, error: &serde_json::Error) -> &'static str {
    if !value.is_object() {
        return "no JSON object";
    }
    if value.get(member).is_none() {
        return "a required member is missing";
    }
    if error.to_string().starts_with("duplicate field") {
        "a member comes twice"
    } else {
        "a member has the wrong type"
    }
}
