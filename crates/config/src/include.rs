//! `Include`: the files that a pattern matches, and the limits on the whole configuration.
//!
//! A pattern matches within a path component ([`crate::glob`]). Matches are sorted, as with
//! glob(3).

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::environment::{Files, MAX_NAMES};
use crate::glob::Pattern;

/// Deepest nesting of included files.
pub const MAX_DEPTH: usize = 16;
/// Most files of one configuration: nested includes would otherwise multiply.
pub const MAX_FILES: usize = 1024;
/// Most bytes of one configuration, all files together.
pub const MAX_TOTAL_BYTES: usize = 16 << 20;
/// Most names that one pattern may match.
const MAX_MATCHES: usize = 1024;

/// Counts the files and bytes of one configuration.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    files: usize,
    bytes: usize,
}

impl Budget {
    /// Counts one more file.
    ///
    /// # Errors
    /// The error text if the configuration exceeds its limits.
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
///
/// # Errors
/// The sentence for the user where a class is unknown or they are too many: whatever is left out may restrict.
pub fn expand(pattern: &str, files: &dyn Files) -> Result<Vec<PathBuf>, String> {
    let mut found = vec![PathBuf::from("/")];
    for component in pattern.split('/').filter(|c| !c.is_empty()) {
        let component = Pattern::read(component)
            .ok_or_else(|| format!("no pattern: {}", escape::one_line(component)))?;
        if let Some(name) = component.name() {
            let name = OsString::from_vec(name);
            for path in &mut found {
                path.push(&name);
            }
            continue;
        }
        let mut next = Vec::new();
        for directory in &found {
            let mut names = files.list(directory);
            if names.len() > MAX_NAMES {
                let directory = directory.display();
                return Err(format!("{directory}: more than {MAX_NAMES} names"));
            }
            names.retain(|name| component.matches(name.as_bytes()));
            names.sort();
            next.extend(names.iter().map(|name| directory.join(name)));
            if next.len() > MAX_MATCHES {
                return Err(format!("more than {MAX_MATCHES} names for one pattern"));
            }
        }
        found = next;
    }
    found.retain(|path| path != Path::new("/") && files.exists(path));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{MemoryFiles, SystemFiles};

    #[test]
    fn patterns_name_sorted_files() {
        let files = MemoryFiles::default()
            .with("/etc/ssh/d/20-b.conf", "")
            .with("/etc/ssh/d/10-a.conf", "")
            .with("/etc/ssh/d/.hidden.conf", "")
            .with("/etc/ssh/e/x.conf", "");
        let names = |pattern| {
            expand(pattern, &files)
                .unwrap()
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
        assert_eq!(
            names("/etc/ssh/d/[[:digit:]]0-a.c\\onf"),
            ["/etc/ssh/d/10-a.conf"]
        );
        assert_eq!(names("/etc/s\\sh/e/x.conf"), ["/etc/ssh/e/x.conf"]);
        for bad in ["[[:none:]]*", "x[[:alpha:]"] {
            assert!(expand(&format!("/etc/ssh/d/{bad}"), &files).is_err());
        }
    }

    /// Names that are no UTF-8 are files as well.
    #[test]
    fn no_file_is_left_out_in_silence() {
        let name = OsString::from_vec(b"/d/caf\xe9.conf".to_vec());
        let mut files = MemoryFiles::default().with(PathBuf::from(&name), "");
        assert_eq!(expand("/d/*.conf", &files), Ok(vec![PathBuf::from(name)]));
        for number in 0..MAX_MATCHES {
            files = files.with(format!("/d/{number}/x"), "");
        }
        assert!(expand("/d/*/y", &files).is_err());
    }

    #[test]
    fn a_full_directory_is_an_error_and_fills_no_memory() {
        let directory = std::env::temp_dir().join(format!("config-names-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        for number in 0..MAX_NAMES + 10 {
            std::fs::write(directory.join(number.to_string()), "").unwrap();
        }
        let files = SystemFiles::default();
        let listed = files.list(&directory).len();
        let found = expand(&format!("{}/1", directory.display()), &files);
        let refused = expand(&format!("{}/none*", directory.display()), &files);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(listed, MAX_NAMES + 1);
        assert_eq!(found.unwrap().len(), 1);
        assert!(refused.unwrap_err().contains("more than"));
    }
}
