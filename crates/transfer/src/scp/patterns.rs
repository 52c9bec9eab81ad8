//! The names that a server of the legacy scp protocol may send: its shell expands the requested
//! path, and the names come from there.
//!
//! The requested path is parsed here as that shell parses it: quotes, words, braces and patterns. A
//! word that only that shell can expand (a variable, a command, a home directory) permits no name
//! but its own letters, as in OpenSSH. In a recursive copy, whose names OpenSSH does not compare at
//! all, it permits one item of any name that does not begin with a dot: a home directory, say.

use crate::glob;

/// Maximum number of alternatives from brace expansion.
const MAX_PATTERNS: usize = 1024;

/// The last components of the requested paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patterns {
    names: Vec<Vec<u8>>,
    /// Number of items still permitted under any name.
    unknown: usize,
}

impl Patterns {
    /// Parses a requested path of a copy, which may be recursive.
    #[must_use]
    pub fn of(path: &[u8], recursive: bool) -> Self {
        let mut all = words(path);
        let mut patterns = Self {
            names: Vec::new(),
            unknown: 0,
        };
        let mut left = MAX_PATTERNS;
        while let Some(each) = all.pop() {
            if left == 0 {
                break;
            }
            match first_braces(&each) {
                Some(alternatives) if alternatives.len() + all.len() <= left => {
                    all.extend(alternatives);
                }
                _ => {
                    left -= 1;
                    patterns.add(&each, recursive);
                }
            }
        }
        patterns
    }

    fn add(&mut self, path: &[u8], recursive: bool) {
        let end = path
            .iter()
            .rposition(|byte| *byte != b'/')
            .map_or(0, |at| at + 1);
        let path = path.get(..end).unwrap_or_default();
        let begin = path
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1);
        let name = path.get(begin..).unwrap_or_default();
        let is_home = begin == 0 && name.first() == Some(&b'~');
        match recursive && (is_home || is_expanded(name)) {
            true => self.unknown += 1,
            false => self.names.push(name.to_vec()),
        }
    }

    /// Returns true if an item of this name is permitted now, and counts it.
    #[must_use]
    pub fn allow(&mut self, name: &[u8]) -> bool {
        let asked = self.names.iter().any(|pattern| {
            glob::unescaped(pattern) == name || glob::fits_as_shells_do(pattern, name)
        });
        if asked {
            return true;
        }
        if self.unknown == 0 || name.first() == Some(&b'.') {
            return false;
        }
        self.unknown -= 1;
        true
    }
}

/// Returns true if a shell would expand a part of the name.
fn is_expanded(name: &[u8]) -> bool {
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'$' | b'`' => return true,
            _ => {}
        }
    }
    false
}

/// Splits a command line into words and removes the quotes; each quoted byte gets a backslash in
/// front.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = line.iter().peekable();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b' ' | b'\t' | b'\n') => {
                words.extend(word.take());
                continue;
            }
            (None, b'\'' | b'"') => {
                quote = Some(*byte);
                word.get_or_insert_default();
                continue;
            }
            (Some(open), byte) if open == *byte => {
                quote = None;
                continue;
            }
            _ => {}
        }
        let word = word.get_or_insert_default();
        let kept = match (quote, byte, bytes.peek()) {
            (None, b'\\', Some(_)) => bytes.next(),
            (Some(b'"'), b'\\', Some(b'$' | b'`' | b'"' | b'\\')) => bytes.next(),
            // Expansions also happen within double quotes.
            (Some(b'"'), b'$' | b'`', _) | (None, _, _) => None,
            (Some(_), byte, _) => Some(byte),
        };
        match kept {
            // A slash separates components even if quoted.
            Some(b'/') => word.push(b'/'),
            Some(byte) => word.extend([b'\\', *byte]),
            None => word.push(*byte),
        }
    }
    words.extend(word);
    words
}

