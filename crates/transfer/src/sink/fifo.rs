//! Targets that are FIFOs: a signal ends the wait for a reader and for space in the pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Interval at which a wait checks for signals: a signal just before a system call does not
/// interrupt the call.
const LOOK: Duration = Duration::from_millis(50);

/// True if `path` is a FIFO; links are followed.
pub(super) fn is_one(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|there| there.file_type().is_fifo())
}

fn is_interrupted() -> bool {
    sys::signals::noted() || sys::signals::interrupts() > 0
}

/// Waits for a reader and opens the FIFO for writing, without blocking.
///
/// # Errors
/// `Interrupted` after a signal, else the system's error.
pub(super) fn open(path: &Path) -> io::Result<File> {
    loop {
        let opened = OpenOptions::new()
            .write(true)
            .custom_flags(sys::file::NO_WAIT)
            .open(path);
        match opened {
            Err(error) if sys::file::has_no_reader(&error) => {}
            opened => return opened,
        }
        if is_interrupted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(LOOK);
    }
}

/// Writes as many bytes as `file` accepts; waits while the FIFO is full.
///
/// # Errors
/// The system's error; `Other` after a signal, because callers continue after `Interrupted`.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            written => return written,
        }
        if is_interrupted() {
            return Err(io::Error::other("Interrupted"));
        }
        sys::io::wait_writable(file, Some(LOOK))?;
    }
}
