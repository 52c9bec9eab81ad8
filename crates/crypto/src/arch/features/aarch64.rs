//! Features of 64-bit ARM. NEON is in the baseline of the targets that there are;
//! it is asked for like the others, so that a level can leave it out.

features! {
    levels {
        /// NEON.
        Neon = "neon",
        /// The extensions for AES and SHA-2 (Armv8.0).
        Aes = "aes",
        /// Those for SHA-512 and SHA-3 (Armv8.2).
        Sha512 = "sha512",
    }
    features {
        /// NEON.
        neon: HaveNeon = "neon" from Neon,
        /// AESE, AESMC and PMULL.
        aes: HaveAes = "aes" from Aes,
        /// SHA1C and SHA256H, and what belongs to them.
        sha2: HaveSha2 = "sha2" from Aes,
        /// SHA512H and what belongs to it.
        sha512: HaveSha512 = "sha512" from Sha512,
    }
}

impl CpuFeatures {
    /// Asks the system, which has asked the CPU.
    pub(in crate::arch) fn probe() -> Self {
        use std::arch::is_aarch64_feature_detected as has;
        let neon = has!("neon");
        Self {
            neon: neon.then_some(HaveNeon(())),
            aes: (neon && has!("aes")).then_some(HaveAes(())),
            sha2: (neon && has!("sha2")).then_some(HaveSha2(())),
            // The name stands for both.
            sha512: (neon && has!("sha3")).then_some(HaveSha512(())),
        }
    }

    /// AES runs in hardware.
    pub(in crate::arch) fn has_aes(&self) -> bool {
        self.aes.is_some()
    }

    /// No instructions hide kernels.
    #[cfg(test)]
    pub(super) fn variants(self) -> Vec<Self> {
        vec![self]
    }
}
