//! ChaCha20 on AVX-512, with Poly1305 on IFMA.
//!
//! Long messages: sixteen blocks per pass, a vector for each word of the state and a lane for each
//! block. The words then have to be transposed into blocks, which would leave half of the CPU's
//! vector units idle; therefore a pass transposes the result of the previous pass between its own
//! rounds.
//!
//! Short messages, whose time is that of one chain of rounds: a vector for each row of the state
//! and 128 bits for each block, four blocks per set.

use core::arch::x86_64::*;

use super::chacha::{CONSTANTS, COUNTER, ChaChaState, nonce_words};
use super::chacha_avx2::{self, Rows};
use super::poly1305_ifma;
use crate::arch::HaveAvx512Ifma;
use crate::arch::chacha::{ChaChaBlock, ChaChaKeys, ChaChaTier, Front, Nonce};

/// Number of blocks per pass.
const PASS_BLOCKS: u32 = 16;
/// Number of bytes per pass.
const PASS_LEN: usize = 1024;
/// Maximum number of bytes that are computed by rows.
const ROWS_LEN: usize = 512;
/// Size of a vector, and of a block, in bytes.
const VECTOR_LEN: usize = 64;

/// The kernels of this level.
#[derive(Clone, Copy)]
pub(crate) struct Avx512 {
    token: HaveAvx512Ifma,
}

impl Avx512 {
    pub(crate) fn new(token: HaveAvx512Ifma) -> Self {
        Self { token }
    }
}

impl ChaChaTier for Avx512 {
    #[inline]
    fn front(&self, keys: &ChaChaKeys, nonce: Nonce, body_len: usize) -> Front {
        let HaveAvx512Ifma(()) = self.token;
        // SAFETY: the token proves AVX-512 F, BW, DQ and VL, and detection requires AVX2 for them.
        unsafe {
            if body_len <= 2 * VECTOR_LEN {
                Front::Four(front_of_four(keys, nonce))
            } else if body_len <= 6 * VECTOR_LEN {
                Front::Eight(front_of_eight(keys, nonce))
            } else {
                Front::Sixteen(front_columns(keys, nonce))
            }
        }
    }

    #[inline]
    fn length(&self, keys: &ChaChaKeys, nonce: Nonce) -> [u8; 4] {
        let HaveAvx512Ifma(()) = self.token;
        // SAFETY: as in `front`.
        unsafe { first_word(&keys.length, nonce) }.to_le_bytes()
    }

    #[inline]
    fn apply(&self, key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]) {
        let HaveAvx512Ifma(()) = self.token;
        // SAFETY: the token proves AVX-512 F, BW, DQ and VL.
        unsafe { apply(key, nonce, counter, data) }
    }

    #[inline]
    fn tag(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        poly1305_ifma::tag(self.token, key, data)
    }
}

/// A vector for each word of the state.
type Avx512Columns = [__m512i; 16];

#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

// A loop, here and elsewhere: the closures of `map` and `from_fn` would have the
// target features, but not those functions around them, and would not be inlined.
#[inline]
#[target_feature(enable = "avx512f")]
fn broadcast_all(words: &[u32; 16]) -> Avx512Columns {
    let mut v = [_mm512_setzero_si512(); 16];
    for (v, word) in v.iter_mut().zip(words) {
        *v = broadcast(*word);
    }
    v
}

/// `x += y; z = (z ^ x) <<< BITS`, which a quarter round does four times.
#[inline]
#[target_feature(enable = "avx512f")]
fn step<const BITS: i32, const N: usize>(v: &mut [__m512i; N], x: usize, y: usize, z: usize) {
    v[x] = _mm512_add_epi32(v[x], v[y]);
    v[z] = _mm512_rol_epi32::<BITS>(_mm512_xor_si512(v[z], v[x]));
}

