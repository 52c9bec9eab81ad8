//! The directories of a case on disk: created, inspected and removed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use interop::scratch::Scratch;

use super::case::{Case, Entry, Piece, What};

/// Earlier times were set by the case; later ones are times of changes.
const NOW: i64 = 1_500_000_000;

/// The content of the directories: path to description.
pub(crate) type Tree = BTreeMap<String, String>;

/// The directories of a case.
pub(crate) struct Place(Scratch);

impl Place {
    /// Creates the objects of the case.
    pub(crate) fn new(case: &Case) -> Self {
        let place = Self(Scratch::new());
        for folder in ["from", "into"] {
            fs::create_dir(place.folder().join(folder)).expect("a folder");
        }
        let entries: Vec<&Entry> = case
            .pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::Entry(entry) => Some(entry),
                _ => None,
            })
            .collect();
        let mut made = Vec::new();
        for entry in entries {
            let path = place.path(&entry.path);
            // Its directory may have been removed from the case, or may be a file there.
            if path.parent().is_some_and(Path::is_dir)
                && fs::symlink_metadata(&path).is_err()
                && make(&path, &entry.what)
            {
                made.push((path, entry));
            }
        }
        // The content first: a directory's time and mode are set last.
        for (path, entry) in made.iter().rev() {
            if matches!(entry.what, What::Link(_)) {
                continue;
            }
            if let What::File(_) | What::Sparse | What::Folder = entry.what {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.time);
                let times = FileTimes::new().set_modified(time).set_accessed(time);
                File::open(path)
                    .and_then(|file| file.set_times(times))
                    .expect("its time");
            }
            fs::set_permissions(path, Permissions::from_mode(entry.mode)).expect("its mode");
        }
        place
    }

    /// Where it is.
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// A name in it.
    pub(crate) fn path(&self, name: &[u8]) -> PathBuf {
        self.folder().join(OsStr::from_bytes(name))
    }

    /// Everything below it. Unreadable directories and files are made readable, which changes modes
    /// that were inspected before.
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut left = vec![self.folder().to_owned()];
        while let Some(folder) = left.pop() {
            let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = path
                    .strip_prefix(self.folder())
                    .unwrap_or(&path)
                    .as_os_str();
                let Ok(metadata) = fs::symlink_metadata(&path) else {
                    continue;
                };
                tree.insert(
                    name.as_bytes().escape_ascii().to_string(),
                    said(&path, &metadata),
                );
                if metadata.is_dir() {
                    left.push(path);
                }
            }
        }
        tree
    }
}

impl Drop for Place {
    /// Makes read-only directories writable, because they are removed with the scratch directory.
    fn drop(&mut self) {
        let _ = self.tree();
    }
}

fn make(path: &Path, what: &What) -> bool {
    match what {
        What::File(size) => {
            let letters = b"abcdefghijklmnopqrstuvwxyz0123456789\n".iter().cycle();
            let bytes: Vec<u8> = letters.copied().take(*size).collect();
            fs::write(path, bytes).is_ok()
        }
        What::Sparse => {
            let mut file = File::create(path).expect("a file");
            file.write_all(b"a").expect("its start");
            file.seek(SeekFrom::Start(1 << 20)).expect("its hole");
            file.write_all(b"z").is_ok()
        }
        What::Folder => fs::create_dir(path).is_ok(),
        What::Link(to) => symlink(to, path).is_ok(),
        What::Fifo => run(Command::new("mkfifo").arg("--").arg(path)),
        What::Null => run(Command::new("mknod")
            .arg("--")
            .arg(path)
            .args(["c", "1", "3"])),
    }
}

fn run(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

fn said(path: &Path, metadata: &fs::Metadata) -> String {
    let kind = metadata.file_type();
    let mode = metadata.mode() & 0o7777;
    let time = match metadata.mtime() {
        given if given < NOW => format!(" of {given}"),
        _ => String::new(),
    };
    if kind.is_symlink() {
        let to = fs::read_link(path).unwrap_or_default();
        return format!("link to {}", to.as_os_str().as_bytes().escape_ascii());
    }
    if kind.is_dir() {
        return format!("folder {mode:o}{time}");
    }
    if kind.is_fifo() {
        return format!("fifo {mode:o}");
    }
    if kind.is_char_device() {
        return format!("device {mode:o}");
    }
    let _ = fs::set_permissions(path, Permissions::from_mode(0o600));
    let bytes = fs::read(path).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!(
        "file {mode:o}{time} {} bytes {:016x}",
        bytes.len(),
        hasher.finish()
    )
}
