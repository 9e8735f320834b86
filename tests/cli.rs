//! The command `relayproof` from outside: the real binary, real sockets, real files.
//!
//! Nothing here sleeps to let something happen; upper bounds are many seconds, for busy machines.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

#[path = "cli/collecting.rs"]
mod collecting;
#[path = "cli/collector.rs"]
mod collector;
#[path = "cli/compare.rs"]
mod compare;
#[path = "cli/continuing.rs"]
mod continuing;
#[path = "cli/counts.rs"]
mod counts;
#[path = "cli/documents.rs"]
mod documents;
#[path = "cli/ends.rs"]
mod ends;
#[path = "cli/exits.rs"]
mod exits;
#[path = "cli/explaining.rs"]
mod explaining;
#[path = "cli/honesty.rs"]
mod honesty;
#[path = "cli/init.rs"]
mod init;
#[path = "cli/inspecting.rs"]
mod inspecting;
#[path = "cli/mistakes.rs"]
mod mistakes;
#[path = "cli/place.rs"]
mod place;
#[path = "cli/probe.rs"]
mod probe;
#[path = "cli/ramp.rs"]
mod ramp;
#[path = "cli/reports.rs"]
mod reports;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/server.rs"]
mod server;
#[path = "cli/shells.rs"]
mod shells;
#[path = "cli/signed.rs"]
mod signed;
#[path = "cli/soak.rs"]
mod soak;
#[path = "cli/stopped.rs"]
mod stopped;
#[path = "cli/traces.rs"]
mod traces;
#[path = "cli/verifying.rs"]
mod verifying;
#[path = "cli/waterfall.rs"]
mod waterfall;
