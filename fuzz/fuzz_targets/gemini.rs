//! A body in this protocol: no panic, and the same findings however it is cut.

#![no_main]

use relayproof::dialect::Protocol;

libfuzzer_sys::fuzz_target!(|data: &[u8]| relayproof_fuzz::body(Protocol::Gemini, data));
