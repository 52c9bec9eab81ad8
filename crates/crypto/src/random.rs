//! Random bytes from the kernel.
//!
//! aws-lc's generator is not used, because it has to be seeded in each process and after each fork;
//! every value that this crate draws itself comes from the kernel.
#![forbid(unsafe_code)]

use zeroize::Zeroizing;

/// Fills `out` with random bytes from the kernel.
///
/// # Panics
/// If the kernel provides neither `getrandom` nor `/dev/urandom`.
pub fn fill(out: &mut [u8]) {
    if let Err(error) = getrandom::fill(out) {
        panic!("the kernel's random generator failed: {error}");
    }
}

/// Returns `N` random bytes from the kernel.
#[must_use]
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut out = [0; N];
    fill(&mut out);
    out
}

/// The kernel's generator as the trait that `sntrup` needs. It draws 761 words one by one, so a
/// buffer saves a system call for each. To be used for one operation.
pub(crate) struct KernelRng {
    buffer: Zeroizing<[u8; Self::BUFFER_LEN]>,
    used: usize,
}

impl KernelRng {
    const BUFFER_LEN: usize = 1024;

    pub(crate) fn new() -> Self {
        Self {
            buffer: Zeroizing::new([0; Self::BUFFER_LEN]),
            used: Self::BUFFER_LEN,
        }
    }

    /// Returns the next bytes of the buffer; no byte is returned twice.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        if let Some(next) = self
            .buffer
            .get(self.used..)
            .and_then(|rest| rest.first_chunk())
        {
            self.used += N;
            return *next;
        }
        fill(&mut *self.buffer);
        self.used = N;
        self.buffer.first_chunk().copied().unwrap_or_else(bytes)
    }
}

impl rand_core::TryRng for KernelRng {
    type Error = core::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(u32::from_le_bytes(self.take()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(u64::from_le_bytes(self.take()))
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

    #[test]
    fn the_buffered_generator_hands_out_no_byte_twice() {
        use rand_core::Rng;
        let mut rng = super::KernelRng::new();
        let mut seen = std::collections::HashSet::new();
        // Four fills of the buffer, with words that cross its end.
        for _ in 0..340 {
            assert!(seen.insert(rng.next_u64()));
            let _ = rng.next_u32();
        }
    }
}
