//! Claims about the messages API: what is asked, what each event says, and what order it may have.

mod streams;

use serde_json::json;

use super::super::{Message as Turn, Prompt};
use super::*;

/// What a stream of events says, in short; an event that cannot be read is said, too.
fn said(frames: &[(&str, &str)]) -> Vec<String> {
    let (mut life, mut twin) = (Life::default(), Twin::default());
    let mut all = Vec::new();
    for (name, data) in frames {
        let read = life.frame(&mut twin, Frame { name, data }, &mut |signal| {
            all.extend(short(&signal))
        });
        if let Err(fault) = read {
            all.push(format!("{fault:?}"));
        }
    }
    all
}

fn short(signal: &Signal<'_>) -> Option<String> {
    Some(match signal {
        Signal::Meta { role: false, .. } => return None,
        Signal::Meta { id, model, .. } => {
            format!("begins {} {}", id.unwrap_or("-"), model.unwrap_or("-"))
        }
        Signal::Delta { kind, text, .. } => format!("{kind:?} {text}"),
        Signal::ToolCall {
            index,
            id,
            name,
            arguments,
            ..
        } => format!(
            "call {} {} {} {arguments}",
            index.unwrap_or(99),
            id.unwrap_or("-"),
            name.unwrap_or("-")
        ),
        Signal::Finish { stop, reason, .. } => format!("{stop:?} {reason}"),
        Signal::Usage(usage) => format!(
            "usage {:?} {:?} {:?} {:?}",
            usage.input, usage.cached_input, usage.output, usage.reasoning
        )
        .replace("Some(", "")
        .replace(')', ""),
        Signal::Error { code, message } => {
            format!("error {} {}", code.unwrap_or("-"), message.unwrap_or("-"))
        }
        Signal::Flaw(detail) => format!("flaw: {detail}"),
        Signal::CallFault(detail) => format!("call fault: {detail}"),
        Signal::Odd(warning) => warning.to_string(),
        Signal::Terminator => "end".to_owned(),
        Signal::Restart => "again".to_owned(),
    })
}

/// The same of events that carry the name of their type.
fn named(events: &[&str]) -> Vec<String> {
    let frames: Vec<(String, &str)> = events
        .iter()
        .map(|data| {
            let value: Value = serde_json::from_str(data).unwrap();
            (value["type"].as_str().unwrap().to_owned(), *data)
        })
        .collect();
    let frames: Vec<(&str, &str)> = frames.iter().map(|(name, data)| (&**name, *data)).collect();
    said(&frames)
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":1}}}"#;
const TEXT: &str =
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
const HI: &str =
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#;
const CLOSE: &str = r#"{"type":"content_block_stop","index":0}"#;
const DELTA: &str = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":3}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

const BEGUN: [&str; 2] = ["begins msg_1 m", "usage 9 None None None"];

/// What a stream says after a proper beginning.
fn after(events: &[&str]) -> Vec<String> {
    let mut all = named(&[&[START], events].concat());
    assert_eq!(all[..2], BEGUN);
    all.split_off(2)
}

fn prompt(params: Value) -> Prompt {
    let turn = |role: &str, content: &str| Turn {
        role: role.to_owned(),
        content: content.to_owned(),
    };
    let Value::Object(params) = params else {
        panic!("parameters are an object");
    };
    Prompt {
        model: "m".to_owned(),
        messages: vec![
            turn("system", "Be brief."),
            turn("user", "Hi"),
            turn("assistant", "Hello"),
            turn("developer", "Be kind."),
            turn("user", "Bye"),
        ],
        params,
        stream: true,
        usage: true,
    }
}

fn sent(params: Value) -> Value {
    serde_json::from_slice(&body(&prompt(params))).unwrap()
}

#[test]
fn a_request_has_the_members_of_the_protocol_whatever_the_workload_calls_them() {
    let all = sent(json!({
        "max_tokens": 7,
        "max_completion_tokens": 8,
        "temperature": 0.5,
        "stop": "END",
        "top_k": 3,
        "model": "other",
        "stream_options": {"include_usage": true},
    }));
    assert_eq!(
        all,
        json!({
            "model": "m",
            "max_tokens": 8,
            "temperature": 0.5,
            "stop_sequences": ["END"],
            "top_k": 3,
            "system": "Be brief.\n\nBe kind.",
            "messages": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello"},
                {"role": "user", "content": "Bye"},
            ],
            "stream": true,
        })
    );
}

