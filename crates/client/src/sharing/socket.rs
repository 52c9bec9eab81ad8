//! The socket of a master at `ControlPath`.
//!
//! It gets its name when it listens already, so that nobody meets a socket that refuses; of two
//! processes that start at once, one gets the name. A left-over socket is removed under a lock of
//! its directory, so that no living one is removed in its place.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sys::socket::SocketFile;

use crate::connect::plain_reason;
use crate::error::ClientError;
use crate::log::{debug1, error};
use crate::text::one_line;

/// Size of the name of a socket in its address, bytes, with the byte that ends it.
const ADDRESS_BYTES: usize = 108;
/// Passengers that wait to be accepted.
const QUEUE: i32 = 128;
/// Nobody else may connect.
const MASK: u32 = 0o177;
/// Attempts to lock a directory, and the pause after each: half a second in all.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Length of the random part of a temporary name.
const RANDOM_CHARACTERS: usize = 16;

/// Refuses a path that is no socket's address.
pub(crate) fn check_length(path: &str) -> Result<(), ClientError> {
    match path.len() >= ADDRESS_BYTES {
        true => Err(ClientError::Refused(format!(
            "ControlPath too long ('{}' >= {ADDRESS_BYTES} bytes)",
            one_line(path)
        ))),
        false => Ok(()),
    }
}

/// The directory of `path`, and the name in it.
fn split(path: &Path) -> io::Result<(OwnedFd, &std::ffi::OsStr)> {
    let name = path.file_name();
    let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    Ok((sys::file::open_directory(directory)?, name))
}

/// Locks a directory, for [`LOCK_TRIES`] at most: every user who may read it (that of `/tmp`) can
/// hold the lock for ever. Without it, as on some network file systems too, the worst is a master
/// without a name.
fn lock(directory: &OwnedFd) {
    for _ in 0..LOCK_TRIES {
        match sys::file::lock(directory, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(LOCK_PAUSE);
            }
            _ => return,
        }
    }
}

/// Removes the socket at `path` if nobody listens there and this user owns it.
pub(super) fn remove_stale(path: &Path) {
    let removed = split(path).and_then(|(directory, _)| {
        lock(&directory);
        match sys::socket::is_abandoned(path) {
            true => sys::socket::unlink_own_socket(path),
            false => Ok(false),
        }
    });
    if let Err(reason) = removed {
        debug1!("removing {}: {}", path.display(), plain_reason(&reason));
    }
}

/// A listening socket with its name.
#[derive(Debug)]
pub(super) struct MasterSocket {
    fd: OwnedFd,
    /// `None` once the name is left to another process.
    file: Option<SocketFile>,
}

impl MasterSocket {
    /// Listens at `path`; `None`, which is logged, if something has that name.
    pub(super) fn listen(path: &str) -> Result<Option<Self>, ClientError> {
        check_length(path)?;
        let shown = one_line(path);
        let failed = |reason: io::Error| {
            ClientError::Refused(format!(
                "unix_listener: cannot bind to path {shown}: {}",
                plain_reason(&reason)
            ))
        };
        let path = Path::new(path);
        let (directory, name) = split(path).map_err(failed)?;
        let temporary = temporary(&directory, name);
        let fd = sys::socket::listen_unix(&temporary, QUEUE, MASK).map_err(failed)?;
        let linked = fs::hard_link(&temporary, path)
            .or_else(|reason| match reason.kind() {
                // Perhaps of a master that is gone.
                io::ErrorKind::AlreadyExists => {
                    remove_stale(path);
                    fs::hard_link(&temporary, path)
                }
                _ => Err(reason),
            })
            .and_then(|()| fs::symlink_metadata(&temporary));
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(file) => Ok(Some(Self {
                fd,
                file: Some(SocketFile::new(path, &file)),
            })),
            Err(reason) if reason.kind() == io::ErrorKind::AlreadyExists => {
                error!("ControlSocket {shown} already exists, disabling multiplexing");
                Ok(None)
            }
            Err(reason) => Err(failed(reason)),
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(SocketFile::path)
    }

    /// Closes the socket and leaves its name to another process that has it.
    pub(super) fn abandon(mut self) {
        self.file = None;
    }

    /// Removes the name, if it is still this socket's.
    pub(super) fn remove_name(&self) {
        if let Some(file) = &self.file {
            file.remove();
        }
    }
}

impl Drop for MasterSocket {
    fn drop(&mut self) {
        self.remove_name();
    }
}

impl AsFd for MasterSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A name in the directory that nobody has. The directory is named by its descriptor, because a
/// socket's address is short.
fn temporary(directory: &OwnedFd, name: &std::ffi::OsStr) -> PathBuf {
    let mut random = [0; RANDOM_CHARACTERS];
    crypto::random::fill(&mut random);
    let letters: String = random
        .iter()
        .map(|byte| char::from(b'a' + byte % 26))
        .collect();
    let start: String = name
        .to_string_lossy()
        .chars()
        .take(RANDOM_CHARACTERS)
        .collect();
    PathBuf::from(format!(
        "/proc/self/fd/{}/{start}.{letters}",
        directory.as_raw_fd()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_another_process_has_locked_stops_nobody() {
        let folder = std::env::temp_dir().join(format!("fulmar-stale-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("socket");
        drop(sys::socket::listen_unix(&path, 1, MASK).unwrap());
        let theirs = sys::file::open_directory(&folder).unwrap();
        sys::file::lock(&theirs, true).unwrap();
        remove_stale(&path);
        assert!(!path.exists());
        fs::remove_dir(&folder).unwrap();
    }
}
