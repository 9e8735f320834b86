//! The request: messages, and usage at the end of a stream.

use serde_json::{Map, Value, json};

use crate::dialect::Prompt;

/// Path of the request, under a base URL that ends in `/v1`.
pub(in crate::dialect) fn path() -> String {
    "/chat/completions".to_owned()
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
pub(in crate::dialect) fn body(prompt: &Prompt) -> Vec<u8> {
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