#[test]
fn a_budget_is_always_sent_and_native_members_pass_through() {
    let all =
        sent(json!({"stop_sequences": ["a"], "stop": ["b"], "thinking": {"type": "disabled"}}));
    assert_eq!(all["max_tokens"], request::DEFAULT_BUDGET);
    assert_eq!(all["stop_sequences"], json!(["a"]));
    assert_eq!(all["thinking"], json!({"type": "disabled"}));
    assert_eq!(
        sent(json!({"stop": ["b", "c"]}))["stop_sequences"],
        json!(["b", "c"])
    );
    assert_eq!(sent(json!({"stop": null})).get("stop_sequences"), None);
    let mut silent = prompt(json!({"system": "Mine."}));
    silent.messages.retain(|turn| turn.role == "user");
    silent.stream = false;
    let all: Value = serde_json::from_slice(&body(&silent)).unwrap();
    assert_eq!(
        (&all["system"], &all["stream"]),
        (&json!("Mine."), &json!(false))
    );
}

#[test]
fn every_legal_event_is_said_and_nothing_else() {
    let thinking = r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#;
    let thought = r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#;
    let signature = r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}"#;
    let redacted = r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"xyz"}}"#;
    let close = r#"{"type":"content_block_stop","index":1}"#;
    let call = r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{},"caller":{"type":"direct"}}}"#;
    let input = r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}"#;
    let result = r#"{"type":"content_block_start","index":3,"content_block":{"type":"web_search_tool_result","tool_use_id":"x","content":[]}}"#;
    let cited = r#"{"type":"content_block_start","index":4,"content_block":{"type":"text","text":"So","citations":[]}}"#;
    let citation = r#"{"type":"content_block_delta","index":4,"delta":{"type":"citations_delta","citation":{"type":"char_location"}}}"#;
    let pause = r#"{"type":"message_delta","delta":{"stop_reason":null,"container":null},"usage":{"output_tokens":2}}"#;
    let counts = r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":null,"output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}}"#;
    assert_eq!(
        after(&[
            thinking, thought, signature, CLOSE, redacted, close, call, input
        ]),
        [
            "Reasoning Hm",
            "Reasoning xyz",
            "call 2 toolu_1 f ",
            "call 2 - - {\"a\":1}"
        ]
    );
    let close_2 = r#"{"type":"content_block_stop","index":2}"#;
    let close_3 = r#"{"type":"content_block_stop","index":3}"#;
    let close_4 = r#"{"type":"content_block_stop","index":4}"#;
    let ping = r#"{"type":"ping"}"#;
    let metrics =
        r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":9}}"#;
    assert_eq!(
        after(&[
            TEXT, ping, CLOSE, redacted, close, call, close_2, result, close_3, cited, citation,
            close_4, pause, counts, metrics
        ]),
        [
            "Reasoning xyz",
            "call 2 toolu_1 f ",
            "Content So",
            "usage 9 None 2 None",
            "usage 14 4 5 2",
            "ToolCalls tool_use",
            "end"
        ]
    );
}

#[test]
fn a_part_that_came_after_this_was_written_is_passed_over_with_a_warning() {
    let block =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"hologram","x":1}}"#;
    let delta =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","x":1}}"#;
    assert_eq!(after(&[block, delta, CLOSE]), ["unknown-event"; 2]);
    let event = r#"{"type":"vertex_event","error":null}"#;
    assert_eq!(after(&[event]), ["unknown-event"]);
    assert_eq!(said(&[("stats", "{\"tokens\":3}")]), ["unknown-event"]);
}

#[test]
fn heartbeats_say_nothing_with_or_without_data() {
    for (name, data) in [
        ("ping", ""),
        ("ping", "{}"),
        ("ping", "{\"type\":\"ping\"}"),
        ("message", "{\"type\":\"ping\"}"),
        ("future", ""),
    ] {
        assert!(said(&[(name, data)]).is_empty(), "{name} {data}");
    }
    assert_eq!(said(&[("message", "")]), ["empty-event"]);
}

