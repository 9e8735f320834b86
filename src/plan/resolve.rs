//! From a spec to a plan: every default a number, every promise within reach, every id fixed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::budget::{self, Outlook};
use super::window::{self, Calendar};
use super::{
    Cell, Endpoint, KeySource, Mode, Plan, Proxy, Region, Relay, Sampling, Timing, Workload,
};
use crate::spec::objective::Objective;
use crate::spec::{
    Drawing, MOST_SAMPLES, RelaySpec, Settings, Spec, SpecError, SpecErrors, Written, calibration,
    did_you_mean, hex, listed, percent,
};

/// Starts per second where a spec sets no rate: 120 a minute.
const RATE: f64 = 2.0;
/// Starts per second where every relay is embedded.
const EMBEDDED_RATE: f64 = 100.0;
/// Most open calls where a spec sets none: above rate × total timeout, so that a relay that hangs
/// delays no start.
const CONCURRENCY: u32 = 512;
/// Samples where no objective is a share and so none asks for a number.
const MEAN_SAMPLES: u64 = 100;

/// Resolves a spec, under a profile where one is named.
///
/// # Errors
///
/// A profile that the spec does not have, objectives that can never pass with the samples allowed,
/// and a worst case above `limits.max_tokens`; each at its line.
pub fn resolve(spec: &Spec, profile: Option<&str>) -> Result<Plan, SpecErrors> {
    let Some(settings) = spec.settings(profile) else {
        return Err(spec.mistakes(vec![no_profile(spec, profile.unwrap_or_default())]));
    };
    let mut mistakes = Vec::new();
    let sampling = sampling(spec, settings, &mut mistakes);
    mistakes.extend(out_of_reach(spec, settings, &sampling));
    let combinations: Vec<_> = spec.cells().collect();
    let objectives: Vec<Objective> = settings.slos.iter().map(|slo| slo.value.clone()).collect();
    let (digest, core_digest) = digests(spec, settings, &sampling, &combinations);
    let cells: Vec<Cell> = combinations
        .into_iter()
        .flat_map(|(relay, model, workload)| {
            places(spec, relay).map(move |region| (relay, model, workload, region))
        })
        .map(|(relay, model, workload, region)| Cell {
            objectives: objectives.clone(),
            ..cell(relay, model, workload, region, &digest)
        })
        .collect();
    let calibrations = calibrations(spec, settings, &cells, &digest);
    let cells: Vec<Cell> = cells.into_iter().chain(calibrations).collect();
    let baselines = baselines(spec, settings, &cells, &digest);
    mistakes.extend(unpriced(settings, cells.iter().chain(&baselines)));
    mistakes.extend(too_many_tokens(settings, &sampling, &cells));
    if !mistakes.is_empty() {
        return Err(spec.mistakes(mistakes));
    }
    Ok(Plan {
        name: spec.name().to_owned(),
        source: spec.source().to_owned(),
        spec_sha256: spec.sha256().to_owned(),
        digest,
        core_digest,
        sampling,
        judge: settings.judge.clone(),
        otel: spec.otel().clone(),
        windows: spec.windows().to_vec(),
        regions: spec.regions().to_vec(),
        pair_ppm: spec.baseline().map_or(0, |it| it.pair_ppm),
        cells,
        baselines,
    })
}

fn no_profile(spec: &Spec, wanted: &str) -> SpecError {
    let names = || spec.profiles();
    let error = SpecError::new(0..0, format!("this spec has no profile `{wanted}`"));
    match did_you_mean(wanted, names()) {
        Some(near) => error.help(format!("did you mean `{near}`?")),
        None if names().next().is_none() => {
            error.help(format!("add one: `profiles: {{ {wanted}: {{}} }}`"))
        }
        None => error.help(format!("its profiles are {}", listed(names()))),
    }
}

