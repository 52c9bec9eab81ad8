//! WRITE: data go to the file as they arrive, from the slabs of their packets, with one system call
//! for many packets. File systems work on pages: one call per packet would touch one page in eight
//! twice.

use std::io::IoSlice;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use sys::fs::content;

use super::status::Failed;
use super::{Buffers, LogLevel, Serve, shown};
use crate::watch::Watch;

/// Largest number of gathered pieces; one read of the socket brings fewer.
const MAX_PIECES: usize = 32;

/// A WRITE whose data have not all arrived.
pub(super) struct Writing {
    id: u32,
    handle: Bytes,
    /// `None` if the data are discarded, because of `failed`.
    fd: Option<Arc<OwnedFd>>,
    /// The file's watch, until all data are written.
    watch: Option<Watch>,
    /// File offset of the next data.
    offset: u64,
    /// Received data that are not written yet. Empty between two calls of [`Serve::work`]: the data
    /// count as used, and no slab may stay pinned while the server is idle.
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
            // The request is already answered: the data are discarded.
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

    /// Writes the received data of an unfinished WRITE.
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
                // The first missing byte counts, whatever failed after it.
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
    /// Writes the received pieces; a failure is stored for the answer.
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

/// Writes all pieces at `offset`; advances `offset` and `written` by the written bytes.
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
