//! Kernels for x86-64, one file for each algorithm and vector width.

mod aes;
mod chacha;
pub(super) mod chacha_avx2;
pub(super) mod chacha_avx512;
pub(super) mod cpuid;
pub(super) mod ctr_aesni;
pub(super) mod ctr_vaes256;
pub(super) mod ctr_vaes512;
pub(super) mod modexp_avx2;
pub(super) mod modexp_ifma;
mod modexp_lanes;
pub(super) mod nh_avx2;
pub(super) mod nh_avx512;
mod nh_key;
mod poly1305_avx2;
mod poly1305_ifma;
mod poly1305_lanes;
pub(super) mod residue_vectors;
pub(super) mod sha_avx2;
pub(super) mod sha_avx512;
pub(super) mod sha_avx512vl;
mod sha_lanes;
pub(super) mod sha_ni;
pub(super) mod time_stamp;
