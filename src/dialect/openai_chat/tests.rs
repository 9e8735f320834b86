//! Claims about chat completions: what is asked, and what each chunk says.

use serde_json::{Map, json};

use super::super::{Message, Prompt};
use super::*;

/// What one event says, in short.
fn said(name: &str, data: &str) -> Result<Vec<String>, Unreadable> {
    said_after(&mut Twin::default(), name, data)
}

fn said_after(twin: &mut Twin<Kept>, name: &str, data: &str) -> Result<Vec<String>, Unreadable> {
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
