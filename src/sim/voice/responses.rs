//! Wire text of OpenAI responses, as an honest relay reads and writes it.

use serde_json::Value;

use super::{Event, Reason, Usage, Voice, quoted};
use crate::sim::ask::{self, Ask, Refusal};

/// Reads a request body.
pub(in crate::sim) fn parse(body: &[u8]) -> Result<Ask, Refusal> {
    let members = ask::members(body)?;
    let model = ask::model(&members)?;
    let mut prompt_tokens = match members.get("instructions") {
        None | Some(Value::Null) => 0,
        Some(Value::String(text)) => ask::tokens(text),
        Some(_) => {
            return Err(Refusal::of(
                "instructions",
                "`instructions` must be a string",
            ));
        }
    };
    let mut last_user = String::new();
    match members.get("input") {
        Some(Value::String(text)) => {
            prompt_tokens += ask::tokens(text);
            last_user.clone_from(text);
        }
        Some(Value::Array(items)) if !items.is_empty() => {
            for item in items {
                let role = item.get("role").and_then(Value::as_str);
                let kind = item.get("type").and_then(Value::as_str);
                if role.is_none() && matches!(kind, None | Some("message")) {
                    return Err(Refusal::of("input", "each message needs a `role`"));
                }
                let text = ask::text_of(item.get("content"))?;
                prompt_tokens += ask::tokens(&text);
                if role == Some("user") {
                    last_user = text;
                }
            }
        }
        _ => {
            return Err(Refusal::of(
                "input",
                "`input` must be a string or a filled list",
            ));
        }
    }
    for name in ["messages", "max_tokens", "max_completion_tokens"] {
        if members.contains_key(name) {
            return Err(Refusal::of(
                name,
                format!("unsupported parameter: `{name}`"),
            ));
        }
    }
    Ok(Ask {
        model,
        stream: ask::flag(members.get("stream"), "stream")?,
        usage: true,
        max_tokens: ask::count(&members, "max_output_tokens")?,
        seal: ask::seal(&last_user),
        lines: ask::lines(&last_user),
        prompt_tokens,
    })
}

/// Writes the events of one answer: one message with one text.
#[derive(Clone, Debug)]
pub(in crate::sim) struct Responses {
    id: String,
    item: String,
    created: u64,
    model: String,
    sequence: u64,
    text: String,
}

impl Responses {
    /// The voice of the answer `id`.
    pub(in crate::sim) fn new(id: &str, created: u64, model: &str) -> Self {
        let serial = id.strip_prefix("resp_").unwrap_or(id);
        Self {
            id: id.to_owned(),
            item: format!("msg_{serial}"),
            created,
            model: model.to_owned(),
            sequence: 0,
            text: String::new(),
        }
    }

