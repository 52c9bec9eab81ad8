//! Local files that are read and sent.

pub use sftp::hash;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use sftp::{ExactTimes, Timestamp};
use sys::file::{FollowLinks, open_regular_known};
use sys::fs::Directory;

/// Number of bytes per read of a file of unknown length.
const READ_STEP_BYTES: usize = 65_537;

/// A file open for reading, with its attributes at the time of opening.
#[derive(Debug, Clone)]
pub struct Source {
    file: Arc<File>,
    /// Length, bytes.
    pub len: u64,
    /// File type and permission bits.
    pub mode: u32,
    /// Access and modification time.
    pub times: ExactTimes,
    changed: (i64, i64),
    identity: [u64; 7],
}

/// Returns access and modification time.
#[must_use]
pub fn times_of(metadata: &Metadata) -> ExactTimes {
    let at = |seconds: i64, nanoseconds: i64| Timestamp {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
    };
    ExactTimes {
        accessed: at(metadata.atime(), metadata.atime_nsec()),
        modified: at(metadata.mtime(), metadata.mtime_nsec()),
    }
}

impl Source {
    /// Opens a regular file. Does not block on a FIFO and does not read from a device.
    ///
    /// # Errors
    /// `InvalidInput` for anything but a regular file, else the system's error.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, metadata) = open_regular_known(path, FollowLinks::Follow)?;
        Ok(Self::known(file, &metadata))
    }

    /// Opens a regular file by its name in a directory.
    ///
    /// # Errors
    /// As [`Source::open`]; also for a symbolic link.
    pub fn open_in(directory: &Directory, name: &[u8]) -> io::Result<Self> {
        let file = File::from(directory.open_file(name)?);
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self::known(file, &metadata))
    }

    fn known(file: File, metadata: &Metadata) -> Self {
        Self {
            len: metadata.len(),
            mode: metadata.mode(),
            times: times_of(metadata),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
            identity: [
                metadata.dev(),
                metadata.ino(),
                metadata.len(),
                metadata.mtime().cast_unsigned(),
                metadata.mtime_nsec().cast_unsigned(),
                metadata.ctime().cast_unsigned(),
                metadata.ctime_nsec().cast_unsigned(),
            ],
            file: Arc::new(file),
        }
    }

    /// Returns the open file.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Device, inode, length in bytes, and the modification and change times of content and inode.
    /// Two files of equal identity have equal content.
    pub(crate) fn identity(&self) -> [u64; 7] {
        self.identity
    }

    /// Reads up to `max` bytes from `offset`; fewer only at the end of the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn read(&self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; max];
        let mut read = 0;
        while let Some(room) = bytes.get_mut(read..).filter(|room| !room.is_empty()) {
            let at = offset + u64::try_from(read).unwrap_or_default();
            match self.file.read_at(room, at) {
                Ok(0) => break,
                Ok(count) => {
                    let short = count < room.len();
                    read += count;
                    // A short read that ends at the known length has reached the end. (Files in
                    // /proc report length 0.)
                    if short && self.len > 0 && at + as_u64(count) == self.len {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Reads up to `max` bytes from the beginning, fewer only at the end of the file; allocates no
    /// more memory than the file needs.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn read_up_to(&self, max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while as_u64(bytes.len()) < max {
            let left = max - as_u64(bytes.len());
            let step =
                usize::try_from(left).map_or(READ_STEP_BYTES, |left| left.min(READ_STEP_BYTES));
            let more = self.read(as_u64(bytes.len()), step)?;
            let ends = more.len() < step;
            match bytes.is_empty() {
                true => bytes = more,
                false => bytes.extend_from_slice(&more),
            }
            if ends {
                break;
            }
        }
        Ok(bytes)
    }

    /// Checks that size and (with `times`) modification time are those at the time of opening.
    ///
    /// # Errors
    /// A text that names the change.
    pub fn check_unchanged(&self, times: bool) -> Result<(), String> {
        let now = self
            .file
            .metadata()
            .map_err(|error| crate::text::reason(&error))?;
        if now.len() != self.len {
            return Err(format!(
                "file changed while it was copied: it had {} bytes and has {}",
                self.len,
                now.len()
            ));
        }
        if times && (now.mtime(), now.mtime_nsec()) != self.changed {
            return Err("file changed while it was copied: it was written to".to_owned());
        }
        Ok(())
    }

    /// Returns begin and end of the next data at or after `offset`; `None` if only a hole follows.
    /// On a file system without holes everything is data.
    #[must_use]
    pub fn data_from(&self, offset: u64) -> Option<(u64, u64)> {
        match sys::file::next_data(&self.file, offset) {
            Ok(Some((begin, end))) if begin < self.len => Some((begin, end.min(self.len))),
            Ok(_) => None,
            Err(_) => Some((offset, self.len)).filter(|(begin, end)| begin < end),
        }
    }
}

fn as_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
