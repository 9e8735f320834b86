//! The JSON form of OTLP for spans, written straight from what is exported.
//!
//! The generated message types, or serde over borrowed ones, would do the same at several times the
//! processor time, and this runs while relays are timed. The generated types read it back in the
//! tests, field by field.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{Array, InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use serde::Serialize;

/// Bit of the flags that says that the remote bit is known.
const HAS_IS_REMOTE: u32 = 0x100;

/// Bit of the flags that says that the context came from another process.
const IS_REMOTE: u32 = 0x200;

/// What every line begins with: the resource.
pub(super) fn head(resource: &Resource) -> Vec<u8> {
    let mut out = b"{\"resourceSpans\":[{\"resource\":{\"attributes\":".to_vec();
    list(&mut out, resource, |out, (key, value)| {
        pair(out, key.as_str(), value);
    });
    out.extend_from_slice(b"},\"scopeSpans\":[{");
    out
}

/// The rest of a line behind its [`head`]: spans of one scope.
pub(super) fn spans(out: &mut Vec<u8>, spans: &[SpanData]) {
    if let Some(first) = spans.first() {
        scope(out, &first.instrumentation_scope);
    }
    out.extend_from_slice(b"\"spans\":");
    list(out, spans, span);
    out.extend_from_slice(b"}]}]}\n");
}

fn scope(out: &mut Vec<u8>, scope: &InstrumentationScope) {
    out.extend_from_slice(b"\"scope\":{\"name\":");
    text(out, scope.name());
    if let Some(version) = scope.version() {
        out.extend_from_slice(b",\"version\":");
        text(out, version);
    }
    out.extend_from_slice(b"},");
}

fn span(out: &mut Vec<u8>, span: &SpanData) {
    let context = &span.span_context;
    out.push(b'{');
    place(out, context);
    if span.parent_span_id != SpanId::INVALID {
        out.extend_from_slice(b",\"parentSpanId\":");
        hex(out, &span.parent_span_id.to_bytes());
    }
    out.extend_from_slice(b",\"flags\":");
    plain(out, flags(context, span.parent_span_is_remote));
    out.extend_from_slice(b",\"name\":");
    text(out, &span.name);
    out.extend_from_slice(b",\"kind\":");
    out.push(match span.span_kind {
        SpanKind::Internal => b'1',
        SpanKind::Server => b'2',
        SpanKind::Client => b'3',
        SpanKind::Producer => b'4',
        SpanKind::Consumer => b'5',
    });
    out.extend_from_slice(b",\"startTimeUnixNano\":");
    moment(out, span.start_time);
    out.extend_from_slice(b",\"endTimeUnixNano\":");
    moment(out, span.end_time);
    out.extend_from_slice(b",\"attributes\":");
    attributes(out, &span.attributes, span.dropped_attributes_count);
    if !span.events.events.is_empty() {
        out.extend_from_slice(b",\"events\":");
        list(out, &span.events.events, event);
    }
    dropped(out, b",\"droppedEventsCount\":", span.events.dropped_count);
    if !span.links.links.is_empty() {
        out.extend_from_slice(b",\"links\":");
        list(out, &span.links.links, link);
    }
    dropped(out, b",\"droppedLinksCount\":", span.links.dropped_count);
    out.extend_from_slice(b",\"status\":{");
    let code = match &span.status {
        Status::Unset => b'0',
        Status::Ok => b'1',
        Status::Error { description } => {
            if !description.is_empty() {
                out.extend_from_slice(b"\"message\":");
                text(out, description);
                out.push(b',');
            }
            b'2'
        }
    };
    out.extend_from_slice(b"\"code\":");
    out.push(code);
    out.extend_from_slice(b"}}");
}

fn event(out: &mut Vec<u8>, event: &Event) {
    out.extend_from_slice(b"{\"timeUnixNano\":");
    moment(out, event.timestamp);
    out.extend_from_slice(b",\"name\":");
    text(out, &event.name);
    out.extend_from_slice(b",\"attributes\":");
    attributes(out, &event.attributes, event.dropped_attributes_count);
    out.push(b'}');
}

fn link(out: &mut Vec<u8>, link: &Link) {
    let context = &link.span_context;
    out.push(b'{');
    place(out, context);
    out.extend_from_slice(b",\"attributes\":");
    attributes(out, &link.attributes, link.dropped_attributes_count);
    out.extend_from_slice(b",\"flags\":");
    plain(out, flags(context, context.is_remote()));
    out.push(b'}');
}