#[test]
fn every_stop_reason_of_the_protocol_has_a_meaning_and_leaked_ones_are_told() {
    let with = |reason: &str| {
        let delta = DELTA.replace("end_turn", reason);
        after(&[&delta]).split_off(1)
    };
    for (reason, meaning) in [
        ("end_turn", "Natural"),
        ("stop_sequence", "Natural"),
        ("pause_turn", "Natural"),
        ("max_tokens", "Length"),
        ("model_context_window_exceeded", "Length"),
        ("tool_use", "ToolCalls"),
        ("refusal", "Filter"),
    ] {
        assert_eq!(with(reason), [format!("{meaning} {reason}")]);
    }
    for (reason, meaning) in [
        ("stop", "Natural"),
        ("length", "Length"),
        ("tool_calls", "ToolCalls"),
        ("content_filter", "Filter"),
        ("error", "Abort"),
        ("quasar", "Unknown"),
    ] {
        let said = ["unknown-finish-reason", &format!("{meaning} {reason}")];
        assert_eq!(with(reason), said);
    }
    assert_eq!(with(""), ["finish-reason-empty-string"]);
}

#[test]
fn errors_are_said_in_every_shape() {
    let typed = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (name, data, wanted) in [
        ("error", typed, "error overloaded_error Overloaded"),
        (
            "error",
            "{\"error\":{\"type\":\"x\",\"message\":\"no\"}}",
            "error x no",
        ),
        ("error", "{\"message\":\"no\",\"code\":500}", "error 500 no"),
        ("error", "no", "error - no"),
        ("error", "", "error - -"),
        ("error", "3", "error - -"),
        (
            "message",
            "{\"error\":{\"type\":\"x\",\"message\":\"no\"}}",
            "error x no",
        ),
        ("message", "{\"error\":\"no\"}", "error - no"),
        ("ping", typed, "error overloaded_error Overloaded"),
    ] {
        let all = said(&[(name, data)]);
        assert_eq!(all, [wanted], "{name} {data}");
    }
    assert_eq!(
        said(&[("message", typed)]),
        ["missing-event-name", "error overloaded_error Overloaded"]
    );
    let inside = DELTA.replace("\"usage\"", "\"error\":{\"type\":\"api_error\"},\"usage\"");
    assert!(after(&[&inside]).contains(&"error api_error -".to_owned()));
}

