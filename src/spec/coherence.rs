//! What no part of a spec shows on its own: promises that a relay's settings make impossible.

use std::time::Duration;

use super::error::SpecError;
use super::reader::Reader;
use super::relay::RelaySpec;
use super::settings::{Settings, Written};
use crate::objective::metric::Metric;
use crate::objective::{Objective, Statistic};
use crate::plan::{ConnectionMode, Endpoint, Relay};
use crate::stream::Timeouts;

/// Retries that the metrics of recovery are defined by.
const RETRIES: u32 = 3;

/// Checks each promise against each relay.
pub(super) fn check(r: &Reader<'_>, relays: &[RelaySpec], settings: &Settings) {
    for slo in &settings.slos {
        for relay in relays {
            for mistake in [
                recovery(&relay.relay, slo),
                limit(&relay.relay, slo),
                measurable(&relay.relay, slo),
            ]
            .into_iter()
            .flatten()
            {
                r.note(mistake);
            }
        }
    }
}

/// Metrics of recovery need the retries that define them.
fn recovery(relay: &Relay, slo: &Written<Objective>) -> Option<SpecError> {
    let metric = slo.value.metric;
    let counts = matches!(metric, Metric::SuccessIn4 | Metric::RetrySuccess);
    if !counts || relay.retry.max == RETRIES {
        return None;
    }
    Some(
        SpecError::new(
            slo.span.clone(),
            format!("`{metric}` needs `retry.max: {RETRIES}`"),
        )
        .label(format!(
            "`retry.max` of relay `{}` is {}",
            relay.name, relay.retry.max
        ))
        .help(format!(
            "set `retry.max: {RETRIES}`, or promise `http_success` instead"
        )),
    )
}

/// A limit that ends a call before the bound is reached would make every slow call look the same.
fn limit(relay: &Relay, slo: &Written<Objective>) -> Option<SpecError> {
    let objective = &slo.value;
    let metric = objective.metric;
    if objective.statistic == Statistic::Rate {
        return None;
    }
    let bound = Duration::try_from_secs_f64(objective.bound).ok()?;
    let (key, limit) = deciding(metric, &relay.timeouts)
        .iter()
        .min_by_key(|(_, limit)| *limit)
        .copied()?;
    if limit > bound {
        return None;
    }
    Some(
        SpecError::new(
            slo.span.clone(),
            format!("a timeout cuts calls off before this bound of `{metric}`"),
        )
        .label(format!(
            "`timeouts.{key}` of relay `{}` is {limit:?}",
            relay.name
        ))
        .help(format!(
            "raise `timeouts.{key}` above the bound, or lower the bound"
        )),
    )
}

/// The limits that can end a call before the metric has its value.
fn deciding(metric: Metric, limits: &Timeouts) -> Vec<(&'static str, Duration)> {
    let total = ("total", limits.total);
    let headers = ("headers", limits.headers);
    let first_token = ("first_token", limits.first_token);
    match metric {
        Metric::Dns => vec![("dns", limits.dns)],
        Metric::Connect => vec![("connect", limits.connect)],
        Metric::Tls => vec![("tls", limits.tls)],
        Metric::Ttfb | Metric::FirstEvent | Metric::Ttft | Metric::Overhead => {
            vec![first_token, headers, total]
        }
        Metric::Total => vec![total],
        Metric::MaxGap => vec![("idle", limits.idle), total],
        Metric::Tps
        | Metric::Jitter
        | Metric::HttpSuccess
        | Metric::ParseSuccess
        | Metric::Interruption
        | Metric::RetrySuccess
        | Metric::SuccessIn4
        | Metric::Usable
        | Metric::ModelMatch
        | Metric::UsageMatch => Vec::new(),
    }
}

/// A phase that a relay's calls never go through has no length to promise.
fn measurable(relay: &Relay, slo: &Written<Objective>) -> Option<SpecError> {
    let metric = slo.value.metric;
    let connecting = matches!(metric, Metric::Dns | Metric::Connect | Metric::Tls);
    let (url, https) = match &relay.endpoint {
        Endpoint::Url(url) => (Some(url.as_str()), url.starts_with("https://")),
        Endpoint::Simulate(simulate) => (None, simulate.tls),
    };
    let (label, help) = if connecting && relay.connection == ConnectionMode::Reuse {
        (
            "a reused connection is not opened again",
            "set `connection: fresh`, or drop this objective",
        )
    } else if metric == Metric::Tls && !https {
        ("it is not reached over TLS", "drop this objective")
    } else if metric == Metric::Dns && url.is_none_or(is_address) {
        (
            "its address needs no name resolution",
            "drop this objective",
        )
    } else {
        return None;
    };
    Some(
        SpecError::new(
            slo.span.clone(),
            format!("relay `{}` has no `{metric}` to measure", relay.name),
        )
        .label(label)
        .help(help),
    )
}

/// Whether the host of a URL is an IP address.
fn is_address(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, port)| {
            if port.bytes().all(|b| b.is_ascii_digit()) {
                host
            } else {
                authority
            }
        });
    host.starts_with('[')
        || host
            .split('.')
            .filter(|part| part.parse::<u8>().is_ok())
            .count()
            == 4
}
