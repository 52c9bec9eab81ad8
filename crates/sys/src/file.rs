//! File access for configuration and keys: opens regular files only and never blocks (except for
//! [`open_named`]), creates private files with their final mode, replaces files atomically, and checks
//! ownership for `StrictModes`.

use std::ffi::OsString;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::Uid;

/// Limit on the memory that is reserved by a file's reported size; longer files grow the buffer
/// while they are read.
const MAX_RESERVED_BYTES: u64 = 1 << 20;
/// Below this spare capacity the standard library probes for the end of the file in small reads.
const READ_ROOM_BYTES: usize = 64;

/// `O_NOFOLLOW`, for the `custom_flags` of `std::fs::OpenOptions`.
pub const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();
/// `O_NONBLOCK` and `O_NOCTTY`, for the `custom_flags` of `std::fs::OpenOptions`: opening a FIFO or
/// a terminal does not block.
pub const NO_WAIT: i32 = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
/// `O_TMPFILE`, for the `custom_flags` of `std::fs::OpenOptions`: a new file without a name, in the
/// directory that is opened.
pub const UNNAMED: i32 = OFlags::TMPFILE.bits().cast_signed();

/// Whether opening follows a symbolic link in the last component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FollowLinks {
    /// Follow it, as open(2) does by default.
    Follow,
    /// Fail with `ELOOP`.
    Refuse,
}

/// Opens an existing regular file for reading. Does not block on a FIFO and does not read from a
/// device.
///
/// # Errors
/// `InvalidInput` if the file is not regular, else the kernel's error.
pub fn open_regular(path: impl AsRef<Path>, links: FollowLinks) -> io::Result<File> {
    open_regular_known(path, links).map(|(file, _)| file)
}

/// As [`open_regular`]; also returns the metadata of the open file.
///
/// # Errors
/// As [`open_regular`].
pub fn open_regular_known(
    path: impl AsRef<Path>,
    links: FollowLinks,
) -> io::Result<(File, Metadata)> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == FollowLinks::Refuse {
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

/// Opens a file that a person named on a command line. It may be a pipe or a device, as in
/// `ssh-keygen -y -f <(pass show key)` or `ssh-add /dev/stdin`; then opening and reading wait for
/// the data. Not for files whose name or place others choose: a FIFO would stop the program.
///
/// # Errors
/// The kernel's error. A directory opens; reading it fails.
pub fn open_named(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let path = path.as_ref();
    let opened = crate::ffi::retry(|| rustix::fs::open(path, flags, Mode::empty()))?;
    Ok(File::from(opened))
}

/// Reads a whole regular file of at most `max_len` bytes.
///
/// # Errors
/// `InvalidData` if the file is longer, else as [`open_regular`].
pub fn read_bounded(
    path: impl AsRef<Path>,
    max_len: u64,
    links: FollowLinks,
) -> io::Result<Vec<u8>> {
    read_file_bounded(&open_regular(path, links)?, max_len)
}

/// Reads the rest of an open file, at most `max_len` bytes.
///
/// # Errors
/// `InvalidData` if more is left, else the kernel's error.
pub fn read_file_bounded(file: &File, max_len: u64) -> io::Result<Vec<u8>> {
    // Capacity for the whole file and for detecting its end: two reads, and no reallocation that
    // would leave copies of a secret in freed memory.
    let known = file.metadata()?;
    let size = match known.is_file() {
        true => known.len(),
        // A pipe does not tell how much will come.
        false => max_len,
    };
    let size = size.min(max_len).min(MAX_RESERVED_BYTES);
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

/// Creates a file that must not exist yet. It has exactly `mode`, whatever the umask is.
///
/// # Errors
/// `AlreadyExists`, also for a dangling symbolic link; else the kernel's error.
pub fn create_new(path: impl AsRef<Path>, mode: u32) -> io::Result<File> {
    create_with(path.as_ref(), OFlags::RDWR, mode)
}

fn create_with(path: &Path, access: OFlags, mode: u32) -> io::Result<File> {
    let file = create_masked(path, access, mode)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
    Ok(file)
}

/// Creates a file with `mode` less the umask.
fn create_masked(path: &Path, access: OFlags, mode: u32) -> io::Result<File> {
    let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mode = Mode::from_raw_mode(mode & 0o7777);
    Ok(File::from(rustix::fs::open(path, flags, mode)?))
}

/// As [`create_new`], for a file that is only appended to, where the file system has room for `reserved`
/// bytes. Nobody reads or changes its content through the descriptor.
///
/// # Errors
/// As [`create_new`]; `StorageFull` without room, and then there is no file.
pub fn create_log(path: impl AsRef<Path>, mode: u32, reserved: u64) -> io::Result<File> {
    use rustix::io::Errno;
    let path = path.as_ref();
    let file = create_with(path, OFlags::WRONLY | OFlags::APPEND, mode)?;
    let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(&file, flags, 0, reserved) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(file),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(error.into())
        }
    }
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

/// Replaces the content of `path` atomically: writes a new file with `mode` in the same directory,
/// syncs it, renames it to `path` and syncs the directory. A symbolic link is replaced, not
/// followed, and refused if it leads to a device, pipe or socket; a device or pipe is written to
/// instead.
///
/// # Errors
/// The kernel's error; then the old file is unchanged.
pub fn replace(path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
    let path = path.as_ref();
    replace_with(path, bytes, &|path| create_new(path, mode), File::sync_all)?;
    sync_parent(path);
    Ok(())
}

/// The rename itself must survive a crash; some file systems cannot sync directories.
fn sync_parent(path: &Path) {
    if let Ok(directory) = File::open(parent(path)) {
        let _ = directory.sync_all();
    }
}

/// The permissions of a file that [`rewrite`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteMode {
    /// Exactly these, from the first byte.
    Exact(u32),
    /// Those of the file that is there; a new file gets these less the umask.
    Kept(u32),
}

