//! The AES key schedule on AES-NI.

use core::arch::x86_64::{
    _mm_aeskeygenassist_si128, _mm_cvtsi32_si128, _mm_extract_epi32, _mm_shuffle_epi32,
};

use crate::arch::HaveAesNi;
use crate::arch::aes::Schedule;
use crate::awslc::AwsLcFailed;

/// Expands a key of 16, 24 or 32 bytes.
pub(super) fn expand(token: HaveAesNi, key: &[u8]) -> Result<Schedule, AwsLcFailed> {
    Schedule::expand(key, |word| substitute(token, word))
}

/// SubWord of FIPS 197 §5.2, without a table.
fn substitute(token: HaveAesNi, word: u32) -> u32 {
    #[target_feature(enable = "aes,sse4.1")]
    fn with_aes(word: i32) -> i32 {
        // The instruction substitutes the second word into the first.
        let spread = _mm_shuffle_epi32::<0>(_mm_cvtsi32_si128(word));
        _mm_extract_epi32::<0>(_mm_aeskeygenassist_si128::<0>(spread))
    }
    let HaveAesNi(()) = token;
    // SAFETY: the token proves AES-NI and SSE4.1.
    unsafe { with_aes(word.cast_signed()) }.cast_unsigned()
}
