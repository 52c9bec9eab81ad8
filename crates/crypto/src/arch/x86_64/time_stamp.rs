//! The time-stamp counter (Intel's Software Developer's Manual, volume 3, 18.17): ticks of the
//! CPU's nominal clock, whatever its cores run at.

/// Its value now.
pub(in crate::arch) fn now() -> u64 {
    // SAFETY: RDTSC is in every x86-64 CPU, reads no memory and changes nothing but its result.
    unsafe { core::arch::x86_64::_rdtsc() }
}
