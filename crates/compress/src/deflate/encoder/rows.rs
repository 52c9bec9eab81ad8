//! Matcher table for levels 2 to 6: the last [`WAYS`] positions for each hash, in a row of two
//! cache lines.
//!
//! Each position has a tag, a byte of its hash, and all tags of a row are compared with the current
//! one in one step. The remaining positions have the right bytes, with few exceptions, and can be
//! visited independently, unlike those of a chain.
//!
//! A position is stored as the low 16 bits of its number. Row contents are only hints, as in
//! [`matcher`](super::matcher), whose memory for chain heads is used.

use super::matcher::{
    FIVES, HASH_BITS, Heads, MOST_BACK, Match, Matcher, Search, THREES, View, hash, touch,
};

/// Number of positions in a row.
const WAYS: usize = 32;
const ROW_BITS: u32 = 11;
const TAG_BITS: u32 = 8;

/// Every bit pattern is a valid value.
#[repr(C, align(64))]
struct HashRow {
    tags: [u8; WAYS],
    /// Index of the newest position; the following ones, wrapping around, are ever older.
    newest: u8,
    rest: [u8; 31],
    numbers: [u16; WAYS],
}

type HashRows = [HashRow; 1 << ROW_BITS];

const _: () = assert!(size_of::<HashRows>() == size_of::<Heads>());
const _: () = assert!(align_of::<HashRows>() == align_of::<Heads>());
const _: () = assert!(ROW_BITS + TAG_BITS > HASH_BITS);

impl HashRow {
    #[inline(always)]
    fn enter(&mut self, tag: u8, number: u16) {
        let newest = usize::from(self.newest.wrapping_sub(1)) & (WAYS - 1);
        self.tags[newest] = tag;
        self.numbers[newest] = number;
        self.newest = newest as u8;
    }

    /// A bit mask of the positions with this tag; the lowest bit is for the newest position.
    #[inline(always)]
    fn tagged(&self, tag: u8) -> u32 {
        equal(&self.tags, tag).rotate_right(u32::from(self.newest))
    }

    /// The number of the position that is `older` places before the one at `newest`.
    #[inline(always)]
    fn number(&self, newest: u32, older: u32) -> u16 {
        self.numbers[newest.wrapping_add(older) as usize & (WAYS - 1)]
    }
}

/// The memory of the chain heads as rows.
#[inline(always)]
fn rows(heads: &mut Heads) -> &mut HashRows {
    // SAFETY: the memory has the size and alignment of the rows, as asserted above, and every bit
    // pattern is valid for both types.
    unsafe { &mut *core::ptr::from_mut(heads).cast() }
}

/// The row index and tag of a position with these eight bytes.
#[inline(always)]
fn place<const LISTS: u8>(eight: u64) -> (usize, u8) {
    let hash = if LISTS == FIVES {
        hash::<true>(eight, ROW_BITS + TAG_BITS)
    } else {
        hash::<false>(eight, ROW_BITS + TAG_BITS)
    };
    (hash >> TAG_BITS, hash as u8)
}

impl Matcher {
    /// Prefetches the row of position `at`.
    #[inline(always)]
    pub(super) fn touch_row<const LISTS: u8>(&mut self, view: View<'_>, at: usize) {
        let eight = view.eight(at);
        let row = &rows(self.heads().0)[place::<LISTS>(eight).0];
        touch(&row.tags);
        touch(&row.numbers);
        if LISTS == THREES {
            self.touch3(eight as u32);
        }
    }

    /// Enters `at`, where the bytes `eight` are, into its row.
    #[inline(always)]
    pub(super) fn enter_row<const LISTS: u8>(&mut self, eight: u64, at: usize) {
        let (row, tag) = place::<LISTS>(eight);
        let number = self.number(at) as u16;
        rows(self.heads().0)[row].enter(tag, number);
    }

