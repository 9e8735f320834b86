//! One hand-written stream for each way in which this protocol can go wrong, and the odd ones that
//! are legal: bytes in, findings out.

use std::time::Duration;

use crate::dialect::Protocol;
use crate::expect::Expect;
use crate::observation::{Class, Observation, Warning};
use crate::stream::{Asked, Exchange, Head, Input, Loss, Timeouts};

/// How a body ends.
#[derive(Clone, Copy)]
enum End {
    Clean,
    Reset,
    Silence,
}

/// A stream and what is asked of it.
struct Play {
    asked: Asked,
    kind: &'static str,
    end: End,
    /// Writes, 20 ms apart.
    body: Vec<Vec<u8>>,
}

fn play(body: &[&str]) -> Play {
    Play {
        asked: Asked {
            protocol: Protocol::AnthropicMessages,
            stream: true,
            model: "test-model".to_owned(),
            max_tokens: Some(4096),
            usage: true,
            seal: None,
            request_bytes: 100,
            expect: Expect::default(),
            keep_text: true,
        },
        kind: "text/event-stream; charset=utf-8",
        end: End::Clean,
        body: body.iter().map(|write| write.as_bytes().to_vec()).collect(),
    }
}

impl Play {
    fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    fn kind(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    fn seal(mut self) -> Self {
        self.asked.seal = Some("END-1".to_owned());
        self
    }

    fn budget(mut self, budget: u64) -> Self {
        self.asked.max_tokens = Some(budget);
        self
    }

    fn whole(mut self) -> Self {
        self.asked.stream = false;
        self.kind("application/json")
    }

    fn seen(self) -> Observation {
        let limits = Timeouts {
            first_token: Duration::from_secs(2),
            idle: Duration::from_secs(2),
            ..Timeouts::default()
        };
        let mut exchange = Exchange::new(self.asked, limits);
        let head = Head {
            status: 200,
            version: "1.1",
            headers: vec![("content-type", self.kind.as_bytes())],
        };
        let mut now = Duration::from_millis(100);
        exchange.handle(now, Input::Head(head));
        for write in &self.body {
            now += Duration::from_millis(20);
            exchange.handle(now, Input::Body(write));
        }
        match self.end {
            End::Clean => exchange.handle(now, Input::BodyEnd),
            End::Reset => exchange.handle(now, Input::Lost(Loss::Reset)),
            End::Silence => {
                while let Some((due, _)) = exchange.deadline() {
                    exchange.handle(due, Input::Deadline);
                }
            }
        }
        exchange.finish()
    }
}

fn event(name: &str, rest: &str) -> String {
    let comma = if rest.is_empty() { "" } else { "," };
    format!("event: {name}\ndata: {{\"type\":\"{name}\"{comma}{rest}}}\n\n")
}

fn start_of(id: &str, model: &str) -> String {
    event(
        "message_start",
        &format!(
            r#""message":{{"id":"{id}","type":"message","role":"assistant","model":"{model}","content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":9,"output_tokens":1}}}}"#
        ),
    )
}

fn start() -> String {
    start_of("msg_1", "test-model")
}

fn open(index: u32) -> String {
    event(
        "content_block_start",
        &format!(r#""index":{index},"content_block":{{"type":"text","text":""}}"#),
    )
}

fn open_thinking(index: u32) -> String {
    event(
        "content_block_start",
        &format!(
            r#""index":{index},"content_block":{{"type":"thinking","thinking":"","signature":""}}"#
        ),
    )
}

fn open_call(index: u32, id: &str) -> String {
    event(
        "content_block_start",
        &format!(
            r#""index":{index},"content_block":{{"type":"tool_use","id":"{id}","name":"f","input":{{}}}}"#
        ),
    )
}

fn delta(index: u32, kind: &str, member: &str, text: &str) -> String {
    let text = serde_json::Value::from(text);
    event(
        "content_block_delta",
        &format!(r#""index":{index},"delta":{{"type":"{kind}","{member}":{text}}}"#),
    )
}

fn say(text: &str) -> String {
    delta(0, "text_delta", "text", text)
}

fn input(index: u32, json: &str) -> String {
    delta(index, "input_json_delta", "partial_json", json)
}

fn close(index: u32) -> String {
    event("content_block_stop", &format!("\"index\":{index}"))
}

fn finish(reason: &str, output: u32) -> String {
    event(
        "message_delta",
        &format!(
            r#""delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":{output}}}"#
        ),
    )
}

fn stop() -> String {
    event("message_stop", "")
}

fn ping() -> String {
    event("ping", "")
}

fn failed(kind: &str) -> String {
    event(
        "error",
        &format!(r#""error":{{"type":"{kind}","message":"It failed"}},"request_id":"req_1""#),
    )
}

/// An answer of one text block.
fn answer(texts: &[&str], reason: &str) -> Vec<String> {
    let mut all = vec![start(), open(0)];
    all.extend(texts.iter().map(|text| say(text)));
    all.extend([close(0), finish(reason, 4), stop()]);
    all
}

fn of(events: &[String]) -> Play {
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    play(&events)
}

/// The answer with another event in place of each that begins with `name`.
fn with(events: &[String], name: &str, change: impl Fn(&str) -> String) -> Vec<String> {
    let start = format!("event: {name}\n");
    let changed = events.iter().map(|event| {
        if event.starts_with(&start) {
            change(event)
        } else {
            event.clone()
        }
    });
    changed.collect()
}

fn without(events: &[String], name: &str) -> Vec<String> {
    let mut kept = with(events, name, |_| String::new());
    kept.retain(|event| !event.is_empty());
    kept
}

fn joined(events: &[String]) -> String {
    events.concat()
}

const WHOLE: &str = r#"{"id":"msg_1","type":"message","role":"assistant","model":"test-model","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":9,"output_tokens":3}}"#;
const REFUSED: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Number of requests has exceeded your rate limit"},"request_id":"req_1"}"#;
const HELLO: [&str; 2] = ["Hello", " world"];

/// What is wrong, the stream, all its classes with the leading one first, `parse_ok`, `interrupted`.
type Row = (&'static str, Play, &'static [Class], bool, bool);

fn bodies_that_are_no_stream() -> Vec<Row> {
    let lines: String = answer(&HELLO, "end_turn")
        .iter()
        .map(|event| event.split_once("data: ").unwrap().1.trim().to_owned() + "\n")
        .collect();
    vec![
        (
            "a JSON error for a body",
            play(&[REFUSED]).kind("application/json"),
            &[Class::Fake200JsonError],
            false,
            false,
        ),
        (
            "a JSON error in the name of a stream",
            play(&[REFUSED]),
            &[Class::Fake200JsonError],
            false,
            true,
        ),
        (
            "a page",
            play(&["<!DOCTYPE html><html><body>Sign in</body></html>"]).kind("text/html"),
            &[Class::Fake200Html],
            false,
            false,
        ),
        ("nothing", play(&[]), &[Class::Fake200Empty], true, true),
        (
            "heartbeats alone",
            of(&[ping(), ping()]),
            &[Class::Fake200Empty],
            true,
            true,
        ),
        (
            "an end mark alone",
            of(&[stop()]),
            &[Class::Fake200Empty],
            true,
            false,
        ),
        (
            "one JSON answer",
            play(&[WHOLE]).kind("application/json"),
            &[Class::NotStreamed],
            false,
            false,
        ),
        (
            "lines of JSON",
            play(&[&lines]).kind("application/x-ndjson"),
            &[Class::WrongContentType],
            false,
            false,
        ),
        (
            "events under another type",
            of(&answer(&HELLO, "end_turn")).kind("application/json"),
            &[Class::WrongContentType],
            true,
            false,
        ),
    ]
}

fn said_errors() -> Vec<Row> {
    let mut broken = answer(&HELLO, "end_turn");
    broken.truncate(3);
    let late = [broken.clone(), vec![failed("api_error")]].concat();
    let unnamed = failed("overloaded_error").replace("event: error\n", "");
    let after_end = [answer(&HELLO, "end_turn"), vec![failed("rate_limit_error")]].concat();
    let quota = "You exceeded your current quota, please check your plan";
    vec![
        (
            "an error first",
            of(&[failed("overloaded_error")]),
            &[Class::ErrorInStream],
            false,
            true,
        ),
        (
            "an error in mid-answer",
            of(&late),
            &[Class::ErrorInStream],
            false,
            true,
        ),
        (
            "an error without a name",
            of(&[broken.clone(), vec![unnamed]].concat()),
            &[Class::ErrorInStream],
            false,
            true,
        ),
        (
            "an error after the end mark",
            of(&after_end),
            &[Class::ErrorInStream, Class::DataAfterDone],
            false,
            false,
        ),
        (
            "an error of another API",
            of(&[
                broken.clone(),
                vec!["data: {\"error\":{\"message\":\"no\"}}\n\n".to_owned()],
            ]
            .concat()),
            &[Class::ErrorInStream],
            false,
            true,
        ),
        (
            "an error text as data",
            of(&[
                broken,
                vec!["data: upstream request timeout\n\n".to_owned()],
            ]
            .concat()),
            &[Class::ErrorInStream],
            false,
            true,
        ),
        (
            "an error text as the answer",
            of(&answer(&[quota], "end_turn")),
            &[Class::ErrorAsContent],
            true,
            false,
        ),
        (
            "a refusal of the service",
            of(&answer(&HELLO, "refusal")),
            &[Class::ContentFiltered],
            true,
            false,
        ),
        (
            "a reason that admits a break",
            of(&answer(&HELLO, "error")),
            &[Class::UpstreamAbort],
            false,
            false,
        ),
    ]
}

fn damaged_bytes() -> Vec<Row> {
    let honest = answer(&["Hello", " wörld"], "end_turn");
    let cut = with(&honest, "content_block_delta", |event| {
        if event.contains("rld") {
            event.replace("\"}}", "")
        } else {
            event.to_owned()
        }
    });
    let split = with(&honest, "content_block_delta", |event| {
        event.replace(
            ",\"delta\"",
            "\n\nevent: content_block_delta\ndata: ,\"delta\"",
        )
    });
    let mut bad = of(&honest);
    for write in &mut bad.body {
        if let Some(at) = write.windows(2).position(|pair| pair == "ö".as_bytes()) {
            write[at] = b'X';
        }
    }
    let replaced = with(&honest, "content_block_delta", |event| {
        event.replace('ö', "\u{FFFD}")
    });
    let beginning = with(&honest, "message_start", |event| {
        event.replace("}}\n", "\n")
    });
    let opening = with(&honest, "content_block_start", |event| {
        event.replace("}}\n", "\n")
    });
    let number = with(&honest, "message_delta", |event| {
        event.replace(":4", ":NaN")
    });
    vec![
        (
            "JSON that is cut",
            of(&cut),
            &[Class::MalformedJson],
            false,
            false,
        ),
        (
            "a beginning that is cut",
            of(&beginning),
            &[Class::MalformedJson],
            false,
            false,
        ),
        (
            "a block whose opening is cut",
            of(&opening),
            &[Class::MalformedJson],
            false,
            false,
        ),
        (
            "JSON that is split",
            of(&split),
            &[Class::JsonSplitAcrossEvents],
            false,
            false,
        ),
        (
            "bytes that are no UTF-8",
            bad,
            &[Class::InvalidUtf8],
            false,
            false,
        ),
        (
            "replaced characters",
            of(&replaced),
            &[Class::ReplacementChars],
            true,
            false,
        ),
        (
            "a number that is none",
            of(&number),
            &[Class::MalformedJson],
            false,
            false,
        ),
    ]
}

fn wrong_shapes() -> Vec<Row> {
    let honest = answer(&HELLO, "end_turn");
    let unnamed: Vec<String> = honest
        .iter()
        .map(|event| format!("data: {}", event.split_once("data: ").unwrap().1))
        .collect();
    let misnamed = with(&honest, "content_block_delta", |event| {
        event.replace("event: content_block_delta", "event: message_delta")
    });
    let chat: Vec<String> = [
        "{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[]}",
        "[DONE]",
    ]
    .map(|data| format!("data: {data}\n\n"))
    .to_vec();
    let one = |name: &'static str, events: Vec<String>| -> Row {
        (name, of(&events), &[Class::SchemaViolation], false, false)
    };
    vec![
        one("events without names", unnamed),
        one("names that are not the types", misnamed),
        one("no beginning", without(&honest, "message_start")),
        one(
            "a delta of no block",
            without(&honest, "content_block_start"),
        ),
        one(
            "a block that is not closed",
            without(&honest, "content_block_stop"),
        ),
        one(
            "a delta of another index",
            with(&honest, "content_block_delta", |event| {
                event.replace(":0", ":1")
            }),
        ),
        one(
            "thinking in a text block",
            with(&honest, "content_block_delta", |event| {
                event.replace("text_delta\",\"text", "thinking_delta\",\"thinking")
            }),
        ),
        one(
            "text of the wrong type",
            with(&honest, "content_block_delta", |event| {
                event.replace("\"Hello\"", "[]")
            }),
        ),
        one(
            "a message without an id",
            with(&honest, "message_start", |event| {
                event.replace("\"id\":\"msg_1\",", "")
            }),
        ),
        (
            "a final report without usage",
            of(&with(&honest, "message_delta", |event| {
                event.replace(",\"usage\":{\"output_tokens\":4}", "")
            })),
            &[Class::SchemaViolation, Class::UsageMismatch],
            false,
            false,
        ),
        (
            "the chunks of another protocol",
            of(&chat),
            &[Class::SchemaViolation, Class::TruncatedNoTerminator],
            false,
            true,
        ),
        (
            "a whole message as one event",
            play(&[&format!("event: message\ndata: {WHOLE}\n\n"), &stop()]),
            &[Class::SchemaViolation],
            false,
            false,
        ),
    ]
}

fn mixed_up_answers() -> Vec<Row> {
    let honest = answer(&HELLO, "end_turn");
    let begun = &honest[..4];
    let other = [
        begun.to_vec(),
        vec![start_of("msg_2", "test-model")],
        honest[1..].to_vec(),
    ]
    .concat();
    let twice = [vec![start()], honest.clone()].concat();
    let cumulative = answer(&["Hel", "Hello wor", "Hello world, all"], "end_turn");
    let call = |id: &str, json: &str| vec![open_call(0, id), input(0, json), close(0)];
    let end = vec![finish("tool_use", 4), stop()];
    let collision = [
        vec![start()],
        call("a", "{\"x\":1}"),
        call("b", "{\"y\":2}"),
        end.clone(),
    ]
    .concat();
    let cut = [vec![start()], call("a", "{\"x\":"), end.clone()].concat();
    let nameless = with(
        &[vec![start()], call("a", "{}"), end].concat(),
        "content_block_start",
        |event| event.replace("\"name\":\"f\",", ""),
    );
    let promised = answer(&HELLO, "tool_use");
    let label = [vec![start_of("msg_1", "other-model")], honest[1..].to_vec()].concat();
    vec![
        (
            "a second message in the first",
            of(&other),
            &[Class::StreamSplice],
            true,
            false,
        ),
        (
            "a beginning that comes twice",
            of(&twice),
            &[Class::StreamSplice],
            true,
            false,
        ),
        (
            "deltas that repeat the text",
            of(&cumulative),
            &[Class::CumulativeDeltas],
            true,
            false,
        ),
        (
            "two calls under one index",
            of(&collision),
            &[Class::ToolCallCorrupt],
            true,
            false,
        ),
        (
            "input that is no JSON",
            of(&cut),
            &[Class::ToolCallCorrupt],
            true,
            false,
        ),
        (
            "a call without a name",
            of(&nameless),
            &[Class::ToolCallCorrupt],
            true,
            false,
        ),
        (
            "calls that never came",
            of(&promised),
            &[Class::ToolCallCorrupt],
            true,
            false,
        ),
        (
            "another model",
            of(&label),
            &[Class::ModelMismatch],
            true,
            false,
        ),
    ]
}

fn wrong_ends() -> Vec<Row> {
    let honest = answer(&HELLO, "end_turn");
    let cut = |events: usize| honest[..events].to_vec();
    let inside = [cut(3), vec![say("x")[..40].to_owned()]].concat();
    let doubled = [honest.clone(), vec![stop()]].concat();
    let more = [honest.clone(), vec![say("!")]].concat();
    let late = [
        cut(6),
        vec![
            open(1),
            delta(1, "text_delta", "text", "!"),
            close(1),
            stop(),
        ],
    ]
    .concat();
    let empty = vec![start(), finish("end_turn", 1), stop()];
    let zero = with(&honest, "message_delta", |event| event.replace(":4", ":0"));
    let pings = [cut(4), vec![ping(), ping()]].concat();
    let call = vec![start(), open_call(0, "a"), input(0, "{\"path\":\"a.t")];
    let burst = answer(&["one two three "; 40], "end_turn");
    vec![
        (
            "a clean end before the end",
            of(&cut(4)),
            &[Class::TruncatedNoTerminator],
            true,
            true,
        ),
        (
            "a clean end inside an event",
            of(&inside),
            &[Class::TruncatedNoTerminator],
            true,
            true,
        ),
        (
            "a clean end in a call",
            of(&call),
            &[Class::TruncatedNoTerminator],
            true,
            true,
        ),
        (
            "only the end mark is missing",
            of(&cut(6)),
            &[Class::TruncatedNoTerminator],
            true,
            true,
        ),
        (
            "a reset",
            of(&cut(4)).end(End::Reset),
            &[Class::TruncatedNoTerminator],
            true,
            true,
        ),
        (
            "silence",
            of(&cut(4)).end(End::Silence),
            &[Class::Stalled],
            true,
            true,
        ),
        (
            "nothing but heartbeats",
            of(&pings).end(End::Silence),
            &[Class::Stalled],
            true,
            true,
        ),
        (
            "silence after the reason",
            of(&cut(6)).end(End::Silence),
            &[Class::Stalled],
            true,
            true,
        ),
        (
            "an end mark without a reason",
            of(&without(&honest, "message_delta")),
            &[Class::SilentTruncation],
            true,
            false,
        ),
        (
            "an end mark in mid-block",
            of(&[cut(3), vec![stop()]].concat()),
            &[Class::SilentTruncation],
            true,
            false,
        ),
        (
            "the end mark twice",
            of(&doubled),
            &[Class::DuplicateTerminator],
            true,
            false,
        ),
        (
            "output after the end mark",
            of(&more),
            &[Class::DataAfterDone],
            true,
            false,
        ),
        (
            "output after the reason",
            of(&late),
            &[Class::ContentAfterFinish],
            true,
            false,
        ),
        (
            "a cut that nobody asked for",
            of(&answer(&HELLO, "max_tokens")),
            &[Class::UnexpectedLengthCut],
            true,
            false,
        ),
        (
            "nothing said",
            of(&empty),
            &[Class::EmptyAnswer],
            true,
            false,
        ),
        (
            "no output counted",
            of(&zero),
            &[Class::UsageMismatch],
            true,
            false,
        ),
        (
            "one burst",
            play(&[&joined(&burst)]),
            &[Class::NotStreamed],
            true,
            false,
        ),
        (
            "no seal",
            of(&honest).seal(),
            &[Class::MaskedTruncation],
            true,
            false,
        ),
    ]
}

fn whole_answers() -> Vec<Row> {
    let of = |body: &str| play(&[body]).whole();
    vec![
        (
            "an error",
            of(REFUSED),
            &[Class::Fake200JsonError],
            false,
            false,
        ),
        (
            "no usage",
            of(&WHOLE.replace(",\"usage\":{\"input_tokens\":9,\"output_tokens\":3}", "")),
            &[Class::SchemaViolation, Class::UsageMismatch],
            false,
            false,
        ),
        (
            "no reason",
            of(&WHOLE.replace("\"end_turn\"", "null")),
            &[Class::SilentTruncation],
            true,
            false,
        ),
        (
            "no content",
            of(&WHOLE.replace("[{\"type\":\"text\",\"text\":\"Hello\"}]", "[]")),
            &[Class::EmptyAnswer],
            true,
            false,
        ),
        (
            "half of it",
            of(&WHOLE[..80]),
            &[Class::MalformedJson],
            false,
            false,
        ),
        (
            "a stream",
            play(&[&joined(&answer(&HELLO, "end_turn"))]).whole(),
            &[Class::WrongContentType],
            false,
            false,
        ),
        (
            "another model",
            of(&WHOLE.replace("test-model", "other")),
            &[Class::ModelMismatch],
            true,
            false,
        ),
    ]
}

#[test]
fn each_kind_of_fault_is_found_for_what_it_is() {
    let rows = [
        bodies_that_are_no_stream(),
        said_errors(),
        damaged_bytes(),
        wrong_shapes(),
        mixed_up_answers(),
        wrong_ends(),
        whole_answers(),
    ];
    let mut wrong = Vec::new();
    for (name, play, classes, parse_ok, interrupted) in rows.into_iter().flatten() {
        let seen = play.seen();
        let mut found: Vec<Class> = seen.findings.iter().map(|found| found.class).collect();
        found.dedup();
        if found != classes || (seen.parse_ok, seen.interrupted) != (parse_ok, interrupted) {
            wrong.push(format!(
                "{name}: {:?} {} {}",
                seen.findings, seen.parse_ok, seen.interrupted
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_odd_but_legal_gives_no_finding() {
    let honest = answer(&HELLO, "end_turn");
    let spread = |events: Vec<String>| of(&events);
    let calls = vec![
        start(),
        open_thinking(0),
        delta(0, "thinking_delta", "thinking", "Hm"),
        delta(0, "signature_delta", "signature", "c2ln"),
        close(0),
        open_call(1, "a"),
        input(1, ""),
        input(1, "{\"x\""),
        input(1, ":1}"),
        close(1),
        open_call(2, "b"),
        close(2),
        finish("tool_use", 9),
        stop(),
    ];
    let silent = with(&calls, "content_block_delta", |event| {
        event.replace("\"thinking\":\"Hm\"", "\"thinking\":\"\"")
    });
    let bedrock = with(&honest, "message_stop", |event| {
        event.replace(
            "\"}",
            "\",\"amazon-bedrock-invocationMetrics\":{\"outputTokenCount\":4}}",
        )
    });
    let padded = with(&honest, "content_block_delta", |event| {
        event.replace("}}", "},\"p\":\"abcd\"}")
    });
    let vertex = [
        vec!["event: vertex_event\ndata: {\"type\":\"vertex_event\"}\n\n".to_owned()],
        honest.clone(),
    ]
    .concat();
    let two_reports = with(&honest, "message_delta", |event| {
        let first = event.replace("\"end_turn\"", "null").replace(":4", ":2");
        first + event
    });
    let cached = with(&honest, "message_start", |event| {
        event.replace("\"input_tokens\":9", "\"input_tokens\":2,\"cache_read_input_tokens\":90,\"cache_creation\":{\"ephemeral_5m_input_tokens\":0},\"service_tier\":\"standard\"")
    });
    let dated = with(&honest, "message_start", |event| {
        event.replace(
            "\"test-model\"",
            "\"us.anthropic.test-model-20241022-v2:0\"",
        )
    });
    let named_stop = with(&answer(&HELLO, "stop_sequence"), "message_delta", |event| {
        event.replace("\"stop_sequence\":null", "\"stop_sequence\":\"END\"")
    });
    let crlf: Vec<String> = honest
        .iter()
        .map(|event| event.replace('\n', "\r\n"))
        .collect();
    let tight: Vec<String> = honest
        .iter()
        .map(|event| event.replace(": {", ":{").replace(": ", ":"))
        .collect();
    let first_text = with(&honest, "content_block_start", |event| {
        event.replace("\"text\":\"\"", "\"text\":\"Oh. \"")
    });
    let habit = [honest.clone(), vec!["data: [DONE]\n\n".to_owned()]].concat();
    let late_ping = [honest.clone(), vec![ping()]].concat();
    let commented: Vec<String> = honest
        .iter()
        .map(|event| format!(": keep-alive\n\n{event}retry: 10\n\n"))
        .collect();
    let sealed = answer(&["Done. ", "END-1"], "end_turn");
    let about = answer(
        &["Overloaded means", " that a server has too much to do."],
        "end_turn",
    );
    for (name, play) in [
        ("thinking and two calls, one without input", spread(calls)),
        ("thinking that is not shown", spread(silent)),
        ("a cloud's own members", spread(bedrock)),
        ("padding", spread(padded)),
        ("an event of a cloud's own", spread(vertex)),
        ("two reports", spread(two_reports)),
        ("cached input", spread(cached)),
        ("a cloud's name of the model", spread(dated)),
        ("a stop sequence", spread(named_stop)),
        (
            "a turn that is paused",
            spread(answer(&HELLO, "pause_turn")),
        ),
        (
            "a cut that was asked for",
            spread(answer(&HELLO, "max_tokens")).budget(4),
        ),
        ("CRLF", spread(crlf)),
        ("no spaces", spread(tight)),
        ("text at the start of a block", spread(first_text)),
        ("a heartbeat after the end", spread(late_ping)),
        ("comments and reconnection times", spread(commented)),
        ("a seal that was kept", spread(sealed).seal()),
        ("words about an error", spread(about)),
        ("a short answer in one write", play(&[&joined(&honest)])),
        ("one JSON answer that was asked for", play(&[WHOLE]).whole()),
        ("another protocol's end mark by habit", spread(habit)),
        (
            "a body that stays open after the end",
            spread(honest.clone()).end(End::Silence),
        ),
    ] {
        let seen = play.seen();
        assert_eq!(seen.findings, [], "{name}");
        assert!(seen.parse_ok && !seen.interrupted, "{name}");
    }
}

#[test]
fn what_is_said_of_an_answer_is_in_the_observation() {
    let cached = with(&answer(&HELLO, "end_turn"), "message_start", |event| {
        event.replace(
            "\"input_tokens\":9",
            "\"input_tokens\":9,\"cache_read_input_tokens\":5",
        )
    });
    let seen = of(&cached).seen();
    assert_eq!(seen.text.as_deref(), Some("Hello world"));
    assert_eq!(seen.model.as_deref(), Some("test-model"));
    assert_eq!(seen.response_id.as_deref(), Some("msg_1"));
    assert_eq!(seen.finish_reason.as_deref(), Some("end_turn"));
    let usage = seen.usage.unwrap();
    assert_eq!(
        (usage.input, usage.cached_input, usage.output),
        (Some(14), Some(5), Some(4))
    );
}

#[test]
fn an_end_mark_whose_blank_line_is_missing_still_counts() {
    let mut events = answer(&HELLO, "end_turn");
    let last = events.len() - 1;
    events[last] = events[last].trim_end().to_owned();
    let seen = of(&events).seen();
    assert_eq!(seen.findings, []);
    assert_eq!(seen.warnings, [Warning::UnfinishedLastEvent]);
}
