//! Names of part files: what `--atomic` and several connections write beside a target until it is
//! whole.
//!
//! `.NAME.TAG.fulmar-part`, or `.NAME.TAG-RANDOM.fulmar-part` where that name is taken. TAG is a
//! hash of the source's identity and the target's name, so that a copy of the same source to the
//! same target finds the part that a cut left (`-Z`), and no other. Whoever makes a part makes it
//! with `O_EXCL`: what is there already is never followed, cut or written to, unless the copy
//! resumes and has seen that it is a regular file of its own user.

use sftp::Attributes;

use crate::source::Source;

/// How every part's name ends.
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
    /// For a local source that is to be `target`. The time of the last change of its inode is part
    /// of its identity: whoever writes to a part with this name writes the same bytes.
    #[must_use]
    pub(crate) fn of_local(source: &Source, target: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for field in source.identity() {
            hasher.update(&field.to_le_bytes());
        }
        Self::with(hasher, target)
    }

    /// For a server's file that is to be `target`, with its attributes as they were read. Two
    /// files of one path, size and time may share the name: what a part holds has to be proven.
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

    /// The name under which a later copy of the same source looks for the part.
    #[must_use]
    pub fn first(&self) -> Vec<u8> {
        [&self.stem, SUFFIX].concat()
    }

    /// A name that nobody can foresee and nobody looks for.
    #[must_use]
    pub fn another(&self) -> Vec<u8> {
        let random = u64::from_le_bytes(crypto::random::bytes());
        let random = format!("-{random:016x}");
        [&self.stem, random.as_bytes(), SUFFIX].concat()
    }
}

/// `name` without its end, at most `max` bytes of it, cut between characters of UTF-8.
fn shortened(name: &[u8], max: usize) -> &[u8] {
    let mut end = name.len().min(max);
    if end < name.len() {
        // A byte 0b10xx_xxxx continues a character; there are three at most.
        let begins = |at: usize| name.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
        end = (end.saturating_sub(3)..=end)
            .rev()
            .find(|at| begins(*at))
            .unwrap_or(end);
    }
    name.get(..end).unwrap_or(name)
}

/// `name` in the directory of `target`.
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
