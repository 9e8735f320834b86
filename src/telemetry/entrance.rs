//! `tracing` spans that stand for suites and cells while they are worked on, so that what is logged
//! inside carries their ids. They are not exported: the spans that are come from evidence.

use std::fmt;
use std::sync::{Arc, Mutex};

use opentelemetry::trace::{SpanContext, SpanId, TraceId, TracerProvider};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, Sampler, SdkTracerProvider};
use tracing::{Dispatch, Span, dispatcher, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use super::export::lock;
use super::spans::scope;

/// Gives the next span the ids that were chosen for it, and any other random ones.
#[derive(Clone, Debug, Default)]
struct Ids(Arc<Mutex<Option<(TraceId, SpanId)>>>);

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        let chosen = lock(&self.0).map(|(trace, _)| trace);
        chosen.unwrap_or_else(|| RandomIdGenerator::default().new_trace_id())
    }

    fn new_span_id(&self) -> SpanId {
        let chosen = lock(&self.0).map(|(_, span)| span);
        chosen.unwrap_or_else(|| RandomIdGenerator::default().new_span_id())
    }
}

/// Where such spans are made: a subscriber of their own, so that they exist whether or not the
/// process has one.
#[derive(Clone)]
pub(super) struct Entrance {
    dispatch: Dispatch,
    ids: Ids,
    /// Held while a span is made, so that nobody else takes its ids.
    making: Arc<Mutex<()>>,
}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entrance").finish_non_exhaustive()
    }
}

impl Entrance {
    pub(super) fn new() -> Self {
        let ids = Ids::default();
        // A sampler of the user's would take the ids from what is logged.
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_id_generator(ids.clone())
            .build();
        let layer = tracing_opentelemetry::layer()
            .with_tracer(provider.tracer_with_scope(scope()))
            .with_threads(false)
            .with_location(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        Self {
            dispatch: Dispatch::new(tracing_subscriber::registry().with(layer)),
            ids,
            making: Arc::default(),
        }
    }

    /// A span with these ids.
    pub(super) fn open(&self, at: &SpanContext) -> Entered {
        let _making = lock(&self.making);
        *lock(&self.ids.0) = Some((at.trace_id(), at.span_id()));
        let span = dispatcher::with_default(
            &self.dispatch,
            || info_span!(target: "relayproof", parent: None, "relayproof"),
        );
        // The ids are taken when the context is first asked for.
        drop(span.context());
        *lock(&self.ids.0) = None;
        Entered {
            span,
            dispatch: self.dispatch.clone(),
        }
    }
}

/// A span with the subscriber it lives in.
///
/// When it closes, the registry must be the thread's default subscriber, else it leaks the span.
pub(super) struct Entered {
    span: Span,
    dispatch: Dispatch,
}

impl Entered {
    /// Runs `work` so that what it logs carries the span's ids.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        self.span.in_scope(work)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let span = std::mem::replace(&mut self.span, Span::none());
        dispatcher::with_default(&self.dispatch, || drop(span));
    }
}
