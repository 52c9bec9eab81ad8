//! Poly1305 with a block in each lane, written once for any vector length: the module of a kernel
//! defines the arithmetic.
//!
//! Each lane processes every n-th of n lanes' blocks. Four steps share one carry propagation, and
//! only the first of their products waits for the previous four steps.

/// The function `tag` of a kernel of `$blocks` lanes. The module defines the numbers `$limbs`, with
/// `zero`, `load` and `load_first`; their products `$sum`; the powers `$powers`; and the
/// constants `MIN_LEN` and `MANY_STEPS`.
macro_rules! poly1305 {
    ($features:literal, $token:ident, $blocks:literal, $limbs:ident, $sum:ident, $powers:ident) => {
        /// Bytes of a block.
        const BLOCK_LEN: usize = 16;
        /// Bytes of a step, which is a block for each lane.
        const STEP_LEN: usize = BLOCK_LEN * $blocks;
        /// Steps that share a carry.
        const SHARING: usize = 4;

        /// The tag of `data`.
        pub(super) fn tag(token: $token, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
            let mut state = Poly1305::new(key);
            let (blocks, _) = data.as_chunks::<BLOCK_LEN>();
            if data.len() < MIN_LEN {
                return state.finish(data);
            }
            let $token(()) = token;
            // SAFETY: the token proves every feature that the kernel enables.
            state.resume(unsafe { absorb(state.r(), blocks) });
            let done = blocks.as_flattened().len();
            state.finish(data.get(done..).unwrap_or_default())
        }

        /// The accumulator after all `blocks`, in words of 64 bits.
        #[target_feature(enable = $features)]
        fn absorb(r: [u64; 2], blocks: &[[u8; BLOCK_LEN]]) -> [u64; 3] {
            let powers = $powers::new(r);
            // The first step is short, so that the others are whole.
            let first = match blocks.len() % $blocks {
                0 => $blocks,
                some => some,
            };
            let Some((first, rest)) = blocks.split_at_checked(first) else {
                return [0; 3];
            };
            let mut accumulator = load_first(first);
            let (mut steps, _) = rest.as_flattened().as_chunks::<STEP_LEN>();
            if steps.len() >= MANY_STEPS {
                let more = powers.more();
                // Kept in memory, so that the compiler aligns the stack, and with it spilled
                // registers.
                let [third, second, first] = black_box(&more);
                let (groups, last) = steps.as_chunks::<SHARING>();
                for [a, b, c, d] in groups {
                    let mut sum = $sum::new(load(d));
                    sum.add_product(&load(a), second);
                    sum.add_product(&load(b), third);
                    sum.add_product(&load(c), &powers.step);
                    sum.add_product(&accumulator, first);
                    accumulator = sum.carry();
                }
                steps = last;
            }
            for step in steps {
                let mut sum = $sum::new(load(step));
                sum.add_product(&accumulator, &powers.step);
                accumulator = sum.carry();
            }
            let mut sum = $sum::new(zero());
            sum.add_product(&accumulator, &powers.last);
            sum.across()
        }

        /// Powers of r, with n lanes.
        struct $powers {
            /// r^n.
            step: Power,
            /// r^n to r^1: each lane has the power for its last block.
            last: Power,
        }

        impl $powers {
            /// r^2n, r^3n and r^4n.
            #[inline]
            #[target_feature(enable = $features)]
            fn more(&self) -> [Power; 3] {
                let second = self.step.times(&self.step);
                [second, second.times(&self.step), second.times(&second)]
            }
        }

        impl Power {
            #[inline]
            #[target_feature(enable = $features)]
            fn times(&self, other: &Self) -> Self {
                let mut sum = $sum::new(zero());
                sum.add_product(&self.limbs, other);
                Self::new(sum.carry())
            }
        }
    };
}

pub(super) use poly1305;
