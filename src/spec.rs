//! What a user may write: YAML text in, a valid [`Spec`] or every mistake out. No IO.
//!
//! The text becomes a tree with places (`tree`), placeholders are filled in (`interpolate`),
//! inheritance is resolved (`inherit`), and a reader that never stops at a mistake (`reader`)
//! turns the rest into types that cannot hold a contradiction.

mod campaign;
mod coherence;
mod duration;
mod error;
mod expect;
mod inherit;
mod interpolate;
mod parse;
mod reader;
mod relay;
pub mod schema;
mod secret;
mod settings;
mod simulate;
mod telemetry;
mod tree;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub use error::{SpecError, SpecErrors};
pub(crate) use relay::RelaySpec;
pub(crate) use settings::{Drawing, MOST_SAMPLES, Settings, Written};
#[cfg(feature = "cli")]
pub(crate) use workload::MOST_STREAMS;
pub(crate) use workload::calibration;

use crate::objective::quantity;
use crate::plan::window::Window;
use crate::plan::{OtelSettings, Region, Workload};

/// A valid spec file: what was asked, before defaults become numbers.
///
/// `Debug` shows neither the text nor anything that may be secret.
#[derive(Clone, PartialEq)]
pub struct Spec {
    name: String,
    source: String,
    /// The text with its secrets masked, for errors that show only when the spec is resolved.
    text: String,
    sha256: String,
    relays: Vec<RelaySpec>,
    workloads: Vec<Workload>,
    excluded: Vec<Exclusion>,
    settings: Settings,
    profiles: BTreeMap<String, Settings>,
    otel: OtelSettings,
    windows: Vec<Window>,
    regions: Vec<Region>,
    baseline: Option<Baseline>,
}

/// The trusted upstream itself, and how often it is asked beside a relay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Baseline {
    /// The upstream; without models, it is asked for those of the relays.
    pub(crate) relay: RelaySpec,
    /// Share of the slots, in parts per million.
    pub(crate) pair_ppm: u32,
    /// Calls of a calibration, of each side, where there is one.
    pub(crate) calibration: Option<u64>,
}

/// Faults of the embedded relay that a spec can ask for, and the parameters of each.
#[cfg(feature = "cli")]
pub(crate) fn faults() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    simulate::FAULTS.iter().copied()
}

/// Reads a duration as specs write it: `1.5s`, `150ms`.
///
/// # Errors
///
/// Says what is wrong and what to write.
pub fn duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|wrong| format!("{}; {}", wrong.why, wrong.way_out))
}

/// Reads a percentage as specs write it, `99.5%`, as parts per million.
///
/// # Errors
///
/// Says what is wrong and what to write.
pub fn percentage(text: &str) -> Result<u32, String> {
    quantity::share_ppm(text.trim()).map_err(|wrong| format!("{}; {}", wrong.why, wrong.way_out))
}

/// Reads `99.5%` as a share.
///
/// # Errors
///
/// Says what is wrong and what to write.
pub fn share(text: &str) -> Result<f64, String> {
    Ok(f64::from(percentage(text)?) / 1e6)
}

/// The text of a spec file.
///
/// # Errors
///
/// Where it is not UTF-8.
pub fn decode(source: &str, bytes: Vec<u8>) -> Result<String, SpecErrors> {
    let utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    let error = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let at = error.utf8_error().valid_up_to();
    // Shown in its stead; up to `at` both texts are the same.
    let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
    let mistake = SpecError::new(at..at + 1, "this file is not UTF-8")
        .label(if utf16 {
            "this is how UTF-16 begins"
        } else {
            "a byte that is no UTF-8"
        })
        .help("save the file as UTF-8");
    Err(SpecErrors::new(
        source,
        secret::mask_unread(&text),
        vec![mistake],
    ))
}

/// Reads a spec.
///
/// `source` is the path to show in errors; `env` looks up environment variables for
/// `${env.NAME}`, never for API keys.
///
/// # Errors
///
/// All mistakes of the text at once; only a syntax error stops at the first.
pub fn parse(
    source: &str,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Spec, SpecErrors> {
    parse::parse(source, text, env)
}

impl Spec {
    /// Name of the spec; the file's where it names none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Path as given.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// SHA-256 of the text as read, hex.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Names of the overlays.
    pub fn profiles(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }

    /// Telemetry settings.
    pub fn otel(&self) -> &OtelSettings {
        &self.otel
    }

    /// How samples are drawn and judged, under a profile.
    pub(crate) fn settings(&self, profile: Option<&str>) -> Option<&Settings> {
        match profile {
            None => Some(&self.settings),
            Some(name) => self.profiles.get(name),
        }
    }

    /// The relays, in spec order.
    pub(crate) fn relays(&self) -> &[RelaySpec] {
        &self.relays
    }

    /// Relay, model and workload of each cell, in spec order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&RelaySpec, &str, &Workload)> {
        combinations(&self.relays, &self.workloads, &self.excluded)
    }

    /// Parts of the day that objectives refer to.
    pub(crate) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Where probes stand.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The trusted upstream.
    pub(crate) const fn baseline(&self) -> Option<&Baseline> {
        self.baseline.as_ref()
    }

    /// Mistakes of this spec, ready to be shown.
    pub(crate) fn mistakes(&self, errors: Vec<SpecError>) -> SpecErrors {
        SpecErrors::new(&self.source, self.text.clone(), errors)
    }
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("relays", &self.relays)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// Combinations that are left out; an absent part stands for all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exclusion {
    relay: Option<String>,
    model: Option<String>,
    workload: Option<String>,
}

impl Exclusion {
    fn covers(&self, relay: &RelaySpec, model: &str, workload: &Workload) -> bool {
        let hit = |part: &Option<String>, name: &str| part.as_deref().is_none_or(|it| it == name);
        hit(&self.relay, &relay.relay.name)
            && hit(&self.model, model)
            && hit(&self.workload, &workload.name)
    }
}

/// Relay × model × workload without what is excluded.
fn combinations<'s>(
    relays: &'s [RelaySpec],
    workloads: &'s [Workload],
    excluded: &'s [Exclusion],
) -> impl Iterator<Item = (&'s RelaySpec, &'s str, &'s Workload)> {
    relays
        .iter()
        .flat_map(|relay| {
            relay
                .models
                .iter()
                .map(move |model| (relay, model.as_str()))
        })
        .flat_map(move |(relay, model)| {
            workloads
                .iter()
                .map(move |workload| (relay, model, workload))
        })
        .filter(move |(relay, model, workload)| {
            !excluded.iter().any(|it| it.covers(relay, model, workload))
        })
}
