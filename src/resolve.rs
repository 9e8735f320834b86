//! From a spec to a plan: every default a number, every promise within reach, every id fixed.

mod cells;
mod digest;
mod reach;

use sha2::{Digest, Sha256};

use self::cells::{baselines, calibrations, cell, places};
use crate::objective::Objective;
use crate::plan::budget::Outlook;
use crate::plan::{Cell, Endpoint, Plan, Sampling, Timing};
use crate::spec::{Drawing, MOST_SAMPLES, RelaySpec, Settings, Spec, SpecError, SpecErrors};
use crate::words::{did_you_mean, listed};

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
    mistakes.extend(reach::out_of_reach(spec, settings, &sampling));
    let combinations: Vec<_> = spec.cells().collect();
    let objectives: Vec<Objective> = settings.slos.iter().map(|slo| slo.value.clone()).collect();
    let (digest, core_digest) = digest::digests(spec, settings, &sampling, &combinations);
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
    mistakes.extend(reach::unpriced(settings, cells.iter().chain(&baselines)));
    let plan = Plan {
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
    };
    mistakes.extend(reach::too_many_tokens(settings, &plan));
    if mistakes.is_empty() {
        Ok(plan)
    } else {
        Err(spec.mistakes(mistakes))
    }
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
