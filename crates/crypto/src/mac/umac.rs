//! UMAC (RFC 4418, with erratum 3507) with AES-128 and tags of 64 or 128 bits, as in
//! umac-64@openssh.com and umac-128@openssh.com.
//!
//! The nonce is the sequence number as 64 bits, big-endian. The first layer (NH) has kernels in
//! [`crate::arch`]; the second and third layer and the pad are here. Messages may have any length;
//! those above 16 MiB use the 128-bit polynomial.
#![forbid(unsafe_code)]

use zeroize::{Zeroize, Zeroizing};

use crate::KeyLengthError;
use crate::arch::CpuFeatures;
use crate::arch::nh::{BLOCK_LEN, NhKey, STREAM_SHIFT_LEN};
use crate::awslc::aes::AesKey;

mod poly;

use poly::{Long, MAX_WORDS_64, Poly};

/// Maximum number of streams: each makes 32 bits of tag (RFC 4418 §4.1), at most 128 bits.
const MAX_STREAMS: usize = 4;
/// 2^36 - 5 (RFC 4418 §5.4).
const PRIME_36: u64 = 0xf_ffff_fffb;

/// A UMAC key.
pub(super) struct Umac {
    pad: AesKey,
    nh: NhKey,
    streams: [UmacStream; MAX_STREAMS],
    tag_len: usize,
}

/// The keys of the second and third layer of one stream.
#[derive(Default)]
struct UmacStream {
    poly: poly::PolyKey,
    l3_inner: [u64; 8],
    l3_xor: u32,
}

impl Drop for UmacStream {
    fn drop(&mut self) {
        self.l3_inner.zeroize();
        self.l3_xor.zeroize();
    }
}

impl Umac {
    /// Creates a key for tags of 8 or 16 bytes.
    pub(super) fn new(
        key: &[u8; 16],
        tag_len: usize,
        features: &CpuFeatures,
    ) -> Result<Self, KeyLengthError> {
        if tag_len != 8 && tag_len != 16 {
            return Err(KeyLengthError);
        }
        let count = tag_len / 4;
        let master = AesKey::for_encryption(key).map_err(|_| KeyLengthError)?;
        let pad_key = derive(&master, 0, 16);
        let l1 = derive(&master, 1, BLOCK_LEN + (count - 1) * STREAM_SHIFT_LEN);
        let l2 = derive(&master, 2, count * 24);
        let l3_inner = derive(&master, 3, count * 64);
        let l3_xor = derive(&master, 4, count * 4);

        let mut streams: [UmacStream; MAX_STREAMS] = Default::default();
        let parts = l2
            .chunks_exact(24)
            .zip(l3_inner.chunks_exact(64))
            .zip(l3_xor.chunks_exact(4));
        for (stream, ((l2, inner), xor)) in streams.iter_mut().zip(parts) {
            stream.poly = poly::PolyKey::new(l2);
            for (key, bytes) in stream.l3_inner.iter_mut().zip(inner.chunks_exact(8)) {
                *key = be_u64(bytes) % PRIME_36;
            }
            stream.l3_xor = be_u32(xor);
        }
        Ok(Self {
            pad: AesKey::for_encryption(&pad_key).map_err(|_| KeyLengthError)?,
            nh: NhKey::with_features(&l1, count, features),
            streams,
            tag_len,
        })
    }

    /// The kernel's name, for benchmark tables.
    pub(super) fn kernel(&self) -> &'static str {
        self.nh.kernel()
    }

    /// Returns the tag over the concatenation of `parts`, and its length in bytes.
    pub(super) fn compute(&self, nonce: u64, parts: &[&[u8]]) -> ([u8; 16], usize) {
        let mut state = UmacState::default();
        match parts {
            [only] => {
                let (blocks, rest) = only.as_chunks::<BLOCK_LEN>();
                for block in blocks {
                    state.block(self, block);
                }
                if !rest.is_empty() || blocks.is_empty() {
                    state.short_block(self, rest);
                }
            }
            _ => state.absorb_parts(self, parts),
        }
        let mut tag = self.pad(nonce);
        for (i, out) in tag.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            if let Some(stream) = self.streams.get(i).filter(|_| 4 * i < self.tag_len) {
                let hash = stream.l3_hash(state.l2_hash(i, &stream.poly));
                *out = (u32::from_be_bytes(*out) ^ hash).to_be_bytes();
            }
        }
        (tag, self.tag_len)
    }

    /// The pad of a nonce (RFC 4418 §3.3), at the start of the result: with 64-bit tags two nonces
    /// share an AES block.
    fn pad(&self, nonce: u64) -> [u8; 16] {
        let halves = self.tag_len == 8;
        let mut block = [0u8; 16];
        let counter = if halves { nonce & !1 } else { nonce };
        for (to, from) in block.iter_mut().zip(counter.to_be_bytes()) {
            *to = from;
        }
        self.pad.encrypt_block(&mut block);
        if halves && nonce & 1 == 1 {
            block.rotate_left(8);
        }
        block
    }
}

