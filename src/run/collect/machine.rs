//! Which machine this is, and how its clock stands.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::evidence::{Session, SessionClock};
use crate::probe::clock::Clock;
use crate::run::host_name;

/// The session of this process on this machine, as of now.
pub fn this_machine() -> Session {
    let now = Clock::start().unix_ns();
    Session {
        at_unix_ns: now,
        host: host_name(),
        pid: std::process::id(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        clock: SessionClock {
            booted_unix_ns: up_for().and_then(|up| now.checked_sub(up)),
            // Whoever keeps another file, or none, is not known to be wrong.
            synchronised: Path::new("/run/systemd/timesync/synchronized")
                .exists()
                .then_some(true),
        },
    }
}

/// A small file of the system's, where it is there.
fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty() && text.len() <= 64).then(|| text.to_owned())
}

/// Nanoseconds since the machine was booted, sleep included.
fn up_for() -> Option<u64> {
    let text = read("/proc/uptime")?;
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    let up = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(up.as_nanos()).ok()
}
