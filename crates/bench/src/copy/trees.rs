//! Trees of small files: made, compared and taken away.

use std::fs;
use std::io;
use std::path::Path;

use crate::demo::stream;

/// Files in a directory, and bytes of each.
const FILES_EACH: usize = 100;
pub(super) const SMALL_BYTES: u64 = 4096;
/// The directory of [`few`], below the tree.
const FEW: &str = "few";

/// Makes `count` files in directories.
pub(super) fn many(parent: &Path, count: usize) -> io::Result<()> {
    let mut number = 0_u64;
    let mut left = count;
    let mut directory = 0;
    while left > 0 {
        let name = match directory {
            0 => FEW.to_owned(),
            directory => format!("{directory:03}"),
        };
        // The directory for copies in which each file costs round trips.
        let most = match directory {
            0 => super::PEERS_FILES,
            _ => FILES_EACH,
        };
        directory += 1;
        let path = parent.join(name);
        fs::create_dir_all(&path)?;
        for file in 0..most.min(left) {
            let mut text = Vec::new();
            stream::source(&mut text, SMALL_BYTES)?;
            number += 1;
            text.splice(..8, number.to_le_bytes());
            fs::write(path.join(format!("{file:03}")), text)?;
        }
        left -= most.min(left);
    }
    Ok(())
}

/// A directory of few of them.
pub(super) fn few(parent: &Path) -> std::path::PathBuf {
    parent.join(FEW)
}

/// Takes a file or a directory away, if there is one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    }
}

/// Whether two directories hold the same files.
pub(super) fn same(one: &Path, other: &Path) -> io::Result<bool> {
    let mut count = 0;
    for entry in fs::read_dir(one)? {
        let entry = entry?;
        let beside = other.join(entry.file_name());
        let equal = match entry.file_type()?.is_dir() {
            true => beside.is_dir() && same(&entry.path(), &beside)?,
            false => beside.is_file() && fs::read(entry.path())? == fs::read(beside)?,
        };
        if !equal {
            return Ok(false);
        }
        count += 1;
    }
    Ok(fs::read_dir(other)?.count() == count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::TransferFiles;

    #[test]
    fn a_tree_that_lacks_a_file_or_has_another_is_not_the_same() {
        let files = TransferFiles::new().unwrap();
        for path in [files.sent(), files.arrived()] {
            fs::create_dir_all(path.join("a")).unwrap();
            fs::write(path.join("a/x"), "x").unwrap();
            fs::write(path.join("y"), "y").unwrap();
        }
        let same = || same(&files.sent(), &files.arrived()).unwrap();
        assert!(same());
        fs::write(files.arrived().join("a/x"), "z").unwrap();
        assert!(!same());
        fs::write(files.arrived().join("a/x"), "x").unwrap();
        fs::write(files.arrived().join("more"), "").unwrap();
        assert!(!same());
        fs::remove_file(files.arrived().join("more")).unwrap();
        fs::remove_file(files.arrived().join("y")).unwrap();
        assert!(!same());
    }

    #[test]
    fn there_are_as_many_files_as_asked_for() {
        for count in [3, super::super::PEERS_FILES + FILES_EACH + 7] {
            let files = TransferFiles::new().unwrap();
            many(&files.sent(), count).unwrap();
            let found: usize = fs::read_dir(files.sent())
                .unwrap()
                .map(|directory| fs::read_dir(directory.unwrap().path()).unwrap().count())
                .sum();
            assert_eq!(found, count);
            let few = fs::read_dir(few(&files.sent())).unwrap().count();
            assert_eq!(few, count.min(super::super::PEERS_FILES));
        }
    }
}
