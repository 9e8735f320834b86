//! Claims about requests, and about what one event says; whole streams are played elsewhere.

use serde_json::{Value, json};

use super::super::{Message, Prompt};
use super::*;

fn asked(messages: &[(&str, &str)], params: Value) -> Value {
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

/// What one event says after the ones before it, in short.
fn said(life: &mut Life, name: &str, data: &str) -> Result<Vec<String>, Unreadable> {
    let mut said = Vec::new();
    life.frame(&mut Twin::default(), Frame { name, data }, &mut |signal| {
        said.push(match signal {
            Signal::Meta {
                id, model, role, ..
            } => match (id, model) {
                (None, None) => return,
                (id, model) => format!("meta {id:?} {model:?} {role}"),
            },
            Signal::Delta { kind, text, .. } => format!("{kind:?} {text}"),
            Signal::ToolCall {
                index,
                id,
                name,
                arguments,
                ..
            } => format!("call {index:?} {id:?} {name:?} {arguments}"),
            Signal::Finish { stop, reason, .. } => format!("{stop:?} {reason}"),
            Signal::Usage(usage) => format!("usage {:?} {:?}", usage.output, usage.reasoning),
            Signal::Error { code, .. } => format!("error {}", code.unwrap_or("-")),
            Signal::Flaw(detail) | Signal::CallFault(detail) => detail.to_owned(),
            Signal::Odd(warning) => warning.to_string(),
            Signal::Terminator => "end".to_owned(),
            Signal::Restart => "again".to_owned(),
        });
    })?;
    Ok(said)
}

#[test]
fn a_prompt_becomes_instructions_and_input() {
    let body = asked(
        &[
            ("system", "Be brief."),
            ("system", "Be kind."),
            ("user", "Hi"),
            ("assistant", "Hello"),
            ("system", "Now rhyme."),
            ("developer", "In French."),
        ],
        json!({"temperature": 0, "top_p": 0.5, "reasoning": {"effort": "low"}}),
    );
    let input = [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("system", "Now rhyme."),
        ("developer", "In French."),
    ];
    let input = input.map(|(role, content)| json!({"role": role, "content": content}));
    assert_eq!(
        body,
        json!({
            "model": "m", "stream": true, "instructions": "Be brief.\n\nBe kind.", "input": input,
            "temperature": 0, "top_p": 0.5, "reasoning": {"effort": "low"},
        })
    );
}

#[test]
fn any_budget_is_asked_for_by_the_name_of_this_protocol() {
    for (params, budget) in [
        (json!({"max_tokens": 9}), json!(9)),
        (json!({"max_completion_tokens": 8}), json!(8)),
        (json!({"max_output_tokens": 7}), json!(7)),
        (json!({"max_tokens": 9, "max_output_tokens": 99}), json!(99)),
        (json!({"max_tokens": "many"}), json!("many")),
        (json!({}), Value::Null),
    ] {
        let body = asked(&[("user", "Hi")], params.clone());
        assert_eq!(body["max_output_tokens"], budget, "{params}");
        assert_eq!(body.get("max_tokens"), None, "{params}");
        assert_eq!(body.get("max_completion_tokens"), None, "{params}");
    }
}

#[test]
fn what_only_chat_knows_is_left_out_and_what_the_prompt_fixes_wins() {
    let params = json!({
        "stop": ["x"], "n": 1, "stream": false, "model": "other", "input": "other",
        "stream_options": {"include_usage": true},
    });
    let body = asked(&[("user", "Hi")], params);
    let input = json!([{"role": "user", "content": "Hi"}]);
    assert_eq!(body, json!({"model": "m", "stream": true, "input": input}));
    let options = json!({"stream_options": {"include_usage": true, "include_obfuscation": false}});
    let body = asked(&[("user", "Hi")], options);
    assert_eq!(
        body["stream_options"],
        json!({"include_obfuscation": false})
    );
}

#[test]
fn an_end_mark_is_told_by_its_type() {
    for (data, is) in [
        ("{\"type\":\"response.completed\"}", true),
        (
            "{\"response\":{\"type\":1},\"type\":\"response.incomplete\"}",
            true,
        ),
        ("{\"type\":\"response.failed\"}", true),
        ("{\"type\":\"response.created\"}", false),
        ("{\"delta\":\"response.completed\",\"type\":\"x\"}", false),
        ("{\"type\":\"response.completed\"", false),
        ("[DONE]", false),
        ("", false),
    ] {
        assert_eq!(is_end_mark(data), is, "{data}");
    }
    assert!(is_habit(" [DONE]") && !is_habit("{}"));
}

#[test]
fn a_call_is_named_when_it_is_announced_and_its_words_are_told_once() {
    let mut life = Life::default();
    let created = "{\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\",\
                   \"object\":\"response\",\"created_at\":1.5,\"model\":\"m\",\"output\":[],\
                   \"parallel_tool_calls\":true,\"tool_choice\":{\"type\":\"x\"},\"tools\":[]}}";
    assert_eq!(
        said(&mut life, "response.created", created).unwrap(),
        ["meta Some(\"r\") Some(\"m\") true"]
    );
    let item = |arguments: &str| {
        format!(
            "{{\"id\":\"fc\",\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\
             \"arguments\":\"{arguments}\"}}"
        )
    };
    // Some services say the arguments here already, and again later.
    let added = format!(
        "{{\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":3,\
         \"item\":{}}}",
        item("{}")
    );
    assert_eq!(
        said(&mut life, "message", &added).unwrap(),
        ["call Some(3) Some(\"c\") Some(\"f\") "]
    );
    let done = "{\"type\":\"response.function_call_arguments.done\",\"sequence_number\":2,\
                \"output_index\":3,\"item_id\":\"fc\",\"arguments\":\"{}\"}";
    assert_eq!(
        said(&mut life, "message", done).unwrap(),
        ["call Some(3) None None {}"]
    );
    let closed = format!(
        "{{\"type\":\"response.output_item.done\",\"sequence_number\":3,\"output_index\":3,\
         \"item\":{}}}",
        item("{}")
    );
    assert!(said(&mut life, "message", &closed).unwrap().is_empty());
}

#[test]
fn each_flaw_of_a_stream_is_said_once() {
    let mut life = Life::default();
    let data = "{\"type\":\"response.output_text.delta\",\"delta\":\"a\"}";
    let first = said(&mut life, "message", data).unwrap();
    assert_eq!(
        first,
        [
            "an event before response.created",
            "an event without a sequence_number",
            "an event does not say which item it belongs to",
            "Content a",
        ]
    );
    assert_eq!(said(&mut life, "message", data).unwrap(), ["Content a"]);
}

#[test]
fn a_last_event_is_the_end_even_if_its_response_cannot_be_read() {
    for (event, heard) in [
        (
            "{\"type\":\"response.completed\",\"response\":{\"output\":1}}",
            "Natural completed",
        ),
        (
            "{\"type\":\"response.completed\",\"response\":1}",
            "Natural completed",
        ),
        (
            "{\"type\":\"response.incomplete\",\"response\":{\"output\":1,\
             \"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}",
            "Length max_output_tokens",
        ),
        (
            "{\"type\":\"response.failed\",\"response\":{\"output\":1,\"error\":{\"code\":\"x\"}}}",
            "error x",
        ),
    ] {
        let said = said(&mut Life::default(), "message", event).unwrap();
        let end = [heard, "end"].map(str::to_owned);
        assert!(said.ends_with(&end), "{event}: {said:?}");
    }
}

#[test]
fn json_is_strict_and_events_of_others_are_passed_over() {
    for data in [
        "{",
        "NaN",
        "{\"type\":\"response.created\",}",
        "{'type':1}",
        "DONE",
    ] {
        let heard = said(&mut Life::default(), "message", data);
        assert_eq!(heard, Err(Unreadable::NotJson), "{data}");
    }
    for (name, data) in [
        ("ping", "{\"type\":\"ping\",\"cost\":\"0\"}"),
        ("message", "{\"type\":\"keepalive\",\"sequence_number\":4}"),
        ("stats", "{\"tokens\":3}"),
        (
            "message",
            "{\"type\":\"response.new\",\"delta\":[1],\"output_index\":\"x\"}",
        ),
    ] {
        let heard = said(&mut Life::default(), name, data).unwrap();
        assert_eq!(heard, ["unknown-event"], "{data}");
    }
    for data in ["[]", "1", "{}", "{\"choices\":[]}", "{\"type\":1}"] {
        let heard = said(&mut Life::default(), "message", data);
        assert!(
            matches!(heard, Err(Unreadable::Shape(_))),
            "{data}: {heard:?}"
        );
    }
    assert!(said(&mut Life::default(), "ping", "").unwrap().is_empty());
}
