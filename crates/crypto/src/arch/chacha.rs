//! chacha20-poly1305@openssh.com (OpenSSH's PROTOCOL.chacha20poly1305): selection of a kernel, and
//! the construction of a packet from it.
//!
//! The construction uses ChaCha20 with a 64-bit block counter. No packet reaches the 256 GiB at
//! which the upper word would change, so the kernels use a 32-bit counter as in RFC 8439.
//!
//! Keys, and values from which a key could be computed, are wiped. Values of a single packet, its
//! key stream and one-time key, are not wiped: they reveal that packet only.
#![forbid(unsafe_code)]

pub(super) mod portable;

use zeroize::{Zeroize, ZeroizeOnDrop};

use self::portable::Portable;
use super::CpuFeatures;
use crate::{IntegrityFailed, constant_time};

#[cfg(target_arch = "aarch64")]
use super::aarch64::chacha_neon::Neon;
#[cfg(target_arch = "x86_64")]
use super::x86_64::{chacha_avx2::Avx2, chacha_avx512::Avx512};

/// Size of a ChaCha20 block in bytes.
pub(super) const BLOCK_LEN: usize = 64;

/// "expand 32-byte k", as little-endian words.
pub(super) const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// A block of key stream.
pub(super) type ChaChaBlock = [u8; BLOCK_LEN];

/// The nonce of a packet: zeros, then the sequence number, big-endian, in the last 4 bytes.
pub(super) type Nonce = [u8; 12];

fn nonce(sequence_number: u32) -> Nonce {
    let [a, b, c, d] = sequence_number.to_be_bytes();
    [0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d]
}

/// The keys for content and packet length. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct ChaChaKeys {
    pub(super) content: [u8; 32],
    pub(super) length: [u8; 32],
}

/// The first blocks of a packet's key stream, computed in one call of a kernel: block 0 of the
/// content's key, whose first half is the Poly1305 key; block 0 of the length's key, for a kernel
/// that computes it at no cost; then the content's blocks from 1.
// The value is on the stack while one packet is processed.
#[allow(clippy::large_enum_variant)]
pub(super) enum Front {
    /// Two blocks of content.
    Four([ChaChaBlock; 4]),
    /// Six blocks of content.
    Eight([ChaChaBlock; 8]),
    /// Fourteen blocks of content.
    #[cfg(target_arch = "x86_64")]
    Sixteen([ChaChaBlock; 16]),
}

impl Front {
    /// The block for Poly1305, the length's block, and the content's blocks.
    #[inline]
    fn parts(&self) -> (&ChaChaBlock, &ChaChaBlock, &[ChaChaBlock]) {
        match self {
            Self::Four([key, length, content @ ..]) => (key, length, content),
            Self::Eight([key, length, content @ ..]) => (key, length, content),
            #[cfg(target_arch = "x86_64")]
            Self::Sixteen([key, length, content @ ..]) => (key, length, content),
        }
    }

    #[inline]
    fn one_time_key(&self) -> &[u8; 32] {
        let (key, _, _) = self.parts();
        let (key, _) = key.as_chunks();
        // A block has the size of two keys.
        &key[0]
    }

    #[inline]
    fn content(&self) -> &[ChaChaBlock] {
        let (_, _, content) = self.parts();
        content
    }
}

/// The primitives of the construction for one CPU level.
pub(super) trait ChaChaTier {
    /// The first blocks of the key stream for a body of `body_len` bytes: all blocks if the body is
    /// short.
    fn front(&self, keys: &ChaChaKeys, nonce: Nonce, body_len: usize) -> Front;

    /// The first bytes of the length's key stream.
    fn length(&self, keys: &ChaChaKeys, nonce: Nonce) -> [u8; 4];

    /// Like [`Self::length`], from the blocks that [`Self::front`] returned.
    #[inline]
    fn length_of(&self, front: &Front, _: &ChaChaKeys, _: Nonce) -> [u8; 4] {
        let (_, [a, b, c, d, ..], _) = front.parts();
        [*a, *b, *c, *d]
    }

    /// XORs the key stream of `key`, from block `counter`, into `data`.
    fn apply(&self, key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]);

    /// Returns the Poly1305 tag of `data`.
    fn tag(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16];
}

/// The kernels of one level of the CPU.
#[derive(Clone, Copy)]
enum ChaChaKernel {
    Portable(Portable),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Both keys, and the kernels for them.
pub(crate) struct ChaChaPolyKernel {
    keys: Box<ChaChaKeys>,
    kernel: ChaChaKernel,
}

/// Evaluates `$call` with `$tier` bound to the selected tier.
macro_rules! with_tier {
    ($kernel:expr, $tier:ident => $call:expr) => {
        match $kernel {
            ChaChaKernel::Portable($tier) => $call,
            #[cfg(target_arch = "aarch64")]
            ChaChaKernel::Neon($tier) => $call,
            #[cfg(target_arch = "x86_64")]
            ChaChaKernel::Avx2($tier) => $call,
            #[cfg(target_arch = "x86_64")]
            ChaChaKernel::Avx512($tier) => $call,
        }
    };
}

impl ChaChaPolyKernel {
    /// Creates the keys from the content's key, followed by the length's key.
    pub(crate) fn with_features(key: &[u8; 64], features: &CpuFeatures) -> Self {
        let mut keys = Box::new(ChaChaKeys {
            content: [0; 32],
            length: [0; 32],
        });
        let (content, length) = key.split_at(32);
        keys.content.copy_from_slice(content);
        keys.length.copy_from_slice(length);
        Self {
            keys,
            kernel: ChaChaKernel::choose(features),
        }
    }

