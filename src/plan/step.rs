//! One step of a climb: a cell at a stated number of open calls, as a plan of its own.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Cell, Judging, Method, Plan, Sampling, Scope, Timing};
use crate::words::hex;

/// What one step asks of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Calls that are held open at all times.
    pub streams: u32,
    /// Most calls.
    pub calls: u64,
    /// Longest time in which calls are started; `None`: until all of them are.
    pub time: Option<Duration>,
}

impl Plan {
    /// A cell of this plan at a step, as a plan of that one cell: named `workload@streams`, without
    /// warm-ups, and judged by one look at the end, so that no verdict ends the step early.
    pub fn at_step(&self, cell: &Cell, step: Step) -> Self {
        let mut cell = cell.clone();
        cell.workload.name = format!("{}@{}", cell.workload.name, step.streams);
        cell.workload.concurrency = Some(step.streams);
        if let Some(region) = &mut cell.region {
            // A step is as large as it is asked for wherever it is taken.
            region.share_ppm = 1_000_000;
        }
        let core_digest = digest(&["step", &self.core_digest, &cell.name()]);
        let budget = format!("{} calls, {:?}", step.calls, step.time);
        let digest = digest(&["step", &self.digest, &cell.name(), &budget]);
        cell.id = super::schedule::short_hash(&["cell", &digest, &cell.name()]);
        let limits = [self.sampling.max_duration, step.time];
        Self {
            digest,
            core_digest,
            sampling: Sampling {
                max_samples: step.calls,
                concurrency: step.streams,
                warmup: 0,
                max_duration: limits.into_iter().flatten().min(),
                mode: Timing::Burst,
                duration: None,
                start_unix_ns: None,
                ..self.sampling.clone()
            },
            judge: Judging {
                method: Method::Wilson,
                futility: false,
                scope: Scope::Run,
                ..self.judge.clone()
            },
            pair_ppm: 0,
            cells: vec![cell],
            baselines: Vec::new(),
            ..self.clone()
        }
    }
}

fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize())
}