/// Replaces the content of a file that a person named, atomically as [`replace`] does where that has the
/// result that writing to the file would have: a symbolic link stays, and its target is replaced; the
/// file keeps its owner. A device or a pipe (`/dev/stdout`) is written to, and a pipe waits for its
/// reader. A file that may not be written is not replaced either.
///
/// Where only writing to the file has that result, it is written in place: one that has other names,
/// or is mounted by itself, one in a directory that this process may not write, one whose owner it may
/// not give to a new file.
///
/// # Errors
/// The kernel's error; then a file that would have been replaced is unchanged.
pub fn rewrite(path: impl AsRef<Path>, bytes: &[u8], mode: RewriteMode) -> io::Result<()> {
    let path = path.as_ref();
    let mut options = File::options();
    options
        .write(true)
        .custom_flags(OFlags::NOCTTY.bits().cast_signed());
    // The kernel follows a link: in directories such as /tmp it does not follow those of others.
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return match path.is_symlink() {
                true => write_new(options.create(true), path, bytes, mode),
                false => rewrite_target(path, bytes, mode, None),
            };
        }
        opened => opened?,
    };
    let before = file.metadata()?;
    if !before.is_file() {
        return file.write_all(bytes);
    }
    // The file of `/dev/stdout` may be open elsewhere, for what is written next to it.
    let is_descriptor = path.starts_with("/dev") || path.starts_with("/proc");
    let target = match is_descriptor || before.nlink() > 1 {
        true => None,
        false => std::fs::canonicalize(path).ok(),
    };
    let is_same = |found: &Metadata| (found.dev(), found.ino()) == (before.dev(), before.ino());
    let target =
        target.filter(|target| std::fs::symlink_metadata(target).is_ok_and(|f| is_same(&f)));
    let Some(target) = target else {
        return write_in_place(file, bytes, mode);
    };
    match rewrite_target(&target, bytes, mode, Some(&before)) {
        Err(error) if must_be_written_in_place(&error) => write_in_place(file, bytes, mode),
        replaced => replaced,
    }
}

/// Writes the file that a symbolic link names, and that does not exist yet.
fn write_new(
    options: &mut std::fs::OpenOptions,
    path: &Path,
    bytes: &[u8],
    mode: RewriteMode,
) -> io::Result<()> {
    let mut file = match mode {
        RewriteMode::Exact(mode) => {
            let file = options.mode(mode).open(path)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777))?;
            file
        }
        RewriteMode::Kept(mode) => options.mode(mode).open(path)?,
    };
    file.write_all(bytes)?;
    file.sync_all()
}

