//! What uploads and downloads of one file share: the result of a step, the size thresholds, and the
//! comparison of an existing part.

use sftp::attributes::mode;
use sftp::{Attributes, own};

/// Minimum size of a file that is copied over all connections, bytes.
pub(crate) const SPREAD_BYTES: u64 = 16 << 20;
/// Minimum number of bytes left for which another connection opens the file: opening and closing
/// take a round trip each.
pub(crate) const JOINING_BYTES: u64 = 4 << 20;
/// Maximum size of a file that is sent as a whole, in one message if the server supports it, bytes.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;
/// Number of bytes at the end of a part that are compared if the server cannot hash.
pub(crate) const TAIL_BYTES: u64 = 32 << 10;
/// Minimum length of the blocks in which a part is compared, bytes.
const PROOF_BLOCK_BYTES: u64 = 4 << 20;
/// Maximum size of a file, bytes: some systems use signed offsets.
const MAX_BYTES: u64 = i64::MAX.unsigned_abs();

/// Result of an attempt to send for a file.
pub(crate) enum Step {
    /// A request was sent.
    Sent {
        /// True if another request can follow at once.
        more: bool,
    },
    /// A request is due, but the limits on requests or bytes in flight do not permit it now.
    Full,
    /// Nothing to send until an answer arrives.
    Nothing,
    /// The file is complete or has failed.
    Over,
}

/// Returns an error text if the size exceeds that of any file.
pub(crate) fn impossible_size(attributes: &Attributes) -> Option<String> {
    let size = attributes.size.filter(|size| *size > MAX_BYTES)?;
    Some(format!("the server says that it has {size} bytes"))
}

/// Returns true if `target` may be the source itself, by size and modification time. Truncating it
/// would then lose the content.
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

/// Returns the block length for comparing `len` bytes: at least 4 MiB, and enough that the hashes
/// of all blocks fit in one message.
pub(crate) fn proof_block(len: u64) -> u64 {
    PROOF_BLOCK_BYTES.max(len.div_ceil(own::MAX_HASH_BLOCKS).next_multiple_of(4096))
}

/// Returns how many of the first `len` bytes are equal on both sides, rounded down to whole blocks:
/// `theirs` is the server's answer to a hash request for them, `ours` has the hashes of the local
/// blocks.
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
