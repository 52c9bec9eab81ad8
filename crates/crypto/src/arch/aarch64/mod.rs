//! Kernels for 64-bit ARM, one file for each algorithm. The modules that select kernels explain
//! where aws-lc's are used instead.

pub(super) mod chacha_neon;
pub(super) mod ctr_aes;
pub(super) mod nh_neon;
mod poly1305_neon;
pub(super) mod sha256;
pub(super) mod sha512;
