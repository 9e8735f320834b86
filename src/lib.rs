//! Acceptance tests for LLM API relays.
//!
//! A crate that tests its relays needs [`main`], or [`Suite`] where its specs are made in code, and
//! the feature `harness`. The modules are what the tests and the command stand on; they may change
//! with every version until 1.0 (docs/library.md).
//!
//! Modules in the order in which data flows: a [`spec`] is resolved to a [`plan`]; the probe asks
//! through a [`dialect`], watches the [`stream`] and writes an [`observation`] into [`evidence`];
//! [`measure`] gives it values, [`verdict`] decides and [`attribution`] says where to look.

#![forbid(unsafe_code)]

pub mod attribution;
#[cfg(feature = "cli")]
pub mod cli;
pub mod compare;
pub mod dialect;
pub mod evidence;
pub mod expect;
pub mod glossary;
#[cfg(feature = "harness")]
mod harness;
pub mod measure;
pub mod observation;
pub mod plan;
#[cfg(feature = "probe")]
pub mod probe;
#[cfg(feature = "harness")]
mod progress;
pub mod report;
#[cfg(feature = "harness")]
pub mod run;
#[cfg(feature = "harness")]
pub mod session;
#[cfg(feature = "sign")]
pub mod sign;
pub mod signals;
#[cfg(feature = "sim")]
pub mod sim;
pub mod spec;
pub mod stats;
pub mod stream;
#[cfg(feature = "otel")]
pub mod telemetry;
pub mod verdict;

#[cfg(feature = "harness")]
pub use harness::{Suite, main};

/// The examples of the documentation's pages, compiled with the crate's own.
#[cfg(all(doctest, feature = "harness"))]
mod pages {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/library.md")]
    mod library {}
}
