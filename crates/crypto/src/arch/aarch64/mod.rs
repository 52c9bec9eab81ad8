//! Kernels for 64-bit ARM, one file for each algorithm. What is left to aws-lc
//! here, and why, is said where the kernels are chosen.

pub(super) mod chacha_neon;
pub(super) mod ctr_aes;
pub(super) mod nh_neon;
mod poly1305_neon;
pub(super) mod sha256;
pub(super) mod sha512;
