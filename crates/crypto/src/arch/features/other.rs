//! Architectures without kernels of ours.

features! {
    levels {}
    features {}
}

impl CpuFeatures {
    pub(in crate::arch) fn probe() -> Self {
        Self::default()
    }

    /// Nobody asks, and it is taken to be slow.
    pub(in crate::arch) fn has_aes(&self) -> bool {
        false
    }

    /// There are none.
    #[cfg(test)]
    pub(super) fn variants(self) -> Vec<Self> {
        vec![self]
    }
}
