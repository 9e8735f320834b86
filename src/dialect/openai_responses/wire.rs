//! The JSON of responses and their events, typed.
//!
//! Unknown members are passed over. What a member means, and which are required of which event, is
//! said elsewhere: events share one struct, because their names are known only while they are read.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, Visitor};

use crate::dialect::error::Said;
use crate::dialect::member::{Few, Loose, Text};

/// What an event is, by its `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Created,
    Queued,
    InProgress,
    Completed,
    Incomplete,
    Failed,
    Error,
    ItemAdded,
    ItemDone,
    PartAdded,
    PartDone,
    TextDelta,
    TextDone,
    RefusalDelta,
    RefusalDone,
    ReasoningDelta,
    ReasoningDone,
    SummaryPartAdded,
    SummaryPartDone,
    SummaryDelta,
    SummaryDone,
    ArgumentsDelta,
    ArgumentsDone,
    InputDelta,
    InputDone,
    /// Text that the model writes for a tool which the service runs itself.
    HostedDelta,
    /// Known, and says nothing of the answer's text.
    Aside,
    /// Not of the protocol, as far as we know it.
    Unknown,
}

/// Beginnings of the names that say nothing of the answer's text: what hosted tools are doing,
/// citations, sound.
const ASIDES: [&str; 12] = [
    "response.output_text.annotation.",
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_call",
    "response.mcp_list_tools.",
    "response.compaction.",
    "response.shell_call",
    "response.apply_patch_call",
    "response.steer.",
    "response.audio.",
];

impl Kind {
    /// The kind that a `type` names.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "response.output_text.delta" => Self::TextDelta,
            "response.created" => Self::Created,
            "response.queued" => Self::Queued,
            "response.in_progress" => Self::InProgress,
            "response.completed" => Self::Completed,
            "response.incomplete" => Self::Incomplete,
            "response.failed" => Self::Failed,
            "error" => Self::Error,
            "response.output_item.added" => Self::ItemAdded,
            "response.output_item.done" => Self::ItemDone,
            "response.content_part.added" => Self::PartAdded,
            "response.content_part.done" => Self::PartDone,
            "response.output_text.done" => Self::TextDone,
            "response.refusal.delta" => Self::RefusalDelta,
            "response.refusal.done" => Self::RefusalDone,
            "response.reasoning_text.delta" => Self::ReasoningDelta,
            "response.reasoning_text.done" => Self::ReasoningDone,
            "response.reasoning_summary_part.added" => Self::SummaryPartAdded,
            "response.reasoning_summary_part.done" => Self::SummaryPartDone,
            "response.reasoning_summary_text.delta" => Self::SummaryDelta,
            "response.reasoning_summary_text.done" => Self::SummaryDone,
            "response.function_call_arguments.delta" => Self::ArgumentsDelta,
            "response.function_call_arguments.done" => Self::ArgumentsDone,
            "response.custom_tool_call_input.delta" => Self::InputDelta,
            "response.custom_tool_call_input.done" => Self::InputDone,
            "response.mcp_call_arguments.delta" | "response.code_interpreter_call_code.delta" => {
                Self::HostedDelta
            }
            _ if ASIDES.iter().any(|beginning| name.starts_with(beginning)) => Self::Aside,
            _ => Self::Unknown,
        }
    }

    /// Whether nothing follows it.
    pub(super) const fn is_last(self) -> bool {
        matches!(self, Self::Completed | Self::Incomplete | Self::Failed)
    }
}

struct KindVisitor;

impl Visitor<'_> for KindVisitor {
    type Value = Kind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Kind::of(name))
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(KindVisitor)
    }
}

/// An event of which only the name is looked at.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Name {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
}

// What few events have is boxed, so that the many small ones are moved about cheaply.

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(in crate::dialect) struct Event<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<Kind>,
    pub(super) sequence_number: Option<u64>,
    #[serde(borrow)]
    pub(super) item_id: Option<Text<'a>>,
    pub(super) output_index: Option<u64>,
    pub(super) content_index: Option<u64>,
    pub(super) summary_index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) refusal: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) input: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) part: Option<Box<Part<'a>>>,
    #[serde(borrow)]
    pub(super) item: Option<Box<Item<'a>>>,
    #[serde(borrow)]
    pub(super) response: Option<Box<Response<'a>>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

/// A part of an item's content, or of its summary.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Part<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) text: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Loose<'a>,
    pub(super) annotations: Option<IgnoredAny>,
}

/// An output item. Kinds that we do not know may use the same names for other things.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) role: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) status: Loose<'a>,
    #[serde(borrow)]
    pub(super) content: Option<Few<Part<'a>, 128>>,
    #[serde(borrow)]
    pub(super) summary: Option<Few<Part<'a>, 128>>,
    #[serde(borrow, default)]
    pub(super) call_id: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) name: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Loose<'a>,
    #[serde(borrow, default)]
    pub(super) input: Loose<'a>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) object: Option<Text<'a>>,
    pub(super) created_at: Option<f64>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) output: Option<Few<Item<'a>>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
    #[serde(borrow)]
    pub(super) incomplete_details: Option<Incomplete<'a>>,
    pub(super) usage: Option<Counts>,
    pub(super) parallel_tool_calls: Option<bool>,
    pub(super) tool_choice: Option<IgnoredAny>,
    pub(super) tools: Option<IgnoredAny>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow)]
    pub(super) reason: Option<Text<'a>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Counts {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) total_tokens: Option<u64>,
    pub(super) input_tokens_details: Option<InputDetails>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Option<u64>,
}
