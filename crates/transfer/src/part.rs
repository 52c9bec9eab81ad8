//! Names of part files, which `--atomic` and copies over several connections write next to the
//! target until it is complete.
//!
//! `.NAME.TAG.fulmar-part`, or `.NAME.TAG-RANDOM.fulmar-part` if that name is taken. TAG is a hash
//! of the source's identity and the target's name, so that a copy of the same source to the same
//! target finds the part that an interrupted copy left (`-Z`), and no other. Parts are created with
//! `O_EXCL`: an existing file is never followed, truncated or written to, unless the copy resumes
//! and has checked that it is a regular file owned by the same user.

use sftp::Attributes;

use crate::source::Source;

/// Suffix of the name of every part.
pub const SUFFIX: &[u8] = b".fulmar-part";
/// `NAME_MAX` of Linux file systems, bytes.
const MAX_NAME_BYTES: usize = 255;
/// Hexadecimal digits of TAG and of RANDOM.
const DIGITS: usize = 16;

/// The names that the part of one copy may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartNames {
    /// `.NAME.TAG`
    stem: Vec<u8>,
}

impl PartNames {
    /// For a local source that is copied to `target`. The change time of its inode is part of its
    /// identity, so every copy that writes to a part of this name writes the same bytes.
    #[must_use]
    pub(crate) fn of_local(source: &Source, target: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for field in source.identity() {
            hasher.update(&field.to_le_bytes());
        }
        Self::with(hasher, target)
    }

    /// For a server's file with these attributes that is copied to `target`. Two files of the same
    /// path, size and time may share the name: the content of a part must be compared before it is
    /// used.
    #[must_use]
    pub fn of_remote(path: &[u8], attributes: &Attributes, target: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&attributes.size.unwrap_or(u64::MAX).to_le_bytes());
        let modified = attributes.times.map_or(u32::MAX, |times| times.modified);
        hasher.update(&modified.to_le_bytes());
        hasher.update(path);
        Self::with(hasher, target)
    }

    fn with(mut hasher: blake3::Hasher, target: &[u8]) -> Self {
        let name = crate::plan::base_name(target);
        hasher.update(&[0]);
        hasher.update(name);
        let tag = hasher.finalize().to_hex();
        let besides = 2 + DIGITS + 1 + DIGITS + SUFFIX.len();
        let mut stem = b".".to_vec();
        stem.extend_from_slice(shortened(name, MAX_NAME_BYTES - besides));
        stem.push(b'.');
        stem.extend(tag.bytes().take(DIGITS));
        Self { stem }
    }

    /// Returns the name under which a later copy of the same source looks for the part.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        [&self.stem, SUFFIX].concat()
    }

    /// Returns an unpredictable name, which no later copy looks for.
    #[must_use]
    pub fn another(&self) -> Vec<u8> {
        let random = u64::from_le_bytes(crypto::random::bytes());
        let random = format!("-{random:016x}");
        [&self.stem, random.as_bytes(), SUFFIX].concat()
    }
}

/// Truncates `name` to at most `max` bytes, between characters of UTF-8.
fn shortened(name: &[u8], max: usize) -> &[u8] {
    let mut end = name.len().min(max);
    if end < name.len() {
        // A byte 0b10xx_xxxx continues a character; a character has at most three of them.
        let begins = |at: usize| name.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
        end = (end.saturating_sub(3)..=end)
            .rev()
            .find(|at| begins(*at))
            .unwrap_or(end);
    }
    name.get(..end).unwrap_or(name)
}

/// Returns the path of `name` in the directory of `target`.
#[must_use]
pub fn beside(target: &[u8], name: &[u8]) -> Vec<u8> {
    let at = target
        .len()
        .saturating_sub(crate::plan::base_name(target).len());
    [target.get(..at).unwrap_or_default(), name].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, size: u64, target: &[u8]) -> PartNames {
        let attributes = Attributes {
            size: Some(size),
            ..Attributes::NONE
        };
        PartNames::of_remote(path.as_bytes(), &attributes, target)
    }

    #[test]
    fn a_part_is_found_by_the_copy_that_it_belongs_to_and_by_no_other() {
        let one = names("/f", 5, b"d/x");
        assert_eq!(one, names("/f", 5, b"elsewhere/x"));
        for other in [
            names("/f", 6, b"x"),
            names("/g", 5, b"x"),
            names("/f", 5, b"y"),
        ] {
            assert_ne!(one, other);
        }
        assert_ne!(one.first(), one.another());
        assert_ne!(one.another(), one.another());
        assert!(one.first().starts_with(b".x.") && one.first().ends_with(SUFFIX));
    }

    #[test]
    fn no_name_is_longer_than_a_file_system_takes() {
        for name in [
            "x".repeat(255),
            "\u{fc}".repeat(127),
            "\u{1f600}".repeat(63),
        ] {
            let names = names("/f", 5, name.as_bytes());
            for part in [names.first(), names.another()] {
                assert!(part.len() <= MAX_NAME_BYTES, "{}", part.len());
                assert!(String::from_utf8(part).is_ok());
            }
        }
        // Names of equal beginnings have parts of their own.
        let long = |end: &str| names("/f", 5, ("x".repeat(250) + end).as_bytes()).first();
        assert_ne!(long("a"), long("b"));
    }

    #[test]
    fn a_part_is_in_the_directory_of_its_target() {
        assert_eq!(beside(b"d/x", b".p"), b"d/.p");
        assert_eq!(beside(b"x", b".p"), b".p");
        assert_eq!(beside(b"/x", b".p"), b"/.p");
    }
}
