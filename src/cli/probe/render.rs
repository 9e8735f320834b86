//! One call as a waterfall for people, or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::results::printable;
use super::super::waterfall::{self, COLUMNS, LABEL, labelled, push};
use crate::attribution::Blame;
use crate::evidence::Sample;
use crate::observation::{Observation, Stretch, Timeline};

/// The call as one JSON document, schema 1.
pub(super) fn as_json(sample: &Sample, seen: &Observation, blame: &Blame, content: bool) -> Value {
    let line = &seen.timeline;
    let mut document = json!({
        "schema": 1,
        "outcome": seen.outcome(),
        "parse_ok": seen.parse_ok,
        "interrupted": seen.interrupted,
        "attribution": blame.party.as_str(),
        "rule": blame.rule,
        "warnings": seen.warnings,
        "findings": seen.findings,
        "ending": seen.ending,
        "last_phase": seen.last_phase,
        "timed_out": seen.timed_out,
        "status": seen.status,
        "phases": {
            "dns_ms": stretch(line.dns),
            "connect_ms": stretch(line.connect),
            "tunnel_ms": stretch(line.tunnel),
            "tls_ms": stretch(line.tls),
            "send_ms": stretch(line.send),
            "wait_ms": ms(wait(line)),
            "ttfb_ms": ms(line.head),
            "first_event_ms": ms(line.first_event),
            "ttft_ms": ms(line.first_token),
            "stream_ms": ms(stream(line)),
            "total_ms": ms(line.end_mark),
            "over_ms": ms(Some(line.over)),
        },
        "tokens": seen.usage,
        "model": seen.model,
        "finish_reason": seen.finish_reason,
        "sealed": seen.sealed,
        "counts": seen.counts,
        "connection": seen.connection,
        "headers": seen.headers,
        "trace_id": sample.trace_id,
    });
    if content && let Some(members) = document.as_object_mut() {
        members.insert(
            "content".to_owned(),
            json!(seen.text.clone().unwrap_or_default()),
        );
    }
    document
}

fn ms(at: Option<Duration>) -> Value {
    // Offsets are whole microseconds: three decimals say all there is.
    at.map_or(Value::Null, |at| json!(at.as_micros() as f64 / 1000.0))
}

fn stretch(of: Option<Stretch>) -> Value {
    ms(of.and_then(|of| of.length()))
}

/// From the last request byte to the first response byte, or to the head where that is not known.
fn wait(line: &Timeline) -> Option<Duration> {
    let sent = line.send?.end?;
    Some(line.first_byte.or(line.head)?.saturating_sub(sent))
}

fn stream(line: &Timeline) -> Option<Duration> {
    Some(line.last_token?.saturating_sub(line.first_token?))
}

/// The call as text: where its time went, what was found, whose fault.
pub(super) fn as_text(
    url: &str,
    sample: &Sample,
    seen: &Observation,
    blame: &Blame,
    content: bool,
    colour: bool,
) -> String {
    let mut text = String::new();
    push(&mut text, &headline(url, seen));
    text.push_str(&waterfall::bars(&seen.timeline));
    text.push('\n');
    let outcome = seen.outcome();
    let shown = match (colour, outcome) {
        (false, _) => outcome.to_owned(),
        (true, "ok") => format!("\x1b[32m{outcome}\x1b[0m"),
        (true, _) => format!("\x1b[31m{outcome}\x1b[0m"),
    };
    push(&mut text, &format!("{:<LABEL$}{shown}", "outcome"));
    text.push_str(&waterfall::facts(seen, blame));
    push(&mut text, &labelled("trace id", &sample.trace_id));
    if content {
        text.push('\n');
        push(
            &mut text,
            &printable(seen.text.as_deref().unwrap_or_default()),
        );
    }
    text
}

fn headline(url: &str, seen: &Observation) -> String {
    let line = waterfall::answered(seen);
    // An address is never broken: someone may want to copy it.
    let whole = format!("POST {url}  {line}");
    if whole.chars().count() <= COLUMNS {
        whole
    } else {
        format!("POST {url}\n     {line}")
    }
}