impl UmacStream {
    /// RFC 4418 §5.4.
    fn l3_hash(&self, message: u128) -> u32 {
        let mut sum = 0u64;
        for (word, key) in message.to_be_bytes().chunks_exact(2).zip(&self.l3_inner) {
            let word = u64::from(word.iter().fold(0u16, |all, b| all << 8 | u16::from(*b)));
            // 8 products of 16 by 36 bits stay below 2^55.
            sum += word * key;
        }
        let low = (sum % PRIME_36) & u64::from(u32::MAX);
        u32::try_from(low).unwrap_or_default() ^ self.l3_xor
    }
}

/// The state of the first two layers for one message.
#[derive(Default)]
struct UmacState {
    /// Number of first-layer words so far.
    words: u64,
    /// First word of each stream: a message of one block skips the second layer.
    first: [u64; MAX_STREAMS],
    poly: [Poly; MAX_STREAMS],
    /// Boxed, because no packet is long enough to need it.
    long: Option<Box<[Long; MAX_STREAMS]>>,
}

impl UmacState {
    /// The second-layer hash (RFC 4418 §5.3), or the padded first-layer word if there is only one
    /// (§5.1).
    fn l2_hash(&self, stream: usize, key: &poly::PolyKey) -> u128 {
        if self.words <= 1 {
            return u128::from(self.first[stream]);
        }
        match &self.long {
            None => self.poly[stream].finish(),
            Some(long) => long[stream].finish(key),
        }
    }

    /// Absorbs a whole block.
    #[inline]
    fn block(&mut self, key: &Umac, data: &[u8; BLOCK_LEN]) {
        self.absorb(key, key.nh.block(data), BLOCK_LEN);
    }

    /// Absorbs the last, short block.
    fn short_block(&mut self, key: &Umac, data: &[u8]) {
        self.absorb(key, key.nh.short_block(data), data.len());
    }

    /// Absorbs the first-layer words of a block of `len` bytes.
    #[inline]
    fn absorb(&mut self, key: &Umac, hashes: [u64; MAX_STREAMS], len: usize) {
        let words = hashes.map(|hash| hash.wrapping_add(8 * len as u64));
        if self.words == 0 {
            self.first = words;
        }
        if self.words < MAX_WORDS_64 {
            let streams = self.poly.iter_mut().zip(&key.streams).zip(words);
            for ((poly, stream), word) in streams.take(key.tag_len / 4) {
                poly.absorb(&stream.poly, word);
            }
        } else {
            self.absorb_long(key, words);
        }
        self.words += 1;
    }

    #[cold]
    fn absorb_long(&mut self, key: &Umac, words: [u64; MAX_STREAMS]) {
        let poly = &self.poly;
        let long = self.long.get_or_insert_with(|| {
            Box::new(core::array::from_fn(|i| {
                Long::after(&key.streams[i].poly, &poly[i])
            }))
        });
        for ((long, stream), word) in long.iter_mut().zip(&key.streams).zip(words) {
            long.absorb(&stream.poly, word);
        }
    }

    /// Absorbs a message in parts; copies blocks that cross the parts' boundaries.
    fn absorb_parts(&mut self, key: &Umac, parts: &[&[u8]]) {
        let mut buffer = [0u8; BLOCK_LEN];
        let mut filled = 0;
        let mut empty = true;
        for part in parts {
            let mut part = *part;
            while !part.is_empty() {
                if filled == 0
                    && let Some((block, rest)) = part.split_first_chunk::<BLOCK_LEN>()
                {
                    self.block(key, block);
                    empty = false;
                    part = rest;
                    continue;
                }
                let take = part.len().min(BLOCK_LEN - filled);
                let (now, rest) = part.split_at(take);
                if let Some(room) = buffer.get_mut(filled..filled + take) {
                    room.copy_from_slice(now);
                }
                filled += take;
                part = rest;
                if filled == BLOCK_LEN {
                    self.block(key, &buffer);
                    empty = false;
                    filled = 0;
                }
            }
        }
        if filled > 0 || empty {
            self.short_block(key, buffer.get(..filled).unwrap_or_default());
        }
    }
}

/// The key derivation of RFC 4418 §3.2.
fn derive(master: &AesKey, index: u8, len: usize) -> Zeroizing<Vec<u8>> {
    let mut out = Zeroizing::new(vec![0u8; len.next_multiple_of(16)]);
    for (i, block) in (1u64..).zip(out.as_chunks_mut::<16>().0) {
        *block = (u128::from(index) << 64 | u128::from(i)).to_be_bytes();
        master.encrypt_block(block);
    }
    out.truncate(len);
    out
}

fn be_u64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn be_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests;