    /// Like [`Matcher::find`], in rows.
    #[inline(always)]
    pub(super) fn find_in_row<const LISTS: u8>(
        &mut self,
        view: View<'_>,
        at: usize,
        search: Search,
    ) -> Match {
        let eight = view.eight(at);
        let word = eight as u32;
        let reach = at.min(MOST_BACK);
        let number = self.number(at) as u16;
        let mut best = self.by_three::<LISTS>(view, at, reach, search);
        let (row, tag) = place::<LISTS>(eight);
        self.touch_row::<LISTS>(view, at + 1);
        let row = &mut rows(self.heads().0)[row];
        let mut left = if best.length < search.most {
            row.tagged(tag)
        } else {
            0
        };
        let newest = u32::from(row.newest);
        let mut depth = search.depth;
        let mut tail = view.four(at.wrapping_add(best.length.wrapping_sub(3)));
        while left != 0 && depth > 0 {
            let back = usize::from(number.wrapping_sub(row.number(newest, left.trailing_zeros())));
            left &= left.wrapping_sub(1);
            depth -= 1;
            if back.wrapping_sub(1) >= reach {
                continue;
            }
            let earlier = at.wrapping_sub(back);
            let end = earlier.wrapping_add(best.length.wrapping_sub(3));
            if view.four(end) == tail && view.four(earlier) == word {
                let length = view.same(earlier, at, 4, search.most);
                if length > best.length {
                    best = Match::new(length, back);
                    if length >= search.nice_length {
                        break;
                    }
                    tail = view.four(at.wrapping_add(length.wrapping_sub(3)));
                }
            }
        }
        row.enter(tag, number);
        best
    }
}

/// A bit mask of the bytes of `tags` that equal `tag`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal(tags: &[u8; WAYS], tag: u8) -> u32 {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};

    let all = tag.cast_signed();
    // SAFETY: the array has the 32 bytes that are read, and SSE2 is in every x86-64.
    unsafe {
        let half = |at: usize| {
            let tags = _mm_loadu_si128(tags.as_ptr().add(at).cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(all))).cast_unsigned()
        };
        half(0) | half(16) << 16
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal(tags: &[u8; WAYS], tag: u8) -> u32 {
    equal_by_words(tags, tag)
}

/// Like `equal`, without vector instructions.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn equal_by_words(tags: &[u8; WAYS], tag: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let all = u64::from(tag).wrapping_mul(0x0101_0101_0101_0101);
    let (words, _) = tags.as_chunks::<8>();
    let mut bits = 0;
    for word in words.iter().rev() {
        let differ = u64::from_le_bytes(*word) ^ all;
        // Sets the highest bit of each zero byte, then packs these to eight bits.
        let zeros = !(((differ & LOW).wrapping_add(LOW)) | differ | LOW);
        bits = bits << 8 | ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32;
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_alike_by_vectors_and_by_words() {
        let mut seed = 1_u64;
        for _ in 0..2000 {
            // Few values, so that several are equal; with the highest bit in some.
            let tags: [u8; WAYS] = core::array::from_fn(|_| {
                seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
                let value = (seed >> 60) as u8 & 3;
                if value > 1 { value | 0x80 } else { value }
            });
            for tag in [0, 1, 2, 0x80, 0x82, 0x83, 0xff] {
                let expected = tags
                    .iter()
                    .rev()
                    .fold(0, |bits, each| bits << 1 | u32::from(*each == tag));
                assert_eq!(equal(&tags, tag), expected);
                assert_eq!(equal_by_words(&tags, tag), expected);
            }
        }
    }

    #[test]
    fn a_row_knows_its_newest_in_their_order() {
        let mut row = HashRow {
            tags: [0; WAYS],
            numbers: [0; WAYS],
            newest: 7,
            rest: [0; 31],
        };
        for number in 1..=40_u16 {
            row.enter(u8::from(number % 3 == 0), number);
        }
        let mut bits = row.tagged(1);
        let mut found = Vec::new();
        while bits != 0 {
            found.push(row.number(u32::from(row.newest), bits.trailing_zeros()));
            bits &= bits - 1;
        }
        assert_eq!(found, [39, 36, 33, 30, 27, 24, 21, 18, 15, 12, 9]);
    }
}
