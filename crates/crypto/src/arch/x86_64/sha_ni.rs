//! SHA-1 and SHA-256 of two messages on the SHA extensions: each instruction waits for the previous
//! one, and the second message's instructions fill the gaps.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::sha_lanes::K_256;
use crate::arch::HaveShaNi;
use crate::arch::sha::{HashKernel, Lanes, States};

pub(crate) fn sha1_kernel(token: HaveShaNi) -> HashKernel<u32, 64, 2> {
    let HaveShaNi(()) = token;
    HashKernel {
        name: "sha-ni x2",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha1(states, lanes) },
    }
}

pub(crate) fn sha256_kernel(token: HaveShaNi) -> HashKernel<u32, 64, 2> {
    let HaveShaNi(()) = token;
    HashKernel {
        name: "sha-ni x2",
        // SAFETY: only this function, which has the token, gives the closure away.
        compress: |states, lanes| unsafe { sha256(states, lanes) },
    }
}

/// Four of SHA-256's constants, aligned so that an addition can read them from memory.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Four([u32; 4]);

/// [`K_256`], by sixteen rounds.
static FOURS: [[Four; 4]; 4] = {
    let mut fours = [[Four([0; 4]); 4]; 4];
    let mut i = 0;
    while i < 64 {
        fours[i / 16][i / 4 % 4].0[i % 4] = K_256[i / 16][i % 16];
        i += 1;
    }
    fours
};

#[target_feature(enable = "sha,sse4.1")]
fn sha256(states: &mut States<u32, 2>, [first, second]: Lanes<'_, 64, 2>) {
    // The instructions need the words in the order FEBA and HGDC.
    let States(words) = states;
    let mut feba = [0, 1].map(|lane| gather([5, 4, 1, 0].map(|word: usize| words[word][lane])));
    let mut hgdc = [0, 1].map(|lane| gather([7, 6, 3, 2].map(|word: usize| words[word][lane])));
    let [scheduled @ .., last] = &FOURS;
    // Two messages need all 16 registers. The compiler must not unroll this loop: it
    // would keep constants in registers and a state in memory, a third slower.
    let scheduled: &[[Four; 4]] = black_box(scheduled);
    for blocks in first.iter().zip(second) {
        let (feba_before, hgdc_before) = (feba, hgdc);
        let mut w = [load_words(blocks.0), load_words(blocks.1)];
        for k in scheduled {
            for i in 0..4 {
                for lane in 0..2 {
                    let w = &mut w[lane];
                    let sums = _mm_add_epi32(w[i], load_constants(&k[i]));
                    four_rounds(&mut feba[lane], &mut hgdc[lane], sums);
                    let [next, later, latest] = [w[(i + 1) % 4], w[(i + 2) % 4], w[(i + 3) % 4]];
                    let sum = _mm_sha256msg1_epu32(w[i], next);
                    let sum = _mm_add_epi32(sum, _mm_alignr_epi8::<4>(latest, later));
                    w[i] = _mm_sha256msg2_epu32(sum, latest);
                }
            }
        }
        for (i, k) in last.iter().enumerate() {
            for lane in 0..2 {
                let sums = _mm_add_epi32(w[lane][i], load_constants(k));
                four_rounds(&mut feba[lane], &mut hgdc[lane], sums);
            }
        }
        for lane in 0..2 {
            feba[lane] = _mm_add_epi32(feba[lane], feba_before[lane]);
            hgdc[lane] = _mm_add_epi32(hgdc[lane], hgdc_before[lane]);
        }
    }
    for lane in 0..2 {
        let [f, e, b, a] = scatter(feba[lane]);
        let [h, g, d, c] = scatter(hgdc[lane]);
        for (words, word) in words.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            words[lane] = word;
        }
    }
}

