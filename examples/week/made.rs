//! A week that might have been: its spec, and what two probes would have seen.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relayproof::evidence::{Close, Header, Sample, Writer};
use relayproof::plan::{Cell, Plan, Slot};
use relayproof::resolve::resolve;
use relayproof::spec;
use serde_json::{Value, json};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// Two relays, a trusted upstream beside them, and a window that is the evening of Shanghai.
fn spec(samples: u64) -> String {
    format!(
        "relayproof: 1
name: week
relays:
  - name: alpha
    base_url: https://alpha.example/v1
    models: [test-model]
    pricing: {{ test-model: {{ input: 0.5, output: 1.5, multiplier: 0.8 }} }}
  - {{ name: beta, base_url: \"https://beta.example/v1\", models: [test-model] }}
baseline: {{ name: official, base_url: \"https://official.example/v1\", pair: 20% }}
regions: [hk, usw]
windows: [{{ name: peak, daily: \"21:00-01:00\", tz: Asia/Shanghai }}]
sampling: {{ seed: 7, mode: soak, duration: 7d, start: 2026-03-02T00:00:00+08:00, max_samples: {samples} }}
otel: {{ trace_url: \"jaeger:http://127.0.0.1:16686\" }}
slos:
  - success_in_4 >= 97%
  - {{ expect: ttft.p95 < 1.5s, window: peak }}
  - {{ expect: ttft.p50 < 800ms, severity: warn }}
"
    )
}

/// Writes a folder for each probe, a file for each cell.
pub(crate) fn write(folder: &Path, samples: u64) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let spec = spec::parse("week.yaml", &spec(samples), &|_| None)?;
    let plan = resolve(&spec, None)?;
    let mut files = Vec::new();
    for cell in &plan.cells {
        let slots = cell.slots(&cell.sampling(&plan.sampling));
        files.push(record(folder, &plan, cell, slots)?);
    }
    for upstream in &plan.baselines {
        let beside = upstream.beside.as_deref();
        let paired = plan.cells.iter().find(|it| Some(&*it.name()) == beside);
        let paired = paired.ok_or("an upstream beside nothing")?;
        let slots = upstream.paired_slots(paired, &paired.sampling(&plan.sampling), plan.pair_ppm);
        files.push(record(folder, &plan, upstream, slots)?);
    }
    Ok(files)
}

fn record(
    folder: &Path,
    plan: &Plan,
    cell: &Cell,
    slots: impl Iterator<Item = Slot>,
) -> Result<PathBuf, Box<dyn Error>> {
    let header = header(plan, cell)?;
    let folder = folder.join(header.region.as_deref().unwrap_or("here"));
    fs::create_dir_all(&folder)?;
    let name: String = header
        .cell
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let path = folder.join(format!("{name}.jsonl"));
    let mut writer = Writer::create(&path, &header)?;
    for slot in slots {
        if let Some(sample) = sample(&header, cell, &slot)? {
            writer.sample(&sample)?;
        }
    }
    let end = header.started_unix_ns + 7 * DAY * 1_000_000_000;
    let close: Close = serde_json::from_value(json!({
        "reason": "budget", "at_unix_ns": end, "abandoned": 0,
        "self_check": {
            "late_starts": 2, "max_lag_us": 130_000, "loop_lag_p99_us": 900,
            "loop_lag_max_us": 4_200, "loop_probes": 100_000, "clock_step_us": 1_300,
        },
    }))?;
    writer.close(&close)?;
    Ok(path)
}

fn header(plan: &Plan, cell: &Cell) -> Result<Header, Box<dyn Error>> {
    let region = cell.region.as_ref().map(|region| &region.name);
    let host = region.map_or_else(|| "probe".to_owned(), |name| format!("probe-{name}"));
    let header = json!({
        "schema": 1,
        "tool_version": "0.1.0",
        "run_id": "week",
        "started_unix_ns": plan.sampling.start_unix_ns,
        "host": host,
        "spec_name": plan.name,
        "spec_source": plan.source,
        "spec_sha256": plan.spec_sha256,
        "plan_digest": plan.digest,
        "core_digest": plan.core_digest,
        "cell_id": cell.id,
        "cell": cell.name(),
        "relay": cell.relay.name,
        "model": cell.model,
        "workload": cell.workload.name,
        "base_url": format!("https://{}.example/v1", cell.relay.name),
        "protocol": cell.relay.protocol,
        "transport": cell.relay.transport,
        "stream": true,
        "max_tokens": cell.max_tokens(),
        "prompt": [{ "role": "user", "chars": 182, "sha256": "00" }],
        "sampling": cell.sampling(&plan.sampling),
        "judge": plan.judge,
        "otel": plan.otel,
        "objectives": cell.objectives,
        "price": cell.price,
        "spec_cells": plan.cells.len(),
        "region": region,
        "regions": plan.regions,
        "windows": plan.windows,
        "beside": cell.beside,
        "pair_ppm": plan.pair_ppm,
    });
    Ok(serde_json::from_value(header)?)
}

fn sample(header: &Header, cell: &Cell, slot: &Slot) -> Result<Option<Sample>, Box<dyn Error>> {
    let Some(observation) = observation(cell, slot) else {
        return Ok(None);
    };
    let planned = u64::try_from(slot.start.as_micros())?;
    let trace = format!("{:0>32}", &slot.id[..slot.id.len().min(32)]);
    let sample = json!({
        "id": slot.id,
        "index": slot.index,
        "trace_id": trace,
        "t0_unix_ns": header.started_unix_ns + planned * 1000,
        "planned_us": planned,
        "lag_us": 300,
        "attempts": [{ "start_us": 0, "observation": observation }],
    });
    Ok(Some(serde_json::from_value(sample)?))
}

/// A number below `below` that follows from a slot: the same on every machine.
fn drawn(slot: &Slot, kind: u64, below: u64) -> u64 {
    let digits = slot.id.get(..12).unwrap_or_default();
    let number = u64::from_str_radix(digits, 16).unwrap_or(slot.index);
    number.wrapping_mul(2 * kind + 0x9e37_79b9).rotate_left(23) % below
}

/// What is seen at a slot; nothing while the probe of Hong Kong is being started anew.
fn observation(cell: &Cell, slot: &Slot) -> Option<Value> {
    let at = slot.start.as_secs();
    let relay = cell.relay.name.as_str();
    let in_hk = cell
        .region
        .as_ref()
        .is_some_and(|region| region.name == "hk");
    if in_hk && (2 * DAY + 3 * HOUR..2 * DAY + 5 * HOUR).contains(&at) {
        return None;
    }
    let is_evening = !(HOUR..21 * HOUR).contains(&(at % DAY));
    let is_outage = (4 * DAY..4 * DAY + 2 * HOUR).contains(&at);
    let id = format!("req-{}", slot.id.get(..8).unwrap_or_default());
    if is_outage {
        // The model service is down, and so it is beside the relays too.
        return Some(refused(500, &id));
    }
    match (relay, drawn(slot, 1, 100)) {
        ("beta", 0..5) => return Some(refused(503, &id)),
        ("beta", 5) => return Some(refused(429, &id)),
        ("beta", 6) => return Some(answered(400, false, &id)),
        _ => {}
    }
    let mut first = 300 + drawn(slot, 2, 400);
    if relay == "alpha" && is_evening {
        first += 400 + drawn(slot, 3, 1400);
    }
    Some(answered(first, true, &id))
}

fn answered(first: u64, is_whole: bool, id: &str) -> Value {
    let us = |ms: u64| Duration::from_millis(ms).as_micros() as u64;
    let last = first + 600;
    let mut seen = json!({
        "timeline": {
            "dns": { "start_us": 0, "end_us": 900 },
            "connect": { "start_us": 900, "end_us": 20_000 },
            "tls": { "start_us": 20_000, "end_us": 60_000 },
            "send": { "start_us": 60_000, "end_us": 60_200 },
            "head_us": us(first) - 40_000,
            "first_chunk_us": us(first),
            "first_event_us": us(first),
            "first_token_us": us(first),
            "last_token_us": us(last),
            "over_us": us(last + 2),
        },
        "ending": "truncated",
        "last_phase": "stream",
        "findings": [{ "class": "truncated-no-terminator", "phase": "stream" }],
        "parse_ok": true,
        "interrupted": true,
        "status": 200,
        "headers": [["x-request-id", id]],
        "model": "test-model",
        "packets": {
            "count": 32, "content_events": 32, "chars": 128, "first_chars": 4,
            "first_us": us(first), "last_us": us(last), "gap_mean_s": 0.02, "gap_m2_s2": 0.002,
            "longest": [{ "at_us": us(first + 40), "length_us": 40_000, "packet": 2 }],
        },
        "counts": {},
        "connection": { "http_version": "2", "tls_version": "1.3" },
    });
    if is_whole {
        seen["timeline"]["end_mark_us"] = us(last + 1).into();
        seen["ending"] = "completed".into();
        seen["last_phase"] = "end".into();
        seen["findings"] = json!([]);
        seen["interrupted"] = false.into();
        seen["finish_reason"] = "stop".into();
        seen["sealed"] = true.into();
        seen["usage"] = json!({ "input": 42, "output": 32 });
    }
    seen
}

fn refused(status: u16, id: &str) -> Value {
    json!({
        "timeline": {
            "connect": { "start_us": 0, "end_us": 20_000 },
            "head_us": 80_000,
            "over_us": 81_000,
        },
        "ending": "refused",
        "last_phase": "head",
        "findings": [{ "class": "http-error", "phase": "head" }],
        "parse_ok": false,
        "interrupted": false,
        "status": status,
        "headers": [["x-request-id", id]],
        "packets": {},
        "counts": {},
        "connection": { "http_version": "2", "tls_version": "1.3" },
    })
}