/// True for errors of replacing a file that may be written: a directory that may not be written, or
/// is mounted read-only; another owner in a directory with the sticky bit; a file that is mounted by
/// itself; no room in the name for that of the new file.
fn must_be_written_in_place(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let errors = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::ROFS,
        Errno::BUSY,
        Errno::XDEV,
        Errno::NAMETOOLONG,
    ];
    let is = |errno: &Errno| error.raw_os_error() == Some(errno.raw_os_error());
    errors.iter().any(is)
}

fn write_in_place(mut file: File, bytes: &[u8], mode: RewriteMode) -> io::Result<()> {
    if let RewriteMode::Exact(mode) = mode {
        // Only the owner may; the others leave the mode as it is, as OpenSSH does.
        let _ = rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o7777));
    }
    file.set_len(0)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Puts a new file in the place of `path`, which was as `before` says.
fn rewrite_target(
    path: &Path,
    bytes: &[u8],
    mode: RewriteMode,
    before: Option<&Metadata>,
) -> io::Result<()> {
    let create = |path: &Path| {
        let file = match (mode, before) {
            (RewriteMode::Exact(mode), _) => create_new(path, mode)?,
            (RewriteMode::Kept(_), Some(before)) => create_new(path, before.mode() & 0o777)?,
            (RewriteMode::Kept(mode), None) => create_masked(path, OFlags::RDWR, mode)?,
        };
        if let Some(before) = before {
            let owner = rustix::fs::Uid::from_raw(before.uid());
            let group = rustix::fs::Gid::from_raw(before.gid());
            // Root keeps a user's file the user's; for others it changes nothing, or is refused.
            if rustix::fs::fchown(&file, Some(owner), Some(group)).is_err() {
                let _ = std::fs::remove_file(path);
                return Err(rustix::io::Errno::PERM.into());
            }
        }
        Ok(file)
    };
    replace_with(path, bytes, &create, File::sync_all)?;
    sync_parent(path);
    Ok(())
}

/// As [`replace`], without syncing: for content that may be lost in a crash.
///
/// # Errors
/// As [`replace`].
pub fn replace_unsynced(path: impl AsRef<Path>, bytes: &[u8], mode: u32) -> io::Result<()> {
    replace_with(path.as_ref(), bytes, &|path| create_new(path, mode), |_| {
        Ok(())
    })
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// True if `path` is a device, a pipe or a socket. Callers write to such a file (`/dev/null`) where
/// they would replace or remove a regular one, because removing it would affect the whole system.
#[must_use]
pub fn is_special(path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| is_special_type(found.file_type()))
}

fn is_special_type(kind: FileType) -> bool {
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

/// True if opening a FIFO for writing failed because no process has it open for reading (`ENXIO`).
#[must_use]
pub fn has_no_reader(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}

/// Opens a device or pipe for writing, without waiting for the reader of a pipe. Returns `None` if
/// `path` is anything else.
///
/// Whoever may write in the directory can put a link to another file, or that file, in the pipe's
/// place at any time. The link is therefore not followed, and the kind of the open file counts: only
/// such a file is written to.
///
/// # Errors
/// The kernel's error.
fn open_special(path: &Path) -> io::Result<Option<File>> {
    use rustix::io::Errno;
    let flags =
        OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::LOOP | Errno::NOENT | Errno::ISDIR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let is_special = is_special_type(file.metadata()?.file_type());
    Ok(is_special.then_some(file))
}

/// Refuses a symbolic link that leads to a device, pipe or socket: replacing `/dev/stdout` would
/// affect the whole system, and the link of somebody else may lead to a disk.
fn refuse_link_to_special(path: &Path) -> io::Result<()> {
    let is_link = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    let leads_to_special =
        || std::fs::metadata(path).is_ok_and(|found| is_special_type(found.file_type()));
    if is_link && leads_to_special() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a symbolic link to a device, pipe or socket",
        ));
    }
    Ok(())
}

