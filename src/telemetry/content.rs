//! What spans say of prompts and answers: nothing, hashes, or the texts.
//!
//! Content comes in beside the evidence and leaves in the span of its call, nowhere else; so spans
//! that are drawn again from evidence have none of it.

use std::fmt::Write;

use opentelemetry::KeyValue;
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::semconv;
use super::spans::bounded_to;
use crate::plan::Content;
use crate::probe::call::Said;

/// Longest prompt and longest answer, in bytes.
const MOST: usize = 2048;

/// The key under which one process hashes: random, and kept nowhere.
///
/// Equal texts of one run have equal hashes; nobody can try out texts against a hash later.
#[derive(Clone)]
pub(super) struct HashKey([u8; 32]);

impl HashKey {
    pub(super) fn random() -> Self {
        let ids = RandomIdGenerator::default();
        let mut key = [0; 32];
        let (low, high) = key.split_at_mut(16);
        low.copy_from_slice(&ids.new_trace_id().to_bytes());
        high.copy_from_slice(&ids.new_trace_id().to_bytes());
        Self(key)
    }

    fn of(&self, parts: &[&str]) -> String {
        let mut hash = Sha256::new().chain_update(self.0);
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut hex = String::with_capacity(32);
        for byte in hash.finalize().iter().take(16) {
            // Writing to a String does not fail.
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}

/// The attributes of a call's span for what was said in it.
pub(super) fn attributes(content: Content, said: &Said, key: &HashKey) -> Vec<KeyValue> {
    let chars = |texts: &mut dyn Iterator<Item = &str>| {
        let count: usize = texts.map(|text| text.chars().count()).sum();
        i64::try_from(count).unwrap_or(i64::MAX)
    };
    let prompt = || said.prompt.iter().map(|message| message.content.as_str());
    let answer = said.answer.as_deref();
    let mut attributes = Vec::new();
    match content {
        Content::None => return attributes,
        Content::Hash => {
            let parts: Vec<&str> = said
                .prompt
                .iter()
                .flat_map(|message| [message.role.as_str(), message.content.as_str()])
                .collect();
            attributes.push(KeyValue::new(semconv::RELAY_PROMPT_HASH, key.of(&parts)));
            if let Some(answer) = answer {
                attributes.push(KeyValue::new(semconv::RELAY_ANSWER_HASH, key.of(&[answer])));
            }
        }
        Content::Full => {
            let mut room = MOST;
            let input: Vec<Value> = said
                .prompt
                .iter()
                .map(|message| {
                    let text = bounded_to(&message.content, room);
                    room -= text.len();
                    spoken(&message.role, text)
                })
                .collect();
            let input = Value::from(input).to_string();
            attributes.push(KeyValue::new(semconv::GEN_AI_INPUT_MESSAGES, input));
            if let Some(answer) = answer {
                let output = json!([spoken("assistant", bounded_to(answer, MOST))]).to_string();
                attributes.push(KeyValue::new(semconv::GEN_AI_OUTPUT_MESSAGES, output));
            }
        }
    }
    let count = chars(&mut prompt());
    attributes.push(KeyValue::new(semconv::RELAY_PROMPT_CHARS, count));
    if let Some(answer) = answer {
        let count = chars(&mut [answer].into_iter());
        attributes.push(KeyValue::new(semconv::RELAY_ANSWER_CHARS, count));
    }
    attributes
}

/// A message in the shape of the GenAI conventions.
fn spoken(role: &str, text: &str) -> Value {
    json!({ "role": role, "parts": [{ "type": "text", "content": text }] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Message;

    fn said(prompt: &str, answer: &str) -> Said {
        Said {
            prompt: vec![Message {
                role: "user".into(),
                content: prompt.into(),
            }],
            answer: Some(answer.into()),
        }
    }

    fn value(content: Content, said: &Said, key: &HashKey, name: &str) -> Option<String> {
        let all = attributes(content, said, key);
        let found = all.iter().find(|it| it.key.as_str() == name)?;
        Some(found.value.as_str().into_owned())
    }

    #[test]
    fn equal_answers_of_one_run_have_equal_hashes_and_no_text_is_told() {
        let key = HashKey::random();
        let hash = |key: &HashKey, text: &str| {
            value(
                Content::Hash,
                &said("p", text),
                key,
                semconv::RELAY_ANSWER_HASH,
            )
            .unwrap()
        };
        assert_eq!(hash(&key, "secret text"), hash(&key, "secret text"));
        assert_ne!(hash(&key, "secret text"), hash(&key, "secret texT"));
        assert_ne!(
            hash(&key, "secret text"),
            hash(&HashKey::random(), "secret text")
        );
        let all = format!(
            "{:?}",
            attributes(Content::Hash, &said("prompt", "secret"), &key)
        );
        assert!(!all.contains("secret"), "{all}");
        assert_eq!(attributes(Content::None, &said("p", "a"), &key), []);
    }

    #[test]
    fn texts_are_cut_at_a_character_and_stay_json() {
        let long = "é".repeat(5000);
        let said = said(&long, &long);
        let key = HashKey::random();
        for name in [
            semconv::GEN_AI_INPUT_MESSAGES,
            semconv::GEN_AI_OUTPUT_MESSAGES,
        ] {
            let text = value(Content::Full, &said, &key, name).unwrap();
            let messages: Value = serde_json::from_str(&text).unwrap();
            let content = messages[0]["parts"][0]["content"].as_str().unwrap();
            assert_eq!(content.chars().count(), 1024, "{name}");
        }
        let chars = value(Content::Full, &said, &key, semconv::RELAY_ANSWER_CHARS);
        assert_eq!(chars.as_deref(), Some("5000"));
    }
}
