//! A soak of seven days in seconds: the scheduler on a clock of its own, and replayed observations.
//!
//! One thread, and tokio's paused clock: each run of it is the same.
#![cfg(feature = "harness")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are not seen as tests")]

#[path = "soak/verdicts.rs"]
mod verdicts;
#[path = "soak/virtual_time.rs"]
mod virtual_time;
#[path = "soak/week.rs"]
mod week;
