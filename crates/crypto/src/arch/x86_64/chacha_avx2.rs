//! ChaCha20 on AVX2, with Poly1305 on AVX2.
//!
//! Like the AVX-512 kernel, with vectors of half the length: eight blocks per pass, two blocks per
//! set of rows. Sixteen registers cannot hold the 16 words of state and temporaries, so some words
//! are always in memory.

use core::arch::x86_64::*;
use core::hint::black_box;

use super::chacha::{CONSTANTS, COUNTER, ChaChaState, nonce_words};
use super::poly1305_avx2;
use crate::arch::HaveAvx2;
use crate::arch::chacha::{
    BLOCK_LEN, ChaChaBlock, ChaChaKeys, ChaChaTier, Front, Nonce, xor_front,
};

/// Number of blocks per pass.
const PASS_BLOCKS: u32 = 8;
/// Number of bytes per pass.
const PASS_LEN: usize = 512;
/// Maximum number of bytes that are computed by rows.
const ROWS_LEN: usize = 256;

/// The kernels of this level.
#[derive(Clone, Copy)]
pub(crate) struct Avx2 {
    token: HaveAvx2,
}

impl Avx2 {
    pub(crate) fn new(token: HaveAvx2) -> Self {
        Self { token }
    }
}

impl ChaChaTier for Avx2 {
    #[inline]
    fn front(&self, keys: &ChaChaKeys, nonce: Nonce, body_len: usize) -> Front {
        let HaveAvx2(()) = self.token;
        // SAFETY: the token proves AVX2.
        unsafe {
            if body_len <= 2 * BLOCK_LEN {
                Front::Four(front::<2, 4>(keys, nonce))
            } else {
                Front::Eight(front::<4, 8>(keys, nonce))
            }
        }
    }

    #[inline]
    fn length(&self, keys: &ChaChaKeys, nonce: Nonce) -> [u8; 4] {
        let HaveAvx2(()) = self.token;
        // SAFETY: the token proves AVX2.
        unsafe { first_word(&keys.length, nonce) }.to_le_bytes()
    }

    #[inline]
    fn apply(&self, key: &[u8; 32], nonce: Nonce, counter: u32, data: &mut [u8]) {
        let HaveAvx2(()) = self.token;
        // SAFETY: the token proves AVX2.
        unsafe { apply(key, nonce, counter, data) }
    }

    #[inline]
    fn tag(&self, key: &[u8; 32], data: &[u8]) -> [u8; 16] {
        poly1305_avx2::tag(self.token, key, data)
    }
}

/// A vector for each word of the state.
type Avx2Columns = [__m256i; 16];

/// The byte shuffles that rotate words by 16 and by 8 bits.
#[derive(Clone, Copy)]
struct Rotations {
    by_16: __m256i,
    by_8: __m256i,
}

impl Rotations {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        let by_16 = _mm_set_epi8(13, 12, 15, 14, 9, 8, 11, 10, 5, 4, 7, 6, 1, 0, 3, 2);
        let by_8 = _mm_set_epi8(14, 13, 12, 15, 10, 9, 8, 11, 6, 5, 4, 7, 2, 1, 0, 3);
        // A compiler that knows the shuffles replaces one by two others, and moves them across
        // other operations, which is 10 % slower. The value that it has to leave in memory also
        // makes it align the stack, and with it the words that do not fit into registers: otherwise
        // some of them cross a page boundary in one process of fifteen, which then takes twice as
        // long.
        black_box(Self {
            by_16: _mm256_broadcastsi128_si256(by_16),
            by_8: _mm256_broadcastsi128_si256(by_8),
        })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rotate<const BITS: i32>(&self, x: __m256i) -> __m256i {
        match BITS {
            16 => _mm256_shuffle_epi8(x, self.by_16),
            12 => _mm256_or_si256(_mm256_slli_epi32::<12>(x), _mm256_srli_epi32::<20>(x)),
            8 => _mm256_shuffle_epi8(x, self.by_8),
            _ => _mm256_or_si256(_mm256_slli_epi32::<7>(x), _mm256_srli_epi32::<25>(x)),
        }
    }

