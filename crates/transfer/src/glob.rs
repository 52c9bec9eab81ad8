//! Patterns of file names (`*`, `?` and `[…]`, as in glob(7)), matched here against the server's
//! names, so that no shell at the server expands them.
//!
//! A class is negated by `!` alone, as in OpenSSH's sftp and scp, where `[^1]` is a 1 or a `^`. Shells
//! know both: [`fits_as_shells_do`].

use sftp::Attributes;
use sftp::attributes::mode;

use crate::engine::{EngineError, Transport};
use crate::plan::{joined, names};
use crate::remote::{Remote, RemoteError};

/// Maximum number of paths that one pattern matches.
const MAX_MATCHES: usize = 100_000;

/// A path that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Match {
    /// The path.
    pub path: Vec<u8>,
    /// Attributes as from STAT, which follows links. `None` for a link whose target does not exist.
    pub attributes: Option<Attributes>,
    /// Attributes of the name itself from the listing of its directory, if it was found in one.
    pub listed: Option<Attributes>,
}

impl Match {
    /// Returns true for a directory or a link to one.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.attributes
            .is_some_and(|attributes| attributes.is(mode::DIRECTORY))
    }
}

/// Returns true if `word` contains an unescaped `*`, `?` or `[`.
#[must_use]
pub fn is_pattern(word: &[u8]) -> bool {
    let mut bytes = word.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'*' | b'?' | b'[' => return true,
            _ => {}
        }
    }
    false
}

/// Returns the word without the backslashes that escape pattern characters.
#[must_use]
pub fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut bytes = word.iter().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(_)) => out.extend(bytes.next()),
            (byte, _) => out.push(*byte),
        }
    }
    out
}

/// Escapes the pattern characters of a word with backslashes.
#[must_use]
pub fn escaped(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    for byte in word {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

/// Returns the path of a word that is not a pattern, as [`expand`] returns it; `None` for a
/// pattern.
#[must_use]
pub fn plain_path(word: &[u8]) -> Option<Vec<u8>> {
    if is_pattern(word) {
        return None;
    }
    let mut path = match word.first() {
        Some(b'/') => b"/".to_vec(),
        _ => Vec::new(),
    };
    for part in word.split(|byte| *byte == b'/') {
        if !part.is_empty() {
            path = joined(&path, &unescaped(part));
        }
    }
    Some(path)
}

/// Returns true if the name matches the pattern. The time is at most proportional to the product of
/// both lengths.
#[must_use]
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    fits_negated_by(b"!", pattern, name)
}

/// As [`fits`], for a pattern that a shell expands: a `^` negates a class, too.
#[must_use]
pub fn fits_as_shells_do(pattern: &[u8], name: &[u8]) -> bool {
    fits_negated_by(b"!^", pattern, name)
}

fn fits_negated_by(marks: &[u8], pattern: &[u8], name: &[u8]) -> bool {
    // Only an explicit dot in the pattern matches a leading dot.
    let asks_dot = matches!(pattern, [b'.', ..] | [b'\\', b'.', ..]);
    if name.first() == Some(&b'.') && !asks_dot {
        return false;
    }
    let (mut at, mut of) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let rest = pattern.get(of..).unwrap_or_default();
        if rest.first() == Some(&b'*') {
            star = Some((of + 1, at));
            of += 1;
            continue;
        }
        match name.get(at) {
            None if rest.is_empty() => return true,
            None => return false,
            Some(byte) => {
                if let Some(used) = fits_one(marks, rest, *byte) {
                    of += used;
                    at += 1;
                    continue;
                }
            }
        }
        // Let the last star match one byte more.
        match star {
            Some((after, from)) => {
                of = after;
                at = from + 1;
                star = Some((after, at));
            }
            None => return false,
        }
    }
}

/// Returns the length of the first element of the pattern if it matches `byte`.
fn fits_one(marks: &[u8], pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', quoted, ..] => (*quoted == byte).then_some(2),
        [b'[', class @ ..] => match class_of(marks, class, byte) {
            Some((true, used)) => Some(used + 1),
            Some((false, _)) => None,
            // Without a closing bracket, `[` matches itself.
            None => (byte == b'[').then_some(1),
        },
        [first, ..] => (*first == byte).then_some(1),
    }
}

/// Returns whether the class contains `byte`, and the length of the class with its `]`; `None`
/// without a `]`.
fn class_of(marks: &[u8], class: &[u8], byte: u8) -> Option<(bool, usize)> {
    let mut at = 0;
    let negated = matches!(class.first(), Some(mark) if marks.contains(mark));
    at += usize::from(negated);
    let begin = at;
    let mut within = false;
    loop {
        let mut first = *class.get(at)?;
        if first == b']' && at > begin {
            return Some((within != negated, at + 1));
        }
        if first == b'\\' {
            at += 1;
            first = *class.get(at)?;
        }
        at += 1;
        let mut last = first;
        if class.get(at) == Some(&b'-') && class.get(at + 1).is_some_and(|next| *next != b']') {
            last = *class.get(at + 1)?;
            at += 2;
            if last == b'\\' {
                last = *class.get(at)?;
                at += 1;
            }
        }
        within |= (first..=last).contains(&byte);
    }
}

