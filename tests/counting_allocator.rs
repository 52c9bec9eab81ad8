//! The system allocator with counters, for tests that include this file as a module. The bytes are
//! those of the process, so that each such program has one test function.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

thread_local! {
    /// Allocations of this thread; those of the test harness do not count.
    pub static CALLS: Cell<usize> = const { Cell::new(0) };
}
/// Bytes that are allocated now.
pub static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The most that were allocated at once.
pub static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is the system allocator's own, with the caller's arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        let live = LIVE_BYTES.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK_BYTES.fetch_max(live, Relaxed);
        // SAFETY: the caller's promise on `layout` is ours to the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are allocated now.
pub fn live() -> usize {
    LIVE_BYTES.load(Relaxed)
}