/// A round over the columns (`SHIFT` 0) or the diagonals (`SHIFT` 1).
#[inline]
#[target_feature(enable = "avx512f")]
fn round<const SHIFT: usize>(v: &mut Avx512Columns) {
    let b = |i: usize| 4 + (i + SHIFT) % 4;
    let c = |i: usize| 8 + (i + 2 * SHIFT) % 4;
    let d = |i: usize| 12 + (i + 3 * SHIFT) % 4;
    // In this order the four chains keep the vector units busiest.
    for i in 0..4 {
        step::<16, 16>(v, i, b(i), d(i));
    }
    for i in 0..4 {
        step::<12, 16>(v, c(i), d(i), b(i));
    }
    for i in 0..4 {
        step::<8, 16>(v, i, b(i), d(i));
    }
    for i in 0..4 {
        step::<7, 16>(v, c(i), d(i), b(i));
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn double_round(v: &mut Avx512Columns) {
    round::<0>(v);
    round::<1>(v);
}

/// The result of a pass: each group holds four words of the state for sixteen blocks, as computed
/// or, after [`transpose_words`], in order within 128 bits.
#[repr(C, align(64))]
struct Computed([[__m512i; 4]; 4]);

/// Brings the four words of each block together: vector `j` then holds those of
/// blocks `j`, `4 + j`, `8 + j` and `12 + j`.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_words(group: &mut [__m512i; 4]) {
    let [a, b, c, d] = *group;
    let ab_low = _mm512_unpacklo_epi32(a, b);
    let ab_high = _mm512_unpackhi_epi32(a, b);
    let cd_low = _mm512_unpacklo_epi32(c, d);
    let cd_high = _mm512_unpackhi_epi32(c, d);
    *group = [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ];
}

/// A block from each 128-bit lane of four vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose_lanes(rows: [__m512i; 4]) -> [__m512i; 4] {
    let [a, b, c, d] = rows;
    let ab_low = _mm512_shuffle_i32x4::<0x44>(a, b);
    let ab_high = _mm512_shuffle_i32x4::<0xee>(a, b);
    let cd_low = _mm512_shuffle_i32x4::<0x44>(c, d);
    let cd_high = _mm512_shuffle_i32x4::<0xee>(c, d);
    [
        _mm512_shuffle_i32x4::<0x88>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0xdd>(ab_low, cd_low),
        _mm512_shuffle_i32x4::<0x88>(ab_high, cd_high),
        _mm512_shuffle_i32x4::<0xdd>(ab_high, cd_high),
    ]
}

/// Blocks `j`, `4 + j`, `8 + j` and `12 + j`.
#[inline]
#[target_feature(enable = "avx512f")]
fn blocks_of(computed: &Computed, j: usize) -> [__m512i; 4] {
    let [a, b, c, d] = &computed.0;
    transpose_lanes([a[j], b[j], c[j], d[j]])
}

/// XORs `stream` into the block at `offset` of `data`, or into as much of it as `data` has.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor_block(data: &mut [u8], offset: usize, stream: __m512i) {
    let len = data.len().saturating_sub(offset);
    let mask = if len >= VECTOR_LEN {
        u64::MAX
    } else {
        (1 << len) - 1
    };
    let pointer = data.as_mut_ptr().wrapping_add(offset).cast::<i8>();
    // SAFETY: the mask selects only bytes inside `data`; a masked load or store
    // touches no other.
    unsafe {
        let data = _mm512_maskz_loadu_epi8(mask, pointer);
        _mm512_mask_storeu_epi8(pointer, mask, _mm512_xor_si512(data, stream));
    }
}

/// XORs blocks `j`, `4 + j`, `8 + j` and `12 + j` into `data`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor_blocks(computed: &Computed, j: usize, data: &mut [u8]) {
    for (i, block) in blocks_of(computed, j).into_iter().enumerate() {
        xor_block(data, (4 * i + j) * VECTOR_LEN, block);
    }
}

/// XORs the result of the last pass into `data`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor_all(computed: &mut Computed, data: &mut [u8]) {
    for group in &mut computed.0 {
        transpose_words(group);
    }
    for j in 0..4 {
        xor_blocks(computed, j, data);
    }
}

