//! The JSON of `GenerateContentResponse`, typed.
//!
//! The protocol requires next to nothing: an event is its own if it has one of its members. Unknown
//! members are passed over; known ones of the wrong type are errors.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::dialect::error::Said;
use crate::dialect::member::{Few, Loose, Present, Text};

/// What stands for output that is no text: an image, a file, a value.
const OBJECT: &str = "\u{fffc}";

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::dialect) struct Response<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Few<Candidate<'a>, 16>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<Box<Feedback<'a>>>,
    pub(super) usage_metadata: Option<Counts>,
    #[serde(borrow)]
    pub(super) model_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

impl Response<'_> {
    /// Whether it has a member of the protocol at all.
    pub(super) fn is_known(&self) -> bool {
        self.candidates.is_some()
            || self.prompt_feedback.is_some()
            || self.usage_metadata.is_some()
            || self.model_version.is_some()
            || self.response_id.is_some()
    }
}

/// What a filter thinks of the prompt.
#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Feedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Option<Text<'a>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    /// Absent where it is zero.
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    pub(super) content: Option<Content<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Box<Said<'a>>>,
}

impl<'a> Candidate<'a> {
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part<'a>> {
        let parts = self
            .content
            .iter()
            .filter_map(|content| content.parts.as_ref());
        parts.flat_map(Few::iter)
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
pub(super) struct Content<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Few<Part<'a>, 256>>,
    pub(super) role: Option<Present>,
}

/// A piece of content, of whatever kind.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Part<'a> {
    pub(super) text: Option<Text<'a>>,
    /// Whether the text is the model's thinking.
    pub(super) thought: bool,
    pub(super) more: Option<Box<More<'a>>>,
}

/// What few parts hold.
#[derive(Debug, Default, PartialEq)]
pub(super) struct More<'a> {
    pub(super) call: Option<Call<'a>>,
    /// Code, its output, or what stands for a thing that is no text.
    pub(super) thing: Option<Text<'a>>,
}

impl<'a> Part<'a> {
    /// Whether it holds any output.
    pub(super) fn has_output(&self) -> bool {
        self.more.is_some() || self.text.as_ref().is_some_and(|text| !text.0.is_empty())
    }

    fn thing(&mut self, text: Option<Text<'a>>) {
        self.more.get_or_insert_default().thing = Some(text.unwrap_or_else(|| Text(OBJECT.into())));
    }
}

struct PartVisitor;

impl<'de> Visitor<'de> for PartVisitor {
    type Value = Part<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut part = Part::default();
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "text" => part.text = map.next_value()?,
                "thought" => part.thought = map.next_value::<Option<bool>>()?.unwrap_or_default(),
                "functionCall" => {
                    if let Some(call) = map.next_value()? {
                        part.more.get_or_insert_default().call = Some(call);
                    }
                }
                "executableCode" => {
                    if let Some(Code { code }) = map.next_value()? {
                        part.thing(code);
                    }
                }
                "codeExecutionResult" => {
                    if let Some(Ran { output }) = map.next_value()? {
                        part.thing(output);
                    }
                }
                "inlineData" | "fileData" | "functionResponse" | "toolCall" | "toolResponse" => {
                    if map.next_value::<Option<Thing>>()?.is_some() {
                        part.thing(None);
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(part)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Part<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(PartVisitor)
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Code<'a> {
    #[serde(borrow)]
    code: Option<Text<'a>>,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Ran<'a> {
    #[serde(borrow)]
    output: Option<Text<'a>>,
}

/// An object of which only its being there counts.
#[derive(Debug, PartialEq, serde::Deserialize)]
struct Thing {}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
    /// Arguments that come one by one.
    #[serde(borrow)]
    pub(super) partial_args: Option<Few<PartialArg<'a>, 64>>,
    pub(super) will_continue: Option<bool>,
}

impl PartialEq for Call<'_> {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            id,
            name,
            args,
            partial_args,
            will_continue,
        } = self;
        let same = (id, name, partial_args, will_continue)
            == (
                &other.id,
                &other.name,
                &other.partial_args,
                &other.will_continue,
            );
        same && args.map(RawValue::get) == other.args.map(RawValue::get)
    }
}

/// A value of one argument, or a piece of it.
#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialArg<'a> {
    #[serde(borrow)]
    string_value: Option<Loose<'a>>,
}

impl PartialArg<'_> {
    pub(super) fn text(&self) -> &str {
        let text = self
            .string_value
            .as_ref()
            .and_then(|text| text.0.as_deref());
        text.unwrap_or(OBJECT)
    }
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) prompt_token_count: Option<u64>,
    pub(super) tool_use_prompt_token_count: Option<u64>,
    pub(super) cached_content_token_count: Option<u64>,
    pub(super) candidates_token_count: Option<u64>,
    pub(super) thoughts_token_count: Option<u64>,
    pub(super) total_token_count: Option<u64>,
}
