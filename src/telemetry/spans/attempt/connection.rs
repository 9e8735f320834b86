//! Spans of getting a connection: the wait for one, or DNS, TCP, tunnel and TLS.

use std::net::SocketAddr;

use opentelemetry::trace::{SpanId, SpanKind};
use opentelemetry::{Array, StringValue, Value};
use opentelemetry_sdk::trace::SpanData;

use super::{CellSpans, Pen};
use crate::observation::{Connection, Observation, Phase, Stretch, Timeline};
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
        pen.shown(start, end),
    );
    setup
        .extend(&cell.server)
        .text(semconv::RELAY_PROXY, known.proxy.as_deref());
    peer(&mut setup, known.peer.as_deref());
    if matches!(
        pen.last_phase,
        Phase::Dns | Phase::Connect | Phase::Tunnel | Phase::Tls
    ) {
        pen.fail(&mut setup);
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
        connects(pen, setup_id, connect, known, spans);
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

/// TCP: one span for each address where the transport tells them apart, else one for all.
fn connects(
    pen: &Pen<'_>,
    setup: SpanId,
    connect: Stretch,
    known: &Connection,
    spans: &mut Vec<SpanData>,
) {
    if known.tried.is_empty() {
        let mut draft = pen.stretch(setup, span::CONNECT, Phase::Connect, connect);
        peer(&mut draft, known.peer.as_deref());
        family(&mut draft, known.peer.as_deref());
        spans.push(draft.finish());
        return;
    }
    let all_over = connect.end.unwrap_or(pen.over);
    for (index, tried) in known.tried.iter().take(MAX_ADDRESSES).enumerate() {
        let outcome = match (tried.connected, tried.end) {
            (true, _) => "connected",
            (false, Some(_)) => "failed",
            (false, None) => "lost",
        };
        let mut draft = pen.piece(
            setup,
            &format!("{}/{index}", span::CONNECT),
            span::CONNECT,
            Phase::Connect,
            (tried.start, tried.end.unwrap_or(all_over)),
        );
        peer(&mut draft, Some(&tried.address));
        family(&mut draft, Some(&tried.address));
        draft.put(semconv::RELAY_CONNECT_OUTCOME, outcome);
        // One that failed while another connected did no harm.
        if !tried.connected && pen.last_phase == Phase::Connect {
            pen.fail(&mut draft);
        }
        spans.push(draft.finish());
    }
}

/// Adds whether an address is IPv4 or IPv6.
fn family(draft: &mut Draft, address: Option<&str>) {
    let address = address.and_then(|address| address.parse::<SocketAddr>().ok());
    let family = address.map(|address| if address.is_ipv4() { "ipv4" } else { "ipv6" });
    draft.maybe(semconv::NETWORK_TYPE, family);
}

/// Adds the peer's address and port.
pub(super) fn peer(draft: &mut Draft, peer: Option<&str>) {
    match peer.map(|text| (text, text.parse::<SocketAddr>())) {
        Some((_, Ok(peer))) => {
            draft
                .put(semconv::NETWORK_PEER_ADDRESS, peer.ip().to_string())
                .put(semconv::NETWORK_PEER_PORT, i64::from(peer.port()));
        }
        Some((text, Err(_))) => {
            draft.text(semconv::NETWORK_PEER_ADDRESS, Some(text));
        }
        None => {}
    }
}
