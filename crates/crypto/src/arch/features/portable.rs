//! Other architectures have no kernels of this crate, and thus no features.

features! {
    levels {}
    features {}
}

impl CpuFeatures {
    /// Detects nothing.
    pub(in crate::arch) fn probe() -> Self {
        Self {}
    }

    /// Returns true if AES runs in hardware.
    #[expect(clippy::unused_self, reason = "as on the other architectures")]
    pub(in crate::arch) fn has_aes(&self) -> bool {
        false
    }

    /// On this architecture no feature's kernels hide others.
    #[cfg(test)]
    pub(super) fn variants(self) -> Vec<Self> {
        vec![self]
    }
}
