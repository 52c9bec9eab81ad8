//! Finds earlier occurrences of the current bytes in the window: chains of positions with the same
//! hash of four or five bytes, newest first, and the last position for each hash of three bytes.
//! Level 1 uses [`pairs`](super::pairs), and levels 2 to 6 [`rows`](super::rows), in the memory of
//! the chain heads.
//!
//! The tables hold position numbers that continue from payload to payload, and are not cleared or
//! rebased while a window moves: every table entry is only a hint. A position is used only if it is
//! in the current window, before the current bytes, and a match counts only as far as the bytes
//! there are equal. So no table content, not even positions of another stream, can cause wrong
//! output or invalid memory accesses.

use crate::deflate::SLACK_BYTES;

/// Kinds of lists in which positions are indexed and found: chains by four bytes;
pub(super) const FOURS: u8 = 4;
/// chains by four bytes and the last position by three bytes;
pub(super) const THREES: u8 = 3;
/// or chains by five bytes, which are shorter, if shorter matches do not pay.
pub(super) const FIVES: u8 = 5;

pub(super) const HASH_BITS: u32 = 16;
const HASH3_BITS: u32 = 14;
/// Number of positions whose predecessor is stored.
const CHAINED: usize = 32 * 1024;
/// Maximum distance of a match. One less than deflate's, because the entry of `before` at that
/// distance is the current position's.
pub(super) const MOST_BACK: usize = CHAINED - 1;
/// Above this, position numbers restart.
const LAST_NUMBER: u32 = 0xf000_0000;
/// A number out of reach of 0, the content of an empty table.
const FIRST_NUMBER: u32 = 1 << 17;

/// Maximum number of matches kept for one position.
const MAX_CANDIDATES: usize = 64;
/// A comparison of this many bytes counts as examining one position.
const COMPARED_AS_PLACE: u32 = 128;

/// The newest position of each chain, or another table of the same size.
#[repr(C, align(64))]
pub(super) struct Heads(pub(super) [u32; 1 << HASH_BITS]);

/// The tables, 352 KiB.
struct Tables {
    newest: Heads,
    /// The low 16 bits of the number of the last position for each hash of three bytes: only near
    /// ones pay.
    newest3: [u16; 1 << HASH3_BITS],
    /// Distance from each position to its predecessor in its chain; u16::MAX if too far.
    before: [u16; CHAINED],
}

/// Finds matches in a window.
pub(super) struct Matcher {
    tables: Box<Tables>,
    /// The number of the window's first position.
    first_number: u32,
}

/// A match; none if the distance is 0.
#[derive(Clone, Copy)]
pub(super) struct Match {
    pub(super) length: usize,
    pub(super) distance: usize,
}

impl Match {
    #[inline(always)]
    pub(super) fn new(length: usize, distance: usize) -> Self {
        Self { length, distance }
    }
}

/// A possible match: the length in the low nine bits, the distance above.
#[derive(Clone, Copy)]
pub(super) struct MatchCandidate(u32);

impl MatchCandidate {
    #[inline(always)]
    fn new(length: usize, distance: usize) -> Self {
        Self((distance << 9 | (length & 511)) as u32)
    }

    #[inline(always)]
    pub(super) fn length(self) -> usize {
        (self.0 & 511) as usize
    }

    #[inline(always)]
    pub(super) fn distance(self) -> usize {
        (self.0 >> 9) as usize
    }
}

/// Limits of a search.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Only longer matches count.
    pub(super) longer_than: usize,
    /// Maximum length of a match.
    pub(super) most: usize,
    /// A match of this length ends the search.
    pub(super) nice_length: usize,
    /// Maximum number of positions to examine.
    pub(super) depth: u32,
}

/// A window whose bytes are read without a bounds check.
///
/// Invariant: `bytes` has at least [`SLACK_BYTES`] bytes after `end`.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    bytes: &'a [u8],
    end: usize,
}

