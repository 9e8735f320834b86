//! The corpus of stream cases: every one played, none skipped in silence.

#[path = "cases/honest.rs"]
mod honest;
#[path = "cases/player.rs"]
mod player;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use honest::{Dice, Honest};
use player::{Case, ExpectedEvent, corpus, play, timeouts};
use proptest::prelude::*;
use relayproof::attribution::blame;
use relayproof::dialect::Protocol;
use relayproof::observation::{Class, Observation};
use relayproof::stream::sse::{Decoder, Item};
use relayproof::stream::{Exchange, Head, Input};

static CORPUS: LazyLock<Vec<Case>> = LazyLock::new(corpus);

fn of(protocol: &str) -> Vec<&'static Case> {
    let cases = CORPUS.iter();
    cases.filter(|case| case.protocol == protocol).collect()
}

#[test]
fn every_case_is_of_a_protocol_that_is_played() {
    assert_eq!(CORPUS.len(), 100);
    for (protocol, count) in [
        ("openai-chat", 71),
        ("openai-responses", 5),
        ("anthropic-messages", 9),
        ("gemini", 4),
        ("raw-sse", 11),
    ] {
        assert_eq!(of(protocol).len(), count, "{protocol}");
    }
}

#[test]
fn every_openai_chat_case_is_read_as_it_says() {
    read_as_it_says(Protocol::OpenaiChat);
}

#[test]
fn every_openai_responses_case_is_read_as_it_says() {
    read_as_it_says(Protocol::OpenaiResponses);
}

#[test]
fn every_anthropic_messages_case_is_read_as_it_says() {
    read_as_it_says(Protocol::AnthropicMessages);
}

#[test]
fn every_gemini_case_is_read_as_it_says() {
    read_as_it_says(Protocol::Gemini);
}

