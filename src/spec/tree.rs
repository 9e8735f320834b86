//! YAML text to a tree that knows where each part stands. No meaning is read here.
//!
//! Aliases and merge keys are resolved; every node points at the text that defines it. Duplicate
//! keys are kept, so that the reader can report the second one beside every other mistake.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::{DuplicateKeyPolicy, Location, Options, Spanned};

use super::error::{SpecError, char_start};

/// Largest file that is read.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Deepest nesting; the deepest place in a spec is about eight levels down.
const MAX_DEPTH: usize = 32;
/// Most nodes, aliases expanded.
const MAX_NODES: usize = 20_000;

/// One value and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The value.
    pub(super) value: Value,
    /// Bytes of the text that define it.
    pub(super) span: Range<usize>,
    /// Where the text came from, if not from here; such text may be read as any type.
    pub(super) filled: Option<Filled>,
}

/// Where interpolated text came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// From `vars`.
    Vars,
    /// From the environment, the variable's name; such text is never shown.
    Env(String),
    /// From nowhere: the placeholder was refused, and nothing more is said of this value.
    Failed,
}

/// A YAML value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// Another number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the text.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// The key.
    pub(super) key: String,
    /// Where the key is written.
    pub(super) key_span: Range<usize>,
    /// What it holds.
    pub(super) node: Node,
}

impl Node {
    /// What kind of value this is, in the words of an error message.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }

    /// The value of a key of a map; of duplicates the first.
    pub(super) fn child(&self, key: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node)
    }
}

