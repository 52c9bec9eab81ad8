//! Which names a server of the old protocol may send: it expands what was asked for, not we.

use crate::plan::glob;

/// Alternatives that braces may come to.
const MAX_PATTERNS: usize = 1024;

/// The last components of what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patterns(Vec<Vec<u8>>);

impl Patterns {
    /// Of a path as it was asked for; none when any name may come of it, as of a directory that
    /// is named by `.` or `~`.
    #[must_use]
    pub fn of(path: &[u8]) -> Option<Self> {
        let mut all = vec![path.to_vec()];
        let mut done = Vec::new();
        while let Some(each) = all.pop() {
            if done.len() + all.len() > MAX_PATTERNS {
                break;
            }
            match first_braces(&each) {
                Some(alternatives) => all.extend(alternatives),
                None => done.push(each),
            }
        }
        let mut names = Vec::new();
        for path in done {
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
            // What a shell there expands otherwise cannot be foretold.
            let is_home = begin == 0 && name.first() == Some(&b'~');
            let foretold = !matches!(name, b"" | b"." | b"..")
                && !is_home
                && !name
                    .iter()
                    .any(|byte| matches!(byte, b'$' | b'`' | b' ' | b'"' | b'\''));
            if !foretold {
                return None;
            }
            names.push(name.to_vec());
        }
        Some(Self(names))
    }

    /// Whether the name may come.
    #[must_use]
    pub fn allow(&self, name: &[u8]) -> bool {
        self.0
            .iter()
            .any(|pattern| pattern == name || glob::fits(pattern, name))
    }
}

/// The alternatives of the first braces of a path.
fn first_braces(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let open = path.iter().position(|byte| *byte == b'{')?;
    let mut depth = 0_usize;
    let mut cuts = vec![open];
    let mut close = None;
    for (at, byte) in path.iter().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth = depth.checked_sub(1)?;
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

    #[test]
    fn only_what_was_asked_for_may_come() {
        let allows = |path: &str, name: &str| {
            Patterns::of(path.as_bytes()).is_none_or(|patterns| patterns.allow(name.as_bytes()))
        };
        assert!(allows("/tmp/a", "a") && !allows("/tmp/a", "b"));
        assert!(allows("dir/*.c", "x.c") && !allows("dir/*.c", ".bashrc"));
        assert!(allows("{a,b{1,2}}.txt", "b2.txt") && !allows("{a,b}.txt", "c.txt"));
        assert!(allows("dir/", "dir") && !allows("dir/", "x"));
        assert!(allows(".", "anything") && allows("~", "anything"));
        assert!(!allows("*", ".ssh"));
    }
}
