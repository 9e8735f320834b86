//! The JSON form of OTLP for spans, written straight from what is exported.
//!
//! The generated message types would do the same at more than twice the processor time, and this
//! runs while relays are timed. They read it back in the tests, field by field.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

/// Bit of the flags that says that the remote bit is known.
const HAS_IS_REMOTE: u32 = 0x100;

/// Bit of the flags that says that the context came from another process.
const IS_REMOTE: u32 = 0x200;

/// One line of the file: the spans of one resource and one scope.
pub(super) struct Traces<'a> {
    pub(super) resource: &'a Resource,
    pub(super) spans: &'a [SpanData],
}

impl Serialize for Traces<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let scope = self.spans.first().map(|span| &span.instrumentation_scope);
        let scopes = [ScopeSpans {
            scope: scope.map(Scope::from),
            spans: Each(self.spans, SpanJson::from),
        }];
        let resources = [ResourceSpans {
            resource: ResourceJson {
                attributes: Pairs(self.resource),
            },
            scope_spans: scopes,
        }];
        let mut map = out.serialize_map(Some(1))?;
        map.serialize_entry("resourceSpans", &resources)?;
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: ResourceJson<'a>,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct ResourceJson<'a> {
    attributes: Pairs<'a>,
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<Scope<'a>>,
    spans: Each<'a, SpanData, SpanJson<'a>>,
}

#[derive(Serialize)]
struct Scope<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
}

impl<'a> From<&'a InstrumentationScope> for Scope<'a> {
    fn from(scope: &'a InstrumentationScope) -> Self {
        Self {
            name: scope.name(),
            version: scope.version(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpanJson<'a> {
    trace_id: Shown<Hex16>,
    span_id: Shown<Hex8>,
    #[serde(skip_serializing_if = "String::is_empty")]
    trace_state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<Shown<Hex8>>,
    flags: u32,
    name: &'a str,
    kind: u8,
    start_time_unix_nano: Shown<u64>,
    end_time_unix_nano: Shown<u64>,
    attributes: Each<'a, KeyValue, Pair<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    dropped_attributes_count: u32,
    #[serde(skip_serializing_if = "Each::is_empty")]
    events: Each<'a, Event, EventJson<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    dropped_events_count: u32,
    #[serde(skip_serializing_if = "Each::is_empty")]
    links: Each<'a, Link, LinkJson<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    dropped_links_count: u32,
    status: StatusJson<'a>,
}

impl<'a> From<&'a SpanData> for SpanJson<'a> {
    fn from(span: &'a SpanData) -> Self {
        let context = &span.span_context;
        let has_parent = span.parent_span_id != SpanId::INVALID;
        Self {
            trace_id: trace_id(context),
            span_id: span_id(context.span_id()),
            trace_state: context.trace_state().header(),
            parent_span_id: has_parent.then(|| span_id(span.parent_span_id)),
            flags: flags(context, span.parent_span_is_remote),
            name: &span.name,
            kind: match span.span_kind {
                SpanKind::Internal => 1,
                SpanKind::Server => 2,
                SpanKind::Client => 3,
                SpanKind::Producer => 4,
                SpanKind::Consumer => 5,
            },
            start_time_unix_nano: nanos(span.start_time),
            end_time_unix_nano: nanos(span.end_time),
            attributes: Each(&span.attributes, Pair::from),
            dropped_attributes_count: span.dropped_attributes_count,
            events: Each(&span.events.events, EventJson::from),
            dropped_events_count: span.events.dropped_count,
            links: Each(&span.links.links, LinkJson::from),
            dropped_links_count: span.links.dropped_count,
            status: StatusJson::from(&span.status),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventJson<'a> {
    time_unix_nano: Shown<u64>,
    name: &'a str,
    attributes: Each<'a, KeyValue, Pair<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    dropped_attributes_count: u32,
}

impl<'a> From<&'a Event> for EventJson<'a> {
    fn from(event: &'a Event) -> Self {
        Self {
            time_unix_nano: nanos(event.timestamp),
            name: &event.name,
            attributes: Each(&event.attributes, Pair::from),
            dropped_attributes_count: event.dropped_attributes_count,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LinkJson<'a> {
    trace_id: Shown<Hex16>,
    span_id: Shown<Hex8>,
    #[serde(skip_serializing_if = "String::is_empty")]
    trace_state: String,
    attributes: Each<'a, KeyValue, Pair<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    dropped_attributes_count: u32,
    flags: u32,
}

impl<'a> From<&'a Link> for LinkJson<'a> {
    fn from(link: &'a Link) -> Self {
        let context = &link.span_context;
        Self {
            trace_id: trace_id(context),
            span_id: span_id(context.span_id()),
            trace_state: context.trace_state().header(),
            attributes: Each(&link.attributes, Pair::from),
            dropped_attributes_count: link.dropped_attributes_count,
            flags: flags(context, context.is_remote()),
        }
    }
}

#[derive(Serialize)]
struct StatusJson<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    code: u8,
}

impl<'a> From<&'a Status> for StatusJson<'a> {
    fn from(status: &'a Status) -> Self {
        let (code, message) = match status {
            Status::Unset => (0, ""),
            Status::Ok => (1, ""),
            Status::Error { description } => (2, &**description),
        };
        Self { message, code }
    }
}

#[derive(Serialize)]
struct Pair<'a> {
    key: &'a str,
    value: AnyValue<'a>,
}

