//! The names of a program that is started through links.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Most links that are followed, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// The path of a program by the name that it was called by: the name itself if it has a slash, else the first
/// executable file by this name in the directories of PATH.
#[must_use]
pub fn find_program(called: &OsStr) -> Option<PathBuf> {
    let name = Path::new(called);
    // That of an empty name has no parent.
    if name.parent()? != Path::new("") {
        return Some(name.to_owned());
    }
    let directories = std::env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    let paths = std::env::split_paths(&directories).map(|directory| directory.join(name));
    paths.into_iter().find(is_program)
}

/// The path, then what it leads to if it is a link, and so on, at most 40 links. A link that is no longer there is the last.
pub fn link_chain(path: PathBuf) -> impl Iterator<Item = PathBuf> {
    let next = |path: &PathBuf| {
        let target = std::fs::read_link(path).ok()?;
        Some(path.parent()?.join(target))
    };
    std::iter::successors(Some(path), next).take(1 + MAX_LINKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_chain_of_links_is_followed_link_by_link_and_ends() {
        let folder = std::env::temp_dir().join(format!("fulmar-links-{}", crate::process::pid()));
        std::fs::create_dir_all(folder.join("below")).unwrap();
        symlink("../middle", folder.join("below/first")).unwrap();
        symlink(folder.join("program"), folder.join("middle")).unwrap();
        symlink("round", folder.join("round")).unwrap();
        let names = |first: &str| -> Vec<_> {
            link_chain(folder.join(first))
                .map(|path| path.file_name().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names("below/first"), ["first", "middle", "program"]);
        assert_eq!(names("round").len(), 41);
        assert_eq!(link_chain(PathBuf::new()).count(), 1);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_name_with_a_slash_is_a_path_and_another_one_is_in_path() {
        let find = |name: &str| find_program(OsStr::new(name));
        assert_eq!(find("./none"), Some("./none".into()));
        assert_eq!(find("/none"), Some("/none".into()));
        assert!(find("sh").is_some_and(|path| path.is_absolute() && path.ends_with("sh")));
        assert_eq!(find("none-by-this-name"), None);
        assert_eq!(find(""), None);
    }
}
