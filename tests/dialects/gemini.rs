//! Gemini's streams: no sentinel, a finish reason and the body's end.

use std::time::Duration;

use relayproof::attribution::{Party, blame};
use relayproof::dialect::Protocol;
use relayproof::expect::Expect;
use relayproof::observation::{
    Class, Ending, ErrorKind, Limit, Loss, Observation, Phase, Usage, Warning,
};
use relayproof::stream::{Asked, Exchange, Head, Input, Timeouts};

/// How a response ends.
#[derive(Clone, Copy)]
enum End {
    /// As HTTP says it should.
    Clean,
    Reset,
    /// Never: the connection stays open.
    Hang,
}

/// One response and what was asked for.
struct Play {
    kind: &'static str,
    /// Writes with their times in milliseconds.
    writes: Vec<(u64, String)>,
    end: End,
    asked: Asked,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A stream whose pieces come 30 ms apart and that ends cleanly.
fn play(pieces: impl IntoIterator<Item = String>) -> Play {
    let times = (0..).map(|index| 200 + index * 30);
    Play {
        kind: "text/event-stream",
        writes: times.zip(pieces).collect(),
        end: End::Clean,
        asked: Asked {
            protocol: Protocol::Gemini,
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

impl Play {
    fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    fn under(mut self, kind: &'static str) -> Self {
        self.kind = kind;
        self
    }

    fn asking(mut self, change: fn(&mut Asked)) -> Self {
        change(&mut self.asked);
        self
    }

    /// All at one time.
    fn at_once(mut self) -> Self {
        for (at, _) in &mut self.writes {
            *at = 200;
        }
        self
    }

    fn seen(self) -> Observation {
        let limits = Timeouts {
            first_token: ms(2_000),
            idle: ms(2_000),
            total: ms(30_000),
            ..Timeouts::default()
        };
        let mut exchange = Exchange::new(self.asked, limits);
        let headers = vec![("content-type", self.kind.as_bytes())];
        let head = Head {
            status: 200,
            version: "1.1",
            headers,
        };
        exchange.handle(ms(100), Input::Head(head));
        let mut now = ms(100);
        for (at, text) in &self.writes {
            now = ms(*at);
            pass(&mut exchange, now);
            exchange.handle(now, Input::Body(text.as_bytes()));
        }
        let last = match self.end {
            End::Clean => Input::BodyEnd,
            End::Reset => Input::Lost(Loss::Reset),
            End::Hang => {
                pass(&mut exchange, ms(60_000));
                Input::Cancelled
            }
        };
        exchange.handle(now + ms(1), last);
        exchange.finish()
    }
}

/// Lets time pass, deadlines included.
fn pass(exchange: &mut Exchange, until: Duration) {
    while let Some((due, _)) = exchange.deadline()
        && due <= until
    {
        exchange.handle(due, Input::Deadline);
    }
}

fn data(json: &str) -> String {
    format!("data: {json}\n\n")
}

fn object(candidate: &str, more: &str) -> String {
    format!(
        "{{\"candidates\":[{{{candidate}\"index\":0}}],\"modelVersion\":\"test-model\",\"responseId\":\"r1\"{more}}}"
    )
}

fn content(parts: &str) -> String {
    format!("\"content\":{{\"parts\":[{parts}],\"role\":\"model\"}},")
}

fn part(part: &str) -> String {
    data(&object(&content(part), ""))
}

fn says(text: &str) -> String {
    part(&format!("{{\"text\":{}}}", serde_json::json!(text)))
}

fn says_and_ends(text: &str, reason: &str) -> String {
    let text = content(&format!("{{\"text\":{}}}", serde_json::json!(text)));
    data(&object(
        &format!("{text}\"finishReason\":\"{reason}\","),
        "",
    ))
}

fn ends(reason: &str) -> String {
    data(&object(&format!("\"finishReason\":\"{reason}\","), ""))
}

fn counts(prompt: u64, candidates: u64, total: u64) -> String {
    format!(
        ",\"usageMetadata\":{{\"promptTokenCount\":{prompt},\"candidatesTokenCount\":{candidates},\"totalTokenCount\":{total}}}"
    )
}

fn ends_counting(prompt: u64, candidates: u64, total: u64) -> String {
    data(&object(
        "\"finishReason\":\"STOP\",",
        &counts(prompt, candidates, total),
    ))
}

/// The same event under another id and, perhaps, another model.
fn of_another(event: &str, model: &str) -> String {
    event
        .replace("\"r1\"", "\"r2\"")
        .replace("\"test-model\"", &format!("\"{model}\""))
}

fn call(name: &str, args: &str) -> String {
    part(&format!(
        "{{\"functionCall\":{{\"name\":\"{name}\",\"args\":{args}}}}}"
    ))
}

/// What must be seen of a stream that fails.
struct Fails {
    name: &'static str,
    play: Play,
    /// All classes, the leading one first.
    classes: &'static [Class],
    parse_ok: bool,
    interrupted: bool,
    party: Party,
}

fn fails(name: &'static str, play: Play, classes: &'static [Class], party: Party) -> Fails {
    Fails {
        name,
        play,
        classes,
        parse_ok: true,
        interrupted: false,
        party,
    }
}

impl Fails {
    fn invalid(mut self) -> Self {
        self.parse_ok = false;
        self
    }

    fn interrupted(mut self) -> Self {
        self.interrupted = true;
        self
    }
}

fn asks_usage(asked: &mut Asked) {
    asked.usage = true;
}

fn asks_seal(asked: &mut Asked) {
    asked.seal = Some("END-1".to_owned());
}

/// Thirty words, each in an event of its own.
fn words() -> impl Iterator<Item = String> {
    (0..30).map(|index| says(&format!("word {index} ")))
}

const ERROR: &str =
    "{\"error\":{\"code\":503,\"message\":\"The model is down\",\"status\":\"UNAVAILABLE\"}}";

fn fakes() -> Vec<Fails> {
    let limited = "{\"error\":{\"code\":429,\"message\":\"no\",\"status\":\"RESOURCE_EXHAUSTED\"}}";
    vec![
        fails(
            "an error for a body",
            play([ERROR.to_owned()]).under("application/json"),
            &[Class::Fake200JsonError],
            Party::Upstream,
        )
        .invalid(),
        fails(
            "an error in an array, as the service says it where no events were asked for",
            play([format!("[{limited}\n]\n")]).under("application/json; charset=UTF-8"),
            &[Class::Fake200JsonError],
            Party::ConcurrencyOrKey,
        )
        .invalid(),
        fails(
            "an error under the type of a stream",
            play([limited.to_owned()]),
            &[Class::Fake200JsonError],
            Party::ConcurrencyOrKey,
        )
        .invalid()
        .interrupted(),
        fails(
            "a page",
            play(["<!DOCTYPE html><html><body>Log in</body></html>".to_owned()]).under("text/html"),
            &[Class::Fake200Html],
            Party::RelayGateway,
        )
        .invalid(),
        fails(
            "nothing",
            play([]),
            &[Class::Fake200Empty],
            Party::RelayGateway,
        )
        .interrupted(),
        fails(
            "an array of objects, for alt=sse was ignored",
            play([format!(
                "[{}\n,\r\n{}\n]\n",
                object(&content("{\"text\": \"Hello\"}"), ""),
                object("\"finishReason\": \"STOP\",", "")
            )])
            .under("application/json"),
            &[Class::WrongContentType],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "lines of objects",
            play([format!(
                "{}\n{}\n",
                object(&content("{\"text\": \"Hello\"}"), ""),
                object("\"finishReason\": \"STOP\",", "")
            )])
            .under("application/x-ndjson"),
            &[Class::WrongContentType],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "one object for a body",
            play([object(
                &format!(
                    "{}\"finishReason\":\"STOP\",",
                    content("{\"text\":\"Hello\"}")
                ),
                "",
            )])
            .under("application/json"),
            &[Class::NotStreamed],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "events under another type",
            play([says("Hello"), ends("STOP")]).under("application/json"),
            &[Class::WrongContentType],
            Party::RelayMiddleware,
        ),
    ]
}

fn errors() -> Vec<Fails> {
    vec![
        fails(
            "an error event in mid-answer",
            play([says("Hello"), data(ERROR)]),
            &[Class::ErrorInStream],
            Party::Upstream,
        )
        .invalid()
        .interrupted(),
        fails(
            "a named error event",
            play([says("Hello"), format!("event: error\n{}", data("{\"message\":\"quota exceeded\"}"))]),
            &[Class::ErrorInStream],
            Party::ConcurrencyOrKey,
        )
        .invalid()
        .interrupted(),
        fails(
            "an error beside a candidate",
            play([
                says("Hello"),
                data(&object("\"finishReason\":\"STOP\",", ",\"error\":{\"code\":500}")),
            ]),
            &[Class::ErrorInStream],
            Party::Upstream,
        )
        .invalid(),
        fails(
            "an error after the finish",
            play([says("Hello"), ends("STOP"), data(ERROR)]),
            &[Class::ErrorInStream],
            Party::Upstream,
        )
        .invalid(),
        fails(
            "an error between events",
            play([says("Hello"), format!("{ERROR}\n\n")]),
            &[Class::ErrorInStream],
            Party::Upstream,
        )
        .invalid()
        .interrupted(),
        fails(
            "a finish that admits a break",
            play([says("Hello"), ends("MALFORMED_FUNCTION_CALL")]),
            &[Class::UpstreamAbort],
            Party::Upstream,
        )
        .invalid(),
        fails(
            "another such finish",
            play([says("Hello"), ends("OTHER")]),
            &[Class::UpstreamAbort],
            Party::Upstream,
        )
        .invalid(),
        fails(
            "a filter in mid-answer",
            play([says("Hello"), ends("PROHIBITED_CONTENT")]),
            &[Class::ContentFiltered],
            Party::Upstream,
        ),
        fails(
            "a filter at once, and counts without an answer",
            play([data(&object(
                "\"finishReason\":\"SAFETY\",",
                ",\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9}",
            ))])
            .asking(asks_usage),
            &[Class::ContentFiltered],
            Party::Upstream,
        ),
        fails(
            "a prompt that was blocked",
            play([data(
                "{\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9}}",
            )])
            .asking(asks_usage),
            &[Class::ContentFiltered],
            Party::Upstream,
        ),
        fails(
            "a filter after a habit of finishing",
            play([says_and_ends("Hel", "STOP"), says_and_ends("lo", "SAFETY")]),
            &[Class::ContentFiltered],
            Party::Upstream,
        ),
        fails(
            "an error text as the answer",
            play([says_and_ends(
                "[GoogleGenerativeAI Error]: [429 Too Many Requests] Quota exceeded",
                "STOP",
            )]),
            &[Class::ErrorAsContent],
            Party::ConcurrencyOrKey,
        ),
    ]
}

fn broken() -> Vec<Fails> {
    let whole = says("Hello world");
    let (left, right) = whole.trim_end().split_at(60);
    vec![
        fails(
            "cut JSON",
            play([says("a"), format!("{left}\n\n"), says("b"), ends("STOP")]),
            &[Class::MalformedJson],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "another protocol's sentinel",
            play([says("a"), ends("STOP"), data("[DONE]")]),
            &[Class::MalformedJson],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "JSON over two events",
            play([says("a"), format!("{left}\n\n"), data(right), ends("STOP")]),
            &[Class::JsonSplitAcrossEvents],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "another protocol's chunk",
            play([
                data("{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[]}"),
                says("a"),
                ends("STOP"),
            ]),
            &[Class::SchemaViolation],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "a member of the wrong type",
            play([part("{\"text\":[\"a\"]}"), says("a"), ends("STOP")]),
            &[Class::SchemaViolation],
            Party::RelayMiddleware,
        )
        .invalid(),
        fails(
            "U+FFFD in the text",
            play([says("Gr\u{fffd}\u{fffd}e"), ends("STOP")]),
            &[Class::ReplacementChars],
            Party::RelayMiddleware,
        ),
        fails(
            "two generations, of two models",
            play([
                says("Hello wor"),
                of_another(&says("Good day"), "other-model"),
                of_another(&ends("STOP"), "other-model"),
            ]),
            &[Class::StreamSplice, Class::ModelMismatch],
            Party::RelayMiddleware,
        ),
        fails(
            "two generations of one model, whose counts begin anew",
            play([
                data(&object(
                    &content("{\"text\":\"Hello\"}"),
                    &counts(9, 40, 49),
                )),
                data(&object(&content("{\"text\":\" wor\"}"), &counts(9, 80, 89))),
                of_another(
                    &data(&object(&content("{\"text\":\"Good\"}"), &counts(9, 3, 12))),
                    "test-model",
                ),
                of_another(&ends_counting(9, 20, 29), "test-model"),
            ]),
            &[Class::StreamSplice],
            Party::RelayMiddleware,
        ),
        fails(
            "each event repeats the text so far",
            play([
                says("Hello"),
                says("Hello wor"),
                says("Hello world"),
                ends("STOP"),
            ]),
            &[Class::CumulativeDeltas],
            Party::RelayMiddleware,
        ),
        fails(
            "a call without a name",
            play([
                part("{\"functionCall\":{\"args\":{\"x\":1}}}"),
                ends("STOP"),
            ]),
            &[Class::ToolCallCorrupt],
            Party::RelayMiddleware,
        ),
        fails(
            "a call in pieces that never ends",
            play([
                part("{\"functionCall\":{\"name\":\"f\",\"willContinue\":true}}"),
                part(
                    "{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.a\",\"stringValue\":\"x\"}],\"willContinue\":true}}",
                ),
                ends("STOP"),
            ]),
            &[Class::ToolCallCorrupt],
            Party::RelayMiddleware,
        ),
        fails(
            "arguments as a text",
            play([call("f", "\"{}\""), ends("STOP")]),
            &[Class::SchemaViolation],
            Party::RelayMiddleware,
        )
        .invalid(),
    ]
}

fn unwhole() -> Vec<Fails> {
    vec![
        fails(
            "silence in mid-answer",
            play([says("Hello")]).ending(End::Hang),
            &[Class::Stalled],
            Party::Upstream,
        )
        .interrupted(),
        fails(
            "heartbeats in mid-answer",
            play([
                says("Hello"),
                ": ping\n\n".to_owned(),
                ": ping\n\n".to_owned(),
            ])
            .ending(End::Hang),
            &[Class::Stalled],
            Party::RelayGateway,
        )
        .interrupted(),
        fails(
            "events without output in place of output",
            play([
                says("Hello"),
                data("{\"usageMetadata\":{}}"),
                data("{\"candidates\":[]}"),
            ])
            .ending(End::Hang),
            &[Class::Stalled],
            Party::Upstream,
        )
        .interrupted(),
        fails(
            "a clean end without a finish",
            play([says("Hello"), says(" wor")]),
            &[Class::TruncatedNoTerminator],
            Party::RelayMiddleware,
        )
        .interrupted(),
        fails(
            "a finish without its blank line",
            play([says("Hello"), ends("STOP").trim_end().to_owned()]),
            &[Class::TruncatedNoTerminator],
            Party::RelayMiddleware,
        )
        .interrupted(),
        fails(
            "a finish that is not set",
            play([says("Hello"), ends("FINISH_REASON_UNSPECIFIED")]),
            &[Class::TruncatedNoTerminator],
            Party::RelayMiddleware,
        )
        .interrupted(),
        fails(
            "a reset in mid-answer",
            play([says("Hello")]).ending(End::Reset),
            &[Class::TruncatedNoTerminator],
            Party::Network,
        )
        .interrupted(),
        fails(
            "a reset while every event says that it is the last",
            play([says_and_ends("Hel", "STOP"), says_and_ends("lo", "STOP")]).ending(End::Reset),
            &[Class::TruncatedNoTerminator],
            Party::Network,
        )
        .interrupted(),
        fails(
            "one of two candidates never finishes",
            play([
                says("a"),
                says("b").replace("\"index\":0", "\"index\":1"),
                ends("STOP"),
            ]),
            &[Class::TruncatedNoTerminator],
            Party::RelayMiddleware,
        )
        .interrupted(),
        fails(
            "a candidate that begins when the other has finished, and never does",
            play([
                says("a"),
                ends("STOP"),
                says("b").replace("\"index\":0", "\"index\":1"),
            ]),
            &[Class::TruncatedNoTerminator],
            Party::RelayMiddleware,
        )
        .interrupted(),
        fails(
            "output after the finish",
            play([says("Hello"), ends("STOP"), says(" again")]),
            &[Class::ContentAfterFinish],
            Party::RelayMiddleware,
        ),
        fails(
            "output after the finish, which comes again",
            play([
                says("Hello"),
                says_and_ends(" world", "STOP"),
                says_and_ends(" again", "STOP"),
            ]),
            &[Class::ContentAfterFinish],
            Party::RelayMiddleware,
        ),
        fails(
            "a finish in the first event, and output without one after it",
            play([says_and_ends("Hello", "STOP"), says(" world")]),
            &[Class::ContentAfterFinish],
            Party::RelayMiddleware,
        ),
        fails(
            "output after the budget was used up",
            play([
                says_and_ends("Hello", "MAX_TOKENS"),
                says_and_ends("b", "STOP"),
            ])
            .asking(|asked| asked.max_tokens = Some(1)),
            &[Class::ContentAfterFinish],
            Party::RelayMiddleware,
        ),
        fails(
            "a cut that nobody asked for",
            play([says("Hello"), ends("MAX_TOKENS")]),
            &[Class::UnexpectedLengthCut],
            Party::RelayMiddleware,
        ),
        fails(
            "a cut below the budget",
            play([
                says("Hello"),
                data(&object(
                    "\"finishReason\":\"MAX_TOKENS\",",
                    &counts(9, 12, 21),
                )),
            ])
            .asking(|asked| asked.max_tokens = Some(100)),
            &[Class::UnexpectedLengthCut],
            Party::RelayMiddleware,
        ),
        fails(
            "a finish and no answer",
            play([part("{\"text\":\"\"}"), ends("STOP")]),
            &[Class::EmptyAnswer],
            Party::Upstream,
        ),
        fails(
            "another model",
            play(
                [says("Hello"), ends("STOP")]
                    .map(|event| event.replace("test-model", "cheap-model")),
            ),
            &[Class::ModelMismatch],
            Party::RelayMiddleware,
        ),
        fails(
            "no usage, though it was asked for",
            play([says("Hello"), ends("STOP")]).asking(asks_usage),
            &[Class::UsageMismatch],
            Party::RelayMiddleware,
        ),
        fails(
            "a total that is no sum",
            play([says("Hello"), ends_counting(9, 2, 99)]).asking(asks_usage),
            &[Class::UsageMismatch],
            Party::RelayMiddleware,
        ),
        fails(
            "an answer that cost nothing",
            play([says("Hello"), ends_counting(9, 0, 9)]).asking(asks_usage),
            &[Class::UsageMismatch],
            Party::RelayMiddleware,
        ),
        fails(
            "all events at once",
            play(words().chain([ends("STOP")])).at_once(),
            &[Class::NotStreamed],
            Party::RelayGateway,
        ),
        fails(
            "a long answer in one event",
            play([says(&"word ".repeat(600)), ends_counting(9, 600, 609)]),
            &[Class::NotStreamed],
            Party::RelayGateway,
        ),
        fails(
            "a normal stop without the seal",
            play([says("Hello"), says(" wor"), ends("STOP")]).asking(asks_seal),
            &[Class::MaskedTruncation],
            Party::RelayMiddleware,
        ),
        fails(
            "a habit of finishing, without the seal",
            play([says_and_ends("Hel", "STOP"), says_and_ends("lo", "STOP")]).asking(asks_seal),
            &[Class::MaskedTruncation],
            Party::RelayMiddleware,
        ),
    ]
}

#[test]
fn every_way_to_fail_is_seen_for_what_it_is() {
    let mut wrong = Vec::new();
    let all = [fakes(), errors(), broken(), unwhole()];
    for case in all.into_iter().flatten() {
        let seen = case.play.seen();
        let classes: Vec<_> = seen.findings.iter().map(|found| found.class).collect();
        let said = (classes, seen.parse_ok, seen.interrupted, blame(&seen).party);
        let expected = (
            case.classes.to_vec(),
            case.parse_ok,
            case.interrupted,
            case.party,
        );
        if said != expected {
            wrong.push(format!(
                "{}\n  is  {said:?}\n  not {expected:?}\n  {:?}",
                case.name, seen.findings
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn bytes_that_are_no_utf8_are_found_where_they_are() {
    let mut exchange = Exchange::new(play([]).asked, Timeouts::default());
    let head = Head {
        status: 200,
        version: "1.1",
        headers: vec![("content-type", b"text/event-stream")],
    };
    exchange.handle(ms(100), Input::Head(head));
    let mut body = says("Gr#e").into_bytes();
    let place = body
        .iter()
        .position(|byte| *byte == b'#')
        .unwrap_or_default();
    body[place] = 0xFC;
    body.extend(ends("STOP").into_bytes());
    exchange.handle(ms(200), Input::Body(&body));
    exchange.handle(ms(300), Input::BodyEnd);
    let seen = exchange.finish();
    assert_eq!(seen.class(), Some(Class::InvalidUtf8));
    assert!(!seen.parse_ok && !seen.interrupted);
    assert_eq!(seen.findings[0].offset, Some(place as u64));
}

/// Streams that are legal, however odd, with the text that they say.
fn legal() -> Vec<(&'static str, Play, &'static str)> {
    vec![
        (
            "the last event has text, finish and counts",
            play([says("Hel"), says_and_ends("lo", "STOP")]),
            "Hello",
        ),
        (
            "the whole answer in one event",
            play([data(&object(
                &format!(
                    "{}\"finishReason\":\"STOP\",",
                    content(&format!("{{\"text\":\"{}\"}}", "word ".repeat(40)))
                ),
                &counts(9, 40, 49),
            ))])
            .asking(asks_usage),
            "word word word word word word word word word word word word word word word word word \
             word word word word word word word word word word word word word word word word word \
             word word word word word word ",
        ),
        (
            "a finish in every event",
            play([
                says_and_ends("Hel", "STOP"),
                says_and_ends("lo", "STOP"),
                ends("STOP"),
            ]),
            "Hello",
        ),
        (
            "the finish again, with nothing new",
            play([says("Hello"), ends("STOP"), ends("STOP")]),
            "Hello",
        ),
        (
            "counts after the finish",
            play([
                says("Hello"),
                ends("STOP"),
                data("{\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"totalTokenCount\":11}}"),
            ])
            .asking(asks_usage),
            "Hello",
        ),
        (
            "counts without the zeroes, growing",
            play([
                data(&object(&content("{\"text\":\"Hello\"}"), ",\"usageMetadata\":{\"promptTokenCount\":9,\"totalTokenCount\":9}")),
                ends_counting(9, 2, 11),
            ])
            .asking(asks_usage),
            "Hello",
        ),
        (
            "thoughts, shown and counted apart",
            play([
                part("{\"text\":\"Hm.\",\"thought\":true}"),
                part("{\"text\":\"\",\"thoughtSignature\":\"c2ln\"},{\"text\":\"Hello\"}"),
                data(&object("\"finishReason\":\"STOP\",", ",\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"thoughtsTokenCount\":5,\"totalTokenCount\":16}")),
            ])
            .asking(asks_usage),
            "Hello",
        ),
        (
            "two function calls and no text",
            play([call("f", "{\"x\":1}"), call("f", "{\"x\":2}"), ends("STOP")]).asking(asks_seal),
            "",
        ),
        (
            "a call whose arguments come in pieces",
            play([
                part("{\"functionCall\":{\"name\":\"f\",\"willContinue\":true}}"),
                part("{\"functionCall\":{\"partialArgs\":[{\"jsonPath\":\"$.a\",\"stringValue\":\"x\"}],\"willContinue\":true}}"),
                part("{\"functionCall\":{}}"),
                ends("STOP"),
            ]),
            "",
        ),
        (
            "an image and no text",
            play([
                part("{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"aGk=\"}}"),
                ends("STOP"),
            ]),
            "",
        ),
        (
            "code that was run",
            play([
                part("{\"executableCode\":{\"language\":\"PYTHON\",\"code\":\"1+1\"}}"),
                part("{\"codeExecutionResult\":{\"outcome\":\"OUTCOME_OK\",\"output\":\"2\"}}"),
                says("Two"),
                ends("STOP"),
            ]),
            "Two",
        ),
        (
            "two candidates side by side",
            play([
                says("a"),
                says("x").replace("\"index\":0", "\"index\":1"),
                ends("STOP"),
                says("y").replace("\"index\":0", "\"index\":1"),
                ends("STOP").replace("\"index\":0", "\"index\":1"),
            ]),
            "a",
        ),
        (
            "events without candidates, ids or models",
            play([
                data("{\"candidates\":[],\"responseId\":\"r1\"}"),
                data("{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello\"}]},\"safetyRatings\":[],\"avgLogprobs\":-0.1}]}"),
                data("{\"candidates\":[{\"groundingMetadata\":{},\"finishReason\":\"STOP\"}],\"createTime\":\"x\"}"),
            ]),
            "Hello",
        ),
        (
            "feedback that blocks nothing",
            play([
                data("{\"promptFeedback\":{\"safetyRatings\":[]}}"),
                says("Hello"),
                ends("STOP"),
            ]),
            "Hello",
        ),
        (
            "reasons that are empty or not set before the real one",
            play([
                says_and_ends("Hel", "FINISH_REASON_UNSPECIFIED"),
                says_and_ends("lo", ""),
                ends("STOP"),
            ]),
            "Hello",
        ),
        (
            "the budget was used up as asked for",
            play([
                says("Hello"),
                data(&object("\"finishReason\":\"MAX_TOKENS\",", &counts(9, 10, 19))),
            ])
            .asking(|asked| asked.max_tokens = Some(10)),
            "Hello",
        ),
        (
            "CRLF, no space, comments and pings",
            play([
                ": hi\r\n\r\n".to_owned(),
                says("Hello").replace("data: ", "data:").replace('\n', "\r\n"),
                "event: ping\n\n".to_owned(),
                data("{\"type\":\"ping\"}"),
                ends("STOP"),
            ]),
            "Hello",
        ),
        (
            "a dated model and a collection",
            play([says("Hello"), ends("STOP")].map(|event| {
                event.replace("\"test-model\"", "\"models/test-model-001\"")
            })),
            "Hello",
        ),
        (
            "an answer about an error",
            play([
                says("The code 429 means "),
                says("\"Too Many Requests\"."),
                ends("STOP"),
            ]),
            "The code 429 means \"Too Many Requests\".",
        ),
        (
            "a seal in the last piece",
            play([says("Hello END"), says_and_ends("-1.", "STOP")]).asking(asks_seal),
            "Hello END-1.",
        ),
    ]
}

#[test]
fn no_class_fires_on_what_is_legal_however_odd() {
    for (name, play, text) in legal() {
        let seen = play.seen();
        assert_eq!(seen.findings, [], "{name}");
        assert_eq!(seen.text.as_deref(), Some(text), "{name}");
        assert_eq!(seen.ending, Ending::Completed, "{name}");
        assert!(seen.parse_ok && !seen.interrupted, "{name}");
        assert_eq!(blame(&seen).party, Party::None, "{name}");
    }
}

#[test]
fn a_pause_between_events_that_all_finish_is_no_end() {
    let mut slow = play([
        says_and_ends("Hel", "STOP"),
        says_and_ends("lo", "STOP"),
        says_and_ends(" world", "STOP"),
    ]);
    for (index, (at, _)) in slow.writes.iter_mut().enumerate() {
        *at = 200 + index as u64 * 1_900;
    }
    let seen = slow.seen();
    assert_eq!(seen.findings, []);
    assert_eq!(seen.text.as_deref(), Some("Hello world"));
    assert_eq!(seen.warnings, [Warning::FinishRepeated]);
    assert_eq!(seen.timeline.end_mark, Some(ms(4_000)));
    assert_eq!(seen.finish_reason.as_deref(), Some("STOP"));
}

#[test]
fn a_body_that_stays_open_after_the_finish_is_no_stall() {
    for events in [
        vec![says("Hello"), ends("STOP")],
        vec![says_and_ends("Hello", "STOP")],
    ] {
        let last = 200 + (events.len() as u64 - 1) * 30;
        let seen = play(events).ending(End::Hang).seen();
        assert_eq!(seen.findings, []);
        assert_eq!(seen.warnings, [Warning::BodyNotEndedAfterDone]);
        assert_eq!(seen.timed_out, None);
        assert_eq!(seen.timeline.end_mark, Some(ms(last)));
        assert_eq!(seen.timeline.over, ms(last + 2_000));
        assert!(!seen.interrupted);
    }
    for events in [
        vec![says("Hello"), ends("STOP")],
        vec![says_and_ends("Hello", "STOP")],
        vec![says_and_ends("Hello", "STOP"), ends("STOP")],
    ] {
        let lost = play(events).ending(End::Reset).seen();
        assert_eq!(lost.findings, []);
        assert!(lost.warnings.contains(&Warning::MissingLastChunk));
    }
}

#[test]
fn a_candidate_that_is_open_keeps_the_idle_limit() {
    let seen = play([
        says("a"),
        ends("STOP"),
        says("x").replace("\"index\":0", "\"index\":1"),
    ])
    .ending(End::Hang)
    .seen();
    assert_eq!(seen.class(), Some(Class::Stalled));
    assert_eq!(seen.timed_out, Some(Limit::Idle));
    assert!(seen.interrupted);
}

#[test]
fn a_long_stream_that_finishes_in_every_event_is_read_to_its_end() {
    let event = says_and_ends(&"word ".repeat(2_000), "STOP");
    let count = (2 << 20) / event.len();
    let seen = play(std::iter::repeat_n(event, count)).seen();
    assert_eq!(seen.counts.events, count as u64);
    assert_eq!(seen.findings, []);
    assert!(!seen.interrupted);
}

#[test]
fn the_observation_holds_who_answered_why_it_ended_and_what_it_cost() {
    let seen = play([says("Hello"), ends_counting(9, 2, 11)])
        .asking(asks_usage)
        .seen();
    assert_eq!(seen.model.as_deref(), Some("test-model"));
    assert_eq!(seen.response_id.as_deref(), Some("r1"));
    assert_eq!(seen.finish_reason.as_deref(), Some("STOP"));
    assert_eq!(
        seen.usage,
        Some(Usage {
            input: Some(9),
            output: Some(2),
            total: Some(11),
            ..Usage::default()
        })
    );
    let filtered = play([says("Hello"), ends("SAFETY")]).seen();
    let found = &filtered.findings[0];
    assert_eq!((found.phase, found.event), (Phase::Stream, Some(1)));
    let said = play([data(ERROR)]).seen();
    assert_eq!(said.error_code.as_deref(), Some("unavailable"));
    assert_eq!(said.error_kind, Some(ErrorKind::Overloaded));
}

/// An answer that was not asked for as a stream.
fn whole(kind: &str, body: &str) -> Observation {
    let mut asked = play([]).asked;
    asked.stream = false;
    let mut exchange = Exchange::new(asked, Timeouts::default());
    let head = Head {
        status: 200,
        version: "1.1",
        headers: vec![("content-type", kind.as_bytes())],
    };
    exchange.handle(ms(100), Input::Head(head));
    exchange.handle(ms(200), Input::Body(body.as_bytes()));
    exchange.handle(ms(300), Input::BodyEnd);
    exchange.finish()
}

#[test]
fn a_whole_answer_is_judged_like_a_stream() {
    let json = "application/json; charset=UTF-8";
    let text = content("{\"text\":\"Hello\"}");
    let fine = whole(
        json,
        &object(&format!("{text}\"finishReason\":\"STOP\","), ""),
    );
    assert_eq!(fine.findings, []);
    assert_eq!(fine.text.as_deref(), Some("Hello"));
    for (body, class) in [
        (object(&text, ""), Class::SilentTruncation),
        (object("\"finishReason\":\"STOP\",", ""), Class::EmptyAnswer),
        (
            "{\"promptFeedback\":{\"blockReason\":\"OTHER\"}}".to_owned(),
            Class::ContentFiltered,
        ),
        (ERROR.to_owned(), Class::Fake200JsonError),
        (format!("[{ERROR}]"), Class::Fake200JsonError),
        ("{}".to_owned(), Class::SchemaViolation),
        (format!("[{}]", object(&text, "")), Class::SchemaViolation),
        (says("Hello"), Class::WrongContentType),
        (String::new(), Class::Fake200Empty),
        ("{\"candidates\":[".to_owned(), Class::MalformedJson),
    ] {
        assert_eq!(whole(json, &body).class(), Some(class), "{body}");
    }
}
