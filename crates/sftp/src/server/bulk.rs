//! `read-range` and `open-read` (docs/PROTOCOL.md): a range of a file as a sequence of DATA, one
//! per packet, each read in place.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::extension::{OpenRead, ReadRange};
use crate::message::open_flag;
use crate::message::reply::{DATA_HEAD_BYTES, encode_extended};
use crate::message::request::Open;
use crate::vendor::{Hole, OpenedFile, read_flag};
use crate::{Attributes, Code};
use sys::fs::{FileKind, Info, LastLink, content};

use super::status::Failed;
use super::{Buffers, Done, Job, LogLevel, Outbox, Serve, Slice, attributes, shown};

/// Maximum number of bytes sent per slice.
const SLICE_BYTES: usize = 256 * 1024;

/// A range being sent.
pub(super) struct Bulk {
    pub(super) id: u32,
    fd: Arc<OwnedFd>,
    offset: u64,
    left: u64,
    holes: bool,
    /// End of the data range that contains the next byte, when holes are reported.
    data_until: u64,
}

impl Bulk {
    pub(super) fn slice(
        &mut self,
        out: &mut Outbox,
        buffers: &mut dyn Buffers,
    ) -> Result<Slice, Failed> {
        let mut sent = 0;
        while sent < SLICE_BYTES {
            if self.left == 0 {
                return Ok(Slice::Done);
            }
            if self.holes && self.offset >= self.data_until && self.hole(out, buffers)? {
                continue;
            }
            let packet = buffers.max_bytes().saturating_sub(DATA_HEAD_BYTES).max(1);
            let mut wanted = self.left.min(packet as u64);
            if self.holes {
                wanted = wanted.min(self.data_until.saturating_sub(self.offset).max(1));
            }
            let wanted = u32::try_from(wanted).unwrap_or(crate::MAX_DATA_BYTES);
            let (fd, offset) = (&self.fd, self.offset);
            let count = out.data(self.id, wanted, buffers, &mut |room, done| {
                content::read_at(fd, room, offset.saturating_add(done))
            })?;
            if count == 0 {
                // The file ends here.
                return Ok(Slice::Done);
            }
            self.offset = self.offset.saturating_add(u64::from(count));
            self.left -= u64::from(count).min(self.left);
            sent += usize::try_from(count).unwrap_or(SLICE_BYTES);
        }
        Ok(Slice::More(sent))
    }

    /// Reports a hole if there is one at the current offset; returns whether the range continues
    /// after it.
    fn hole(&mut self, out: &mut Outbox, buffers: &mut dyn Buffers) -> Result<bool, Failed> {
        let end = content::info(&*self.fd)?.size;
        if self.offset >= end {
            self.data_until = u64::MAX;
            return Ok(false);
        }
        // A file system without this information reports everything as data.
        let data = content::next_data(&*self.fd, self.offset).unwrap_or(Some(self.offset));
        let data = data.unwrap_or(end).max(self.offset);
        let len = (data - self.offset).min(self.left);
        if len == 0 {
            let hole = content::next_hole(&*self.fd, self.offset).unwrap_or(u64::MAX);
            self.data_until = hole.max(self.offset + 1);
            return Ok(false);
        }
        let mut message = Vec::new();
        encode_extended(self.id, &mut message, |fields| Hole { len }.write(fields));
        out.put(&message, buffers);
        self.offset = self.offset.saturating_add(len);
        self.left -= len;
        Ok(true)
    }
}

impl Serve {
    pub(super) fn read_range(&mut self, id: u32, request: &ReadRange<'_>) -> Done {
        if request.flags & !read_flag::HOLES != 0 {
            return Err(Failed::new(Code::OP_UNSUPPORTED, "unknown flags"));
        }
        let file = self.handles.file(request.handle)?;
        let fd = file.fd.clone();
        // The number of bytes actually read is known only at the end; count those requested.
        let size = content::info(&*fd)?.size;
        let there = size.saturating_sub(request.offset).min(request.len);
        file.read = file.read.saturating_add(there);
        if self.log.wants(LogLevel::Debug1) {
            let line = format!(
                "request {id}: read-range \"{}\" off {} len {}",
                shown(&file.path),
                request.offset,
                request.len
            );
            self.log.line(LogLevel::Debug1, &line);
        }
        self.begin_job(Job::Bulk(Bulk {
            id,
            fd,
            offset: request.offset,
            left: request.len,
            holes: request.flags & read_flag::HOLES != 0,
            data_until: 0,
        }))
    }

    /// Opens a regular file, sends its attributes and content; for other files it sends only the
    /// attributes, which are looked up before opening, since opening a device may have side
    /// effects.
    pub(super) fn open_read(
        &mut self,
        id: u32,
        request: &OpenRead<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        if request.flags != 0 {
            return Err(Failed::new(Code::OP_UNSUPPORTED, "unknown flags"));
        }
        self.has_room_for_job()?;
        let there = self.place.info(request.path, LastLink::Follow)?;
        if there.kind() != FileKind::Regular {
            self.tell_opened(id, &there, b"", buffers);
            self.ok(id, buffers);
            return Ok(());
        }
        let open = Open {
            path: request.path,
            flags: open_flag::READ,
            attributes: Attributes::NONE,
        };
        let handle = self.handles.open(&self.place, &open, &*self.log)?;
        let file = self.handles.file(&handle)?;
        let fd = file.fd.clone();
        let info = content::info(&*fd);
        let regular = info.as_ref().ok();
        let Some(info) = regular.filter(|info| info.kind() == FileKind::Regular) else {
            // Another file has taken the name meanwhile.
            self.handles.close(&handle, &*self.log)?;
            self.tell_opened(id, &info?, b"", buffers);
            self.ok(id, buffers);
            return Ok(());
        };
        file.read = file.read.saturating_add(info.size.min(request.len));
        if self.log.wants(LogLevel::Debug1) {
            let name = shown(request.path);
            let line = format!("request {id}: open-read \"{name}\" len {}", request.len);
            self.log.line(LogLevel::Debug1, &line);
        }
        self.tell_opened(id, info, &handle, buffers);
        self.begin_job(Job::Bulk(Bulk {
            id,
            fd,
            offset: 0,
            left: request.len,
            holes: false,
            data_until: 0,
        }))
    }

    fn tell_opened(&mut self, id: u32, info: &Info, handle: &[u8], buffers: &mut dyn Buffers) {
        let attributes = attributes(info, self.exact_times);
        self.answer_extended(id, buffers, |out| {
            OpenedFile { attributes, handle }.write(out)
        });
    }
}
