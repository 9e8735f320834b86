//! The first line of a cell's evidence, made from its plan.

use sha2::{Digest, Sha256};

use super::host_name;
use crate::evidence::{Fingerprint, Header, SCHEMA};
use crate::plan::{Cell, OtelSettings, Plan};

/// What a plan does not say of the evidence of a cell.
pub(super) struct Origin {
    /// The run's name.
    pub(super) run_id: String,
    /// When sampling of the cell began, nanoseconds since the epoch.
    pub(super) started_unix_ns: u64,
    /// Where the calls go.
    pub(super) base_url: String,
    /// How the addresses of its traces are made.
    pub(super) trace_url: Option<String>,
}

/// The first line of a cell's evidence.
pub(super) fn header(plan: &Plan, cell: &Cell, origin: Origin) -> Header {
    Header {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        run_id: origin.run_id,
        started_unix_ns: origin.started_unix_ns,
        host: host_name(),
        spec_name: plan.name.clone(),
        spec_source: plan.source.clone(),
        spec_sha256: plan.spec_sha256.clone(),
        plan_digest: plan.digest.clone(),
        core_digest: plan.core_digest.clone(),
        cell_id: cell.id.clone(),
        cell: cell.name(),
        relay: cell.relay.name.clone(),
        model: cell.model.clone(),
        workload: cell.workload.name.clone(),
        base_url: origin.base_url,
        protocol: cell.relay.protocol,
        transport: cell.relay.transport,
        stream: cell.relay.stream,
        max_tokens: cell.max_tokens(),
        prompt: cell
            .workload
            .messages
            .iter()
            .map(|message| Fingerprint {
                role: message.role.clone(),
                chars: message.content.chars().count() as u64,
                sha256: Sha256::digest(message.content.as_bytes())
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect(),
            })
            .collect(),
        sampling: cell.sampling(&plan.sampling),
        judge: plan.judge.clone(),
        otel: OtelSettings {
            trace_url: origin.trace_url,
            ..plan.otel.clone()
        },
        objectives: cell.objectives.clone(),
        price: cell.price,
        seal_allowance_ppm: cell.seal_allowance_ppm(),
        spec_cells: Some(plan.cells.len() as u64),
        propagation: cell.relay.propagate,
        earlier_runs: Vec::new(),
        region: cell.region.as_ref().map(|region| region.name.clone()),
        regions: plan.regions.clone(),
        windows: plan.windows.clone(),
        beside: cell.beside.clone(),
        pair_ppm: cell.pair_ppm(plan.pair_ppm),
        concurrency: cell.workload.concurrency,
        calibration: cell.workload.calibration.is_some(),
        segment: None,
    }
}
