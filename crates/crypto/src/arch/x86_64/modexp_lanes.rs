//! Montgomery products with a number in each lane, written once for any vector length: a module
//! `ops` of each kernel defines the operations.
//!
//! A product is computed by columns of four digits, entirely in registers: first the partial
//! products of a column, then those of the quotients with the modulus, then the column's quotients
//! or digits. In a square each pair of different blocks is multiplied once and the sums are
//! doubled.

/// The kernel of a module, with its operations `product` and `shift`. `$digit_bits` gives the length
/// of a digit for numbers of a length in bits.
macro_rules! modexp {
    ($features:literal, $token:ident, $name:literal, $ops:ident, $lanes:literal, $digit_bits:expr) => {
        pub(crate) fn kernel(token: $token) -> ModexpKernel<$lanes> {
            let $token(()) = token;
            ModexpKernel {
                name: $name,
                digit_bits: $digit_bits,
                // SAFETY: only this function, which has the token, gives the closures away.
                square: |a, moduli, scratch| unsafe { product(a, None, moduli, scratch) },
                // SAFETY: as above.
                multiply: |a, b, moduli, scratch| unsafe { product(a, Some(b), moduli, scratch) },
                // SAFETY: as above.
                shift: |a, places, digit_bits| unsafe { shift(a, places, digit_bits) },
            }
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn load(rows: &[[u64; $lanes]; BLOCK_DIGITS]) -> [$ops::Vector; BLOCK_DIGITS] {
            let [a, b, c, d] = rows;
            [
                $ops::load_row(a),
                $ops::load_row(b),
                $ops::load_row(c),
                $ops::load_row(d),
            ]
        }

        /// a b / R, or a² / R without b. In one function, so that the compiler emits the end of a
        /// column once and keeps the sums in registers.
        #[target_feature(enable = $features)]
        fn product(
            a: &mut Blocks<$lanes>,
            b: Option<&Blocks<$lanes>>,
            moduli: &Moduli<$lanes>,
            quotients: &mut Blocks<$lanes>,
        ) {
            let n = a.len();
            let mut scan = Scan::new(moduli);
            for column in 0..2 * n {
                let mut sums = $ops::Sums::new();
                let first = (column + 1).saturating_sub(n);
                let end = match b {
                    Some(_) => n.min(column + 1),
                    None => column.div_ceil(2),
                };
                let factors = a.get(first..end).unwrap_or_default();
                let others = b.unwrap_or(a).get(..column + 1 - first).unwrap_or_default();
                for (low, high) in factors.iter().zip(others.iter().rev()) {
                    sums.add_products(&load(&low.0), &load(&high.0));
                }
                if b.is_none() {
                    sums.double();
                    if column % 2 == 0
                        && let Some(middle) = a.get(column / 2)
                    {
                        let middle = load(&middle.0);
                        sums.add_products(&middle, &middle);
                    }
                }
                scan.finish(column, sums, a, moduli, quotients);
            }
        }

        #[target_feature(enable = $features)]
        fn shift(a: &mut Blocks<$lanes>, places: &[u64; $lanes], digit_bits: u32) {
            let mask = (1_u64 << digit_bits) - 1;
            let mut carries = [0_u64; $lanes];
            for row in a.iter_mut().flat_map(|block| &mut block.0) {
                for ((digit, carry), places) in row.iter_mut().zip(&mut carries).zip(places) {
                    let below = *carry;
                    *carry = *digit >> ((u64::from(digit_bits) - places) & 63);
                    *digit = (*digit << (places & 63)) & mask | below;
                }
            }
        }

        /// Sums of the current column, and of the next higher one.
        struct Scan {
            columns: [$ops::Vector; 2 * BLOCK_DIGITS],
            inverses: $ops::Vector,
            width: $ops::Width,
        }

        impl Scan {
            #[inline]
            #[target_feature(enable = $features)]
            fn new(moduli: &Moduli<$lanes>) -> Self {
                Self {
                    columns: [$ops::zero(); 2 * BLOCK_DIGITS],
                    inverses: $ops::load_row(&moduli.inverses),
                    width: $ops::Width::new(moduli.digit_bits),
                }
            }

            /// Adds the quotients' products. In the lower half, computes the column's quotients,
            /// which make the column zero; in the upper half, the column's digits. Both replace
            /// digits of `a` that no later column needs.
            #[inline]
            #[target_feature(enable = $features)]
            fn finish(
                &mut self,
                column: usize,
                mut sums: $ops::Sums,
                a: &mut Blocks<$lanes>,
                moduli: &Moduli<$lanes>,
                quotients: &mut Blocks<$lanes>,
            ) {
                let n = a.len();
                let first = (column + 1).saturating_sub(n);
                let factors = quotients.get(first..n.min(column)).unwrap_or_default();
                let others = moduli.blocks.get(..column + 1 - first).unwrap_or_default();
                for (quotient, digits) in factors.iter().zip(others.iter().rev()) {
                    sums.add_products(&load(&quotient.0), &load(&digits.0));
                }
                sums.add_to(&mut self.columns);
                if let Some(place) = quotients.get_mut(column)
                    && let Some(lowest) = moduli.blocks.first()
                {
                    self.divide(&load(&lowest.0), &mut place.0);
                } else if let Some(place) = a.get_mut(column.wrapping_sub(n)) {
                    for (at, digit) in place.0.iter_mut().enumerate() {
                        $ops::store(self.width.digit(self.columns[at]), digit);
                        self.carry(at);
                    }
                }
                let [_, _, _, _, above @ ..] = self.columns;
                let zero = $ops::zero();
                let [a, b, c, d] = above;
                self.columns = [a, b, c, d, zero, zero, zero, zero];
            }

            /// The quotients of the column's four digits, one after another.
            #[inline]
            #[target_feature(enable = $features)]
            fn divide(
                &mut self,
                lowest: &[$ops::Vector; BLOCK_DIGITS],
                place: &mut [[u64; $lanes]; BLOCK_DIGITS],
            ) {
                for (at, place) in place.iter_mut().enumerate() {
                    let quotient = self.width.low_product(self.columns[at], self.inverses);
                    $ops::store(quotient, place);
                    $ops::add_row(&mut self.columns, at, quotient, lowest);
                    self.carry(at);
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            fn carry(&mut self, at: usize) {
                let carry = self.width.rest(self.columns[at]);
                self.columns[at + 1] = $ops::add(self.columns[at + 1], carry);
            }
        }
    };
}

pub(super) use modexp;
