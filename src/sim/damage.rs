//! The answer to one request: an honest one, or what a fault makes of it.
//!
//! Pure: turns a request and a fault into a timed script.

use std::time::Duration;

use super::ask::Ask;
use super::fault::Fault;
use super::script::{End, Framing, Script};
use super::voice::{self, Api, ApiError, Event, Reason, Usage, Voice};

/// An upstream's refusal, passed on as if the model had said it.
const ERROR_TEXT: &str = "[upstream error] Response 429: Too Many Requests. You exceeded your \
                          current quota, please check your plan and billing details.";

const HTML_PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\
                         <body><h1>Sign in to continue</h1></body></html>\n";

/// The labels that stand in for the asked model, two so that one differs from it.
const OTHER_MODELS: [&str; 2] = ["lite-mini", "budget-nano"];

/// What distinguishes one answer from another.
#[derive(Clone, Debug)]
pub(super) struct Turn<'a> {
    pub(super) api: &'a Api,
    pub(super) ask: &'a Ask,
    /// Chooses the words.
    pub(super) key: u64,
    pub(super) id: &'a str,
    pub(super) created: u64,
    pub(super) tokens: u32,
    /// From the request read to the first token.
    pub(super) first_token: Duration,
    /// From one token to the next.
    pub(super) token_gap: Duration,
    /// Whether the client understands chunks (HTTP/1.1).
    pub(super) chunked: bool,
}

/// What the model is made to say, and what happens to it on the way.
struct Answer {
    model: String,
    tokens: Vec<String>,
    reason: Reason,
    first_token: Duration,
    stroke: Option<Stroke>,
}

/// A blow to an answer; a number says how many tokens come before it.
enum Stroke {
    /// The body ends properly.
    End(usize),
    /// The connection ends, or falls silent, inside the body.
    Break(usize, End),
    /// An error object, then a proper end.
    Error(usize),
    /// The next event's JSON is cut.
    Malform(usize),
    /// The next event's JSON is spread over two.
    Split(usize),
    /// The end mark.
    Done(usize),
    /// All in one write.
    Burst,
}

/// The script of one response.
pub(super) fn script(turn: &Turn<'_>, fault: Option<&Fault>) -> Script {
    let mut answer = honest(turn);
    let count = answer.tokens.len();
    let middle = |after: &Option<u32>| after.map_or(count / 2, |n| count.min(n as usize));
    match fault {
        None => {}
        Some(Fault::Status {
            code,
            retry_after_s,
            ..
        }) => return refused(turn.api, *code, *retry_after_s),
        Some(Fault::Fake200) => {
            let error = turn.api.refusal(&ApiError {
                status: 200,
                message: "the request could not be completed",
                kind: "api_error",
                param: None,
                code: None,
            });
            return json(200, &[], &error);
        }
        Some(Fault::Fake200Html) => return page(),
        Some(Fault::Fake200Empty) => {
            let mut script = open_stream(turn, Duration::ZERO);
            script.finish(Duration::ZERO, End::Reuse);
            return script;
        }
        Some(Fault::SlowFirstToken { delay }) => answer.first_token += *delay,
        Some(Fault::ErrorAsContent) => {
            answer.tokens = vec![ERROR_TEXT.to_owned()];
            answer.reason = Reason::Stop;
        }
        Some(Fault::WrongModel) => {
            let [other, another] = OTHER_MODELS;
            answer.model = if answer.model == other {
                another
            } else {
                other
            }
            .to_owned();
        }
        Some(Fault::DropSeal) => {
            answer.tokens = voice::words(turn.key, (count / 2).max(1));
            answer.reason = Reason::Stop;
        }
        Some(Fault::Truncate { after_tokens }) => {
            answer.stroke = Some(Stroke::End(middle(after_tokens)));
        }
        Some(Fault::TruncateFin { after_tokens }) => {
            answer.stroke = Some(Stroke::Break(middle(after_tokens), End::Fin));
        }
        Some(Fault::TruncateRst { after_tokens }) => {
            answer.stroke = Some(Stroke::Break(middle(after_tokens), End::Rst));
        }
        Some(Fault::Stall { after_tokens }) => {
            answer.stroke = Some(Stroke::Break(middle(after_tokens), End::Hang));
        }
        Some(Fault::ErrorInStream { after_tokens }) => {
            answer.stroke = Some(Stroke::Error(middle(after_tokens)));
        }
        Some(Fault::MalformedJson { after_tokens }) => {
            answer.stroke = Some(Stroke::Malform(middle(after_tokens)));
        }
        Some(Fault::SplitJson { after_tokens }) => {
            answer.stroke = Some(Stroke::Split(middle(after_tokens)));
        }
        Some(Fault::FakeDone { after_tokens }) => {
            answer.stroke = Some(Stroke::Done(middle(after_tokens)));
        }
        Some(Fault::Buffer) => answer.stroke = Some(Stroke::Burst),
    }
    if turn.ask.stream {
        stream(turn, &answer)
    } else {
        whole(turn, &answer)
    }
}

