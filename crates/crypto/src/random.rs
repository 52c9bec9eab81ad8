//! Random bytes from the kernel.
//!
//! Not aws-lc's generator: it costs a seeding per process and per fork, and
//! every value that this crate draws itself comes from here instead.
#![forbid(unsafe_code)]

/// Fills `out` from the kernel's generator.
///
/// # Panics
/// If the kernel has no random generator (no `getrandom` and no
/// `/dev/urandom`): nothing can go on securely then.
pub fn fill(out: &mut [u8]) {
    if let Err(error) = getrandom::fill(out) {
        panic!("the kernel's random generator failed: {error}");
    }
}

/// `N` bytes from the kernel's generator.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// The kernel's generator behind the trait that `sntrup` asks for.
pub(crate) struct KernelRng;

impl rand_core::TryRng for KernelRng {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(u32::from_le_bytes(bytes()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(u64::from_le_bytes(bytes()))
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
        fill(out);
        Ok(())
    }
}

impl rand_core::TryCryptoRng for KernelRng {}

#[cfg(test)]
mod tests {
    #[test]
    fn two_draws_differ_and_fill_the_whole_buffer() {
        let first: [u8; 64] = super::bytes();
        let second: [u8; 64] = super::bytes();
        assert_ne!(first, second);
        assert_ne!(first[..32], [0; 32]);
        assert_ne!(first[32..], [0; 32]);
    }
}
