//! Features of x86-64 beyond SSE2.

use crate::arch::x86_64::cpuid::Instructions;

features! {
    levels {
        /// AES-NI and SHA-NI.
        AesNi = "aesni",
        /// AVX2.
        Avx2 = "avx2",
        /// VAES on 256-bit vectors.
        Vaes = "vaes",
        /// Everything.
        Avx512 = "avx512",
    }
    features {
        /// AES-NI, PCLMULQDQ, SSSE3 and SSE4.1.
        aes_ni: HaveAesNi = "aes" from AesNi,
        /// SHA extensions.
        sha_ni: HaveShaNi = "sha" from AesNi,
        /// AVX2.
        avx2: HaveAvx2 = "avx2" from Avx2,
        /// VAES on 256-bit vectors, with AVX2.
        vaes_avx2: HaveVaesAvx2 = "vaes-256" from Vaes,
        /// AVX-512 F, BW, DQ and VL.
        avx512: HaveAvx512 = "avx512" from Avx512,
        /// VAES on 512-bit vectors, with AVX-512 F, BW, DQ and VL.
        vaes_avx512: HaveVaesAvx512 = "vaes-512" from Avx512,
        /// AVX-512 IFMA, with AVX-512 F, BW, DQ and VL.
        avx512_ifma: HaveAvx512Ifma = "avx512-ifma" from Avx512,
    }
}

impl HaveVaesAvx2 {
    /// Detection gives this token only along with that one.
    pub(in crate::arch) fn aes_ni(self) -> HaveAesNi {
        HaveAesNi(())
    }
}

impl HaveVaesAvx512 {
    /// Detection gives this token only along with that one.
    pub(in crate::arch) fn aes_ni(self) -> HaveAesNi {
        HaveAesNi(())
    }
}

impl CpuFeatures {
    /// Asks the CPU.
    pub(in crate::arch) fn probe() -> Self {
        let has = Instructions::ask();
        let aes = has.aes && has.pclmulqdq && has.ssse3 && has.sse4_1;
        let avx2 = has.avx2;
        let avx512 = avx2 && has.avx512f && has.avx512bw && has.avx512dq && has.avx512vl;
        Self {
            aes_ni: aes.then_some(HaveAesNi(())),
            sha_ni: (has.sha && has.ssse3 && has.sse4_1).then_some(HaveShaNi(())),
            avx2: avx2.then_some(HaveAvx2(())),
            vaes_avx2: (aes && avx2 && has.vaes).then_some(HaveVaesAvx2(())),
            avx512: avx512.then_some(HaveAvx512(())),
            vaes_avx512: (aes && avx512 && has.vaes).then_some(HaveVaesAvx512(())),
            avx512_ifma: (avx512 && has.avx512ifma).then_some(HaveAvx512Ifma(())),
        }
    }

    /// AES runs in hardware.
    pub(in crate::arch) fn has_aes(&self) -> bool {
        self.aes_ni.is_some()
    }

    /// The same, and without the instructions that hide kernels for many hashes.
    #[cfg(test)]
    pub(super) fn variants(self) -> Vec<Self> {
        vec![
            self,
            Self {
                sha_ni: None,
                ..self
            },
        ]
    }
}
