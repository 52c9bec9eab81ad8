//! ChrootDirectory: entered as root, before the change of user, and only if nobody but root could
//! have changed any component of the path (sshd_config(5)).

use std::fmt;
use std::path::{Path, PathBuf};

use sys::file::InsecurePath;

/// Why a chroot directory is refused.
#[derive(Debug)]
pub(super) struct ChrootError {
    path: PathBuf,
    why: InsecurePath,
}

impl fmt::Display for ChrootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bad ownership or modes for chroot directory \"{}\": {}",
            self.path.display(),
            self.why
        )
    }
}

impl std::error::Error for ChrootError {}

/// Checks every component of `path` and makes it the root directory of this process.
pub(super) fn enter(path: &Path) -> Result<(), ChrootError> {
    let failed = |why| ChrootError {
        path: path.to_owned(),
        why,
    };
    sys::file::secure_chroot(path).map_err(failed)?;
    let entered = std::env::set_current_dir(path)
        .and_then(|()| std::os::unix::fs::chroot(path))
        .and_then(|()| std::env::set_current_dir("/"));
    entered.map_err(|error| failed(InsecurePath::Io(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_others_could_have_changed_is_not_entered() {
        // If the checks failed, entering one of these would change this process's root.
        for path in ["/tmp", "/tmp/.", "usr", "/etc/passwd", "/nonexistent/x"] {
            let error = enter(Path::new(path)).unwrap_err();
            assert!(error.to_string().contains("chroot directory"), "{error}");
        }
    }
}
