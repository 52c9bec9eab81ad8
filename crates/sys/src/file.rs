//! Files opened with care: regular ones only and never blocking, new ones private
//! from their first byte, replaced whole or not at all; and the ownership rule of
//! `StrictModes`.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::Uid;

/// Most bytes that are reserved on the word of a file's size; what is longer grows as it is read.
const MAX_RESERVED_BYTES: u64 = 1 << 20;
/// Spare room below which the standard library reads in small steps to find the end.
const READ_ROOM_BYTES: usize = 64;

/// `O_NOFOLLOW`, for the standard library's `custom_flags`.
pub const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();
/// `O_NONBLOCK` and `O_NOCTTY`, for the standard library's `custom_flags`: opening a FIFO or a
/// terminal waits for nobody.
pub const NO_WAIT: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();

/// Whether a symbolic link as the last component is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Yes, as open(2) does.
    Follow,
    /// No: it is an error (`ELOOP`).
    Refuse,
}

/// Opens an existing regular file for reading. A FIFO does not block, a device is
/// not touched beyond the open.
///
/// # Errors
/// `InvalidInput` for anything but a regular file, else the kernel's error.
pub fn open_regular(path: impl AsRef<Path>, links: Links) -> io::Result<File> {
    open_regular_known(path, links).map(|(file, _)| file)
}

/// [`open_regular`], and what is known of the file.
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_known(path: impl AsRef<Path>, links: Links) -> io::Result<(File, Metadata)> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let fd = rustix::fs::open(path.as_ref(), flags, Mode::empty())?;
    let file = File::from(fd);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok((file, metadata))
}

/// Reads a whole regular file of at most `max_len` bytes.
///
/// # Errors
/// `InvalidData` when it is longer, else as [`open_regular`].
pub fn read_bounded(path: impl AsRef<Path>, max_len: u64, links: Links) -> io::Result<Vec<u8>> {
    read_file_bounded(&open_regular(path, links)?, max_len)
}

/// Reads the rest of an open file, at most `max_len` bytes.
///
/// # Errors
/// `InvalidData` when there is more, else the kernel's error.
pub fn read_file_bounded(file: &File, max_len: u64) -> io::Result<Vec<u8>> {
    // Room for all of it and for seeing the end: two reads, and no copies of a secret left
    // behind by growing.
    let size = file.metadata()?.len().min(max_len).min(MAX_RESERVED_BYTES);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + READ_ROOM_BYTES);
    let mut limited = file.take(max_len.saturating_add(1));
    limited.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_len {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "file is longer than allowed",
        ));
    }
    Ok(bytes)
}

/// Creates a file that must not exist yet, with `mode` from its first byte
/// whatever the umask adds (it can only take away, which is undone).
///
/// # Errors
/// `AlreadyExists`, also for a dangling symbolic link; else the kernel's error.
pub fn create_new(path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(mode & 0o7777);
    let file = File::from(rustix::fs::open(path.as_ref(), flags, mode)?);
    rustix::fs::fchmod(&file, mode)?;
    Ok(file)
}

