//! Length-limited optimal prefix codes for given frequencies.

/// Maximum code length (RFC 1951 §3.2.7).
pub(super) const MAX_BITS: usize = 15;

/// Number of symbols of the largest alphabet, rounded up.
const MAX_SYMBOLS: usize = 288;

/// A symbol's code, with its first bit lowest, in the low 24 bits; its length above.
pub(super) type CodeWord = u32;

#[inline(always)]
pub(super) fn word(bits: u32, count: u32) -> CodeWord {
    bits | count << 24
}

#[inline(always)]
pub(super) fn word_bits(word: CodeWord) -> u32 {
    word & 0x00ff_ffff
}

#[inline(always)]
pub(super) fn word_count(word: CodeWord) -> u32 {
    word >> 24
}

/// Sets the code length of each symbol that occurs, at most `max_bits`, and 0 for the others.
///
/// At least two symbols get a code, whether they occur or not: all inflate implementations accept a
/// code of two words, but not all accept a code of one or none.
pub(super) fn lengths(frequencies: &[u32], max_bits: usize, lengths: &mut [u8]) {
    debug_assert!(frequencies.len() <= MAX_SYMBOLS && lengths.len() == frequencies.len());
    lengths.fill(0);
    let mut keys = [0_u32; MAX_SYMBOLS];
    let used = sort(frequencies, &mut keys);
    if used < 2 {
        let only = (keys[0] & 511) as usize;
        lengths[only] = 1;
        lengths[usize::from(only == 0)] = 1;
        return;
    }
    let keys = &mut keys[..used];
    let mut symbols = [0_u16; MAX_SYMBOLS];
    for (symbol, key) in symbols.iter_mut().zip(keys.iter_mut()) {
        *symbol = (*key & 511) as u16;
        *key >>= 9;
    }
    let counts = depth_counts(keys, max_bits);
    // The rarest symbols come first and get the longest codes.
    let mut next = 0;
    for bits in (1..=max_bits).rev() {
        for _ in 0..counts[bits] {
            lengths[usize::from(symbols[next])] = bits as u8;
            next += 1;
        }
    }
}

/// Fills `keys` with the symbols that occur, sorted by frequency and then by number: the frequency
/// in the high bits, the symbol in the low nine. Returns their number; the remaining keys are 0.
fn sort(frequencies: &[u32], keys: &mut [u32; MAX_SYMBOLS]) -> usize {
    // Start of each frequency's bucket. The last bucket takes all higher frequencies, which are
    // few; symbols that do not occur come after it.
    let mut starts = [0_u32; MAX_SYMBOLS];
    let bucket = |frequency: u32| (frequency as usize).min(MAX_SYMBOLS - 1);
    for frequency in frequencies {
        starts[bucket(*frequency)] += 1;
    }
    let mut used = 0;
    for start in &mut starts[1..] {
        let count = *start;
        *start = used;
        used += count;
    }
    starts[0] = used;
    let (used, last) = (used as usize, starts[MAX_SYMBOLS - 1] as usize);
    for (symbol, frequency) in frequencies.iter().enumerate() {
        let place = &mut starts[bucket(*frequency)];
        keys[*place as usize] = frequency << 9 | symbol as u32;
        *place += 1;
    }
    keys[used..].fill(0);
    keys[last..used].sort_unstable();
    used
}

/// Returns the number of leaves at each depth of a tree for these frequencies (at least two,
/// ascending, overwritten), none below `max_bits`. Moffat and Katajainen, In-Place Calculation of
/// Minimum-Redundancy Codes, WADS 1995.
fn depth_counts(tree: &mut [u32], max_bits: usize) -> [u32; MAX_BITS + 1] {
    let count = tree.len();
    // Each inner node replaces a leaf that has been used; its children point to it.
    let (mut root, mut leaf) = (0, 0);
    for next in 0..count - 1 {
        let mut sum = 0_u32;
        for _ in 0..2 {
            if leaf >= count || (root < next && tree[root] < tree[leaf]) {
                sum = sum.wrapping_add(tree[root]);
                tree[root] = next as u32;
                root += 1;
            } else {
                sum = sum.wrapping_add(tree[leaf]);
                leaf += 1;
            }
        }
        tree[next] = sum;
    }
    // Converts parents to depths, and the inner nodes of a depth to its leaves.
    tree[count - 2] = 0;
    let mut counts = [0_u32; MAX_BITS + 1];
    counts[1] = 2;
    for next in (0..count - 2).rev() {
        let depth = tree[tree[next] as usize] as usize + 1;
        tree[next] = depth as u32;
        // An inner node replaces a leaf at its depth and has two leaves below it. Leaves deeper
        // than the limit are moved to where there is room above it.
        let mut depth = depth;
        if depth >= max_bits {
            depth = max_bits - 1;
            while counts[depth] == 0 {
                depth -= 1;
            }
        }
        counts[depth] -= 1;
        counts[depth + 1] += 2;
    }
    counts
}

/// Returns the codes for these lengths (RFC 1951 §3.2.2).
pub(super) const fn words<const N: usize>(lengths: &[u8; N]) -> [CodeWord; N] {
    let mut counts = [0_u32; MAX_BITS + 1];
    let mut symbol = 0;
    while symbol < N {
        counts[(lengths[symbol] & 15) as usize] += 1;
        symbol += 1;
    }
    counts[0] = 0;
    let mut next = [0_u32; MAX_BITS + 2];
    let mut bits = 1;
    while bits <= MAX_BITS {
        next[bits + 1] = (next[bits] + counts[bits]) << 1;
        bits += 1;
    }
    let mut words = [0; N];
    let mut symbol = 0;
    while symbol < N {
        let length = (lengths[symbol] & 15) as usize;
        if length > 0 {
            let code = (next[length] as u16).reverse_bits() >> (16 - length);
            words[symbol] = code as u32 | (length as u32) << 24;
            next[length] += 1;
        }
        symbol += 1;
    }
    words
}