/// How samples are drawn, every default filled in.
fn sampling(spec: &Spec, settings: &Settings, mistakes: &mut Vec<SpecError>) -> Sampling {
    let Drawing {
        seed,
        rate_per_s,
        max_samples,
        concurrency,
        warmup,
        max_tokens,
        max_duration,
        max_cost_usd,
        mode: _,
        duration,
        start_unix_ns,
    } = &settings.drawing;
    let soak = duration.filter(|_| settings.drawing.timing() == Timing::Soak);
    let embedded = |relay: &RelaySpec| matches!(relay.relay.endpoint, Endpoint::Simulate(_));
    let usual_rate = if spec.relays().iter().all(embedded) {
        EMBEDDED_RATE
    } else {
        RATE
    };
    let most = match (max_samples, soak) {
        (Some(written), _) => written.value,
        (None, Some(duration)) => {
            let votes = duration
                .as_micros()
                .div_ceil(settings.judge.bucket.as_micros().max(1));
            let votes = u64::try_from(votes).unwrap_or(u64::MAX);
            votes.saturating_mul(PER_VOTE).min(MOST_SAMPLES)
        }
        (None, None) => enough_samples(settings, mistakes),
    };
    Sampling {
        seed: seed.unwrap_or_else(|| usual_seed(spec.name())),
        rate_per_s: match soak {
            Some(duration) => crate::stats::float(most) / duration.as_secs_f64(),
            None => rate_per_s.unwrap_or(usual_rate),
        },
        max_samples: most,
        concurrency: concurrency.unwrap_or(CONCURRENCY),
        warmup: warmup.unwrap_or(0),
        max_tokens: max_tokens.as_ref().map(|written| written.value),
        max_duration: *max_duration,
        max_cost_usd: max_cost_usd.as_ref().map(|written| written.value),
        mode: settings.drawing.timing(),
        duration: soak,
        start_unix_ns: start_unix_ns.filter(|_| soak.is_some()),
    }
}

/// Samples for each vote of a soak that says no number: a vote of one sample has less power, and
/// each further one adds less.
const PER_VOTE: u64 = 4;

/// The seed of a spec that names none: the same for the same name, another for another.
fn usual_seed(name: &str) -> u64 {
    let hash = Sha256::digest(format!("seed of {name}"));
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash[..8]);
    // Seeds are written in YAML and JSON: 53 bits survive every reader.
    u64::from_le_bytes(bytes) >> 11
}

/// The samples with which a relay at a fifth of the allowed failure odds passes nine times out of
/// ten, for the most demanding objective that gates (of any, where none gates).
fn enough_samples(settings: &Settings, mistakes: &mut Vec<SpecError>) -> u64 {
    let gates = settings.slos.iter().any(|slo| slo.value.gates());
    let mut most = None;
    for slo in &settings.slos {
        if gates && !slo.value.gates() {
            continue;
        }
        let Some(outlook) = Outlook::of(&slo.value, &settings.judge) else {
            continue;
        };
        match outlook.n90(MOST_SAMPLES) {
            Some(n90) => most = most.max(Some(n90)),
            None => mistakes.push(
                SpecError::new(
                    slo.span.clone(),
                    "this objective needs more samples than a cell can take",
                )
                .label(format!(
                    "more than {MOST_SAMPLES} to pass a good relay nine times out of ten"
                ))
                .help("ask for less, or set `sampling.max_samples` yourself"),
            ),
        }
    }
    most.unwrap_or(MEAN_SAMPLES)
}

/// Objectives that no relay can be shown to meet within the samples, or votes, allowed.
fn out_of_reach(spec: &Spec, settings: &Settings, sampling: &Sampling) -> Vec<SpecError> {
    if settings.judge.mode == Mode::Guard {
        return Vec::new();
    }
    let gating = settings.slos.iter().filter(|slo| slo.value.gates());
    if let Some(duration) = sampling.duration {
        return gating
            .filter_map(|slo| too_few_votes(spec, settings, sampling, duration, slo))
            .collect();
    }
    // The region with the fewest samples of its own decides.
    let places = spec.relays().iter().flat_map(|relay| places(spec, relay));
    let shares = places.flatten().map(|region| region.share_ppm);
    let share = u128::from(shares.min().unwrap_or(1_000_000));
    let most = (u128::from(sampling.max_samples) * share).div_ceil(1_000_000);
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    gating
        .filter_map(|slo| {
            let outlook = Outlook::of(&slo.value, &settings.judge)?;
            let needed = outlook.clean_samples();
            if needed <= most {
                return None;
            }
            Some(can_never_pass(slo, &outlook, needed, most))
        })
        .collect()
}

