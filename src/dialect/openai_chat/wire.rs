//! The JSON of chat completions, typed: what the protocol requires is required here.
//!
//! Unknown members are passed over; known ones of the wrong type are errors.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::dialect::error::Said;
use crate::dialect::member::{Few, Loose, Present, Text};

// Members that are seldom there are boxed: these structs are moved several times while they are
// read, and that is a good part of the whole cost.

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(in crate::dialect) struct Chunk<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    pub(super) object: Option<Object>,
    pub(super) created: Option<i64>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) choices: Few<Choice<'a>>,
    #[serde(borrow)]
    pub(super) system_fingerprint: Option<Loose<'a>>,
    pub(super) usage: Option<Box<Counts>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

/// What a chunk calls itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Object {
    Chunk,
    Other,
}

struct ObjectVisitor;

impl Visitor<'_> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        // Azure's filter frames leave the member empty.
        Ok(match name {
            "chat.completion.chunk" | "" => Object::Chunk,
            _ => Object::Other,
        })
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(ObjectVisitor)
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Choice<'a> {
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) delta: Option<Delta<'a>>,
    pub(super) message: Option<IgnoredAny>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

/// A delta, or the message of an answer that is not streamed.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Delta<'a> {
    pub(super) role: bool,
    pub(super) content: Option<Text<'a>>,
    pub(super) more: Option<Box<More<'a>>>,
}

/// What few deltas hold.
#[derive(Debug, Default, PartialEq)]
pub(super) struct More<'a> {
    pub(super) refusal: Option<Text<'a>>,
    pub(super) reasoning: Option<Cow<'a, str>>,
    pub(super) tool_calls: Option<Few<ToolCall<'a>, 128>>,
    pub(super) function_call: Option<Function<'a>>,
    pub(super) error: Option<Said<'a>>,
}

struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = Delta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut delta = Delta::default();
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "content" => delta.content = map.next_value()?,
                "role" => delta.role = map.next_value::<Option<Present>>()?.is_some(),
                "refusal" => {
                    if let Some(text) = map.next_value()? {
                        delta.more().refusal = Some(text);
                    }
                }
                // Some relays say the same reasoning under both names.
                "reasoning" | "reasoning_content" => {
                    let Loose(text) = map.next_value()?;
                    if let Some(text) = text.filter(|text| !text.is_empty()) {
                        delta.more().reasoning = Some(text);
                    }
                }
                "tool_calls" => {
                    if let Some(calls) = map.next_value::<Option<_>>()? {
                        delta.more().tool_calls = Some(calls);
                    }
                }
                "function_call" => {
                    if let Some(call) = map.next_value()? {
                        delta.more().function_call = Some(call);
                    }
                }
                "error" => {
                    if let Some(said) = map.next_value()? {
                        delta.more().error = Some(said);
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(delta)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Delta<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(DeltaVisitor)
    }
}

impl<'a> Delta<'a> {
    fn more(&mut self) -> &mut More<'a> {
        self.more.get_or_insert_default()
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct ToolCall<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function: Option<Function<'a>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) arguments: Option<Text<'a>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Counts {
    pub(super) prompt_tokens: Option<u64>,
    pub(super) completion_tokens: Option<u64>,
    pub(super) total_tokens: Option<u64>,
    pub(super) prompt_tokens_details: Option<PromptDetails>,
    pub(super) completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct PromptDetails {
    pub(super) cached_tokens: Option<u64>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct CompletionDetails {
    pub(super) reasoning_tokens: Option<u64>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Completion<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    pub(super) created: Option<i64>,
    #[serde(borrow)]
    pub(super) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) choices: Few<WholeChoice<'a>>,
    #[serde(borrow)]
    pub(super) system_fingerprint: Option<Loose<'a>>,
    pub(super) usage: Option<Box<Counts>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct WholeChoice<'a> {
    pub(super) index: u64,
    #[serde(borrow)]
    pub(super) message: Delta<'a>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}
