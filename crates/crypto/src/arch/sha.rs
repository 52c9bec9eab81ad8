//! SHA-1, SHA-256 and SHA-512 (FIPS 180-4) of many messages in parallel lanes: the available
//! kernels, and the distribution of messages of any length over their lanes. A single hash is a
//! chain of dependent steps and leaves most of a core idle; several messages fill it.
//!
//! Messages consist of whole blocks, including padding; `mac/hmac_many` builds them.
#![forbid(unsafe_code)]

pub(super) mod constants;

use super::CpuFeatures;
use crate::awslc::digest;

/// The state of a hash within a message, H0 to H7 of FIPS 180-4. SHA-1 uses the first five.
pub(crate) type HashState<W> = [W; 8];

/// The states of one message per lane, word by word.
#[repr(C, align(64))]
pub(crate) struct States<W, const LANES: usize>(pub(crate) [[W; LANES]; 8]);

/// Blocks of one message per lane.
pub(crate) type Lanes<'a, const BLOCK: usize, const LANES: usize> = [&'a [[u8; BLOCK]]; LANES];

/// A kernel: the compression function of one hash in `LANES` lanes.
#[derive(Clone, Copy)]
pub(crate) struct HashKernel<W, const BLOCK: usize, const LANES: usize> {
    pub(crate) name: &'static str,
    /// Absorbs the blocks of each lane into its state; if the lanes' numbers of blocks differ, as
    /// many as the shortest lane has. The function can be obtained only with a CPU token.
    pub(crate) compress: fn(&mut States<W, LANES>, Lanes<'_, BLOCK, LANES>),
}

/// A kernel, and the minimum number of messages for which it is the fastest.
#[derive(Clone, Copy)]
struct HashTier<W, const BLOCK: usize, const LANES: usize> {
    kernel: HashKernel<W, BLOCK, LANES>,
    min_messages: usize,
}

/// The kernels of one hash for this CPU, at most one of each width.
#[derive(Clone, Copy)]
pub(crate) struct Tiers<W, const BLOCK: usize> {
    sixteen: Option<HashTier<W, BLOCK, 16>>,
    eight: Option<HashTier<W, BLOCK, 8>>,
    four: Option<HashTier<W, BLOCK, 4>>,
    two: Option<HashTier<W, BLOCK, 2>>,
    one: HashKernel<W, BLOCK, 1>,
}

/// A message in progress: its state, and its remaining blocks.
#[derive(Clone, Copy)]
pub(crate) struct HashMessage<'a, W, const BLOCK: usize> {
    pub(crate) state: HashState<W>,
    /// Remaining blocks in three parts, because the middle of a message is hashed in place and its
    /// ends are assembled elsewhere.
    pub(crate) parts: [&'a [[u8; BLOCK]]; 3],
}

/// Maximum number of messages for [`Tiers::compress`].
pub(crate) const MAX_MESSAGES: usize = 32;

impl<W: Copy + Default, const BLOCK: usize> Tiers<W, BLOCK> {
    /// Absorbs all remaining blocks of all messages, at most [`MAX_MESSAGES`].
    pub(crate) fn compress(&self, messages: &mut [HashMessage<'_, W, BLOCK>]) {
        debug_assert!(messages.len() <= MAX_MESSAGES);
        let mut queue = Queue::of(messages);
        if let Some(tier) = &self.sixteen {
            tier.run(messages, &mut queue);
        }
        if let Some(tier) = &self.eight {
            tier.run(messages, &mut queue);
        }
        if let Some(tier) = &self.four {
            tier.run(messages, &mut queue);
        }
        if let Some(tier) = &self.two {
            tier.run(messages, &mut queue);
        }
        let last = HashTier {
            kernel: self.one,
            min_messages: 1,
        };
        last.run(messages, &mut queue);
    }

    /// Minimum number of messages that are faster together than singly; `None` if never.
    pub(crate) fn min_messages(&self) -> Option<usize> {
        let min_messages = [
            self.two.map(|tier| tier.min_messages),
            self.four.map(|tier| tier.min_messages),
            self.eight.map(|tier| tier.min_messages),
            self.sixteen.map(|tier| tier.min_messages),
        ];
        min_messages.into_iter().flatten().min()
    }

    /// The widest kernel's name, for benchmark tables.
    pub(crate) fn name(&self) -> &'static str {
        let names = [
            self.sixteen.map(|tier| tier.kernel.name),
            self.eight.map(|tier| tier.kernel.name),
            self.four.map(|tier| tier.kernel.name),
            self.two.map(|tier| tier.kernel.name),
        ];
        names.into_iter().flatten().next().unwrap_or(self.one.name)
    }

