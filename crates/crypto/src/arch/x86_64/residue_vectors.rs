//! The sieve start positions of `residue`, compiled for vectors of 256 and of 512 bits.

use crate::arch::residue_lanes::{LANES, ResidueKernel, starts};
use crate::arch::{HaveAvx2, HaveAvx512};

pub(crate) fn avx2(token: HaveAvx2) -> ResidueKernel {
    let HaveAvx2(()) = token;
    // SAFETY: only this function, which has the token, gives the closure away.
    |words, primes| unsafe { starts_avx2(words, primes) }
}

pub(crate) fn avx512(token: HaveAvx512) -> ResidueKernel {
    let HaveAvx512(()) = token;
    // SAFETY: as above.
    |words, primes| unsafe { starts_avx512(words, primes) }
}

#[target_feature(enable = "avx2")]
fn starts_avx2(words: &[u64], primes: &[u32; LANES]) -> [[u32; LANES]; 2] {
    starts(words, primes)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn starts_avx512(words: &[u64], primes: &[u32; LANES]) -> [[u32; LANES]; 2] {
    starts(words, primes)
}
