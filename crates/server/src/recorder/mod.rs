//! The recorder: writes the output of a terminal to a file, as asciicast ([`cast`]). One process for
//! each recorded terminal (RecordTerminals), as the unprivileged user and in the sandbox of the auth
//! process, with two descriptors: the pipe from the session process, and the file, which the monitor has made.
//!
//! The pipe carries records: a byte for the kind, a `u32` length, the bytes. The first describes the
//! terminal. A full pipe makes the session wait; without a recorder the pipe's writer fails, which ends the
//! connection.

mod cast;

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use privsep::roles;
use sys::process::{Limit, Resource, set_limit};
use sys::signals::Signal;
use sys::terminal::WindowSize;

use crate::reader::close_sandbox;

/// Kind of the first record: columns and rows (`u16` each), then TERM.
const BEGIN: u8 = b'b';
/// Kind of a record with output.
const OUTPUT: u8 = b'o';
/// Kind of a record with new columns and rows (`u16` each).
const RESIZE: u8 = b'r';
/// Bytes of a record's kind and length.
const HEAD_BYTES: usize = 5;
/// Time between two reads, which makes few large ones of many small ones: at 256 MB/s, more than a terminal
/// carries, the pipe is not full yet.
const READ_INTERVAL: Duration = Duration::from_millis(2);
/// Longest record. Packets of channel data and of requests, in which TERM arrives, are shorter.
const MAX_RECORD_BYTES: usize = 1024 * 1024;
/// Limit on open descriptors.
const OPEN_FILES: u64 = 16;

/// Limit on the time for which the connection waits for the recorder: its disk may not answer.
const WRITE_WAIT: Duration = Duration::from_secs(10);

/// The session process's end of a recorder's pipe, which does not block.
#[derive(Debug)]
pub(crate) struct RecorderPipe(pub(crate) OwnedFd);

/// The terminal's output can no longer be recorded.
#[derive(Debug)]
pub(crate) struct RecordingEnded;

impl std::fmt::Display for RecordingEnded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the recording of the terminal has ended")
    }
}

impl std::error::Error for RecordingEnded {}

impl RecordingEnded {
    /// True if this is the cause of an error.
    pub(crate) fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|cause| cause.is::<Self>())
    }
}

impl RecorderPipe {
    /// A copy of the descriptor.
    pub(crate) fn duplicate(&self) -> io::Result<Self> {
        sys::io::dup(&self.0).map(Self)
    }

    /// Describes the terminal. Must be the first record.
    pub(crate) fn begin(&self, size: WindowSize, term: &[u8]) -> io::Result<()> {
        self.write(BEGIN, &[&size_bytes(size), term])
    }

    /// Records output; waits while the pipe is full, for ten seconds at most.
    pub(crate) fn output(&self, bytes: &[u8]) -> io::Result<()> {
        self.write(OUTPUT, &[bytes])
    }

    /// Records a new size.
    pub(crate) fn resize(&self, size: WindowSize) -> io::Result<()> {
        self.write(RESIZE, &[&size_bytes(size)])
    }

    fn write(&self, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let mut record = Vec::with_capacity(HEAD_BYTES + length);
        record.push(kind);
        record.extend_from_slice(
            &u32::try_from(length)
                .map_err(io::Error::other)?
                .to_be_bytes(),
        );
        for part in parts {
            record.extend_from_slice(part);
        }
        let mut rest = &record[..];
        while !rest.is_empty() {
            match sys::io::write(&self.0, rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match sys::io::wait_writable(&self.0, Some(WRITE_WAIT)) {
                        Ok(true) => {}
                        _ => return Err(io::Error::other(RecordingEnded)),
                    }
                }
                Err(_) => return Err(io::Error::other(RecordingEnded)),
            }
        }
        Ok(())
    }
}

fn size_bytes(size: WindowSize) -> [u8; 4] {
    let ([a, b], [c, d]) = (size.columns.to_be_bytes(), size.rows.to_be_bytes());
    [a, b, c, d]
}

/// Runs the role `sshd-recorder`; returns its exit status, one of [`privsep::roles::exit`].
#[must_use]
pub fn recorder_main(arguments: &[OsString]) -> i32 {
    let started = sys::io::inherited(roles::RECORDER_PIPE_FD)
        .and_then(|pipe| Ok((pipe, sys::io::inherited(roles::RECORDER_FILE_FD)?)))
        .map_err(|error| error.to_string())
        .and_then(|ends| {
            outlive_session().map_err(|error| error.to_string())?;
            close_sandbox(arguments, OPEN_FILES, true)?;
            Ok(ends)
        });
    let (pipe, file) = match started {
        Ok(ends) => ends,
        Err(error) => {
            eprintln!("{}: {error}", roles::ROLE_RECORDER);
            return roles::exit::NOT_STARTED;
        }
    };
    match record(&pipe, &file) {
        Ok(()) => roles::exit::DONE,
        Err(error) => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => roles::exit::NO_SPACE,
            _ => roles::exit::FAILED,
        },
    }
}

/// Ignores the signals that end all processes of a login, since the rest of the output is still to be
/// written, and takes away the limits that PAM has set for the user's own processes.
fn outlive_session() -> io::Result<()> {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        sys::signals::ignore(signal)?;
    }
    for resource in [Resource::FileSize, Resource::Cpu, Resource::AddressSpace] {
        set_limit(resource, Limit::both(u64::MAX))?;
    }
    Ok(())
}

