//! Acceptance tests for LLM API relays.
//!
//! A crate that tests its relays needs [`main`], or [`Suite`] where its specs are made in code, and
//! the feature `harness`. That is all that Semantic Versioning holds for (docs/library.md).
//!
//! The modules are public for the command, the tests, the benchmarks and the fuzz targets of this
//! repository only; they are hidden here, and may change with every version. In the order in which
//! data flows: a `spec` is resolved (`resolve`) to a `plan`; the `probe` asks through a `dialect`,
//! watches the `stream` and writes an `observation` into `evidence`; `measure` gives it values for
//! each `objective`, `verdict` decides and `attribution` says where to look.
//! `cargo doc --document-hidden-items` (nightly) shows them.

#![forbid(unsafe_code)]

// Hidden where documentation is made, and only there: the compiler asks nobody to document what is
// hidden, and these are documented.
#[cfg_attr(doc, doc(hidden))]
pub mod attribution;
#[cfg(feature = "cli")]
#[cfg_attr(doc, doc(hidden))]
pub mod cli;
#[cfg_attr(doc, doc(hidden))]
pub mod compare;
#[cfg_attr(doc, doc(hidden))]
pub mod dialect;
#[cfg_attr(doc, doc(hidden))]
pub mod evidence;
#[cfg_attr(doc, doc(hidden))]
pub mod expect;
#[cfg_attr(doc, doc(hidden))]
pub mod forms;
#[cfg_attr(doc, doc(hidden))]
pub mod glossary;
#[cfg(feature = "harness")]
mod harness;
#[cfg_attr(doc, doc(hidden))]
pub mod measure;
#[cfg_attr(doc, doc(hidden))]
pub mod objective;
#[cfg_attr(doc, doc(hidden))]
pub mod observation;
#[cfg_attr(doc, doc(hidden))]
pub mod plan;
#[cfg(feature = "probe")]
#[cfg_attr(doc, doc(hidden))]
pub mod probe;
#[cfg(feature = "harness")]
mod progress;
#[cfg_attr(doc, doc(hidden))]
pub mod report;
#[cfg_attr(doc, doc(hidden))]
pub mod resolve;
#[cfg(feature = "harness")]
#[cfg_attr(doc, doc(hidden))]
pub mod run;
#[cfg(feature = "harness")]
#[cfg_attr(doc, doc(hidden))]
pub mod session;
#[cfg(feature = "sign")]
#[cfg_attr(doc, doc(hidden))]
pub mod sign;
#[cfg_attr(doc, doc(hidden))]
pub mod signals;
#[cfg(feature = "sim")]
#[cfg_attr(doc, doc(hidden))]
pub mod sim;
#[cfg_attr(doc, doc(hidden))]
pub mod spec;
#[cfg_attr(doc, doc(hidden))]
pub mod stats;
#[cfg_attr(doc, doc(hidden))]
pub mod stream;
#[cfg(feature = "otel")]
#[cfg_attr(doc, doc(hidden))]
pub mod telemetry;
#[cfg_attr(doc, doc(hidden))]
pub mod verdict;
#[cfg_attr(doc, doc(hidden))]
pub mod words;

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
