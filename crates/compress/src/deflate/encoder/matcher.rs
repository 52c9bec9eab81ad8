//! Where in the window the bytes at hand have stood before: chains of positions with the same
//! hash of four or of five bytes, newest first, and the last position for each hash of three.
//! Level 1 has [`pairs`](super::pairs) in the place of the chains' heads, levels 2 to 6 have
//! [`rows`](super::rows) there.
//!
//! The tables hold numbers of positions that go on from payload to payload, and nothing is ever
//! cleared or rebased while a window moves: what a table says is a hint. A position is used only
//! if it lies in the window at hand, before the bytes at hand, and a match counts only as far as
//! the bytes there are the same. So nothing that a table may hold, not even another stream's
//! positions, can make the output wrong or the memory accesses stray.

use crate::deflate::SLACK_BYTES;

/// Which lists positions are entered into and found by: chains by four bytes;
pub(super) const FOURS: u8 = 4;
/// those and the last position by three bytes;
pub(super) const THREES: u8 = 3;
/// or chains by five bytes, which are shorter, where nothing shorter pays.
pub(super) const FIVES: u8 = 5;

pub(super) const HASH_BITS: u32 = 16;
const HASH3_BITS: u32 = 14;
/// Positions whose predecessor is known.
const CHAINED: usize = 32 * 1024;
/// The farthest that a match may be. One less than deflate's: the place in `before` at that
/// distance is the one of the position at hand.
pub(super) const MOST_BACK: usize = CHAINED - 1;
/// Above this, numbers of positions begin again.
const LAST_NUMBER: u32 = 0xf000_0000;
/// A number that is out of reach of the place where an empty table points.
const FIRST_NUMBER: u32 = 1 << 17;

/// The most matches that are kept of one position.
const MAX_CANDIDATES: usize = 64;
/// A comparison of so many bytes is as much work as going to another place.
const COMPARED_AS_PLACE: u32 = 128;

/// The newest position of each chain, or what else a level has in its place.
#[repr(C, align(64))]
pub(super) struct Heads(pub(super) [u32; 1 << HASH_BITS]);

/// 352 KiB.
struct Tables {
    newest: Heads,
    /// 16 bits of the number of the last position for each three bytes: only near ones pay.
    newest3: [u16; 1 << HASH3_BITS],
    /// How far behind its position the one before it in its chain lies; u16::MAX for too far.
    before: [u16; CHAINED],
}

/// See the module's head.
pub(super) struct Matcher {
    tables: Box<Tables>,
    /// The number of the window's first position.
    first_number: u32,
}

/// A match, or none when the distance is 0.
#[derive(Clone, Copy)]
pub(super) struct Match {
    pub(super) length: usize,
    pub(super) distance: usize,
}

/// A match that may be taken: the length in the low nine bits, the distance above.
#[derive(Clone, Copy)]
pub(super) struct Candidate(u32);

impl Candidate {
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

/// How far to search.
#[derive(Clone, Copy)]
pub(super) struct Search {
    /// Only what is longer counts.
    pub(super) longer_than: usize,
    /// The most that may be matched.
    pub(super) most: usize,
    /// Long enough to stop the search.
    pub(super) enough: usize,
    /// Positions to look at.
    pub(super) depth: u32,
}

/// A window whose bytes are read without asking for its length each time.
///
/// Invariant: `bytes` has at least [`SLACK_BYTES`] bytes behind `end`.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    bytes: &'a [u8],
    end: usize,
}

impl<'a> View<'a> {
    /// # Panics
    /// When there is no slack behind `end`.
    pub(super) fn new(bytes: &'a [u8], end: usize) -> Self {
        assert!(end <= bytes.len() && bytes.len() - end >= SLACK_BYTES);
        Self { bytes, end }
    }

    pub(super) fn end(self) -> usize {
        self.end
    }

    /// The byte at `at`, which is before the end.
    #[inline(always)]
    pub(super) fn byte(self, at: usize) -> u8 {
        debug_assert!(at < self.end);
        // SAFETY: callers go through positions before `end` only (debug builds check it), and
        // `end` lies within `bytes` by the type's invariant.
        unsafe { *self.bytes.get_unchecked(at) }
    }

    /// The bytes from `from` to `to`, which are in order and before the end; none where they are not.
    #[inline(always)]
    pub(super) fn span(self, from: usize, to: usize) -> &'a [u8] {
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Four bytes from `at`, which is at most four bytes behind the end.
    #[inline(always)]
    pub(super) fn four(self, at: usize) -> u32 {
        debug_assert!(at <= self.end + 4);
        // SAFETY: `at + 4 <= end + 8`, and SLACK_BYTES (32) behind `end` are in `bytes`. The
        // read needs no alignment.
        unsafe { self.bytes.as_ptr().add(at).cast::<u32>().read_unaligned() }.to_le()
    }

