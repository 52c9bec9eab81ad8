//! Features of 64-bit ARM. All supported targets have NEON in their baseline; it is detected like
//! the others, so that a level can disable it.

features! {
    levels {
        /// NEON.
        Neon = "neon",
        /// AES and SHA-2 extensions (Armv8.0).
        Aes = "aes",
        /// SHA-512 and SHA-3 extensions (Armv8.2).
        Sha512 = "sha512",
    }
    features {
        /// NEON.
        neon: HaveNeon = "neon" from Neon,
        /// AESE, AESMC and PMULL.
        aes: HaveAes = "aes" from Aes,
        /// The SHA-1 and SHA-256 instructions.
        sha2: HaveSha2 = "sha2" from Aes,
        /// The SHA-512 instructions.
        sha512: HaveSha512 = "sha512" from Sha512,
    }
}

impl CpuFeatures {
    /// Detects the features, as reported by the operating system.
    pub(in crate::arch) fn probe() -> Self {
        use std::arch::is_aarch64_feature_detected as has;
        let neon = has!("neon");
        Self {
            neon: neon.then_some(HaveNeon(())),
            aes: (neon && has!("aes")).then_some(HaveAes(())),
            sha2: (neon && has!("sha2")).then_some(HaveSha2(())),
            // `sha3` covers the SHA-512 and the SHA-3 instructions.
            sha512: (neon && has!("sha3")).then_some(HaveSha512(())),
        }
    }

    /// Returns true if AES runs in hardware.
    pub(in crate::arch) fn has_aes(&self) -> bool {
        self.aes.is_some()
    }

    /// On this architecture no feature's kernels hide others.
    #[cfg(test)]
    pub(super) fn variants(self) -> Vec<Self> {
        vec![self]
    }
}
