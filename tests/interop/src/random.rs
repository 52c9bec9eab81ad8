//! Numbers from a seed (splitmix64), so that a case can be generated again.

/// A source of numbers.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// The source of one case of a run.
    #[must_use]
    pub fn of_case(seed: u64, case: u64) -> Self {
        let mut random = Self(seed);
        let start = random.next() ^ case;
        Self(start)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or(0)
    }

    /// As many bytes.
    #[must_use]
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// True in `percent` of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of several.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// One of several, by value.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick_of<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_is_made_again_and_no_other() {
        let numbers = |seed, case| {
            let mut random = Random::of_case(seed, case);
            (0..8).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(1, 7), numbers(1, 7));
        assert_ne!(numbers(1, 7), numbers(1, 8));
        assert_ne!(numbers(1, 7), numbers(2, 7));
    }
}
