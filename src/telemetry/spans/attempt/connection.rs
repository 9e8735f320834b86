//! Spans of getting a connection: the wait for one, or DNS, TCP, tunnel and TLS.

use std::net::SocketAddr;

use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry::{Array, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::{CellSpans, Pen};
use crate::observation::{Observation, Phase, Timeline};
use crate::telemetry::semconv::{self, span};
use crate::telemetry::spans::draft::{Draft, bounded};

/// Most addresses of a name that become an attribute.
const MAX_ADDRESSES: usize = 16;

/// Waiting for a connection, or making one.
pub(super) fn draw(
    cell: &CellSpans,
    pen: &Pen<'_>,
    parent: SpanId,
    observation: &Observation,
    spans: &mut Vec<SpanData>,
) {
    let Timeline {
        pool,
        dns,
        connect,
        tunnel,
        tls,
        ..
    } = observation.timeline;
    if let Some(pool) = pool {
        let draft = pen.stretch(parent, span::WAIT_FOR_CONNECTION, Phase::Pool, pool);
        spans.push(draft.finish());
    }
    let steps = [dns, connect, tunnel, tls];
    let start = steps.iter().flatten().map(|step| step.start).min();
    let end = steps
        .iter()
        .flatten()
        .map(|step| step.end.unwrap_or(pen.over))
        .max();
    let (Some(start), Some(end)) = (start, end) else {
        return;
    };
    let known = &observation.connection;
    let mut setup = pen.anchor.span(
        &format!("{}/{}", pen.prefix, span::CONNECTION_SETUP),
        Some(parent),
        SpanKind::Internal,
        span::CONNECTION_SETUP,
        (
            pen.start.saturating_add(start.min(pen.over)),
            pen.start.saturating_add(end.min(pen.over)),
        ),
    );
    setup
        .extend(&cell.server)
        .text(semconv::RELAY_PROXY, known.proxy.as_deref());
    peer(&mut setup, observation);
    if matches!(
        pen.last_phase,
        Phase::Dns | Phase::Connect | Phase::Tunnel | Phase::Tls
    ) && let Some(failure) = &pen.failure
    {
        setup.fail(failure.clone(), "");
    }
    let setup_id = setup.id();
    spans.push(setup.finish());

    if let Some(dns) = dns {
        let mut draft = pen.stretch(setup_id, span::DNS, Phase::Dns, dns);
        draft
            .text(semconv::DNS_QUESTION_NAME, known.dns_name.as_deref())
            .maybe(semconv::DNS_ANSWERS, texts(&known.addresses));
        spans.push(draft.finish());
    }
    if let Some(connect) = connect {
        let mut draft = pen.stretch(setup_id, span::CONNECT, Phase::Connect, connect);
        peer(&mut draft, observation);
        let family = known.peer.as_deref().and_then(|peer| peer.parse().ok());
        draft.maybe(
            semconv::NETWORK_TYPE,
            family.map(|peer: SocketAddr| if peer.is_ipv4() { "ipv4" } else { "ipv6" }),
        );
        spans.push(draft.finish());
    }
    if let Some(tunnel) = tunnel {
        let mut draft = pen.stretch(setup_id, span::TUNNEL, Phase::Tunnel, tunnel);
        draft.text(semconv::RELAY_PROXY, known.proxy.as_deref());
        spans.push(draft.finish());
    }
    if let Some(tls) = tls {
        let mut draft = pen.stretch(setup_id, span::TLS, Phase::Tls, tls);
        draft
            .extend(&cell.server)
            .put(semconv::TLS_PROTOCOL_NAME, "tls")
            .text(semconv::TLS_PROTOCOL_VERSION, known.tls_version.as_deref())
            .text(semconv::TLS_NEXT_PROTOCOL, known.alpn.as_deref())
            .text(semconv::TLS_CIPHER, known.cipher.as_deref())
            .maybe(semconv::TLS_RESUMED, known.resumed);
        spans.push(draft.finish());
    }
}

fn texts(addresses: &[String]) -> Option<Value> {
    let texts: Vec<StringValue> = addresses
        .iter()
        .take(MAX_ADDRESSES)
        .map(|address| bounded(address).to_owned().into())
        .collect();
    (!texts.is_empty()).then_some(Value::Array(Array::String(texts)))
}

/// Adds the peer's address and port.
pub(super) fn peer(draft: &mut Draft, observation: &Observation) {
    let Some(peer) = observation.connection.peer.as_deref() else {
        return;
    };
    let Ok(peer) = peer.parse::<SocketAddr>() else {
        draft.text(semconv::NETWORK_PEER_ADDRESS, Some(peer));
        return;
    };
    draft
        .put(semconv::NETWORK_PEER_ADDRESS, peer.ip().to_string())
        .put(semconv::NETWORK_PEER_PORT, i64::from(peer.port()));
}