/// Whether a soak is too short for an objective: for its votes, or for its days.
fn too_few_votes(
    spec: &Spec,
    settings: &Settings,
    sampling: &Sampling,
    duration: Duration,
    slo: &Written<Objective>,
) -> Option<SpecError> {
    let outlook = Outlook::of(&slo.value, &settings.judge)?;
    let window = slo.value.window.as_deref();
    let window = window.and_then(|name| spec.windows().iter().find(|it| it.name == name));
    let calendar = match window {
        Some(window) => Calendar::of(window)?,
        None => Calendar::days(window::UTC)?,
    };
    let bucket = settings.judge.bucket;
    // Without a beginning any will do: what it moves is one vote more or less.
    let start = sampling.start_unix_ns.unwrap_or(0);
    let (mut votes, mut days, mut last) = (0, 0, None);
    let mut at = Duration::ZERO;
    while at < duration {
        let nanos = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        if let Some(day) = calendar.day(start.saturating_add(nanos)) {
            votes += 1;
            days += u32::from(last != Some(day));
            last = Some(day);
        }
        at += bucket;
    }
    let needed = outlook.clean_samples();
    let whose = window.map_or_else(String::new, |window| format!(" of `{}`", window.name));
    if needed > votes {
        return Some(
            SpecError::new(
                slo.span.clone(),
                "this objective can never pass in so short a soak",
            )
            .label(format!(
                "needs {needed} votes{whose} without a failure; {} in {} are {votes}",
                shown(bucket),
                shown(duration),
            ))
            .help(format!(
                "lengthen `sampling.duration`, shorten `judge.bucket`, ask for less ({votes} clean \
                 votes prove at most {}), or set `judge.mode: guard`",
                percent(outlook.provable_ppm(votes) / 1000 * 1000),
            )),
        );
    }
    (days < settings.judge.min_days).then(|| {
        SpecError::new(
            slo.span.clone(),
            "this objective can never pass on so few days",
        )
        .label(format!(
            "a pass needs {} days{whose}; the soak sees {days}",
            settings.judge.min_days
        ))
        .help("lengthen `sampling.duration`, or lower `judge.min_days`")
    })
}

/// A duration in the largest unit that divides it.
fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{duration:?}"),
        _ if seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        _ if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        _ if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

fn can_never_pass(
    slo: &Written<Objective>,
    outlook: &Outlook,
    needed: u64,
    most: u64,
) -> SpecError {
    let provable = outlook.provable_ppm(most);
    // As the user wrote it: `p95`, or the share of a yes/no metric.
    let subject = slo.value.text.split(' ').next().unwrap_or_default();
    let share = subject.split_once('.').map_or_else(
        || percent(outlook.required_ppm()),
        |(_, quantile)| quantile.to_owned(),
    );
    SpecError::new(
        slo.span.clone(),
        "this objective can never pass with so few samples",
    )
    .label(format!(
        "{share} at {} confidence needs {needed} samples without a failure; \
         `sampling.max_samples` is {most}",
        percent(outlook.confidence_ppm()),
    ))
    .help(format!(
        "raise `max_samples` to {needed}, ask for less ({most} clean samples prove at most \
         {}), or set `judge.mode: guard`",
        percent(provable / 1000 * 1000),
    ))
}

/// A worst case that the spec's own limit would cut short.
fn too_many_tokens(settings: &Settings, sampling: &Sampling, cells: &[Cell]) -> Option<SpecError> {
    let limit = settings.drawing.max_tokens.as_ref()?;
    let per_round = budget::tokens_per_round(cells);
    let calls = sampling.max_samples + u64::from(sampling.warmup);
    let worst = per_round.saturating_mul(calls);
    if worst <= limit.value {
        return None;
    }
    let fitting = (limit.value / per_round.max(1)).saturating_sub(u64::from(sampling.warmup));
    let fewer = if fitting > 0 {
        format!("lower `max_samples` to {fitting}")
    } else {
        "test fewer cells or ask for shorter answers".to_owned()
    };
    Some(
        SpecError::new(
            limit.span.clone(),
            "this plan can use more tokens than its limit",
        )
        .label(format!(
            "{calls} calls to each of {} cell{} use up to {worst} tokens",
            cells.len(),
            if cells.len() == 1 { "" } else { "s" },
        ))
        .help(format!(
            "raise the limit to {worst}, {fewer}, or lower `max_tokens` of the workloads"
        )),
    )
}

