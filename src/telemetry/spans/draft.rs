//! The mechanics of a span built after the fact: ids, absolute times, bounded text.
//!
//! Knows nothing of relays; times come in as offsets from one wall-clock anchor, so that the spans
//! of a trace keep the distances that were measured.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest, Sha256};

use crate::evidence::ids;
use crate::telemetry::semconv;

/// Longest text of one attribute, in bytes; a relay chooses some of them.
const TEXT_LIMIT: usize = 256;

/// Cuts a text at a character boundary so that it fits an attribute.
pub(in crate::telemetry) fn bounded(text: &str) -> &str {
    bounded_to(text, TEXT_LIMIT)
}

/// Cuts a text at a character boundary so that it has at most so many bytes.
pub(in crate::telemetry) fn bounded_to(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The trace id that 32 hex digits name; any other text gets one of its own by hashing.
///
/// Evidence files are input: a damaged id must neither panic nor join two samples in one trace.
pub fn trace_id(hex: &str, fallback: &str) -> TraceId {
    match TraceId::from_hex(hex) {
        Ok(id) if id != TraceId::INVALID && hex.len() == 32 => id,
        Ok(_) | Err(_) => hashed_trace_id(&[hex, fallback]),
    }
}

/// A trace id made of texts, the same each time.
pub(crate) fn hashed_trace_id(parts: &[&str]) -> TraceId {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.finalize()[..16]);
    TraceId::from_bytes(bytes)
}

/// The id of a span inside its trace, the same each time it is made.
///
/// Spans exported again later, from the same evidence, therefore replace the first ones.
pub fn span_id(trace: TraceId, path: &str) -> SpanId {
    SpanId::from_bytes(ids::span_id(&trace.to_bytes(), path))
}

/// The context of a span of our own, sampled.
pub(crate) fn context(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
}

/// A moment given in nanoseconds since the epoch plus an offset.
///
/// OTLP holds 64 bits of nanoseconds; later moments (a damaged file) stop at that end.
pub(super) fn moment(unix_ns: u64, offset: Duration) -> SystemTime {
    let since = Duration::from_nanos(unix_ns)
        .saturating_add(offset)
        .min(Duration::from_nanos(u64::MAX));
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

/// Which trace, and which wall-clock moment its offsets count from.
pub(super) struct Anchor {
    /// Trace.
    pub(super) trace: TraceId,
    /// Nanoseconds since the epoch.
    pub(super) unix_ns: u64,
    /// Scope of its spans.
    pub(super) scope: InstrumentationScope,
}

impl Anchor {
    /// The moment at an offset.
    pub(super) fn at(&self, offset: Duration) -> SystemTime {
        moment(self.unix_ns, offset)
    }

    /// A span over two offsets; the end is never before the start.
    pub(super) fn span(
        &self,
        path: &str,
        parent: Option<SpanId>,
        kind: SpanKind,
        name: impl Into<Cow<'static, str>>,
        (start, end): (Duration, Duration),
    ) -> Draft {
        Draft(SpanData {
            span_context: context(self.trace, span_id(self.trace, path)),
            parent_span_id: parent.unwrap_or(SpanId::INVALID),
            parent_span_is_remote: false,
            span_kind: kind,
            name: name.into(),
            start_time: self.at(start),
            end_time: self.at(end.max(start)),
            attributes: Vec::with_capacity(16),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        })
    }
}

/// A span in the making.
pub(super) struct Draft(pub(super) SpanData);

impl Draft {
    /// Id, for children.
    pub(super) fn id(&self) -> SpanId {
        self.0.span_context.span_id()
    }

    /// Adds an attribute; a number that is none is left out, since JSON cannot hold it.
    pub(super) fn put(&mut self, name: &'static str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        if !matches!(value, Value::F64(number) if !number.is_finite()) {
            self.0.attributes.push(KeyValue::new(name, value));
        }
        self
    }

    /// Adds an attribute if there is a value.
    pub(super) fn maybe(
        &mut self,
        name: &'static str,
        value: Option<impl Into<Value>>,
    ) -> &mut Self {
        if let Some(value) = value {
            self.put(name, value);
        }
        self
    }

    /// Adds a text that somebody else chose, cut to fit.
    pub(super) fn text(&mut self, name: &'static str, value: Option<&str>) -> &mut Self {
        self.maybe(name, value.map(|text| bounded(text).to_owned()))
    }

    /// Adds attributes made before.
    pub(super) fn extend(&mut self, attributes: &[KeyValue]) -> &mut Self {
        self.0.attributes.extend_from_slice(attributes);
        self
    }

    /// Adds an event, kept inside the span's own times.
    pub(super) fn event(
        &mut self,
        name: &'static str,
        at: SystemTime,
        attributes: Vec<KeyValue>,
    ) -> &mut Self {
        let at = at.max(self.0.start_time).min(self.0.end_time);
        self.0
            .events
            .events
            .push(Event::new(name, at, attributes, 0));
        self
    }

    /// Adds a link with its reason.
    pub(super) fn link(&mut self, to: &SpanContext, reason: &'static str) -> &mut Self {
        let attributes = vec![KeyValue::new(semconv::RELAY_LINK_TYPE, reason)];
        self.0
            .links
            .links
            .push(Link::new(to.clone(), attributes, 0));
        self
    }

    /// Marks the span as failed; the description stays empty unless there is more to say than the
    /// type does.
    pub(super) fn fail(
        &mut self,
        error_type: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
    ) -> &mut Self {
        self.0.status = Status::error(description);
        let error_type: Cow<'static, str> = error_type.into();
        self.put(semconv::ERROR_TYPE, error_type.into_owned())
    }

    /// The span, its events in the order in which they happened.
    pub(super) fn finish(mut self) -> SpanData {
        self.0.events.events.sort_by_key(|event| event.timestamp);
        self.0
    }

    /// Marks the span as good.
    pub(super) fn succeed(&mut self) -> &mut Self {
        self.0.status = Status::Ok;
        self
    }
}
