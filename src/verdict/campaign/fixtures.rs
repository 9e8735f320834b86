//! Soaks as they might have been: whole weeks, planned from a spec and answered by a function.

use std::time::Duration;

use super::soak::nanos;
use crate::evidence::fixtures::{header, sample};
use crate::evidence::{Evidence, Header, Line, Sample};
use crate::observation::Observation;
use crate::plan::window::moment;
use crate::plan::{Cell, Plan, Slot};
use crate::resolve::resolve;
use crate::spec;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A week from the first of December, Shanghai time.
pub(crate) fn week(more: &str) -> Plan {
    week_of(4032, more)
}

pub(crate) fn week_of(samples: u64, more: &str) -> Plan {
    week_among(ALPHA, samples, more)
}

/// A relay as the specs of these weeks write it.
pub(crate) const ALPHA: &str = "{ name: alpha, base_url: \"https://a.example/v1\", models: [m] }";

/// A week of several relays.
pub(crate) fn week_among(relays: &str, samples: u64, more: &str) -> Plan {
    let text = format!(
        "relayproof: 1
name: week
relays: [{relays}]
windows: [{{ name: peak, daily: \"21:00-01:00\", tz: Asia/Shanghai }}]
sampling: {{ seed: 7, mode: soak, duration: 7d, start: 2026-12-01T00:00:00+08:00, max_samples: {samples} }}
{more}"
    );
    let spec = spec::parse("week.yaml", &text, &|_| None).unwrap();
    resolve(&spec, None).unwrap()
}

pub(crate) const PROMISES: &str = "slos:
  - success_in_4 >= 99%
  - { expect: ttft.p95 < 1.5s, window: peak }
";

pub(crate) fn headed(plan: &Plan, cell: &Cell) -> Header {
    Header {
        started_unix_ns: plan.sampling.start_unix_ns.unwrap(),
        spec_name: plan.name.clone(),
        spec_sha256: plan.spec_sha256.clone(),
        spec_cells: Some(plan.cells.len() as u64),
        plan_digest: plan.digest.clone(),
        core_digest: plan.core_digest.clone(),
        price: cell.price,
        cell_id: cell.id.clone(),
        cell: cell.name(),
        relay: cell.relay.name.clone(),
        model: cell.model.clone(),
        workload: cell.workload.name.clone(),
        sampling: cell.sampling(&plan.sampling),
        judge: plan.judge.clone(),
        region: cell.region.as_ref().map(|region| region.name.clone()),
        regions: plan.regions.clone(),
        windows: plan.windows.clone(),
        beside: cell.beside.clone(),
        pair_ppm: plan.pair_ppm,
        ..header(cell.objectives.clone(), 1)
    }
}

/// What is seen at each slot of each cell; nothing where nobody sampled.
pub(crate) fn recorded(
    plan: &Plan,
    seen: impl Fn(&Cell, &Slot) -> Option<Observation>,
) -> Vec<Evidence> {
    let record = |cell: &Cell, slots: &mut dyn Iterator<Item = Slot>| {
        let mut evidence = Evidence::new(headed(plan, cell));
        let start = evidence.header.started_unix_ns;
        for slot in slots {
            let Some(observation) = seen(cell, &slot) else {
                continue;
            };
            let at = slot.start;
            evidence.push(Line::Sample(Box::new(Sample {
                id: slot.id,
                planned: at,
                t0_unix_ns: start + nanos(at),
                lag: Duration::ZERO,
                ..sample(slot.index, observation)
            })));
        }
        evidence
    };
    let own = plan
        .cells
        .iter()
        .map(|cell| record(cell, &mut cell.slots(&cell.sampling(&plan.sampling))));
    let upstream = plan.baselines.iter().map(|upstream| {
        let beside = upstream.beside.as_deref();
        let cell = plan
            .cells
            .iter()
            .find(|it| Some(&*it.name()) == beside)
            .unwrap();
        let sampling = cell.sampling(&plan.sampling);
        record(
            upstream,
            &mut upstream.paired_slots(cell, &sampling, plan.pair_ppm),
        )
    });
    own.chain(upstream).collect()
}

pub(crate) fn at(text: &str) -> u64 {
    moment(text).unwrap()
}
