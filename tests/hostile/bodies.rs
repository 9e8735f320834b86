//! Bodies without measure, fed to an exchange without a socket: what they may take, and what they
//! are called.

use std::collections::BTreeSet;
use std::time::Duration;

use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{Class, Ending, Observation, Warning};
use relayproof::stream::sse::{Decoder, Item, MAX_EVENT_BYTES};
use relayproof::stream::{
    Asked, Exchange, Head, Input, MAX_BODY_BYTES, MAX_ITEMS, MAX_REST_BYTES, MAX_WHOLE_BYTES,
    Timeouts,
};
use serde_json::{Value, json};

use crate::ROOM;
use crate::player::corpus;
use crate::tally::peak;

fn exchange(protocol: Protocol, stream: bool) -> Exchange {
    let asked = Asked {
        protocol,
        stream,
        model: "test-model".to_owned(),
        max_tokens: None,
        usage: false,
        seal: Some("a-seal".to_owned()),
        request_bytes: 2,
        expect: Expect::default(),
        keep_text: true,
    };
    let mut exchange = Exchange::new(asked, Timeouts::default());
    let kind: &[u8] = if stream {
        b"text/event-stream"
    } else {
        b"application/json"
    };
    exchange.handle(
        Duration::ZERO,
        Input::Head(Head {
            status: 200,
            version: "1.1",
            headers: vec![("content-type", kind)],
        }),
    );
    exchange
}

/// Feeds `opening` and then `piece` again and again, in reads of 64 KiB, until it is enough or
/// `most` bytes are in; gives what was seen and the most memory that was held.
fn feed(protocol: Protocol, opening: &str, piece: &[u8], most: u64) -> (Observation, usize) {
    let mut buffer = piece.repeat((64 << 10) / piece.len() + 1);
    if piece.len() == 1 {
        buffer.truncate(64 << 10);
    }
    let mut fed = 0;
    peak(|| {
        let mut exchange = exchange(protocol, true);
        let at = Duration::from_millis(1);
        exchange.handle(at, Input::Body(opening.as_bytes()));
        while fed < most && !exchange.is_over() {
            exchange.handle(at, Input::Body(&buffer));
            fed += buffer.len() as u64;
        }
        if !exchange.is_over() {
            exchange.handle(at, Input::BodyEnd);
        }
        exchange.finish()
    })
}

fn event(data: &Value) -> String {
    match data.get("type").and_then(Value::as_str) {
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}

fn chat(choices: &Value) -> String {
    event(&json!({
        "id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "test-model",
        "choices": choices,
    }))
}

/// What comes before the first piece of output.
fn opening(protocol: Protocol) -> String {
    match protocol {
        Protocol::OpenaiChat | Protocol::Gemini => String::new(),
        Protocol::OpenaiResponses => [
            json!({"type": "response.created", "sequence_number": 0, "response": {
                "id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress",
                "model": "test-model", "output": []}}),
            json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
                "item": {"id": "msg_1", "type": "message", "role": "assistant",
                "status": "in_progress", "content": []}}),
            json!({"type": "response.content_part.added", "sequence_number": 2,
                "item_id": "msg_1", "output_index": 0, "content_index": 0,
                "part": {"type": "output_text", "text": "", "annotations": []}}),
        ]
        .iter()
        .map(event)
        .collect(),
        Protocol::AnthropicMessages => [
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
                "role": "assistant", "model": "test-model", "content": [], "stop_reason": null,
                "stop_sequence": null, "usage": {"input_tokens": 9, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0,
                "content_block": {"type": "text", "text": ""}}),
        ]
        .iter()
        .map(event)
        .collect(),
    }
}

