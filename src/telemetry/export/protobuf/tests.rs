//! The generated message types say what the right bytes are.

use std::time::Duration;

use opentelemetry::trace::{TraceFlags, TraceId};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};

use super::*;
use crate::telemetry::spans::scope;

fn generated(resource: &Resource, spans: &[SpanData]) -> Vec<u8> {
    let resource = ResourceAttributesWithSchema::from(resource);
    ExportTraceServiceRequest {
        resource_spans: group_spans_by_resource_and_scope(spans.to_vec(), &resource),
    }
    .encode_to_vec()
}

fn resource() -> Resource {
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "relayproof"),
            KeyValue::new("process.pid", 4711),
        ])
        .build()
}

fn context(state: &str) -> SpanContext {
    SpanContext::new(
        TraceId::from(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
        SpanId::from(0x1112_1314_1516_1718),
        TraceFlags::SAMPLED,
        true,
        state.parse().unwrap(),
    )
}

fn plain() -> SpanData {
    SpanData {
        span_context: context(""),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: "sample".into(),
        start_time: UNIX_EPOCH + Duration::from_nanos(1_764_000_000_123_456_789),
        end_time: UNIX_EPOCH + Duration::from_nanos(1_764_000_001_123_456_789),
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: scope(),
    }
}

/// Every kind of value, and those whose length is that of a longer prefix.
fn values() -> Vec<KeyValue> {
    let long = |length: usize| "x".repeat(length);
    let mut pairs = vec![
        KeyValue::new("", ""),
        KeyValue::new("true", true),
        KeyValue::new("false", false),
        KeyValue::new("zero", 0),
        KeyValue::new("most", i64::MAX),
        KeyValue::new("least", i64::MIN),
        KeyValue::new("minus", -1),
        KeyValue::new("nought", 0.0),
        KeyValue::new("part", -1.5e-9),
        KeyValue::new("text", "grüße \"\n\u{0}"),
        KeyValue::new("flags", Value::Array(vec![true, false].into())),
        KeyValue::new("counts", Value::Array(vec![0_i64, -7, 300].into())),
        KeyValue::new("parts", Value::Array(vec![0.0, 2.5].into())),
        KeyValue::new("none", Value::Array(Array::String(Vec::new()))),
        KeyValue::new(
            "texts",
            Value::Array(Array::String(vec!["".into(), long(130).into()])),
        ),
    ];
    for length in [
        112, 120, 124, 126, 127, 128, 129, 255, 16_383, 16_384, 2_097_152,
    ] {
        pairs.push(KeyValue::new("long", long(length)));
    }
    pairs
}

fn event(attributes: Vec<KeyValue>) -> Event {
    Event::new("stall", UNIX_EPOCH + Duration::from_secs(7), attributes, 3)
}

/// Every field set to something, every attribute in every place.
fn full() -> SpanData {
    let mut span = plain();
    span.span_context = context("a=1,b=2");
    span.parent_span_id = SpanId::from(9);
    span.parent_span_is_remote = true;
    span.attributes = values();
    span.dropped_attributes_count = 200;
    span.events.events = vec![event(values()), event(Vec::new())];
    span.events.dropped_count = 5;
    span.links.links = vec![
        Link::new(context("a=1"), values(), 4),
        Link::new(context(""), Vec::new(), 0),
    ];
    span.links.dropped_count = 6;
    span.status = Status::error("missed ttft.p95 < 1.5s");
    span
}

#[test]
fn a_request_has_the_bytes_of_the_generated_types() {
    let mut requests = vec![vec![plain()], vec![full()], vec![plain(), full(), plain()]];
    for kind in [
        SpanKind::Server,
        SpanKind::Client,
        SpanKind::Producer,
        SpanKind::Consumer,
    ] {
        let mut span = plain();
        span.span_kind = kind;
        requests.push(vec![span]);
    }
    for status in [Status::Ok, Status::error("")] {
        let mut span = plain();
        span.status = status;
        requests.push(vec![span]);
    }
    let mut early = plain();
    early.start_time = UNIX_EPOCH;
    early.end_time = UNIX_EPOCH - Duration::from_secs(1);
    requests.push(vec![early]);
    for pair in values() {
        let mut span = plain();
        span.attributes.push(pair);
        requests.push(vec![span]);
    }
    for resource in [resource(), Resource::builder_empty().build()] {
        let envelope = Envelope::new(&resource);
        for spans in &requests {
            let (ours, theirs) = (envelope.request(spans), generated(&resource, spans));
            assert!(ours == theirs, "{spans:?}\n{ours:?}\n{theirs:?}");
        }
    }
}

#[test]
fn a_length_takes_the_bytes_that_it_needs() {
    for (length, bytes) in [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3)] {
        let mut out = Vec::new();
        varint(&mut out, length);
        assert_eq!((out.len(), varint_len(length)), (bytes, bytes), "{length}");
    }
    assert_eq!(varint_len(u64::MAX), 10);
}
