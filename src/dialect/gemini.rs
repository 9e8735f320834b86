//! Gemini `generateContent`: request, chunks, the finish reason that ends them.
//!
//! Strict about what the protocol requires and blind to everything it does not name. There is no
//! sentinel: a stream is whole if its body ends and every candidate has a finish reason. Some
//! models say `STOP` in every event, so that one in the first event is held until what follows, or
//! the body's end, shows what it was.

mod kept;
mod request;
mod wire;

use serde_json::Value;

use super::error::Said;
use super::foreign::foreign;
use super::member::{Few, Text};
use super::twin::Twin;
use super::{DeltaKind, Frame, Signal, Stop, Unreadable};
use crate::observation::{Usage, Warning};

pub(super) use kept::Kept;
pub(super) use request::body;
use wire::{Call, Candidate, Counts, Part, Response};

/// Most candidates that are followed.
const MAX_CANDIDATES: usize = 16;

/// Longest reason that is held, in characters.
const MAX_REASON: usize = 256;

/// The stream's life cycle so far.
#[derive(Debug, Default)]
pub(super) struct Life {
    tracks: Vec<Track>,
    begun: bool,
    /// Output tokens of the latest report, which only grow in one generation.
    counted: Option<u64>,
}

/// One candidate.
#[derive(Debug, Default)]
struct Track {
    index: u64,
    /// Some output came in an event without a finish reason.
    unmarked: bool,
    /// A finish reason came.
    ended: bool,
    /// A finish was signalled.
    finished: bool,
    /// A finish that the next event may show to be none.
    held: Option<(Stop, String)>,
    /// Such a finish was none: the model says one in every event.
    habit: bool,
    /// Function calls that are whole.
    calls: u64,
    /// A function call whose arguments are still coming.
    calling: bool,
}

/// Path of the request and, for a stream, its query; under a base URL without a version.
pub(super) fn target(model: &str, stream: bool) -> (String, Option<&'static str>) {
    // A tuned model or a model of a project is named with its collection.
    let model = if model.contains('/') {
        model.to_owned()
    } else {
        format!("models/{model}")
    };
    if stream {
        (
            format!("/v1beta/{model}:streamGenerateContent"),
            Some("alt=sse"),
        )
    } else {
        (format!("/v1beta/{model}:generateContent"), None)
    }
}

