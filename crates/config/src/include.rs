//! `Include`: which files a pattern names, and how much may be read in all.
//!
//! Patterns are those of glob(7): `*`, `?` and `[…]` within a path component; names that start with a dot need
//! a literal dot. Matches come sorted, as glob(3) gives them.

use std::path::{Path, PathBuf};

use crate::environment::Files;

/// Files may include one another this deep.
pub const MAX_DEPTH: usize = 16;
/// Most files of one configuration: includes of includes would otherwise multiply.
pub const MAX_FILES: usize = 1024;
/// Most bytes of one configuration, all files together.
pub const MAX_TOTAL_BYTES: usize = 16 << 20;
/// Most names that one pattern may stand for.
const MAX_MATCHES: usize = 1024;

/// What has been read so far of one configuration.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    files: usize,
    bytes: usize,
}

impl Budget {
    /// Counts one more file.
    ///
    /// # Errors
    /// The sentence for the user when the configuration grows past its limits.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.files > MAX_FILES {
            return Err(format!("more than {MAX_FILES} configuration files"));
        }
        if self.bytes > MAX_TOTAL_BYTES {
            return Err("configuration files are larger than 16 MiB in all".to_owned());
        }
        Ok(())
    }
}

/// The files that an absolute pattern names, sorted. A pattern without wildcards names itself when it exists.
#[must_use]
pub fn expand(pattern: &str, files: &dyn Files) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    for component in pattern.split('/').filter(|c| !c.is_empty()) {
        if !component.contains(['*', '?', '[']) {
            for path in &mut found {
                path.push(component);
            }
            continue;
        }
        let mut next = Vec::new();
        for directory in &found {
            let mut names = files.list(directory);
            names.retain(|name| {
                (!name.starts_with('.') || component.starts_with('.'))
                    && matches_component(name.as_bytes(), component.as_bytes())
            });
            names.sort();
            next.extend(names.iter().map(|name| directory.join(name)));
            if next.len() > MAX_MATCHES {
                next.truncate(MAX_MATCHES);
                break;
            }
        }
        found = next;
    }
    found.retain(|path| path != Path::new("/") && files.exists(path));
    found
}

/// glob(7) within one component, without ever backing up past the last star.
fn matches_component(name: &[u8], pattern: &[u8]) -> bool {
    let (mut n, mut p) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (name.get(n), pattern.get(p)) {
            (_, Some(b'*')) => {
                star = Some((n, p + 1));
                p += 1;
                continue;
            }
            (None, None) => return true,
            (Some(byte), Some(b'[')) => {
                match bracket(*byte, pattern.get(p + 1..).unwrap_or_default()) {
                    Some((true, used)) => Some(1 + used),
                    Some((false, _)) => None,
                    None => (*byte == b'[').then_some(1),
                }
            }
            (Some(_), Some(b'?')) => Some(1),
            (Some(a), Some(b)) if a == b => Some(1),
            _ => None,
        };
        match (step, star) {
            (Some(used), _) => {
                n += 1;
                p += used;
            }
            (None, Some((from, after))) if from < name.len() => {
                star = Some((from + 1, after));
                n = from + 1;
                p = after;
            }
            _ => return false,
        }
    }
}

/// Evaluates `…]` against a byte: whether it is inside, and how many bytes the set takes. `None` without a `]`.
fn bracket(byte: u8, set: &[u8]) -> Option<(bool, usize)> {
    let negated = matches!(set.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    // A `]` that stands first is an ordinary member.
    let end = set.iter().skip(start + 1).position(|b| *b == b']')? + start + 1;
    let members = set.get(start..end)?;
    let mut inside = false;
    let mut at = 0;
    while let Some(low) = members.get(at) {
        match (members.get(at + 1), members.get(at + 2)) {
            (Some(b'-'), Some(high)) => {
                inside |= (low..=high).contains(&&byte);
                at += 3;
            }
            _ => {
                inside |= *low == byte;
                at += 1;
            }
        }
    }
    Some((inside != negated, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::MemoryFiles;

    #[test]
    fn components() {
        for (name, pattern, expected) in [
            ("a.conf", "*.conf", true),
            ("a.conf", "*", true),
            ("a.conf", "?.conf", true),
            ("10-x.conf", "[0-9][0-9]-*.conf", true),
            ("x0-x.conf", "[0-9][0-9]-*.conf", false),
            ("b", "[!a]", true),
            ("a", "[!a]", false),
            ("]", "[]]", true),
            ("[", "[", true),
            ("a[b", "a[b", true),
            ("a", "", false),
            ("", "*", true),
        ] {
            assert_eq!(
                matches_component(name.as_bytes(), pattern.as_bytes()),
                expected,
                "{name} {pattern}"
            );
        }
        assert!(!matches_component(
            &[b'a'; 4096],
            format!("{}b", "*a".repeat(1000)).as_bytes()
        ));
    }

    #[test]
    fn patterns_name_sorted_files() {
        let files = MemoryFiles::default()
            .with("/etc/ssh/d/20-b.conf", "")
            .with("/etc/ssh/d/10-a.conf", "")
            .with("/etc/ssh/d/.hidden.conf", "")
            .with("/etc/ssh/e/x.conf", "");
        let names = |pattern| {
            expand(pattern, &files)
                .iter()
                .map(|p| p.to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names("/etc/ssh/d/*.conf"),
            ["/etc/ssh/d/10-a.conf", "/etc/ssh/d/20-b.conf"]
        );
        assert_eq!(names("/etc/ssh/*/x.conf"), ["/etc/ssh/e/x.conf"]);
        assert_eq!(names("/etc/ssh/d/.h*"), ["/etc/ssh/d/.hidden.conf"]);
        assert!(names("/etc/ssh/none").is_empty());
        assert!(names("").is_empty());
    }
}
