//! What the CPU offers, asked once, and the kernels that need it.
//!
//! A kernel demands a token ([`HaveAvx2`], …) that only [`detect`] can make, so
//! that no code path runs an instruction that the CPU lacks. Kernels have a
//! portable sibling each, and the tests compare every tier.
//!
//! In test builds, and with the feature `cpu-switch`, the environment variable
//! `FULMAR_CPU` (`portable`, `aesni`, `avx2`, `vaes`, `avx512`) takes away what
//! lies above the level named.

pub(crate) mod chacha;
pub(crate) mod ctr;
pub(crate) mod modexp;
pub(crate) mod nh;
mod poly1305;
pub(crate) mod residue;
pub(crate) mod sha;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86_64;

use std::sync::OnceLock;

macro_rules! tokens {
    ($($(#[$doc:meta])* $token:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $token(());
        )*
    };
}

tokens! {
    /// AES-NI, PCLMULQDQ, SSSE3 and SSE4.1.
    HaveAesNi,
    /// SHA extensions.
    HaveShaNi,
    /// AVX2.
    HaveAvx2,
    /// VAES on 256-bit vectors, with AVX2.
    HaveVaesAvx2,
    /// AVX-512 F, BW, DQ and VL.
    HaveAvx512,
    /// VAES on 512-bit vectors, with AVX-512 F, BW, DQ and VL.
    HaveVaesAvx512,
    /// AVX-512 IFMA, with AVX-512 F, BW, DQ and VL.
    HaveAvx512Ifma,
}

#[cfg(target_arch = "x86_64")]
impl HaveVaesAvx2 {
    /// Detection gives this token only along with that one.
    fn aes_ni(self) -> HaveAesNi {
        HaveAesNi(())
    }
}

#[cfg(target_arch = "x86_64")]
impl HaveVaesAvx512 {
    /// Detection gives this token only along with that one.
    fn aes_ni(self) -> HaveAesNi {
        HaveAesNi(())
    }
}

/// The features of this CPU that some kernel uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuFeatures {
    /// AES in hardware.
    pub aes_ni: Option<HaveAesNi>,
    /// SHA-1 and SHA-256 in hardware.
    pub sha_ni: Option<HaveShaNi>,
    /// 256-bit integer vectors.
    pub avx2: Option<HaveAvx2>,
    /// Two AES blocks an instruction.
    pub vaes_avx2: Option<HaveVaesAvx2>,
    /// 512-bit integer vectors.
    pub avx512: Option<HaveAvx512>,
    /// Four AES blocks an instruction.
    pub vaes_avx512: Option<HaveVaesAvx512>,
    /// 52-bit multiplications.
    pub avx512_ifma: Option<HaveAvx512Ifma>,
}

/// How much of the CPU may be used; each level includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing beyond the target's baseline.
    Portable,
    /// AES-NI and SHA-NI.
    AesNi,
    /// AVX2.
    Avx2,
    /// VAES on 256-bit vectors.
    Vaes,
    /// Everything.
    Avx512,
}

impl Level {
    /// Every level, upwards.
    pub const ALL: [Self; 5] = [
        Self::Portable,
        Self::AesNi,
        Self::Avx2,
        Self::Vaes,
        Self::Avx512,
    ];

    /// The level's name in `FULMAR_CPU`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::AesNi => "aesni",
            Self::Avx2 => "avx2",
            Self::Vaes => "vaes",
            Self::Avx512 => "avx512",
        }
    }
}

impl CpuFeatures {
    /// These features less what lies above `level`.
    #[must_use]
    pub fn limited_to(self, level: Level) -> Self {
        let keep = |needed: Level| level >= needed;
        Self {
            aes_ni: self.aes_ni.filter(|_| keep(Level::AesNi)),
            sha_ni: self.sha_ni.filter(|_| keep(Level::AesNi)),
            avx2: self.avx2.filter(|_| keep(Level::Avx2)),
            vaes_avx2: self.vaes_avx2.filter(|_| keep(Level::Vaes)),
            avx512: self.avx512.filter(|_| keep(Level::Avx512)),
            vaes_avx512: self.vaes_avx512.filter(|_| keep(Level::Avx512)),
            avx512_ifma: self.avx512_ifma.filter(|_| keep(Level::Avx512)),
        }
    }
}

/// The features of this CPU; asked on the first call only.
#[must_use]
pub fn detect() -> &'static CpuFeatures {
    static FEATURES: OnceLock<CpuFeatures> = OnceLock::new();
    FEATURES.get_or_init(|| probe().limited_to(allowed_level()))
}

/// Whether AES runs in hardware, so that AES-GCM should stand before ChaCha20.
#[must_use]
pub fn has_fast_aes() -> bool {
    #[cfg(target_arch = "aarch64")]
    {
        std::arch::is_aarch64_feature_detected!("aes")
    }
    #[cfg(not(target_arch = "aarch64"))]
    {
        detect().aes_ni.is_some()
    }
}

/// Feature names and whether this CPU has them, for tables.
#[must_use]
pub fn describe() -> Vec<(&'static str, bool)> {
    let features = detect();
    vec![
        ("aes", has_fast_aes()),
        ("sha", features.sha_ni.is_some()),
        ("avx2", features.avx2.is_some()),
        ("vaes-256", features.vaes_avx2.is_some()),
        ("avx512", features.avx512.is_some()),
        ("vaes-512", features.vaes_avx512.is_some()),
        ("avx512-ifma", features.avx512_ifma.is_some()),
    ]
}

/// Which kernel each algorithm with kernels of our own uses, for tables.
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

#[cfg(target_arch = "x86_64")]
fn probe() -> CpuFeatures {
    use std::arch::is_x86_feature_detected as has;
    let aes = has!("aes") && has!("pclmulqdq") && has!("ssse3") && has!("sse4.1");
    let avx2 = has!("avx2");
    let avx512 =
        avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
    CpuFeatures {
        aes_ni: aes.then_some(HaveAesNi(())),
        sha_ni: (has!("sha") && has!("ssse3") && has!("sse4.1")).then_some(HaveShaNi(())),
        avx2: avx2.then_some(HaveAvx2(())),
        vaes_avx2: (aes && avx2 && has!("vaes")).then_some(HaveVaesAvx2(())),
        avx512: avx512.then_some(HaveAvx512(())),
        vaes_avx512: (aes && avx512 && has!("vaes")).then_some(HaveVaesAvx512(())),
        avx512_ifma: (avx512 && has!("avx512ifma")).then_some(HaveAvx512Ifma(())),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn probe() -> CpuFeatures {
    CpuFeatures::default()
}

#[cfg(any(test, feature = "cpu-switch"))]
fn allowed_level() -> Level {
    let Ok(name) = std::env::var("FULMAR_CPU") else {
        return Level::Avx512;
    };
    match Level::ALL.into_iter().find(|level| level.name() == name) {
        Some(level) => level,
        None => panic!("FULMAR_CPU: unknown level; use portable, aesni, avx2, vaes or avx512"),
    }
}

#[cfg(not(any(test, feature = "cpu-switch")))]
fn allowed_level() -> Level {
    Level::Avx512
}

#[cfg(test)]
mod tests;
