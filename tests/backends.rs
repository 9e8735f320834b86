//! The real programs: our spans through the shipped Collector configuration into Jaeger and back.
//!
//! Needs the binaries that tests/backends/build.sh makes, in `.cache/bin` or the folder that
//! `RELAYPROOF_BACKENDS` names; says so where they are missing.
#![cfg(all(feature = "otel", feature = "cli", unix))]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::explicit_write,
    clippy::wildcard_enum_match_arm,
    reason = "a test fails by panicking, waits for programs, and must say aloud that it skips"
)]

#[path = "backends/canary.rs"]
mod canary;
#[path = "backends/library.rs"]
mod library;
#[path = "telemetry/make.rs"]
mod make;
#[path = "backends/outages.rs"]
mod outages;
#[path = "backends/programs.rs"]
mod programs;
#[expect(dead_code, reason = "written for more tests than are here")]
#[path = "telemetry/receiver.rs"]
mod receiver;
#[path = "backends/runs.rs"]
mod runs;
#[path = "backends/shipped.rs"]
mod shipped;
#[path = "backends/table.rs"]
mod table;
#[path = "backends/truth.rs"]
mod truth;
