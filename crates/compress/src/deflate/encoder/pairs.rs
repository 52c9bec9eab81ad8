//! Matcher table for level 1: the last two positions for each hash of four bytes, or of five where
//! shorter matches save nothing.
//!
//! A position is stored as the low 16 bits of its number; the two positions of a hash share one
//! word, so that entering a position is one load and one store. Table contents are only hints, as
//! in [`matcher`](super::matcher).

use core::ops::Range;

use super::matcher::{HASH_BITS, MOST_BACK, Matcher, View, hash, touch};

const PAIR_BITS: u32 = 15;

/// The table, and the window that it is used with.
pub(super) struct Pairs<'t, 'v, const FIVES: bool> {
    pairs: &'t mut [u32; 1 << HASH_BITS],
    first_number: u32,
    view: View<'v>,
}

/// Result of a table lookup.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Number of equal bytes, up to [`COMPARED`].
    pub(super) length: usize,
    /// Distance; meaningless if `length` is 0.
    pub(super) distance: usize,
    /// Distance of the other position if all bytes of both are equal; else 0.
    pub(super) other: usize,
}

/// Number of bytes that a lookup compares.
pub(super) const COMPARED: usize = 8;

impl<'t, 'v, const FIVES: bool> Pairs<'t, 'v, FIVES> {
    #[inline(always)]
    pub(super) fn new(matcher: &'t mut Matcher, view: View<'v>) -> Self {
        let (pairs, first_number) = matcher.heads();
        Self {
            pairs: &mut pairs.0,
            first_number,
            view,
        }
    }

    /// Enters `at`, where the bytes `eight` are; returns the previous pair.
    #[inline(always)]
    fn enter(&mut self, eight: u64, at: usize) -> u32 {
        let number = self.number(at) & 0xffff;
        let pair = &mut self.pairs[hash::<FIVES>(eight, PAIR_BITS)];
        let before = *pair;
        *pair = before << 16 | number;
        before
    }

    #[inline(always)]
    fn number(&self, at: usize) -> u32 {
        self.first_number.wrapping_add(at as u32)
    }

    /// Enters the positions of `range`.
    #[inline(always)]
    pub(super) fn enter_all(&mut self, range: Range<usize>) {
        for at in range {
            self.enter(self.view.eight(at), at);
        }
    }

    /// Enters `at`, which must be at least four bytes before the end, and compares the two previous
    /// positions. Selects the better one without a branch, which would be unpredictable.
    #[inline(always)]
    pub(super) fn look(&mut self, at: usize) -> Seen {
        let eight = self.view.eight(at);
        let before = self.enter(eight, at);
        touch(&self.pairs[hash::<FIVES>(eight >> 8, PAIR_BITS)]);
        let number = self.number(at);
        let back = |before: u32| (number.wrapping_sub(before) & 0xffff) as usize;
        let (near, far) = (back(before), back(before >> 16));
        let reach = at.min(MOST_BACK);
        let same = |back: usize| {
            // An impossible position has no equal bytes.
            let outside = u64::from(back.wrapping_sub(1) >= reach);
            let differ = (self.view.eight(at.saturating_sub(back)) ^ eight) | outside;
            differ.trailing_zeros() as usize / 8
        };
        let (same_near, same_far) = (same(near), same(far));
        let is_far = same_far > same_near;
        let both = same_near & same_far & COMPARED != 0;
        Seen {
            length: if is_far { same_far } else { same_near },
            distance: if is_far { far } else { near },
            other: if both { far } else { 0 },
        }
    }
}