/// Which span, in which trace.
fn place(out: &mut Vec<u8>, context: &SpanContext) {
    out.extend_from_slice(b"\"traceId\":");
    hex(out, &context.trace_id().to_bytes());
    out.extend_from_slice(b",\"spanId\":");
    hex(out, &context.span_id().to_bytes());
    let state = context.trace_state().header();
    if !state.is_empty() {
        out.extend_from_slice(b",\"traceState\":");
        text(out, &state);
    }
}

fn flags(context: &SpanContext, remote: bool) -> u32 {
    let remote = if remote { IS_REMOTE } else { 0 };
    u32::from(context.trace_flags().to_u8()) | HAS_IS_REMOTE | remote
}

/// Attributes, and how many there were that are not here.
fn attributes(out: &mut Vec<u8>, pairs: &[KeyValue], left_out: u32) {
    list(out, pairs, |out, it: &KeyValue| {
        pair(out, it.key.as_str(), &it.value);
    });
    dropped(out, b",\"droppedAttributesCount\":", left_out);
}

/// A count that says nothing when it is zero: the format leaves it out.
fn dropped(out: &mut Vec<u8>, name: &[u8], count: u32) {
    if count > 0 {
        out.extend_from_slice(name);
        plain(out, count);
    }
}

fn pair(out: &mut Vec<u8>, key: &str, value: &Value) {
    out.extend_from_slice(b"{\"key\":");
    text(out, key);
    out.extend_from_slice(b",\"value\":");
    any(out, value);
    out.push(b'}');
}

fn any(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(value) => flag(out, value),
        Value::I64(value) => integer(out, value),
        Value::F64(value) => double(out, value),
        Value::String(value) => string(out, value.as_str()),
        Value::Array(array) => {
            out.extend_from_slice(b"{\"arrayValue\":{\"values\":");
            match array {
                Array::Bool(values) => list(out, values, flag),
                Array::I64(values) => list(out, values, integer),
                Array::F64(values) => list(out, values, double),
                Array::String(values) => list(out, values, |out, it| string(out, it.as_str())),
                _ => out.extend_from_slice(b"[]"),
            }
            out.extend_from_slice(b"}}");
        }
        // The set is open; nothing here makes a value of another kind.
        _ => string(out, ""),
    }
}

fn flag(out: &mut Vec<u8>, value: &bool) {
    out.extend_from_slice(b"{\"boolValue\":");
    out.extend_from_slice(if *value { b"true}" } else { b"false}" });
}

fn integer(out: &mut Vec<u8>, value: &i64) {
    out.extend_from_slice(b"{\"intValue\":\"");
    plain(out, *value);
    out.extend_from_slice(b"\"}");
}

fn double(out: &mut Vec<u8>, value: &f64) {
    out.extend_from_slice(b"{\"doubleValue\":");
    plain(out, *value);
    out.push(b'}');
}

fn string(out: &mut Vec<u8>, value: &str) {
    out.extend_from_slice(b"{\"stringValue\":");
    text(out, value);
    out.push(b'}');
}

fn list<T>(out: &mut Vec<u8>, items: impl IntoIterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

/// Bytes as hex digits.
fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in bytes {
        let digits = [byte >> 4, byte & 0xf];
        out.extend(digits.map(|digit| DIGITS[usize::from(digit)]));
    }
    out.push(b'"');
}

/// Nanoseconds since the epoch; as a text, since not every reader has numbers of 64 bits.
fn moment(out: &mut Vec<u8>, at: SystemTime) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    out.push(b'"');
    plain(out, u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    out.push(b'"');
}

/// A text; most have nothing in them that JSON escapes.
fn text(out: &mut Vec<u8>, text: &str) {
    let escapes = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    // Without a way out of the loop, many bytes are looked at at once.
    let any = text.bytes().fold(false, |any, byte| any | escapes(byte));
    if any {
        plain(out, text);
        return;
    }
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// What JSON has a form for.
fn plain(out: &mut Vec<u8>, value: impl Serialize) {
    // Numbers and texts have a form, and memory takes them.
    serde_json::to_writer(out, &value).ok();
}