/// Returns the server's paths that match the pattern, sorted; empty if there are none. Names that
/// are not a single component are skipped and passed to `suspect`.
///
/// # Errors
/// [`EngineError`]. A directory that cannot be read counts as empty. After an interrupt that is
/// counted, returns the matches found so far.
pub fn expand<T: Transport>(
    remote: &mut Remote<T>,
    pattern: &[u8],
    suspect: &mut dyn FnMut(&[u8]),
) -> Result<Vec<Match>, EngineError> {
    let absolute = pattern.first() == Some(&b'/');
    let root = if absolute { b"/".to_vec() } else { Vec::new() };
    let mut found: Vec<(Vec<u8>, Option<Attributes>)> = vec![(root, None)];
    let parts: Vec<&[u8]> = pattern
        .split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .collect();
    let mut literal = false;
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        if !is_pattern(part) {
            let name = unescaped(part);
            for (path, listed) in &mut found {
                *path = joined(path, &name);
                *listed = None;
            }
            literal = true;
            continue;
        }
        literal = false;
        let mut next = Vec::new();
        for (path, _) in &found {
            let shown: &[u8] = if path.is_empty() { b"." } else { path };
            let entries = match remote.list(shown, false, suspect) {
                Ok(entries) => entries,
                Err(RemoteError::Engine(error)) => return Err(error),
                Err(_) => continue,
            };
            for entry in entries {
                let leads = is_last
                    || entry.attributes.permissions.is_none()
                    || entry.attributes.is(mode::DIRECTORY)
                    || entry.attributes.is(mode::SYMLINK);
                if leads && names::is_plain(&entry.name) && fits(part, &entry.name) {
                    next.push((joined(path, &entry.name), Some(entry.attributes)));
                }
            }
            if next.len() > MAX_MATCHES || sys::signals::interrupts() > 0 {
                break;
            }
        }
        found = next;
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.truncate(MAX_MATCHES);
    // As in glob(7), a slash at the end asks for directories.
    let folders_only = pattern.ends_with(b"/") && is_pattern(pattern);
    let mut matches = Vec::new();
    for (path, listed) in found {
        if sys::signals::interrupts() > 0 {
            break;
        }
        let asked: &[u8] = if path.is_empty() { b"." } else { &path };
        let attributes = match known(listed) {
            Some(attributes) => Some(attributes),
            // As in OpenSSH, a name that was not listed exists if LSTAT says so.
            None if literal => match remote.lstat(asked) {
                Ok(own) if known(Some(own)).is_some() => Some(own),
                Ok(_) => target_of(remote, asked)?,
                Err(RemoteError::Engine(error)) => return Err(error),
                Err(_) => continue,
            },
            None => target_of(remote, asked)?,
        };
        matches.push(Match {
            path,
            attributes,
            listed,
        });
    }
    matches.retain(|each| !folders_only || each.is_directory());
    Ok(matches)
}

/// Returns the attributes as from STAT. `None` for a link whose target does not exist, which counts
/// as a match.
fn target_of<T: Transport>(
    remote: &mut Remote<T>,
    path: &[u8],
) -> Result<Option<Attributes>, EngineError> {
    match remote.stat(path) {
        Ok(attributes) => Ok(Some(attributes)),
        Err(RemoteError::Engine(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns the attributes that STAT would return, if those of the name itself, from a listing or
/// LSTAT, are the same. This saves a round trip per name.
fn known(listed: Option<Attributes>) -> Option<Attributes> {
    listed.filter(|listed| {
        let kind = listed.permissions.unwrap_or(0) & mode::TYPE;
        kind != 0 && kind != mode::SYMLINK && listed.size.is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_globs_do() {
        for (pattern, name, fit) in [
            ("*", "abc", true),
            ("*", ".abc", false),
            (".*", ".abc", true),
            ("a*c", "abc", true),
            ("a*c", "abd", false),
            ("a*b*c", "aXbYbZc", true),
            ("?b?", "abc", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[^b]x", "bx", true),
            ("[^b]x", "^x", true),
            ("[^b]x", "cx", false),
            ("[]x]", "]", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("[\\]]", "]", true),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                fit,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn shells_negate_by_two_marks() {
        for (pattern, name, fit) in [
            ("[^b]", "b", false),
            ("[^b]", "c", true),
            ("[!b]", "c", true),
        ] {
            let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
            assert_eq!(fits_as_shells_do(pattern, name), fit);
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_time() {
        let pattern = "*a".repeat(500) + "b";
        assert!(!fits(pattern.as_bytes(), &[b'a'; 4096]));
    }

    #[test]
    fn what_is_escaped_is_no_pattern_and_comes_back() {
        let word = b"a*b?[c]\\d";
        assert!(is_pattern(word) && !is_pattern(&escaped(word)));
        assert_eq!(unescaped(&escaped(word)), word);
        assert!(fits(&escaped(word), word));
    }
}
