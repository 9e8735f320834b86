//! The clocks and the memory of this process, as Linux keeps them.

use std::fs;
use std::io;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock.
fn read(clock: ClockId) -> i64 {
    let now = clock_gettime(clock);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// The clock that all times are compared on: one for all processes of the machine, never set.
pub(crate) fn monotonic_ns() -> i64 {
    read(ClockId::Monotonic)
}

/// What the wall clock is ahead of [`monotonic_ns`].
pub(crate) fn wall_ahead_ns() -> i64 {
    let before = monotonic_ns();
    let wall = read(ClockId::Realtime);
    wall - before.midpoint(monotonic_ns())
}

/// User and system time of all threads of this process, ended ones too.
pub(crate) fn cpu_ns() -> i64 {
    read(ClockId::ProcessCPUTime)
}

/// Most memory that this process ever had resident.
pub(crate) fn peak_kib() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    status
        .lines()
        .find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .ok_or_else(|| io::Error::other("no VmHWM in /proc/self/status"))
}
