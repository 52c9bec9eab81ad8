//! The kernel for the start positions of a sieve; `residue_lanes` has its code.
#![forbid(unsafe_code)]

use super::CpuFeatures;
use super::residue_lanes::starts;
pub(crate) use super::residue_lanes::{LANES, ResidueKernel};

/// The widest kernel for these features.
#[cfg(target_arch = "x86_64")]
pub(crate) fn kernel(features: &CpuFeatures) -> ResidueKernel {
    use super::x86_64::residue_vectors;
    if let Some(token) = features.avx512 {
        residue_vectors::avx512(token)
    } else if let Some(token) = features.avx2 {
        residue_vectors::avx2(token)
    } else {
        portable
    }
}

/// The widest kernel for these features.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn kernel(_: &CpuFeatures) -> ResidueKernel {
    portable
}

fn portable(words: &[u64], primes: &[u32; LANES]) -> [[u32; LANES]; 2] {
    starts(words, primes)
}