/// The answer of a relay that hides nothing: the seal last, or a cut that says `length`.
fn honest(turn: &Turn<'_>) -> Answer {
    let lines = turn.ask.lines.unwrap_or(0);
    // Each line has a word at least.
    let count = turn.tokens.max(2 * lines) as usize;
    let mut tokens = voice::words(turn.key, count);
    for line in 0..lines as usize {
        if let Some(token) = tokens.get_mut(line * count / lines as usize) {
            let feed = if line == 0 { "" } else { "\n" };
            *token = format!("{feed}{}.", line + 1);
        }
    }
    if let Some(seal) = &turn.ask.seal
        && let Some((last, words)) = tokens.split_last_mut()
    {
        let space = if words.is_empty() { "" } else { " " };
        *last = format!("{space}{seal}");
    }
    let limit = turn.ask.max_tokens.unwrap_or(u64::MAX);
    let cut = limit < count as u64;
    if cut {
        tokens.truncate(usize::try_from(limit).unwrap_or(count));
    }
    Answer {
        model: turn.ask.model.clone(),
        tokens,
        reason: if cut { Reason::Length } else { Reason::Stop },
        first_token: turn.first_token,
        stroke: None,
    }
}

impl Answer {
    fn usage(&self, turn: &Turn<'_>) -> Usage {
        Usage {
            prompt: turn.ask.prompt_tokens,
            completion: self.tokens.len() as u64,
        }
    }

    /// When the token with this index is due.
    fn due(&self, turn: &Turn<'_>, index: usize) -> Duration {
        let gaps = u32::try_from(index).unwrap_or(u32::MAX);
        self.first_token
            .saturating_add(turn.token_gap.saturating_mul(gaps))
    }

    fn last_due(&self, turn: &Turn<'_>) -> Duration {
        self.due(turn, self.tokens.len().saturating_sub(1))
    }
}

fn stream(turn: &Turn<'_>, answer: &Answer) -> Script {
    let mut voice = voice(turn, answer);
    let after = match answer.stroke {
        Some(
            Stroke::End(after)
            | Stroke::Break(after, _)
            | Stroke::Error(after)
            | Stroke::Done(after),
        ) => after,
        None | Some(Stroke::Malform(_) | Stroke::Split(_) | Stroke::Burst) => answer.tokens.len(),
    };
    let mut events = voice.opening();
    let opening = events.len();
    for (index, token) in answer.tokens.iter().take(after).enumerate() {
        events.push(Event {
            at: answer.due(turn, index),
            output: true,
            ..voice.token(token)
        });
    }
    let next = answer.due(turn, after).min(answer.last_due(turn));
    let (mut rest, mut broken) = (Vec::new(), None);
    match answer.stroke {
        None | Some(Stroke::Burst) => rest = voice.closing(answer.reason, answer.usage(turn)),
        Some(Stroke::End(_)) => {}
        Some(Stroke::Break(_, how)) => broken = Some(how),
        Some(Stroke::Error(_)) => rest = vec![voice.error()],
        Some(Stroke::Done(_)) => rest = voice.mark(),
        Some(Stroke::Malform(at)) => {
            if let Some(event) = events.get_mut(opening + at) {
                event.data.truncate(boundary(&event.data, 2, 3));
                event.output = false;
            }
            rest = voice.closing(answer.reason, answer.usage(turn));
        }
        Some(Stroke::Split(at)) => {
            if let Some(event) = events.get_mut(opening + at) {
                let rest = event.data.split_off(boundary(&event.data, 1, 2));
                event.output = false;
                let rest = Event {
                    data: rest,
                    ..event.clone()
                };
                events.insert(opening + at + 1, rest);
            }
            rest = voice.closing(answer.reason, answer.usage(turn));
        }
    }
    events.extend(rest.into_iter().map(|event| Event { at: next, ..event }));
    if matches!(answer.stroke, Some(Stroke::Burst)) {
        return burst(turn, &events, answer.last_due(turn));
    }

    let mut script = open_stream(turn, Duration::ZERO);
    for event in &events {
        script.send(event.at, event.text().as_bytes());
        if event.output {
            script.mark_first_token();
        }
    }
    let at = events.last().map_or(Duration::ZERO, |event| event.at);
    match broken {
        Some(how) => script.break_off(how),
        None => script.finish(at, End::Reuse),
    }
    script
}

