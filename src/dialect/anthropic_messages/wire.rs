//! The JSON of the messages API, typed: what the protocol requires is asked for where it is read.
//!
//! Unknown members are passed over; known ones of the wrong type are errors. One struct holds the
//! members of every event, so that an event is read in one pass, whatever the order of its members.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::dialect::error::Said;
use crate::dialect::member::{Few, Present, Text};

/// Events of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    MessageStart,
    BlockStart,
    BlockDelta,
    BlockStop,
    MessageDelta,
    MessageStop,
    Ping,
    Error,
}

impl Kind {
    /// The event of this name or type.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "content_block_delta" => Self::BlockDelta,
            "message_start" => Self::MessageStart,
            "content_block_start" => Self::BlockStart,
            "content_block_stop" => Self::BlockStop,
            "message_delta" => Self::MessageDelta,
            "message_stop" => Self::MessageStop,
            "ping" => Self::Ping,
            "error" => Self::Error,
            _ => return None,
        })
    }
}

/// Content blocks, as far as their deltas differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    Text,
    Thinking,
    /// Thinking that only the service can read.
    Redacted,
    /// A call of a tool, whoever runs it.
    Call,
    /// What a tool of the service gave back; nothing that the model says.
    Result,
    /// A block that came after this was written.
    Other,
}

impl BlockKind {
    fn named(name: &str) -> Self {
        match name {
            "text" => Self::Text,
            "thinking" => Self::Thinking,
            "redacted_thinking" => Self::Redacted,
            "tool_use" | "server_tool_use" | "mcp_tool_use" => Self::Call,
            "container_upload" => Self::Result,
            _ if name.ends_with("_tool_result") => Self::Result,
            _ => Self::Other,
        }
    }
}

/// Deltas of a content block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text,
    Thinking,
    Signature,
    InputJson,
    Citations,
    /// A delta that came after this was written.
    Other,
}

impl Piece {
    fn named(name: &str) -> Self {
        match name {
            "text_delta" => Self::Text,
            "thinking_delta" => Self::Thinking,
            "signature_delta" => Self::Signature,
            "input_json_delta" => Self::InputJson,
            "citations_delta" => Self::Citations,
            _ => Self::Other,
        }
    }

    /// Whether the protocol puts such a delta into such a block.
    pub(super) fn fits(self, block: BlockKind) -> bool {
        match (self, block) {
            (Self::Other, _)
            | (_, BlockKind::Other)
            | (Self::Text | Self::Citations, BlockKind::Text)
            | (Self::Thinking | Self::Signature, BlockKind::Thinking)
            | (Self::InputJson, BlockKind::Call) => true,
            (
                Self::Text | Self::Thinking | Self::Signature | Self::InputJson | Self::Citations,
                BlockKind::Text
                | BlockKind::Thinking
                | BlockKind::Redacted
                | BlockKind::Call
                | BlockKind::Result,
            ) => false,
        }
    }
}

/// A name that is looked up while it is read.
macro_rules! looked_up {
    ($($(#[$doc:meta])* $name:ident($inner:ty) by $lookup:path;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) struct $name(pub(super) $inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Reader;
                impl Visitor<'_> for Reader {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }
                    fn visit_str<E: de::Error>(self, name: &str) -> Result<Self::Value, E> {
                        Ok($name($lookup(name)))
                    }
                }
                from.deserialize_str(Reader)
            }
        }
    )+};
}

looked_up! {
    /// The type of an event; nothing for one that the protocol does not name.
    EventType(Option<Kind>) by Kind::named;
    /// The type of a block.
    BlockType(BlockKind) by BlockKind::named;
    /// The type of a delta.
    DeltaType(Piece) by Piece::named;
}

/// Members of any event. Those that few events have are boxed, because the struct is moved.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(in crate::dialect) struct Event<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<EventType>,
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<Box<Block<'a>>>,
    #[serde(borrow)]
    pub(super) message: Option<Box<Message<'a>>>,
    pub(super) usage: Option<Box<Counts>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

/// The delta of a block, or of the message.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<DeltaType>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) partial_json: Option<Text<'a>>,
    pub(super) signature: Option<Present>,
    pub(super) citation: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Text<'a>>,
}

/// A content block, at its start or whole.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Block<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Option<BlockType>,
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) thinking: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    pub(super) input: Option<Input>,
}

/// The input of a tool call, of which only the shape counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Object,
    Other,
}

struct InputVisitor;

impl<'de> Visitor<'de> for InputVisitor {
    type Value = Input;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Input::Other)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Input::Other)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Input::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Input::Other)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Input::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Input::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Input::Object)
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(InputVisitor)
    }
}

/// The message that a stream begins with, without its content.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) role: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    pub(super) content: Option<Few<IgnoredAny>>,
    pub(super) usage: Option<Box<Counts>>,
}

/// A whole answer.
#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Answer<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, rename = "type")]
    pub(super) kind: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) role: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) content: Option<Few<Block<'a>>>,
    #[serde(borrow)]
    pub(super) stop_reason: Option<Text<'a>>,
    pub(super) usage: Option<Box<Counts>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

/// Token counts; all are cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
pub(super) struct Counts {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) output_tokens_details: Option<OutputDetails>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
pub(super) struct OutputDetails {
    pub(super) thinking_tokens: Option<u64>,
}
