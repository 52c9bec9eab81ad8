//! Checks of names from a server.

/// Returns true if a name from a listing is safe as a local name: a single component other than `.`
/// and `..`, without NUL.
#[must_use]
pub fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.contains(&b'/') && !name.contains(&0)
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
    }
}
