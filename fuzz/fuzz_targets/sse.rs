//! Bytes of an event stream: no panic, and the same items however they are cut.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relayproof_fuzz::sse(data));