    fn only(one: HashKernel<W, BLOCK, 1>) -> Self {
        Self {
            sixteen: None,
            eight: None,
            four: None,
            two: None,
            one,
        }
    }
}

/// Messages that wait for a lane, the longest first: lanes that become free then take shorter ones,
/// and all lanes finish at about the same time.
struct Queue {
    order: [usize; MAX_MESSAGES],
    len: usize,
}

impl Queue {
    fn of<W, const BLOCK: usize>(messages: &[HashMessage<'_, W, BLOCK>]) -> Self {
        let mut this = Self {
            order: core::array::from_fn(|i| i),
            len: messages.len().min(MAX_MESSAGES),
        };
        this.sort(messages);
        this
    }

    /// Sorts by length, the longest last, where `pop` takes from.
    fn sort<W, const BLOCK: usize>(&mut self, messages: &[HashMessage<'_, W, BLOCK>]) {
        if let Some(order) = self.order.get_mut(..self.len) {
            order.sort_by_key(|&i| messages.get(i).map_or(0, HashMessage::blocks_left));
        }
    }

    fn pop(&mut self) -> Option<usize> {
        self.len = self.len.checked_sub(1)?;
        self.order.get(self.len).copied()
    }

    fn push(&mut self, message: usize) {
        if let Some(place) = self.order.get_mut(self.len) {
            *place = message;
            self.len += 1;
        }
    }
}

impl<'a, W, const BLOCK: usize> HashMessage<'a, W, BLOCK> {
    fn blocks_left(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    fn is_done(&self) -> bool {
        self.parts.iter().all(|part| part.is_empty())
    }

    /// The next non-empty part.
    fn next(&self) -> &'a [[u8; BLOCK]] {
        let mut parts = self.parts.into_iter();
        parts.find(|part| !part.is_empty()).unwrap_or_default()
    }

    /// Drops `count` blocks from the next part.
    fn advance(&mut self, count: usize) {
        if let Some(part) = self.parts.iter_mut().find(|part| !part.is_empty()) {
            *part = part.get(count..).unwrap_or_default();
        }
    }
}

impl<W: Copy + Default, const LANES: usize> States<W, LANES> {
    fn lane(&self, lane: usize) -> HashState<W> {
        core::array::from_fn(|word| self.0[word][lane])
    }

    fn set_lane(&mut self, lane: usize, state: &HashState<W>) {
        for (words, word) in self.0.iter_mut().zip(state) {
            words[lane] = *word;
        }
    }
}

impl<W: Copy + Default, const BLOCK: usize, const LANES: usize> HashTier<W, BLOCK, LANES> {
    /// Processes the queue while enough lanes are busy to be worth it; then queues the remaining
    /// messages again, with their states.
    fn run(&self, messages: &mut [HashMessage<'_, W, BLOCK>], queue: &mut Queue) {
        if queue.len < self.min_messages {
            return;
        }
        let mut states = States([[W::default(); LANES]; 8]);
        // The message of each busy lane; the busy lanes are the first ones.
        let mut lanes = [0; LANES];
        let mut busy = 0;
        loop {
            while busy < LANES
                && let Some(message) = queue.pop()
            {
                lanes[busy] = message;
                states.set_lane(busy, &messages[message].state);
                busy += 1;
            }
            if busy < self.min_messages {
                break;
            }
            let count = self.step(messages, &lanes[..busy], &mut states);
            // From the last lane down, so that a message that moves into a freed lane has already
            // been handled.
            for lane in (0..busy).rev() {
                let message = &mut messages[lanes[lane]];
                message.advance(count);
                if message.is_done() {
                    message.state = states.lane(lane);
                    busy -= 1;
                    if lane < busy {
                        lanes[lane] = lanes[busy];
                        let moved = states.lane(busy);
                        states.set_lane(lane, &moved);
                    }
                }
            }
        }
        for (lane, message) in lanes.into_iter().enumerate().take(busy) {
            messages[message].state = states.lane(lane);
            queue.push(message);
        }
        queue.sort(messages);
    }

    /// Absorbs as many blocks as every busy lane has in one part, and returns their number.
    fn step(
        &self,
        messages: &[HashMessage<'_, W, BLOCK>],
        busy: &[usize],
        states: &mut States<W, LANES>,
    ) -> usize {
        let mut pieces: Lanes<'_, BLOCK, LANES> = [&[]; LANES];
        let mut count = usize::MAX;
        for (piece, message) in pieces.iter_mut().zip(busy) {
            *piece = messages[*message].next();
            count = count.min(piece.len());
        }
        // Lanes without a message repeat the first one's work.
        let first = pieces[0];
        for piece in &mut pieces[busy.len()..] {
            *piece = first;
        }
        for piece in &mut pieces {
            *piece = piece.get(..count).unwrap_or_default();
        }
        (self.kernel.compress)(states, pieces);
        count
    }
}

impl Tiers<u32, 64> {
    /// The kernels of SHA-1.
    pub(crate) fn sha1(features: &CpuFeatures) -> Self {
        let mut this = Self::only(HashKernel {
            name: "aws-lc",
            compress: |states, [blocks]| {
                one_lane(states, |state| digest::sha1_blocks(state, blocks))
            },
        });
        this.add_sha1(features);
        this
    }

    /// The kernels of SHA-256.
    pub(crate) fn sha256(features: &CpuFeatures) -> Self {
        let mut this = Self::only(HashKernel {
            name: "aws-lc",
            compress: |states, [blocks]| {
                one_lane(states, |state| digest::sha256_blocks(state, blocks))
            },
        });
        this.add_sha256(features);
        this
    }
}

impl Tiers<u64, 128> {
    /// The kernels of SHA-512.
    pub(crate) fn sha512(features: &CpuFeatures) -> Self {
        let mut this = Self::only(HashKernel {
            name: "aws-lc",
            compress: |states, [blocks]| {
                one_lane(states, |state| digest::sha512_blocks(state, blocks))
            },
        });
        this.add_sha512(features);
        this
    }
}

fn one_lane<W: Copy + Default>(
    states: &mut States<W, 1>,
    compress: impl FnOnce(&mut HashState<W>),
) {
    let mut state = states.lane(0);
    compress(&mut state);
    states.set_lane(0, &state);
}

/// The kernels of each hash, and the minimum number of messages for each: the number from which its
/// cycles, which are the same for one lane and for all, are fewer than those of narrower kernels.
/// Measured on Sapphire Rapids, in cycles per byte with all lanes busy:
///
/// | | one | SHA ×2 | AVX2 | AVX-512VL | AVX-512 |
/// | --- | --- | --- | --- | --- | --- |
/// | SHA-1 | 1.83 (3.44 without SHA extensions) | 1.56 | 1.04 | 0.62 | 0.49 |
/// | SHA-256 | 2.05 (8.00) | 1.50 | 2.25 | 1.19 | 0.89 |
/// | SHA-512 | 5.15 | | 2.75 | 1.48 | 1.07 |
#[cfg(target_arch = "x86_64")]
mod tiers {
    use super::{CpuFeatures, HashKernel, HashTier, Tiers};
    use crate::arch::x86_64::{sha_avx2, sha_avx512, sha_avx512vl, sha_ni};

    impl Tiers<u32, 64> {
        pub(super) fn add_sha1(&mut self, features: &CpuFeatures) {
            let sha_ni = features.sha_ni.is_some();
            if let Some(token) = features.sha_ni {
                self.two = tier(sha_ni::sha1_kernel(token), 2);
            }
            if let Some(token) = features.avx512 {
                self.eight = tier(sha_avx512vl::sha1_kernel(token), if sha_ni { 4 } else { 2 });
                self.sixteen = tier(sha_avx512::sha1_kernel(token), if sha_ni { 10 } else { 9 });
            } else if let Some(token) = features.avx2 {
                self.eight = tier(sha_avx2::sha1_kernel(token), if sha_ni { 6 } else { 3 });
            }
        }

        pub(super) fn add_sha256(&mut self, features: &CpuFeatures) {
            let sha_ni = features.sha_ni.is_some();
            if let Some(token) = features.sha_ni {
                self.two = tier(sha_ni::sha256_kernel(token), 2);
            }
            if let Some(token) = features.avx512 {
                self.eight = tier(
                    sha_avx512vl::sha256_kernel(token),
                    if sha_ni { 7 } else { 2 },
                );
                self.sixteen = tier(
                    sha_avx512::sha256_kernel(token),
                    if sha_ni { 11 } else { 9 },
                );
            } else if let (Some(token), None) = (features.avx2, features.sha_ni) {
                // With SHA extensions pairs are faster than this kernel with all lanes busy.
                self.eight = tier(sha_avx2::sha256_kernel(token), 3);
            }
        }
    }

    impl Tiers<u64, 128> {
        pub(super) fn add_sha512(&mut self, features: &CpuFeatures) {
            if let Some(token) = features.avx512 {
                self.four = tier(sha_avx512vl::sha512_kernel(token), 2);
                self.eight = tier(sha_avx512::sha512_kernel(token), 5);
            } else if let Some(token) = features.avx2 {
                self.four = tier(sha_avx2::sha512_kernel(token), 3);
            }
        }
    }

    fn tier<W, const BLOCK: usize, const LANES: usize>(
        kernel: HashKernel<W, BLOCK, LANES>,
        min_messages: usize,
    ) -> Option<HashTier<W, BLOCK, LANES>> {
        Some(HashTier {
            kernel,
            min_messages,
        })
    }
}

/// Kernels for pairs of messages, if the instructions leave capacity for a second message: a single
/// one waits for its own results. By Arm's published latencies (Neoverse N1 and V1: SHA256H and
/// SHA256H2 take 4 cycles, one starts per cycle) a block of SHA-256 takes 80 cycles alone, and 56
/// in a pair, where the unit is saturated. A single SHA-1 nearly saturates it. Without SHA-512
/// instructions, a single SHA-512 on the integer units is faster than two lanes.
#[cfg(target_arch = "aarch64")]
mod tiers {
    use super::{CpuFeatures, HashTier, Tiers};
    use crate::arch::aarch64::{sha256, sha512};

    impl Tiers<u32, 64> {
        pub(super) fn add_sha1(&mut self, _: &CpuFeatures) {}

        pub(super) fn add_sha256(&mut self, features: &CpuFeatures) {
            if let Some(token) = features.sha2 {
                let kernel = sha256::kernel(token);
                self.two = Some(HashTier {
                    kernel,
                    min_messages: 2,
                });
            }
        }
    }

    impl Tiers<u64, 128> {
        pub(super) fn add_sha512(&mut self, features: &CpuFeatures) {
            if let Some(token) = features.sha512 {
                let kernel = sha512::kernel(token);
                self.two = Some(HashTier {
                    kernel,
                    min_messages: 2,
                });
            }
        }
    }
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
mod tiers {
    use super::{CpuFeatures, Tiers};

    impl Tiers<u32, 64> {
        #[expect(clippy::unused_self, reason = "as on the other architectures")]
        pub(super) fn add_sha1(&mut self, _: &CpuFeatures) {}

        #[expect(clippy::unused_self, reason = "as on the other architectures")]
        pub(super) fn add_sha256(&mut self, _: &CpuFeatures) {}
    }

    impl Tiers<u64, 128> {
        #[expect(clippy::unused_self, reason = "as on the other architectures")]
        pub(super) fn add_sha512(&mut self, _: &CpuFeatures) {}
    }
}

#[cfg(test)]
mod tests;
