//! Makes room for a run's sockets before anything is timed.
//!
//! Linux grows a process's table of open files by doubling, and in a process of several threads it
//! waits a grace period each time, some ten milliseconds, inside whichever call needs the next
//! number. That call is a connect on a measuring thread, and every stream that the thread reads
//! would seem to pause.

/// Largest room that is made; a run with more open calls pauses where its table grows further.
#[cfg(target_os = "linux")]
const MOST: u64 = 32 * 1024;

/// Lets the table of open files grow now for `calls` open at a time.
///
/// Does what the limit of the process allows; there is nothing to report where that is too little,
/// since calls without a socket will say so.
#[cfg(target_os = "linux")]
pub(crate) async fn make_room(calls: u64) {
    use std::fs::File;
    use std::iter::successors;

    use rustix::io::fcntl_dupfd_cloexec;

    // Twice, because an embedded relay holds the other end of each connection.
    let wanted = calls.saturating_mul(2).saturating_add(64).min(MOST);
    let grow = move || {
        let Ok(any) = File::open("/dev/null") else {
            return;
        };
        // A number beyond the limit is refused: then half of it. The duplicate is closed at once,
        // and the table keeps its size.
        successors(Some(wanted), |number| Some(number / 2))
            .take_while(|number| *number > 64)
            .filter_map(|number| i32::try_from(number).ok())
            .any(|number| fcntl_dupfd_cloexec(&any, number).is_ok());
    };
    // It cannot panic, and a runtime that is shutting down measures nothing any more.
    tokio::task::spawn_blocking(grow).await.ok();
}

/// Other systems do not wait where their tables grow.
#[cfg(not(target_os = "linux"))]
pub(crate) async fn make_room(_calls: u64) {}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs;

    use super::*;

    /// Size of this process's table of open files.
    fn room() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        size.unwrap().trim().parse().unwrap()
    }

    /// One test, because the table belongs to the process and never shrinks.
    #[tokio::test]
    async fn the_table_has_room_for_both_ends_of_each_call_or_for_what_the_limit_allows() {
        make_room(100).await;
        assert!(room() > 200, "{}", room());
        let before = room();
        make_room(u64::MAX).await;
        assert!(room() >= before, "{}", room());
    }
}
