//! Local part files: created with `O_EXCL` and locked while they are written, so that two copies
//! never share one. A part file that a copy left is continued only if it is a regular file of the
//! same user with one name, and nobody writes it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::part::PartNames;

/// Random names that are tried before the copy gives up.
const MAX_TRIES: usize = 16;

/// An open part file.
pub(super) struct Part {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// True if a later copy of the same source looks for this name.
    pub(super) is_findable: bool,
    /// True if an earlier copy created it, with its own mode.
    pub(super) is_left: bool,
}

/// Opens the part file of `target` for reading and writing: a new one with `mode`, or that of an
/// earlier copy.
///
/// # Errors
/// The system's.
pub(super) fn open(target: &Path, names: &PartNames, mode: u32) -> io::Result<Part> {
    let beside = |name: &[u8]| target.with_file_name(OsStr::from_bytes(name));
    let path = beside(&names.first());
    let (first, is_left) = match make(&path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (open_left(&path)?, true),
        made => (Some(made?), false),
    };
    // Another copy may have locked it between its creation and our lock.
    if let Some(file) = first.filter(|file| is_ours_alone(file, &path)) {
        return Ok(Part {
            file,
            path,
            is_findable: true,
            is_left,
        });
    }
    let mut tries = 0;
    loop {
        let path = beside(&names.another());
        match make(&path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => {
                tries += 1;
            }
            made => {
                let file = made?;
                return Ok(Part {
                    file,
                    path,
                    is_findable: false,
                    is_left: false,
                });
            }
        }
    }
}

fn make(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
}

/// Opens a part file that a copy left, without locking it; `None` if it is anything else.
fn open_left(path: &Path) -> io::Result<Option<File>> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(sys::file::NO_FOLLOW | sys::file::NO_WAIT)
        .open(path);
    let Ok(file) = opened else {
        return Ok(None);
    };
    let there = file.metadata()?;
    let fits =
        there.is_file() && there.uid() == sys::process::effective_uid() && there.nlink() == 1;
    Ok(fits.then_some(file))
}

/// Locks the file; false if another process has the lock, or had it and has renamed the file since
/// we opened or created it: then the file is that copy's target. On a file system without locks no
/// other copy can be detected, and the result is true.
fn is_ours_alone(file: &File, path: &Path) -> bool {
    match sys::file::lock(file, false) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
        _ => {}
    }
    let named = std::fs::symlink_metadata(path);
    let is_same = |there: std::fs::Metadata| {
        named.is_ok_and(|named| (named.dev(), named.ino()) == (there.dev(), there.ino()))
    };
    file.metadata().is_ok_and(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_part_that_another_copy_has_locked_and_renamed_meanwhile_is_not_ours() {
        let scratch = Scratch::new();
        let (path, target) = (scratch.join("part"), scratch.join("target"));
        let ours = make(&path, 0o600).unwrap();
        {
            let theirs = open_left(&path).unwrap().unwrap();
            assert!(is_ours_alone(&theirs, &path));
            assert!(!is_ours_alone(&ours, &path));
            std::fs::rename(&path, &target).unwrap();
        }
        assert!(!is_ours_alone(&ours, &path));
        // The same if a third copy has a part file of that name.
        let third = make(&path, 0o600).unwrap();
        assert!(!is_ours_alone(&ours, &path));
        assert!(is_ours_alone(&third, &path));
    }
}
