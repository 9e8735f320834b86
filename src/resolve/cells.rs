//! The cells of a plan: from each region, of a calibration, and beside them the trusted upstream.

use std::collections::BTreeSet;

use crate::plan::{Cell, Region, Timing, Workload, short_hash};
use crate::spec::{RelaySpec, Settings, Spec, calibration};

/// A cell for which nothing is promised yet.
pub(super) fn cell(
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
    cell.id = short_hash(&["cell", digest, &cell.name()]);
    cell
}

/// The regions from which a relay is sampled, with their shares of its own samples; one nameless
/// place where the spec has no regions.
pub(super) fn places(
    spec: &Spec,
    relay: &RelaySpec,
) -> impl Iterator<Item = Option<Region>> + use<> {
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
pub(super) fn baselines(
    spec: &Spec,
    settings: &Settings,
    cells: &[Cell],
    digest: &str,
) -> Vec<Cell> {
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
pub(super) fn calibrations(
    spec: &Spec,
    settings: &Settings,
    cells: &[Cell],
    digest: &str,
) -> Vec<Cell> {
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
