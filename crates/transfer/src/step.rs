//! What uploads and downloads of one file share: the result of a step and the size thresholds.

use sftp::Attributes;
use sftp::attributes::mode;

/// Minimum size of a file that is copied over all connections, bytes.
pub(crate) const SPREAD_BYTES: u64 = 16 << 20;
/// Minimum number of bytes left for which another connection opens the file: opening and closing
/// take a round trip each.
pub(crate) const JOINING_BYTES: u64 = 4 << 20;
/// Maximum size of a file that is sent as a whole, in one message if the server supports it, bytes.
pub(crate) const SMALL_BYTES: u64 = 64 << 10;
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
    Some(format!("the server reports {size} bytes"))
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

#[cfg(test)]
mod tests {
    use super::*;

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