/// Reads the text; a syntax error is the only mistake that ends the reading.
pub(super) fn read(text: &str) -> Result<Node, SpecError> {
    if text.len() > MAX_BYTES {
        return Err(SpecError::new(0..0, "this file is too large for a spec")
            .label(format!("{} bytes; the limit is 1 MiB", text.len()))
            .help("a spec is a few kilobytes: is this the right file?"));
    }
    let options: Options = serde_yaml::options! {
        budget: serde_yaml::budget! {
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 4 * MAX_NODES,
            max_documents: 1,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        alias_limits: serde_yaml::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        non_finite_float_policy: serde_yaml::NonFiniteFloatPolicy::AsString,
        with_snippet: false,
    };
    match serde_yaml::from_str_with_options::<Option<Spanned<Raw>>>(text, options) {
        Ok(Some(raw)) => Ok(raw.into_node(text)),
        Ok(None) => Ok(Node {
            value: Value::Null,
            span: 0..0,
            filled: None,
        }),
        Err(error) => Err(syntax(&error, text)),
    }
}

/// A value as it comes from the parser.
enum Raw {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

trait IntoNode {
    fn into_node(self, text: &str) -> Node;
}

impl IntoNode for Spanned<Raw> {
    fn into_node(self, text: &str) -> Node {
        let mut span = bytes(&self.defined, text);
        let value = match self.value {
            Raw::Null => Value::Null,
            Raw::Bool(it) => Value::Bool(it),
            Raw::Int(it) => Value::Int(it),
            Raw::Float(it) => Value::Float(it),
            Raw::Text(it) => Value::Text(it),
            Raw::List(items) => {
                Value::List(items.into_iter().map(|item| item.into_node(text)).collect())
            }
            Raw::Map(pairs) => Value::Map(
                pairs
                    .into_iter()
                    .map(|(key, value)| Entry::new(key, value, text))
                    .collect(),
            ),
        };
        // A block map or list has no text of its own: it is shown at its first line.
        if span.is_empty() {
            span = match &value {
                Value::Map(entries) => entries.first().map(|entry| entry.key_span.clone()),
                Value::List(items) => items.first().map(|item| item.span.clone()),
                Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Text(_) => {
                    None
                }
            }
            .unwrap_or(span);
        }
        Node {
            value,
            span,
            filled: None,
        }
    }
}

impl Entry {
    fn new(key: Spanned<String>, value: Spanned<Raw>, text: &str) -> Self {
        let key_span = bytes(&key.defined, text);
        let mut node = value.into_node(text);
        if node.span.is_empty() {
            node.span = key_span.clone();
        }
        Self {
            key: key.value,
            key_span,
            node,
        }
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Raw, D::Error> {
        Raw::deserialize(from)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Raw, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = from.next_entry()? {
            pairs.push(pair);
        }
        Ok(Raw::Map(pairs))
    }
}

/// The bytes that a location covers.
fn bytes(location: &Location, text: &str) -> Range<usize> {
    let span = location.span();
    let at = |offset: u64| char_start(text, usize::try_from(offset).unwrap_or(usize::MAX));
    match (span.byte_offset(), span.byte_len()) {
        (Some(offset), Some(len)) => at(offset)..at(offset.saturating_add(len)),
        _ => by_column(location, text),
    }
}

/// The character at a line and column, where a location has no bytes.
fn by_column(location: &Location, text: &str) -> Range<usize> {
    let line = usize::try_from(location.line().max(1)).unwrap_or(usize::MAX);
    let column = usize::try_from(location.column().max(1)).unwrap_or(usize::MAX);
    let start: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    let rest = text[start..].split('\n').next().unwrap_or_default();
    let from = rest
        .char_indices()
        .nth(column - 1)
        .map_or(rest.len(), |(at, _)| at);
    let width = rest[from..].chars().next().map_or(0, char::len_utf8);
    start + from..start + from + width
}

/// What the parser says, what it means for the writer of a spec, and the way out.
const SYNTAX: &[(&str, &str, &str)] = &[
    (
        "mapping values are not allowed",
        "a key cannot begin here",
        "align the keys of a map, and quote text that holds `: `",
    ),
    (
        "did not find expected '-' indicator",
        "this line is indented like nothing above it",
        "align the items of a list at their `-`, and the keys of an item with its first key",
    ),
    (
        "did not find expected key",
        "this line is indented like nothing above it",
        "align the keys of a map, and indent what belongs to a key by two spaces more",
    ),
    (
        "unclosed quote",
        "this quote is never closed",
        "close the quote, or double it where it is part of the text",
    ),
    (
        "unclosed bracket",
        "this bracket or brace is never closed",
        "close each `[` with `]` and each `{` with `}`",
    ),
    (
        "illegal placement of ':'",
        "a bracket or brace that was opened before is not closed",
        "close each `[` with `]` and each `{` with `}`",
    ),
    (
        "expected string scalar",
        "a key must be text",
        "quote text that begins with `{` or `[`",
    ),
    (
        "deserialize null into string",
        "a key must be text",
        "write a name, or quote it",
    ),
    (
        "Documents {",
        "a second document begins here",
        "write one spec a file",
    ),
    (
        "Depth {",
        "nested too deep",
        "a spec is at most eight levels deep",
    ),
    (
        "recursion limit",
        "nested too deep",
        "a spec is at most eight levels deep",
    ),
    (
        "alias replay limit",
        "the aliases blow the file up beyond any spec",
        "write the values out",
    ),
    (
        "budget breached",
        "more values than any spec has",
        "is this the right file?",
    ),
    (
        "unknown anchor",
        "no anchor of this name stands above",
        "define it first: `&name`",
    ),
    (
        "recursive references",
        "this alias stands inside its own anchor",
        "write the value out",
    ),
    (
        "merge value",
        "`<<` merges a map, or a list of maps",
        "give it an alias of a map: `<<: *name`",
    ),
];

/// A syntax error in the words of a spec's reader.
fn syntax(error: &serde_yaml::Error, text: &str) -> SpecError {
    let span = error
        .location()
        .map_or(0..0, |location| bytes(&location, text));
    if let Some(tab) = indented_by_tab(text, span.start) {
        return SpecError::new(tab, "a tab cannot indent YAML")
            .label("tab")
            .help("indent with spaces");
    }
    let mut said = error.without_snippet().to_string();
    if let Some(end) = said.find(" at line ") {
        said.truncate(end);
    }
    let known = SYNTAX.iter().find(|(pattern, _, _)| said.contains(pattern));
    let error = SpecError::new(span, "this is not valid YAML");
    match known {
        Some((_, label, help)) => error.label(*label).help(*help),
        None => error.label(said),
    }
}

/// The first tab in the indentation of the line at this offset, or of the line below it.
fn indented_by_tab(text: &str, offset: usize) -> Option<Range<usize>> {
    let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    let mut line_start = start;
    for line in text[start..].split_inclusive('\n').take(2) {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(tab) = line[..indent].find('\t') {
            return Some(line_start + tab..line_start + tab + 1);
        }
        line_start += line.len();
    }
    None
}
