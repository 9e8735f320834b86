//! Telemetry against a receiver of our own: what arrives, what is counted, what is never shown.
#![cfg(feature = "otel")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking and looks at the clock"
)]

#[path = "telemetry/make.rs"]
mod make;
#[path = "telemetry/receiver.rs"]
mod receiver;

#[path = "telemetry/account.rs"]
mod account;
#[path = "telemetry/again.rs"]
mod again;
#[cfg(feature = "grpc")]
#[path = "telemetry/grpc.rs"]
mod grpc;
#[path = "telemetry/metrics.rs"]
mod metrics;
#[path = "telemetry/tree.rs"]
mod tree;

use std::collections::HashMap;
use std::path::Path;

use relayproof::telemetry::{RunInfo, SuiteInfo, Telemetry};

/// A run in a folder.
fn run(folder: &Path) -> RunInfo {
    RunInfo {
        run_id: "20251124T160000Z-4f2a".into(),
        folder: folder.to_owned(),
        host: "probe-1".into(),
    }
}

/// Telemetry of that run under an environment of its own.
fn start(folder: &Path, env: &[(&str, &str)]) -> Telemetry {
    let env: HashMap<String, String> = env
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Telemetry::start(&run(folder), &|name| env.get(name).cloned())
}

fn suite() -> SuiteInfo {
    SuiteInfo {
        spec: "chat".into(),
        plan: "cd".repeat(32),
        spec_sha256: "ab".repeat(32),
        cells: 1,
        planned_samples: 232,
        ci_parent: false,
    }
}
