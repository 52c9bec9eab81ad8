//! CPU feature detection, done once, and the kernels that need these features.
//!
//! A kernel requires a token (`HaveAvx2`, …) that only [`detect`] can make, so that no code path
//! executes an instruction that the CPU lacks. Each kernel has a portable equivalent, and tests
//! compare all of them.
//!
//! In test builds, and with the feature `cpu-switch`, the environment variable `FULMAR_CPU` names a
//! [`Level`] and disables the features above it. On x86-64 `OPENSSL_ia32cap`, which disables CPU
//! features in aws-lc, disables them for these kernels too.

// What only kernels use, on an architecture that has none.
#![cfg_attr(
    not(any(target_arch = "aarch64", target_arch = "x86_64")),
    allow(dead_code, unused_variables)
)]

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod aes;
pub(crate) mod chacha;
pub(crate) mod ctr;
mod features;
// Other architectures have no kernel yet and use the library's exponentiation.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) mod modexp;
pub(crate) mod nh;
mod poly1305;
pub(crate) mod residue;
pub(crate) mod residue_lanes;
pub(crate) mod sha;

#[cfg(target_arch = "aarch64")]
#[allow(unsafe_code)]
mod aarch64;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86_64;

use std::sync::OnceLock;

pub use features::*;

/// The features of this CPU, detected on the first call.
#[must_use]
pub fn detect() -> &'static CpuFeatures {
    static FEATURES: OnceLock<CpuFeatures> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let features = CpuFeatures::probe().limited_to(allowed_level());
        limited_by_variable(features)
    })
}

/// The environment variable that disables CPU features in aws-lc.
pub const FEATURES_VARIABLE: &str = if cfg!(target_arch = "x86_64") {
    "OPENSSL_ia32cap"
} else {
    "OPENSSL_armcap"
};

#[cfg(target_arch = "x86_64")]
fn limited_by_variable(features: CpuFeatures) -> CpuFeatures {
    match std::env::var(FEATURES_VARIABLE) {
        Ok(text) => features.limited_by(&text),
        Err(_) => features,
    }
}

/// On other architectures the library's variable has a different format, and is ignored here.
#[cfg(not(target_arch = "x86_64"))]
fn limited_by_variable(features: CpuFeatures) -> CpuFeatures {
    features
}

/// Returns true if AES runs in hardware, so that AES-GCM should be preferred to ChaCha20.
#[must_use]
pub fn has_fast_aes() -> bool {
    detect().has_aes()
}

/// Feature names and whether this CPU has them, for benchmark tables.
#[must_use]
pub fn describe() -> Vec<(&'static str, bool)> {
    detect().rows()
}

/// The kernel of each algorithm that has kernels in this crate, for benchmark tables.
#[must_use]
pub fn kernels() -> Vec<(&'static str, &'static str)> {
    let features = detect();
    let aes_ctr = ctr::CtrKernel::with_features(&[0; 16], features);
    let aes_ctr = aes_ctr.map_or("none", |kernel| kernel.name());
    vec![
        ("aes-ctr", aes_ctr),
        ("chacha20-poly1305", chacha::kernel_name(features)),
        ("umac", nh::NhKey::with_features(&[], 2, features).kernel()),
        ("hmac-sha1", sha::Tiers::sha1(features).name()),
        ("hmac-sha2-256", sha::Tiers::sha256(features).name()),
        ("hmac-sha2-512", sha::Tiers::sha512(features).name()),
        (
            "modexp of many",
            modexp::Kernels::choose(features).map_or("aws-lc", |kernels| kernels.name()),
        ),
    ]
}

/// The CPU's time-stamp counter, for measurements; `None` on an architecture without a cycle
/// counter that programs can read.
#[must_use]
pub fn time_stamp() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    let now = Some(x86_64::time_stamp::now());
    #[cfg(not(target_arch = "x86_64"))]
    let now = None;
    now
}

/// The highest level, unless the environment names another.
#[cfg(any(test, feature = "cpu-switch"))]
fn allowed_level() -> Level {
    let name = std::env::var("FULMAR_CPU").unwrap_or_else(|_| BEST.name().into());
    let found = Level::ALL.iter().find(|level| level.name() == name);
    found.copied().unwrap_or_else(|| {
        let names: Vec<_> = Level::ALL.iter().map(|level| level.name()).collect();
        panic!("FULMAR_CPU: unknown level; use one of {}", names.join(", "))
    })
}

#[cfg(not(any(test, feature = "cpu-switch")))]
fn allowed_level() -> Level {
    BEST
}

const BEST: Level = *Level::ALL.last().expect("there is one");

#[cfg(test)]
mod tests;
