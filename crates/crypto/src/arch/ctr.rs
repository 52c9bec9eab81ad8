//! AES-CTR: selection of a kernel. The portable one is aws-lc's, which runs in constant time on any
//! CPU.
#![forbid(unsafe_code)]

use super::CpuFeatures;
use crate::awslc::AwsLcFailed;
use crate::awslc::aes::AesKey;

#[cfg(target_arch = "aarch64")]
use super::aarch64::ctr_aes;
#[cfg(target_arch = "x86_64")]
use super::x86_64::{ctr_aesni, ctr_vaes256, ctr_vaes512};

/// A key, expanded for the best kernel of this CPU.
pub(crate) enum CtrKernel {
    /// aws-lc's.
    Portable(AesKey),
    /// One block per instruction.
    #[cfg(target_arch = "aarch64")]
    Aes(ctr_aes::ArmCtrKey),
    /// One block per instruction.
    #[cfg(target_arch = "x86_64")]
    AesNi(ctr_aesni::AesNiCtrKey),
    /// Two blocks per instruction.
    #[cfg(target_arch = "x86_64")]
    Vaes256(Box<ctr_vaes256::Vaes256CtrKey>),
    /// Four blocks per instruction.
    #[cfg(target_arch = "x86_64")]
    Vaes512(ctr_vaes512::Vaes512CtrKey),
}

impl CtrKernel {
    /// Expands a key of 16, 24 or 32 bytes for the best kernel for `features`.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn with_features(key: &[u8], features: &CpuFeatures) -> Result<Self, AwsLcFailed> {
        if let Some(token) = features.vaes_avx512 {
            ctr_vaes512::Vaes512CtrKey::new(token, key).map(Self::Vaes512)
        } else if let Some(token) = features.vaes_avx2 {
            ctr_vaes256::Vaes256CtrKey::new(token, key).map(|key| Self::Vaes256(Box::new(key)))
        } else if let Some(token) = features.aes_ni {
            ctr_aesni::AesNiCtrKey::new(token, key).map(Self::AesNi)
        } else {
            AesKey::for_encryption(key).map(Self::Portable)
        }
    }

    /// Expands a key of 16, 24 or 32 bytes for the best kernel for `features`.
    ///
    /// aws-lc's kernel keeps three blocks in flight, this crate's eight: cores that start two or
    /// four rounds per cycle, with a latency of two or three cycles, need that many.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn with_features(key: &[u8], features: &CpuFeatures) -> Result<Self, AwsLcFailed> {
        match features.aes {
            Some(token) => ctr_aes::ArmCtrKey::new(token, key).map(Self::Aes),
            None => AesKey::for_encryption(key).map(Self::Portable),
        }
    }

    /// Expands a key of 16, 24 or 32 bytes.
    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    pub(crate) fn with_features(key: &[u8], _: &CpuFeatures) -> Result<Self, AwsLcFailed> {
        AesKey::for_encryption(key).map(Self::Portable)
    }

    /// XORs the key stream that starts at `counter` (128-bit carry) into `data`.
    pub(crate) fn apply(&self, counter: u128, data: &mut [u8]) {
        match self {
            Self::Portable(key) => key.ctr(counter, data),
            #[cfg(target_arch = "aarch64")]
            Self::Aes(key) => key.apply(counter, data),
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(key) => key.apply(counter, data),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(key) => key.apply(counter, data),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(key) => key.apply(counter, data),
        }
    }

    /// The kernel's name, for benchmark tables.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Portable(_) => "aws-lc",
            #[cfg(target_arch = "aarch64")]
            Self::Aes(_) => "armv8-aes",
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(_) => "aesni",
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256(_) => "vaes-256",
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(_) => "vaes-512",
        }
    }
}
