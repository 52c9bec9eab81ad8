//! Small files in one request each: `put-file` and `get-file` (docs/PROTOCOL.md).

use std::os::fd::OwnedFd;

use crate::extension::{GetFile, PutFile};
use crate::message::open_flag;
use crate::vendor::{WholeFile, put_flag};
use crate::{Attributes, Code};
use sys::fs::{FileKind, How, content};

use super::status::Failed;
use super::{Buffers, Done, LogLevel, Serve, attributes, handles, paths, shown};
use crate::watch::Watch;

impl Serve {
    pub(super) fn put_file(
        &mut self,
        id: u32,
        request: &PutFile<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        let flags = open_flag::WRITE | open_flag::CREATE | open_flag::TRUNCATE;
        let mode = request.attributes.permissions.unwrap_or(0o666) & 0o7777;
        let fd = handles::open(
            &self.place,
            request.path,
            flags,
            mode,
            &*self.log,
            || Ok(()),
        )?;
        let mut watch = Watch::of_empty();
        let done = write_whole(&fd, request, &mut watch);
        self.handles.wrote(&watch);
        self.moved += request.data.len();
        self.note_closed(request.path, 0, request.data.len());
        done?;
        self.ok(id, buffers);
        Ok(())
    }

    pub(super) fn get_file(
        &mut self,
        id: u32,
        request: &GetFile<'_>,
        buffers: &mut dyn Buffers,
    ) -> Done {
        if self.log.wants(LogLevel::Info) {
            let name = shown(request.path);
            self.log.line(
                LogLevel::Info,
                &format!("open \"{name}\" flags READ mode 0666"),
            );
        }
        let fd = self.place.open(request.path, How::READ, 0)?;
        let info = content::info(&fd)?;
        let limit = request.max_len.min(crate::MAX_DATA_BYTES);
        let mut content = Vec::new();
        let is_whole = info.kind() == FileKind::Regular
            && info.size <= u64::from(limit)
            && read_whole(&fd, info.size, limit, &mut content)?;
        if !is_whole {
            content.clear();
        }
        let mut known = attributes(&info, self.exact_times);
        if is_whole {
            // Report the length sent, even if the file has just changed.
            known.size = Some(content.len() as u64);
        }
        self.moved += content.len();
        self.note_closed(request.path, content.len(), 0);
        self.answer_extended(id, buffers, |out| {
            WholeFile {
                attributes: known,
                is_whole,
                data: &content,
            }
            .write(out);
        });
        Ok(())
    }

    fn note_closed(&self, path: &[u8], read: usize, written: usize) {
        if self.log.wants(LogLevel::Info) {
            let name = shown(path);
            self.log.line(
                LogLevel::Info,
                &format!("close \"{name}\" bytes read {read} written {written}"),
            );
        }
    }
}

fn write_whole(fd: &OwnedFd, request: &PutFile<'_>, watch: &mut Watch) -> Done {
    let has = |flag: u32| request.flags & flag != 0;
    content::write_all_at(fd, request.data, 0)?;
    // The file was truncated and written at once: its size shows whether another process wrote it.
    watch.wrote(fd, request.data.len() as u64)?;
    if has(put_flag::EXACT) {
        // The content determines the size.
        let wanted = Attributes {
            size: None,
            ..request.attributes
        };
        paths::set_attributes(fd, &wanted)?;
    }
    if has(put_flag::SYNC) {
        content::sync(fd)?;
    }
    Ok(())
}

/// Reads up to `size` bytes of a file, at most `limit`. A file that has shrunk or grown meanwhile
/// counts as whole.
fn read_whole(fd: &OwnedFd, size: u64, limit: u32, content: &mut Vec<u8>) -> Result<bool, Failed> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let size = usize::try_from(size).map_err(|_| Failed::code(Code::FAILURE))?;
    content.resize(size.min(limit), 0);
    let mut done = 0;
    while let Some(room) = content.get_mut(done..).filter(|room| !room.is_empty()) {
        match content::read_at(fd, room, done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    let shrank = done < content.len();
    content.truncate(done);
    // Of a file that grew, the content up to the size at opening is as good as any.
    Ok(shrank || done <= limit)
}
