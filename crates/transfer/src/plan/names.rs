//! Checks of names from a server.

/// Returns true if a name from a listing is safe as a local name: a single component other than `.`
/// and `..`, without NUL.
#[must_use]
pub fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
}

/// Returns true if a path from a server's tree (names separated by `/`) stays below the directory
/// it is written to.
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
