//! What the CPU says of the instructions that kernels here use (Intel's Software Developer's
//! Manual, volume 2, CPUID; volume 1, 13.2 for what the system must have switched on).
//!
//! Each CPUID leads a virtual machine out to its host: 5 µs on one, 15 where that is busy, and the
//! standard library asks ten times in each process that asks at all. Three are enough for these, and
//! none where the C library tells what its loader was answered at the start of the process.

use core::arch::x86_64::_xgetbv;

/// Instructions that the CPU has and the system lets programs use.
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

/// XCR0: the system saves the halves of the AVX registers, and what AVX-512 adds to that.
const AVX_STATE: u64 = 0x06;
const AVX512_STATE: u64 = 0xe6;

/// Words of CPUID; 0 for those that the CPU does not know.
struct Answers {
    /// Leaf 1, ECX.
    basic: u32,
    /// Leaf 7, EBX.
    more: u32,
    /// Leaf 7, ECX.
    further: u32,
}

/// glibc's <sys/platform/x86.h>, since 2.33.
#[cfg(not(miri))]
fn answers() -> Answers {
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
        // SAFETY: the answer is never null, whatever the index, and points to what is constant
        // behind the start of the process.
        unsafe { (*__x86_get_cpuid_feature_leaf(index)).cpuid }
    };
    let [_, _, basic, _] = words(INDEX_1);
    let [_, more, further, _] = words(INDEX_7);
    Answers {
        basic,
        more,
        further,
    }
}

#[cfg(miri)]
fn answers() -> Answers {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    let highest = __cpuid(0).eax;
    let basic = if highest >= 1 { __cpuid(1).ecx } else { 0 };
    let (more, further) = if highest >= 7 {
        let leaf = __cpuid_count(7, 0);
        (leaf.ebx, leaf.ecx)
    } else {
        (0, 0)
    };
    Answers {
        basic,
        more,
        further,
    }
}

impl Instructions {
    /// What the CPU says.
    pub(in crate::arch) fn ask() -> Self {
        let Answers {
            basic,
            more,
            further,
        } = answers();
        let has = |word: u32, bit: u32| word & (1 << bit) != 0;
        let (xsave_on, avx) = (has(basic, 27), has(basic, 28));
        let saved = if xsave_on {
            // SAFETY: OSXSAVE says that the instruction may be used.
            unsafe { _xgetbv(0) }
        } else {
            0
        };
        let avx = avx && saved & AVX_STATE == AVX_STATE;
        let avx512 = avx && saved & AVX512_STATE == AVX512_STATE;
        Self {
            aes: has(basic, 25),
            pclmulqdq: has(basic, 1),
            ssse3: has(basic, 9),
            sse4_1: has(basic, 19),
            sha: has(more, 29),
            avx2: avx && has(more, 5),
            vaes: avx && has(further, 9),
            avx512f: avx512 && has(more, 16),
            avx512bw: avx512 && has(more, 30),
            avx512dq: avx512 && has(more, 17),
            avx512vl: avx512 && has(more, 31),
            avx512ifma: avx512 && has(more, 21),
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
        assert_eq!(Instructions::ask(), found);
    }
}
