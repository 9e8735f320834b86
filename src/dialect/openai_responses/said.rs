//! What the pieces of an event say, in the terms that all protocols share.

use super::life::{ItemKind, PartKind};
use super::wire::{self, Counts, Kind, Response};
use crate::dialect::error::Said;
use crate::dialect::member::{Loose, Text};
use crate::dialect::{DeltaKind, Signal, Stop};
use crate::observation::{Usage, Warning};

/// How a response ended.
pub(super) enum End<'a> {
    /// With an error.
    Failed,
    /// With a reason.
    Finish(Stop, &'a str),
}

/// How a response ended, by its last event, its status and its reason; a status says more than the
/// event's name, because services send `response.completed` for answers that were cut, too.
pub(super) fn ended<'a>(
    kind: Kind,
    status: Option<&'a str>,
    reason: Option<&'a str>,
    calls: bool,
) -> End<'a> {
    match (kind, status) {
        (Kind::Failed, _) | (_, Some("failed")) => End::Failed,
        (_, Some(status @ ("cancelled" | "canceled"))) => End::Finish(Stop::Abort, status),
        (Kind::Incomplete, _) | (_, Some("incomplete")) => match reason {
            Some(
                reason @ ("max_output_tokens" | "max_tokens" | "max_completion_tokens" | "length"),
            ) => End::Finish(Stop::Length, reason),
            Some(reason @ "content_filter") => End::Finish(Stop::Filter, reason),
            Some(reason @ ("max_messages" | "steered")) => End::Finish(Stop::Unknown, reason),
            // Cut, and nobody says by what right.
            Some(reason) => End::Finish(Stop::Abort, reason),
            None => End::Finish(Stop::Abort, "incomplete"),
        },
        _ if calls => End::Finish(Stop::ToolCalls, "completed"),
        _ => End::Finish(Stop::Natural, "completed"),
    }
}

/// Signals how a response ended that did not fail.
pub(super) fn ending(
    kind: Kind,
    status: Option<&str>,
    reason: Option<&str>,
    calls: bool,
    sink: &mut dyn FnMut(Signal<'_>),
) {
    match ended(kind, status, reason, calls) {
        End::Failed => sink(error_of(&Said::default())),
        End::Finish(stop, reason) => {
            if stop == Stop::Unknown {
                sink(Signal::Odd(Warning::UnknownFinishReason));
            }
            sink(Signal::Finish {
                choice: 0,
                stop,
                reason,
            });
        }
    }
}

pub(super) fn meta(response: &Response<'_>, role: bool, sink: &mut dyn FnMut(Signal<'_>)) {
    sink(Signal::Meta {
        id: text(response.id.as_ref()),
        model: text(response.model.as_ref()),
        fingerprint: None,
        role,
    });
}

pub(super) fn error_of<'a>(said: &'a Said<'_>) -> Signal<'a> {
    Signal::Error {
        code: said.code.as_deref(),
        message: said.message.as_deref(),
    }
}

pub(super) fn piece(kind: DeltaKind, text: &str, sink: &mut dyn FnMut(Signal<'_>)) {
    if !text.is_empty() {
        sink(Signal::Delta {
            kind,
            choice: 0,
            text,
        });
    }
}

pub(super) const fn call<'a>(
    index: Option<u64>,
    id: Option<&'a str>,
    name: Option<&'a str>,
    arguments: &'a str,
) -> Signal<'a> {
    Signal::ToolCall {
        choice: 0,
        index,
        id,
        name,
        arguments,
    }
}

pub(super) const fn delta_kind(kind: PartKind) -> DeltaKind {
    match kind {
        PartKind::Text => DeltaKind::Content,
        PartKind::Refusal => DeltaKind::Refusal,
        PartKind::Reasoning | PartKind::Summary => DeltaKind::Reasoning,
    }
}

pub(super) fn item_kind(item: &wire::Item<'_>) -> ItemKind {
    ItemKind::of(item.kind.0.as_deref().unwrap_or_default())
}

pub(super) fn usage(counts: Option<&Counts>, sink: &mut dyn FnMut(Signal<'_>)) {
    if let Some(counts) = counts {
        let reasoning = counts.output_tokens_details.as_ref();
        let cached = counts.input_tokens_details.as_ref();
        sink(Signal::Usage(Usage {
            input: counts.input_tokens,
            output: counts.output_tokens,
            reasoning: reasoning.and_then(|details| details.reasoning_tokens),
            cached_input: cached.and_then(|details| details.cached_tokens),
            total: counts.total_tokens,
        }));
    }
}

pub(super) fn whole<'a>(text: Option<&'a Text<'_>>) -> &'a str {
    text.map_or("", |text| &text.0)
}

pub(super) fn text<'a>(text: Option<&'a Text<'_>>) -> Option<&'a str> {
    text.map(|text| &*text.0).filter(|text| !text.is_empty())
}

pub(super) fn loose<'a>(text: &'a Loose<'_>) -> Option<&'a str> {
    text.0.as_deref().filter(|text| !text.is_empty())
}
