//! Anything that a transport could say, in any order: no panic, and a coherent observation.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relayproof_fuzz::exchange(data));