    /// Encrypts length field and body in place and returns the tag over both.
    #[inline]
    pub(crate) fn seal(
        &self,
        sequence_number: u32,
        packet: &mut [u8],
    ) -> Result<[u8; 16], TooShort> {
        with_tier!(&self.kernel, tier => seal(tier, &self.keys, sequence_number, packet))
    }

    /// Decrypts the length field.
    #[inline]
    pub(crate) fn length(&self, sequence_number: u32, mut field: [u8; 4]) -> [u8; 4] {
        let nonce = nonce(sequence_number);
        let stream = with_tier!(&self.kernel, tier => tier.length(&self.keys, nonce));
        xor_front(&mut field, &stream);
        field
    }

    /// Verifies the tag, then decrypts the body in place.
    #[inline]
    pub(crate) fn open(
        &self,
        sequence_number: u32,
        packet: &mut [u8],
        tag: &[u8; 16],
    ) -> Result<(), IntegrityFailed> {
        with_tier!(&self.kernel, tier => open(tier, &self.keys, sequence_number, packet, tag))
    }

    /// The kernels' name, for benchmark tables.
    pub(crate) fn name(&self) -> &'static str {
        self.kernel.name()
    }
}

/// The packet is shorter than its length field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooShort;

/// The name of the kernels for these features.
pub(super) fn kernel_name(features: &CpuFeatures) -> &'static str {
    ChaChaKernel::choose(features).name()
}

impl ChaChaKernel {
    #[cfg(target_arch = "x86_64")]
    fn choose(features: &CpuFeatures) -> Self {
        if let Some(token) = features.avx512_ifma {
            Self::Avx512(Avx512::new(token))
        } else if let Some(token) = features.avx2 {
            Self::Avx2(Avx2::new(token))
        } else {
            Self::Portable(Portable::new())
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn choose(features: &CpuFeatures) -> Self {
        match features.neon {
            Some(token) => Self::Neon(Neon::new(token)),
            None => Self::Portable(Portable::new()),
        }
    }

    #[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
    fn choose(_: &CpuFeatures) -> Self {
        Self::Portable(Portable::new())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Portable(_) => "aws-lc",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512-ifma",
        }
    }
}

fn seal<T: ChaChaTier>(
    tier: &T,
    keys: &ChaChaKeys,
    sequence_number: u32,
    packet: &mut [u8],
) -> Result<[u8; 16], TooShort> {
    let nonce = nonce(sequence_number);
    let (field, body) = packet.split_first_chunk_mut::<4>().ok_or(TooShort)?;
    let front = tier.front(keys, nonce, body.len());
    xor_front(field, &tier.length_of(&front, keys, nonce));
    apply(tier, keys, nonce, &front, body);
    Ok(tier.tag(front.one_time_key(), packet))
}

fn open<T: ChaChaTier>(
    tier: &T,
    keys: &ChaChaKeys,
    sequence_number: u32,
    packet: &mut [u8],
    tag: &[u8; 16],
) -> Result<(), IntegrityFailed> {
    let nonce = nonce(sequence_number);
    let body_len = packet.len().checked_sub(4).ok_or(IntegrityFailed)?;
    let front = tier.front(keys, nonce, body_len);
    if !constant_time::eq(&tier.tag(front.one_time_key(), packet), tag) {
        return Err(IntegrityFailed);
    }
    let (_, body) = packet.split_first_chunk_mut::<4>().ok_or(IntegrityFailed)?;
    apply(tier, keys, nonce, &front, body);
    Ok(())
}

/// XORs the content's key stream into `body`: first the blocks in `front`, then newly computed
/// ones.
#[inline]
fn apply<T: ChaChaTier>(tier: &T, keys: &ChaChaKeys, nonce: Nonce, front: &Front, body: &mut [u8]) {
    let content = front.content();
    let stream = content.as_flattened();
    xor_front(body, stream);
    if let Some((_, rest)) = body.split_at_mut_checked(stream.len())
        && !rest.is_empty()
    {
        // There are at most 14 blocks, starting with block 1.
        let counter = u32::try_from(1 + content.len()).unwrap_or(u32::MAX);
        tier.apply(&keys.content, nonce, counter, rest);
    }
}

/// XORs `stream` into as much of `data` as it covers.
#[inline]
pub(super) fn xor_front(data: &mut [u8], stream: &[u8]) {
    let (words, rest) = data.as_chunks_mut::<16>();
    let (stream_words, _) = stream.as_chunks::<16>();
    for (word, stream) in words.iter_mut().zip(stream_words) {
        *word = (u128::from_ne_bytes(*word) ^ u128::from_ne_bytes(*stream)).to_ne_bytes();
    }
    let behind = stream.get(words.as_flattened().len()..).unwrap_or_default();
    for (byte, stream) in rest.iter_mut().zip(behind) {
        *byte ^= stream;
    }
}

#[cfg(test)]
mod tests;
