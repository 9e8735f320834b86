use super::*;

/// What one event says, in short.
fn said_by_life(life: &mut Life, name: &str, data: &str) -> Result<Vec<String>, Unreadable> {
    let mut said = Vec::new();
    life.frame(&mut Twin::default(), Frame { name, data }, &mut |signal| {
        said.push(short(&signal))
    })?;
    Ok(said)
}

fn said(name: &str, data: &str) -> Result<Vec<String>, Unreadable> {
    said_by_life(&mut Life::default(), name, data)
}

fn short(signal: &Signal<'_>) -> String {
    match signal {
        Signal::Meta {
            id, model, role, ..
        } => {
            let names = [*id, *model].map(Option::unwrap_or_default);
            if names == ["r", "m"] {
                format!("meta {role}")
            } else {
                format!("meta {role} {names:?}")
            }
        }
        Signal::Delta { kind, choice, text } => format!("{kind:?} {choice} {text}"),
        Signal::ToolCall {
            index,
            name,
            arguments,
            ..
        } => format!("call {index:?} {} {arguments}", name.unwrap_or("-")),
        Signal::Finish {
            choice,
            stop,
            reason,
        } => format!("{stop:?} {choice} {reason}"),
        Signal::Usage(usage) => format!(
            "usage {:?} {:?} {:?}",
            usage.input, usage.output, usage.total
        ),
        Signal::Error { code, .. } => format!("error {}", code.unwrap_or("-")),
        Signal::Flaw(detail) | Signal::CallFault(detail) => (*detail).to_owned(),
        Signal::Odd(warning) => warning.to_string(),
        Signal::Terminator => "end".to_owned(),
        Signal::Restart => "again".to_owned(),
    }
}

/// What the events of a stream say, one after the other, and its end.
fn stream(events: &[String]) -> Vec<String> {
    let mut life = Life::default();
    let mut all = Vec::new();
    for data in events {
        let heard = said_by_life(&mut life, "message", data).unwrap();
        all.extend(heard.into_iter().filter(|text| !text.starts_with("meta")));
    }
    life.end(&mut |signal| all.push(format!("then {}", short(&signal))));
    all
}

fn event(candidates: &str, more: &str) -> String {
    format!("{{\"candidates\":[{candidates}],\"modelVersion\":\"m\",\"responseId\":\"r\"{more}}}")
}

fn parts(parts: &str) -> String {
    event(
        &format!("{{\"content\":{{\"role\":\"model\",\"parts\":[{parts}]}}}}"),
        "",
    )
}

fn says(index: u64, text: &str, finish: &str) -> String {
    let finish = if finish.is_empty() {
        String::new()
    } else {
        format!(",\"finishReason\":\"{finish}\"")
    };
    let content = if text.is_empty() {
        String::new()
    } else {
        format!(",\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}")
    };
    event(&format!("{{\"index\":{index}{content}{finish}}}"), "")
}

#[test]
fn a_model_with_a_collection_keeps_it_and_only_a_stream_asks_for_events() {
    assert_eq!(
        target("gemini-x", true),
        (
            "/v1beta/models/gemini-x:streamGenerateContent".to_owned(),
            Some("alt=sse")
        )
    );
    assert_eq!(
        target("tunedModels/x", false),
        ("/v1beta/tunedModels/x:generateContent".to_owned(), None)
    );
}