#[test]
fn a_member_that_is_required_is_missed() {
    for (from, to) in [
        ("\"id\":\"msg_1\",", ""),
        ("\"type\":\"message\",", ""),
        ("\"role\":\"assistant\",", ""),
        ("\"assistant\"", "\"user\""),
        ("\"model\":\"m\",", ""),
        ("\"content\":[],", ""),
        ("[]", "[{\"type\":\"text\",\"text\":\"Hi\"}]"),
        ("\"input_tokens\":9,", ""),
        (",\"output_tokens\":1", ""),
        (",\"usage\":{\"input_tokens\":9,\"output_tokens\":1}", ""),
    ] {
        // A report of usage may follow the flaw.
        let data = START.replace(from, to);
        let flaws = named(&[&data])
            .iter()
            .filter(|said| said.starts_with("flaw"))
            .count();
        assert_eq!(flaws, 1, "{from}");
    }
    for events in [
        vec![TEXT.replace(",\"text\":\"\"", "")],
        vec![TEXT.replace("\"index\":0,", "")],
        vec![TEXT.replace("\"type\":\"text\",", "")],
        vec![TEXT.replace(",\"content_block\":{\"type\":\"text\",\"text\":\"\"}", "")],
        vec![TEXT.to_owned(), HI.replace(",\"text\":\"Hi\"", "")],
        vec![TEXT.to_owned(), HI.replace("\"index\":0,", "")],
        vec![TEXT.to_owned(), HI.replace("\"type\":\"text_delta\",", "")],
        vec![TEXT.to_owned(), HI.replace(",\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}", "")],
        vec![TEXT.to_owned(), CLOSE.replace(",\"index\":0", "")],
        vec![DELTA.replace(",\"usage\":{\"output_tokens\":3}", "")],
        vec![DELTA.replace("\"output_tokens\":3", "")],
        vec![DELTA.replace("\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},", "")],
        vec![r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"f","input":{}}}"#.to_owned()],
        vec![r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f"}}"#.to_owned()],
        vec![r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":"{}"}}"#.to_owned()],
    ] {
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let all = after(&events);
        let flaws = all.iter().filter(|said| said.starts_with("flaw")).count();
        assert_eq!(flaws, 1, "{events:?} {all:?}");
    }
}

#[test]
fn a_member_of_the_wrong_type_makes_an_event_unreadable() {
    for data in [
        START.replace("\"msg_1\"", "1"),
        START.replace("[]", "null,\"content\":{}"),
        TEXT.replace("0", "\"0\""),
        HI.replace("\"Hi\"", "7"),
        HI.replace("0", "-1"),
        DELTA.replace("3", "\"3\""),
        DELTA.replace("\"end_turn\"", "{}"),
    ] {
        assert!(named(&[&data]).concat().starts_with("Shape("), "{data}");
    }
    for (data, why) in [
        ("[DONE]", "Shape(\"the end mark of another protocol\")"),
        ("{\"type\":\"message_sta", "NotJson"),
        ("{\"type\":NaN}", "NotJson"),
        ("[]", "Shape(\"no type\")"),
        ("{\"choices\":[]}", "Shape(\"no type\")"),
        (
            "{\"type\":\"message\",\"content\":[]}",
            "Shape(\"a whole message in place of events\")",
        ),
    ] {
        assert_eq!(said(&[("message", data)]), [why], "{data}");
    }
    assert_eq!(
        said(&[("message_stop", "")]),
        ["Shape(\"an event without its data\")"]
    );
    assert_eq!(
        said(&[("content_block_delta", "{\"type\":\"text\"}")]),
        ["Shape(\"an event whose name is not its type\")"]
    );
}

#[test]
fn names_that_are_missing_or_other_than_the_type_are_told() {
    let all = said(&[("message", START), ("message", TEXT), ("message", HI)]);
    assert_eq!(
        all[2..],
        [
            "missing-event-name",
            "flaw: events without their names",
            "Content Hi"
        ]
    );
    let all = said(&[("message_delta", START)]);
    assert!(all.contains(&"flaw: an event whose name is not its type".to_owned()));
    let untyped = HI.replace("\"type\":\"content_block_delta\",", "");
    let all = said(&[
        ("message_start", START),
        ("content_block_start", TEXT),
        ("content_block_delta", &untyped),
    ]);
    assert_eq!(all[2..], ["Content Hi", "flaw: an event without a type"]);
}

#[test]
fn what_must_come_before_what_is_watched() {
    let flaw = |events: &[&str], wanted: &str| {
        let all = after(events);
        assert_eq!(all.last().unwrap(), &format!("flaw: {wanted}"), "{all:?}");
        assert_eq!(
            all.iter().filter(|said| said.starts_with("flaw")).count(),
            1
        );
    };
    flaw(&[HI], "a delta of a block that is not open");
    flaw(&[TEXT, CLOSE, HI], "a delta of a block that is not open");
    flaw(&[CLOSE], "the end of a block that is not open");
    flaw(&[TEXT, CLOSE, CLOSE], "the end of a block that is not open");
    flaw(&[TEXT, TEXT], "a block that begins twice");
    flaw(&[TEXT, CLOSE, TEXT], "a block whose index is not its place");
    flaw(
        &[&TEXT.replace('0', "1")],
        "a block whose index is not its place",
    );
    let other = HI.replace("text_delta\",\"text", "thinking_delta\",\"thinking");
    flaw(&[TEXT, &other], "a delta that its block cannot take");

    let all = after(&[TEXT, HI, DELTA, STOP]);
    assert_eq!(
        all[3..],
        ["flaw: a block that is still open at the end", "end"]
    );
    // Without a stop reason the whole end is missing, which the exchange tells.
    assert_eq!(after(&[TEXT, HI, STOP]), ["Content Hi", "end"]);
    // Before the beginning there is no answer; an end mark alone is no half one.
    assert_eq!(
        named(&[TEXT, HI]),
        ["flaw: an event before message_start", "Content Hi"]
    );
    assert_eq!(named(&[STOP]), ["end"]);

    let all = after(&[TEXT, HI, &START.replace("msg_1", "msg_2"), TEXT, HI]);
    assert_eq!(
        all,
        [
            "Content Hi",
            "begins msg_2 m",
            "again",
            "usage 9 None None None",
            "Content Hi"
        ]
    );
}

#[test]
fn blocks_may_overlap_as_long_as_each_is_opened_and_closed() {
    let second = TEXT.replace('0', "1");
    let more = HI.replace('0', "1");
    let close = CLOSE.replace('0', "1");
    assert_eq!(
        after(&[TEXT, &second, HI, &more, CLOSE, &close, DELTA, STOP]),
        [
            "Content Hi",
            "Content Hi",
            "usage 9 None 3 None",
            "Natural end_turn",
            "end"
        ]
    );
}

#[test]
fn a_second_call_under_a_used_index_is_left_to_the_calls_to_tell() {
    let call = |id: &str| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}}}"#
        )
    };
    assert_eq!(
        after(&[&call("a"), CLOSE, &call("b"), CLOSE]),
        ["call 0 a f ", "call 0 b f "]
    );
}

