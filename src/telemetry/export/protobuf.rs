//! Spans as the protobuf form of OTLP, written straight from what is exported.
//!
//! The generated message types copy every text and every attribute before they encode them, which
//! costs as much again as all the rest of an export, and this runs while relays are timed. The tests
//! hold both to the same bytes. Resource and scope, which are the same in every request, go through
//! the generated types.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{Event, Link, SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanData;
use prost::Message;

/// Bit of the flags that says that the remote bit is known.
const HAS_IS_REMOTE: u32 = 0x100;

/// Bit of the flags that says that the context came from another process.
const IS_REMOTE: u32 = 0x200;

/// Length of most spans, so that a request's memory is asked for once.
const SPAN: usize = 768;

/// The resource of every request, encoded once.
#[derive(Debug)]
pub(in crate::telemetry) struct Envelope {
    resource: Vec<u8>,
    schema_url: String,
}

impl Envelope {
    /// Encodes what is the same in every request.
    pub(super) fn new(resource: &Resource) -> Self {
        let known = ResourceAttributesWithSchema::from(resource);
        let message = ResourceMessage {
            attributes: known.attributes.0,
            ..ResourceMessage::default()
        };
        Self {
            resource: message.encode_to_vec(),
            schema_url: known.schema_url.unwrap_or_default(),
        }
    }

    /// The body of one request: an `ExportTraceServiceRequest` of spans of one scope.
    pub(super) fn request(&self, spans: &[SpanData]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.resource.len() + 256 + SPAN * spans.len());
        message(&mut out, 1, 4, |out| {
            bytes(out, 1, &self.resource);
            message(out, 2, 4, |out| scope_spans(out, spans));
            filled(out, 3, &self.schema_url);
        });
        out
    }
}

fn scope_spans(out: &mut Vec<u8>, spans: &[SpanData]) {
    let scope = spans.first().map(|span| &span.instrumentation_scope);
    if let Some(scope) = scope {
        bytes(
            out,
            1,
            &InstrumentationScope::from((scope, None)).encode_to_vec(),
        );
    }
    for each in spans {
        message(out, 2, 2, |out| span(out, each));
    }
    let schema_url = scope.and_then(|scope| scope.schema_url());
    filled(out, 3, schema_url.unwrap_or_default());
}

fn span(out: &mut Vec<u8>, span: &SpanData) {
    place(out, &span.span_context);
    if span.parent_span_id != SpanId::INVALID {
        bytes(out, 4, &span.parent_span_id.to_bytes());
    }
    filled(out, 5, &span.name);
    let kind = match span.span_kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    };
    number(out, 6, kind);
    moment(out, 7, span.start_time);
    moment(out, 8, span.end_time);
    attributes(out, 9, &span.attributes);
    number(out, 10, span.dropped_attributes_count.into());
    for each in &span.events.events {
        message(out, 11, 1, |out| event(out, each));
    }
    number(out, 12, span.events.dropped_count.into());
    for each in &span.links.links {
        message(out, 13, 1, |out| link(out, each));
    }
    number(out, 14, span.links.dropped_count.into());
    message(out, 15, 1, |out| status(out, &span.status));
    flags(out, 16, &span.span_context, span.parent_span_is_remote);
}

/// The first three fields of a span and of a link: which span, in which trace.
fn place(out: &mut Vec<u8>, context: &SpanContext) {
    bytes(out, 1, &context.trace_id().to_bytes());
    bytes(out, 2, &context.span_id().to_bytes());
    filled(out, 3, &context.trace_state().header());
}

fn flags(out: &mut Vec<u8>, field: u32, context: &SpanContext, remote: bool) {
    let remote = if remote { IS_REMOTE } else { 0 };
    let flags = u32::from(context.trace_flags().to_u8()) | HAS_IS_REMOTE | remote;
    key(out, field, Wire::Fixed32);
    out.extend_from_slice(&flags.to_le_bytes());
}

fn event(out: &mut Vec<u8>, event: &Event) {
    moment(out, 1, event.timestamp);
    filled(out, 2, &event.name);
    attributes(out, 3, &event.attributes);
    number(out, 4, event.dropped_attributes_count.into());
}

fn link(out: &mut Vec<u8>, link: &Link) {
    let context = &link.span_context;
    place(out, context);
    attributes(out, 4, &link.attributes);
    number(out, 5, link.dropped_attributes_count.into());
    flags(out, 6, context, context.is_remote());
}