/// An event with a piece of text.
fn text(protocol: Protocol, piece: &str) -> String {
    match protocol {
        Protocol::OpenaiChat => {
            chat(&json!([{"index": 0, "delta": {"content": piece}, "finish_reason": null}]))
        }
        Protocol::OpenaiResponses => event(&json!({
            "type": "response.output_text.delta", "sequence_number": 3, "item_id": "msg_1",
            "output_index": 0, "content_index": 0, "delta": piece, "logprobs": []})),
        Protocol::AnthropicMessages => event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": piece}})),
        Protocol::Gemini => event(&json!({
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": piece}]}}],
            "modelVersion": "test-model", "responseId": "r1"})),
    }
}

/// The `n`-th of things that a stream can open without end: choices, calls, blocks, items, parts.
fn opened(protocol: Protocol, n: u64) -> Vec<String> {
    let call = json!({"index": n, "id": format!("call_{n}"), "type": "function",
        "function": {"name": "f", "arguments": "{"}});
    match protocol {
        Protocol::OpenaiChat => vec![
            chat(
                &json!([{"index": n, "delta": {"role": "assistant", "content": "x"},
                "finish_reason": "stop"}]),
            ),
            chat(&json!([{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}])),
        ],
        Protocol::OpenaiResponses => vec![
            event(
                &json!({"type": "response.output_item.added", "sequence_number": n + 3,
                "output_index": n + 1, "item": {"id": format!("fc_{n}"), "type": "function_call",
                "call_id": format!("call_{n}"), "name": "f", "arguments": "",
                "status": "in_progress"}}),
            ),
            event(
                &json!({"type": "response.content_part.added", "sequence_number": n + 3,
                "item_id": "msg_1", "output_index": 0, "content_index": n + 1,
                "part": {"type": "output_text", "text": "", "annotations": []}}),
            ),
        ],
        Protocol::AnthropicMessages => vec![event(&json!({"type": "content_block_start",
            "index": n + 1, "content_block": {"type": "tool_use", "id": format!("toolu_{n}"),
            "name": "f", "input": {}}}))],
        Protocol::Gemini => vec![
            event(
                &json!({"candidates": [{"index": n, "content": {"role": "model",
                "parts": [{"text": "x"}]}, "finishReason": "STOP"}],
                "modelVersion": "test-model", "responseId": "r1"}),
            ),
            event(
                &json!({"candidates": [{"index": 0, "content": {"role": "model",
                "parts": [{"functionCall": {"id": format!("call_{n}"), "name": "f", "args": {}}}]}}],
                "modelVersion": "test-model", "responseId": "r1"}),
            ),
        ],
    }
}