fn read_as_it_says(protocol: Protocol) {
    let mut wrong = Vec::new();
    for case in of(protocol.as_str()) {
        let played = play(case);
        let (seen, expect) = (&played.observation, &case.expect);
        let mut differs = |what: &str, seen: String, expected: String| {
            if seen != expected {
                wrong.push(format!("{}: {what} {seen}, expected {expected}", case.id));
            }
        };
        differs("outcome", seen.outcome().to_owned(), expect.outcome.clone());
        differs(
            "parse_ok",
            seen.parse_ok.to_string(),
            expect.parse_ok.to_string(),
        );
        differs(
            "interrupted",
            seen.interrupted.to_string(),
            expect.interrupted.to_string(),
        );
        differs(
            "content",
            format!("{:?}", seen.text.as_deref().unwrap_or_default()),
            format!("{:?}", expect.content),
        );
        differs(
            "attribution",
            blame(seen).party.to_string(),
            expect.attribution.clone(),
        );
        let first = expect.first_token_step.map(|step| played.written[&step]);
        differs(
            "first token",
            format!("{:?}", seen.timeline.first_token),
            format!("{first:?}"),
        );
        let warnings: BTreeSet<_> = seen
            .warnings
            .iter()
            .map(|warning| warning.as_str())
            .collect();
        for wanted in &expect.warn {
            if !warnings.contains(wanted.as_str()) {
                wrong.push(format!("{}: no warning {wanted}", case.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_decoder_gives_the_events_of_every_raw_case_however_the_bytes_are_cut() {
    for case in of("raw-sse") {
        let body = case.body();
        for size in [body.len(), 1, 2, 3, 7] {
            let mut decoder = Decoder::new();
            let mut events = Vec::new();
            let mut valid = true;
            for chunk in body.chunks(size) {
                decoder.feed(chunk, |item| match item {
                    Item::Event(event) => events.push(ExpectedEvent {
                        name: event.name.to_owned(),
                        data: event.data.to_owned(),
                        id: event.id.to_owned(),
                    }),
                    Item::InvalidUtf8 { .. } => valid = false,
                    Item::Comment { .. }
                    | Item::Retry { .. }
                    | Item::Unknown { .. }
                    | Item::TooLarge { .. } => {}
                });
            }
            assert_eq!(events, case.expect.events, "{} in {size}", case.id);
            assert_eq!(valid, case.expect.parse_ok, "{} in {size}", case.id);
        }
    }
}

/// Which class leads where one attempt shows both, and the case that says so.
const LEADS: &[(Class, Class, &str)] = &[
    (
        Class::ProtocolViolation,
        Class::TruncatedNoTerminator,
        "102-content-length-too-short",
    ),
    (
        Class::ProtocolViolation,
        Class::TruncatedNoTerminator,
        "104-bad-chunk-size",
    ),
    (
        Class::ErrorInStream,
        Class::UpstreamAbort,
        "054-error-inside-choice",
    ),
    (
        Class::ErrorInStream,
        Class::DataAfterDone,
        "134-anthropic-closed-message-then-error",
    ),
    (
        Class::MalformedJson,
        Class::TruncatedNoTerminator,
        "084-events-without-blank-line",
    ),
    (
        Class::SchemaViolation,
        Class::EmptyAnswer,
        "094-completion-object-in-event-stream",
    ),
    (
        Class::StreamSplice,
        Class::ModelMismatch,
        "077-stream-spliced-after-fallback",
    ),
    (
        Class::DataAfterDone,
        Class::SilentTruncation,
        "090-data-after-done",
    ),
    (
        Class::EmptyAnswer,
        Class::UnexpectedLengthCut,
        "170-gemini-max-tokens-no-parts",
    ),
    (
        Class::ContentFiltered,
        Class::ErrorAsContent,
        "064-guardrail-text-as-content",
    ),
];

/// The order in which classes lead is the one that the cases ask for.
///
/// Where a case shows two classes, its outcome is the one that leads. Pairs that no case shows are
/// ordered by the same thought: what was said outright before what is concluded, what breaks an
/// answer before what is only wrong with it.
#[test]
fn the_leading_class_is_the_one_that_the_cases_name() {
    let cases = CORPUS.iter().filter(|case| case.protocol != "raw-sse");
    let mut shown = BTreeSet::new();
    for case in cases {
        let seen = play(case).observation;
        let classes: BTreeSet<_> = seen.findings.iter().map(|found| found.class).collect();
        let leading = classes.first().copied();
        for other in classes.iter().skip(1) {
            shown.insert((leading.unwrap(), *other, case.id.as_str()));
        }
    }
    let held: BTreeSet<_> = LEADS.iter().copied().collect();
    assert_eq!(shown, held);
    let place = |class: Class| Class::ALL.iter().position(|other| *other == class);
    for (first, second, case) in LEADS {
        assert!(place(*first) < place(*second), "{case}");
    }
    for (first, second) in [
        // Before a response, in the order of the phases.
        (Class::DnsFailure, Class::ConnectRefused),
        (Class::ConnectRefused, Class::TlsFailure),
        (Class::TlsFailure, Class::NoResponse),
        // A status says more than its body, a body in place of a stream more than what it lacks.
        (Class::HttpError, Class::ErrorInStream),
        (Class::Fake200Empty, Class::SilentTruncation),
        (Class::Fake200Empty, Class::MalformedJson),
        // 057: an error text is no JSON either; 094: no delta, no streaming.
        (Class::ErrorInStream, Class::MalformedJson),
        (Class::SchemaViolation, Class::NotStreamed),
        (Class::JsonSplitAcrossEvents, Class::MalformedJson),
        // An invented end is the last thing to suspect.
        (Class::NotStreamed, Class::MaskedTruncation),
    ] {
        assert!(place(first) < place(second), "{first} {second}");
    }
}

/// A body in `sizes`-d chunks, all at one time, ended cleanly.
fn read(case: &Case, body: &[u8], sizes: &[usize]) -> Observation {
    let mut exchange = Exchange::new(case.asked(), timeouts());
    let kind = case.response.headers.get("content-type");
    let kind = kind.map_or("text/event-stream", String::as_str);
    let at = Duration::from_millis(5);
    exchange.handle(
        at,
        Input::Head(Head {
            status: case.response.status.unwrap_or(200),
            version: "1.1",
            headers: vec![("content-type", kind.as_bytes())],
        }),
    );
    let mut rest = body;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (chunk, later) = rest.split_at((*size).clamp(1, rest.len()));
        exchange.handle(at, Input::Body(chunk));
        rest = later;
    }
    exchange.handle(at, Input::BodyEnd);
    let mut seen = exchange.finish();
    seen.counts.reads = 0;
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_bytes_in_any_chunking_give_the_same_observation(
        sizes in proptest::collection::vec(1usize..200, 1..8),
    ) {
        for case in CORPUS.iter().filter(|case| case.protocol != "raw-sse") {
            let body = case.body();
            let whole = read(case, &body, &[usize::MAX]);
            prop_assert_eq!(&read(case, &body, &sizes), &whole, "{}", case.id);
            prop_assert_eq!(&read(case, &body, &[1]), &whole, "{} byte by byte", case.id);
        }
    }

    #[test]
    fn damaged_bytes_are_read_without_a_panic_and_alike_in_any_chunking(
        case in 0usize..89,
        damage in proptest::collection::vec((any::<u16>(), any::<u8>()), 1..12),
        sizes in proptest::collection::vec(1usize..50, 1..5),
    ) {
        let played = CORPUS.iter().filter(|case| case.protocol != "raw-sse");
        let case = played.collect::<Vec<_>>()[case];
        let mut body = case.body();
        for (place, byte) in damage {
            if !body.is_empty() {
                let place = usize::from(place) % body.len();
                body[place] = byte;
            }
        }
        let whole = read(case, &body, &[usize::MAX]);
        prop_assert_eq!(read(case, &body, &sizes), whole);
    }
}

#[test]
fn ten_thousand_honest_chat_streams_give_no_finding() {
    give_no_finding(Protocol::OpenaiChat, honest::chat);
}

#[test]
fn ten_thousand_honest_gemini_streams_give_no_finding() {
    give_no_finding(Protocol::Gemini, honest::gemini);
}

#[test]
fn ten_thousand_honest_anthropic_streams_give_no_finding() {
    give_no_finding(Protocol::AnthropicMessages, honest::anthropic::messages);
}

#[test]
fn ten_thousand_honest_responses_streams_give_no_finding() {
    give_no_finding(Protocol::OpenaiResponses, honest::openai_responses::stream);
}

/// Ten thousand answers in the many legal forms that services send, cut anywhere.
fn give_no_finding(protocol: Protocol, honest: fn(&mut Dice) -> Honest) {
    let mut dice = Dice::new();
    let case = of(protocol.as_str()).remove(0);
    for round in 0..10_000 {
        let Honest { wire, text, usage } = honest(&mut dice);
        let mut asked = case.asked();
        asked.usage = usage;
        let mut exchange = Exchange::new(asked, timeouts());
        let head = Head {
            status: 200,
            version: "1.1",
            headers: vec![("content-type", b"text/event-stream; charset=utf-8")],
        };
        exchange.handle(Duration::from_millis(100), Input::Head(head));
        // Reads do not follow writes: the end of one may come with the beginning of the next.
        let mut held: Vec<u8> = Vec::new();
        let mut last = Duration::ZERO;
        for (at, bytes) in wire {
            held.extend_from_slice(&bytes);
            let cut = held.len() - (dice.roll(3) * dice.roll(20)).min(held.len() as u64) as usize;
            exchange.handle(at, Input::Body(&held[..cut]));
            held.drain(..cut);
            last = at;
        }
        exchange.handle(last, Input::Body(&held));
        exchange.handle(last, Input::BodyEnd);
        let seen = exchange.finish();
        assert_eq!(seen.findings, [], "stream {round}: {text}");
        assert_eq!(seen.text.as_deref(), Some(text.as_str()), "stream {round}");
        assert!(seen.parse_ok && !seen.interrupted);
    }
}
