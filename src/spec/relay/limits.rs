//! How long a call may take, and when it is tried again.

use crate::plan::Retry;
use crate::spec::duration;
use crate::spec::error::SpecError;
use crate::spec::reader::{Item, Reader};
use crate::spec::tree::Value;
use crate::stream::Timeouts;

/// Time limits; what is not set keeps its default.
pub(super) fn timeouts(r: &Reader<'_>, item: &Item<'_>) -> Timeouts {
    let mut limits = Timeouts::default();
    let Some(mut map) = item.map(r) else {
        return limits;
    };
    for (key, limit) in [
        ("dns", &mut limits.dns),
        ("connect", &mut limits.connect),
        ("tls", &mut limits.tls),
        ("headers", &mut limits.headers),
        ("first_token", &mut limits.first_token),
        ("idle", &mut limits.idle),
        ("total", &mut limits.total),
    ] {
        if let Some(read) = map
            .get(r, key)
            .and_then(|item| item.quantity(r, duration::parse))
        {
            *limit = read;
        }
    }
    map.close(r, &[]);
    limits
}

/// How often a call is tried again at most; the metrics look at four attempts.
const MOST_RETRIES: u32 = 3;

/// Retries; what is not set keeps its default.
pub(super) fn retry(r: &Reader<'_>, item: &Item<'_>) -> Retry {
    let usual = Retry::default();
    let Some(mut map) = item.map(r) else {
        return usual;
    };
    let when = map.get(r, "when").and_then(|item| retried(r, &item));
    let (statuses, connect) = when.unwrap_or((usual.statuses, usual.connect));
    let read = Retry {
        statuses,
        connect,
        max: map
            .get(r, "max")
            .and_then(|item| item.small(r, 0, MOST_RETRIES))
            .unwrap_or(usual.max),
        backoff: map
            .get(r, "backoff")
            .and_then(|item| item.quantity(r, duration::parse_or_zero))
            .unwrap_or(usual.backoff),
        factor: map
            .get(r, "factor")
            .and_then(|item| item.number(r, 1.0, 10.0))
            .unwrap_or(usual.factor),
        jitter: map
            .get(r, "jitter")
            .and_then(|item| item.choice(r, &["full", "none"], |word| word))
            .map_or(usual.jitter, |word| word == "full"),
        cap: map
            .get(r, "cap")
            .and_then(|item| item.quantity(r, duration::parse))
            .unwrap_or(usual.cap),
        obey_retry_after: map
            .get(r, "retry_after")
            .and_then(|item| item.choice(r, &["obey", "ignore"], |word| word))
            .map_or(usual.obey_retry_after, |word| word == "obey"),
    };
    map.close(r, &[]);
    read
}

fn retried(r: &Reader<'_>, item: &Item<'_>) -> Option<(Vec<u16>, bool)> {
    let mut statuses = Vec::new();
    let mut connect = false;
    for item in item.list(r)? {
        if item.is("connect") {
            connect = true;
            continue;
        }
        let status = if let Value::Int(status) = &item.node.value {
            u16::try_from(*status).ok()
        } else {
            None
        };
        match status {
            Some(status @ 400..=599) => statuses.push(status),
            Some(_) | None => r.note(
                SpecError::new(item.span(), format!("`{}` is nothing to retry", item.path))
                    .label("expected a status from 400 to 599, or `connect`"),
            ),
        }
    }
    statuses.sort_unstable();
    statuses.dedup();
    Some((statuses, connect))
}