fn voice(turn: &Turn<'_>, answer: &Answer) -> Box<dyn Voice> {
    turn.api
        .voice(turn.id, turn.created, &answer.model, turn.ask)
}

fn burst(turn: &Turn<'_>, events: &[Event], at: Duration) -> Script {
    let mut script = open_stream(turn, at);
    let text: String = events.iter().map(Event::text).collect();
    script.send(at, text.as_bytes());
    script.mark_first_token();
    script.finish(at, End::Reuse);
    script
}

/// One JSON body, due when the last token would be.
fn whole(turn: &Turn<'_>, answer: &Answer) -> Script {
    let text = answer.tokens.concat();
    let body = voice(turn, answer).whole(&text, answer.reason, answer.usage(turn));
    let body = body.as_bytes();
    let at = answer.last_due(turn);
    let part = |after: usize| {
        let cut = body.len() * after / (answer.tokens.len() + 1);
        body.get(..cut.max(1)).unwrap_or(body)
    };
    let headers = [
        ("content-type", "application/json"),
        ("x-request-id", turn.id),
    ];
    match answer.stroke {
        Some(Stroke::End(after)) => {
            let mut script = Script::open(at, 200, framing(turn), &headers);
            script.send(at, part(after));
            script.finish(at, End::Reuse);
            script
        }
        Some(Stroke::Break(after, how)) => {
            let mut script = Script::open(at, 200, Framing::Length(body.len()), &headers);
            script.send(at, part(after));
            script.break_off(how);
            script
        }
        Some(Stroke::Malform(after)) => Script::whole(at, 200, &headers, part(after), End::Reuse),
        None | Some(Stroke::Error(_) | Stroke::Split(_) | Stroke::Done(_) | Stroke::Burst) => {
            let mut script = Script::whole(at, 200, &headers, body, End::Reuse);
            script.mark_first_token();
            script
        }
    }
}

fn framing(turn: &Turn<'_>) -> Framing {
    if turn.chunked {
        Framing::Chunked
    } else {
        Framing::UntilClose
    }
}