fn status(out: &mut Vec<u8>, status: &Status) {
    match status {
        Status::Unset => {}
        Status::Ok => number(out, 3, 1),
        Status::Error { description } => {
            filled(out, 2, description);
            number(out, 3, 2);
        }
    }
}

fn attributes(out: &mut Vec<u8>, field: u32, pairs: &[KeyValue]) {
    for pair in pairs {
        message(out, field, 1, |out| {
            filled(out, 1, pair.key.as_str());
            message(out, 2, 1, |out| value(out, &pair.value));
        });
    }
}

/// An `AnyValue`; unlike elsewhere, one that is zero or empty is written.
fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Bool(value) => flag(out, *value),
        Value::I64(value) => integer(out, *value),
        Value::F64(value) => double(out, *value),
        Value::String(value) => bytes(out, 1, value.as_str().as_bytes()),
        Value::Array(array) => message(out, 5, 1, |out| match array {
            Array::Bool(values) => each(out, values, |out, value| flag(out, *value)),
            Array::I64(values) => each(out, values, |out, value| integer(out, *value)),
            Array::F64(values) => each(out, values, |out, value| double(out, *value)),
            Array::String(values) => each(out, values, |out, value| {
                bytes(out, 1, value.as_str().as_bytes());
            }),
            // The set is open; nothing here makes an array of another kind.
            _ => {}
        }),
        _ => bytes(out, 1, b""),
    }
}

fn each<T>(out: &mut Vec<u8>, values: &[T], write: fn(&mut Vec<u8>, &T)) {
    for value in values {
        message(out, 1, 1, |out| write(out, value));
    }
}

fn flag(out: &mut Vec<u8>, value: bool) {
    key(out, 2, Wire::Varint);
    varint(out, value.into());
}

fn integer(out: &mut Vec<u8>, value: i64) {
    key(out, 3, Wire::Varint);
    varint(out, value.cast_unsigned());
}

fn double(out: &mut Vec<u8>, value: f64) {
    key(out, 4, Wire::Fixed64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// How the value behind a key is written.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Length = 2,
    Fixed32 = 5,
}

fn key(out: &mut Vec<u8>, field: u32, wire: Wire) {
    varint(out, (u64::from(field) << 3) | wire as u64);
}

/// Seven bits a byte, the lowest first; all bytes but the last have the highest bit set.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_bits(value) | 0x80);
        value >>= 7;
    }
    out.push(low_bits(value));
}

const fn low_bits(value: u64) -> u8 {
    value.to_le_bytes()[0] & 0x7f
}

/// A number, which is left out when it is zero.
fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    if value != 0 {
        key(out, field, Wire::Varint);
        varint(out, value);
    }
}

/// Nanoseconds since the epoch, left out when there are none.
fn moment(out: &mut Vec<u8>, field: u32, at: SystemTime) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    if nanos != 0 {
        key(out, field, Wire::Fixed64);
        out.extend_from_slice(&nanos.to_le_bytes());
    }
}

fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    key(out, field, Wire::Length);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A text, which is left out when it is empty.
fn filled(out: &mut Vec<u8>, field: u32, text: &str) {
    if !text.is_empty() {
        bytes(out, field, text.as_bytes());
    }
}

/// A message inside of a message, behind its length.
///
/// The length is known when the message is written: `room` bytes are kept for it, and what follows
/// is moved where it takes more or fewer.
fn message(out: &mut Vec<u8>, field: u32, room: usize, fill: impl FnOnce(&mut Vec<u8>)) {
    key(out, field, Wire::Length);
    let start = out.len();
    out.resize(start + room, 0);
    fill(out);
    let end = out.len();
    let length = (end - start - room) as u64;
    let needed = varint_len(length);
    if needed > room {
        out.resize(end + needed - room, 0);
    }
    if needed != room {
        out.copy_within(start + room..end, start + needed);
        out.truncate(end + needed - room);
    }
    let mut rest = length;
    for (byte, left) in out[start..start + needed].iter_mut().zip((0..needed).rev()) {
        *byte = low_bits(rest) | if left > 0 { 0x80 } else { 0 };
        rest >>= 7;
    }
}

/// Bytes of [`varint`].
const fn varint_len(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    if bits == 0 {
        1
    } else {
        bits.div_ceil(7) as usize
    }
}

#[cfg(test)]
#[path = "protobuf/tests.rs"]
mod tests;
