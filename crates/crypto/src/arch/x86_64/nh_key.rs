//! The arranged key of an NH kernel on wide vectors, written once for any vector length.

/// Defines a key type for vectors of 32-bit words, of which a step hashes two: `$lanes` are the
/// positions of NH's low partners in a step, and the high partners follow four words later. The
/// token proves the features of the module's `kernel`.
macro_rules! nh_key {
    ($key:ident, $pair:ident, $token:ident, $words:literal words in $align:literal bytes, $lanes:expr) => {
        /// Key vectors of a step and stream: the partners' low and high side.
        #[derive(Clone, Copy)]
        #[repr(C, align($align))]
        struct $pair {
            low: [u32; $words],
            high: [u32; $words],
        }

        /// The arranged keys: for each step, those of each stream.
        pub(crate) struct $key {
            token: $token,
            pairs: Box<[$pair]>,
            streams: usize,
        }

        impl $key {
            pub(crate) fn new(token: $token, words: &[u32], streams: usize) -> Self {
                let steps = crate::arch::nh::BLOCK_LEN / STEP_LEN;
                let mut pairs = Vec::with_capacity(steps * streams);
                for step in 0..steps {
                    for stream in 0..streams {
                        let word = |i: usize| words[2 * $words * step + 4 * stream + i];
                        let lanes: [usize; $words] = $lanes;
                        pairs.push($pair {
                            low: lanes.map(word),
                            high: lanes.map(|i| word(i + 4)),
                        });
                    }
                }
                Self {
                    token,
                    pairs: pairs.into_boxed_slice(),
                    streams,
                }
            }

            /// Adds NH of `steps`, at most a block of them, to `out`.
            #[inline]
            pub(crate) fn hash(&self, steps: &[[u8; STEP_LEN]], out: &mut [u64; 4]) {
                let $token(()) = self.token;
                // SAFETY: the token proves every feature that the kernel enables.
                unsafe {
                    if self.streams == 2 {
                        kernel::<2>(&self.pairs, steps, out);
                    } else {
                        kernel::<4>(&self.pairs, steps, out);
                    }
                }
            }
        }

        impl Drop for $key {
            fn drop(&mut self) {
                for pair in &mut self.pairs {
                    zeroize::Zeroize::zeroize(&mut pair.low);
                    zeroize::Zeroize::zeroize(&mut pair.high);
                }
            }
        }
    };
}
pub(super) use nh_key;