#[test]
fn memory_is_bounded_however_many_blocks_are_opened() {
    let mut life = Life::default();
    for index in 0..10_000 {
        let data = format!(
            r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"a","name":"f","input":{{}}}}}}"#
        );
        let frame = Frame {
            name: "content_block_start",
            data: &data,
        };
        life.frame(&mut Twin::default(), frame, &mut |_| {})
            .unwrap();
    }
    assert_eq!(
        (life.open.len(), life.calls.len()),
        (MAX_BLOCKS, MAX_BLOCKS)
    );
}

#[test]
fn only_message_stop_is_the_end_mark() {
    assert!(is_end_mark(STOP));
    assert!(is_end_mark(" {\"type\": \"message_stop\", \"x\": 1} "));
    for data in [
        "",
        "[DONE]",
        START,
        HI,
        "{\"type\":\"message_sto",
        "message_stop",
    ] {
        assert!(!is_end_mark(data), "{data}");
    }
}

/// What a whole answer says.
fn whole(body: &str) -> Vec<String> {
    let mut all = Vec::new();
    if let Err(fault) = answer(body, &mut |signal| all.extend(short(&signal))) {
        all.push(format!("{fault:?}"));
    }
    all
}

#[test]
fn a_whole_answer_says_what_a_stream_would() {
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"Hm","signature":"x"},{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":9,"cache_read_input_tokens":3,"output_tokens":5}}"#;
    assert_eq!(
        whole(answer),
        [
            "begins msg_1 m",
            "Reasoning Hm",
            "Content Hi",
            "call 2 t f ",
            "ToolCalls tool_use",
            "usage 12 3 5 None",
            "end"
        ]
    );
    for (from, to) in [
        ("\"id\":\"msg_1\",", ""),
        ("\"role\":\"assistant\",", ""),
        ("\"type\":\"message\",", ""),
        ("\"text\":\"Hi\"", "\"txt\":\"Hi\""),
        ("\"input_tokens\":9,", ""),
        (",\"input\":{\"a\":1}", ""),
    ] {
        let all = whole(&answer.replace(from, to));
        let flaws = all.iter().filter(|said| said.starts_with("flaw")).count();
        assert_eq!(flaws, 1, "{from}: {all:?}");
    }
    for (body, wanted) in [
        ("{", "NotJson"),
        ("[]", "Shape(\"no JSON object\")"),
        ("{}", "Shape(\"no content\")"),
        (
            "{\"content\":\"Hi\"}",
            "Shape(\"a member has the wrong type\")",
        ),
        (
            "{\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"no\"}}",
            "error api_error no",
        ),
        ("{\"content\":3,\"error\":\"no\"}", "error - no"),
    ] {
        assert_eq!(whole(body), [wanted], "{body}");
    }
}