fn open_stream(turn: &Turn<'_>, at: Duration) -> Script {
    let headers = [
        ("content-type", "text/event-stream; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("x-request-id", turn.id),
    ];
    Script::open(at, 200, framing(turn), &headers)
}

/// A JSON body, sent at once.
pub(super) fn json(status: u16, headers: &[(&str, &str)], body: &str) -> Script {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    Script::whole(Duration::ZERO, status, &all, body.as_bytes(), End::Reuse)
}

fn page() -> Script {
    let headers = [("content-type", "text/html; charset=utf-8")];
    Script::whole(
        Duration::ZERO,
        200,
        &headers,
        HTML_PAGE.as_bytes(),
        End::Reuse,
    )
}

/// An HTTP error with the text and names that APIs give it.
fn refused(api: &Api, status: u16, retry_after_s: Option<u32>) -> Script {
    let (message, kind, code) = match status {
        401 => (
            "incorrect API key",
            "invalid_request_error",
            Some("invalid_api_key"),
        ),
        402 => (
            "insufficient balance",
            "insufficient_quota",
            Some("insufficient_quota"),
        ),
        403 => ("this key may not use this model", "permission_error", None),
        404 => (
            "the model does not exist",
            "invalid_request_error",
            Some("model_not_found"),
        ),
        429 => (
            "rate limit reached for requests",
            "requests",
            Some("rate_limit_exceeded"),
        ),
        503 | 529 => (
            "the service is overloaded",
            "server_error",
            Some("overloaded"),
        ),
        400..=499 => ("the request was refused", "invalid_request_error", None),
        _ => ("the server had an error", "server_error", None),
    };
    let body = api.refusal(&ApiError {
        status,
        message,
        kind,
        param: None,
        code,
    });
    match retry_after_s {
        None => json(status, &[], &body),
        Some(seconds) => json(status, &[("retry-after", &seconds.to_string())], &body),
    }
}

/// The byte index nearest below `part / of` of the text that splits no character.
fn boundary(text: &str, part: usize, of: usize) -> usize {
    let mut index = text.len() * part / of;
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::ask;

    fn wire(model: &str, fault: &Fault, tokens: u32) -> (Script, String) {
        wire_of(&Api::Chat, model, fault, tokens)
    }

    fn wire_of(api: &Api, model: &str, fault: &Fault, tokens: u32) -> (Script, String) {
        let ask = Ask {
            model: model.to_owned(),
            stream: true,
            usage: false,
            max_tokens: None,
            seal: Some("END".to_owned()),
            lines: None,
            prompt_tokens: 1,
        };
        let turn = Turn {
            api,
            ask: &ask,
            key: 1,
            id: "id",
            created: 1,
            tokens,
            first_token: Duration::from_millis(120),
            token_gap: Duration::from_millis(15),
            chunked: false,
        };
        let script = script(&turn, Some(fault));
        let bytes: Vec<u8> = script.writes().flat_map(|(_, b)| b.to_vec()).collect();
        (script, String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn no_fault_cuts_a_character_or_fails_on_the_shortest_and_odd_answers() {
        for fault in Fault::ALL {
            for model in ["m", "模型", "é".repeat(37).as_str(), "lite-mini"] {
                for tokens in [1, 2, 5] {
                    for api in [Api::Chat, Api::Responses, Api::Messages] {
                        let (_, wire) = wire_of(&api, model, fault, tokens);
                        assert!(wire.starts_with("HTTP/1.1 "), "{api:?} {fault:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn numbered_lines_are_given_where_they_are_asked_for_and_lost_with_the_seal() {
        let ask = Ask {
            model: "m".to_owned(),
            stream: false,
            usage: false,
            max_tokens: None,
            seal: None,
            lines: ask::lines("Five uses of a brick, in exactly 5 numbered lines."),
            prompt_tokens: 1,
        };
        let turn = Turn {
            api: &Api::Chat,
            ask: &ask,
            key: 1,
            id: "id",
            created: 1,
            tokens: 4,
            first_token: Duration::ZERO,
            token_gap: Duration::ZERO,
            chunked: false,
        };
        let text = honest(&turn).tokens.concat();
        assert_eq!(text.lines().count(), 5);
        for (line, number) in text.lines().zip(1..) {
            assert!(line.starts_with(&format!("{number}. ")), "{line}");
        }
        let lost = script(&turn, Some(&Fault::DropSeal));
        let wire: Vec<u8> = lost
            .writes()
            .flat_map(|(_, bytes)| bytes.to_vec())
            .collect();
        assert!(!String::from_utf8(wire).unwrap().contains("1. "));
    }

    #[test]
    fn a_cut_beyond_the_answer_leaves_out_its_ending_only() {
        let fault = Fault::Truncate {
            after_tokens: Some(99),
        };
        let (_, wire) = wire("m", &fault, 3);
        assert!(wire.contains(" END"));
        assert!(!wire.contains(r#""finish_reason":"stop""#) && !wire.contains("[DONE]"));
    }

    #[test]
    fn another_model_is_named_even_when_the_usual_stand_in_was_asked_for() {
        let (_, wire) = wire("lite-mini", &Fault::WrongModel, 1);
        assert!(!wire.contains("lite-mini"));
    }

    #[test]
    fn tokens_keep_to_a_schedule_that_late_writes_do_not_shift() {
        let fault = Fault::SlowFirstToken {
            delay: Duration::from_millis(100),
        };
        let (script, _) = wire("m", &fault, 3);
        let due: Vec<u128> = script.writes().map(|(at, _)| at.as_millis()).collect();
        assert_eq!(due, [0, 0, 220, 235, 250, 250, 250]);
        assert_eq!(script.first_token(), Some(2));
    }
}
