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
    /// Detection makes this token only together with [`HaveAesNi`].
    pub(in crate::arch) fn aes_ni(self) -> HaveAesNi {
        HaveAesNi(())
    }
}

impl HaveVaesAvx512 {
    /// Detection makes this token only together with [`HaveAesNi`].
    pub(in crate::arch) fn aes_ni(self) -> HaveAesNi {
        HaveAesNi(())
    }
}

impl CpuFeatures {
    /// Detects the features of the CPU.
    pub(in crate::arch) fn probe() -> Self {
        let has = Instructions::detect();
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

    /// These features without those that `text`, in the format of `OPENSSL_ia32cap`, disables: two
    /// numbers separated by a colon, for the CPUID words 1.EDX and 1.ECX, and 7.EBX and 7.ECX;
    /// after a `~` the bits to clear, else the bits to keep. Text that cannot be parsed has no
    /// effect, and no feature is ever added.
    pub(in crate::arch) fn limited_by(self, text: &str) -> Self {
        let (first, second) = text.split_once(':').unwrap_or((text, ""));
        let (first, second) = (allowed_bits(first), allowed_bits(second));
        let has = |word: u64, bits: &[u32]| bits.iter().all(|bit| word >> bit & 1 == 1);
        let aes = has(first, &[32 + 1, 32 + 9, 32 + 19, 32 + 25]);
        let sha = has(first, &[32 + 9, 32 + 19]) && has(second, &[29]);
        let avx2 = has(first, &[32 + 28]) && has(second, &[5]);
        let avx512 = avx2 && has(second, &[16, 17, 30, 31]);
        let vaes = aes && avx2 && has(second, &[32 + 9]);
        Self {
            aes_ni: self.aes_ni.filter(|_| aes),
            sha_ni: self.sha_ni.filter(|_| sha),
            avx2: self.avx2.filter(|_| avx2),
            vaes_avx2: self.vaes_avx2.filter(|_| vaes),
            avx512: self.avx512.filter(|_| avx512),
            vaes_avx512: self.vaes_avx512.filter(|_| vaes && avx512),
            avx512_ifma: self.avx512_ifma.filter(|_| avx512 && has(second, &[21])),
        }
    }

    /// Returns true if AES runs in hardware.
    pub(in crate::arch) fn has_aes(&self) -> bool {
        self.aes_ni.is_some()
    }

    /// These features, and these without the instructions whose kernels take precedence over
    /// kernels for many hashes.
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

/// The bits that a number of `OPENSSL_ia32cap` leaves; all bits if it is no number or adds bits.
fn allowed_bits(text: &str) -> u64 {
    let (clears, text) = match text.strip_prefix('~') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match number {
        Ok(bits) if clears => !bits,
        Ok(bits) => bits,
        Err(_) => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> CpuFeatures {
        CpuFeatures {
            aes_ni: Some(HaveAesNi(())),
            sha_ni: Some(HaveShaNi(())),
            avx2: Some(HaveAvx2(())),
            vaes_avx2: Some(HaveVaesAvx2(())),
            avx512: Some(HaveAvx512(())),
            vaes_avx512: Some(HaveVaesAvx512(())),
            avx512_ifma: Some(HaveAvx512Ifma(())),
        }
    }

    #[test]
    fn the_librarys_variable_takes_kernels_away() {
        let all = whole();
        let left = |text: &str| {
            let rows = all.limited_by(text).rows().into_iter();
            let there = rows.filter(|(_, there)| *there).map(|(name, _)| name);
            there.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(left("~0:~0x00005842d0230000"), "aes sha avx2 vaes-256");
        assert_eq!(left("~0:~0x00005e42d0230000"), "aes sha avx2");
        assert_eq!(left("~0x1000100000000000:~0x00005e42d02b0128"), "aes sha");
        assert_eq!(left("~0xffffffffffffffff:~0xffffffffffffffff"), "");
        assert_eq!(left("~0x200000000000000"), "sha avx2 avx512 avx512-ifma");
        assert_eq!(left("0:0"), "");
        for nothing in ["", ":", "~", "~0", "x:y", "~0x:~", "|0xff", "~0:~0"] {
            assert_eq!(all.limited_by(nothing), all, "{nothing}");
        }
        // No feature is added that the CPU lacks.
        let none = CpuFeatures::default();
        assert_eq!(
            none.limited_by("0xffffffffffffffff:|0xffffffffffffffff"),
            none
        );
    }
}