/// Computes sixteen blocks from `counter` and, between the rounds, XORs those of the previous pass
/// into `before`.
///
/// Not inlined, because the compiler would otherwise keep the broadcast state in memory and copy it
/// for every pass.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
fn pass(
    state: &ChaChaState,
    counter: u32,
    computed: &mut Computed,
    before: Option<&mut [u8; PASS_LEN]>,
) {
    let counters = _mm512_add_epi32(
        broadcast(counter),
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
    );
    // The rest of the first round: column 0 after the first addition.
    let mut v = broadcast_all(&state.first_round);
    v[COUNTER] = _mm512_rol_epi32::<16>(_mm512_xor_si512(counters, v[0]));
    step::<12, 16>(&mut v, 8, 12, 4);
    step::<8, 16>(&mut v, 0, 4, 12);
    step::<7, 16>(&mut v, 8, 12, 4);
    round::<1>(&mut v);
    if let Some(data) = before {
        for group in &mut computed.0 {
            transpose_words(group);
            double_round(&mut v);
        }
        for j in 0..4 {
            xor_blocks(computed, j, data);
            double_round(&mut v);
        }
    } else {
        for _ in 0..8 {
            double_round(&mut v);
        }
    }
    double_round(&mut v);
    for (i, word) in v.iter().enumerate() {
        let initial = if i == COUNTER {
            counters
        } else {
            broadcast(state.initial[i])
        };
        computed.0[i / 4][i % 4] = _mm512_add_epi32(*word, initial);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn apply(key: &[u8; 32], nonce: Nonce, mut counter: u32, data: &mut [u8]) {
    let (chunks, rest) = data.as_chunks_mut::<PASS_LEN>();
    if !chunks.is_empty() || rest.len() > ROWS_LEN {
        let state = ChaChaState::new(key, nonce);
        let mut computed = Computed([[_mm512_setzero_si512(); 4]; 4]);
        let mut before = None;
        for chunk in chunks {
            pass(&state, counter, &mut computed, before);
            before = Some(chunk);
            counter = counter.wrapping_add(PASS_BLOCKS);
        }
        if rest.len() > ROWS_LEN {
            pass(&state, counter, &mut computed, before);
            xor_all(&mut computed, rest);
            return;
        }
        if let Some(data) = before {
            xor_all(&mut computed, data);
        }
    }
    if rest.len() > 4 * VECTOR_LEN {
        xor_rows::<2>(key, nonce, counter, rest);
    } else if !rest.is_empty() {
        xor_rows::<1>(key, nonce, counter, rest);
    }
}

/// XORs up to `SETS` sets of four blocks into `data`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor_rows<const SETS: usize>(key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]) {
    let mut last = [_mm512_setzero_si512(); SETS];
    for (last, offsets) in last.iter_mut().zip([[0, 1, 2, 3], [4, 5, 6, 7]]) {
        *last = last_row(offsets, counter, nonce);
    }
    let sets = rows([key_rows(key); SETS], last);
    for (set, blocks) in sets.iter().enumerate() {
        for (i, block) in blocks.iter().enumerate() {
            xor_block(data, (4 * set + i) * VECTOR_LEN, *block);
        }
    }
}

/// The two rows of a key, in all lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn key_rows(key: &[u8; 32]) -> [__m512i; 2] {
    let pointer = key.as_ptr().cast::<__m128i>();
    // SAFETY: the key is 32 bytes; loads need no alignment.
    unsafe {
        [
            _mm512_broadcast_i32x4(_mm_loadu_si128(pointer)),
            _mm512_broadcast_i32x4(_mm_loadu_si128(pointer.add(1))),
        ]
    }
}

/// The last row of the state for blocks at these offsets from `counter`.
#[inline]
#[target_feature(enable = "avx512f")]
fn last_row(offsets: [i32; 4], counter: u32, nonce: Nonce) -> __m512i {
    let [a, b, c, d] = offsets;
    let offsets = _mm512_set_epi32(0, 0, 0, d, 0, 0, 0, c, 0, 0, 0, b, 0, 0, 0, a);
    let [n0, n1, n2] = nonce_words(nonce);
    let row = _mm_set_epi32(n2, n1, n0, counter.cast_signed());
    _mm512_add_epi32(_mm512_broadcast_i32x4(row), offsets)
}

/// Sets of four blocks each, from the rows of their keys and their last rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn rows<const SETS: usize>(
    keys: [[__m512i; 2]; SETS],
    last: [__m512i; SETS],
) -> [[__m512i; 4]; SETS] {
    let [c0, c1, c2, c3] = CONSTANTS.map(u32::cast_signed);
    let constants = _mm512_broadcast_i32x4(_mm_set_epi32(c3, c2, c1, c0));
    let mut initial = [[constants; 4]; SETS];
    for (initial, (key, last)) in initial.iter_mut().zip(keys.iter().zip(last)) {
        *initial = [constants, key[0], key[1], last];
    }
    let mut sets = initial;
    for _ in 0..10 {
        row_round(&mut sets);
        for set in &mut sets {
            // Converts diagonals to columns. Row 1 is ready last, so it stays and the other rows
            // are rotated.
            set[0] = _mm512_shuffle_epi32::<0x93>(set[0]);
            set[2] = _mm512_shuffle_epi32::<0x39>(set[2]);
            set[3] = _mm512_shuffle_epi32::<0x4e>(set[3]);
        }
        row_round(&mut sets);
        for set in &mut sets {
            set[0] = _mm512_shuffle_epi32::<0x39>(set[0]);
            set[2] = _mm512_shuffle_epi32::<0x93>(set[2]);
            set[3] = _mm512_shuffle_epi32::<0x4e>(set[3]);
        }
    }
    for (set, initial) in sets.iter_mut().zip(initial) {
        for (row, initial) in set.iter_mut().zip(initial) {
            *row = _mm512_add_epi32(*row, initial);
        }
        *set = transpose_lanes(*set);
    }
    sets
}

/// A round over the columns of states in rows.
#[inline]
#[target_feature(enable = "avx512f")]
fn row_round<const SETS: usize>(sets: &mut [[__m512i; 4]; SETS]) {
    for set in &mut *sets {
        step::<16, 4>(set, 0, 1, 3);
    }
    for set in &mut *sets {
        step::<12, 4>(set, 2, 3, 1);
    }
    for set in &mut *sets {
        step::<8, 4>(set, 0, 1, 3);
    }
    for set in &mut *sets {
        step::<7, 4>(set, 2, 3, 1);
    }
}

