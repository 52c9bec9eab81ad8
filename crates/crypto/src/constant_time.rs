//! Comparison in a time that does not depend on the compared bytes.
#![forbid(unsafe_code)]

use crate::awslc;

/// Returns true if `a` and `b` are equal. The time depends on the lengths, not on the bytes.
#[must_use]
pub fn eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && awslc::digest::equal_same_length(a, b)
}

#[cfg(test)]
mod tests {
    use super::eq;

    #[test]
    fn equal_only_if_length_and_bytes_agree() {
        assert!(eq(b"", b""));
        assert!(eq(b"tag", b"tag"));
        assert!(!eq(b"tag", b"tah"));
        assert!(!eq(b"Tag", b"tag"));
        assert!(!eq(b"tag", b"tagg"));
        assert!(!eq(b"", b"t"));
    }
}