    /// An event with the members that follow its type and number.
    fn event(&mut self, name: &'static str, members: &str) -> Event {
        let number = self.sequence;
        self.sequence += 1;
        let data = format!(r#"{{"type":"{name}","sequence_number":{number},{members}}}"#);
        Event {
            name: Some(name),
            ..Event::unnamed(data)
        }
    }

    fn response(&self, status: &str, reason: Option<Reason>, output: &str, usage: &str) -> String {
        let incomplete = match reason {
            Some(Reason::Length) => r#"{"reason":"max_output_tokens"}"#,
            Some(Reason::Stop) | None => "null",
        };
        format!(
            r#"{{"id":{},"object":"response","created_at":{},"status":"{status}","background":false,"error":null,"incomplete_details":{incomplete},"instructions":null,"max_output_tokens":null,"metadata":{{}},"model":{},"output":[{output}],"parallel_tool_calls":true,"previous_response_id":null,"reasoning":{{"effort":null,"summary":null}},"service_tier":"default","store":false,"temperature":1.0,"text":{{"format":{{"type":"text"}}}},"tool_choice":"auto","tools":[],"top_p":1.0,"truncation":"disabled","usage":{usage},"user":null}}"#,
            quoted(&self.id),
            self.created,
            quoted(&self.model),
        )
    }

    /// An event that holds the response.
    fn state(&mut self, name: &'static str, response: &str) -> Event {
        self.event(name, &format!(r#""response":{response}"#))
    }

    /// The place of the text, which its events share.
    fn place(&self) -> String {
        let item = quoted(&self.item);
        format!(r#""item_id":{item},"output_index":0,"content_index":0"#)
    }

    fn message(&self, status: &str, content: &str) -> String {
        format!(
            r#"{{"id":{},"type":"message","status":"{status}","role":"assistant","content":[{content}]}}"#,
            quoted(&self.item),
        )
    }
}

impl Voice for Responses {
    fn opening(&mut self) -> Vec<Event> {
        let response = self.response("in_progress", None, "", "null");
        let message = self.message("in_progress", "");
        let place = self.place();
        vec![
            self.state("response.created", &response),
            self.state("response.in_progress", &response),
            self.event(
                "response.output_item.added",
                &format!(r#""output_index":0,"item":{message}"#),
            ),
            self.event(
                "response.content_part.added",
                &format!(r#"{place},"part":{}"#, part("")),
            ),
        ]
    }

    fn token(&mut self, text: &str) -> Event {
        self.text += text;
        let members = [
            self.place().as_str(),
            r#","delta":"#,
            &quoted(text),
            r#","logprobs":[]"#,
        ]
        .concat();
        self.event("response.output_text.delta", &members)
    }

    fn closing(&mut self, reason: Reason, usage: Usage) -> Vec<Event> {
        let place = self.place();
        let (status, last) = ended(reason);
        let part = part(&self.text);
        let message = self.message(status, &part);
        let response = self.response(status, Some(reason), &message, &counts(usage));
        let text = quoted(&self.text);
        vec![
            self.event(
                "response.output_text.done",
                &format!(r#"{place},"text":{text},"logprobs":[]"#),
            ),
            self.event(
                "response.content_part.done",
                &format!(r#"{place},"part":{part}"#),
            ),
            self.event(
                "response.output_item.done",
                &format!(r#""output_index":0,"item":{message}"#),
            ),
            self.state(last, &response),
        ]
    }

    fn mark(&mut self) -> Vec<Event> {
        let response = self.response("completed", None, "", "null");
        vec![self.state("response.completed", &response)]
    }

    fn error(&mut self) -> Event {
        self.event(
            "error",
            r#""code":"upstream_error","message":"the upstream server failed","param":null"#,
        )
    }

    fn whole(&self, text: &str, reason: Reason, usage: Usage) -> String {
        let (status, _) = ended(reason);
        let message = self.message(status, &part(text));
        self.response(status, Some(reason), &message, &counts(usage))
    }
}

fn part(text: &str) -> String {
    format!(
        r#"{{"type":"output_text","annotations":[],"logprobs":[],"text":{}}}"#,
        quoted(text)
    )
}

/// The status that a reason leads to, and the event that says so.
const fn ended(reason: Reason) -> (&'static str, &'static str) {
    match reason {
        Reason::Stop => ("completed", "response.completed"),
        Reason::Length => ("incomplete", "response.incomplete"),
    }
}

fn counts(usage: Usage) -> String {
    format!(
        r#"{{"input_tokens":{},"input_tokens_details":{{"cached_tokens":0,"cache_write_tokens":0}},"output_tokens":{},"output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}}"#,
        usage.prompt,
        usage.completion,
        usage.prompt + usage.completion,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_is_a_string_or_messages() {
        let cue = "Count. End your answer with `END-1`.";
        for input in [
            json!(cue),
            json!([{"role": "user", "content": cue}]),
            json!([
                {"role": "system", "content": "End your answer with `NO`."},
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": cue}]},
                {"type": "function_call_output", "call_id": "c", "output": "x"},
            ]),
        ] {
            let body = json!({"model": "m", "input": input, "max_output_tokens": 9});
            let ask = parse(body.to_string().as_bytes()).unwrap();
            assert_eq!(ask.seal.as_deref(), Some("END-1"), "{input}");
            assert_eq!((ask.max_tokens, ask.stream), (Some(9), false));
        }
    }

    #[test]
    fn what_the_api_would_refuse_is_refused_with_the_member_named() {
        for (body, param) in [
            (r#"{"input":"x"}"#, Some("model")),
            (r#"{"model":"m"}"#, Some("input")),
            (r#"{"model":"m","input":[]}"#, Some("input")),
            (r#"{"model":"m","input":[{"content":"x"}]}"#, Some("input")),
            (
                r#"{"model":"m","input":"x","instructions":1}"#,
                Some("instructions"),
            ),
            (
                r#"{"model":"m","input":"x","messages":[]}"#,
                Some("messages"),
            ),
            (
                r#"{"model":"m","input":"x","max_tokens":9}"#,
                Some("max_tokens"),
            ),
            (
                r#"{"model":"m","input":"x","max_output_tokens":0}"#,
                Some("max_output_tokens"),
            ),
            ("[]", None),
        ] {
            assert_eq!(parse(body.as_bytes()).unwrap_err().param, param, "{body}");
        }
    }

    #[test]
    fn events_are_numbered_and_named_and_the_last_ones_hold_the_whole_text() {
        let mut voice = Responses::new("resp_1", 1, "a\"b");
        let usage = Usage {
            prompt: 2,
            completion: 3,
        };
        let mut events = voice.opening();
        events.push(voice.token("say \"hi\""));
        events.push(voice.token("\n"));
        events.extend(voice.closing(Reason::Length, usage));
        for (number, event) in events.iter().enumerate() {
            let value: Value = serde_json::from_str(&event.data).unwrap();
            assert_eq!(value["type"], event.name.unwrap());
            assert_eq!(value["sequence_number"], number);
        }
        let last: Value = serde_json::from_str(&events.pop().unwrap().data).unwrap();
        let whole: Value =
            serde_json::from_str(&voice.whole("say \"hi\"\n", Reason::Length, usage)).unwrap();
        assert_eq!(last["response"], whole);
        assert_eq!(whole["model"], "a\"b");
        assert_eq!(whole["output"][0]["content"][0]["text"], "say \"hi\"\n");
        assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
        assert_eq!(whole["usage"]["total_tokens"], 5);
    }
}
