//! The request: input, instructions, and the parameters by the names of this protocol.

use serde_json::{Value, json};

use crate::dialect::{BUDGETS, Prompt, budget};

/// Chat's names of parameters that this protocol has no place for.
const UNKNOWN_HERE: [&str; 3] = ["stop", "n", "messages"];

/// Path of the request, under a base URL that ends in `/v1`.
pub(in crate::dialect) fn path() -> String {
    "/responses".to_owned()
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
///
/// System messages at the head are the instructions; later ones keep their place.
pub(in crate::dialect) fn body(prompt: &Prompt) -> Vec<u8> {
    let mut members = prompt.params.clone();
    let budget = budget(&members).map(Value::from);
    let budgets = BUDGETS.iter().filter_map(|name| members.remove(*name));
    let other = budgets.last();
    if let Some(budget) = budget.or(other) {
        members.insert("max_output_tokens".to_owned(), budget);
    }
    for name in UNKNOWN_HERE {
        members.remove(name);
    }
    if let Some(Value::Object(options)) = members.get_mut("stream_options") {
        options.remove("include_usage");
        if options.is_empty() {
            members.remove("stream_options");
        }
    }
    members.insert("model".to_owned(), Value::String(prompt.model.clone()));
    let system = prompt.messages.iter();
    let system: Vec<&str> = system
        .take_while(|message| message.role == "system")
        .map(|message| message.content.as_str())
        .collect();
    if !system.is_empty() {
        let text = system.join("\n\n");
        members.insert("instructions".to_owned(), Value::String(text));
    }
    let rest = prompt.messages.iter().skip(system.len());
    let input = rest.map(|message| json!({"role": message.role, "content": message.content}));
    members.insert("input".to_owned(), Value::Array(input.collect()));
    members.insert("stream".to_owned(), Value::Bool(prompt.stream));
    Value::Object(members).to_string().into_bytes()
}