/// The front in two sets of four blocks.
#[target_feature(enable = "avx512f")]
fn front_of_eight(keys: &ChaChaKeys, nonce: Nonce) -> [ChaChaBlock; 8] {
    let content = key_rows(&keys.content);
    let length = key_rows(&keys.length);
    let mut first = content;
    // The second block of the first set is the length's.
    for (row, length) in first.iter_mut().zip(length) {
        *row = _mm512_mask_mov_epi32(*row, 0x00f0, length);
    }
    let last = [
        last_row([0, 0, 1, 2], 0, nonce),
        last_row([3, 4, 5, 6], 0, nonce),
    ];
    let mut out = [[0; VECTOR_LEN]; 8];
    let sets = rows([first, content], last);
    for (out, blocks) in out.as_chunks_mut::<4>().0.iter_mut().zip(&sets) {
        for (out, block) in out.iter_mut().zip(blocks) {
            store(out, *block);
        }
    }
    out
}

/// The front of a short packet, on vectors of half the length: short packets mostly come alone, and
/// the upper vector halves would have to be powered up for each.
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn front_of_four(keys: &ChaChaKeys, nonce: Nonce) -> [ChaChaBlock; 4] {
    chacha_avx2::blocks_of(&half_rows(chacha_avx2::front_rows::<2>(keys, nonce)))
}

/// The first word of block 0, also on vectors of half the length.
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn first_word(key: &[u8; 32], nonce: Nonce) -> u32 {
    let [[row, ..]] = half_rows(chacha_avx2::first_rows(key, nonce));
    _mm256_cvtsi256_si32(row).cast_unsigned()
}

/// Applies all rounds.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn half_rows<const SETS: usize>(initial: [Rows; SETS]) -> [Rows; SETS] {
    let mut sets = initial;
    for _ in 0..10 {
        half_row_round(&mut sets);
        chacha_avx2::diagonals_to_columns(&mut sets);
        half_row_round(&mut sets);
        chacha_avx2::columns_to_diagonals(&mut sets);
    }
    chacha_avx2::add_rows(&mut sets, &initial);
    sets
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
fn half_row_round(sets: &mut [Rows]) {
    for [a, b, c, d] in sets {
        *a = _mm256_add_epi32(*a, *b);
        *d = _mm256_rol_epi32::<16>(_mm256_xor_si256(*d, *a));
        *c = _mm256_add_epi32(*c, *d);
        *b = _mm256_rol_epi32::<12>(_mm256_xor_si256(*b, *c));
        *a = _mm256_add_epi32(*a, *b);
        *d = _mm256_rol_epi32::<8>(_mm256_xor_si256(*d, *a));
        *c = _mm256_add_epi32(*c, *d);
        *b = _mm256_rol_epi32::<7>(_mm256_xor_si256(*b, *c));
    }
}

/// The front in one pass, without the state's shortcut: the keys differ.
#[target_feature(enable = "avx512f")]
fn front_columns(keys: &ChaChaKeys, nonce: Nonce) -> [ChaChaBlock; 16] {
    let counters = _mm512_set_epi32(14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0);
    let mut initial = [_mm512_setzero_si512(); 16];
    for (row, word) in initial.iter_mut().zip(CONSTANTS) {
        *row = broadcast(word);
    }
    let content = keys.content.as_chunks().0;
    let length = keys.length.as_chunks().0;
    for (row, (content, length)) in initial[4..COUNTER]
        .iter_mut()
        .zip(content.iter().zip(length))
    {
        let content = broadcast(u32::from_le_bytes(*content));
        let length = broadcast(u32::from_le_bytes(*length));
        // The second block is the length's.
        *row = _mm512_mask_mov_epi32(content, 0b10, length);
    }
    initial[COUNTER] = counters;
    for (row, word) in initial[COUNTER + 1..].iter_mut().zip(nonce_words(nonce)) {
        *row = _mm512_set1_epi32(word);
    }
    let mut v = initial;
    for _ in 0..10 {
        double_round(&mut v);
    }
    let mut computed = Computed([[_mm512_setzero_si512(); 4]; 4]);
    for (i, (word, initial)) in v.iter().zip(&initial).enumerate() {
        computed.0[i / 4][i % 4] = _mm512_add_epi32(*word, *initial);
    }
    for group in &mut computed.0 {
        transpose_words(group);
    }
    let mut out = [[0; VECTOR_LEN]; 16];
    for j in 0..4 {
        for (i, block) in blocks_of(&computed, j).into_iter().enumerate() {
            store(&mut out[4 * i + j], block);
        }
    }
    out
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(out: &mut ChaChaBlock, block: __m512i) {
    // SAFETY: a block is 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), block) }
}
