//! NH, the first layer of UMAC (RFC 4418 §5.2.2): the portable kernel, and selection of a kernel.
#![forbid(unsafe_code)]

use zeroize::Zeroize;

use super::CpuFeatures;

/// Number of bytes that one NH key covers.
pub(crate) const BLOCK_LEN: usize = 1024;
/// NH works on whole chunks of this many bytes.
pub(crate) const CHUNK_LEN: usize = 32;
/// Offset in bytes of each stream's key from the previous one.
pub(crate) const STREAM_SHIFT_LEN: usize = 16;

/// Number of key words for four streams.
const MAX_WORDS: usize = (BLOCK_LEN + 3 * STREAM_SHIFT_LEN) / 4;

/// The NH keys of two or four streams.
pub(crate) struct NhKey {
    words: Box<[u32; MAX_WORDS]>,
    streams: usize,
    kernel: NhKernel,
}

enum NhKernel {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon(super::HaveNeon),
    #[cfg(target_arch = "x86_64")]
    Avx2(super::x86_64::nh_avx2::NhAvx2Key),
    #[cfg(target_arch = "x86_64")]
    Avx512(super::x86_64::nh_avx512::NhAvx512Key),
}

impl NhKey {
    /// Creates a key from the key bytes of all `streams` (2 or 4).
    pub(crate) fn with_features(key: &[u8], streams: usize, features: &CpuFeatures) -> Self {
        let mut words = Box::new([0; MAX_WORDS]);
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        let kernel = NhKernel::choose(&words, streams, features);
        Self {
            words,
            streams,
            kernel,
        }
    }

    /// The kernel's name, for benchmark tables.
    pub(crate) fn kernel(&self) -> &'static str {
        match &self.kernel {
            NhKernel::Portable => "portable",
            #[cfg(target_arch = "aarch64")]
            NhKernel::Neon(_) => "neon",
            #[cfg(target_arch = "x86_64")]
            NhKernel::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            NhKernel::Avx512(_) => "avx512",
        }
    }

    /// NH of a whole block, for each stream.
    #[inline]
    pub(crate) fn block(&self, data: &[u8; BLOCK_LEN]) -> [u64; 4] {
        let mut out = [0; 4];
        match &self.kernel {
            NhKernel::Portable => self.portable(0, data, &mut out),
            #[cfg(target_arch = "aarch64")]
            NhKernel::Neon(token) => self.neon(*token, data.as_chunks().0, &mut out),
            #[cfg(target_arch = "x86_64")]
            NhKernel::Avx2(key) => key.hash(data.as_chunks().0, &mut out),
            #[cfg(target_arch = "x86_64")]
            NhKernel::Avx512(key) => key.hash(data.as_chunks().0, &mut out),
        }
        out
    }

    /// NH of a short block, zero-padded to a positive multiple of a chunk
    /// (RFC 4418 §5.2), for each stream. `data` is at most a block.
    pub(crate) fn short_block(&self, data: &[u8]) -> [u64; 4] {
        let mut out = [0; 4];
        // The widest steps first, then single chunks, then the padded rest.
        let chunks = match &self.kernel {
            NhKernel::Portable => data,
            #[cfg(target_arch = "aarch64")]
            NhKernel::Neon(token) => {
                let (chunks, rest) = data.as_chunks();
                self.neon(*token, chunks, &mut out);
                rest
            }
            #[cfg(target_arch = "x86_64")]
            NhKernel::Avx2(key) => {
                let (steps, rest) = data.as_chunks();
                key.hash(steps, &mut out);
                rest
            }
            #[cfg(target_arch = "x86_64")]
            NhKernel::Avx512(key) => {
                let (steps, rest) = data.as_chunks();
                key.hash(steps, &mut out);
                rest
            }
        };
        let (chunks, rest) = chunks.as_chunks::<CHUNK_LEN>();
        let done = data.len() - rest.len();
        self.portable(
            done - chunks.as_flattened().len(),
            chunks.as_flattened(),
            &mut out,
        );
        if !rest.is_empty() || data.is_empty() {
            let mut padded = [0; CHUNK_LEN];
            for (to, from) in padded.iter_mut().zip(rest) {
                *to = *from;
            }
            self.portable(done, &padded, &mut out);
        }
        out
    }

    /// Adds NH of the chunks of `data`, which begin `offset` bytes into their block.
    fn portable(&self, offset: usize, data: &[u8], out: &mut [u64; 4]) {
        let key = self.words.get(offset / 4..).unwrap_or_default();
        if self.streams == 2 {
            portable::<2>(key, data, out);
        } else {
            portable::<4>(key, data, out);
        }
    }

    #[cfg(target_arch = "aarch64")]
    #[inline]
    fn neon(&self, token: super::HaveNeon, chunks: &[[u8; CHUNK_LEN]], out: &mut [u64; 4]) {
        super::aarch64::nh_neon::hash(token, &self.words[..], self.streams, chunks, out);
    }
}

impl Drop for NhKey {
    fn drop(&mut self) {
        self.words.zeroize();
    }
}

impl NhKernel {
    #[cfg(target_arch = "x86_64")]
    fn choose(words: &[u32; MAX_WORDS], streams: usize, features: &CpuFeatures) -> Self {
        use super::x86_64::{nh_avx2, nh_avx512};
        if let Some(token) = features.avx512 {
            Self::Avx512(nh_avx512::NhAvx512Key::new(token, words, streams))
        } else if let Some(token) = features.avx2 {
            Self::Avx2(nh_avx2::NhAvx2Key::new(token, words, streams))
        } else {
            Self::Portable
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn choose(_: &[u32; MAX_WORDS], _: usize, features: &CpuFeatures) -> Self {
        features.neon.map_or(Self::Portable, Self::Neon)
    }

    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    fn choose(_: &[u32; MAX_WORDS], _: usize, _: &CpuFeatures) -> Self {
        Self::Portable
    }
}

/// Adds NH of `data` under `key` to the first `STREAMS` values of `out`. Each stream has four
/// independent sums, so that the compiler can use vectors.
fn portable<const STREAMS: usize>(key: &[u32], data: &[u8], out: &mut [u64; 4]) {
    let mut sums = [[0u64; 4]; STREAMS];
    for (i, chunk) in data.as_chunks::<CHUNK_LEN>().0.iter().enumerate() {
        let mut words = [0u32; 8];
        for (word, bytes) in words.iter_mut().zip(chunk.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        for (stream, sums) in sums.iter_mut().enumerate() {
            let Some(key) = key
                .get(8 * i + 4 * stream..)
                .and_then(|k| k.first_chunk::<8>())
            else {
                return;
            };
            for (j, sum) in sums.iter_mut().enumerate() {
                let low = words[j].wrapping_add(key[j]);
                let high = words[j + 4].wrapping_add(key[j + 4]);
                *sum = sum.wrapping_add(u64::from(low) * u64::from(high));
            }
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        for sum in sums {
            *out = out.wrapping_add(sum);
        }
    }
}

#[cfg(test)]
pub(super) fn noise_key(noise: &mut crate::test_support::Noise) -> Vec<u8> {
    noise.bytes(4 * MAX_WORDS)
}