impl<'a> From<&'a KeyValue> for Pair<'a> {
    fn from(pair: &'a KeyValue) -> Self {
        Self {
            key: pair.key.as_str(),
            value: AnyValue::from(&pair.value),
        }
    }
}

#[derive(Serialize)]
enum AnyValue<'a> {
    #[serde(rename = "boolValue")]
    Bool(bool),
    #[serde(rename = "intValue")]
    Int(Shown<i64>),
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[serde(rename = "stringValue")]
    Text(&'a str),
    #[serde(rename = "arrayValue")]
    Array(Values<'a>),
}

impl<'a> From<&'a Value> for AnyValue<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::I64(value) => Self::Int(Shown(*value)),
            Value::F64(value) => Self::Double(*value),
            Value::String(value) => Self::Text(value.as_str()),
            Value::Array(values) => Self::Array(Values { values }),
            // The set is open; nothing here makes a value of another kind.
            _ => Self::Text(""),
        }
    }
}

#[derive(Serialize)]
struct Values<'a> {
    #[serde(serialize_with = "values")]
    values: &'a Array,
}

fn values<S: Serializer>(array: &Array, out: S) -> Result<S::Ok, S::Error> {
    match array {
        Array::Bool(values) => out.collect_seq(values.iter().map(|v| AnyValue::Bool(*v))),
        Array::I64(values) => out.collect_seq(values.iter().map(|v| AnyValue::Int(Shown(*v)))),
        Array::F64(values) => out.collect_seq(values.iter().map(|v| AnyValue::Double(*v))),
        Array::String(values) => out.collect_seq(values.iter().map(|v| AnyValue::Text(v.as_str()))),
        _ => out.serialize_seq(Some(0))?.end(),
    }
}

/// A list of things that are turned into their JSON form one after the other.
struct Each<'a, T, J>(&'a [T], fn(&'a T) -> J);

impl<T, J> Each<'_, T, J> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T, J: Serialize> Serialize for Each<'_, T, J> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(self.1))
    }
}

/// The attributes of a resource.
struct Pairs<'a>(&'a Resource);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(|(key, value)| Pair {
            key: key.as_str(),
            value: AnyValue::from(value),
        }))
    }
}

/// A number or an id as a JSON string.
struct Shown<T>(T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(&self.0)
    }
}

/// 16 bytes in hex.
struct Hex16(u128);

impl fmt::Display for Hex16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// 8 bytes in hex.
struct Hex8(u64);

impl fmt::Display for Hex8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Whether a count says nothing: the format leaves zeros out.
fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn trace_id(context: &SpanContext) -> Shown<Hex16> {
    Shown(Hex16(u128::from_be_bytes(context.trace_id().to_bytes())))
}

fn span_id(id: SpanId) -> Shown<Hex8> {
    Shown(Hex8(u64::from_be_bytes(id.to_bytes())))
}

fn flags(context: &SpanContext, remote: bool) -> u32 {
    let remote = if remote { IS_REMOTE } else { 0 };
    u32::from(context.trace_flags().to_u8()) | HAS_IS_REMOTE | remote
}

fn nanos(at: SystemTime) -> Shown<u64> {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Shown(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