    /// `x += y; z = (z ^ x) <<< BITS`, which a quarter round does four times.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn step<const BITS: i32, const N: usize>(
        &self,
        v: &mut [__m256i; N],
        x: usize,
        y: usize,
        z: usize,
    ) {
        v[x] = _mm256_add_epi32(v[x], v[y]);
        v[z] = self.rotate::<BITS>(_mm256_xor_si256(v[z], v[x]));
    }

    /// A round over the columns (`SHIFT` 0) or the diagonals (`SHIFT` 1).
    #[inline]
    #[target_feature(enable = "avx2")]
    fn round<const SHIFT: usize>(&self, v: &mut Avx2Columns) {
        let b = |i: usize| 4 + (i + SHIFT) % 4;
        let c = |i: usize| 8 + (i + 2 * SHIFT) % 4;
        let d = |i: usize| 12 + (i + 3 * SHIFT) % 4;
        for i in 0..4 {
            self.step::<16, 16>(v, i, b(i), d(i));
        }
        for i in 0..4 {
            self.step::<12, 16>(v, c(i), d(i), b(i));
        }
        for i in 0..4 {
            self.step::<8, 16>(v, i, b(i), d(i));
        }
        for i in 0..4 {
            self.step::<7, 16>(v, c(i), d(i), b(i));
        }
    }

    /// A round over the columns of states in rows.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn row_round(&self, sets: &mut [Rows]) {
        for set in &mut *sets {
            self.step::<16, 4>(set, 0, 1, 3);
        }
        for set in &mut *sets {
            self.step::<12, 4>(set, 2, 3, 1);
        }
        for set in &mut *sets {
            self.step::<8, 4>(set, 0, 1, 3);
        }
        for set in &mut *sets {
            self.step::<7, 4>(set, 2, 3, 1);
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn double_round(&self, v: &mut Avx2Columns) {
        self.round::<0>(v);
        self.round::<1>(v);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn broadcast(word: u32) -> __m256i {
    _mm256_set1_epi32(word.cast_signed())
}

// A loop instead of a closure, for the reason given in `chacha_avx512`.
#[inline]
#[target_feature(enable = "avx2")]
fn broadcast_all(words: &[u32; 16]) -> Avx2Columns {
    let mut v = [_mm256_setzero_si256(); 16];
    for (v, word) in v.iter_mut().zip(words) {
        *v = broadcast(*word);
    }
    v
}

/// The result of a pass: each group holds four words of the state for eight blocks, as computed or,
/// after [`transpose_words`], in order within 128 bits.
#[repr(C, align(32))]
struct Computed([[__m256i; 4]; 4]);

/// Brings the four words of each block together: vector `j` then holds those of
/// blocks `j` and `4 + j`.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_words(group: &mut [__m256i; 4]) {
    let [a, b, c, d] = *group;
    let ab_low = _mm256_unpacklo_epi32(a, b);
    let ab_high = _mm256_unpackhi_epi32(a, b);
    let cd_low = _mm256_unpacklo_epi32(c, d);
    let cd_high = _mm256_unpackhi_epi32(c, d);
    *group = [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ];
}

/// A block, as two vectors, from each 128-bit lane of four vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_lanes([a, b, c, d]: [__m256i; 4]) -> [[__m256i; 2]; 2] {
    [
        [
            _mm256_permute2x128_si256::<0x20>(a, b),
            _mm256_permute2x128_si256::<0x20>(c, d),
        ],
        [
            _mm256_permute2x128_si256::<0x31>(a, b),
            _mm256_permute2x128_si256::<0x31>(c, d),
        ],
    ]
}

