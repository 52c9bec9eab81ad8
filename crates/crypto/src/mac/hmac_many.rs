//! HMAC (RFC 2104) over many packets with one key: all inner hashes in parallel lanes, then all
//! outer ones.
//!
//! [`crate::arch::sha`] computes hashes in parallel lanes; this module splits packets into blocks
//! and converts states to tags.
#![forbid(unsafe_code)]

use zeroize::{Zeroize, Zeroizing};

use super::Tag;
use crate::arch::CpuFeatures;
use crate::arch::sha::{HashMessage, HashState, MAX_MESSAGES, Tiers};
use crate::awslc::digest;
use crate::hash::HashAlgorithm;

/// An HMAC key for many packets.
pub(super) enum HmacMany {
    Sha1(KeyStates<u32, 64>),
    Sha256(KeyStates<u32, 64>),
    Sha512(KeyStates<u64, 128>),
}

/// The two hash states after the padded key block.
pub(super) struct KeyStates<W: Zeroize, const BLOCK: usize> {
    inner: HashState<W>,
    outer: HashState<W>,
    tiers: Tiers<W, BLOCK>,
    digest_len: usize,
}

impl<W: Zeroize, const BLOCK: usize> Drop for KeyStates<W, BLOCK> {
    fn drop(&mut self) {
        self.inner.zeroize();
        self.outer.zeroize();
    }
}

impl HmacMany {
    /// Creates a key of at most one block; `None` if this hash has no kernels.
    pub(super) fn new(hash: HashAlgorithm, key: &[u8], features: &CpuFeatures) -> Option<Self> {
        match hash {
            HashAlgorithm::Sha1 => {
                let tiers = Tiers::sha1(features);
                KeyStates::new(hash, key, tiers, digest::sha1_start(), digest::sha1_blocks)
                    .map(Self::Sha1)
            }
            HashAlgorithm::Sha256 => {
                let tiers = Tiers::sha256(features);
                let start = digest::sha256_start();
                KeyStates::new(hash, key, tiers, start, digest::sha256_blocks).map(Self::Sha256)
            }
            HashAlgorithm::Sha512 => {
                let tiers = Tiers::sha512(features);
                let start = digest::sha512_start();
                KeyStates::new(hash, key, tiers, start, digest::sha512_blocks).map(Self::Sha512)
            }
            HashAlgorithm::Md5 | HashAlgorithm::Sha384 => None,
        }
    }

    /// Minimum number of packets for which [`Self::compute`] is faster; `None` if never.
    pub(super) fn min_packets(&self) -> Option<usize> {
        match self {
            Self::Sha1(key) | Self::Sha256(key) => key.tiers.min_messages(),
            Self::Sha512(key) => key.tiers.min_messages(),
        }
    }

    /// The widest kernel's name.
    pub(super) fn kernel(&self) -> &'static str {
        match self {
            Self::Sha1(key) | Self::Sha256(key) => key.tiers.name(),
            Self::Sha512(key) => key.tiers.name(),
        }
    }

    /// Writes the tags over each packet's sequence number and bytes, in order.
    pub(super) fn compute(&self, packets: &[(u32, &[u8])], tags: &mut [Tag]) {
        let groups = packets
            .chunks(MAX_MESSAGES)
            .zip(tags.chunks_mut(MAX_MESSAGES));
        for (packets, tags) in groups {
            match self {
                Self::Sha1(key) | Self::Sha256(key) => key.compute_group(packets, tags),
                Self::Sha512(key) => key.compute_group(packets, tags),
            }
        }
    }
}

/// A word of a hash state with its big-endian encoding.
pub(super) trait HashWord: Copy + Default + Zeroize {
    fn write(self, to: &mut [u8]);
}

impl HashWord for u32 {
    fn write(self, to: &mut [u8]) {
        to.copy_from_slice(&self.to_be_bytes());
    }
}

impl HashWord for u64 {
    fn write(self, to: &mut [u8]) {
        to.copy_from_slice(&self.to_be_bytes());
    }
}

/// The blocks of the padded message that are not contiguous in the packet: the first, which begins
/// with the sequence number, and the last one or two.
#[derive(Clone, Copy)]
struct EdgeBlocks<const BLOCK: usize>([[u8; BLOCK]; 3]);

impl<const BLOCK: usize> EdgeBlocks<BLOCK> {
    /// Writes the ends of the padded message. Returns the number of blocks at the start (0 or 1)
    /// and at the end (1 or 2).
    fn fill(&mut self, sequence_number: u32, data: &[u8]) -> (usize, usize) {
        let number = sequence_number.to_be_bytes();
        let Self(blocks) = self;
        let [first, last @ ..] = blocks;
        let last = last.as_flattened_mut();
        let (starts, filled) = if data.len() >= BLOCK - number.len() {
            let (to, rest) = first.split_at_mut(number.len());
            to.copy_from_slice(&number);
            let (front, rest_of_data) = data.split_at(rest.len());
            rest.copy_from_slice(front);
            let (_, tail) = rest_of_data.as_chunks::<BLOCK>();
            last[..tail.len()].copy_from_slice(tail);
            (1, tail.len())
        } else {
            last[..number.len()].copy_from_slice(&number);
            last[number.len()..number.len() + data.len()].copy_from_slice(data);
            (0, number.len() + data.len())
        };
        let message_len = BLOCK + number.len() + data.len();
        (starts, pad(last, filled, BLOCK, message_len))
    }
}