/// Writes what the pipe carries to the file, until its end.
fn record(pipe: &OwnedFd, file: &OwnedFd) -> io::Result<()> {
    let mut recording = Recording::default();
    let mut room = vec![0; roles::RECORDER_PIPE_BYTES];
    loop {
        let count = sys::io::read(pipe, &mut room)?;
        if count == 0 {
            recording.finish(sys::time::monotonic_us());
            return sys::io::write_all(file, recording.text.as_bytes());
        }
        let bytes = room.get(..count).unwrap_or_default();
        recording.advance(bytes, sys::time::monotonic_us())?;
        sys::io::write_all(file, recording.text.as_bytes())?;
        recording.text.clear();
        std::thread::sleep(READ_INTERVAL);
    }
}

/// The records that arrive, and the text made of them.
#[derive(Default)]
struct Recording {
    /// Bytes of a record that is not whole.
    pending: Vec<u8>,
    /// The beginning of a character whose other bytes have not been shown.
    tail: Vec<u8>,
    text: String,
    /// Monotonic microseconds of the first record; `None` before it.
    begun_us: Option<u64>,
}

impl Recording {
    /// Appends the lines of the records that `bytes` complete.
    fn advance(&mut self, bytes: &[u8], now_us: u64) -> io::Result<()> {
        let mut pending = core::mem::take(&mut self.pending);
        pending.extend_from_slice(bytes);
        let mut rest = &pending[..];
        while let Some(([kind, length @ ..], after)) = rest.split_first_chunk::<HEAD_BYTES>() {
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            if length > MAX_RECORD_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let Some((body, next)) = after.split_at_checked(length) else {
                break;
            };
            self.push(*kind, body, now_us)?;
            rest = next;
        }
        self.pending = rest.to_vec();
        Ok(())
    }

    fn push(&mut self, kind: u8, body: &[u8], now_us: u64) -> io::Result<()> {
        let bad = || io::Error::from(io::ErrorKind::InvalidData);
        let at_us = self
            .begun_us
            .map(|begun_us| now_us.saturating_sub(begun_us));
        match (kind, at_us) {
            (BEGIN, None) => {
                self.begun_us = Some(now_us);
                let (size, term) = size_of(body).ok_or_else(bad)?;
                // Players refuse an empty terminal, and a client without one sends these.
                let size = if size.0 == 0 || size.1 == 0 {
                    (80, 24)
                } else {
                    size
                };
                let (term, now) = (String::from_utf8_lossy(term), sys::time::realtime_seconds());
                cast::push_header(&mut self.text, size, now, &term);
            }
            (OUTPUT, Some(at_us)) => self.push_output(body, at_us),
            (RESIZE, Some(at_us)) => {
                let ((columns, rows), _) = size_of(body).ok_or_else(bad)?;
                let size = format!("{columns}x{rows}");
                cast::push_event(&mut self.text, at_us, 'r', &size);
            }
            _ => return Err(bad()),
        }
        Ok(())
    }

    /// Appends what is left of a character that was cut.
    fn finish(&mut self, now_us: u64) {
        let tail = core::mem::take(&mut self.tail);
        if let Some(begun_us) = self.begun_us.filter(|_| !tail.is_empty()) {
            let at_us = now_us.saturating_sub(begun_us);
            cast::push_event(&mut self.text, at_us, 'o', &String::from_utf8_lossy(&tail));
        }
    }

    /// Appends output. Bytes that are no UTF-8 become U+FFFD; a character that is cut waits for its rest.
    fn push_output(&mut self, bytes: &[u8], at_us: u64) {
        let mut all = core::mem::take(&mut self.tail);
        all.extend_from_slice(bytes);
        self.tail = all.split_off(all.len() - cast::incomplete(&all));
        if !all.is_empty() {
            cast::push_event(&mut self.text, at_us, 'o', &String::from_utf8_lossy(&all));
        }
    }
}

/// Columns and rows at the beginning of a record, and its rest.
fn size_of(body: &[u8]) -> Option<((u16, u16), &[u8])> {
    let ([a, b, c, d], rest) = body.split_first_chunk::<4>()?;
    let size = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
    Some((size, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record_of(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    #[test]
    fn records_in_any_parts_become_lines() {
        let (reader, writer) = sys::io::pipe().unwrap();
        let pipe = RecorderPipe(writer);
        let size = |columns, rows| WindowSize::from_wire(columns, rows, 0, 0);
        pipe.begin(size(80, 24), b"xterm").unwrap();
        pipe.output(b"hello\r\n\xc3").unwrap();
        pipe.resize(size(100_000, 30)).unwrap();
        pipe.duplicate().unwrap().output(b"\xa9\xff").unwrap();
        drop(pipe);
        let stream = sys::io::read_to_end(&reader, 1024).unwrap();
        for part in [1, 3, 1000] {
            let mut recording = Recording::default();
            for bytes in stream.chunks(part) {
                recording.advance(bytes, 5).unwrap();
            }
            let (head, events) = recording.text.split_once('\n').unwrap();
            assert!(head.starts_with("{\"version\":2,\"width\":80,\"height\":24,\"timestamp\":"));
            let expected = "[0.000000,\"o\",\"hello\\r\\n\"]\n\
                            [0.000000,\"r\",\"65535x30\"]\n\
                            [0.000000,\"o\",\"é\u{fffd}\"]\n";
            assert_eq!(events, expected);
            assert!(recording.pending.is_empty() && recording.tail.is_empty());
        }
    }

    #[test]
    fn bytes_that_are_no_record_end_the_recording() {
        for bytes in [
            record_of(OUTPUT, b"before the terminal is described"),
            record_of(b'?', b""),
            record_of(BEGIN, b"123"),
            [record_of(BEGIN, b"1234"), record_of(BEGIN, b"1234")].concat(),
            vec![BEGIN, 0xff, 0, 0, 0],
        ] {
            let advanced = Recording::default().advance(&bytes, 0);
            assert_eq!(
                advanced.unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{bytes:?}"
            );
        }
    }
}