impl<'a> View<'a> {
    /// # Panics
    /// If fewer than [`SLACK_BYTES`] follow `end`.
    pub(super) fn new(bytes: &'a [u8], end: usize) -> Self {
        assert!(end <= bytes.len() && bytes.len() - end >= SLACK_BYTES);
        Self { bytes, end }
    }

    pub(super) fn end(self) -> usize {
        self.end
    }

    /// The byte at `at`, which must be before the end.
    #[inline(always)]
    pub(super) fn byte(self, at: usize) -> u8 {
        debug_assert!(at < self.end);
        // SAFETY: callers use only positions before `end` (debug builds check it), and `end` is
        // within `bytes` by the type's invariant.
        unsafe { *self.bytes.get_unchecked(at) }
    }

    /// The bytes from `from` to `to`; empty if this is not a valid range.
    #[inline(always)]
    pub(super) fn span(self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Four bytes from `at`, which must be at most four bytes after the end.
    #[inline(always)]
    pub(super) fn four(self, at: usize) -> u32 {
        debug_assert!(at <= self.end + 4);
        // SAFETY: `at + 4 <= end + 8`, and SLACK_BYTES (32) after `end` are in `bytes`. The read
        // needs no alignment.
        unsafe { self.bytes.as_ptr().add(at).cast::<u32>().read_unaligned() }.to_le()
    }

    /// Eight bytes from `at`, which must be at most 16 bytes after the end.
    #[inline(always)]
    pub(super) fn eight(self, at: usize) -> u64 {
        debug_assert!(at <= self.end + 16);
        // SAFETY: `at + 8 <= end + 24`, and SLACK_BYTES (32) after `end` are in `bytes`. The read
        // needs no alignment.
        unsafe { self.bytes.as_ptr().add(at).cast::<u64>().read_unaligned() }.to_le()
    }

    /// Number of equal bytes from `at` and from `earlier`, at most `most`; the first `known` are
    /// already known to be equal. `earlier < at`, and `at + most` is at most the end.
    #[inline(always)]
    pub(super) fn same(self, earlier: usize, at: usize, known: usize, most: usize) -> usize {
        debug_assert!(earlier < at && at + most <= self.end);
        let mut count = known;
        while count < most {
            let differ = self.eight(at + count) ^ self.eight(earlier + count);
            if differ != 0 {
                let more = differ.trailing_zeros() as usize / 8;
                return (count + more).min(most);
            }
            count += 8;
        }
        most
    }
}

/// A hash of `bits` bits of the first four of eight bytes, or of the first five.
#[inline(always)]
pub(super) fn hash<const FIVES: bool>(eight: u64, bits: u32) -> usize {
    if FIVES {
        ((eight << 24).wrapping_mul(0x9e37_79b1_85eb_ca87) >> (64 - bits)) as usize
    } else {
        ((eight as u32).wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
    }
}

#[inline(always)]
fn chain_hash<const LISTS: u8>(eight: u64) -> usize {
    if LISTS == FIVES {
        hash::<true>(eight, HASH_BITS)
    } else {
        hash::<false>(eight, HASH_BITS)
    }
}

#[inline(always)]
fn hash3(word: u32) -> usize {
    ((word << 8).wrapping_mul(0x9e37_79b1) >> (32 - HASH3_BITS)) as usize
}

impl Matcher {
    pub(super) fn new() -> Self {
        Self {
            tables: zeroed(),
            first_number: FIRST_NUMBER,
        }
    }

    /// Adjusts the numbers after `cut` bytes were removed from the window's front.
    pub(super) fn shift(&mut self, cut: usize) {
        self.renumber(self.first_number.wrapping_add(cut as u32));
    }

    /// Prepares for another window, which contains none of the indexed positions. The previous one
    /// had `bytes` bytes.
    pub(super) fn forget(&mut self, bytes: usize) {
        let apart = bytes + 2 * CHAINED;
        self.renumber(self.first_number.wrapping_add(apart as u32));
    }

    /// Empties the tables, so that nothing depends on their previous content. The chain links may
    /// stay: a search reaches them only from a head, so only those of positions entered since, and
    /// the first position of each chain has a link of its own that leads out of reach.
    pub(super) fn clear(&mut self) {
        self.tables.newest.0.fill(0);
        self.tables.newest3.fill(0);
        self.first_number = FIRST_NUMBER;
    }

    #[cfg(test)]
    pub(super) fn is_clear(&self) -> bool {
        let tables = &self.tables;
        tables.newest.0.iter().all(|each| *each == 0)
            && tables.newest3.iter().all(|each| *each == 0)
            && self.first_number == FIRST_NUMBER
    }

    fn renumber(&mut self, first_number: u32) {
        self.first_number = if first_number > LAST_NUMBER {
            FIRST_NUMBER
        } else {
            first_number
        };
    }

    #[inline(always)]
    pub(super) fn number(&self, at: usize) -> u32 {
        self.first_number.wrapping_add(at as u32)
    }

    /// Enters `at`, where the bytes `eight` are, into its chain; returns the distance to its
    /// predecessor.
    #[inline(always)]
    fn enter_chain<const LISTS: u8>(&mut self, eight: u64, at: usize) -> usize {
        let number = self.number(at);
        let newest = &mut self.tables.newest.0[chain_hash::<LISTS>(eight)];
        let back = number.wrapping_sub(*newest);
        *newest = number;
        self.tables.before[at_slot(number)] = back.min(0xffff) as u16;
        back as usize
    }

    /// Enters `at`, where the bytes `word` are, as last position by three bytes; returns the
    /// distance to its predecessor.
    #[inline(always)]
    pub(super) fn enter3(&mut self, word: u32, at: usize) -> usize {
        let number = self.number(at) as u16;
        let newest = &mut self.tables.newest3[hash3(word)];
        let back = number.wrapping_sub(*newest);
        *newest = number;
        usize::from(back)
    }

    /// The chain heads, for use by other levels, and the number of the window's first position.
    /// Each level misreads the others' content, which is harmless.
    #[inline(always)]
    pub(super) fn heads(&mut self) -> (&mut Heads, u32) {
        (&mut self.tables.newest, self.first_number)
    }

    /// Prefetches the last position by these three bytes.
    #[inline(always)]
    pub(super) fn touch3(&self, word: u32) {
        touch(&self.tables.newest3[hash3(word)]);
    }

    /// Prefetches the lists of position `at`.
    #[inline(always)]
    fn prefetch<const LISTS: u8>(&self, view: View<'_>, at: usize) {
        let eight = view.eight(at);
        touch(&self.tables.newest.0[chain_hash::<LISTS>(eight)]);
        if LISTS == THREES {
            self.touch3(eight as u32);
        }
    }

    /// Enters the positions of `range` into rows or chains, without searching matches. The bytes of
    /// the last few may reach past the end.
    #[inline(always)]
    pub(super) fn enter<const ROWS: bool, const LISTS: u8>(
        &mut self,
        view: View<'_>,
        range: core::ops::Range<usize>,
    ) {
        for at in range {
            let eight = view.eight(at);
            if ROWS {
                self.enter_row::<LISTS>(eight, at);
            } else {
                self.enter_chain::<LISTS>(eight, at);
            }
            if LISTS == THREES {
                self.enter3(eight as u32, at);
            }
        }
    }

    /// Start of a search in longer lists: enters `at` by its three bytes and returns their match,
    /// if `LISTS` includes them and so short a match is wanted; distance 0 if there is none.
    #[inline(always)]
    pub(super) fn by_three<const LISTS: u8>(
        &mut self,
        view: View<'_>,
        at: usize,
        reach: usize,
        search: Search,
    ) -> Match {
        let mut best = Match {
            length: search.longer_than.max(3),
            distance: 0,
        };
        if LISTS == THREES {
            let word = view.four(at);
            let back3 = self.enter3(word, at);
            if search.longer_than < 3 && back3.wrapping_sub(1) < reach {
                let differ = view.four(at.wrapping_sub(back3)) ^ word;
                if differ << 8 == 0 {
                    best.distance = back3;
                }
            }
        }
        best
    }

    /// Enters `at` and finds the longest match, the nearest of equal ones. `at + search.most` is at
    /// most the end, and `search.most` at least 4.
    #[inline(always)]
    pub(super) fn find<const LISTS: u8>(
        &mut self,
        view: View<'_>,
        at: usize,
        search: Search,
    ) -> Match {
        let eight = view.eight(at);
        let word = eight as u32;
        let mut back = self.enter_chain::<LISTS>(eight, at);
        self.prefetch::<LISTS>(view, at + 1);
        // Earlier positions are outside the window or too far away.
        let reach = at.min(MOST_BACK);
        let mut best = self.by_three::<LISTS>(view, at, reach, search);
        if best.length >= search.most {
            return best;
        }
        let number = self.number(at);
        let mut depth = search.depth;
        let mut tail = view.four(at + best.length - 3);
        while back.wrapping_sub(1) < reach {
            let earlier = at.wrapping_sub(back);
            if view.four(earlier + best.length - 3) == tail && view.four(earlier) == word {
                let length = view.same(earlier, at, 4, search.most);
                if length > best.length {
                    best = Match::new(length, back);
                    if length >= search.nice_length {
                        break;
                    }
                    tail = view.four(at + best.length - 3);
                }
            }
            depth = depth.wrapping_sub(1);
            if depth == 0 {
                break;
            }
            let slot = at_slot(number.wrapping_sub(back as u32));
            back = back.wrapping_add(usize::from(self.tables.before[slot]));
        }
        best
    }

    /// Enters `at` and appends to `found` the nearest match of each length, in ascending order of
    /// length; returns the greatest length, or 0. `at + search.most` is at most the end,
    /// `search.most` at least 4, and `search.longer_than` is ignored.
    #[inline(always)]
    pub(super) fn find_all(
        &mut self,
        view: View<'_>,
        at: usize,
        search: Search,
        found: &mut Vec<MatchCandidate>,
    ) -> usize {
        let eight = view.eight(at);
        let word = eight as u32;
        let mut back = self.enter_chain::<THREES>(eight, at);
        let back3 = self.enter3(word, at);
        self.prefetch::<THREES>(view, at + 1);
        let reach = at.min(MOST_BACK);
        let before = found.len();
        let mut longest = 0;
        if back3.wrapping_sub(1) < reach && (view.four(at.wrapping_sub(back3)) ^ word) << 8 == 0 {
            longest = 3;
            found.push(MatchCandidate::new(3, back3));
        }
        let number = self.number(at);
        let mut depth = search.depth;
        let mut known = 3;
        let mut tail = word;
        while back.wrapping_sub(1) < reach {
            let earlier = at.wrapping_sub(back);
            if view.four(earlier + known - 3) == tail && view.four(earlier) == word {
                let length = view.same(earlier, at, 4, search.most);
                // Long comparisons count as more than one position, so that the effort per position
                // is bounded for any data.
                depth = depth.saturating_sub(length as u32 / COMPARED_AS_PLACE);
                if length > known {
                    if found.len() - before == MAX_CANDIDATES {
                        found.pop();
                    }
                    found.push(MatchCandidate::new(length, back));
                    (known, longest) = (length, length);
                    if length >= search.nice_length {
                        break;
                    }
                    tail = view.four(at + known - 3);
                }
            }
            depth = depth.saturating_sub(1);
            if depth == 0 {
                break;
            }
            let slot = at_slot(number.wrapping_sub(back as u32));
            back = back.wrapping_add(usize::from(self.tables.before[slot]));
        }
        longest
    }
}

/// Prefetches `place` into the L1 cache.
#[inline(always)]
pub(super) fn touch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint and reads nothing, and SSE is in every x86-64.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(
            core::ptr::from_ref(place).cast(),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[inline(always)]
fn at_slot(number: u32) -> usize {
    number as usize & (CHAINED - 1)
}

fn zeroed() -> Box<Tables> {
    // SAFETY: all bits zero is a value of arrays of integers.
    unsafe { Box::<Tables>::new_zeroed().assume_init() }
}