/// XORs blocks `j` and `4 + j` into `data`.
#[inline]
#[target_feature(enable = "avx2")]
fn xor_blocks(computed: &Computed, j: usize, data: &mut [ChaChaBlock; 8]) {
    let [a, b, c, d] = &computed.0;
    let [low, high] = transpose_lanes([a[j], b[j], c[j], d[j]]);
    xor_block(&mut data[j], low);
    xor_block(&mut data[4 + j], high);
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor_block(block: &mut ChaChaBlock, stream: [__m256i; 2]) {
    let pointer = block.as_mut_ptr().cast::<__m256i>();
    for (i, stream) in stream.into_iter().enumerate() {
        // SAFETY: a block is two vectors; loads and stores need no alignment.
        unsafe {
            let pointer = pointer.add(i);
            let data = _mm256_loadu_si256(pointer);
            _mm256_storeu_si256(pointer, _mm256_xor_si256(data, stream));
        }
    }
}

/// XORs the result of the last pass into `data`.
#[inline]
#[target_feature(enable = "avx2")]
fn xor_all(computed: &mut Computed, data: &mut [ChaChaBlock; 8]) {
    for group in &mut computed.0 {
        transpose_words(group);
    }
    for j in 0..4 {
        xor_blocks(computed, j, data);
    }
}

/// Computes eight blocks from `counter` and, between the rounds, XORs those of the previous pass
/// into `before`. Not inlined, as in `chacha_avx512`.
#[inline(never)]
#[target_feature(enable = "avx2")]
fn pass(
    state: &ChaChaState,
    counter: u32,
    computed: &mut Computed,
    before: Option<&mut [ChaChaBlock; 8]>,
) {
    let counters = _mm256_add_epi32(broadcast(counter), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    let rotations = Rotations::new();
    // The rest of the first round: column 0 after the first addition.
    let mut v = broadcast_all(&state.first_round);
    v[COUNTER] = rotations.rotate::<16>(_mm256_xor_si256(counters, v[0]));
    rotations.step::<12, 16>(&mut v, 8, 12, 4);
    rotations.step::<8, 16>(&mut v, 0, 4, 12);
    rotations.step::<7, 16>(&mut v, 8, 12, 4);
    rotations.round::<1>(&mut v);
    if let Some(data) = before {
        for group in &mut computed.0 {
            transpose_words(group);
            rotations.double_round(&mut v);
        }
        for j in 0..4 {
            xor_blocks(computed, j, data);
            rotations.double_round(&mut v);
        }
    } else {
        for _ in 0..8 {
            rotations.double_round(&mut v);
        }
    }
    rotations.double_round(&mut v);
    for (i, word) in v.iter().enumerate() {
        let initial = if i == COUNTER {
            counters
        } else {
            broadcast(state.initial[i])
        };
        computed.0[i / 4][i % 4] = _mm256_add_epi32(*word, initial);
    }
}

#[target_feature(enable = "avx2")]
fn apply(key: &[u8; 32], nonce: Nonce, mut counter: u32, data: &mut [u8]) {
    let (chunks, rest) = data.as_chunks_mut::<PASS_LEN>();
    if !chunks.is_empty() || rest.len() > ROWS_LEN {
        let state = ChaChaState::new(key, nonce);
        let mut computed = Computed([[_mm256_setzero_si256(); 4]; 4]);
        let mut before = None;
        for chunk in chunks {
            pass(&state, counter, &mut computed, before);
            before = chunk.as_chunks_mut().0.as_mut_array();
            counter = counter.wrapping_add(PASS_BLOCKS);
        }
        if rest.len() > ROWS_LEN {
            pass(&state, counter, &mut computed, before);
            let mut stream = [[0; BLOCK_LEN]; 8];
            xor_all(&mut computed, &mut stream);
            xor_front(rest, stream.as_flattened());
            return;
        }
        if let Some(data) = before {
            xor_all(&mut computed, data);
        }
    }
    if !rest.is_empty() {
        let key = key_rows(key);
        let last = [
            last_row([0, 1], counter, nonce),
            last_row([2, 3], counter, nonce),
        ];
        let stream: [ChaChaBlock; 4] = blocks_of(&rows(initial_rows([key; 2], last)));
        xor_front(rest, stream.as_flattened());
    }
}

/// The two rows of a key, in both lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn key_rows(key: &[u8; 32]) -> [__m256i; 2] {
    let pointer = key.as_ptr().cast::<__m128i>();
    // SAFETY: the key is 32 bytes; loads need no alignment.
    unsafe {
        [
            _mm256_broadcastsi128_si256(_mm_loadu_si128(pointer)),
            _mm256_broadcastsi128_si256(_mm_loadu_si128(pointer.add(1))),
        ]
    }
}

/// The last row of the state for blocks at these offsets from `counter`.
#[inline]
#[target_feature(enable = "avx2")]
fn last_row([a, b]: [i32; 2], counter: u32, nonce: Nonce) -> __m256i {
    let offsets = _mm256_set_epi32(0, 0, 0, b, 0, 0, 0, a);
    let [n0, n1, n2] = nonce_words(nonce);
    let row = _mm_set_epi32(n2, n1, n0, counter.cast_signed());
    _mm256_add_epi32(_mm256_broadcastsi128_si256(row), offsets)
}

/// Two blocks in rows.
pub(super) type Rows = [__m256i; 4];

/// Sets of rows before the first round, from those of their keys and their last rows.
#[inline]
#[target_feature(enable = "avx2")]
fn initial_rows<const SETS: usize>(
    keys: [[__m256i; 2]; SETS],
    last: [__m256i; SETS],
) -> [Rows; SETS] {
    let [c0, c1, c2, c3] = CONSTANTS.map(u32::cast_signed);
    let constants = _mm256_broadcastsi128_si256(_mm_set_epi32(c3, c2, c1, c0));
    let mut sets = [[constants; 4]; SETS];
    for (set, (key, last)) in sets.iter_mut().zip(keys.iter().zip(last)) {
        *set = [constants, key[0], key[1], last];
    }
    sets
}

/// Converts diagonals to columns. Row 1 is ready last, so it stays and the other rows are rotated.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn diagonals_to_columns(sets: &mut [Rows]) {
    for set in sets {
        set[0] = _mm256_shuffle_epi32::<0x93>(set[0]);
        set[2] = _mm256_shuffle_epi32::<0x39>(set[2]);
        set[3] = _mm256_shuffle_epi32::<0x4e>(set[3]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn columns_to_diagonals(sets: &mut [Rows]) {
    for set in sets {
        set[0] = _mm256_shuffle_epi32::<0x39>(set[0]);
        set[2] = _mm256_shuffle_epi32::<0x93>(set[2]);
        set[3] = _mm256_shuffle_epi32::<0x4e>(set[3]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn add_rows(sets: &mut [Rows], initial: &[Rows]) {
    for (set, initial) in sets.iter_mut().zip(initial) {
        for (row, initial) in set.iter_mut().zip(initial) {
            *row = _mm256_add_epi32(*row, *initial);
        }
    }
}

/// Applies all rounds.
#[inline]
#[target_feature(enable = "avx2")]
fn rows<const SETS: usize>(initial: [Rows; SETS]) -> [Rows; SETS] {
    let mut sets = initial;
    let rotations = Rotations::new();
    for _ in 0..10 {
        rotations.row_round(&mut sets);
        diagonals_to_columns(&mut sets);
        rotations.row_round(&mut sets);
        columns_to_diagonals(&mut sets);
    }
    add_rows(&mut sets, &initial);
    sets
}

/// The blocks of sets of rows.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn blocks_of<const SETS: usize, const BLOCKS: usize>(
    sets: &[Rows; SETS],
) -> [ChaChaBlock; BLOCKS] {
    let mut blocks = [[0; BLOCK_LEN]; BLOCKS];
    for (set, [low, high]) in sets.iter().zip(blocks.as_chunks_mut().0) {
        let [low_stream, high_stream] = transpose_lanes(*set);
        xor_block(low, low_stream);
        xor_block(high, high_stream);
    }
    blocks
}

/// The rows of block 0 of a key, twice.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn first_rows(key: &[u8; 32], nonce: Nonce) -> [Rows; 1] {
    initial_rows([key_rows(key)], [last_row([0; 2], 0, nonce)])
}

/// The first word of block 0.
#[target_feature(enable = "avx2")]
fn first_word(key: &[u8; 32], nonce: Nonce) -> u32 {
    let [[row, ..]] = rows(first_rows(key, nonce));
    _mm256_cvtsi256_si32(row).cast_unsigned()
}

/// The rows of the front, in `SETS` sets of two blocks.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn front_rows<const SETS: usize>(keys: &ChaChaKeys, nonce: Nonce) -> [Rows; SETS] {
    let content = key_rows(&keys.content);
    let length = key_rows(&keys.length);
    let mut set_keys = [content; SETS];
    // The second block of the first set is the length's.
    for (row, length) in set_keys[0].iter_mut().zip(length) {
        *row = _mm256_blend_epi32::<0xf0>(*row, length);
    }
    let mut last = [_mm256_setzero_si256(); SETS];
    for (last, offsets) in last.iter_mut().zip([[0, 0], [1, 2], [3, 4], [5, 6]]) {
        *last = last_row(offsets, 0, nonce);
    }
    initial_rows(set_keys, last)
}

#[target_feature(enable = "avx2")]
fn front<const SETS: usize, const BLOCKS: usize>(
    keys: &ChaChaKeys,
    nonce: Nonce,
) -> [ChaChaBlock; BLOCKS] {
    blocks_of(&rows(front_rows::<SETS>(keys, nonce)))
}
