//! WRITE: the data go to the file as they come, from the slab of their packet.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use sys::fs::content;

use super::status::Failed;
use super::{Buffers, Level, Serve, shown};

/// A WRITE whose data are on their way.
pub(super) struct Writing {
    id: u32,
    handle: Bytes,
    /// None when the data are to be dropped, as `failed` says.
    fd: Option<Arc<OwnedFd>>,
    /// Where the next data go.
    offset: u64,
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
            offset,
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
                if self.log.wants(Level::Debug1) {
                    let name = shown(&file.path);
                    let line = format!("request {id}: write \"{name}\" off {offset} len {len}");
                    self.log.line(Level::Debug1, &line);
                }
                match &file.failed {
                    Some((from, failed)) if offset > *from => {
                        writing.failed = Some(failed.clone());
                    }
                    _ => writing.fd = Some(file.fd.clone()),
                }
            }
        }
        self.writing = Some(writing);
        if len == 0 {
            self.end_write(buffers);
        }
    }

    pub(super) fn write_payload(&mut self, bytes: &Bytes, left: u32, buffers: &mut dyn Buffers) {
        self.moved += bytes.len();
        let Some(writing) = &mut self.writing else {
            return;
        };
        if let Some(fd) = &writing.fd {
            let mut rest: &[u8] = bytes;
            while !rest.is_empty() {
                match content::write_at(fd, rest, writing.offset) {
                    Ok(count) if count > 0 => {
                        writing.offset = writing.offset.saturating_add(count as u64);
                        writing.written += count as u64;
                        rest = rest.get(count..).unwrap_or_default();
                    }
                    other => {
                        let error = other.err();
                        let error = error.unwrap_or_else(|| std::io::ErrorKind::WriteZero.into());
                        writing.failed = Some(Failed::from(error));
                        writing.fd = None;
                        break;
                    }
                }
            }
        }
        if left == 0 {
            self.end_write(buffers);
        }
    }

    fn end_write(&mut self, buffers: &mut dyn Buffers) {
        let Some(writing) = self.writing.take() else {
            return;
        };
        if let Ok(file) = self.handles.file(&writing.handle) {
            file.written += writing.written;
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
                    .line(Level::Error, &format!("write failed: {}", failed.text()));
                self.fail(writing.id, &failed, buffers);
            }
        }
    }
}
