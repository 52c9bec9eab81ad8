//! Names that a server gives.

/// Whether a name from a listing may become one of ours: one component, and none that leads
/// elsewhere.
#[must_use]
pub fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// Whether a path from a server's tree, names parted by `/`, stays below where it is put.
#[must_use]
pub fn is_plain_path(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_none() {
        for good in ["a", ".a", "...", "a b", "\u{1b}", "~"] {
            assert!(is_plain(good.as_bytes()), "{good:?}");
        }
        for bad in ["", ".", "..", "a/b", "/", "../x", "a\0"] {
            assert!(!is_plain(bad.as_bytes()), "{bad:?}");
        }
        assert!(is_plain_path(b"a/b/c"));
        for bad in ["/a", "a//b", "a/../b", "a/", ""] {
            assert!(!is_plain_path(bad.as_bytes()), "{bad:?}");
        }
    }
}
