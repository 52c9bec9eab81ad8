//! Code shared by the AES-CTR kernels of all CPUs: the key schedule (FIPS 197 §5.2) and the wrap of
//! the counter's low half.
#![forbid(unsafe_code)]

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::awslc::AwsLcFailed;

/// Number of round keys of the longest key.
pub(super) const MAX_ROUND_KEYS: usize = 15;

/// An expanded key, in the order of the rounds. Wiped on drop.
#[derive(Zeroize, ZeroizeOnDrop)]
#[repr(align(16))]
pub(super) struct Schedule {
    pub(super) keys: [[u8; 16]; MAX_ROUND_KEYS],
    /// Number of rounds: 10, 12 or 14. There is one more round key.
    pub(super) rounds: usize,
}

impl Schedule {
    /// Expands a key of 16, 24 or 32 bytes. `substitute` is SubWord and must not use a lookup
    /// table, because it must run in constant time.
    pub(super) fn expand(key: &[u8], substitute: impl Fn(u32) -> u32) -> Result<Self, AwsLcFailed> {
        let rounds = match key.len() {
            16 => 10,
            24 => 12,
            32 => 14,
            _ => return Err(AwsLcFailed),
        };
        let mut words = [0u32; 4 * MAX_ROUND_KEYS];
        for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let key_words = key.len() / 4;
        let mut constant = 1u32;
        for i in key_words..4 * (rounds + 1) {
            let mut word = words[i - 1];
            if i % key_words == 0 {
                // The words are little-endian: RotWord is a rotation to the right.
                word = substitute(word).rotate_right(8) ^ constant;
                constant = (constant << 1) ^ (if constant & 0x80 == 0 { 0 } else { 0x11b });
            } else if key_words > 6 && i % key_words == 4 {
                word = substitute(word);
            }
            words[i] = words[i - key_words] ^ word;
        }
        let mut this = Self {
            keys: [[0; 16]; MAX_ROUND_KEYS],
            rounds,
        };
        for (key, words) in this.keys.iter_mut().zip(words.as_chunks::<4>().0) {
            for (bytes, word) in key.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *bytes = word.to_le_bytes();
            }
        }
        words.zeroize();
        Ok(this)
    }
}

/// Calls a kernel compiled for the number of rounds.
macro_rules! by_rounds {
    ($rounds:expr, $kernel:ident($($argument:expr),*)) => {
        match $rounds {
            10 => $kernel::<10>($($argument),*),
            12 => $kernel::<12>($($argument),*),
            _ => $kernel::<14>($($argument),*),
        }
    };
}
pub(super) use by_rounds;

/// Defines the key of a kernel that reads the [`Schedule`]: a type with a token that proves the
/// features of the module's `kernel`.
macro_rules! ctr_key {
    ($key:ident, $token:ident, $expand:expr) => {
        /// A key for this kernel.
        pub(crate) struct $key {
            token: $token,
            schedule: $crate::arch::aes::Schedule,
        }

        impl $key {
            pub(crate) fn new(
                token: $token,
                key: &[u8],
            ) -> Result<Self, $crate::awslc::AwsLcFailed> {
                let schedule = $expand(token, key)?;
                Ok(Self { token, schedule })
            }

            pub(crate) fn apply(&self, counter: u128, data: &mut [u8]) {
                let $token(()) = self.token;
                $crate::arch::aes::for_each_run(counter, data, |counter, data| {
                    // SAFETY: the token proves every feature that the kernel enables.
                    unsafe {
                        $crate::arch::aes::by_rounds!(
                            self.schedule.rounds,
                            kernel(&self.schedule, counter, data)
                        );
                    }
                });
            }
        }
    };
}
pub(super) use ctr_key;

/// Calls `run` for the parts of `data` in which the low 64 bits of the counter do not wrap: one
/// part, rarely two.
#[inline]
pub(super) fn for_each_run(counter: u128, data: &mut [u8], mut run: impl FnMut(u128, &mut [u8])) {
    let until_wrap = (1u128 << 64) - (counter & u128::from(u64::MAX));
    match usize::try_from(until_wrap.saturating_mul(16)) {
        Ok(len) if len < data.len() => {
            let (first, second) = data.split_at_mut(len);
            run(counter, first);
            run(counter.wrapping_add(until_wrap), second);
        }
        _ => run(counter, data),
    }
}

/// XORs `stream` into `data`, which must not be longer.
#[inline]
pub(super) fn xor_front(data: &mut [u8], stream: &[u8]) {
    for (byte, key) in data.iter_mut().zip(stream) {
        *byte ^= key;
    }
}
