//! WRITE: the data go to the file as they come, from the slabs of their packets, those of many
//! packets in one system call. A file system works by pages: a call for each packet would touch
//! one page in eight twice.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use sys::fs::content;

use super::status::Failed;
use super::{Buffers, LogLevel, Serve, shown};
use crate::watch::Watch;

/// Most pieces that are gathered: more than one read of the socket brings.
const MAX_PIECES: usize = 32;

/// A WRITE whose data are on their way.
pub(super) struct Writing {
    id: u32,
    handle: Bytes,
    /// None when the data are to be dropped, as `failed` says.
    fd: Option<Arc<OwnedFd>>,
    /// The file's, until all of it is written.
    watch: Option<Watch>,
    /// Where the next data go.
    offset: u64,
    /// Data that have come and are not written. None between two calls of [`Serve::work`]: they
    /// count as used, and nothing may be pinned while nothing happens.
    pieces: Vec<Bytes>,
    failed: Option<Failed>,
    written: u64,
}

impl Serve {
    pub(super) fn begin_write(
        &mut self,
        id: u32,
        handle: &Bytes,
        offset: u64,
        len: u32,
        buffers: &mut dyn Buffers,
    ) {
        let mut writing = Writing {
            id,
            handle: handle.clone(),
            fd: None,
            watch: None,
            offset,
            pieces: std::mem::take(&mut self.spare_pieces),
            failed: None,
            written: 0,
        };
        if let Err(refusal) = self.permits.write() {
            self.refuse(id, Some("write"), refusal, buffers);
            // Answered: the data are dropped in silence.
            self.writing = None;
            return;
        }
        match self.handles.file(handle) {
            Err(failed) => writing.failed = Some(failed),
            Ok(file) => {
                if self.log.wants(LogLevel::Debug1) {
                    let name = shown(&file.path);
                    let line = format!("request {id}: write \"{name}\" off {offset} len {len}");
                    self.log.line(LogLevel::Debug1, &line);
                }
                match &file.failed {
                    Some((from, failed)) if offset > *from => {
                        writing.failed = Some(failed.clone());
                    }
                    _ => {
                        writing.fd = Some(file.fd.clone());
                        writing.watch = file.watch.take();
                    }
                }
            }
        }
        self.writing = Some(writing);
        if len == 0 {
            self.end_write(buffers);
        }
    }

    pub(super) fn write_payload(&mut self, bytes: Bytes, left: u32, buffers: &mut dyn Buffers) {
        self.moved += bytes.len();
        let Some(writing) = &mut self.writing else {
            return;
        };
        if writing.fd.is_some() {
            writing.pieces.push(bytes);
            if writing.pieces.len() >= MAX_PIECES {
                writing.write_gathered();
            }
        }
        if left == 0 {
            self.end_write(buffers);
        }
    }

    /// Writes what has come of a WRITE that goes on.
    pub(super) fn write_gathered(&mut self) {
        if let Some(writing) = &mut self.writing {
            writing.write_gathered();
        }
    }

    fn end_write(&mut self, buffers: &mut dyn Buffers) {
        let Some(mut writing) = self.writing.take() else {
            return;
        };
        writing.write_gathered();
        self.spare_pieces = std::mem::take(&mut writing.pieces);
        if let Ok(file) = self.handles.file(&writing.handle) {
            file.written += writing.written;
            file.watch = writing.watch.or(file.watch.take());
            match &writing.failed {
                None => file.failed = None,
                // The first byte that is missing counts, whatever failed behind it.
                Some(failed) => {
                    let known = file
                        .failed
                        .as_ref()
                        .is_some_and(|(from, _)| *from <= writing.offset);
                    if !known {
                        file.failed = Some((writing.offset, failed.clone()));
                    }
                }
            }
        }
        match writing.failed {
            None => self.ok(writing.id, buffers),
            Some(failed) => {
                self.log
                    .line(LogLevel::Error, &format!("write failed: {}", failed.text()));
                self.fail(writing.id, &failed, buffers);
            }
        }
    }
}

impl Writing {
    /// Writes the pieces that have come; a failure is kept for the answer.
    fn write_gathered(&mut self) {
        if let Some(fd) = self.fd.clone().filter(|_| !self.pieces.is_empty())
            && let Err(error) = self.write_watched(&fd)
        {
            self.failed = Some(Failed::from(error));
            self.fd = None;
        }
        self.pieces.clear();
    }

    fn write_watched(&mut self, fd: &OwnedFd) -> std::io::Result<()> {
        if let Some(watch) = &mut self.watch {
            watch.check(fd)?;
        }
        let written = write_pieces(fd, &self.pieces, &mut self.offset, &mut self.written);
        match (&mut self.watch, written) {
            (Some(watch), Ok(())) => watch.wrote(fd, self.offset),
            (Some(watch), Err(error)) => watch.restart(fd).and(Err(error)),
            (None, written) => written,
        }
    }
}

/// Writes all pieces at `offset`, which goes on with what is written, as `written` does.
fn write_pieces(
    fd: &OwnedFd,
    pieces: &[Bytes],
    offset: &mut u64,
    written: &mut u64,
) -> std::io::Result<()> {
    let mut slices = [IoSlice::new(&[]); MAX_PIECES];
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        *slice = IoSlice::new(piece);
        count += 1;
    }
    let mut rest = slices.get_mut(..count).unwrap_or_default();
    while !rest.is_empty() {
        let count = content::write_pieces_at(fd, rest, *offset)?;
        if count == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        *offset = offset.saturating_add(count as u64);
        *written += count as u64;
        IoSlice::advance_slices(&mut rest, count);
    }
    Ok(())
}
