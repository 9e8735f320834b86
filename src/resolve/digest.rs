//! One text for one plan, and its hash.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::plan::{
    Endpoint, KeySource, Proxy, Relay, Sampling, Timing, Workload, without_user_info,
};
use crate::spec::{RelaySpec, Settings, Spec};
use crate::words::hex;

/// SHA-256 of everything that decides what is sent and how it is judged, with the budget and
/// without it.
///
/// Left out on purpose: header values and proxy passwords (secrets), key commands (may hold one),
/// where in the text things stand (comments move them), and what only concerns reports (prices too).
pub(super) fn digests(
    spec: &Spec,
    settings: &Settings,
    sampling: &Sampling,
    cells: &[(&RelaySpec, &str, &Workload)],
) -> (String, String) {
    let relays: BTreeMap<&str, Value> = spec
        .relays()
        .iter()
        .map(|it| (it.relay.name.as_str(), relay_facts(&it.relay)))
        .collect();
    let workloads: BTreeMap<&str, Value> = cells
        .iter()
        .map(|(_, _, workload)| (workload.name.as_str(), workload_facts(workload)))
        .collect();
    let cells: Vec<Value> = cells
        .iter()
        .map(|(relay, model, workload)| json!([relay.relay.name, model, workload.name]))
        .collect();
    let objectives: Vec<Value> = settings
        .slos
        .iter()
        .map(|slo| {
            let it = &slo.value;
            json!([it.text, it.confidence_ppm, it.severity])
        })
        .collect();
    let mut facts = json!({
        "version": 1,
        "relays": relays,
        "workloads": workloads,
        "cells": cells,
        "objectives": objectives,
        "sampling": facts(sampling),
        "judge": facts(&settings.judge),
    });
    // Only where they are there, so that specs without them keep their digest.
    if !spec.windows().is_empty() {
        facts["windows"] = self::facts(spec.windows());
    }
    if !spec.regions().is_empty() {
        let own: BTreeMap<&str, &[String]> = spec
            .relays()
            .iter()
            .map(|it| (it.relay.name.as_str(), it.regions.as_slice()))
            .collect();
        facts["regions"] = json!([self::facts(spec.regions()), own]);
    }
    if let Some(baseline) = spec.baseline() {
        facts["baseline"] = json!([
            baseline.relay.relay.name,
            relay_facts(&baseline.relay.relay),
            baseline.relay.models,
            baseline.pair_ppm,
            baseline.calibration,
        ]);
    }
    let whole = canonical_hash(&facts);
    if sampling.mode == Timing::Soak {
        // Its slots follow from all of it: a soak has no budget that could grow.
        return (whole.clone(), whole);
    }
    facts["sampling"] = json!({
        "seed": sampling.seed,
        "rate_per_s": sampling.rate_per_s,
        "concurrency": sampling.concurrency,
        "warmup": sampling.warmup,
    });
    (whole, canonical_hash(&facts))
}

fn canonical_hash(facts: &Value) -> String {
    let mut canonical = String::new();
    write_canonical(facts, &mut canonical);
    hex(&Sha256::digest(canonical))
}

/// A settings type as JSON; plain data always has a JSON form.
fn facts(of: impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or(Value::Null)
}

fn relay_facts(relay: &Relay) -> Value {
    let Relay {
        name: _,
        endpoint,
        protocol,
        stream,
        connection,
        transport,
        http,
        proxy,
        ca_file,
        timeouts,
        retry,
        headers,
        api_key,
        propagate,
        required: _,
    } = relay;
    json!({
        "endpoint": match endpoint {
            Endpoint::Url(url) => json!(url),
            Endpoint::Simulate(simulate) => facts(simulate),
        },
        "protocol": protocol,
        "stream": stream,
        "connection": connection,
        "transport": transport,
        "http": http,
        "proxy": match proxy {
            Proxy::None => "none",
            Proxy::Env => "env",
            Proxy::Url(url) => without_user_info(url),
        },
        "ca_file": ca_file,
        "timeouts": facts(timeouts),
        "retry": facts(retry),
        "headers": headers.keys().collect::<Vec<_>>(),
        "propagate": propagate,
        "api_key": match api_key {
            None => Value::Null,
            Some(KeySource::Env(name)) => json!({ "env": name }),
            Some(KeySource::File(path)) => json!({ "file": path }),
            Some(KeySource::Command(_)) => json!("command"),
        },
    })
}

fn workload_facts(workload: &Workload) -> Value {
    let mut facts = json!({
        "messages": facts(&workload.messages),
        "params": workload.params,
        "expect": facts(&workload.expect),
    });
    // Only where it is there, so that specs without it keep their digest.
    if let Some(streams) = workload.concurrency {
        facts["concurrency"] = json!(streams);
    }
    facts
}

/// JSON with sorted keys and no white space: one text for one value.
fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = sorted(map);
            out.push('{');
            for (i, (key, value)) in sorted.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

fn sorted(map: &Map<String, Value>) -> BTreeMap<&String, &Value> {
    map.iter().collect()
}
