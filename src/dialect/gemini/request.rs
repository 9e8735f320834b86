//! The request: contents, system instruction, and where each parameter belongs.

use serde_json::{Map, Value, json};

use crate::dialect::{BUDGETS, Prompt, budget};

/// Parameters that every workload may set, by the name that this protocol has for them.
const RENAMED: [(&str, &str); 8] = [
    ("top_p", "topP"),
    ("top_k", "topK"),
    ("stop", "stopSequences"),
    ("n", "candidateCount"),
    ("presence_penalty", "presencePenalty"),
    ("frequency_penalty", "frequencyPenalty"),
    ("logprobs", "responseLogprobs"),
    ("top_logprobs", "logprobs"),
];

/// Members of the generation's settings that keep their name.
const SETTINGS: [&str; 20] = [
    "temperature",
    "seed",
    "maxOutputTokens",
    "topP",
    "topK",
    "stopSequences",
    "candidateCount",
    "presencePenalty",
    "frequencyPenalty",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "responseModalities",
    "responseLogprobs",
    "enableEnhancedCivicAnswers",
    "speechConfig",
    "imageConfig",
    "thinkingConfig",
    "mediaResolution",
    "routingConfig",
];

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
pub(in crate::dialect) fn body(prompt: &Prompt) -> Vec<u8> {
    let mut members = Map::new();
    let mut settings = Map::new();
    for (name, value) in &prompt.params {
        let name = name.as_str();
        let value = value.clone();
        let renamed = RENAMED.iter().find(|(common, _)| *common == name);
        if let Some((_, own)) = renamed {
            settings.insert((*own).to_owned(), setting(own, value));
        } else if SETTINGS.contains(&name) {
            settings.insert(name.to_owned(), value);
        } else if let ("generationConfig", Value::Object(given)) = (name, &value) {
            for (name, value) in given {
                settings.entry(name).or_insert_with(|| value.clone());
            }
        } else if !BUDGETS.contains(&name) {
            members.insert(name.to_owned(), value);
        }
    }
    if let Some(budget) = budget(&prompt.params) {
        settings.insert("maxOutputTokens".to_owned(), json!(budget));
    }
    let (system, turns): (Vec<_>, Vec<_>) = prompt
        .messages
        .iter()
        .partition(|message| matches!(message.role.as_str(), "system" | "developer"));
    let part = |text: &str| json!({"text": text});
    // A request needs a turn; instructions alone are the user's.
    let (system, turns) = if turns.is_empty() {
        (turns, system)
    } else {
        (system, turns)
    };
    let contents = turns
        .iter()
        .map(|message| {
            let role = match message.role.as_str() {
                "assistant" | "model" => "model",
                _ => "user",
            };
            json!({"role": role, "parts": [part(&message.content)]})
        })
        .collect();
    members.insert("contents".to_owned(), Value::Array(contents));
    if !system.is_empty() {
        let parts: Vec<_> = system
            .iter()
            .map(|message| part(&message.content))
            .collect();
        members.insert("systemInstruction".to_owned(), json!({"parts": parts}));
    }
    if !settings.is_empty() {
        members.insert("generationConfig".to_owned(), Value::Object(settings));
    }
    Value::Object(members).to_string().into_bytes()
}

/// A parameter's value in this protocol's form.
fn setting(own: &str, value: Value) -> Value {
    match (own, value) {
        ("stopSequences", Value::String(one)) => json!([one]),
        (_, value) => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Message;

    fn sent(messages: &[(&str, &str)], params: Value) -> Value {
        let message = |(role, content): &(&str, &str)| Message {
            role: (*role).to_owned(),
            content: (*content).to_owned(),
        };
        let prompt = Prompt {
            model: "m".to_owned(),
            messages: messages.iter().map(message).collect(),
            params: params.as_object().cloned().unwrap_or_default(),
            stream: true,
            usage: true,
        };
        serde_json::from_slice(&body(&prompt)).unwrap()
    }

    #[test]
    fn a_bare_prompt_is_contents_and_nothing_else() {
        assert_eq!(
            sent(&[("user", "Hi")], json!({})),
            json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
        );
    }

    #[test]
    fn instructions_stand_apart_and_the_assistant_is_the_model() {
        let body = sent(
            &[
                ("system", "Be brief."),
                ("user", "Hi"),
                ("assistant", "Hello"),
                ("developer", "In verse."),
                ("user", "Again"),
            ],
            json!({}),
        );
        assert_eq!(
            body,
            json!({
                "systemInstruction": {"parts": [{"text": "Be brief."}, {"text": "In verse."}]},
                "contents": [
                    {"role": "user", "parts": [{"text": "Hi"}]},
                    {"role": "model", "parts": [{"text": "Hello"}]},
                    {"role": "user", "parts": [{"text": "Again"}]},
                ],
            })
        );
        let alone = sent(&[("system", "Hi")], json!({}));
        assert_eq!(
            alone,
            json!({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
        );
    }

    #[test]
    fn common_parameters_get_the_protocols_own_names() {
        let body = sent(
            &[("user", "Hi")],
            json!({
                "max_tokens": 7,
                "max_completion_tokens": 9,
                "temperature": 0.5,
                "top_p": 0.9,
                "stop": "END",
                "n": 2,
                "seed": 1,
                "contents": "no",
            }),
        );
        assert_eq!(
            body,
            json!({
                "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
                "generationConfig": {
                    "maxOutputTokens": 9,
                    "temperature": 0.5,
                    "topP": 0.9,
                    "stopSequences": ["END"],
                    "candidateCount": 2,
                    "seed": 1,
                },
            })
        );
        let list = sent(&[("user", "Hi")], json!({"stop": ["a", "b"]}));
        assert_eq!(
            list["generationConfig"],
            json!({"stopSequences": ["a", "b"]})
        );
    }

    #[test]
    fn members_of_the_protocol_pass_through_to_their_place() {
        let body = sent(
            &[("user", "Hi")],
            json!({
                "safetySettings": [],
                "thinkingConfig": {"thinkingBudget": 0},
                "generationConfig": {"topK": 4, "maxOutputTokens": 3, "new": true},
                "max_tokens": 8,
            }),
        );
        assert_eq!(body["safetySettings"], json!([]));
        assert_eq!(
            body["generationConfig"],
            json!({
                "topK": 4,
                "maxOutputTokens": 8,
                "new": true,
                "thinkingConfig": {"thinkingBudget": 0},
            })
        );
    }
}