/// Writes a new private file (0600), synced to disk; removes it again on failure.
///
/// # Errors
/// As [`create_new`].
pub fn write_private(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    let mut file = create_new(path, 0o600)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Replaces the contents of `path` at once: a new file beside it with `mode`,
/// synced, renamed over it, the directory synced. Readers see the old or the new
/// contents whole. A symbolic link is replaced, not followed; a device is written to.
///
/// # Errors
/// The kernel's error; the old file is untouched then.
pub fn replace(path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
    let path = path.as_ref();
    put_in_place(path, bytes, mode, File::sync_all)?;
    // The rename itself must survive a crash; some file systems cannot sync directories.
    if let Ok(directory) = File::open(parent(path)) {
        let _ = directory.sync_all();
    }
    Ok(())
}

/// As [`replace`] without waiting for the disk: for what may be lost in a crash.
///
/// # Errors
/// As [`replace`].
pub fn replace_unsynced(path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
    put_in_place(path.as_ref(), bytes, mode, |_| Ok(()))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether a name is a device, a pipe or a socket: `/dev/null` is written to where a file would be
/// replaced or removed, which takes it from everybody.
#[must_use]
pub fn is_special(path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| {
        let kind = found.file_type();
        !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
    })
}

/// Whether a FIFO was not opened for writing because nobody has it open for reading (`ENXIO`).
#[must_use]
pub fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// Writes to what [`is_special`] names, and waits for no reader of a pipe.
///
/// # Errors
/// The kernel's error.
fn write_special(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    File::options()
        .write(true)
        .custom_flags(NO_WAIT)
        .open(path)?
        .write_all(bytes)
}

fn put_in_place(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    if is_special(path) {
        return write_special(path, bytes);
    }
    let (temporary, mut file) = create_temporary(parent(path), name, mode)?;
    let done = file
        .write_all(bytes)
        .and_then(|()| sync(&file))
        .and_then(|()| std::fs::rename(&temporary, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    done
}

fn create_temporary(
    parent: &Path,
    name: &std::ffi::OsStr,
    mode: u32,
) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    for attempt in 0..100_u32 {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{pid}-{attempt}"));
        let path = parent.join(hidden);
        match create_new(&path, mode) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Opens a file to append to, creating it with `mode`; links are followed, and regular files only
/// are taken.
///
/// # Errors
/// `InvalidInput` for anything but a regular file, else the kernel's error.
pub fn open_append(path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::CLOEXEC
        | OFlags::NONBLOCK
        | OFlags::NOCTTY;
    let mode = Mode::from_raw_mode(mode & 0o7777);
    let file = File::from(rustix::fs::open(path.as_ref(), flags, mode)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

/// The next data at or behind `offset`, as `(begin, end)`; none when only a hole follows. The
/// file's own position moves.
///
/// # Errors
/// The kernel's error, where the file system knows no holes.
pub fn next_data(file: impl AsFd, offset: u64) -> io::Result<Option<(u64, u64)>> {
    use rustix::fs::SeekFrom;
    let file = file.as_fd();
    let begin = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(begin) => begin,
        Err(rustix::io::Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, SeekFrom::Hole(begin))?;
    Ok(Some((begin, end)))
}

/// Takes the exclusive lock of an open file (flock(2)); it goes with the last
/// descriptor. With `wait` false, `WouldBlock` when another process has it.
///
/// # Errors
/// The kernel's error.
pub fn lock(file: impl AsFd, wait: bool) -> io::Result<()> {
    let file = file.as_fd();
    let operation = if wait {
        FlockOperation::LockExclusive
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    crate::ffi::retry(|| rustix::fs::flock(file, operation))
}

/// `~` and `~/x` with the home directory put in; other paths unchanged. `~name` is
/// not expanded.
#[must_use]
pub fn expand_home(path: &str, home: &Path) -> PathBuf {
    if path == "~" {
        return home.to_path_buf();
    }
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest.trim_start_matches('/')),
        None => PathBuf::from(path),
    }
}

/// Why `StrictModes` refuses a file.
#[derive(Debug)]
pub enum InsecurePath {
    /// The file or directory belongs to somebody else than the user or root.
    Owner {
        /// Which one.
        path: PathBuf,
        /// Whose it is.
        uid: Uid,
    },
    /// The file or directory can be written by its group or by everybody.
    Mode {
        /// Which one.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a regular one.
    NotRegular(PathBuf),
    /// It cannot be examined.
    Io(io::Error),
}

impl std::fmt::Display for InsecurePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner { path, uid } => {
                write!(f, "bad ownership of {}: uid {uid}", path.display())
            }
            Self::Mode { path, mode } => write!(
                f,
                "bad modes of {}: {mode:04o} lets others write it (chmod go-w)",
                path.display()
            ),
            Self::NotRegular(path) => write!(f, "{} is not a regular file", path.display()),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for InsecurePath {}

impl From<io::Error> for InsecurePath {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The rule of `StrictModes` for an open file that was named by `path`: the file and
/// every directory above it, up to `home` (or `/` when it is not below `home`),
/// belong to `uid` or root and are writable by nobody else.
///
/// The file is judged through the descriptor, so what is read is what was judged.
///
/// # Errors
/// [`InsecurePath`]: the first component that breaks the rule.
pub fn secure_path(file: &File, path: &Path, home: &Path, uid: Uid) -> Result<(), InsecurePath> {
    let real = std::fs::canonicalize(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(InsecurePath::NotRegular(real));
    }
    check_owner_and_mode(&real, &metadata, uid)?;
    secure_directories_above(&real, home, uid)
}

/// The same rule for the directories above a path that need not be open.
///
/// # Errors
/// As [`secure_path`].
pub fn secure_directories_above(real: &Path, home: &Path, uid: Uid) -> Result<(), InsecurePath> {
    let home = std::fs::canonicalize(home).ok();
    for directory in real.ancestors().skip(1) {
        if directory.as_os_str().as_bytes().is_empty() {
            break;
        }
        check_owner_and_mode(directory, &std::fs::symlink_metadata(directory)?, uid)?;
        if home.as_deref() == Some(directory) {
            break;
        }
    }
    Ok(())
}

/// The rule for `ChrootDirectory`: it and every directory above it belong to root
/// and are writable by nobody else.
///
/// # Errors
/// As [`secure_path`].
pub fn secure_chroot(directory: &Path) -> Result<(), InsecurePath> {
    secure_root(directory, 0)
}

/// The rule of [`secure_chroot`] with a second owner: `directory` and every directory above it
/// belong to root or `owner` and are writable by nobody else.
///
/// # Errors
/// As [`secure_path`].
pub fn secure_root(directory: &Path, owner: Uid) -> Result<(), InsecurePath> {
    let metadata = std::fs::metadata(directory)?;
    if !directory.is_absolute() || !metadata.is_dir() {
        return Err(InsecurePath::Io(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not an absolute path to a directory",
        )));
    }
    // As named, component by component, as the kernel will walk it at login.
    let mut walked = PathBuf::new();
    for component in directory.components() {
        walked.push(component);
        check_owner_and_mode(&walked, &std::fs::metadata(&walked)?, owner)?;
    }
    Ok(())
}

fn check_owner_and_mode(
    path: &Path,
    metadata: &std::fs::Metadata,
    uid: Uid,
) -> Result<(), InsecurePath> {
    if metadata.uid() != uid && metadata.uid() != 0 {
        return Err(InsecurePath::Owner {
            path: path.to_path_buf(),
            uid: metadata.uid(),
        });
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(InsecurePath::Mode {
            path: path.to_path_buf(),
            mode: metadata.mode() & 0o7777,
        });
    }
    Ok(())
}

/// Whether somebody else may have written an open file: it belongs neither to us nor to root, or
/// its mode lets others write.
///
/// # Errors
/// The kernel's error.
pub fn others_may_write(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    let trusted = owner == rustix::process::geteuid().as_raw() || owner == 0;
    Ok(!trusted || metadata.mode() & 0o022 != 0)
}

/// The rule for private keys: not readable by group or others when it is ours.
/// Returns the permission bits when they are too open.
///
/// # Errors
/// The kernel's error.
pub fn too_open_for_a_key(file: &File) -> io::Result<Option<u32>> {
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    let ours = metadata.uid() == rustix::process::getuid().as_raw();
    Ok((ours && mode & 0o077 != 0).then_some(mode))
}

/// Opens a directory as a place for later `…at` calls or `fchdir`.
///
/// # Errors
/// The kernel's error.
pub fn open_directory(path: impl AsRef<Path>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.as_ref(), flags, Mode::empty())?)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