/// A piece of one call's arguments, and the event that opens the call.
fn arguments(protocol: Protocol, piece: &str) -> (String, String) {
    match protocol {
        Protocol::OpenaiChat => {
            let call = |call: Value| {
                chat(&json!([{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]))
            };
            (
                call(json!({"index": 0, "id": "call_1", "type": "function",
                    "function": {"name": "f", "arguments": ""}})),
                call(json!({"index": 0, "function": {"arguments": piece}})),
            )
        }
        Protocol::OpenaiResponses => (
            event(
                &json!({"type": "response.output_item.added", "sequence_number": 3,
                "output_index": 1, "item": {"id": "fc_1", "type": "function_call",
                "call_id": "call_1", "name": "f", "arguments": "", "status": "in_progress"}}),
            ),
            event(&json!({"type": "response.function_call_arguments.delta",
                "sequence_number": 4, "item_id": "fc_1", "output_index": 1, "delta": piece})),
        ),
        Protocol::AnthropicMessages => (
            event(
                &json!({"type": "content_block_start", "index": 1, "content_block": {
                "type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}}),
            ),
            event(&json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": piece}})),
        ),
        Protocol::Gemini => (
            String::new(),
            event(
                &json!({"candidates": [{"index": 0, "content": {"role": "model",
                "parts": [{"functionCall": {"name": "f", "args": {"a": piece}}}]}}],
                "modelVersion": "test-model", "responseId": "r1"}),
            ),
        ),
    }
}

fn show(what: &str, protocol: Protocol, most: usize) {
    println!("{what:<44} {protocol:<20} {:>8} KiB", most >> 10);
    assert!(most <= ROOM, "{what} {protocol}: {most} bytes");
}

fn details(seen: &Observation) -> Vec<&str> {
    let details = seen.findings.iter();
    details.map(|found| &*found.detail).collect()
}

#[test]
fn an_endless_stream_is_left_at_the_bodys_limit() {
    // Long pieces, so that the bytes are the first limit that is met.
    let piece = "lorem ipsum ".repeat(1000);
    let protocol = Protocol::OpenaiChat;
    let event = text(protocol, &piece);
    let (seen, most) = feed(protocol, "", event.as_bytes(), u64::MAX);
    show("endless stream", protocol, most);
    assert!(seen.counts.body_bytes > MAX_BODY_BYTES);
    assert!(seen.counts.body_bytes <= MAX_BODY_BYTES + (128 << 10));
    assert!(details(&seen).contains(&"a body of more than 64 MiB"));
    assert_eq!(
        (seen.class(), seen.ending),
        (Some(Class::ProtocolViolation), Ending::Malformed)
    );
    assert!(seen.warnings.contains(&Warning::TextLimit));
    // What is held of a text is the same in every protocol, and no more than a few mebibytes.
    for protocol in Protocol::ALL.iter().copied() {
        let event = text(protocol, &piece);
        let (seen, most) = feed(protocol, &opening(protocol), event.as_bytes(), 4 << 20);
        show("a text of 4 MiB", protocol, most);
        assert!(
            seen.has(Class::TruncatedNoTerminator),
            "{protocol}: {:?}",
            seen.findings
        );
        assert!(seen.warnings.contains(&Warning::TextLimit), "{protocol}");
    }
}

#[test]
fn an_event_without_an_end_is_dropped_and_then_the_body_is_left() {
    for (what, opening, piece) in [
        ("endless data line", "data: ", &b"x"[..]),
        ("endless line of bad bytes", "data: ", &b"\xff"[..]),
        ("endless comment", ":", &b"x"[..]),
        ("endless field name", "", &b"x"[..]),
        (
            "endless event of many lines",
            "",
            &b"data: 0123456789abcdef0123456789abcdef\n"[..],
        ),
        ("endless event name", "event: ", &b"n"[..]),
    ] {
        // A gibibyte is offered; the limit comes first.
        let protocol = Protocol::OpenaiChat;
        let (seen, most) = feed(protocol, opening, piece, 1 << 30);
        show(what, protocol, most);
        assert!(seen.counts.body_bytes <= MAX_BODY_BYTES + (128 << 10));
        assert!(!seen.parse_ok && seen.interrupted, "{what}");
        assert!(
            seen.has(Class::ProtocolViolation),
            "{what}: {:?}",
            seen.findings
        );
        assert!(
            seen.has(Class::SchemaViolation),
            "{what}: {:?}",
            seen.findings
        );
    }
}

#[test]
fn a_million_tiny_events_are_counted_and_no_more_than_that() {
    for (what, piece) in [("events without data", "data:\n\n"), ("comments", ":\n")] {
        let protocol = Protocol::OpenaiChat;
        let (seen, most) = feed(protocol, "", piece.as_bytes(), u64::MAX);
        show(what, protocol, most);
        let items = seen.counts.events + seen.counts.comments;
        assert!(
            (MAX_ITEMS..MAX_ITEMS + (64 << 10)).contains(&items),
            "{what}: {items}"
        );
        assert!(details(&seen).contains(&"more than 1,048,576 events and comments"));
        assert_eq!(seen.class(), Some(Class::ProtocolViolation));
    }
    // Lines that are no items are bounded by the bytes.
    for (what, piece) in [
        ("blank lines", "\n"),
        ("unknown lines", "x\n"),
        ("ids", "id: 1\n"),
    ] {
        let protocol = Protocol::OpenaiChat;
        let (seen, most) = feed(protocol, "", piece.as_bytes(), 256 << 10);
        show(what, protocol, most);
        assert!(seen.class().is_some(), "{what}");
    }
}

#[test]
fn tiny_events_that_cannot_be_read_are_four_findings_at_most() {
    for protocol in Protocol::ALL.iter().copied() {
        for data in ["x", "{}", "{\"error\":1}", "[[]]", "{"] {
            let piece = format!("data: {data}\n\n");
            let (seen, most) = feed(protocol, "", piece.as_bytes(), 64 << 10);
            show(&format!("thousands of {data}"), protocol, most);
            assert!(seen.class().is_some(), "{protocol} {data}");
            for class in Class::ALL {
                let same = seen.findings.iter().filter(|found| found.class == *class);
                assert!(same.count() <= 4, "{protocol} {data} {class}");
            }
        }
    }
}

#[test]
fn what_follows_the_end_mark_for_ever_is_left_after_a_mebibyte() {
    let answer = [
        text(Protocol::OpenaiChat, "Hello"),
        chat(&json!([{"index": 0, "delta": {}, "finish_reason": "stop"}])),
        "data: [DONE]\n\n".to_owned(),
    ]
    .concat();
    for (piece, class) in [
        (": ping\n\n".to_owned(), None),
        (
            text(Protocol::OpenaiChat, "more"),
            Some(Class::DataAfterDone),
        ),
        (
            "data: [DONE]\n\n".to_owned(),
            Some(Class::DuplicateTerminator),
        ),
    ] {
        let protocol = Protocol::OpenaiChat;
        let (seen, most) = feed(protocol, &answer, piece.as_bytes(), u64::MAX);
        show("data after the end mark for ever", protocol, most);
        assert!(seen.counts.body_bytes <= MAX_REST_BYTES + (256 << 10));
        assert!(!seen.interrupted);
        if let Some(class) = class {
            assert!(seen.has(class), "{:?}", seen.findings);
        }
    }
}

#[test]
fn things_that_are_opened_without_end_are_not_all_remembered() {
    for protocol in Protocol::ALL.iter().copied() {
        for kind in 0..opened(protocol, 0).len() {
            // The numbers are put into one text, which is much faster than making it anew.
            let template = opened(protocol, 900_000)[kind].clone();
            let (seen, most) = peak(|| {
                let mut exchange = exchange(protocol, true);
                let at = Duration::from_millis(1);
                exchange.handle(at, Input::Body(opening(protocol).as_bytes()));
                for n in 0..20_000u64 {
                    let event = template
                        .replace("900000", &n.to_string())
                        .replace("900001", &(n + 1).to_string())
                        .replace("900003", &(n + 3).to_string());
                    exchange.handle(at, Input::Body(event.as_bytes()));
                }
                exchange.handle(at, Input::BodyEnd);
                exchange.finish()
            });
            show(&format!("20,000 opened, kind {kind}"), protocol, most);
            assert!(seen.counts.tool_calls <= 128);
            assert!(seen.class().is_some(), "{protocol} {kind}");
        }
    }
}

#[test]
fn endless_arguments_of_a_call_and_an_endless_text_are_held_up_to_a_limit() {
    let piece = "a,b ".repeat(200);
    for protocol in Protocol::ALL.iter().copied() {
        let (open, piece) = arguments(protocol, &piece);
        let opening = format!("{}{open}", opening(protocol));
        let (seen, most) = feed(protocol, &opening, piece.as_bytes(), 2 << 20);
        show("endless arguments", protocol, most);
        assert!(seen.class().is_some());
        if protocol == Protocol::OpenaiChat {
            assert!(
                seen.warnings.contains(&Warning::TextLimit),
                "{:?}",
                seen.warnings
            );
        }
    }
}

/// Values that are small on the wire and large in a careless reader.
fn bombs(place: &Value, size: usize) -> Vec<(&'static str, String)> {
    let list = |item: &str| format!("[{}]", vec![item; size / (item.len() + 1)].join(","));
    let members = (0..size / 12).map(|n| format!("\"k{n}\":0"));
    let mut bombs = vec![
        (
            "deep list",
            format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2)),
        ),
        (
            "deep object",
            format!("{}1{}", "{\"a\":".repeat(size / 6), "}".repeat(size / 6)),
        ),
        ("empty objects", list("{}")),
        ("list of small objects", list("{\"\":0}")),
        ("numbers", list("0")),
        ("texts", list("\"\"")),
        (
            "wide object",
            format!("{{{}}}", members.collect::<Vec<_>>().join(",")),
        ),
        ("long number", "1".repeat(size)),
        ("escapes", format!("\"{}\"", "\\u0041".repeat(size / 6))),
        ("text", format!("\"{}\"", "x".repeat(size))),
    ];
    if let Value::Array(items) = place
        && let Some(item) = items.first()
    {
        bombs.push(("list of its own items", list(&item.to_string())));
        if has_lists(item) {
            bombs.push(("list of lists", list(&item.to_string())));
        }
    }
    bombs
}

fn has_lists(item: &Value) -> bool {
    let mut inner = Vec::new();
    places(item, "", &mut inner);
    let mut lists = inner.iter().filter_map(|pointer| item.pointer(pointer));
    lists.any(Value::is_array)
}

/// Lists of this item, of the size of the largest event, in which each list of it is filled: lists
/// in lists multiply.
fn lists_of_lists(item: &Value) -> Vec<String> {
    let mut inner = Vec::new();
    places(item, "", &mut inner);
    let lists = inner
        .iter()
        .filter(|pointer| item.pointer(pointer).is_some_and(Value::is_array));
    lists
        .map(|pointer| {
            let many = format!("[{}]", vec!["{}"; 60].join(","));
            let filled = planted(item, pointer, &many);
            let count = (MAX_EVENT_BYTES - 4096) / (filled.len() + 1);
            format!("[{}]", vec![filled.as_str(); count.min(1000)].join(","))
        })
        .collect()
}

/// The bombs that are made of a member's own kind, and of the others every third in turn.
fn some_of(bombs: Vec<(&'static str, String)>, turn: usize) -> Vec<(&'static str, String)> {
    let bombs = bombs.into_iter().enumerate();
    let kept = bombs
        .filter(|(at, (what, _))| (at + turn).is_multiple_of(3) || what.starts_with("list of "));
    kept.map(|(_, bomb)| bomb).collect()
}

/// JSON pointers to every value of a tree.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Array(items) => {
            if let Some(first) = items.first() {
                places(first, &format!("{at}/0"), found);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                places(value, &format!("{at}/{name}"), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The tree's text with `bomb` in the place of the value at `pointer`.
fn planted(tree: &Value, pointer: &str, bomb: &str) -> String {
    const MARK: &str = "here-it-is";
    let mut tree = tree.clone();
    *tree.pointer_mut(pointer).unwrap() = Value::String(MARK.to_owned());
    tree.to_string().replace(&format!("\"{MARK}\""), bomb)
}

/// Every member of every event of an ordinary answer, in turn, is made a bomb.
///
/// The bombs are of 64 KiB; what may be held grows so that an event of 1 MiB stays below the limit.
#[test]
fn no_member_of_an_event_takes_many_times_its_size() {
    const SIZE: usize = 64 << 10;
    const FIXED: usize = 3 << 19;
    let allowed = FIXED + (ROOM - FIXED) / (MAX_EVENT_BYTES / SIZE);
    let (mut tried, mut most_of_all) = (0, 0);
    for case in corpus() {
        let baselines = ["001-", "024-", "025-", "121-", "123-", "141-", "161-"];
        if !baselines.iter().any(|start| case.id.starts_with(start)) {
            continue;
        }
        let protocol = case.protocol();
        let body = case.body();
        let mut events = Vec::new();
        Decoder::new().feed(&body, |item| {
            if let Item::Event(event) = item
                && let Ok(tree) = serde_json::from_str::<Value>(event.data)
            {
                events.push((event.name.to_owned(), tree));
            }
        });
        let wire = |name: &str, data: &str| match name {
            "message" => format!("data: {data}\n\n"),
            name => format!("event: {name}\ndata: {data}\n\n"),
        };
        let mut before = String::new();
        let mut done = BTreeSet::new();
        for (name, tree) in &events {
            let mut pointers = Vec::new();
            places(tree, "", &mut pointers);
            for pointer in pointers {
                let kind = tree.get("type").and_then(Value::as_str).unwrap_or("");
                if !done.insert((kind, pointer.clone())) {
                    continue;
                }
                let bombs = bombs(tree.pointer(&pointer).unwrap(), SIZE);
                for (what, bomb) in some_of(bombs, done.len()) {
                    let held = |bomb: &str| {
                        let event = wire(name, &planted(tree, &pointer, bomb));
                        let (_, most) = peak(|| {
                            let mut exchange = exchange(protocol, true);
                            let at = Duration::from_millis(1);
                            exchange.handle(at, Input::Body(before.as_bytes()));
                            exchange.handle(at, Input::Body(event.as_bytes()));
                            exchange.handle(at, Input::BodyEnd);
                            exchange.finish()
                        });
                        most
                    };
                    let most = held(&bomb);
                    assert!(
                        most <= allowed,
                        "{}: {what} at {kind} {pointer}: {most} bytes, not {allowed}",
                        case.id
                    );
                    tried += 1;
                    most_of_all = most_of_all.max(most);
                    if what == "list of lists" {
                        let full = lists_of_lists(&tree.pointer(&pointer).unwrap()[0]);
                        for bomb in full {
                            let most = held(&bomb);
                            println!("{}: {what} at {pointer}: {most} bytes", case.id);
                            assert!(most <= ROOM, "{}: {pointer}: {most} bytes", case.id);
                        }
                    }
                }
            }
            before += &wire(name, &tree.to_string());
        }
    }
    println!("{tried} bombs of {SIZE} bytes, {most_of_all} bytes at most, {allowed} allowed");
    assert!(tried > 500, "{tried}");
}

/// An answer that was not streamed, in each protocol.
fn whole(protocol: Protocol) -> Value {
    match protocol {
        Protocol::OpenaiChat => json!({"id": "c1", "object": "chat.completion", "created": 1,
            "model": "test-model", "choices": [{"index": 0, "message": {"role": "assistant",
            "content": "Hello", "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}),
        Protocol::OpenaiResponses => json!({"id": "resp_1", "object": "response",
            "created_at": 1, "status": "completed", "model": "test-model", "error": null,
            "incomplete_details": null, "output": [{"id": "msg_1", "type": "message",
            "role": "assistant", "status": "completed", "content": [{"type": "output_text",
            "text": "Hello", "annotations": []}]}],
            "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}),
        Protocol::AnthropicMessages => json!({"id": "msg_1", "type": "message",
            "role": "assistant", "model": "test-model", "content": [{"type": "text",
            "text": "Hello"}, {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1}}),
        Protocol::Gemini => json!({"candidates": [{"index": 0, "content": {"role": "model",
            "parts": [{"text": "Hello"}]}, "finishReason": "STOP"}],
            "modelVersion": "test-model", "responseId": "r1",
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1,
            "totalTokenCount": 2}}),
    }
}

#[test]
fn no_member_of_a_whole_answer_takes_many_times_its_size() {
    const SIZE: usize = 128 << 10;
    const FIXED: usize = 4 << 20;
    let allowed = FIXED + (ROOM - FIXED) / (MAX_WHOLE_BYTES / SIZE);
    for protocol in Protocol::ALL.iter().copied() {
        let tree = whole(protocol);
        let mut pointers = Vec::new();
        places(&tree, "", &mut pointers);
        for pointer in pointers {
            let bombs = bombs(tree.pointer(&pointer).unwrap(), SIZE);
            for (what, bomb) in some_of(bombs, pointer.len()) {
                let body = planted(&tree, &pointer, &bomb);
                let (seen, most) = peak(|| {
                    let mut exchange = exchange(protocol, false);
                    let at = Duration::from_millis(1);
                    for chunk in body.as_bytes().chunks(16 << 10) {
                        exchange.handle(at, Input::Body(chunk));
                    }
                    exchange.handle(at, Input::BodyEnd);
                    exchange.finish()
                });
                assert!(
                    most <= allowed,
                    "{protocol}: {what} at {pointer}: {most} bytes, not {allowed}"
                );
                assert!(seen.counts.body_bytes >= SIZE as u64 / 2);
            }
        }
    }
}

#[test]
fn a_whole_answer_without_an_end_is_left_at_its_limit() {
    for protocol in Protocol::ALL.iter().copied() {
        for piece in [&b"["[..], b"x", b"{\"error\":"] {
            let buffer = piece.repeat((64 << 10) / piece.len());
            let (seen, most) = peak(|| {
                let mut exchange = exchange(protocol, false);
                let at = Duration::from_millis(1);
                while !exchange.is_over() {
                    exchange.handle(at, Input::Body(&buffer));
                }
                exchange.finish()
            });
            show("endless whole answer", protocol, most);
            assert!(seen.counts.body_bytes <= MAX_WHOLE_BYTES as u64 + (128 << 10));
            assert_eq!(seen.class(), Some(Class::ProtocolViolation));
        }
    }
}

#[test]
fn an_error_body_without_an_end_is_left_after_a_mebibyte() {
    for piece in ["{\"error\":[", "x\n", "data: {}\n\n", "<html>", "\n"] {
        let buffer = piece.repeat((64 << 10) / piece.len());
        let (seen, most) = peak(|| {
            let mut exchange = Exchange::new(asked(), Timeouts::default());
            let at = Duration::from_millis(1);
            exchange.handle(at, Input::Head(head(503, vec![])));
            while !exchange.is_over() {
                exchange.handle(at, Input::Body(buffer.as_bytes()));
            }
            exchange.finish()
        });
        show("endless error body", Protocol::OpenaiChat, most);
        assert!(seen.counts.body_bytes <= MAX_REST_BYTES + (128 << 10));
        assert_eq!(seen.class(), Some(Class::HttpError));
    }
}

fn asked() -> Asked {
    Asked {
        protocol: Protocol::OpenaiChat,
        stream: true,
        model: "test-model".to_owned(),
        max_tokens: None,
        usage: false,
        seal: None,
        request_bytes: 2,
        expect: Expect::default(),
        keep_text: true,
    }
}

fn head<'a>(status: u16, headers: Vec<(&'a str, &'a [u8])>) -> Head<'a> {
    Head {
        status,
        version: "1.1",
        headers,
    }
}

#[test]
fn a_hundred_thousand_header_lines_are_kept_as_thirty_two() {
    let long = vec![b'x'; 10_000];
    let headers: Vec<(&str, &[u8])> = vec![("x-request-id", &long); 100_000];
    let (seen, most) = peak(|| {
        let mut exchange = Exchange::new(asked(), Timeouts::default());
        exchange.handle(Duration::ZERO, Input::Head(head(200, headers)));
        exchange.handle(Duration::ZERO, Input::BodyEnd);
        exchange.finish()
    });
    show("100,000 header lines", Protocol::OpenaiChat, most);
    assert_eq!(seen.headers.len(), 32);
    assert!(seen.headers.iter().all(|(_, value)| value.len() <= 256));
}

#[test]
fn a_flood_of_interim_heads_leaves_nothing_behind() {
    let (seen, most) = peak(|| {
        let mut exchange = Exchange::new(asked(), Timeouts::default());
        for _ in 0..100_000 {
            exchange.handle(
                Duration::ZERO,
                Input::Head(head(103, vec![("link", b"</a>")])),
            );
        }
        exchange.finish()
    });
    show("100,000 interim heads", Protocol::OpenaiChat, most);
    assert_eq!(seen.status, None);
    assert!(most < 64 << 10);
}