/// Four rounds of SHA-256 with the sums of words and constants.
#[inline]
#[target_feature(enable = "sha,sse4.1")]
fn four_rounds(feba: &mut __m128i, hgdc: &mut __m128i, sums: __m128i) {
    *hgdc = _mm_sha256rnds2_epu32(*hgdc, *feba, sums);
    *feba = _mm_sha256rnds2_epu32(*feba, *hgdc, _mm_shuffle_epi32::<0x0e>(sums));
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn load_constants(constants: &Four) -> __m128i {
    // SAFETY: four words are 16 bytes, and aligned to them.
    unsafe { _mm_load_si128(constants.0.as_ptr().cast()) }
}

/// The block's big-endian words, four per vector, the first in the lowest element.
#[inline]
#[target_feature(enable = "ssse3")]
fn load_words(block: &[u8; 64]) -> [__m128i; 4] {
    let swap = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    load(block, swap)
}

/// Like [`load_words`], with the first of four words in the highest element.
#[inline]
#[target_feature(enable = "ssse3")]
fn load_reversed(block: &[u8; 64]) -> [__m128i; 4] {
    let swap = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    load(block, swap)
}

#[inline]
#[target_feature(enable = "ssse3")]
fn load(block: &[u8; 64], shuffle: __m128i) -> [__m128i; 4] {
    let start = block.as_ptr().cast::<__m128i>();
    let mut words = [_mm_setzero_si128(); 4];
    for (i, words) in words.iter_mut().enumerate() {
        // SAFETY: four loads of 16 bytes are the block; they need no alignment.
        *words = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(start.add(i)) }, shuffle);
    }
    words
}

/// Four words, the first in the lowest element.
#[inline]
#[target_feature(enable = "sse2")]
fn gather(words: [u32; 4]) -> __m128i {
    let [a, b, c, d] = words.map(u32::cast_signed);
    _mm_set_epi32(d, c, b, a)
}

#[inline]
#[target_feature(enable = "sse4.1")]
fn scatter(words: __m128i) -> [u32; 4] {
    [
        _mm_extract_epi32::<0>(words),
        _mm_extract_epi32::<1>(words),
        _mm_extract_epi32::<2>(words),
        _mm_extract_epi32::<3>(words),
    ]
    .map(i32::cast_unsigned)
}

/// Four times four rounds of one kind and once more, for both lanes; `$i` counts
/// fours of rounds.
macro_rules! twenty_rounds {
    ($f:literal, $($i:literal)*, $w:ident, $dcba:ident, $before:ident) => {$(
        for lane in 0..2 {
            let w = &mut $w[lane];
            if $i >= 4 {
                let sum = _mm_sha1msg1_epu32(w[$i % 4], w[($i + 1) % 4]);
                let sum = _mm_xor_si128(sum, w[($i + 2) % 4]);
                w[$i % 4] = _mm_sha1msg2_epu32(sum, w[($i + 3) % 4]);
            }
            let sums = if $i == 0 {
                _mm_add_epi32($before[lane], w[0])
            } else {
                _mm_sha1nexte_epu32($before[lane], w[$i % 4])
            };
            $before[lane] = $dcba[lane];
            $dcba[lane] = _mm_sha1rnds4_epu32::<$f>($dcba[lane], sums);
        }
    )*};
}

#[target_feature(enable = "sha,sse4.1")]
fn sha1(states: &mut States<u32, 2>, [first, second]: Lanes<'_, 64, 2>) {
    // The instructions need the first word in the highest element, and E in the highest element.
    let States(words) = states;
    let mut dcba = [0, 1].map(|lane| gather([3, 2, 1, 0].map(|word: usize| words[word][lane])));
    let mut e = [0, 1].map(|lane| gather([0, 0, 0, words[4][lane]]));
    for blocks in first.iter().zip(second) {
        let dcba_before = dcba;
        // The E of four rounds is derived from A before the previous four rounds.
        let mut before = e;
        let mut w = [load_reversed(blocks.0), load_reversed(blocks.1)];
        twenty_rounds!(0, 0 1 2 3 4, w, dcba, before);
        twenty_rounds!(1, 5 6 7 8 9, w, dcba, before);
        twenty_rounds!(2, 10 11 12 13 14, w, dcba, before);
        twenty_rounds!(3, 15 16 17 18 19, w, dcba, before);
        for lane in 0..2 {
            e[lane] = _mm_sha1nexte_epu32(before[lane], e[lane]);
            dcba[lane] = _mm_add_epi32(dcba[lane], dcba_before[lane]);
        }
    }
    for lane in 0..2 {
        let [d, c, b, a] = scatter(dcba[lane]);
        let [_, _, _, e] = scatter(e[lane]);
        for (words, word) in words.iter_mut().zip([a, b, c, d, e]) {
            words[lane] = word;
        }
    }
}
