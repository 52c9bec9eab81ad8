//! What the allocator keeps for itself.

/// Gives memory that was freed back to the system, wherever it lies in the heap: the C library
/// does that by itself only at the heap's end, where one small allocation may stand. Looks
/// through the whole heap of the process; for a moment in which nothing else is to be done.
pub fn trim() {
    // SAFETY: takes no pointer, and touches only what the allocator holds as free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
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
