//! OpenAI responses: typed and numbered events, final words beside the deltas, `response.completed`.

#[path = "openai_responses/script.rs"]
mod script;

use relayproof::attribution::{Party, blame};
use relayproof::observation::{Class, Ending, ErrorKind, Limit, Warning};
use serde_json::{Value, json};

use script::{
    End, Play, Script, begun, frame, function, hello, merged, message, response, text_part, usage,
};

/// What is expected of one stream.
struct Row {
    /// All that is found, the leading class first.
    found: Vec<Class>,
    parse_ok: bool,
    interrupted: bool,
    party: Party,
}

/// Whole as a stream, valid as bytes, and wrong.
fn valid(found: &[Class], party: Party) -> Row {
    Row {
        found: found.to_vec(),
        parse_ok: true,
        interrupted: false,
        party,
    }
}

/// Whole as a stream, with bytes that are no valid answer.
fn broken(found: &[Class], party: Party) -> Row {
    Row {
        parse_ok: false,
        ..valid(found, party)
    }
}

fn interrupted(row: Row) -> Row {
    Row {
        interrupted: true,
        ..row
    }
}

/// Compares all rows before it complains.
fn hold(rows: Vec<(&str, Play, Row)>) {
    let mut wrong = Vec::new();
    for (name, play, row) in rows {
        let seen = play.seen();
        let mut found: Vec<Class> = seen.findings.iter().map(|found| found.class).collect();
        found.dedup();
        let is = (found, seen.parse_ok, seen.interrupted, blame(&seen).party);
        let not = (row.found, row.parse_ok, row.interrupted, row.party);
        if is != not {
            wrong.push(format!(
                "{name}\n  is  {is:?}\n  not {not:?}\n  {:?}",
                seen.findings
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn an_error_is_found_in_every_shape_and_for_what_it_is_about() {
    use Class::ErrorInStream as Error;
    let half = || begun().says(&["Hello"]);
    let failed = |error: Value| {
        let mut response = response("resp_1", "test-model", "failed", json!([]));
        response["error"] = error;
        half().on("response.failed", json!({"response": response}))
    };
    let top = json!({"code": "server_error", "message": "it broke", "param": null});
    let nested = json!({"error": {"type": "server_error", "message": "it broke"}});
    let limited = json!({"code": "rate_limit_exceeded", "message": "Rate limit reached"});
    hold(vec![
        (
            "an error event with the members at its top",
            half().on("error", top).play(),
            interrupted(broken(&[Error], Party::Upstream)),
        ),
        (
            "an error event with an error object inside",
            half().on("error", nested).play(),
            interrupted(broken(&[Error], Party::Upstream)),
        ),
        (
            "an error object without a type",
            half().then(&["data: {\"error\":{\"message\":\"it broke\",\"code\":\"x\"}}\n\n"]),
            interrupted(broken(&[Error], Party::Upstream)),
        ),
        (
            "a named error event whose data has no type",
            half().then(&["event: error\ndata: {\"message\":\"it broke\"}\n\n"]),
            interrupted(broken(&[Error], Party::Upstream)),
        ),
        (
            "response.failed, which is an end",
            failed(json!({"code": "server_error", "message": "it broke"})).play(),
            broken(&[Error], Party::Upstream),
        ),
        (
            "response.failed of a limit",
            failed(limited).play(),
            broken(&[Error], Party::ConcurrencyOrKey),
        ),
        (
            "response.failed without an error",
            failed(Value::Null).play(),
            broken(&[Error], Party::Upstream),
        ),
        (
            "response.completed in a failed state",
            half()
                .on(
                    "response.completed",
                    json!({"response": {"id": "resp_1", "object": "response", "created_at": 1,
                        "status": "failed", "model": "test-model", "output": [],
                        "parallel_tool_calls": true, "tool_choice": "auto", "tools": [],
                        "error": {"code": "server_error", "message": "it broke"}}}),
                )
                .play(),
            broken(&[Error], Party::Upstream),
        ),
        (
            "an error as the first event",
            Play::of([
                "event: error\ndata: {\"type\":\"error\",\"code\":\"overloaded\",\"message\":\"busy\"}\n\n",
            ]),
            interrupted(broken(&[Error], Party::Upstream)),
        ),
        (
            "an error text as data",
            half().then(&["data: error: upstream closed\n\n"]),
            interrupted(broken(&[Error], Party::Upstream)),
        ),
        (
            "a page between events",
            half().then(&["<html><body>502 Bad Gateway</body></html>\n"]),
            interrupted(broken(&[Error], Party::RelayGateway)),
        ),
        (
            "an error after the end",
            hello()
                .on(
                    "error",
                    json!({"code": "insufficient_quota", "message": "quota"}),
                )
                .play(),
            broken(&[Error, Class::DataAfterDone], Party::ConcurrencyOrKey),
        ),
    ]);
    let seen = failed(json!({"code": "rate_limit_exceeded", "message": "slow down"}))
        .play()
        .seen();
    assert_eq!(seen.error_code.as_deref(), Some("rate_limit_exceeded"));
    assert_eq!(seen.error_kind, Some(ErrorKind::RateLimit));
    assert_eq!(seen.ending, Ending::Errored);
}

#[test]
fn an_end_that_is_none_or_comes_too_early_is_named() {
    use Class::TruncatedNoTerminator as Truncated;
    let half = || begun().says(&["Hello", " wor"]);
    let call = || {
        Script::default()
            .by("resp_1", "test-model")
            .item(0, function("fc_1", "call_1", ""))
            .on(
                "response.function_call_arguments.delta",
                json!({"item_id": "fc_1", "output_index": 0, "delta": "{\"a\""}),
            )
    };
    let unfinished = frame(&hello().events[4]);
    let unfinished = &unfinished[..unfinished.len() - 9];
    hold(vec![
        (
            "a clean end between events",
            half().play(),
            interrupted(valid(&[Truncated], Party::RelayGateway)),
        ),
        (
            "a clean end inside an event",
            begun().says(&["Hello"]).then(&[unfinished]),
            interrupted(valid(&[Truncated], Party::RelayMiddleware)),
        ),
        (
            "a reset",
            half().play().ending(End::Reset),
            interrupted(valid(&[Truncated], Party::Network)),
        ),
        (
            "a clean end inside a call",
            call().play(),
            interrupted(valid(&[Truncated], Party::Upstream)),
        ),
        (
            "all is closed, and the last event never comes",
            begun().says(&["Hello"]).closed("Hello").play(),
            interrupted(valid(&[Truncated], Party::RelayMiddleware)),
        ),
        (
            "chat's end mark in place of the protocol's own",
            half().then(&["data: [DONE]\n\n"]),
            interrupted(valid(&[Truncated], Party::RelayGateway)),
        ),
        (
            "nothing but chat's end mark",
            Play::of(["data: [DONE]\n\n"]),
            interrupted(valid(&[Class::Fake200Empty], Party::RelayGateway)),
        ),
        (
            "silence",
            half().play().ending(End::Hang),
            interrupted(valid(&[Class::Stalled], Party::Upstream)),
        ),
        (
            "silence before the first word",
            begun().play().ending(End::Hang),
            interrupted(valid(&[Class::Stalled], Party::Upstream)),
        ),
        (
            "no output within the limit, kept warm by comments",
            half().then(&[": keep-alive\n\n"; 3]).ending(End::Hang),
            interrupted(valid(&[Class::Stalled], Party::RelayGateway)),
        ),
        (
            "an invented end in mid-answer",
            half().completed(json!([])).play(),
            broken(&[Class::SchemaViolation], Party::RelayMiddleware),
        ),
        (
            "a legal end without the seal",
            hello()
                .play()
                .asking(|asked| asked.seal = Some("END-0123abcd".to_owned())),
            valid(&[Class::MaskedTruncation], Party::RelayMiddleware),
        ),
        (
            "the last event twice",
            hello().with_message("Hello world").play(),
            valid(&[Class::DuplicateTerminator], Party::RelayMiddleware),
        ),
        (
            "an event after the last one",
            hello().says(&[" again"]).play(),
            valid(&[Class::DataAfterDone], Party::RelayMiddleware),
        ),
    ]);
    let stalled = half().play().ending(End::Hang).seen();
    assert_eq!(stalled.timed_out, Some(Limit::Idle));
}

#[test]
fn what_a_response_says_of_its_own_end_is_understood() {
    let cut = |details: Value| {
        begun().says(&["Hello"]).closed("Hello").incomplete(
            details,
            json!([message("msg_1", "incomplete", json!([text_part("Hello")]))]),
        )
    };
    let length = || cut(json!({"reason": "max_output_tokens"})).play();
    hold(vec![
        (
            "a length that nobody asked for",
            length(),
            valid(&[Class::UnexpectedLengthCut], Party::RelayMiddleware),
        ),
        (
            "a length below the budget",
            length().asking(|asked| asked.max_tokens = Some(4096)),
            valid(&[Class::UnexpectedLengthCut], Party::RelayMiddleware),
        ),
        (
            "a filter",
            cut(json!({"reason": "content_filter"})).play(),
            valid(&[Class::ContentFiltered], Party::Upstream),
        ),
        (
            "a filter that left nothing",
            Script::default()
                .by("resp_1", "test-model")
                .incomplete(json!({"reason": "content_filter"}), json!([]))
                .play(),
            valid(&[Class::ContentFiltered], Party::Upstream),
        ),
        (
            "incomplete, and nobody says why",
            cut(Value::Null).play(),
            broken(&[Class::UpstreamAbort], Party::Upstream),
        ),
        (
            "an answer that was given up",
            begun()
                .says(&["Hello"])
                .closed("Hello")
                .with_message("Hello")
                .with(7, |event| event["response"]["status"] = json!("cancelled"))
                .play(),
            broken(&[Class::UpstreamAbort], Party::Upstream),
        ),
        (
            "a proper stream without an answer",
            Script::default()
                .by("resp_1", "test-model")
                .completed(json!([]))
                .play(),
            valid(&[Class::EmptyAnswer], Party::Upstream),
        ),
        (
            "a message with an empty text",
            begun().closed("").with_message("").play(),
            valid(&[Class::EmptyAnswer], Party::Upstream),
        ),
    ]);
    let seen = length().asking(|asked| asked.max_tokens = Some(2)).seen();
    assert_eq!(
        (seen.outcome(), seen.finish_reason.as_deref()),
        ("ok", Some("max_output_tokens"))
    );
}

#[test]
fn final_words_that_are_not_the_streamed_ones_are_no_valid_answer() {
    let violation = || broken(&[Class::SchemaViolation], Party::RelayMiddleware);
    let text = |index: usize, text: &'static str| {
        hello()
            .with(index, |event| event["text"] = json!(text))
            .play()
    };
    let output = |output: Value| {
        hello()
            .with(8, |event| event["response"]["output"] = output)
            .play()
    };
    let said = |text: &str| json!([message("msg_1", "completed", json!([text_part(text)]))]);
    hold(vec![
        ("an empty final text", text(5, ""), violation()),
        ("a longer final text", text(5, "Hello world!"), violation()),
        (
            "another final text of the same length",
            text(5, "Hello worlD"),
            violation(),
        ),
        (
            "another text at the part's end",
            hello()
                .with(6, |event| event["part"]["text"] = json!("Hello"))
                .play(),
            violation(),
        ),
        (
            "another text at the item's end",
            hello()
                .with(7, |event| event["item"]["content"] = json!([]))
                .play(),
            violation(),
        ),
        ("an empty final response", output(json!([])), violation()),
        (
            "a shorter final response",
            output(said("Hello")),
            violation(),
        ),
        (
            "a final response of another kind",
            output(json!([function("fc_1", "call_1", "{}")])),
            violation(),
        ),
        (
            "a text that was never streamed",
            begun()
                .closed("Hello world")
                .with_message("Hello world")
                .play(),
            broken(
                &[Class::SchemaViolation, Class::EmptyAnswer],
                Party::RelayMiddleware,
            ),
        ),
        (
            "a final response of another name",
            hello()
                .with(8, |event| event["response"]["id"] = json!("resp_2"))
                .play(),
            violation(),
        ),
        (
            "a final response that is still in progress",
            hello()
                .with(8, |event| {
                    event["response"]["status"] = json!("in_progress")
                })
                .play(),
            violation(),
        ),
    ]);
}

#[test]
fn what_comes_out_of_order_or_not_at_all_is_no_valid_answer() {
    let violation = || broken(&[Class::SchemaViolation], Party::RelayMiddleware);
    hold(vec![
        (
            "no response.created",
            hello().without(0).play(),
            violation(),
        ),
        (
            "a message that is never announced",
            hello().without(1).play(),
            violation(),
        ),
        (
            "a part that is never announced",
            hello().without(2).play(),
            violation(),
        ),
        (
            "a text that is never closed",
            hello().without(5).play(),
            violation(),
        ),
        (
            "a part that is never closed",
            hello().without(6).play(),
            violation(),
        ),
        (
            "a message that is never closed",
            hello().without(7).play(),
            violation(),
        ),
        (
            "a delta after its text was closed",
            begun()
                .says(&["Hello"])
                .at("response.output_text.done", json!({"text": "Hello"}))
                .says(&[" world"])
                .closed("Hello world")
                .with_message("Hello world")
                .play(),
            violation(),
        ),
        (
            "two messages in one place",
            begun()
                .says(&["Hello"])
                .item(0, message("msg_2", "in_progress", json!([])))
                .closed("Hello")
                .with_message("Hello")
                .play(),
            violation(),
        ),
        (
            "deltas of another item",
            hello()
                .with(4, |event| event["item_id"] = json!("msg_9"))
                .play(),
            violation(),
        ),
        (
            "numbers that run backwards",
            hello()
                .with(4, |event| event["sequence_number"] = json!(1))
                .play(),
            violation(),
        ),
        (
            "numbers that stand still",
            hello()
                .with(4, |event| event["sequence_number"] = json!(3))
                .play(),
            violation(),
        ),
    ]);
}

#[test]
fn a_required_member_that_is_missing_or_of_a_wrong_type_is_no_valid_answer() {
    let violation = || broken(&[Class::SchemaViolation], Party::RelayMiddleware);
    let without = |index: usize, path: &[&str]| {
        let script = hello().with(index, |event| {
            let (last, path) = path.split_last().unwrap_or((&"", &[]));
            let parent = path.iter().fold(event, |event, name| &mut event[*name]);
            if let Some(members) = parent.as_object_mut() {
                members.remove(*last);
            }
        });
        (format!("{index} without {path:?}"), script)
    };
    let with = |index: usize, pointer: &str, value: Value| {
        let script = hello().with(index, |event| {
            if let Some(member) = event.pointer_mut(pointer) {
                *member = value;
            }
        });
        (format!("{index} with another {pointer}"), script)
    };
    let scripts = [
        without(0, &["sequence_number"]),
        without(0, &["response", "id"]),
        without(0, &["response", "model"]),
        without(0, &["response", "object"]),
        without(0, &["response", "output"]),
        without(0, &["response", "created_at"]),
        without(0, &["response", "tools"]),
        without(1, &["output_index"]),
        without(1, &["item", "role"]),
        without(1, &["item", "content"]),
        without(1, &["item", "type"]),
        without(2, &["part", "annotations"]),
        without(2, &["part", "text"]),
        without(2, &["content_index"]),
        without(3, &["item_id"]),
        without(3, &["output_index"]),
        without(3, &["content_index"]),
        without(3, &["delta"]),
        without(3, &["type"]),
        without(5, &["text"]),
        without(6, &["part"]),
        without(8, &["response"]),
        with(3, "/delta", json!(["Hello"])),
        with(3, "/output_index", json!("0")),
        with(3, "/sequence_number", json!(-1)),
        with(8, "/response/usage/output_tokens", json!("2")),
        with(8, "/response/output", json!({})),
    ];
    for (name, script) in scripts {
        let seen = script.play().seen();
        let row = (seen.class(), seen.parse_ok, seen.interrupted);
        assert_eq!(row, (Some(Class::SchemaViolation), false, false), "{name}");
    }
    hold(vec![
        (
            "another protocol's events",
            Play::of([
                "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[]}\n\n",
                "data: [DONE]\n\n",
            ]),
            interrupted(violation_and_cut()),
        ),
        (
            "a name that is not the type",
            hello().without(8).then(&[&frame(&hello().events[8])
                .replace("event: response.completed", "event: response.created")]),
            violation(),
        ),
    ]);
}

fn violation_and_cut() -> Row {
    broken(
        &[Class::SchemaViolation, Class::TruncatedNoTerminator],
        Party::RelayMiddleware,
    )
}

#[test]
fn calls_that_are_cut_or_mixed_up_are_corrupt() {
    let corrupt = || valid(&[Class::ToolCallCorrupt], Party::RelayMiddleware);
    let piece = |script: Script, index: u64, id: &str, delta: &str| {
        script.on(
            "response.function_call_arguments.delta",
            json!({"item_id": id, "output_index": index, "delta": delta}),
        )
    };
    let done = |script: Script, index: u64, id: &str, call: &str, arguments: &str| {
        script
            .on(
                "response.function_call_arguments.done",
                json!({"item_id": id, "output_index": index, "arguments": arguments}),
            )
            .item_done(index, function(id, call, arguments))
    };
    let begun = || Script::default().by("resp_1", "test-model");
    let one = |streamed: &[&str], last: &str| {
        let script = begun().item(0, function("fc_1", "call_1", ""));
        let script = streamed
            .iter()
            .fold(script, |script, delta| piece(script, 0, "fc_1", delta));
        done(script, 0, "fc_1", "call_1", last)
            .completed(json!([function("fc_1", "call_1", last)]))
            .play()
    };
    let two = |second: u64| {
        let script = begun()
            .item(0, function("fc_1", "call_1", ""))
            .item(second, function("fc_2", "call_2", ""));
        let script = piece(script, 0, "fc_1", "{\"a\":");
        let script = piece(script, second, "fc_2", "{\"b\":");
        let script = piece(script, 0, "fc_1", "1}");
        let script = piece(script, second, "fc_2", "2}");
        let script = done(script, 0, "fc_1", "call_1", "{\"a\":1}");
        done(script, second, "fc_2", "call_2", "{\"b\":2}")
            .completed(json!([
                function("fc_1", "call_1", "{\"a\":1}"),
                function("fc_2", "call_2", "{\"b\":2}"),
            ]))
            .play()
    };
    hold(vec![
        (
            "one call",
            one(&["{\"a\":", "1}"], "{\"a\":1}"),
            valid(&[], Party::None),
        ),
        (
            "a call whose arguments come whole",
            one(&[], "{\"a\":1}"),
            valid(&[], Party::None),
        ),
        (
            "a call without arguments",
            one(&[], ""),
            valid(&[], Party::None),
        ),
        ("two calls at a time", two(1), valid(&[], Party::None)),
        ("two calls in one place", two(0), corrupt()),
        (
            "arguments that are cut",
            one(&["{\"a\":"], "{\"a\":"),
            corrupt(),
        ),
        (
            "deltas that are cut",
            one(&["{\"a\":"], "{\"a\":1}"),
            corrupt(),
        ),
        (
            "final arguments that are others",
            one(&["{\"a\":1}"], "{\"a\":2}"),
            corrupt(),
        ),
        (
            "a call that the final response does not hold",
            done(
                begun().item(0, function("fc_1", "call_1", "")),
                0,
                "fc_1",
                "call_1",
                "{}",
            )
            .completed(json!([]))
            .play(),
            broken(&[Class::SchemaViolation], Party::RelayMiddleware),
        ),
    ]);
    let seen = two(1).seen();
    assert_eq!(
        (seen.counts.tool_calls, seen.finish_reason.as_deref()),
        (2, Some("completed"))
    );
}

#[test]
fn two_generations_and_wrong_labels_are_named() {
    let splice = || valid(&[Class::StreamSplice], Party::RelayMiddleware);
    let mut second = Script::default()
        .by("resp_2", "test-model")
        .item(0, message("msg_2", "in_progress", json!([])))
        .on(
            "response.content_part.added",
            json!({"item_id": "msg_2", "output_index": 0, "content_index": 0, "part": text_part("")}),
        )
        .on(
            "response.output_text.delta",
            json!({"item_id": "msg_2", "output_index": 0, "content_index": 0, "delta": "Hi"}),
        );
    let place = json!({"item_id": "msg_2", "output_index": 0, "content_index": 0});
    let mut stated = place.clone();
    stated["text"] = json!("Hi");
    let mut parted = place;
    parted["part"] = text_part("Hi");
    let last = message("msg_2", "completed", json!([text_part("Hi")]));
    second = second
        .on("response.output_text.done", stated)
        .on("response.content_part.done", parted)
        .item_done(0, last.clone())
        .on(
            "response.completed",
            json!({"response": response("resp_2", "test-model", "completed", json!([last]))}),
        );
    let spliced = begun().says(&["Hello", " wor"]).wire();
    let other = |model: &str| Script::default().by("resp_1", model);
    hold(vec![
        (
            "a second response in mid-answer",
            Play::of(spliced.into_iter().chain(second.wire())),
            splice(),
        ),
        (
            "another model's label",
            {
                let mut script = hello();
                script.events[0] = other("other-model").events[0].clone();
                script
                    .with(8, |event| event["response"]["model"] = json!("other-model"))
                    .play()
            },
            valid(&[Class::ModelMismatch], Party::RelayMiddleware),
        ),
        (
            "deltas that repeat all before them",
            begun()
                .says(&["Hello", "Hello wor", "Hello world", "Hello world!"])
                .closed("Hello world!")
                .with_message("Hello world!")
                .play(),
            valid(&[Class::CumulativeDeltas], Party::RelayMiddleware),
        ),
        (
            "usage that was asked for and is missing",
            hello()
                .with(8, |event| event["response"]["usage"] = Value::Null)
                .play()
                .asking(|asked| asked.usage = true),
            valid(&[Class::UsageMismatch], Party::RelayMiddleware),
        ),
        (
            "usage that is no sum",
            hello()
                .with(8, |event| {
                    event["response"]["usage"]["total_tokens"] = json!(99)
                })
                .play()
                .asking(|asked| asked.usage = true),
            valid(&[Class::UsageMismatch], Party::RelayMiddleware),
        ),
        (
            "an error text as the answer",
            begun()
                .says(&["You exceeded your current quota, please check your plan."])
                .closed("You exceeded your current quota, please check your plan.")
                .with_message("You exceeded your current quota, please check your plan.")
                .play(),
            valid(&[Class::ErrorAsContent], Party::ConcurrencyOrKey),
        ),
        (
            "characters that a decoder on the way lost",
            begun()
                .says(&["Gr\u{FFFD}\u{FFFD}", "ße"])
                .closed("Grüße")
                .with_message("Grüße")
                .play(),
            valid(&[Class::ReplacementChars], Party::RelayMiddleware),
        ),
    ]);
}

#[test]
fn bytes_that_are_no_stream_of_events_are_named_by_what_they_are() {
    let whole = response(
        "resp_1",
        "test-model",
        "completed",
        json!([message("msg_1", "completed", json!([text_part("Hello")]))]),
    )
    .to_string();
    let words = ["one ", "two ", "three ", "four "].repeat(8);
    let long = begun()
        .says(&words)
        .closed(&words.concat())
        .with_message(&words.concat());
    let mut split = hello().wire();
    let cut = split[4].len() - 30;
    let (left, right) = split[4].split_at(cut);
    let halves = [format!("{left}\n\n"), format!("data: {right}")];
    split.splice(4..5, halves);
    let mut malformed = hello().wire();
    malformed[4] = "event: response.output_text.delta\ndata: {\"type\":\"respo\n\n".to_owned();
    let mut bytes: Vec<Vec<u8>> = hello().wire().into_iter().map(String::into_bytes).collect();
    let at = bytes[4]
        .windows(5)
        .position(|part| part == b"world")
        .unwrap_or_default();
    bytes[4][at] = 0xff;
    let lines: String = hello()
        .events
        .iter()
        .map(|event| format!("{event}\n"))
        .collect();
    hold(vec![
        (
            "one JSON body",
            Play::of([whole.clone()]).under("application/json"),
            broken(&[Class::NotStreamed], Party::RelayMiddleware),
        ),
        (
            "a JSON error for a body",
            Play::of(["{\"error\":{\"message\":\"x\",\"type\":\"server_error\"}}"])
                .under("application/json"),
            broken(&[Class::Fake200JsonError], Party::RelayMiddleware),
        ),
        (
            "a page",
            Play::of(["<html>log in</html>"]).under("text/html"),
            broken(&[Class::Fake200Html], Party::RelayGateway),
        ),
        (
            "nothing",
            Play::of([": hi\n\n"]),
            interrupted(valid(&[Class::Fake200Empty], Party::RelayGateway)),
        ),
        (
            "lines of JSON",
            Play::of([lines]).under("application/x-ndjson"),
            broken(&[Class::WrongContentType], Party::RelayMiddleware),
        ),
        (
            "a whole answer in one event",
            Play::of([format!("data: {whole}\n\n")]),
            interrupted(violation_and_cut()),
        ),
        (
            "events under another type",
            hello().play().under("application/json"),
            valid(&[Class::WrongContentType], Party::RelayMiddleware),
        ),
        (
            "one event's JSON in two events",
            Play::of(split),
            broken(&[Class::JsonSplitAcrossEvents], Party::RelayMiddleware),
        ),
        (
            "an event whose JSON is cut",
            Play::of(malformed),
            broken(&[Class::MalformedJson], Party::RelayMiddleware),
        ),
        (
            "bytes that are no UTF-8",
            Play::of(bytes),
            broken(&[Class::InvalidUtf8], Party::RelayMiddleware),
        ),
        (
            "the whole answer in one burst",
            Play::of([long.wire().concat()]),
            valid(&[Class::NotStreamed], Party::RelayGateway),
        ),
    ]);
}

#[test]
fn streams_that_are_odd_and_legal_give_no_finding() {
    let reasoned = || {
        let reasoning =
            |summary: Value| json!({"id": "rs_1", "type": "reasoning", "summary": summary});
        let summary = |text: &str| json!({"type": "summary_text", "text": text});
        let place = |more: Value| {
            let mut members = json!({"item_id": "rs_1", "output_index": 0, "summary_index": 0});
            merged(&mut members, more);
            members
        };
        let text = |more: Value| {
            let mut members = json!({"item_id": "msg_1", "output_index": 1, "content_index": 0});
            merged(&mut members, more);
            members
        };
        let last = message("msg_1", "completed", json!([text_part("Hi")]));
        Script::default()
            .by("resp_1", "test-model")
            .item(0, reasoning(json!([])))
            .on(
                "response.reasoning_summary_part.added",
                place(json!({"part": summary("")})),
            )
            .on(
                "response.reasoning_summary_text.delta",
                place(json!({"delta": "Thinking"})),
            )
            .on(
                "response.reasoning_summary_text.done",
                place(json!({"text": "Thinking"})),
            )
            .on(
                "response.reasoning_summary_part.done",
                place(json!({"part": summary("Thinking")})),
            )
            .item_done(0, reasoning(json!([summary("Thinking")])))
            .item(1, message("msg_1", "in_progress", json!([])))
            .on(
                "response.content_part.added",
                text(json!({"part": text_part("")})),
            )
            .on("response.output_text.delta", text(json!({"delta": "Hi"})))
            .on("response.output_text.done", text(json!({"text": "Hi"})))
            .on(
                "response.content_part.done",
                text(json!({"part": text_part("Hi")})),
            )
            .item_done(1, last.clone())
            .completed(json!([reasoning(json!([])), last]))
    };
    let refusal = json!({"type": "refusal", "refusal": "No."});
    let refused = Script::default()
        .by("resp_1", "test-model")
        .item(0, message("msg_1", "in_progress", json!([])))
        .at(
            "response.content_part.added",
            json!({"part": {"type": "refusal", "refusal": ""}}),
        )
        .at("response.refusal.delta", json!({"delta": "No."}))
        .at("response.refusal.done", json!({"refusal": "No."}))
        .at("response.content_part.done", json!({"part": refusal}))
        .item_done(0, message("msg_1", "completed", json!([refusal])))
        .completed(json!([message("msg_1", "completed", json!([refusal]))]));
    let custom = json!({"id": "ct_1", "type": "custom_tool_call", "call_id": "c", "name": "f", "input": "say hi"});
    let custom_call = Script::default()
        .by("resp_1", "test-model")
        .item(0, json!({"id": "ct_1", "type": "custom_tool_call", "call_id": "c", "name": "f", "input": ""}))
        .on(
            "response.custom_tool_call_input.delta",
            json!({"item_id": "ct_1", "output_index": 0, "delta": "say hi"}),
        )
        .on(
            "response.custom_tool_call_input.done",
            json!({"item_id": "ct_1", "output_index": 0, "input": "say hi"}),
        )
        .item_done(0, custom.clone())
        .completed(json!([custom]));
    let search =
        json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {}});
    let searched = |name: &str| json!({"item_id": "ws_1", "output_index": 1, "of": name});
    let hosted = begun()
        .item(1, search.clone())
        .on("response.web_search_call.in_progress", searched("a"))
        .on("response.web_search_call.searching", searched("b"))
        .on("response.web_search_call.completed", searched("c"))
        .item_done(1, search.clone())
        .says(&["Hello"])
        .at(
            "response.output_text.annotation.added",
            json!({"annotation_index": 0, "annotation": {}}),
        )
        .closed("Hello")
        .completed(json!([
            message("msg_1", "completed", json!([text_part("Hello")])),
            search,
        ]));
    let unnamed = hello()
        .events
        .iter()
        .map(|event| format!("data: {event}\n\n"))
        .collect::<Vec<_>>();
    let crlf = hello()
        .wire()
        .iter()
        .map(|text| text.replace('\n', "\r\n"))
        .collect::<Vec<_>>();
    let mut gaps = hello();
    for (index, event) in gaps.events.iter_mut().enumerate() {
        event["sequence_number"] = json!(index * 3 + 7);
    }
    let strange = begun()
        .on(
            "response.something.new",
            json!({"delta": {"of": ["a", "kind"]}}),
        )
        .says(&["Hello world"])
        .on("keepalive", json!({}))
        .item(
            1,
            json!({"type": "hologram", "arguments": {"an": "object"}, "input": [1]}),
        )
        .item_done(
            1,
            json!({"type": "hologram", "arguments": {"an": "object"}, "input": [1]}),
        )
        .closed("Hello world")
        .with_message("Hello world");
    let queued = Script::default()
        .by("resp_1", "test-model")
        .on(
            "response.queued",
            json!({"response": response("resp_1", "test-model", "queued", json!([]))}),
        )
        .on(
            "response.in_progress",
            json!({"response": response("resp_1", "test-model", "in_progress", json!([]))}),
        );
    let queued = hello()
        .events
        .into_iter()
        .skip(1)
        .fold(queued, |script, event| {
            let name = event["type"].as_str().unwrap_or_default().to_owned();
            let number = script.next;
            let mut script = script.on(&name, event);
            if let Some(last) = script.events.last_mut() {
                last["sequence_number"] = json!(number);
            }
            script
        });
    let last = frame(&hello().events[8]);
    let rows: Vec<(&str, Play, &str, &[Warning])> =
        vec![
            ("all events", hello().play(), "Hello world", &[]),
            ("no names", Play::of(unnamed), "Hello world", &[]),
            ("CRLF", Play::of(crlf), "Hello world", &[]),
            ("numbers with gaps", gaps.play(), "Hello world", &[]),
            ("queued first", queued.play(), "Hello world", &[]),
            ("a reasoning summary", reasoned().play(), "Hi", &[]),
            ("a refusal", refused.play(), "", &[]),
            ("a call with free text", custom_call.play(), "", &[]),
            ("a hosted tool", hosted.play(), "Hello", &[]),
            (
                "unknown events and items",
                strange.play(),
                "Hello world",
                &[Warning::UnknownEvent],
            ),
            (
                "chat's end mark behind",
                hello().then(&["data: [DONE]\n\n"]),
                "Hello world",
                &[Warning::DoneAfterCompleted],
            ),
            (
                "pings and comments between",
                Play::of(hello().wire().into_iter().flat_map(|event| {
                    [event, ": ping\n\n".to_owned(), "event: ping\n\n".to_owned()]
                })),
                "Hello world",
                &[],
            ),
            (
                "a last event without its blank line",
                hello().without(8).then(&[last.trim_end()]),
                "Hello world",
                &[Warning::UnfinishedLastEvent],
            ),
            (
                "an open body after the end",
                hello().play().ending(End::Hang),
                "Hello world",
                &[Warning::BodyNotEndedAfterDone],
            ),
            (
                "a cut that was asked for, in a completed event",
                begun()
                    .says(&["Hello"])
                    .closed("Hello")
                    .with_message("Hello")
                    .with(7, |event| {
                        event["response"]["status"] = json!("incomplete");
                        event["response"]["incomplete_details"] =
                            json!({"reason": "max_output_tokens"});
                    })
                    .play()
                    .asking(|asked| asked.max_tokens = Some(2)),
                "Hello",
                &[],
            ),
            (
                "a cut in an open message",
                begun()
                    .says(&["Hello"])
                    .incomplete(json!({"reason": "max_output_tokens"}), json!([]))
                    .play()
                    .asking(|asked| asked.max_tokens = Some(2)),
                "Hello",
                &[],
            ),
            (
                "a dated model and further members",
                hello()
                    .with(0, |event| {
                        event["response"]["model"] = json!("openai/test-model-2025-08-07");
                        event["response"]["service_tier"] = json!("flex");
                        event["obfuscation"] = json!("x7");
                    })
                    .play(),
                "Hello world",
                &[],
            ),
        ];
    for (name, play, text, warnings) in rows {
        let seen = play.seen();
        assert_eq!(seen.findings, [], "{name}");
        assert_eq!(seen.text.as_deref(), Some(text), "{name}");
        assert_eq!(seen.warnings, warnings, "{name}");
        assert!(seen.parse_ok && !seen.interrupted, "{name}");
        assert_eq!(blame(&seen).party, Party::None, "{name}");
    }
}

#[test]
fn an_answer_that_is_not_streamed_is_read_like_a_stream() {
    let whole = |output: Value| {
        let mut response = response("resp_1", "test-model", "completed", output);
        response["usage"] = usage(2);
        response
    };
    let plain = || {
        whole(json!([message(
            "msg_1",
            "completed",
            json!([text_part("Hello")])
        )]))
    };
    let play = |body: Value| {
        Play::of([body.to_string()])
            .under("application/json")
            .asking(|asked| asked.stream = false)
    };
    let with = |pointer: &str, value: Value| {
        let mut body = plain();
        if let Some(member) = body.pointer_mut(pointer) {
            *member = value;
        }
        play(body)
    };
    let mut incomplete = plain();
    incomplete["status"] = json!("incomplete");
    incomplete["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let mut failed = whole(json!([]));
    failed["status"] = json!("failed");
    failed["error"] = json!({"code": "server_error", "message": "it broke"});
    hold(vec![
        ("a message", play(plain()), valid(&[], Party::None)),
        (
            "a call",
            play(whole(json!([function("fc_1", "call_1", "{\"a\":1}")]))),
            valid(&[], Party::None),
        ),
        (
            "arguments that are no JSON",
            play(whole(json!([function("fc_1", "call_1", "{\"a\":")]))),
            valid(&[Class::ToolCallCorrupt], Party::RelayMiddleware),
        ),
        (
            "no output",
            play(whole(json!([]))),
            valid(&[Class::EmptyAnswer], Party::Upstream),
        ),
        (
            "a cut",
            play(incomplete),
            valid(&[Class::UnexpectedLengthCut], Party::RelayMiddleware),
        ),
        (
            "a failure",
            play(failed),
            broken(&[Class::ErrorInStream], Party::Upstream),
        ),
        (
            "an error object",
            play(json!({"error": {"message": "no", "type": "server_error"}})),
            broken(&[Class::Fake200JsonError], Party::RelayMiddleware),
        ),
        (
            "an answer that is not made yet",
            with("/status", json!("queued")),
            valid(&[Class::SilentTruncation], Party::Upstream),
        ),
        (
            "another object",
            with("/object", json!("chat.completion")),
            broken(&[Class::SchemaViolation], Party::RelayMiddleware),
        ),
        (
            "another protocol's answer",
            play(json!({"id": "c", "object": "chat.completion", "choices": []})),
            broken(&[Class::SchemaViolation], Party::RelayMiddleware),
        ),
        (
            "another model",
            with("/model", json!("other-model")),
            valid(&[Class::ModelMismatch], Party::RelayMiddleware),
        ),
    ]);
    let seen = play(plain()).seen();
    assert_eq!(seen.text.as_deref(), Some("Hello"));
    assert_eq!(seen.usage.and_then(|usage| usage.total), Some(11));
    assert_eq!(seen.response_id.as_deref(), Some("resp_1"));
    assert_eq!(seen.finish_reason.as_deref(), Some("completed"));
}

#[test]
fn a_life_cycle_without_end_is_followed_within_bounds() {
    let mut script = Script::default().by("resp_1", "test-model");
    for index in 0..300 {
        let item = message(&format!("msg_{index}"), "in_progress", json!([]));
        script = script.item(index, item);
        for part in 0..4 {
            let mut place = json!({
                "item_id": format!("msg_{index}"), "output_index": index, "content_index": part,
            });
            place["part"] = text_part("");
            script = script.on("response.content_part.added", place);
        }
    }
    let mut play = script.completed(json!([])).play();
    play.gap_ms = 1;
    let seen = play.seen();
    // What lies beyond the bounds is not judged; what is open is.
    assert_eq!(seen.class(), Some(Class::SchemaViolation));
    assert!(seen.findings.len() < 8);
}
