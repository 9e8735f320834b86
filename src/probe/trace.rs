//! The trace ids of a sample: plain text made from its own id, no tracing library.

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

/// The `traceparent` header that makes what the relay records a child of the sample's span.
///
/// The parent's id is the first eight bytes of SHA-256 over the trace id's bytes and `sample`, as
/// for every span that is made from evidence.
pub(super) fn traceparent(trace_id: &str) -> String {
    let bytes: Vec<u8> = trace_id
        .as_bytes()
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let parent = Sha256::new()
        .chain_update(bytes)
        .chain_update("sample")
        .finalize();
    format!("00-{trace_id}-{}-01", hex(&parent, 8))
}

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
    fn the_parent_is_the_span_of_the_sample() {
        let parent = traceparent("4bf92f3577b34da6a3ce929d0e0e4736");
        // printf '\x4b\xf9...sample' | sha256sum
        assert_eq!(
            parent,
            "00-4bf92f3577b34da6a3ce929d0e0e4736-21d3018c745c327d-01"
        );
    }
}