/// Pads the last one or two blocks, of which `filled` bytes are used (FIPS 180-4 §5.1). Returns the
/// number of blocks.
fn pad(last: &mut [u8], filled: usize, block_len: usize, message_len: usize) -> usize {
    let count = if filled + 1 + block_len / 8 <= block_len {
        1
    } else {
        2
    };
    let end = count * block_len;
    last[filled] = 0x80;
    last[filled + 1..end - 8].fill(0);
    last[end - 8..end].copy_from_slice(&(8 * message_len as u64).to_be_bytes());
    count
}

impl<W: HashWord, const BLOCK: usize> KeyStates<W, BLOCK> {
    fn new(
        hash: HashAlgorithm,
        key: &[u8],
        tiers: Tiers<W, BLOCK>,
        start: HashState<W>,
        compress: impl Fn(&mut HashState<W>, &[[u8; BLOCK]]),
    ) -> Option<Self> {
        let mut block = Zeroizing::new([0; BLOCK]);
        block.get_mut(..key.len())?.copy_from_slice(key);
        let absorb = |pad: u8| {
            let padded = Zeroizing::new(block.map(|byte| byte ^ pad));
            let mut state = start;
            compress(&mut state, core::slice::from_ref(&padded));
            state
        };
        Some(Self {
            inner: absorb(0x36),
            outer: absorb(0x5c),
            tiers,
            digest_len: hash.digest_len(),
        })
    }

    /// Computes the tags of at most [`MAX_MESSAGES`] packets.
    fn compute_group(&self, packets: &[(u32, &[u8])], tags: &mut [Tag]) {
        // For a few packets, less memory has to be cleared.
        if packets.len() <= 4 {
            self.compute::<4>(packets, tags);
        } else {
            self.compute::<MAX_MESSAGES>(packets, tags);
        }
    }

    /// Computes the tags of at most `N` packets.
    fn compute<const N: usize>(&self, packets: &[(u32, &[u8])], tags: &mut [Tag]) {
        let mut ends = [EdgeBlocks([[0; BLOCK]; 3]); N];
        let mut counts = [(0, 0); N];
        let places = ends.iter_mut().zip(&mut counts);
        for ((ends, counts), (number, data)) in places.zip(packets) {
            *counts = ends.fill(*number, data);
        }
        let mut messages = [HashMessage {
            state: self.inner,
            parts: [&[][..]; 3],
        }; N];
        let places = messages.iter_mut().zip(ends.iter().zip(&counts));
        for ((message, (EdgeBlocks(ends), (starts, last))), (_, data)) in places.zip(packets) {
            let middle = match starts {
                0 => &[],
                _ => data.get(BLOCK - 4..).unwrap_or_default().as_chunks().0,
            };
            message.parts = [&ends[..*starts], middle, &ends[1..1 + last]];
        }
        let messages = &mut messages[..packets.len()];
        self.tiers.compress(messages);
        let mut digests = [[W::default(); 8]; N];
        for (digest, message) in digests.iter_mut().zip(messages.iter()) {
            *digest = message.state;
        }
        self.outer::<N>(&digests[..packets.len()], tags);
    }

    /// Computes the outer hashes over the inner ones.
    fn outer<const N: usize>(&self, inner: &[HashState<W>], tags: &mut [Tag]) {
        let mut blocks = [[[0u8; BLOCK]; 1]; N];
        for (block, inner) in blocks.iter_mut().zip(inner) {
            let block = block.as_flattened_mut();
            write_digest(inner, &mut block[..self.digest_len]);
            pad(block, self.digest_len, BLOCK, BLOCK + self.digest_len);
        }
        let mut messages = [HashMessage {
            state: self.outer,
            parts: [&[][..]; 3],
        }; N];
        for (message, block) in messages.iter_mut().zip(&blocks) {
            message.parts[0] = block;
        }
        let messages = &mut messages[..inner.len()];
        self.tiers.compress(messages);
        for (tag, message) in tags.iter_mut().zip(messages.iter()) {
            *tag = Tag::of_len(self.digest_len);
            write_digest(&message.state, tag.buffer());
        }
    }
}

fn write_digest<W: HashWord>(state: &HashState<W>, to: &mut [u8]) {
    for (bytes, word) in to.chunks_exact_mut(size_of::<W>()).zip(state) {
        word.write(bytes);
    }
}

#[cfg(test)]
mod tests;
