//! The corpus of stream cases: every one played, none skipped in silence.

#[path = "cases/player.rs"]
mod player;

use std::collections::BTreeSet;

use player::{Case, ExpectedEvent, corpus, play};
use relayproof::attribution::blame;
use relayproof::stream::sse::{Decoder, Item};

/// Cases of protocols that are not read yet, by name.
const NOT_YET: &[(&str, &str)] = &[
    ("121-anthropic-baseline-with-pings", "anthropic-messages"),
    (
        "123-anthropic-tool-use-empty-first-json",
        "anthropic-messages",
    ),
    (
        "124-anthropic-unknown-event-and-empty-frame",
        "anthropic-messages",
    ),
    ("126-anthropic-no-event-lines", "anthropic-messages"),
    ("127-anthropic-overloaded-first-event", "anthropic-messages"),
    ("130-anthropic-truncated-clean-end", "anthropic-messages"),
    (
        "131-anthropic-stop-reason-then-pings-only",
        "anthropic-messages",
    ),
    (
        "134-anthropic-closed-message-then-error",
        "anthropic-messages",
    ),
    ("135-anthropic-max-tokens-unexpected", "anthropic-messages"),
    ("141-responses-baseline", "openai-responses"),
    ("142-responses-data-lines-only", "openai-responses"),
    ("145-responses-top-level-error-event", "openai-responses"),
    ("146-responses-closed-before-completed", "openai-responses"),
    (
        "150-responses-completed-with-empty-output",
        "openai-responses",
    ),
    ("161-gemini-baseline-crlf", "gemini"),
    ("162-gemini-finish-event-without-parts", "gemini"),
    ("163-gemini-stop-on-every-event", "gemini"),
    ("170-gemini-max-tokens-no-parts", "gemini"),
];

fn of(protocol: &str) -> Vec<Case> {
    let mut cases = corpus();
    cases.retain(|case| case.protocol == protocol);
    cases
}

#[test]
fn every_case_is_played_or_listed_with_its_protocol() {
    let cases = corpus();
    let unplayed: Vec<_> = cases
        .iter()
        .filter(|case| !matches!(case.protocol.as_str(), "openai-chat" | "raw-sse"))
        .map(|case| (case.id.as_str(), case.protocol.as_str()))
        .collect();
    assert_eq!(unplayed, NOT_YET);
    assert_eq!(cases.len(), 100);
    assert_eq!(of("openai-chat").len(), 71);
    assert_eq!(of("raw-sse").len(), 11);
}

#[test]
fn every_openai_chat_case_is_read_as_it_says() {
    let mut wrong = Vec::new();
    for case in of("openai-chat") {
        let played = play(&case);
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
