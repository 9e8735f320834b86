//! OpenAI chat completions: request, chunks, `[DONE]`.
//!
//! Strict about what the protocol requires and blind to everything it does not name.

mod kept;
mod wire;

use serde_json::{Map, Value, json};

use super::error::Said;
use super::foreign::foreign;
use super::member::{Few, Loose, Text};
use super::twin::Twin;
use super::{DeltaKind, Frame, Prompt, Signal, Stop, Unreadable};
use crate::observation::{Usage, Warning};

pub(super) use kept::Kept;
use wire::{Chunk, Completion, Counts, Delta, Object};

/// Path of the request, under a base URL that ends in `/v1`.
pub(super) fn path() -> String {
    "/chat/completions".to_owned()
}

/// Whether data is the sentinel that ends the stream.
pub(super) fn is_end_mark(data: &str) -> bool {
    data.trim_ascii() == "[DONE]"
}

/// JSON body of the request; what the prompt fixes wins over a parameter of the same name.
pub(super) fn body(prompt: &Prompt) -> Vec<u8> {
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

/// Reads one event.
pub(super) fn frame(
    twin: &mut Twin<Kept>,
    frame: Frame<'_>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<(), Unreadable> {
    if let Some(chunk) = twin.find(frame.data) {
        read(frame, &chunk, sink);
        return Ok(());
    }
    if is_end_mark(frame.data) {
        sink(Signal::Terminator);
        return Ok(());
    }
    let named = !matches!(frame.name, "message" | "error");
    if frame.data.trim_ascii().is_empty() {
        if frame.name == "error" {
            sink(no_words());
        } else if !named {
            sink(Signal::Odd(Warning::EmptyEvent));
        }
        return Ok(());
    }
    match serde_json::from_str::<Chunk<'_>>(frame.data) {
        Ok(chunk) => {
            read(frame, &chunk, sink);
            twin.learn(frame.data, &chunk);
            Ok(())
        }
        Err(error) => foreign(frame, |value| reason(value, &error), sink),
    }
}

/// Says what a chunk says.
fn read(frame: Frame<'_>, chunk: &Chunk<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
    if frame.name == "error" {
        sink(no_words());
        return;
    }
    let role = chunk
        .choices
        .iter()
        .any(|choice| choice.delta.as_ref().is_some_and(|delta| delta.role));
    meta(
        &chunk.id,
        &chunk.model,
        chunk.system_fingerprint.as_ref(),
        role,
        sink,
    );
    if let Some(flaw) = flaw(chunk) {
        sink(Signal::Flaw(flaw));
    }
    error(chunk.error.as_deref(), sink);
    for choice in chunk.choices.iter() {
        if let Some(delta) = &choice.delta {
            output(choice.index, delta, sink);
        }
        error(choice.error.as_deref(), sink);
        finish(choice.index, choice.finish_reason.as_ref(), sink);
    }
    usage(chunk.usage.as_deref(), sink);
}

/// Reads a whole answer that was not streamed.
pub(super) fn answer(body: &str, sink: &mut dyn FnMut(Signal<'_>)) -> Result<(), Unreadable> {
    let whole = match serde_json::from_str::<Completion<'_>>(body) {
        Ok(whole) => whole,
        Err(error) => {
            let frame = Frame {
                name: "message",
                data: body,
            };
            return foreign(frame, |value| reason(value, &error), sink);
        }
    };
    if whole.choices.is_empty() && whole.error.is_none() {
        return Err(Unreadable::Shape("no choices"));
    }
    meta(
        &whole.id,
        &whole.model,
        whole.system_fingerprint.as_ref(),
        true,
        sink,
    );
    if whole.id.is_none() || whole.created.is_none() || whole.model.is_none() {
        sink(Signal::Flaw("a required member is missing"));
    }
    error(whole.error.as_deref(), sink);
    for choice in whole.choices.iter() {
        output(choice.index, &choice.message, sink);
        error(choice.error.as_deref(), sink);
        finish(choice.index, choice.finish_reason.as_ref(), sink);
    }
    usage(whole.usage.as_deref(), sink);
    sink(Signal::Terminator);
    Ok(())
}

