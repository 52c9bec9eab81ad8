//! The time-stamp counter (Intel's Software Developer's Manual, volume 3, 18.17): ticks of the
//! CPU's nominal clock, whatever its cores run at.

/// Returns the current counter value.
pub(in crate::arch) fn now() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, which accesses no memory and changes only its result.
    unsafe { core::arch::x86_64::_rdtsc() }
}
