//! Long whole numbers, as far as a search for moduli needs them: from and to hexadecimal, and
//! sums with short ones. Their powers are `crypto`'s.

use std::fmt;

/// A number: 64-bit words, the lowest first, none of them 0 at the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Natural(Vec<u64>);

impl Natural {
    fn from_words(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self(words)
    }

    /// A random odd number of `bits` bits (at least 2) with the two topmost set.
    pub(super) fn random(bits: u32) -> Self {
        let len = usize::try_from(bits.div_ceil(64)).unwrap_or(0);
        let mut words: Vec<u64> = (0..len)
            .map(|_| u64::from_le_bytes(crypto::random::bytes()))
            .collect();
        if let Some(top) = words.last_mut() {
            *top &= u64::MAX >> (64 * bits.div_ceil(64) - bits);
        }
        for bit in [0, bits - 2, bits - 1] {
            let at = usize::try_from(bit / 64).unwrap_or(usize::MAX);
            if let Some(word) = words.get_mut(at) {
                *word |= 1 << (bit % 64);
            }
        }
        Self(words)
    }

    /// Of hexadecimal digits, at most `max_bits` long.
    pub(super) fn from_hex(text: &str, max_bits: u32) -> Option<Self> {
        let digits = text.trim_start_matches('0');
        if text.is_empty() || digits.len() > usize::try_from(max_bits.div_ceil(4)).ok()? {
            return None;
        }
        let word = |chunk: &[u8]| {
            let chunk = std::str::from_utf8(chunk).ok()?;
            // A sign is no digit.
            let plain = chunk.bytes().all(|digit| digit.is_ascii_hexdigit());
            u64::from_str_radix(chunk, 16).ok().filter(|_| plain)
        };
        let words: Option<Vec<u64>> = digits.as_bytes().rchunks(16).map(word).collect();
        words.map(Self::from_words)
    }

    /// The words, the lowest first.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn bits(&self) -> u32 {
        let unused = self.0.last().map_or(0, |top| top.leading_zeros());
        u32::try_from(64 * self.0.len()).map_or(u32::MAX, |bits| bits - unused)
    }

    pub(super) fn is_odd(&self) -> bool {
        self.0.first().is_some_and(|low| low & 1 == 1)
    }

    /// The remainder of a division by a number of at most 32 bits.
    pub(super) fn modulo(&self, divisor: u32) -> u32 {
        let divisor = u64::from(divisor);
        let rest = self.0.iter().rev().fold(0, |rest, word| {
            let rest = (rest << 32 | word >> 32) % divisor;
            (rest << 32 | word & 0xffff_ffff) % divisor
        });
        u32::try_from(rest).unwrap_or(u32::MAX)
    }

    pub(super) fn plus(&self, mut value: u64) -> Self {
        let mut words = self.0.clone();
        for word in &mut words {
            let (sum, over) = word.overflowing_add(value);
            *word = sum;
            value = u64::from(over);
            if value == 0 {
                break;
            }
        }
        if value != 0 {
            words.push(value);
        }
        Self(words)
    }

    /// 2 x + 1.
    pub(super) fn twice_plus_one(&self) -> Self {
        let mut below = 1;
        let mut words: Vec<u64> = self
            .0
            .iter()
            .map(|word| {
                let out = word << 1 | below;
                below = word >> 63;
                out
            })
            .collect();
        words.push(below);
        Self::from_words(words)
    }

    /// x / 2, without its rest.
    pub(super) fn halved(&self) -> Self {
        let mut above = 0;
        let mut words: Vec<u64> = self
            .0
            .iter()
            .rev()
            .map(|word| {
                let out = word >> 1 | above;
                above = word << 63;
                out
            })
            .collect();
        words.reverse();
        Self::from_words(words)
    }
}

/// Hexadecimal in capitals, without leading zeros.
impl fmt::UpperHex for Natural {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_last() {
            None => f.write_str("0"),
            Some((top, rest)) => {
                write!(f, "{top:X}")?;
                rest.iter()
                    .rev()
                    .try_for_each(|word| write!(f, "{word:016X}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        for text in [
            "0",
            "1",
            "F",
            "10",
            "FFFFFFFFFFFFFFFF",
            "10000000000000000",
            "ABC0000000000000000123",
        ] {
            let number = Natural::from_hex(text, 128).unwrap();
            assert_eq!(format!("{number:X}"), text);
            assert_eq!(
                Natural::from_hex(&format!("000{}", text.to_lowercase()), 128),
                Some(number)
            );
        }
        for text in [
            "",
            "-1",
            "+1",
            "x",
            "0x1",
            "12 3",
            "1000000000000000000000000000000000",
        ] {
            assert_eq!(Natural::from_hex(text, 128), None, "{text}");
        }
    }

    #[test]
    fn carries_run_to_the_top() {
        let number = |text| Natural::from_hex(text, 256).unwrap();
        let all = number("FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF");
        assert_eq!(all.plus(1), number("100000000000000000000000000000000"));
        assert_eq!(all.plus(0), all);
        assert_eq!(
            all.twice_plus_one(),
            number("1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF")
        );
        assert_eq!(all.twice_plus_one().halved(), all);
        assert_eq!(number("1").halved(), number("0"));
        assert_eq!(
            (all.bits(), number("0").bits(), number("100").bits()),
            (128, 0, 9)
        );
        assert_eq!(number("10000000000000000").modulo(12), 4);
        assert_eq!(
            all.modulo(0xffff_fffb),
            u32::try_from(u128::MAX % 0xffff_fffb).unwrap()
        );
        assert!(all.is_odd() && !number("10").is_odd());
    }

    #[test]
    fn random_numbers_have_their_bits() {
        for bits in [64, 65, 511, 512, 2047] {
            let number = Natural::random(bits);
            assert_eq!(number.bits(), bits);
            assert!(number.is_odd());
            assert_ne!(number, Natural::random(bits));
            // The second bit from the top, too.
            let top = number
                .words()
                .iter()
                .rev()
                .find(|word| **word != 0)
                .unwrap();
            let next = if bits % 64 == 1 {
                number.words()[number.words().len() - 2] >> 63
            } else {
                top >> (62 - top.leading_zeros()) & 1
            };
            assert_eq!(next, 1);
        }
    }
}
