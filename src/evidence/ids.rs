//! The ids of a sample's trace: plain functions of the run and the sample, no tracing library.
//!
//! Whoever makes a span now, sends its id to a relay, or links to it later, gets the same one.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Trace id of a sample, 32 hex digits: the same for the same run and sample.
pub fn trace_id(run_id: &str, sample_id: &str) -> String {
    let hash = Sha256::new()
        .chain_update(run_id)
        .chain_update("|")
        .chain_update(sample_id)
        .finalize();
    hex(&hash, 16)
}

/// The id of a span inside its trace: the first eight bytes of SHA-256 over the trace's bytes and
/// the span's path.
pub fn span_id(trace: &[u8], path: &str) -> [u8; 8] {
    let hash = Sha256::new()
        .chain_update(trace)
        .chain_update(path.as_bytes())
        .finalize();
    let mut id = [0; 8];
    id.copy_from_slice(&hash[..8]);
    id
}

/// The path of the span of an attempt, by its number from 0.
pub fn post_path(attempt: usize) -> String {
    format!("post/{attempt}")
}

/// The id of the span of an attempt, 16 hex digits; `None` for a trace id that is none.
pub fn post_id(trace_id: &str, attempt: usize) -> Option<String> {
    if trace_id.len() != 32 || !trace_id.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let trace = u128::from_str_radix(trace_id, 16).ok()?.to_be_bytes();
    Some(hex(&span_id(&trace, &post_path(attempt)), 8))
}

/// The first bytes as hex digits.
fn hex(bytes: &[u8], take: usize) -> String {
    let mut text = String::with_capacity(2 * take);
    for byte in bytes.iter().take(take) {
        // Writing to a String does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_depend_on_run_and_sample() {
        let id = trace_id("run", "sample");
        // printf 'run|sample' | sha256sum
        assert_eq!(id, "c3d7b364aab61b0d30828079b7ef2d49");
        assert_ne!(id, trace_id("run2", "sample"));
    }

    #[test]
    fn an_attempt_has_an_id_of_its_own() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        // printf '\x4b\xf9...post/0' | sha256sum
        assert_eq!(post_id(trace, 0).as_deref(), Some("6d9272a9b156d3d7"));
        assert_ne!(post_id(trace, 0), post_id(trace, 1));
        assert_eq!(post_id("no hex", 0), None);
    }
}