impl Life {
    /// Reads one event.
    pub(super) fn frame(
        &mut self,
        twin: &mut Twin<Kept>,
        frame: Frame<'_>,
        sink: &mut dyn FnMut(Signal<'_>),
    ) -> Result<(), Unreadable> {
        if frame.name != "error"
            && let Some(response) = twin.find(frame.data)
        {
            self.event(&response, sink);
            return Ok(());
        }
        if frame.data.trim_ascii().is_empty() {
            match frame.name {
                "error" => sink(no_words()),
                "message" => sink(Signal::Odd(Warning::EmptyEvent)),
                _ => {}
            }
            return Ok(());
        }
        let Some(response) = own(frame, sink)? else {
            return Ok(());
        };
        self.event(&response, sink);
        twin.learn(frame.data, &response);
        Ok(())
    }

    fn event(&mut self, response: &Response<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        if self.response(response, sink) && !self.is_open() {
            sink(Signal::Terminator);
        }
    }

    /// The body has ended: a finish that was held was the last.
    pub(super) fn end(&mut self, sink: &mut dyn FnMut(Signal<'_>)) {
        for track in &mut self.tracks {
            track.release(sink);
        }
    }

    /// Whether a candidate has begun and has no finish reason yet.
    pub(super) fn is_open(&self) -> bool {
        self.tracks.iter().any(|track| !track.ended)
    }

    /// Whether only the body's end makes the latest finish the last.
    pub(super) fn ends_with_body(&self) -> bool {
        let mut tracks = self.tracks.iter();
        tracks.any(|track| track.habit && track.held.is_some())
    }

    /// Says what an object of the protocol says; true when something ends with it.
    fn response(&mut self, response: &Response<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> bool {
        let usage = response.usage_metadata.as_ref().map(usage);
        sink(Signal::Meta {
            id: text(response.response_id.as_ref()),
            model: text(response.model_version.as_ref()),
            fingerprint: None,
            role: self.begins(usage),
        });
        error(response.error.as_deref(), sink);
        let mut ends = false;
        for candidate in response.candidates.iter().flat_map(Few::iter) {
            ends |= self.candidate(candidate, sink);
        }
        if let Some(reason) = blocked(response) {
            self.block(reason, sink);
            ends = true;
        }
        if let Some(usage) = usage {
            sink(Signal::Usage(usage));
        }
        ends
    }

    /// Whether a generation begins here: with the first object, or where the counts run backwards.
    fn begins(&mut self, usage: Option<Usage>) -> bool {
        let now = usage.and_then(|usage| usage.output);
        let backwards = matches!((self.counted, now), (Some(before), Some(now)) if now < before);
        self.counted = now.or(self.counted);
        !std::mem::replace(&mut self.begun, true) || backwards
    }

    fn candidate(&mut self, candidate: &Candidate<'_>, sink: &mut dyn FnMut(Signal<'_>)) -> bool {
        let choice = candidate.index.unwrap_or(0);
        let reason = match candidate.finish_reason.as_ref() {
            Some(Text(reason)) if reason.is_empty() => {
                sink(Signal::Odd(Warning::FinishReasonEmptyString));
                None
            }
            // The name of "not set", which some relays write out.
            Some(Text(reason)) if reason == "FINISH_REASON_UNSPECIFIED" => None,
            Some(Text(reason)) => Some(&**reason),
            None => None,
        };
        let mut beyond = Track::default();
        let track = self.track(choice).unwrap_or(&mut beyond);
        let speaks = candidate.parts().any(Part::has_output);
        if track.held.is_some() {
            if reason.is_some() {
                track.held = None;
                track.habit |= speaks;
                sink(Signal::Odd(Warning::FinishRepeated));
            } else if speaks {
                track.release(sink);
            }
        }
        track.unmarked |= speaks && reason.is_none();
        for part in candidate.parts() {
            track.part(choice, part, sink);
        }
        error(candidate.error.as_deref(), sink);
        if let Some(reason) = reason {
            track.finish(choice, reason, sink);
        }
        reason.is_some()
    }

    /// The prompt, or what came of it, was blocked: nothing goes on.
    fn block(&mut self, reason: &str, sink: &mut dyn FnMut(Signal<'_>)) {
        const KNOWN: [&str; 9] = [
            "BLOCK_REASON_UNSPECIFIED",
            "BLOCKED_REASON_UNSPECIFIED",
            "SAFETY",
            "OTHER",
            "BLOCKLIST",
            "PROHIBITED_CONTENT",
            "IMAGE_SAFETY",
            "MODEL_ARMOR",
            "JAILBREAK",
        ];
        if !KNOWN.contains(&reason) {
            sink(Signal::Odd(Warning::UnknownFinishReason));
        }
        for track in &mut self.tracks {
            track.ended = true;
            track.held = None;
        }
        sink(Signal::Finish {
            choice: 0,
            stop: Stop::Filter,
            reason,
        });
    }

    /// The track of a candidate; `None` beyond the limit.
    fn track(&mut self, index: u64) -> Option<&mut Track> {
        let place = self.tracks.iter().position(|track| track.index == index);
        match place {
            Some(place) => self.tracks.get_mut(place),
            None if self.tracks.len() < MAX_CANDIDATES => {
                self.tracks.push(Track {
                    index,
                    ..Track::default()
                });
                self.tracks.last_mut()
            }
            None => None,
        }
    }
}

impl Track {
    /// Says a finish that was held.
    fn release(&mut self, sink: &mut dyn FnMut(Signal<'_>)) {
        if let Some((stop, reason)) = self.held.take() {
            self.finished = true;
            sink(Signal::Finish {
                choice: self.index,
                stop,
                reason: &reason,
            });
        }
    }

    fn finish(&mut self, choice: u64, reason: &str, sink: &mut dyn FnMut(Signal<'_>)) {
        let (stop, known) = stop(reason);
        if !known {
            sink(Signal::Odd(Warning::UnknownFinishReason));
        }
        let calls = self.calls > 0 || self.calling;
        let stop = if stop == Stop::Natural && calls {
            Stop::ToolCalls
        } else {
            stop
        };
        self.ended = true;
        let certain = match stop {
            Stop::Length | Stop::Filter | Stop::Abort => true,
            // Said in every event so far, it may be the habit of the model.
            Stop::Natural | Stop::ToolCalls | Stop::Unknown => self.unmarked || self.finished,
        };
        if certain {
            self.finished = true;
            sink(Signal::Finish {
                choice,
                stop,
                reason,
            });
        } else {
            self.held = Some((stop, reason.chars().take(MAX_REASON).collect()));
        }
    }

    fn part(&mut self, choice: u64, part: &Part<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        let mut piece = |kind, text: &str| {
            if !text.is_empty() {
                sink(Signal::Delta { kind, choice, text });
            }
        };
        if let Some(Text(text)) = &part.text {
            let kind = if part.thought {
                DeltaKind::Reasoning
            } else {
                DeltaKind::Content
            };
            piece(kind, text);
        }
        let Some(more) = part.more.as_deref() else {
            return;
        };
        if let Some(Text(text)) = &more.thing {
            piece(DeltaKind::Other, text);
        }
        if let Some(call) = &more.call {
            self.call(choice, call, sink);
        }
    }

    /// A function call, whole or in pieces.
    ///
    /// Pieces name the arguments that they belong to, so they are no text to be joined: they are
    /// told as output of another kind, and the call as an object that is open until the last one.
    fn call(&mut self, choice: u64, call: &Call<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
        let name = text(call.name.as_ref());
        let args = call.args.map_or("", |args| args.get());
        if !args.is_empty() && !args.starts_with('{') {
            sink(Signal::Flaw("arguments that are no object"));
        }
        let goes_on = call.will_continue == Some(true);
        let pieces = call.partial_args.as_ref();
        if self.calling && name.is_some() {
            // The call before never ended.
            self.calls += 1;
            self.calling = false;
        }
        let index = self.calls;
        let mut tell = |arguments| {
            sink(Signal::ToolCall {
                choice,
                index: Some(index),
                id: text(call.id.as_ref()),
                name,
                arguments,
            });
        };
        if !self.calling && !goes_on && pieces.is_none_or(Few::is_empty) {
            self.calls += 1;
            tell(args);
            return;
        }
        if !self.calling {
            tell("{");
        }
        if !goes_on {
            tell("}");
        }
        self.calling = goes_on;
        self.calls += u64::from(!goes_on);
        for piece in pieces.into_iter().flat_map(Few::iter) {
            let text = piece.text();
            if !text.is_empty() {
                sink(Signal::Delta {
                    kind: DeltaKind::Other,
                    choice,
                    text,
                });
            }
        }
    }
}

/// Reads a whole answer that was not streamed.
pub(super) fn answer(body: &str, sink: &mut dyn FnMut(Signal<'_>)) -> Result<(), Unreadable> {
    let frame = Frame {
        name: "message",
        data: body,
    };
    let Some(response) = own(frame, sink)? else {
        return Ok(());
    };
    let candidates = response.candidates.as_ref();
    let empty = candidates.is_none_or(Few::is_empty);
    if empty && blocked(&response).is_none() && response.error.is_none() {
        return Err(Unreadable::Shape("no candidates"));
    }
    let mut life = Life::default();
    life.response(&response, sink);
    life.end(sink);
    sink(Signal::Terminator);
    Ok(())
}

/// The protocol's own object; `None` when the data was something else, which has been said.
fn own<'a>(
    frame: Frame<'a>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Result<Option<Response<'a>>, Unreadable> {
    let fault = match serde_json::from_str::<Response<'_>>(frame.data) {
        Ok(response) if response.is_known() && frame.name != "error" => return Ok(Some(response)),
        Ok(_) => None,
        Err(fault) => Some(fault),
    };
    foreign(frame, |value| reason(value, fault), sink)?;
    Ok(None)
}

/// Names the fault of a JSON value that is no chunk, without any of its content.
fn reason(value: &Value, fault: Option<serde_json::Error>) -> &'static str {
    let Some(members) = value.as_object() else {
        return "no JSON object";
    };
    let Some(fault) = fault else {
        return if members.contains_key("choices") {
            "an object of another protocol"
        } else {
            "no candidates"
        };
    };
    if fault.to_string().starts_with("duplicate field") {
        "a member comes twice"
    } else if fault.to_string().starts_with("a list of too many") {
        "a list of too many items"
    } else {
        "a member has the wrong type"
    }
}

fn no_words() -> Signal<'static> {
    Signal::Error {
        code: None,
        message: None,
    }
}

fn error(said: Option<&Said<'_>>, sink: &mut dyn FnMut(Signal<'_>)) {
    if let Some(said) = said.filter(|said| said.real) {
        sink(Signal::Error {
            code: said.code.as_deref(),
            message: said.message.as_deref(),
        });
    }
}

fn text<'a>(text: Option<&'a Text<'_>>) -> Option<&'a str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

/// Why the prompt was blocked, if it was.
fn blocked<'a>(response: &'a Response<'_>) -> Option<&'a str> {
    text(response.prompt_feedback.as_ref()?.block_reason.as_ref())
}

/// What a reason means, and whether it is one of the protocol's; the last row of each kind is other
/// protocols' words that relays leak.
fn stop(reason: &str) -> (Stop, bool) {
    let stop = match reason {
        "STOP" => Stop::Natural,
        "MAX_TOKENS" | "CONTINUATION" => Stop::Length,
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "ESCALATION"
        | "PUP_LIMITED_DISABLED"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR" => Stop::Filter,
        "OTHER"
        | "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE"
        | "NO_IMAGE"
        | "IMAGE_OTHER" => Stop::Abort,
        _ => {
            let stop = match reason.to_ascii_lowercase().as_str() {
                "stop" | "end_turn" | "stop_sequence" => Stop::Natural,
                "length" | "max_tokens" => Stop::Length,
                "tool_calls" | "tool_use" | "function_call" => Stop::ToolCalls,
                "safety" | "content_filter" | "prohibited" | "refusal" => Stop::Filter,
                "abort" | "error" | "cancelled" | "failed" | "timeout" => Stop::Abort,
                _ => Stop::Unknown,
            };
            return (stop, false);
        }
    };
    (stop, true)
}

/// Token counts; what is zero is left out of this protocol's JSON.
fn usage(counts: &Counts) -> Usage {
    let tools = counts.tool_use_prompt_token_count.unwrap_or(0);
    let input = counts
        .prompt_token_count
        .map(|prompt| prompt.saturating_add(tools));
    let total = counts.total_token_count;
    let thoughts = counts.thoughts_token_count;
    let output = match (counts.candidates_token_count, thoughts) {
        (None, None) => (total.is_some() && total == input).then_some(0),
        (candidates, thoughts) => {
            let candidates = candidates.unwrap_or(0);
            let apart = candidates.saturating_add(thoughts.unwrap_or(0));
            // Some models count their thoughts among the rest.
            let within =
                total.is_some() && total == input.map(|input| input.saturating_add(candidates));
            Some(if within && candidates >= thoughts.unwrap_or(0) {
                candidates
            } else {
                apart
            })
        }
    };
    Usage {
        input,
        output,
        reasoning: thoughts,
        cached_input: counts.cached_content_token_count,
        total,
    }
}

#[cfg(test)]
mod tests;
