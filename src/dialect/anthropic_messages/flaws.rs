//! What is wrong with JSON that can be read.

use serde_json::Value;

use super::Flaw;
use super::wire::{Counts, Kind, Message};
use crate::dialect::member::Text;

/// Whether an event's name is not its type; that names are missing is told once, elsewhere.
pub(super) fn named_otherwise(name: &str, named: Option<Kind>, kind: Kind) -> Flaw {
    (name != "message" && named != Some(kind)).then_some("an event whose name is not its type")
}

/// The first fault of the message that a stream begins with.
pub(super) fn start_flaw(message: &Message<'_>) -> Flaw {
    let is = |text: &Option<Text<'_>>, wanted: &str| {
        text.as_ref().is_some_and(|Text(text)| text == wanted)
    };
    let counts = message.usage.as_deref();
    if message.id.is_none() {
        Some("a message without an id")
    } else if !is(&message.kind, "message") {
        Some("a message without its type")
    } else if !is(&message.role, "assistant") {
        Some("a message without the role assistant")
    } else if message.model.is_none() {
        Some("a message without a model")
    } else if message.content.is_none() {
        Some("a message without content")
    } else if message
        .content
        .as_ref()
        .is_some_and(|list| !list.is_empty())
    {
        Some("content in message_start")
    } else {
        counts_flaw(counts)
    }
}

pub(super) fn counts_flaw(counts: Option<&Counts>) -> Flaw {
    match counts {
        None => Some("a message without usage"),
        Some(counts) if counts.input_tokens.is_none() || counts.output_tokens.is_none() => {
            Some("usage without input_tokens or output_tokens")
        }
        Some(_) => None,
    }
}

/// Names the fault of a JSON value that could not be read, without any of its content.
pub(super) fn reason(value: &Value, fault: &serde_json::Error) -> &'static str {
    if !value.is_object() {
        "no JSON object"
    } else if fault.to_string().starts_with("duplicate field") {
        "a member comes twice"
    } else if fault.to_string().starts_with("a list of too many") {
        "a list of too many items"
    } else {
        "a member has the wrong type"
    }
}
