//! Wire text of OpenAI chat completions, as an honest relay reads and writes it.

use serde_json::{Value, json};

use super::{Event, Reason, Usage, Voice, quoted};
use crate::sim::ask::{self, Ask, Refusal};

/// Reads a request body.
pub(in crate::sim) fn parse(body: &[u8]) -> Result<Ask, Refusal> {
    let members = ask::members(body)?;
    let model = ask::model(&members)?;
    let messages = match members.get("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        _ => return Err(Refusal::of("messages", "`messages` must be a filled list")),
    };
    let mut last_user = String::new();
    let mut prompt_tokens = 0;
    for message in messages {
        let Some(role) = message.get("role").and_then(Value::as_str) else {
            return Err(Refusal::of("messages", "each message needs a `role`"));
        };
        let text = ask::text_of(message.get("content"))?;
        prompt_tokens += ask::tokens(&text);
        if role == "user" {
            last_user = text;
        }
    }
    if ask::count(&members, "n")?.is_some_and(|n| n != 1) {
        return Err(Refusal::of("n", "only one choice is offered"));
    }
    let max_tokens = match ask::count(&members, "max_completion_tokens")? {
        Some(limit) => Some(limit),
        None => ask::count(&members, "max_tokens")?,
    };
    Ok(Ask {
        model,
        stream: ask::flag(members.get("stream"), "stream")?,
        usage: ask::flag(
            members
                .get("stream_options")
                .and_then(|options| options.get("include_usage")),
            "stream_options",
        )?,
        max_tokens,
        seal: ask::seal(&last_user),
        lines: ask::lines(&last_user),
        prompt_tokens,
    })
}

/// Writes the events of one answer; what is the same in all of them is rendered once.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Chat {
    id: String,
    created: u64,
    model: String,
    usage: bool,
    before: String,
    after: &'static str,
}

impl Chat {
    /// The voice of the answer `id`; with `usage`, every event has a `usage` member.
    pub(in crate::sim) fn new(id: &str, created: u64, model: &str, usage: bool) -> Self {
        Self {
            id: id.to_owned(),
            created,
            model: model.to_owned(),
            usage,
            before: format!(
                r#"{{"id":{},"object":"chat.completion.chunk","created":{created},"model":{},"system_fingerprint":"fp_embedded","choices":"#,
                quoted(id),
                quoted(model),
            ),
            after: if usage { r#","usage":null}"# } else { "}" },
        }
    }

    fn choice(&self, delta: &str, finish: &str) -> Event {
        let data = [
            &self.before,
            r#"[{"index":0,"delta":"#,
            delta,
            r#","logprobs":null,"finish_reason":"#,
            finish,
            "}]",
            self.after,
        ]
        .concat();
        Event::unnamed(data)
    }
}

impl Voice for Chat {
    fn opening(&mut self) -> Vec<Event> {
        vec![self.choice(r#"{"role":"assistant","content":""}"#, "null")]
    }

    fn token(&mut self, text: &str) -> Event {
        self.choice(&format!(r#"{{"content":{}}}"#, quoted(text)), "null")
    }

    fn closing(&mut self, reason: Reason, usage: Usage) -> Vec<Event> {
        let mut events = vec![self.choice("{}", &quoted(finish_reason(reason)))];
        if self.usage {
            let counts = counts(usage);
            let data = format!(r#"{}[],"usage":{counts}}}"#, self.before);
            events.push(Event::unnamed(data));
        }
        events.extend(self.mark());
        events
    }

    fn mark(&mut self) -> Vec<Event> {
        vec![Event::unnamed("[DONE]".to_owned())]
    }

    fn error(&mut self) -> Event {
        Event::unnamed(error(
            "the upstream server failed",
            "server_error",
            None,
            Some("upstream_error"),
        ))
    }

    fn whole(&self, text: &str, reason: Reason, usage: Usage) -> String {
        json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": "fp_embedded",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": null},
                "logprobs": null,
                "finish_reason": finish_reason(reason),
            }],
            "usage": counts(usage),
        })
        .to_string()
    }
}

const fn finish_reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Stop => "stop",
        Reason::Length => "length",
    }
}

fn counts(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
    })
}

/// An error object in the API's shape.
pub(in crate::sim) fn error(
    message: &str,
    kind: &str,
    param: Option<&str>,
    code: Option<&str>,
) -> String {
    json!({"error": {"message": message, "type": kind, "param": param, "code": code}}).to_string()
}

/// The list of models.
pub(in crate::sim) fn models() -> String {
    json!({
        "object": "list",
        "data": [{
            "id": "embedded",
            "object": "model",
            "created": 1_700_000_000,
            "owned_by": "embedded-relay",
        }],
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(user: &str) -> Ask {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": user}]});
        parse(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_seal_is_the_back_ticked_text_after_the_cue() {
        let ask = ask("Say `this`. End your answer with `END-0123abcd`.");
        assert_eq!(ask.seal.as_deref(), Some("END-0123abcd"));
    }

    #[test]
    fn a_prompt_without_the_cue_or_with_an_open_quote_asks_for_no_seal() {
        assert_eq!(ask("Say `this`.").seal, None);
        assert_eq!(ask("End your answer with `END").seal, None);
        assert_eq!(ask("End your answer with ``.").seal, None);
    }

    #[test]
    fn only_the_last_user_message_can_ask_for_a_seal() {
        let body = json!({"model": "m", "messages": [
            {"role": "user", "content": "End your answer with `A`."},
            {"role": "user", "content": [{"type": "text", "text": "and end your answer with `B`"}]},
            {"role": "assistant", "content": "End your answer with `C`."},
        ]});
        let ask = parse(body.to_string().as_bytes()).unwrap();
        assert_eq!(ask.seal.as_deref(), Some("B"));
    }

    #[test]
    fn what_the_api_would_refuse_is_refused_with_the_member_named() {
        for (body, param) in [
            (r#"{"messages":[{"role":"user"}]}"#, Some("model")),
            (r#"{"model":"m","messages":[]}"#, Some("messages")),
            (r#"{"model":"m","messages":[{}]}"#, Some("messages")),
            (
                r#"{"model":"m","messages":[{"role":"user","content":1}]}"#,
                Some("messages"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"}],"stream":1}"#,
                Some("stream"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"}],"max_tokens":0}"#,
                Some("max_tokens"),
            ),
            (
                r#"{"model":"m","messages":[{"role":"user"}],"n":2}"#,
                Some("n"),
            ),
            ("[]", None),
            ("{", None),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err().param, param, "{body}");
        }
    }

    #[test]
    fn every_event_is_json_and_text_is_escaped() {
        let mut voice = Chat::new("id", 1, "a\"b", true);
        let usage = Usage {
            prompt: 2,
            completion: 3,
        };
        let mut events = voice.opening();
        events.push(voice.token("say \"hi\"\n"));
        events.extend(voice.closing(Reason::Stop, usage));
        assert_eq!(events.pop().unwrap().data, "[DONE]");
        let whole = voice.whole("text", Reason::Stop, usage);
        for data in events.iter().map(|event| &event.data).chain([&whole]) {
            let value: Value = serde_json::from_str(data).unwrap();
            assert_eq!(value["model"], "a\"b", "{data}");
        }
        let value: Value = serde_json::from_str(&events[1].data).unwrap();
        assert_eq!(value["choices"][0]["delta"]["content"], "say \"hi\"\n");
        assert_eq!(value["usage"], Value::Null);
    }
}
