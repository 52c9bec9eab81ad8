//! Comparison whose time does not depend on where the inputs differ.
#![forbid(unsafe_code)]

use crate::awslc;

/// Whether `a` and `b` are equal; the lengths are not secret, the bytes are.
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
