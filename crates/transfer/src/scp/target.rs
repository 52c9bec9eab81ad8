//! The target file of a receiver.
//!
//! Invariants: the copy fails if another program writes the target as well ([`crate::watch`]); the
//! target is truncated only after the new content is complete; bytes equal to the existing ones are
//! not written again, so that a file copied onto itself never changes; no wait outlasts a signal
//! that ends the program.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use sftp::ExactTimes;

use crate::connect::{LOOK, SignalNoted};
use crate::sink;
use crate::watch::Watch;

/// The properties of a file in its record.
pub(super) struct Described {
    /// Permission bits.
    pub(super) mode: u32,
    /// Size, bytes.
    pub(super) size: u64,
    /// Times, with `-p`.
    pub(super) times: Option<ExactTimes>,
}

/// A file written sequentially.
pub(super) struct Target {
    file: File,
    regular: bool,
    /// This copy created the file.
    fresh: bool,
    /// The file has the source's size (and time), and the content compared so far is equal: it may
    /// be the source.
    is_same: bool,
    /// Offset after the last nonzero byte received.
    content_end: u64,
    last_byte: Option<u8>,
    compared: Vec<u8>,
    /// For a regular file only.
    watch: Option<Watch>,
}

fn interrupted() -> io::Error {
    io::Error::other(SignalNoted)
}

/// Opens for writing; waits for the reader of a FIFO.
fn open_to_write(options: &OpenOptions, path: &Path) -> io::Result<File> {
    loop {
        match options.open(path) {
            Err(error) if sys::file::has_no_reader(&error) => {
                if !std::fs::metadata(path).is_ok_and(|there| is_fifo(&there)) {
                    return Err(error);
                }
                if sys::signals::noted() {
                    return Err(interrupted());
                }
                std::thread::sleep(LOOK);
            }
            result => return result,
        }
    }
}

fn is_fifo(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_fifo()
}

impl Target {
    /// Opens or creates the file without changing its content.
    ///
    /// # Errors
    /// The system's error; [`SignalNoted`] inside `Other` if a signal ended the wait for a FIFO's
    /// reader.
    pub(super) fn open(path: &Path, described: &Described) -> io::Result<Self> {
        let there = std::fs::metadata(path).ok();
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(sys::file::NO_WAIT)
            .mode(described.mode & 0o777 | 0o200);
        let may_be_source = there.as_ref().is_some_and(|there| {
            let times = crate::source::times_of(there);
            let same_time = |kept: ExactTimes| kept.modified.seconds == times.modified.seconds;
            there.is_file()
                && there.len() == described.size
                && described.size > 0
                && described.times.is_none_or(same_time)
        });
        // An unreadable file is written without a comparison.
        let readable = match may_be_source {
            true => options.clone().read(true).open(path).ok(),
            false => None,
        };
        let is_same = readable.is_some();
        let file = match readable {
            Some(file) => file,
            None => open_to_write(&options, path)?,
        };
        let regular = file.metadata()?.is_file();
        let watch = regular.then(|| Watch::of(&file)).transpose()?;
        Ok(Self {
            regular,
            watch,
            file,
            fresh: there.is_none(),
            is_same,
            content_end: 0,
            last_byte: None,
            compared: Vec::new(),
        })
    }

    /// Writes the next bytes, at `offset`.
    ///
    /// # Errors
    /// As [`Target::open`].
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(at) = bytes.iter().rposition(|byte| *byte != 0) {
            self.content_end = offset + u64::try_from(at + 1).unwrap_or_default();
        }
        self.last_byte = bytes.last().copied().or(self.last_byte);
        if self.is_same {
            self.compared.resize(bytes.len(), 0);
            let read = self.file.read_exact_at(&mut self.compared, offset);
            self.is_same = read.is_ok() && self.compared == bytes;
        }
        match (self.is_same, self.regular) {
            (true, _) => Ok(()),
            (false, true) => self.write_at(bytes, offset),
            (false, false) => self.write_stream(bytes),
        }
    }

    /// Writes to a regular file.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let Some(watch) = &mut self.watch else {
            return self.file.write_all_at(bytes, offset);
        };
        watch.check(&self.file)?;
        let end = offset.saturating_add(bytes.len() as u64);
        match self.file.write_all_at(bytes, offset) {
            Ok(()) => watch.wrote(&self.file, end),
            Err(error) => watch.restart(&self.file).and(Err(error)),
        }
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        if let Some(watch) = &mut self.watch {
            watch.check(&self.file)?;
            self.file.set_len(len)?;
            watch.cut(&self.file, len)?;
        }
        Ok(())
    }

    /// Writes to a file without offsets: a FIFO or a device.
    fn write_stream(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.file).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if sys::signals::noted() {
                        return Err(interrupted());
                    }
                    sys::io::wait_writable(&self.file, Some(LOOK))?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The sender has confirmed the file: sets length and mode, with `preserve` also times.
    ///
    /// # Errors
    /// The operation that failed and the system's error.
    pub(super) fn finish(
        mut self,
        described: &Described,
        preserve: bool,
    ) -> Result<(), (&'static str, io::Error)> {
        let failed = |what: &'static str| move |error: io::Error| (what, error);
        let metadata = self.file.metadata().map_err(failed("stat"))?;
        if let Some(watch) = &mut self.watch {
            watch.check(&self.file).map_err(failed("write"))?;
        }
        if self.regular && metadata.len() != described.size {
            let cut = self.cut(described.size);
            cut.map_err(failed("truncate"))?;
        }
        let last = described.size.checked_sub(1).zip(self.last_byte);
        if let Some((offset, byte)) = last.filter(|_| self.is_same) {
            // A write, so that the file gets a new modification time as any other copy.
            let written = self.write_at(&[byte], offset);
            written.map_err(failed("write"))?;
        }
        let mode = match preserve {
            true => Some(described.mode & 0o777),
            // The owner's write permission was added at creation; the umask has been applied.
            false if self.fresh && self.regular && described.mode & 0o200 == 0 => {
                Some(metadata.permissions().mode() & 0o577)
            }
            false => None,
        };
        if let Some(mode) = mode {
            let set = self.file.set_permissions(Permissions::from_mode(mode));
            set.map_err(failed("set mode"))?;
        }
        if let Some(times) = described.times.filter(|_| preserve) {
            sink::set_times(&self.file, &times).map_err(failed("set times"))?;
        }
        Ok(())
    }

    /// The sender reports that it could not read all of its file and has sent zeros for the rest.
    /// They are removed from a file that this copy created; an existing file is left unchanged.
    pub(super) fn drop_filler(mut self) {
        if self.fresh && self.regular {
            // The sender's failure is reported; a second error would add nothing.
            let _ = self.cut(self.content_end);
        }
    }
}