/// Expands the first braces of a path.
fn first_braces(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut depth = 0_usize;
    let mut cuts = Vec::new();
    let mut close = None;
    let mut bytes = path.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'{' => {
                if depth == 0 {
                    cuts.push(at);
                }
                depth += 1;
            }
            b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    close = Some(at);
                    break;
                }
            }
            b',' if depth == 1 => cuts.push(at),
            _ => {}
        }
    }
    let close = close.filter(|_| cuts.len() > 1)?;
    let open = *cuts.first()?;
    cuts.push(close);
    let (before, behind) = (path.get(..open)?, path.get(close + 1..)?);
    let pairs = cuts.iter().zip(cuts.iter().skip(1));
    pairs
        .map(|(from, to)| Some([before, path.get(from + 1..*to)?, behind].concat()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(path: &str, name: &str) -> bool {
        let is_allowed =
            |recursive| Patterns::of(path.as_bytes(), recursive).allow(name.as_bytes());
        assert!(is_allowed(true) || !is_allowed(false), "{path} {name}");
        is_allowed(false)
    }

    #[test]
    fn only_what_was_asked_for_may_come() {
        assert!(allows("/tmp/a", "a") && !allows("/tmp/a", "b"));
        assert!(allows("dir/*.c", "x.c") && !allows("dir/*.c", ".bashrc"));
        assert!(allows("{a,b{1,2}}.txt", "b2.txt") && !allows("{a,b}.txt", "c.txt"));
        assert!(allows("dir/", "dir") && !allows("dir/", "x"));
        assert!(!allows("*", ".ssh"));
        assert!(allows("f[^1]", "f2") && allows("f[!1]", "f2") && !allows("f[^1]", "f1"));
        // No name that the request states.
        for path in [".", "..", "", "/", "a/.", "''"] {
            assert!(!allows(path, "a") && !allows(path, ".ssh"), "{path}");
        }
        // No file matches: the shell there leaves the pattern unchanged.
        assert!(allows("x[1].txt", "x[1].txt") && allows("x[1].txt", "x1.txt"));
    }

    #[test]
    fn quotes_and_words_are_read_as_the_shell_there_reads_them() {
        for path in ["'my file'", "\"my file\"", "my\\ file", "d/'my'\\ \"file\""] {
            assert!(allows(path, "my file"), "{path}");
            assert!(!allows(path, "my") && !allows(path, "evil"), "{path}");
        }
        for (path, good, bad) in [
            ("a b", "b", "c"),
            ("'*'", "*", "x"),
            ("\\*", "*", "x"),
            ("\"x*\"'y'", "x*y", "xxy"),
            ("'{a,b}'", "{a,b}", "a"),
            ("'$HOME'", "$HOME", "user"),
            ("\"\\$x\"", "$x", "user"),
            ("$HOME/.bashrc", ".bashrc", "x"),
            ("~/x", "x", "y"),
            ("~user/x", "x", "user"),
            ("'~'", "~", "user"),
            ("it\\'s", "it's", "its"),
        ] {
            assert!(allows(path, good) && !allows(path, bad), "{path}");
        }
    }

    #[test]
    fn what_only_the_shell_there_knows_is_one_thing_of_a_recursive_copy() {
        for path in ["~", "~user", "~/", "$HOME", "dir/`ls`", "\"$x\"", "a$(ls)b"] {
            for name in ["one", "axb", ".ssh"] {
                assert!(!allows(path, name), "{path} {name}");
            }
            let mut patterns = Patterns::of(path.as_bytes(), true);
            assert!(!patterns.allow(b".ssh"), "{path}");
            assert!(patterns.allow(b"one"), "{path}");
            assert!(!patterns.allow(b"two"), "{path}");
        }
        let mut patterns = Patterns::of(b"$x *.c", true);
        assert!(patterns.allow(b"a.c") && patterns.allow(b"b.c"));
        assert!(patterns.allow(b"one") && !patterns.allow(b"two"));
    }

    #[test]
    fn braces_without_end_come_to_an_end() {
        let many = "{a,b}".repeat(40);
        let patterns = Patterns::of(many.as_bytes(), false);
        assert!(patterns.names.len() <= MAX_PATTERNS);
        assert!(allows("{a", "{a") && allows("a}", "a}") && allows("{a}", "{a}"));
    }
}
