//! The command `relayproof`.

fn main() {}
