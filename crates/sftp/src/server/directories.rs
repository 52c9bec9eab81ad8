//! OPENDIR and READDIR.

use crate::Code;
use crate::message::reply::{Handle, NameEntry, Names};

use super::status::Failed;
use super::{Buffers, Done, LogLevel, Serve, attributes, shown};

/// Maximum number of bytes of entries in one answer: every client accepts a message of 34,000 bytes
/// (draft §3).
const ANSWER_BYTES: usize = 32_000;

impl Serve {
    pub(super) fn open_directory(
        &mut self,
        id: u32,
        path: &[u8],
        buffers: &mut dyn Buffers,
    ) -> Done {
        self.log
            .line(LogLevel::Info, &format!("opendir \"{}\"", shown(path)));
        let handle = self.handles.open_directory(&self.place, path)?;
        self.answer(buffers, |out| {
            Handle { handle: &handle }.encode_into(id, out);
        });
        Ok(())
    }

    pub(super) fn read_directory(
        &mut self,
        id: u32,
        handle: &[u8],
        buffers: &mut dyn Buffers,
    ) -> Done {
        let exact = self.exact_times;
        let directory = self.handles.directory(handle)?;
        let mut encoded = Vec::new();
        let mut count = 0;
        loop {
            let name = match directory.left.take() {
                Some(name) => name,
                None => match directory.entries.next_name()? {
                    Some(name) => name,
                    None => break,
                },
            };
            // A name removed meanwhile is skipped, as OpenSSH does.
            let Ok(info) = directory.entries.info(&name) else {
                continue;
            };
            let long_name = self.names.line(&name, &info);
            let before = encoded.len();
            NameEntry {
                name: &name,
                long_name: &long_name,
                attributes: attributes(&info, exact),
            }
            .encode_into(&mut encoded);
            if encoded.len() > ANSWER_BYTES && count > 0 {
                encoded.truncate(before);
                directory.left = Some(name);
                break;
            }
            count += 1;
        }
        if count == 0 {
            return Err(Failed::code(Code::EOF));
        }
        self.moved += encoded.len();
        self.answer(buffers, |out| Names::encode_into(id, count, &encoded, out));
        Ok(())
    }
}
