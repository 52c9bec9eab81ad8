//! Local files that are read to be sent.

pub mod hash;

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use sftp::{ExactTimes, Timestamp};
use sys::file::{Links, open_regular_known};
use sys::fs::Directory;

/// Bytes read in one step of a file whose length is not known.
const READ_STEP_BYTES: usize = 65_537;

/// A file that is open to be read, as it was when it was opened.
#[derive(Debug, Clone)]
pub struct Source {
    file: Arc<File>,
    /// Bytes.
    pub len: u64,
    /// Type and mode bits.
    pub mode: u32,
    /// Access and modification.
    pub times: ExactTimes,
    changed: (i64, i64),
    identity: [u64; 7],
}

/// The times of a file.
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
    /// Opens a regular file; nothing else is touched.
    ///
    /// # Errors
    /// `InvalidInput` for what is no regular file, else the system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (file, metadata) = open_regular_known(path, Links::Follow)?;
        Ok(Self::known(file, &metadata))
    }

    /// Opens a regular file by its name in a directory.
    ///
    /// # Errors
    /// As [`Source::open`]; a link is one.
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

    /// The open file.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Device, inode, length in bytes, and the times of the last change of content and inode: two
    /// files of equal identity have equal content.
    pub(crate) fn identity(&self) -> [u64; 7] {
        self.identity
    }

    /// Reads at most `max` bytes from `offset`: fewer only where the file ends.
    ///
    /// # Errors
    /// The system's.
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
                    // A read that comes short where the file should end has seen its end. (One of
                    // /proc says that it has nothing.)
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

    /// Reads from the beginning, at most `max` bytes and without taking memory for more than there
    /// are: fewer only where the file ends.
    ///
    /// # Errors
    /// The system's.
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

    /// Whether it is, by size and (with `times`) time, what it was when it was opened.
    ///
    /// # Errors
    /// What has changed, in words.
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

    /// Where the next data lie at or behind `offset`, and how far they reach; none when only a
    /// hole follows. A file system that knows no holes shows none.
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
