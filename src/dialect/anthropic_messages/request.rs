//! The request: turns, the system's text, and the budget that everybody has to set.

use serde_json::{Map, Value, json};

use crate::dialect::{BUDGETS, Prompt, budget as common_budget};

/// Output budget where a request sets none: the protocol wants one from everybody.
pub(super) const DEFAULT_BUDGET: u64 = 4096;

/// Path of the request, under a base URL without a version.
pub(in crate::dialect) fn path() -> String {
    "/v1/messages".to_owned()
}

/// Most tokens that a request with these parameters lets an answer have.
pub(in crate::dialect) fn budget(params: &Map<String, Value>) -> u64 {
    common_budget(params).unwrap_or(DEFAULT_BUDGET)
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
///
/// Common names become the protocol's own (`max_tokens`, `stop_sequences`), and messages of the
/// system and the developer its `system` text. Usage is reported without asking.
pub(in crate::dialect) fn body(prompt: &Prompt) -> Vec<u8> {
    let mut members = prompt.params.clone();
    for name in BUDGETS {
        members.remove(name);
    }
    members.remove("stream_options");
    members.insert("max_tokens".to_owned(), budget(&prompt.params).into());
    if let Some(stop) = members.remove("stop").filter(|stop| !stop.is_null()) {
        let sequences = match stop {
            Value::Array(_) => stop,
            one @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Object(_)) => Value::Array(vec![one]),
        };
        members.entry("stop_sequences").or_insert_with(|| sequences);
    }
    members.insert("model".to_owned(), Value::String(prompt.model.clone()));
    let (system, turns): (Vec<_>, Vec<_>) = prompt
        .messages
        .iter()
        .partition(|message| matches!(message.role.as_str(), "system" | "developer"));
    if !system.is_empty() {
        let texts: Vec<&str> = system.iter().map(|message| &*message.content).collect();
        members.insert("system".to_owned(), Value::String(texts.join("\n\n")));
    }
    let turns = turns
        .iter()
        .map(|message| json!({"role": message.role, "content": message.content}))
        .collect();
    members.insert("messages".to_owned(), Value::Array(turns));
    members.insert("stream".to_owned(), Value::Bool(prompt.stream));
    Value::Object(members).to_string().into_bytes()
}