#[test]
fn every_legal_form_of_a_chunk_is_said() {
    for (data, expected) in [
        (parts("{\"text\":\"a\\nb\"}"), vec!["Content 0 a\nb"]),
        (
            parts("{\"text\":\"a\"},{\"text\":\"\"},{\"text\":\"b\",\"x\":[1.5e3]}"),
            vec!["Content 0 a", "Content 0 b"],
        ),
        (
            parts("{\"thought\":true,\"text\":\"hm\"},{\"thought\":false,\"text\":\"a\"}"),
            vec!["Reasoning 0 hm", "Content 0 a"],
        ),
        (
            parts("{\"text\":\"\",\"thoughtSignature\":\"c2ln\"}"),
            vec![],
        ),
        (
            parts(
                "{\"functionCall\":{\"name\":\"f\",\"args\":{\"x\": 1}}},{\"functionCall\":{\"id\":\"i\",\"name\":\"g\"}}",
            ),
            vec!["call Some(0) f {\"x\": 1}", "call Some(1) g "],
        ),
        (
            parts(
                "{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1+1\"}},{\"codeExecutionResult\":{\"outcome\":\"OUTCOME_OK\",\"output\":\"2\"}}",
            ),
            vec!["Other 0 1+1", "Other 0 2"],
        ),
        (
            parts(
                "{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"aGk=\"}},{\"fileData\":{\"fileUri\":\"x\"}}",
            ),
            vec!["Other 0 \u{fffc}", "Other 0 \u{fffc}"],
        ),
        (event("", ",\"error\":null,\"usageMetadata\":null"), vec![]),
        (
            event("{\"index\":0,\"content\":null,\"finishReason\":null}", ""),
            vec![],
        ),
        (
            event("{\"content\":{\"parts\":null,\"role\":null}}", ""),
            vec![],
        ),
        (
            event("{\"finishReason\":\"\"}", ""),
            vec!["finish-reason-empty-string"],
        ),
        (
            event("{\"finishReason\":\"FINISH_REASON_UNSPECIFIED\"}", ""),
            vec![],
        ),
        (
            event("{\"finishReason\":\"MAX_TOKENS\"}", ""),
            vec!["Length 0 MAX_TOKENS", "end"],
        ),
        (
            event("{\"finishReason\":\"eos\"}", ""),
            vec!["unknown-finish-reason", "end"],
        ),
        (
            event("", ",\"promptFeedback\":{\"safetyRatings\":[]}"),
            vec![],
        ),
        (
            event("", ",\"promptFeedback\":{\"blockReason\":\"SAFETY\"}"),
            vec!["Filter 0 SAFETY", "end"],
        ),
    ] {
        let mut heard = said("message", &data).unwrap();
        assert_eq!(heard.remove(0), "meta true", "{data}");
        assert_eq!(heard, expected, "{data}");
    }
    assert_eq!(
        said("message", "{\"usageMetadata\":{}}").unwrap(),
        ["meta true [\"\", \"\"]", "usage None None None"]
    );
    assert_eq!(said("message", "").unwrap(), ["empty-event"]);
}

#[test]
fn every_reason_of_the_protocol_is_known() {
    for (reason, expected) in [
        ("STOP", Stop::Natural),
        ("MAX_TOKENS", Stop::Length),
        ("SAFETY", Stop::Filter),
        ("RECITATION", Stop::Filter),
        ("LANGUAGE", Stop::Filter),
        ("OTHER", Stop::Abort),
        ("BLOCKLIST", Stop::Filter),
        ("PROHIBITED_CONTENT", Stop::Filter),
        ("SPII", Stop::Filter),
        ("MALFORMED_FUNCTION_CALL", Stop::Abort),
        ("IMAGE_SAFETY", Stop::Filter),
        ("UNEXPECTED_TOOL_CALL", Stop::Abort),
        ("TOO_MANY_TOOL_CALLS", Stop::Abort),
        ("MISSING_THOUGHT_SIGNATURE", Stop::Abort),
        ("MALFORMED_RESPONSE", Stop::Abort),
        ("NO_IMAGE", Stop::Abort),
    ] {
        assert_eq!(stop(reason), (expected, true), "{reason}");
    }
    assert_eq!(stop("length"), (Stop::Length, false));
    assert_eq!(stop("whatever"), (Stop::Unknown, false));
}

#[test]
fn a_finish_after_unfinished_output_is_said_at_once() {
    let heard = stream(&[says(0, "a", ""), says(0, "b", "STOP")]);
    assert_eq!(
        heard,
        ["Content 0 a", "Content 0 b", "Natural 0 STOP", "end"]
    );
    let heard = stream(&[says(0, "a", ""), says(0, "b", "STOP"), says(0, "c", "STOP")]);
    assert_eq!(
        heard[2..],
        [
            "Natural 0 STOP",
            "end",
            "Content 0 c",
            "Natural 0 STOP",
            "end"
        ],
        "the second is for the answer to find"
    );
}

#[test]
fn a_finish_in_every_event_is_said_when_the_body_has_ended() {
    let heard = stream(&[
        says(0, "a", "STOP"),
        says(0, "b", "STOP"),
        says(0, "", "STOP"),
    ]);
    assert_eq!(
        heard,
        [
            "Content 0 a",
            "end",
            "finish-repeated",
            "Content 0 b",
            "end",
            "finish-repeated",
            "end",
            "then Natural 0 STOP"
        ]
    );
    let cut = stream(&[says(0, "a", "STOP"), says(0, "b", "MAX_TOKENS")]);
    assert_eq!(cut[3..], ["Content 0 b", "Length 0 MAX_TOKENS", "end"]);
}

#[test]
fn output_that_breaks_the_habit_comes_after_the_finish() {
    let heard = stream(&[says(0, "a", "STOP"), says(0, "b", "")]);
    assert_eq!(
        heard,
        ["Content 0 a", "end", "Natural 0 STOP", "Content 0 b"]
    );
    // Counts alone are no output.
    let heard = stream(&[
        says(0, "a", "STOP"),
        event("", ",\"usageMetadata\":{\"totalTokenCount\":3}"),
    ]);
    assert_eq!(heard.last().unwrap(), "then Natural 0 STOP");
}

