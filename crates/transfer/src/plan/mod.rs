//! Names and queues of the files to copy.

pub(crate) mod id;
pub mod names;
pub mod pace;
pub(crate) mod ready;
pub(crate) mod slab;

use std::path::Path;

/// Escapes a local path for one line of output.
#[must_use]
pub fn shown(path: &Path) -> String {
    crate::text::name(path.as_os_str().as_encoded_bytes())
}

/// Returns the path of `name` in the directory `parent`, joined as OpenSSH does.
#[must_use]
pub fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = parent.to_vec();
    if !path.is_empty() && path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Returns the path without `.` components and repeated slashes, so that equal targets compare
/// equal.
#[must_use]
pub fn plain(path: &[u8]) -> Vec<u8> {
    let mut out = match path.first() {
        Some(b'/') => b"/".to_vec(),
        _ => Vec::new(),
    };
    for part in path.split(|byte| *byte == b'/') {
        if !matches!(part, b"" | b".") {
            out = joined(&out, part);
        }
    }
    out
}

/// Returns the last component of a path; trailing slashes are ignored.
#[must_use]
pub fn base_name(path: &[u8]) -> &[u8] {
    let end = path
        .iter()
        .rposition(|byte| *byte != b'/')
        .map_or(0, |at| at + 1);
    let path = path.get(..end).unwrap_or_default();
    if path.is_empty() {
        return b"/";
    }
    let begin = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(0, |at| at + 1);
    path.get(begin..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_basename_says() {
        for (path, name) in [
            ("a/b", "b"),
            ("a/b//", "b"),
            ("/", "/"),
            ("a", "a"),
            ("a/..", ".."),
        ] {
            assert_eq!(base_name(path.as_bytes()), name.as_bytes(), "{path}");
        }
        assert_eq!(plain(b"/a/.//b/"), b"/a/b");
        assert_eq!(plain(b"./a"), plain(b"a"));
        assert_eq!(joined(b"", b"x"), b"x");
        assert_eq!(joined(b"/", b"x"), b"/x");
        assert_eq!(joined(b"a", b"x"), b"a/x");
    }
}