fn no_words() -> Signal<'static> {
    Signal::Error {
        code: None,
        message: None,
    }
}

/// Names the fault of a JSON value that is no chunk, without any of its content.
fn reason(value: &Value, error: &serde_json::Error) -> &'static str {
    if !value.is_object() {
        return "no JSON object";
    }
    if value.get("choices").is_none() {
        return "no choices";
    }
    let text = error.to_string();
    if text.starts_with("missing field") {
        "a required member is missing"
    } else if text.starts_with("duplicate field") {
        "a member comes twice"
    } else if text.starts_with("a list of") {
        "a list of too many items"
    } else {
        "a member has the wrong type"
    }
}

/// The first fault of a chunk that can be read all the same.
fn flaw(chunk: &Chunk<'_>) -> Option<&'static str> {
    match chunk.object {
        Some(Object::Chunk) => {}
        Some(Object::Other) => return Some("the object is no chat.completion.chunk"),
        None => return Some("no object"),
    }
    if chunk.choices.iter().any(|choice| choice.message.is_some()) {
        return Some("a choice has a message in place of a delta");
    }
    if chunk.id.is_none() {
        return Some("no id");
    }
    if chunk.created.is_none() {
        return Some("no created");
    }
    chunk.model.is_none().then_some("no model")
}

fn meta(
    id: &Option<Text<'_>>,
    model: &Option<Text<'_>>,
    fingerprint: Option<&Loose<'_>>,
    role: bool,
    sink: &mut dyn FnMut(Signal<'_>),
) {
    sink(Signal::Meta {
        id: text(id.as_ref()),
        model: text(model.as_ref()),
        fingerprint: fingerprint
            .and_then(|loose| loose.0.as_deref())
            .and_then(filled),
        role,
    });
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn error(said: Option<&Said<'_>>, sink: &mut dyn FnMut(Signal<'_>)) {
    if let Some(said) = said.filter(|said| said.real) {
        sink(Signal::Error {
            code: said.code.as_deref(),
            message: said.message.as_deref(),
        });
    }
}

fn output(choice: u64, delta: &Delta<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
    let mut piece = |kind, text: Option<&str>| {
        if let Some(text) = text.and_then(filled) {
            sink(Signal::Delta { kind, choice, text });
        }
    };
    let Some(more) = delta.more.as_deref() else {
        piece(DeltaKind::Content, text(delta.content.as_ref()));
        return;
    };
    piece(DeltaKind::Reasoning, more.reasoning.as_deref());
    piece(DeltaKind::Content, text(delta.content.as_ref()));
    piece(DeltaKind::Refusal, text(more.refusal.as_ref()));
    error(more.error.as_ref(), sink);
    for call in more.tool_calls.iter().flat_map(Few::iter) {
        let function = call.function.as_ref();
        sink(Signal::ToolCall {
            choice,
            index: call.index,
            id: text(call.id.as_ref()),
            name: function.and_then(|function| text(function.name.as_ref())),
            arguments: function
                .and_then(|function| text(function.arguments.as_ref()))
                .unwrap_or_default(),
        });
    }
    if let Some(function) = &more.function_call {
        sink(Signal::ToolCall {
            choice,
            index: Some(0),
            id: None,
            name: text(function.name.as_ref()),
            arguments: text(function.arguments.as_ref()).unwrap_or_default(),
        });
    }
}

fn text<'a>(text: Option<&'a Text<'_>>) -> Option<&'a str> {
    text.and_then(|text| filled(&text.0))
}

fn finish(choice: u64, reason: Option<&Text<'_>>, sink: &mut dyn FnMut(Signal<'_>)) {
    let Some(Text(reason)) = reason else { return };
    if reason.is_empty() {
        sink(Signal::Odd(Warning::FinishReasonEmptyString));
        return;
    }
    let stop = stop(reason);
    if stop == Stop::Unknown {
        sink(Signal::Odd(Warning::UnknownFinishReason));
    }
    sink(Signal::Finish {
        choice,
        stop,
        reason,
    });
}

/// What a reason means; the second row of each kind is other providers' words that relays leak.
fn stop(reason: &str) -> Stop {
    match reason {
        "stop" => Stop::Natural,
        "length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter" => Stop::Filter,
        _ => match reason.to_ascii_lowercase().as_str() {
            "max_tokens" => Stop::Length,
            "safety"
            | "sensitive"
            | "recitation"
            | "blocklist"
            | "prohibited_content"
            | "spii"
            | "guardrail_intervened"
            | "content_filtered" => Stop::Filter,
            "abort"
            | "aborted"
            | "error"
            | "cancelled"
            | "canceled"
            | "failed"
            | "timeout"
            | "network_error"
            | "insufficient_system_resource"
            | "malformed_function_call"
            | "engine_error"
            | "server_error"
            | "interrupted" => Stop::Abort,
            _ => Stop::Unknown,
        },
    }
}

fn usage(counts: Option<&Counts>, sink: &mut dyn FnMut(Signal<'_>)) {
    if let Some(counts) = counts {
        sink(Signal::Usage(Usage {
            input: counts.prompt_tokens,
            output: counts.completion_tokens,
            reasoning: counts
                .completion_tokens_details
                .as_ref()
                .and_then(|details| details.reasoning_tokens),
            cached_input: counts
                .prompt_tokens_details
                .as_ref()
                .and_then(|details| details.cached_tokens),
            total: counts.total_tokens,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;

    /// What one event says, in short.
    fn said(name: &str, data: &str) -> Result<Vec<String>, Unreadable> {
        said_after(&mut Twin::default(), name, data)
    }

    fn said_after(
        twin: &mut Twin<Kept>,
        name: &str,
        data: &str,
    ) -> Result<Vec<String>, Unreadable> {
        let mut said = Vec::new();
        frame(twin, Frame { name, data }, &mut |signal| {
            said.push(match signal {
                Signal::Meta {
                    role,
                    id,
                    model,
                    fingerprint,
                } => {
                    let names = [id, model, fingerprint].map(Option::unwrap_or_default);
                    if names == ["c", "m", ""] {
                        format!("meta {role}")
                    } else {
                        format!("meta {role} {names:?}")
                    }
                }
                Signal::Delta { kind, text, .. } => format!("{kind:?} {text}"),
                Signal::ToolCall {
                    index,
                    name,
                    arguments,
                    ..
                } => format!("call {index:?} {} {arguments}", name.unwrap_or("-")),
                Signal::Finish { stop, reason, .. } => format!("{stop:?} {reason}"),
                Signal::Usage(usage) => format!("usage {:?}", usage.output),
                Signal::Error { code, .. } => format!("error {}", code.unwrap_or("-")),
                Signal::Flaw(detail) | Signal::CallFault(detail) => detail.to_owned(),
                Signal::Odd(warning) => warning.to_string(),
                Signal::Terminator => "end".to_owned(),
                Signal::Restart => "again".to_owned(),
            });
        })?;
        Ok(said)
    }

    fn chunk(choices: &str, more: &str) -> String {
        format!(
            "{{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\
             \"model\":\"m\",\"choices\":[{choices}]{more}}}"
        )
    }

    fn delta(members: &str) -> String {
        chunk(
            &format!("{{\"index\":0,\"delta\":{{{members}}},\"finish_reason\":null}}"),
            "",
        )
    }

    #[test]
    fn a_request_holds_the_prompt_and_asks_for_usage_only_in_a_stream() {
        let mut prompt = Prompt {
            model: "m".to_owned(),
            messages: vec![Message {
                role: "user".to_owned(),
                content: "Hi".to_owned(),
            }],
            params: Map::from_iter([
                ("max_tokens".to_owned(), json!(7)),
                ("model".to_owned(), json!("other")),
            ]),
            stream: true,
            usage: true,
        };
        let sent: Value = serde_json::from_slice(&body(&prompt)).unwrap();
        assert_eq!(
            sent,
            json!({
                "model": "m",
                "messages": [{"role": "user", "content": "Hi"}],
                "max_tokens": 7,
                "stream": true,
                "stream_options": {"include_usage": true},
            })
        );
        prompt.stream = false;
        let sent: Value = serde_json::from_slice(&body(&prompt)).unwrap();
        assert_eq!(sent.get("stream_options"), None);
    }

    #[test]
    fn every_legal_form_of_a_chunk_is_said() {
        for (data, expected) in [
            (
                delta("\"role\":\"assistant\",\"content\":\"\""),
                vec!["meta true"],
            ),
            (
                delta("\"content\":\"a\\nb\""),
                vec!["meta false", "Content a\nb"],
            ),
            (
                delta("\"content\":null,\"refusal\":\"no\""),
                vec!["meta false", "Refusal no"],
            ),
            (
                delta("\"reasoning\":\"r\",\"reasoning_content\":\"r\""),
                vec!["meta false", "Reasoning r"],
            ),
            (delta("\"reasoning\":{\"x\":1}"), vec!["meta false"]),
            (
                delta(
                    "\"tool_calls\":[{\"index\":1,\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]",
                ),
                vec!["meta false", "call Some(1) f {"],
            ),
            (
                delta("\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]"),
                vec!["meta false", "call None - {"],
            ),
            (
                delta("\"function_call\":{\"name\":\"f\",\"arguments\":\"\"}"),
                vec!["meta false", "call Some(0) f "],
            ),
            (
                chunk("", ",\"error\":null,\"usage\":null,\"x\":[1.5e3]"),
                vec!["meta false"],
            ),
            (
                chunk("", ",\"usage\":{\"completion_tokens\":3}"),
                vec!["meta false", "usage Some(3)"],
            ),
            (chunk("{\"index\":0}", ""), vec!["meta false"]),
            (
                chunk("{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}", ""),
                vec!["meta false", "Natural stop"],
            ),
            (
                chunk("{\"index\":0,\"delta\":{},\"finish_reason\":\"\"}", ""),
                vec!["meta false", "finish-reason-empty-string"],
            ),
            (
                chunk("{\"index\":0,\"delta\":{},\"finish_reason\":\"weird\"}", ""),
                vec!["meta false", "unknown-finish-reason", "Unknown weird"],
            ),
            (" [DONE] ".to_owned(), vec!["end"]),
            (String::new(), vec!["empty-event"]),
        ] {
            let heard = said("message", &data).unwrap();
            assert_eq!(heard, expected, "{data}");
        }
    }

    #[test]
    fn an_error_is_heard_in_every_shape_and_place() {
        for (name, data, code) in [
            ("message", "{\"error\":{\"code\":\"x\"}}".to_owned(), "x"),
            ("message", "{\"error\":\"boom\"}".to_owned(), "-"),
            ("message", chunk("", ",\"error\":{\"type\":\"x\"}"), "x"),
            (
                "message",
                chunk("{\"index\":0,\"delta\":{},\"error\":{\"code\":504}}", ""),
                "504",
            ),
            ("message", delta("\"error\":{\"code\":\"x\"}"), "x"),
            (
                "error",
                "{\"code\":\"rate_limited\"}".to_owned(),
                "rate_limited",
            ),
            ("error", "plain words".to_owned(), "-"),
            ("error", String::new(), "-"),
        ] {
            let heard = said(name, &data).unwrap();
            assert!(
                heard.contains(&format!("error {code}")),
                "{data}: {heard:?}"
            );
        }
    }

    #[test]
    fn a_missing_member_is_a_flaw_and_a_wrong_type_is_unreadable() {
        let whole = delta("\"content\":\"a\"");
        for (member, meta, flaw) in [
            ("\"id\":\"c\",", "meta false [\"\", \"m\", \"\"]", "no id"),
            (
                "\"object\":\"chat.completion.chunk\",",
                "meta false",
                "no object",
            ),
            ("\"created\":1,", "meta false", "no created"),
            (
                "\"model\":\"m\",",
                "meta false [\"c\", \"\", \"\"]",
                "no model",
            ),
        ] {
            let heard = said("message", &whole.replace(member, "")).unwrap();
            assert_eq!(heard, [meta, flaw, "Content a"]);
        }
        for data in [
            "null".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            whole.replace("\"choices\":[", "\"choices\":null,\"x\":["),
            whole.replace("\"index\":0,", ""),
            whole.replace("\"index\":0", "\"index\":\"0\""),
            whole.replace("\"created\":1", "\"created\":\"1\""),
            whole.replace("\"created\":1", "\"created\":1.5"),
            delta("\"content\":[\"a\"]"),
            delta("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":{}}}]"),
            chunk("", ",\"usage\":{\"completion_tokens\":-1}"),
        ] {
            let heard = said("message", &data);
            assert!(
                matches!(heard, Err(Unreadable::Shape(_))),
                "{data}: {heard:?}"
            );
        }
        let odd = chunk("{\"index\":0,\"message\":{\"content\":\"a\"}}", "");
        assert_eq!(
            said("message", &odd).unwrap(),
            ["meta false", "a choice has a message in place of a delta"]
        );
    }

    #[test]
    fn json_is_strict() {
        for data in [
            "{",
            "NaN",
            "{'id':1}",
            "[DONE",
            "DONE",
            "{\"a\":1} x",
            "{\"a\":1,}",
            "{\"a\":\"\t\"}",
            "{\"choices\":1,\"x\":NaN}",
        ] {
            assert_eq!(said("message", data), Err(Unreadable::NotJson), "{data}");
        }
    }

    #[test]
    fn events_of_the_relays_own_are_passed_over() {
        for (name, data) in [
            ("ping", "{\"type\":\"ping\",\"cost\":\"0\"}"),
            ("message", "{\"type\":\"ping\"}"),
            ("stats", "{\"tokens\":3}"),
        ] {
            assert_eq!(said(name, data).unwrap(), ["unknown-event"]);
        }
        assert!(said("ping", "").unwrap().is_empty());
    }

    #[test]
    fn a_frame_is_read_alike_after_any_other_frame() {
        let parts = |index: usize, text: &str, more: &str| {
            chunk(
                &format!(
                    "{{\"index\":{index},\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}"
                ),
                more,
            )
        };
        let frames: Vec<String> = [
            delta("\"role\":\"assistant\",\"content\":\"\""),
            delta("\"content\":\"a\",\"refusal\":\"b\""),
            delta("\"content\":\"a\",\"content\":\"b\""),
            delta("\"content\":\"a\", \"content\":\"b\""),
            "[DONE]".to_owned(),
            "{\"error\":\"x\"}".to_owned(),
            "{".to_owned(),
        ]
        .into_iter()
        .chain(
            [
                "Hi",
                "",
                " 你好",
                "a\\nb",
                "\\\"",
                "x\",\"y\":\"z",
                "a\tb",
                "c",
                "m",
            ]
            .into_iter()
            .flat_map(|text| {
                [
                    parts(0, text, ""),
                    parts(1, text, ""),
                    parts(0, text, ",\"system_fingerprint\":\"f\""),
                    parts(0, text, ",\"error\":{\"code\":\"x\"}"),
                    parts(0, text, "").replace("\"id\":\"c\"", "\"id\":\"d\""),
                    parts(0, text, "").replace("null", "\"stop\""),
                ]
            }),
        )
        .collect();
        for first in &frames {
            for second in &frames {
                let mut twin = Twin::default();
                let _ = said_after(&mut twin, "message", first);
                assert_eq!(
                    said_after(&mut twin, "message", second),
                    said("message", second),
                    "{first} then {second}"
                );
            }
        }
    }
}