/// A cell for which nothing is promised yet.
fn cell(
    relay: &RelaySpec,
    model: &str,
    workload: &Workload,
    region: Option<Region>,
    digest: &str,
) -> Cell {
    let cell = Cell {
        relay: relay.relay.clone(),
        model: model.to_owned(),
        workload: workload.clone(),
        objectives: Vec::new(),
        id: String::new(),
        ignored: relay.ignored.clone(),
        price: relay.pricing.get(model).copied(),
        region,
        beside: None,
    };
    identified(cell, digest)
}

fn identified(mut cell: Cell, digest: &str) -> Cell {
    cell.id = super::schedule::short_hash(&["cell", digest, &cell.name()]);
    cell
}

/// The regions from which a relay is sampled, with their shares of its own samples; one nameless
/// place where the spec has no regions.
fn places(spec: &Spec, relay: &RelaySpec) -> impl Iterator<Item = Option<Region>> + use<> {
    let named = |region: &&Region| relay.regions.is_empty() || relay.regions.contains(&region.name);
    let own: Vec<Region> = spec.regions().iter().filter(named).cloned().collect();
    let whole: u64 = own.iter().map(|region| u64::from(region.share_ppm)).sum();
    let share = move |region: Region| {
        let scaled = u64::from(region.share_ppm) * 1_000_000 / whole.max(1);
        Some(Region {
            share_ppm: u32::try_from(scaled).unwrap_or(1_000_000),
            ..region
        })
    };
    let nameless = own.is_empty().then_some(None);
    own.into_iter().map(share).chain(nameless)
}

/// The trusted upstream beside each cell whose model it has; only a soak pairs.
fn baselines(spec: &Spec, settings: &Settings, cells: &[Cell], digest: &str) -> Vec<Cell> {
    let Some(baseline) = spec.baseline() else {
        return Vec::new();
    };
    let upstream = &baseline.relay;
    let has = |model: &String| upstream.models.is_empty() || upstream.models.contains(model);
    cells
        .iter()
        .filter(|cell| settings.drawing.timing() == Timing::Soak && has(&cell.model))
        .map(|beside| {
            let region = beside.region.clone();
            let cell = cell(upstream, &beside.model, &beside.workload, region, digest);
            let beside = Some(beside.name());
            identified(Cell { beside, ..cell }, digest)
        })
        .collect()
}

/// One fixed prompt to each relay and model that the trusted upstream has, too, from each region.
fn calibrations(spec: &Spec, settings: &Settings, cells: &[Cell], digest: &str) -> Vec<Cell> {
    let samples = spec.baseline().and_then(|it| it.calibration);
    let Some(samples) = samples.filter(|_| settings.drawing.timing() == Timing::Soak) else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let mut own: Vec<Cell> = Vec::new();
    for cell in cells {
        let region = cell.region.as_ref().map(|it| it.name.clone());
        if seen.insert((cell.relay.name.clone(), cell.model.clone(), region)) {
            let calibration = Cell {
                workload: calibration(samples),
                objectives: Vec::new(),
                ..cell.clone()
            };
            own.push(identified(calibration, digest));
        }
    }
    own
}

/// A cap on what calls cost needs their prices.
fn unpriced<'a>(
    settings: &Settings,
    mut cells: impl Iterator<Item = &'a Cell>,
) -> Option<SpecError> {
    let limit = settings.drawing.max_cost_usd.as_ref()?;
    let embedded = |cell: &Cell| matches!(cell.relay.endpoint, Endpoint::Simulate(_));
    let cell = cells.find(|cell| cell.price.is_none() && !embedded(cell))?;
    Some(
        SpecError::new(
            limit.span.clone(),
            "a limit of cost cannot be kept without prices",
        )
        .label(format!(
            "`{}` says no price for `{}`",
            cell.relay.name, cell.model
        ))
        .help(format!(
            "add `pricing: {{ {}: {{ input: 0.15, output: 0.60 }} }}` to it, in dollars per \
             million tokens, or limit `max_tokens` instead",
            cell.model
        )),
    )
}

/// SHA-256 of everything that decides what is sent and how it is judged, with the budget and
/// without it.
///
/// Left out on purpose: header values and proxy passwords (secrets), key commands (may hold one),
/// where in the text things stand (comments move them), and what only concerns reports (prices too).
fn digests(
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

/// The part of a URL behind user and password.
pub(super) fn without_user_info(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority_end = rest.find('/').unwrap_or(rest.len());
    rest[..authority_end]
        .rfind('@')
        .map_or(rest, |at| &rest[at + 1..])
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
