//! When an attempt is out of time, and by which limit. Pure arithmetic on what was seen.

use std::time::Duration;

use super::Exchange;
use crate::observation::{Limit, Phase};

/// How long the body may stay open after the end mark before we leave; leaving is not a fault.
const AFTER_DONE: Duration = Duration::from_secs(1);

/// The next limit to pass; of several at one moment, the most telling.
pub(super) fn deadline(exchange: &Exchange) -> Option<(Duration, Limit)> {
    if exchange.over.is_some() {
        return None;
    }
    let limits = &exchange.timeouts;
    let total = (limits.total, Limit::Total);
    let moments = &exchange.reading.heard.answer.moments;
    if let Some(end_mark) = moments.end_mark {
        // Where an end mark need not be the last, more may come for as long as output may pause.
        let due = if exchange.reading.heard.reader.goes_on_after_end() {
            moments.progress.unwrap_or_default().max(end_mark) + limits.idle
        } else {
            end_mark + AFTER_DONE
        };
        return Some((limits.total.min(due), Limit::AfterDone));
    }
    let first_token = (limits.first_token, Limit::FirstToken);
    let next = match &exchange.head {
        None => {
            let headers = (limits.headers, Limit::Headers);
            let mut next = earlier(headers, first_token);
            if let Some(step) = step(exchange) {
                next = earlier(step, next);
            }
            next
        }
        Some(head) if !head.is_2xx() => {
            let start = exchange.timeline.head.unwrap_or_default();
            (start + limits.idle, Limit::Idle)
        }
        Some(_) if !exchange.asked.stream => return Some(total),
        Some(_) => match moments.progress {
            Some(progress) => (progress + limits.idle, Limit::Idle),
            None => first_token,
        },
    };
    Some(earlier(next, total))
}

/// The limit of the connection step that is under way.
fn step(exchange: &Exchange) -> Option<(Duration, Limit)> {
    let (timeline, limits) = (&exchange.timeline, &exchange.timeouts);
    let (stretch, length, limit) = match exchange.phase {
        Phase::Dns => (timeline.dns, limits.dns, Limit::Dns),
        Phase::Connect => (timeline.connect, limits.connect, Limit::Connect),
        Phase::Tunnel => (
            timeline.connect.or(timeline.tunnel),
            limits.connect,
            Limit::Connect,
        ),
        Phase::Tls => (timeline.tls, limits.tls, Limit::Tls),
        Phase::Pool
        | Phase::Send
        | Phase::Wait
        | Phase::Head
        | Phase::FirstEvent
        | Phase::FirstToken
        | Phase::Stream
        | Phase::End => return None,
    };
    Some((stretch?.start + length, limit))
}

fn earlier(left: (Duration, Limit), right: (Duration, Limit)) -> (Duration, Limit) {
    if right.0 < left.0 { right } else { left }
}
