//! Streams of OpenAI responses in the making, and what an exchange sees of them.

use std::time::Duration;

use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{Loss, Observation};
use relayproof::stream::{Asked, Exchange, Head, Input, Timeouts};
use serde_json::{Map, Value, json};

/// How a response ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// As HTTP says it should.
    Clean,
    Reset,
    /// Never: the connection stays open.
    Hang,
}

/// One response, and what was asked for.
pub(crate) struct Play {
    kind: &'static str,
    pieces: Vec<Vec<u8>>,
    pub(crate) gap_ms: u64,
    end: End,
    asked: Asked,
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Lets time pass, deadlines included.
pub(crate) fn pass(exchange: &mut Exchange, until: Duration) {
    while let Some((due, _)) = exchange.deadline()
        && due <= until
    {
        exchange.handle(due, Input::Deadline);
    }
}

impl Play {
    pub(crate) fn of(pieces: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self {
            kind: "text/event-stream",
            pieces: pieces.into_iter().map(Into::into).collect(),
            gap_ms: 20,
            end: End::Clean,
            asked: Asked {
                protocol: Protocol::OpenaiResponses,
                stream: true,
                model: "test-model".to_owned(),
                max_tokens: None,
                usage: false,
                seal: None,
                request_bytes: 100,
                expect: Expect::default(),
                keep_text: true,
            },
        }
    }

    pub(crate) fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    pub(crate) fn under(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    pub(crate) fn asking(mut self, change: fn(&mut Asked)) -> Self {
        change(&mut self.asked);
        self
    }

    pub(crate) fn seen(self) -> Observation {
        let limits = Timeouts {
            first_token: ms(5_000),
            idle: ms(2_000),
            total: ms(30_000),
            ..Timeouts::default()
        };
        let mut exchange = Exchange::new(self.asked, limits);
        let head = Head {
            status: 200,
            version: "1.1",
            headers: vec![("content-type", self.kind.as_bytes())],
        };
        exchange.handle(ms(100), Input::Head(head));
        let mut now = ms(200);
        for piece in &self.pieces {
            pass(&mut exchange, now);
            exchange.handle(now, Input::Body(piece));
            now += ms(self.gap_ms);
        }
        match self.end {
            End::Clean => exchange.handle(now, Input::BodyEnd),
            End::Reset => exchange.handle(now, Input::Lost(Loss::Reset)),
            End::Hang => pass(&mut exchange, ms(90_000)),
        }
        exchange.finish()
    }
}

/// A stream in the making: events with their type and number.
#[derive(Clone, Default)]
pub(crate) struct Script {
    pub(crate) next: u64,
    pub(crate) events: Vec<Value>,
}

pub(crate) fn response(id: &str, model: &str, status: &str, output: Value) -> Value {
    json!({
        "id": id, "object": "response", "created_at": 1_700_000_000, "status": status,
        "model": model, "output": output, "parallel_tool_calls": true, "tool_choice": "auto",
        "tools": [], "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "temperature": 1.0, "top_p": 1.0, "usage": null,
    })
}

pub(crate) fn message(id: &str, status: &str, content: Value) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
}

pub(crate) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

pub(crate) fn function(id: &str, call: &str, arguments: &str) -> Value {
    json!({
        "id": id, "type": "function_call", "status": "completed", "call_id": call, "name": "f",
        "arguments": arguments,
    })
}

pub(crate) fn usage(output: u64) -> Value {
    json!({
        "input_tokens": 9, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 9 + output,
    })
}

impl Script {
    /// Adds an event of this type.
    pub(crate) fn on(mut self, name: &str, members: Value) -> Self {
        let mut event = Map::new();
        event.insert("type".to_owned(), json!(name));
        event.insert("sequence_number".to_owned(), json!(self.next));
        event.extend(members.as_object().cloned().unwrap_or_default());
        self.next += 1;
        self.events.push(Value::Object(event));
        self
    }

    /// `response.created`, by this name and model.
    pub(crate) fn by(self, id: &str, model: &str) -> Self {
        let response = response(id, model, "in_progress", json!([]));
        self.on("response.created", json!({"response": response}))
    }

    pub(crate) fn item(self, index: u64, item: Value) -> Self {
        let members = json!({"output_index": index, "item": item});
        self.on("response.output_item.added", members)
    }

    pub(crate) fn item_done(self, index: u64, item: Value) -> Self {
        let members = json!({"output_index": index, "item": item});
        self.on("response.output_item.done", members)
    }

    /// An event of the message's text.
    pub(crate) fn at(self, name: &str, more: Value) -> Self {
        let mut members = json!({"item_id": "msg_1", "output_index": 0, "content_index": 0});
        merged(&mut members, more);
        self.on(name, members)
    }

    pub(crate) fn says(self, pieces: &[&str]) -> Self {
        pieces.iter().fold(self, |script, piece| {
            let members = json!({"delta": piece, "logprobs": []});
            script.at("response.output_text.delta", members)
        })
    }

    /// Text, part and message are closed with this text.
    pub(crate) fn closed(self, text: &str) -> Self {
        self.at("response.output_text.done", json!({"text": text}))
            .at(
                "response.content_part.done",
                json!({"part": text_part(text)}),
            )
            .item_done(0, message("msg_1", "completed", json!([text_part(text)])))
    }

    pub(crate) fn completed(self, output: Value) -> Self {
        let mut response = response("resp_1", "test-model", "completed", output);
        response["usage"] = usage(2);
        self.on("response.completed", json!({"response": response}))
    }

    /// A message that says this, in the final response.
    pub(crate) fn with_message(self, text: &str) -> Self {
        self.completed(json!([message(
            "msg_1",
            "completed",
            json!([text_part(text)])
        )]))
    }

    pub(crate) fn incomplete(self, details: Value, output: Value) -> Self {
        let mut response = response("resp_1", "test-model", "incomplete", output);
        response["incomplete_details"] = details;
        response["usage"] = usage(2);
        self.on("response.incomplete", json!({"response": response}))
    }

    /// Changes the event at a place.
    pub(crate) fn with(mut self, index: usize, change: impl FnOnce(&mut Value)) -> Self {
        if let Some(event) = self.events.get_mut(index) {
            change(event);
        }
        self
    }

    pub(crate) fn without(mut self, index: usize) -> Self {
        self.events.remove(index);
        self
    }

    /// Each event as it stands in a body.
    pub(crate) fn wire(&self) -> Vec<String> {
        self.events.iter().map(frame).collect()
    }

    pub(crate) fn play(&self) -> Play {
        Play::of(self.wire())
    }

    /// The same with further bytes behind.
    pub(crate) fn then(&self, rest: &[&str]) -> Play {
        let rest = rest.iter().map(|text| (*text).to_owned());
        Play::of(self.wire().into_iter().chain(rest))
    }
}

pub(crate) fn frame(event: &Value) -> String {
    let name = event["type"].as_str().unwrap_or("message");
    format!("event: {name}\ndata: {event}\n\n")
}

/// A response with a message whose text is open.
pub(crate) fn begun() -> Script {
    Script::default()
        .by("resp_1", "test-model")
        .item(0, message("msg_1", "in_progress", json!([])))
        .at(
            "response.content_part.added",
            json!({"part": text_part("")}),
        )
}

/// A whole answer.
pub(crate) fn hello() -> Script {
    begun()
        .says(&["Hello", " world"])
        .closed("Hello world")
        .with_message("Hello world")
}

/// Adds the members of one object to another.
pub(crate) fn merged(members: &mut Value, more: Value) {
    if let (Some(members), Value::Object(more)) = (members.as_object_mut(), more) {
        members.extend(more);
    }
}
