//! A crate that calls an LLM relay, and tests it.