fn replace_with(
    path: &Path,
    bytes: &[u8],
    create: &dyn Fn(&Path) -> io::Result<File>,
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    if is_special(path)
        && let Some(mut file) = open_special(path)?
    {
        return file.write_all(bytes);
    }
    refuse_link_to_special(path)?;
    let (temporary, mut file) = create_temporary(parent(path), name, create)?;
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
    create: &dyn Fn(&Path) -> io::Result<File>,
) -> io::Result<(PathBuf, File)> {
    let pid = std::process::id();
    for attempt in 0..100_u32 {
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{pid}-{attempt}"));
        let path = parent.join(hidden);
        match create(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Opens a regular file for appending and creates it with `mode` if needed; symbolic links are
/// followed.
///
/// # Errors
/// `InvalidInput` if the file is not regular, else the kernel's error.
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

/// Returns the range `(begin, end)` of the next data at or after `offset`; `None` if only a hole
/// follows. Moves the position of the file.
///
/// # Errors
/// The kernel's error if the file system does not report holes.
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

/// Takes the exclusive lock of an open file (flock(2)), which is released with its last descriptor.
/// With `wait` false it fails with `WouldBlock` if another process holds the lock.
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

/// Why `StrictModes` refuses a file.
#[derive(Debug)]
pub enum InsecurePath {
    /// The file or directory belongs neither to the user nor to root.
    Owner {
        /// Path of the file or directory.
        path: PathBuf,
        /// Its owner.
        uid: Uid,
    },
    /// The file or directory is writable by its group or by others.
    Mode {
        /// Path of the file or directory.
        path: PathBuf,
        /// Permission bits (`07777`).
        mode: u32,
    },
    /// The file is not regular.
    NotRegular(PathBuf),
    /// The file or a directory above it cannot be examined.
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

/// Checks the rule of `StrictModes` for an open file: the file at `path` and every directory above
/// it, up to `home` (or `/` if the file is not below `home`), belong to `uid` or root and are not
/// writable by group or others.
///
/// The file itself is checked through its descriptor, so that the checked file is the one that is
/// read.
///
/// # Errors
/// [`InsecurePath`] for the first component that breaks the rule.
pub fn secure_path(file: &File, path: &Path, home: &Path, uid: Uid) -> Result<(), InsecurePath> {
    let real = std::fs::canonicalize(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(InsecurePath::NotRegular(real));
    }
    check_owner_and_mode(&real, &metadata, uid)?;
    secure_directories_above(&real, home, uid)
}

/// Checks the rule of [`secure_path`] for the directories above `real` only; `real` need not be
/// open.
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

/// Checks the rule for `ChrootDirectory`: the directory and every directory above it belong to root
/// and are not writable by group or others.
///
/// # Errors
/// As [`secure_path`].
pub fn secure_chroot(directory: &Path) -> Result<(), InsecurePath> {
    secure_root(directory, 0)
}

/// As [`secure_chroot`], but the directories may also belong to `owner`.
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
    // Walks the path component by component, as the kernel does at login.
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

/// True if another user may have written the file: it belongs neither to the effective user nor to
/// root, or its mode lets group or others write.
///
/// # Errors
/// The kernel's error.
pub fn others_may_write(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    let trusted = owner == rustix::process::geteuid().as_raw() || owner == 0;
    Ok(!trusted || metadata.mode() & 0o022 != 0)
}

/// Checks the rule for private keys: a key file of the current user is not accessible to group or
/// others. Returns the permission bits if it is.
///
/// # Errors
/// The kernel's error.
pub fn too_open_for_a_key(file: &File) -> io::Result<Option<u32>> {
    let metadata = file.metadata()?;
    let mode = metadata.mode() & 0o777;
    let ours = metadata.uid() == rustix::process::getuid().as_raw();
    Ok((ours && mode & 0o077 != 0).then_some(mode))
}

/// Checks that this process may make files in a directory.
///
/// # Errors
/// The kernel's: a directory that is not there, a file system that is read-only.
pub fn is_writable(directory: impl AsRef<Path>) -> io::Result<()> {
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    Ok(rustix::fs::access(directory.as_ref(), access)?)
}

/// Opens a directory for `…at` calls or `fchdir`.
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
