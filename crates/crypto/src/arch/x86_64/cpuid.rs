//! Detection of the instructions that the kernels use (Intel's Software Developer's Manual, volume
//! 2, CPUID; volume 1, 13.2 for what the operating system must have enabled).
//!
//! In a virtual machine each CPUID instruction exits to the host, which takes 5 µs, or 15 µs on a
//! busy host, and the standard library executes it ten times in each process that uses its
//! detection. Three are enough here, and none where the C library provides the values that its
//! loader read at process start.

use core::arch::x86_64::_xgetbv;

/// Instructions that the CPU has and the operating system has enabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::arch) struct Instructions {
    pub(in crate::arch) aes: bool,
    pub(in crate::arch) pclmulqdq: bool,
    pub(in crate::arch) ssse3: bool,
    pub(in crate::arch) sse4_1: bool,
    pub(in crate::arch) sha: bool,
    pub(in crate::arch) avx2: bool,
    pub(in crate::arch) vaes: bool,
    pub(in crate::arch) avx512f: bool,
    pub(in crate::arch) avx512bw: bool,
    pub(in crate::arch) avx512dq: bool,
    pub(in crate::arch) avx512vl: bool,
    pub(in crate::arch) avx512ifma: bool,
}

/// Bits of XCR0: the operating system saves the AVX registers, and in addition those of AVX-512.
const AVX_STATE: u64 = 0x06;
const AVX512_STATE: u64 = 0xe6;

/// Words returned by CPUID; 0 for leaves that the CPU does not have.
struct CpuidWords {
    leaf1_ecx: u32,
    leaf7_ebx: u32,
    leaf7_ecx: u32,
}

/// glibc's <sys/platform/x86.h>, since 2.33.
#[cfg(all(target_env = "gnu", not(miri)))]
fn cpuid_words() -> CpuidWords {
    #[repr(C)]
    struct CpuidFeature {
        /// EAX, EBX, ECX, EDX.
        cpuid: [u32; 4],
        active: [u32; 4],
    }
    const INDEX_1: u32 = 0;
    const INDEX_7: u32 = 1;
    // SAFETY: declared as in that header.
    unsafe extern "C" {
        fn __x86_get_cpuid_feature_leaf(index: u32) -> *const CpuidFeature;
    }
    let words = |index| {
        // SAFETY: the result is never null, whatever the index, and points to memory that is
        // constant after process start.
        unsafe { (*__x86_get_cpuid_feature_leaf(index)).cpuid }
    };
    let [_, _, leaf1_ecx, _] = words(INDEX_1);
    let [_, leaf7_ebx, leaf7_ecx, _] = words(INDEX_7);
    CpuidWords {
        leaf1_ecx,
        leaf7_ebx,
        leaf7_ecx,
    }
}

/// By the instruction, where no loader has kept the values.
#[cfg(any(not(target_env = "gnu"), miri))]
fn cpuid_words() -> CpuidWords {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    let highest = __cpuid(0).eax;
    let leaf1_ecx = if highest >= 1 { __cpuid(1).ecx } else { 0 };
    let (leaf7_ebx, leaf7_ecx) = if highest >= 7 {
        let leaf = __cpuid_count(7, 0);
        (leaf.ebx, leaf.ecx)
    } else {
        (0, 0)
    };
    CpuidWords {
        leaf1_ecx,
        leaf7_ebx,
        leaf7_ecx,
    }
}

impl Instructions {
    /// Detects the instructions.
    pub(in crate::arch) fn detect() -> Self {
        let CpuidWords {
            leaf1_ecx,
            leaf7_ebx,
            leaf7_ecx,
        } = cpuid_words();
        let has = |word: u32, bit: u32| word & (1 << bit) != 0;
        let (xsave_on, avx) = (has(leaf1_ecx, 27), has(leaf1_ecx, 28));
        let saved = if xsave_on {
            // SAFETY: OSXSAVE means that the instruction may be used.
            unsafe { _xgetbv(0) }
        } else {
            0
        };
        let avx = avx && saved & AVX_STATE == AVX_STATE;
        let avx512 = avx && saved & AVX512_STATE == AVX512_STATE;
        Self {
            aes: has(leaf1_ecx, 25),
            pclmulqdq: has(leaf1_ecx, 1),
            ssse3: has(leaf1_ecx, 9),
            sse4_1: has(leaf1_ecx, 19),
            sha: has(leaf7_ebx, 29),
            avx2: avx && has(leaf7_ebx, 5),
            vaes: avx && has(leaf7_ecx, 9),
            avx512f: avx512 && has(leaf7_ebx, 16),
            avx512bw: avx512 && has(leaf7_ebx, 30),
            avx512dq: avx512 && has(leaf7_ebx, 17),
            avx512vl: avx512 && has(leaf7_ebx, 31),
            avx512ifma: avx512 && has(leaf7_ebx, 21),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_standard_library_finds() {
        use std::arch::is_x86_feature_detected as has;
        let found = Instructions {
            aes: has!("aes"),
            pclmulqdq: has!("pclmulqdq"),
            ssse3: has!("ssse3"),
            sse4_1: has!("sse4.1"),
            sha: has!("sha"),
            avx2: has!("avx2"),
            vaes: has!("vaes"),
            avx512f: has!("avx512f"),
            avx512bw: has!("avx512bw"),
            avx512dq: has!("avx512dq"),
            avx512vl: has!("avx512vl"),
            avx512ifma: has!("avx512ifma"),
        };
        assert_eq!(Instructions::detect(), found);
    }
}