#[test]
fn a_stream_ends_when_every_candidate_has() {
    let heard = stream(&[
        says(0, "a", ""),
        says(1, "b", ""),
        says(0, "", "STOP"),
        says(1, "", "STOP"),
    ]);
    assert_eq!(
        heard[2..],
        ["Natural 0 STOP", "Natural 1 STOP", "end"],
        "one end"
    );
    let mut life = Life::default();
    for (data, open) in [
        (says(0, "a", "STOP"), false),
        (says(1, "a", ""), true),
        (says(1, "", "STOP"), false),
    ] {
        said_by_life(&mut life, "message", &data).unwrap();
        assert_eq!(life.is_open(), open, "{data}");
    }
}

#[test]
fn the_candidates_that_are_followed_are_bounded() {
    let mut life = Life::default();
    for index in 0..10_000 {
        said_by_life(&mut life, "message", &says(index, "a", "")).unwrap();
    }
    assert_eq!(life.tracks.len(), MAX_CANDIDATES);
    let long = says(0, "", &"x".repeat(100_000));
    let mut life = Life::default();
    said_by_life(&mut life, "message", &long).unwrap();
    assert!(life.tracks[0].held.as_ref().unwrap().1.len() <= MAX_REASON);
}

#[test]
fn a_finish_after_a_function_call_is_for_the_call() {
    let call = "{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{}}}]},\"finishReason\":\"STOP\"}";
    let heard = stream(&[event(call, "")]);
    assert_eq!(heard, ["call Some(0) f {}", "end", "then ToolCalls 0 STOP"]);
}

#[test]
fn a_call_in_pieces_is_open_until_the_last() {
    let piece = |members: &str| parts(&format!("{{\"functionCall\":{{{members}}}}}"));
    let heard = stream(&[
        piece("\"name\":\"f\",\"willContinue\":true"),
        piece(
            "\"partialArgs\":[{\"jsonPath\":\"$.a\",\"stringValue\":\"Par\",\"willContinue\":true}],\"willContinue\":true",
        ),
        piece("\"partialArgs\":[{\"jsonPath\":\"$.b\",\"numberValue\":1}],\"willContinue\":true"),
        piece(""),
        piece("\"name\":\"g\",\"args\":{}"),
    ]);
    assert_eq!(
        heard,
        [
            "call Some(0) f {",
            "Other 0 Par",
            "Other 0 \u{fffc}",
            "call Some(0) - }",
            "call Some(1) g {}"
        ]
    );
    let heard = stream(&[
        piece("\"name\":\"f\",\"willContinue\":true"),
        piece("\"name\":\"g\",\"args\":{}"),
    ]);
    assert_eq!(heard, ["call Some(0) f {", "call Some(1) g {}"]);
}

#[test]
fn a_generation_begins_first_and_where_the_counts_run_backwards() {
    let mut life = Life::default();
    for (count, begins) in [(3, true), (5, false), (5, false), (1, true), (2, false)] {
        let data = event(
            "",
            &format!(",\"usageMetadata\":{{\"candidatesTokenCount\":{count}}}"),
        );
        let heard = said_by_life(&mut life, "message", &data).unwrap();
        assert_eq!(heard[0], format!("meta {begins}"), "{count}");
    }
}

#[test]
fn thoughts_are_counted_in_wherever_the_service_counts_them() {
    let count = |json: &str| {
        let counts: Counts = serde_json::from_str(json).unwrap();
        let usage = usage(&counts);
        (usage.input, usage.output, usage.reasoning, usage.total)
    };
    for (json, expected) in [
        (
            "{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"totalTokenCount\":11}",
            (Some(9), Some(2), None, Some(11)),
        ),
        (
            "{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"thoughtsTokenCount\":64,\"totalTokenCount\":75}",
            (Some(9), Some(66), Some(64), Some(75)),
        ),
        (
            "{\"promptTokenCount\":9,\"candidatesTokenCount\":66,\"thoughtsTokenCount\":64,\"totalTokenCount\":75}",
            (Some(9), Some(66), Some(64), Some(75)),
        ),
        (
            "{\"promptTokenCount\":9,\"thoughtsTokenCount\":64,\"totalTokenCount\":73}",
            (Some(9), Some(64), Some(64), Some(73)),
        ),
        (
            "{\"promptTokenCount\":9,\"toolUsePromptTokenCount\":5,\"candidatesTokenCount\":2,\"totalTokenCount\":16}",
            (Some(14), Some(2), None, Some(16)),
        ),
        (
            "{\"promptTokenCount\":9,\"totalTokenCount\":9}",
            (Some(9), Some(0), None, Some(9)),
        ),
        (
            "{\"promptTokenCount\":9,\"totalTokenCount\":12}",
            (Some(9), None, None, Some(12)),
        ),
        ("{}", (None, None, None, None)),
    ] {
        assert_eq!(count(json), expected, "{json}");
    }
}

