//! What the pieces of an event say, in the terms that all protocols share.

use super::Flaw;
use super::wire::{Block, BlockKind, Counts, Delta, Input, Piece};
use crate::dialect::error::{Said, said_by};
use crate::dialect::member::Text;
use crate::dialect::{DeltaKind, Signal, Stop, pruned};
use crate::observation::{Usage, Warning};

/// Says what a block holds at its start, or as a whole; the first fault is given back.
pub(super) fn said_in_block(
    index: u64,
    kind: BlockKind,
    block: &Block<'_>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Flaw {
    let mut output = |kind, text: &Option<Text<'_>>| match text {
        Some(Text(text)) => {
            delta(kind, text, sink);
            None
        }
        None => Some("a block without its text"),
    };
    match kind {
        BlockKind::Text => output(DeltaKind::Content, &block.text),
        BlockKind::Thinking => output(DeltaKind::Reasoning, &block.thinking),
        BlockKind::Redacted => output(DeltaKind::Reasoning, &block.data),
        BlockKind::Call => {
            sink(Signal::ToolCall {
                choice: 0,
                index: Some(index),
                id: text(block.id.as_ref()),
                name: text(block.name.as_ref()),
                arguments: "",
            });
            if block.id.is_none() {
                Some("a tool call without an id")
            } else {
                (block.input != Some(Input::Object)).then_some("a tool call without its input")
            }
        }
        BlockKind::Result => None,
        BlockKind::Other => {
            sink(Signal::Odd(Warning::UnknownEvent));
            None
        }
    }
}

/// Says what a delta holds; the first fault is given back.
pub(super) fn said_in_delta(
    index: u64,
    piece: Piece,
    said: &Delta<'_>,
    sink: &mut dyn FnMut(Signal<'_>),
) -> Flaw {
    let held = match piece {
        Piece::Text => said.text.as_ref(),
        Piece::Thinking => said.thinking.as_ref(),
        Piece::InputJson => said.partial_json.as_ref(),
        Piece::Signature => {
            return said
                .signature
                .is_none()
                .then_some("a delta without its signature");
        }
        Piece::Citations => {
            return said
                .citation
                .is_none()
                .then_some("a delta without its citation");
        }
        Piece::Other => {
            sink(Signal::Odd(Warning::UnknownEvent));
            return None;
        }
    };
    let Some(Text(held)) = held else {
        return Some("a delta without its text");
    };
    match piece {
        Piece::Text => delta(DeltaKind::Content, held, sink),
        Piece::Thinking => delta(DeltaKind::Reasoning, held, sink),
        Piece::InputJson | Piece::Signature | Piece::Citations | Piece::Other => {
            sink(Signal::ToolCall {
                choice: 0,
                index: Some(index),
                id: None,
                name: None,
                arguments: held,
            });
        }
    }
    None
}

fn delta(kind: DeltaKind, text: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    if !text.is_empty() {
        sink(Signal::Delta {
            kind,
            choice: 0,
            text,
        });
    }
}

pub(super) fn text<'a>(text: Option<&'a Text<'_>>) -> Option<&'a str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

pub(super) fn finish(reason: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    if reason.is_empty() {
        sink(Signal::Odd(Warning::FinishReasonEmptyString));
        return;
    }
    let stop = match stop(reason) {
        Some(stop) => stop,
        None => {
            sink(Signal::Odd(Warning::UnknownFinishReason));
            leaked(reason)
        }
    };
    sink(Signal::Finish {
        choice: 0,
        stop,
        reason,
    });
}

/// What a reason of the protocol means.
fn stop(reason: &str) -> Option<Stop> {
    Some(match reason {
        // A turn that is paused can be taken up again; the model was not cut off.
        "end_turn" | "stop_sequence" | "pause_turn" => Stop::Natural,
        "max_tokens" | "model_context_window_exceeded" => Stop::Length,
        "tool_use" => Stop::ToolCalls,
        "refusal" => Stop::Filter,
        _ => return None,
    })
}

/// What a reason means that the protocol does not have: other providers' words, which relays leak.
fn leaked(reason: &str) -> Stop {
    match reason.to_ascii_lowercase().as_str() {
        "stop" | "eos" => Stop::Natural,
        "length" => Stop::Length,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "content_filter"
        | "content_filtered"
        | "safety"
        | "sensitive"
        | "recitation"
        | "blocklist"
        | "prohibited_content"
        | "spii"
        | "guardrail_intervened" => Stop::Filter,
        "abort"
        | "aborted"
        | "error"
        | "cancelled"
        | "canceled"
        | "failed"
        | "timeout"
        | "network_error"
        | "malformed_function_call"
        | "malformed_model_output"
        | "malformed_tool_use"
        | "engine_error"
        | "server_error"
        | "interrupted" => Stop::Abort,
        _ => Stop::Unknown,
    }
}

/// The counts after a report, in which what is absent keeps its value.
pub(super) fn merged(before: &Counts, report: &Counts) -> Counts {
    Counts {
        input_tokens: report.input_tokens.or(before.input_tokens),
        // The count of the beginning is provisional and never the final one.
        output_tokens: report.output_tokens,
        cache_creation_input_tokens: report
            .cache_creation_input_tokens
            .or(before.cache_creation_input_tokens),
        cache_read_input_tokens: report
            .cache_read_input_tokens
            .or(before.cache_read_input_tokens),
        output_tokens_details: report.output_tokens_details,
    }
}

/// The report in common terms: what was read from a cache or written to one is input, too.
pub(super) fn usage(counts: &Counts) -> Usage {
    let cached = counts.cache_read_input_tokens;
    let beside = [cached, counts.cache_creation_input_tokens];
    let beside = beside.into_iter().flatten().fold(0, u64::saturating_add);
    Usage {
        input: counts
            .input_tokens
            .map(|input| input.saturating_add(beside)),
        output: counts.output_tokens,
        reasoning: counts
            .output_tokens_details
            .and_then(|details| details.thinking_tokens),
        cached_input: cached,
        total: None,
    }
}

pub(super) fn error(said: &Said<'_>, sink: &mut dyn FnMut(Signal<'_>)) {
    sink(Signal::Error {
        code: said.code.as_deref(),
        message: said.message.as_deref(),
    });
}

/// Says the error that an event of that name or type holds, whatever its shape.
pub(super) fn said(data: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    match pruned::value(data) {
        Ok(value) => error(&said_by(&value), sink),
        Err(_) => sink(Signal::Error {
            code: None,
            message: Some(data),
        }),
    }
}
