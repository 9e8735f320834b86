//! Wire text of Anthropic messages, as an honest relay reads and writes it.

use serde_json::{Value, json};

use super::{ApiError, Event, Reason, Usage, Voice, quoted};
use crate::sim::ask::{self, Ask, Refusal};

/// Reads a request body.
pub(in crate::sim) fn parse(body: &[u8]) -> Result<Ask, Refusal> {
    let members = ask::members(body)?;
    let model = ask::model(&members)?;
    let messages = match members.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => return Err(Refusal::of("messages", "messages: a filled list is needed")),
    };
    let system = ask::text_of(members.get("system"))?;
    let mut prompt_tokens = ask::tokens(&system);
    let mut last_user = String::new();
    for message in messages {
        let Some(role @ ("user" | "assistant")) = message.get("role").and_then(Value::as_str)
        else {
            return Err(Refusal::of(
                "messages",
                "messages: a role is `user` or `assistant`",
            ));
        };
        let text = ask::text_of(message.get("content"))?;
        prompt_tokens += ask::tokens(&text);
        if role == "user" {
            last_user = text;
        }
    }
    let Some(max_tokens) = ask::count(&members, "max_tokens")? else {
        return Err(Refusal::of("max_tokens", "max_tokens: Field required"));
    };
    Ok(Ask {
        model,
        stream: ask::flag(members.get("stream"), "stream")?,
        usage: true,
        max_tokens: Some(max_tokens),
        seal: ask::seal(&last_user),
        lines: ask::lines(&last_user),
        prompt_tokens,
    })
}

/// Writes the events of one answer, which is one block of text.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Messages {
    id: String,
    model: String,
    prompt_tokens: u64,
}

impl Messages {
    /// The voice of the answer `id` to a prompt of so many tokens.
    pub(in crate::sim) fn new(id: &str, model: &str, prompt_tokens: u64) -> Self {
        Self {
            id: id.to_owned(),
            model: model.to_owned(),
            prompt_tokens,
        }
    }

    fn counts(&self, output: u64) -> String {
        format!(
            r#"{{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":{output}}}"#,
            self.prompt_tokens
        )
    }
}

/// An event whose type is its name.
fn event(name: &'static str, rest: &str) -> Event {
    let comma = if rest.is_empty() { "" } else { "," };
    Event {
        name: Some(name),
        ..Event::unnamed(format!(r#"{{"type":"{name}"{comma}{rest}}}"#))
    }
}

impl Voice for Messages {
    fn opening(&mut self) -> Vec<Event> {
        let message = format!(
            r#""message":{{"id":{},"type":"message","role":"assistant","model":{},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{}}}"#,
            quoted(&self.id),
            quoted(&self.model),
            self.counts(1),
        );
        vec![
            event("message_start", &message),
            event(
                "content_block_start",
                r#""index":0,"content_block":{"type":"text","text":""}"#,
            ),
            event("ping", ""),
        ]
    }

    fn token(&mut self, text: &str) -> Event {
        let text = quoted(text);
        event(
            "content_block_delta",
            &format!(r#""index":0,"delta":{{"type":"text_delta","text":{text}}}"#),
        )
    }

    fn closing(&mut self, reason: Reason, usage: Usage) -> Vec<Event> {
        let last = format!(
            r#""delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{{"output_tokens":{}}}"#,
            stop_reason(reason),
            usage.completion,
        );
        let mut events = vec![
            event("content_block_stop", r#""index":0"#),
            event("message_delta", &last),
        ];
        events.extend(self.mark());
        events
    }

    fn mark(&mut self) -> Vec<Event> {
        vec![event("message_stop", "")]
    }

    fn error(&mut self) -> Event {
        event(
            "error",
            r#""error":{"type":"api_error","message":"the upstream server failed"}"#,
        )
    }

    fn whole(&self, text: &str, reason: Reason, usage: Usage) -> String {
        format!(
            r#"{{"id":{},"type":"message","role":"assistant","model":{},"content":[{{"type":"text","text":{}}}],"stop_reason":"{}","stop_sequence":null,"usage":{}}}"#,
            quoted(&self.id),
            quoted(&self.model),
            quoted(text),
            stop_reason(reason),
            self.counts(usage.completion),
        )
    }
}

const fn stop_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Stop => "end_turn",
        Reason::Length => "max_tokens",
    }
}

/// An error object in the API's shape, which names the kind by the status.
pub(in crate::sim) fn error(error: &ApiError<'_>) -> String {
    let kind = match error.status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        504 => "timeout_error",
        503 | 529 => "overloaded_error",
        _ => "api_error",
    };
    json!({"type": "error", "error": {"type": kind, "message": error.message}}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(members: Value) -> Result<Ask, Refusal> {
        let mut body = json!({
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Go. End your answer with `END`."}],
        });
        for (name, value) in members.as_object().unwrap() {
            body[name] = value.clone();
        }
        parse(body.to_string().as_bytes())
    }

    #[test]
    fn a_request_is_read_with_its_system_text() {
        let read = ask(json!({"system": [{"type": "text", "text": "be brief"}]})).unwrap();
        assert_eq!(
            (read.prompt_tokens, read.max_tokens, read.stream),
            (8, Some(9), false)
        );
        assert_eq!(read.seal.as_deref(), Some("END"));
    }

    #[test]
    fn what_the_api_would_refuse_is_refused_with_the_member_named() {
        for (members, param) in [
            (json!({"model": ""}), "model"),
            (json!({"messages": []}), "messages"),
            (
                json!({"messages": [{"role": "system", "content": "x"}]}),
                "messages",
            ),
            (
                json!({"messages": [{"role": "user", "content": 1}]}),
                "messages",
            ),
            (json!({"max_tokens": null}), "max_tokens"),
            (json!({"max_tokens": 0}), "max_tokens"),
            (json!({"stream": 1}), "stream"),
        ] {
            let refused = ask(members.clone()).unwrap_err();
            assert_eq!(refused.param, Some(param), "{members}");
        }
    }

    #[test]
    fn every_event_is_json_of_the_type_that_it_is_named_by() {
        let mut voice = Messages::new("id", "a\"b", 2);
        let usage = Usage {
            prompt: 2,
            completion: 3,
        };
        let mut events = voice.opening();
        events.push(voice.token("say \"hi\"\n"));
        events.extend(voice.closing(Reason::Length, usage));
        events.push(voice.error());
        let names: Vec<&str> = events.iter().filter_map(|event| event.name).collect();
        assert_eq!(
            names,
            [
                "message_start",
                "content_block_start",
                "ping",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
                "error"
            ]
        );
        for event in &events {
            let value: Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(value["type"].as_str(), event.name);
        }
        let whole: Value = serde_json::from_str(&voice.whole("a\"", Reason::Stop, usage)).unwrap();
        assert_eq!(whole["model"], "a\"b");
        assert_eq!(whole["usage"]["output_tokens"], 3);
    }
}
