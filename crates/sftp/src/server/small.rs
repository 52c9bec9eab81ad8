//! A small file in one request: `put-file` (docs/PROTOCOL.md).

use std::os::fd::OwnedFd;

use crate::Attributes;
use crate::extension::PutFile;
use crate::message::open_flag;
use crate::vendor::put_flag;
use sys::fs::content;

use super::{Buffers, Done, LogLevel, Serve, handles, paths, shown};
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

    pub(super) fn note_closed(&self, path: &[u8], read: usize, written: usize) {
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
