//! Kernels for x86-64, one file for each algorithm and vector width.

pub(super) mod nh_avx2;
pub(super) mod nh_avx512;
