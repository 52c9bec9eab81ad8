//! One file's way, what is the same in both directions: what a step came to, the sizes that decide
//! how a file goes, and how a part that is there is proven.

use sftp::attributes::mode;
use sftp::{Attributes, own};

/// Files of this size and more go over all connections, bytes.
pub(crate) const SPREAD_BYTES: u64 = 16 << 20;
/// With less than this left of a file, bytes, no further connection opens it: that takes a round
/// trip, and so does closing it.
pub(crate) const JOINING_BYTES: u64 = 4 << 20;
/// Files up to this size go as a whole, in one message where the server has that, bytes.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;
/// What is compared of a part where the server has no hashes: its end, bytes.
pub(crate) const TAIL_BYTES: u64 = 32 << 10;
/// Blocks by which a part that is there is proven, bytes.
const PROOF_BLOCK_BYTES: u64 = 4 << 20;
/// No file is larger, bytes: offsets of files are signed here and there.
const MAX_BYTES: u64 = i64::MAX.unsigned_abs();

/// What became of an opportunity to send.
pub(crate) enum Step {
    /// Something was sent.
    Sent {
        /// More could follow at once.
        more: bool,
    },
    /// There is something, and no room for it now.
    Full,
    /// Answers are waited for.
    Nothing,
    /// The file is done, or failed.
    Over,
}

/// What is wrong with a size that no file has.
pub(crate) fn impossible_size(attributes: &Attributes) -> Option<String> {
    let size = attributes.size.filter(|size| *size > MAX_BYTES)?;
    Some(format!("the server says that it has {size} bytes"))
}

/// A file copied onto itself has its own size and time: cutting it would lose it.
pub(crate) fn may_be_same(source: &Attributes, target: Option<&Attributes>) -> bool {
    let Some(target) = target else { return false };
    let modified = |attributes: &Attributes| attributes.times.map(|times| times.modified);
    let same_time = match (modified(source), modified(target)) {
        (Some(source), Some(target)) => source == target,
        _ => true,
    };
    (target.permissions.is_none() || target.is(mode::REGULAR))
        && target.size.is_some_and(|size| size > 0)
        && source.size == target.size
        && same_time
}

/// Length of the blocks by which so many bytes are proven.
pub(crate) fn proof_block(len: u64) -> u64 {
    PROOF_BLOCK_BYTES.max(len.div_ceil(own::MAX_HASH_BLOCKS).next_multiple_of(4096))
}

/// How many of the first `len` bytes are the same on both sides: `theirs` is the answer to a
/// request for hashes of them, `ours` are the hashes of their blocks here.
pub(crate) fn proven_len(theirs: &[u8], ours: &[u8], len: u64) -> u64 {
    let Ok(theirs) = own::Hashes::decode(theirs) else {
        return 0;
    };
    if theirs.len != len {
        return 0;
    }
    let equal = theirs
        .hashes
        .chunks(own::HASH_BYTES)
        .zip(ours.chunks(own::HASH_BYTES))
        .take_while(|(theirs, ours)| theirs == ours)
        .count();
    let equal = u64::try_from(equal).unwrap_or(0);
    equal.saturating_mul(proof_block(len)).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proven_ends_with_the_first_block_that_differs() {
        let answer = |len, hashes: &[u8]| {
            let mut fields = Vec::new();
            own::Hashes { len, hashes }.write(&mut fields);
            fields
        };
        let blocks = [
            [1; own::HASH_BYTES],
            [2; own::HASH_BYTES],
            [3; own::HASH_BYTES],
        ]
        .concat();
        let mut other = blocks.clone();
        other[own::HASH_BYTES] ^= 1;
        let len = 2 * PROOF_BLOCK_BYTES + 5;
        assert_eq!(proof_block(len), PROOF_BLOCK_BYTES);
        assert_eq!(proven_len(&answer(len, &blocks), &blocks, len), len);
        assert_eq!(
            proven_len(&answer(len, &other), &blocks, len),
            PROOF_BLOCK_BYTES
        );
        assert_eq!(proven_len(&answer(len - 1, &blocks), &blocks, len), 0);
        assert_eq!(proven_len(b"no answer", &blocks, len), 0);
        assert!(proof_block(1 << 50) > PROOF_BLOCK_BYTES);
        assert!((1_u64 << 50).div_ceil(proof_block(1 << 50)) <= own::MAX_HASH_BLOCKS);
    }

    #[test]
    fn what_may_be_the_source_is_known_by_size_and_time() {
        let file = |size, modified| Attributes {
            size: Some(size),
            times: Some(sftp::Times {
                accessed: 1,
                modified,
            }),
            ..Attributes::NONE
        };
        assert!(may_be_same(&file(5, 7), Some(&file(5, 7))));
        assert!(!may_be_same(&file(5, 7), Some(&file(5, 8))));
        assert!(!may_be_same(&file(5, 7), Some(&file(6, 7))));
        assert!(!may_be_same(&file(5, 7), None));
    }
}