    /// Eight bytes from `at`, which is at most 16 bytes behind the end.
    #[inline(always)]
    pub(super) fn eight(self, at: usize) -> u64 {
        debug_assert!(at <= self.end + 16);
        // SAFETY: `at + 8 <= end + 24`, and SLACK_BYTES (32) behind `end` are in `bytes`. The
        // read needs no alignment.
        unsafe { self.bytes.as_ptr().add(at).cast::<u64>().read_unaligned() }.to_le()
    }

    /// How many bytes from `at` are the same as from `earlier`, at most `most`, the first
    /// `known` of which are known to be. `earlier < at`, and `at + most` is at most the end.
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

    /// The window lost `cut` bytes at its front.
    pub(super) fn shift(&mut self, cut: usize) {
        self.renumber(self.first_number.wrapping_add(cut as u32));
    }

    /// Another window comes: none of the positions known lies in it. The last one had `bytes`.
    pub(super) fn forget(&mut self, bytes: usize) {
        let apart = bytes + 2 * CHAINED;
        self.renumber(self.first_number.wrapping_add(apart as u32));
    }

    /// Empties the tables, so that nothing depends on what they held. The links of chains may stay:
    /// a search comes to them from a head, so only to those of positions entered since, and the
    /// first position of each chain has a link of its own then, which leads out of reach.
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

    /// Enters `at`, where these eight bytes are, into its chain; returns how far back the position
    /// before it is.
    #[inline(always)]
    fn enter_chain<const LISTS: u8>(&mut self, eight: u64, at: usize) -> usize {
        let number = self.number(at);
        let newest = &mut self.tables.newest.0[chain_hash::<LISTS>(eight)];
        let back = number.wrapping_sub(*newest);
        *newest = number;
        self.tables.before[at_slot(number)] = back.min(0xffff) as u16;
        back as usize
    }

    /// Enters `at`, where this word is, among the last positions by three bytes; returns how far
    /// back the one before it is.
    #[inline(always)]
    pub(super) fn enter3(&mut self, word: u32, at: usize) -> usize {
        let number = self.number(at) as u16;
        let newest = &mut self.tables.newest3[hash3(word)];
        let back = number.wrapping_sub(*newest);
        *newest = number;
        usize::from(back)
    }

    /// The chains' heads, as other levels use them, and the number of the window's first position.
    /// None makes sense of another's, which does no harm.
    #[inline(always)]
    pub(super) fn heads(&mut self) -> (&mut Heads, u32) {
        (&mut self.tables.newest, self.first_number)
    }

    /// Asks for the last position by these three bytes.
    #[inline(always)]
    pub(super) fn touch3(&self, word: u32) {
        touch(&self.tables.newest3[hash3(word)]);
    }

    /// Asks for the lists that the position `at` belongs to.
    #[inline(always)]
    fn prefetch<const LISTS: u8>(&self, view: View<'_>, at: usize) {
        let eight = view.eight(at);
        touch(&self.tables.newest.0[chain_hash::<LISTS>(eight)]);
        if LISTS == THREES {
            self.touch3(eight as u32);
        }
    }

    /// Enters the positions of `range`, into rows or chains, without looking for matches. The bytes
    /// of the last few may reach past the end.
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

    /// What a search in longer lists begins with: a match of the three bytes at `at`, which is entered
    /// among them, where `LISTS` says so and one so short is wanted; no distance if there is none.
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

    /// Enters `at` and finds the longest match for the bytes there, of those the nearest.
    /// `at + search.most` is at most the end, and `search.most` at least 4.
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
        // A position further back is not in the window, or too far away.
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
                    best = Match {
                        length,
                        distance: back,
                    };
                    if length >= search.enough {
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

    /// Enters `at` and appends to `found` the nearest match of each length that there is for the
    /// bytes there, the shorter before the longer; returns the greatest length, or 0.
    /// `at + search.most` is at most the end, `search.most` at least 4, and
    /// `search.longer_than` is not heeded.
    #[inline(always)]
    pub(super) fn find_all(
        &mut self,
        view: View<'_>,
        at: usize,
        search: Search,
        found: &mut Vec<Candidate>,
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
            found.push(Candidate::new(3, back3));
        }
        let number = self.number(at);
        let mut depth = search.depth;
        let mut known = 3;
        let mut tail = word;
        while back.wrapping_sub(1) < reach {
            let earlier = at.wrapping_sub(back);
            if view.four(earlier + known - 3) == tail && view.four(earlier) == word {
                let length = view.same(earlier, at, 4, search.most);
                // Long comparisons count as more than one place, so that the effort for a
                // position is bounded whatever the data.
                depth = depth.saturating_sub(length as u32 / COMPARED_AS_PLACE);
                if length > known {
                    if found.len() - before == MAX_CANDIDATES {
                        found.pop();
                    }
                    found.push(Candidate::new(length, back));
                    (known, longest) = (length, length);
                    if length >= search.enough {
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

/// Brings a place that will be needed into the nearest cache.
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
