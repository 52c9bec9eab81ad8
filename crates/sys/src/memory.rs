//! Memory that a process has used and will not need while it waits.

/// How long a process waits before it gives memory back: a login does not wait so long, and
/// would only have to take it again.
pub const REST: std::time::Duration = std::time::Duration::from_secs(1);

/// Gives back what was freed ([`trim`]) and the stack below what is in use ([`trim_stack`]).
pub fn rest() {
    trim();
    trim_stack();
}

/// Gives memory that was freed back to the system, wherever it lies in the heap: the C library
/// does that by itself only at the heap's end, where one small allocation may stand. Looks
/// through the whole heap of the process; for a moment in which nothing else is to be done.
pub fn trim() {
    // SAFETY: takes no pointer, and touches only what the allocator holds as free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives the part of the main thread's stack back that calls have used and left: some login's
/// deepest call, and whatever it left lying there. Nothing on other threads.
#[inline(never)]
pub fn trim_stack() {
    /// What one look gives back at most. The kernel keeps as much free of other mappings below
    /// each stack (`stack_guard_gap`).
    const REACH: usize = 1 << 20;
    if rustix::thread::gettid() != rustix::process::getpid() {
        return;
    }
    let here = 0_u8;
    let page = rustix::param::page_size();
    let top = (&raw const here).addr() & !(page - 1);
    // The page below may hold the frames of this call.
    let (Some(end), Some(start)) = (top.checked_sub(page), top.checked_sub(page + REACH)) else {
        return;
    };
    // SAFETY: stack below the stack pointer and the red zone, which is dead until a call writes
    // it anew, or no mapping at all, which is an error without consequence.
    unsafe {
        libc::madvise(
            std::ptr::without_provenance_mut(start),
            end - start,
            libc::MADV_DONTNEED,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Anonymous memory of this process that is resident, bytes.
    fn resident_bytes() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let kib: usize = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
        kib * 1024
    }

    #[test]
    fn freed_memory_below_a_small_allocation_goes_back_to_the_system() {
        // Small enough to come from the heap, each with a neighbour that stays.
        let (blocks, neighbours): (Vec<_>, Vec<_>) = (0..600)
            .map(|_| (vec![1_u8; 64 << 10], vec![1_u8; 4 << 10]))
            .unzip();
        drop(blocks);
        let kept = resident_bytes();
        trim();
        let left = resident_bytes();
        assert!(left + (16 << 20) < kept, "{left} of {kept} bytes left");
        assert_eq!(neighbours.len(), 600);
    }
}
