//! Drives the samples of a cell: pacing, attempts, retries, cancellation. The only clock.
//!
//! Knows plans, dialects and exchanges; never objectives or verdicts.

pub mod cancel;
pub mod clock;
pub mod hooks;
pub mod raw;
pub mod reqwest_client;
pub mod tls;
pub mod transport;
