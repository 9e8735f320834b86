//! An allocator that counts the live bytes of each thread, and the most that there were.
//!
//! What a sans-IO exchange holds, or a client on a runtime of one thread, lives on one thread: its
//! peak is a number without chance in it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Tally;

#[global_allocator]
static ALLOCATOR: Tally = Tally;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// Adds live bytes of this thread; a thread that is being torn down is no longer counted.
fn count(bytes: i64) {
    let _ = LIVE.try_with(|live| {
        let now = live.get() + bytes;
        live.set(now);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now)));
    });
}

fn signed(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

// SAFETY: every call is passed on to the system's allocator as it came; the counters are plain
// cells that allocate nothing.
unsafe impl GlobalAlloc for Tally {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }

    // Growing may hold the old and the new block at once, and is counted so.
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(signed(size));
        // SAFETY: the caller's promises are passed on.
        let moved = unsafe { System.realloc(place, layout, size) };
        count(-signed(layout.size()));
        moved
    }
}

/// What `work` gives, and the most bytes that it held at once on this thread.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let done = work();
    let most = PEAK.get() - before;
    (done, usize::try_from(most).unwrap_or_default())
}

#[test]
fn the_peak_is_counted_and_not_what_is_left() {
    let (kept, most) = peak(|| {
        drop(vec![0u8; 1 << 20]);
        vec![0u8; 1 << 10]
    });
    assert_eq!(kept.len(), 1 << 10);
    assert!((1 << 20..1 << 21).contains(&most), "{most}");
}
