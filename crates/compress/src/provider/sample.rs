//! Data for the tests of libraries.

/// `len` bytes, alternating words and noise every 4 KiB.
pub(super) fn sample(len: usize) -> Vec<u8> {
    let mut state = 7_u32;
    (0..len)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if at / 4096 % 2 == 0 {
                b"compression "[at % 12]
            } else {
                state.to_be_bytes()[0]
            }
        })
        .collect()
}
