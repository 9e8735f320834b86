//! A hostile relay: whatever it sends, an attempt is bounded in bytes, count and time, ends with a
//! class, and holds less than 32 MiB.

#![cfg(all(feature = "probe", feature = "sim"))]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    unsafe_code,
    reason = "helpers of tests are not seen as tests and show what they measured; an allocator that \
              counts is unsafe to write"
)]

#[path = "hostile/bodies.rs"]
mod bodies;
#[path = "hostile/framing.rs"]
mod framing;
#[path = "cases/player.rs"]
#[expect(dead_code, reason = "only the corpus is read here")]
mod player;
#[path = "hostile/relay.rs"]
mod relay;
#[path = "hostile/sockets.rs"]
mod sockets;
#[path = "hostile/tally.rs"]
mod tally;

/// Most memory that one stream may take.
const ROOM: usize = 32 << 20;