#[test]
fn an_error_is_heard_in_every_shape_and_place() {
    for (name, data, code) in [
        (
            "message",
            "{\"error\":{\"code\":503,\"message\":\"m\",\"status\":\"UNAVAILABLE\"}}".to_owned(),
            "UNAVAILABLE",
        ),
        (
            "message",
            "[{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\"}}]".to_owned(),
            "RESOURCE_EXHAUSTED",
        ),
        ("message", "{\"error\":\"boom\"}".to_owned(), "-"),
        ("message", event("", ",\"error\":{\"status\":\"X\"}"), "X"),
        (
            "message",
            event("{\"index\":0,\"error\":{\"code\":504}}", ""),
            "504",
        ),
        (
            "message",
            "{\"code\":\"x\",\"message\":\"no\"}".to_owned(),
            "x",
        ),
        (
            "error",
            "{\"code\":\"rate_limited\"}".to_owned(),
            "rate_limited",
        ),
        ("error", says(0, "a", ""), "-"),
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
fn what_is_no_object_of_the_protocol_is_unreadable() {
    let whole = says(0, "a", "STOP");
    for data in [
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[]}".to_owned(),
        whole.replace("\"candidates\":[", "\"candidates\":1,\"x\":["),
        whole.replace("\"index\":0", "\"index\":\"0\""),
        whole.replace("\"a\"", "1"),
        whole.replace("\"parts\":[", "\"parts\":{},\"x\":["),
        whole.replace("\"STOP\"", "1"),
        whole.replace("\"modelVersion\":\"m\"", "\"modelVersion\":{}"),
        whole.replace("\"modelVersion\"", "\"responseId\""),
        parts("\"a\""),
        parts("{\"thought\":\"yes\",\"text\":\"a\"}"),
        parts("{\"functionCall\":[]}"),
        parts("{\"inlineData\":\"aGk=\"}"),
        event("", ",\"usageMetadata\":{\"candidatesTokenCount\":-1}"),
        event("", ",\"promptFeedback\":\"SAFETY\""),
    ] {
        let heard = said("message", &data);
        assert!(
            matches!(heard, Err(Unreadable::Shape(_))),
            "{data}: {heard:?}"
        );
    }
    let odd = parts("{\"functionCall\":{\"name\":\"f\",\"args\":\"{}\"}}");
    assert!(
        said("message", &odd)
            .unwrap()
            .contains(&"arguments that are no object".to_owned())
    );
}

#[test]
fn json_is_strict_and_knows_no_sentinel() {
    for data in [
        "{",
        "NaN",
        "[DONE]",
        "{'id':1}",
        "{\"a\":1} x",
        "{\"a\":1,}",
    ] {
        assert_eq!(said("message", data), Err(Unreadable::NotJson), "{data}");
    }
}

#[test]
fn events_of_the_relays_own_are_passed_over() {
    for (name, data) in [
        ("ping", "{\"type\":\"ping\"}"),
        ("message", "{\"type\":\"ping\"}"),
        ("stats", "{\"tokens\":3}"),
    ] {
        assert_eq!(said(name, data).unwrap(), ["unknown-event"]);
    }
    assert!(said("ping", "").unwrap().is_empty());
}

#[test]
fn a_whole_answer_is_read_with_its_end() {
    let read = |body: &str| {
        let mut said = Vec::new();
        answer(body, &mut |signal| said.push(short(&signal))).map(|()| said)
    };
    assert_eq!(
        read(&says(0, "a", "STOP")).unwrap(),
        ["meta true", "Content 0 a", "Natural 0 STOP", "end"]
    );
    assert_eq!(
        read(&says(0, "a", "")).unwrap(),
        ["meta true", "Content 0 a", "end"]
    );
    let blocked = "{\"promptFeedback\":{\"blockReason\":\"JAILBREAK\"}}";
    assert_eq!(read(blocked).unwrap()[1..], ["Filter 0 JAILBREAK", "end"]);
    assert_eq!(
        read("{\"error\":{\"status\":\"INTERNAL\"}}").unwrap(),
        ["error INTERNAL"]
    );
    for body in [
        "{}",
        "[]",
        "{\"candidates\":[]}",
        "{\"modelVersion\":\"m\"}",
    ] {
        assert!(matches!(read(body), Err(Unreadable::Shape(_))), "{body}");
    }
    assert_eq!(read("{"), Err(Unreadable::NotJson));
}
