//! The role that sends: the remote end of a download, the local end of an upload.

use std::borrow::Cow;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Conversation, MAX_LEVELS, OldError};
use crate::engine::Disk;
use crate::plan::{base_name, shown};
use crate::source::Source;
use crate::text;

/// Number of bytes per read and write.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum content of a file that claims size 0 but has content (in /proc), bytes: a record starts
/// with the length, so the file has to be read completely before.
const MAX_UNSIZED_BYTES: u64 = 64 << 20;
/// Mode bits that a record carries, as OpenSSH: without the sticky bit.
const MODE_BITS: u32 = 0o6777;

/// Encodes a name for a record, which ends at a newline. A name that contains a newline is written
/// as vis(3) with `VIS_NL` does, as OpenSSH; others are unchanged.
fn record_name(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\n') {
        return Cow::Borrowed(name);
    }
    let mut out = Vec::with_capacity(name.len() + 8);
    for byte in name {
        let low = byte & 0x7f;
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b' ' | b'\t' | b'!'..=b'~' => out.push(*byte),
            _ if low == b' ' => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            _ => {
                out.push(b'\\');
                if *byte >= 0x80 {
                    out.push(b'M');
                }
                match low {
                    0x7f => out.extend_from_slice(b"^?"),
                    0..0x20 => out.extend_from_slice(&[b'^', low + b'@']),
                    _ => out.extend_from_slice(&[b'-', low]),
                }
            }
        }
    }
    Cow::Owned(out)
}

/// Reads the content of a file that claims size 0.
fn read_unsized(source: &Source) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut limited = Read::take(&**source.file(), MAX_UNSIZED_BYTES + 1);
    limited.read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|len| len > MAX_UNSIZED_BYTES) {
        let why =
            "the file states no length, and is too long for the old protocol: copy it by SFTP";
        return Err(io::Error::other(why));
    }
    Ok(content)
}

impl Conversation<'_> {
    /// Sends files and, with `-r`, directories; reports failures and continues with the rest.
    ///
    /// # Errors
    /// [`OldError`] if the session cannot continue.
    pub fn send(&mut self, paths: &[&Path]) -> Result<(), OldError> {
        self.begin_meter(Disk::Source);
        let result = paths.iter().try_for_each(|path| self.send_one(path, 0));
        self.tell_times(true);
        result
    }

    /// Waits for the answer that precedes the first record.
    ///
    /// # Errors
    /// [`OldError`].
    pub fn begin_sending(&mut self) -> Result<bool, OldError> {
        let said = self.answer()?;
        if let Some(said) = &said
            && !self.terms.is_remote
        {
            self.report.says(said);
        }
        Ok(said.is_none())
    }

    fn send_one(&mut self, path: &Path, depth: usize) -> Result<(), OldError> {
        let to_say = shown(path);
        let metadata = match std::fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => return self.complain(&format!("{to_say}: {}", text::reason(&error))),
        };
        if metadata.is_dir() && self.terms.recursive {
            return self.send_directory(path, &metadata, depth);
        }
        let source = match Source::open(path) {
            Ok(source) => source,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                return self.complain(&format!("{to_say}: not a regular file"));
            }
            Err(error) => return self.complain(&format!("{to_say}: {}", text::reason(&error))),
        };
        self.send_file(path, &source)
    }

    /// Sends the times, with `-p`; returns whether the other side accepts them.
    fn send_times(&mut self, metadata: (i64, i64)) -> Result<bool, OldError> {
        if !self.terms.preserve {
            return Ok(true);
        }
        let (modified, accessed) = (metadata.0.max(0), metadata.1.max(0));
        self.tell(format!("T{modified} 0 {accessed} 0\n").as_bytes())?;
        self.accepted()
    }

    /// Returns whether the other side accepts the last record; passes its error on.
    fn accepted(&mut self) -> Result<bool, OldError> {
        match self.answer()? {
            None => Ok(true),
            Some(said) => {
                if !self.terms.is_remote {
                    self.report.fails(&said);
                }
                Ok(false)
            }
        }
    }

    fn send_directory(
        &mut self,
        path: &Path,
        metadata: &Metadata,
        depth: usize,
    ) -> Result<(), OldError> {
        let to_say = shown(path);
        if depth >= MAX_LEVELS {
            return self.complain(&format!(
                "Maximum directory depth exceeded: {MAX_LEVELS} levels: {to_say}"
            ));
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.complain(&format!("{to_say}: {}", text::reason(&error))),
        };
        if !self.send_times((metadata.mtime(), metadata.atime()))? {
            return Ok(());
        }
        let mut record = format!("D{:04o} 0 ", metadata.mode() & MODE_BITS).into_bytes();
        let name = base_name(path.as_os_str().as_encoded_bytes());
        record.extend_from_slice(&record_name(name));
        record.push(b'\n');
        self.tell(&record)?;
        if !self.accepted()? {
            return Ok(());
        }
        for entry in entries {
            match entry {
                Ok(entry) => self.send_one(&entry.path(), depth + 1)?,
                Err(error) => self.complain(&format!("{to_say}: {}", text::reason(&error)))?,
            }
        }
        self.tell(b"E\n")?;
        self.accepted().map(drop)
    }

    fn send_file(&mut self, path: &Path, source: &Source) -> Result<(), OldError> {
        let from = path.as_os_str().as_encoded_bytes();
        let name = base_name(from);
        // A file with a known size is read while it is sent.
        let unsized_content = match source.len {
            0 => match read_unsized(source) {
                Ok(content) => content,
                Err(error) => {
                    let to_say = shown(path);
                    return self.complain(&format!("{to_say}: {}", text::reason(&error)));
                }
            },
            _ => Vec::new(),
        };
        let len = match u64::try_from(unsized_content.len()) {
            Ok(0) | Err(_) => source.len,
            Ok(len) => len,
        };
        self.report.begins(0, from, Some(len));
        let times = (source.times.modified.seconds, source.times.accessed.seconds);
        if !self.send_times(times)? {
            return Ok(());
        }
        let mut record = format!("C{:04o} {len} ", source.mode & MODE_BITS).into_bytes();
        record.extend_from_slice(&record_name(name));
        record.push(b'\n');
        self.tell(&record)?;
        if let Some(said) = self.answer()? {
            if !self.terms.is_remote {
                self.ended(from, name, 0, Some(said));
            }
            return Ok(());
        }
        let mut file = &**source.file();
        let mut content = unsized_content.as_slice();
        let input: &mut dyn Read = match content.is_empty() {
            true => &mut file,
            false => &mut content,
        };
        let failure = self
            .send_content(input, len)?
            .or_else(|| source.check_unchanged(true).err());
        match failure {
            None => self.tell(b"\0")?,
            Some(why) => {
                let what = format!("{}: {why}", shown(path));
                self.complain_of(from, name, len, &what)?;
                // The other side answers in any case.
                let _ = self.answer()?;
                return Ok(());
            }
        }
        match self.answer()? {
            None => self.ended(from, name, len, None),
            Some(said) if !self.terms.is_remote => {
                self.ended(from, name, len, Some(said));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Sends exactly the announced number of bytes, with zeros in place of bytes that could not be
    /// read; the error is reported after them.
    fn send_content(&mut self, input: &mut dyn Read, len: u64) -> Result<Option<String>, OldError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut failure = None;
        let mut left = len;
        while left > 0 {
            let max = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            let room = chunk.get_mut(..max).unwrap_or_default();
            let count = match failure {
                Some(_) => {
                    room.fill(0);
                    max
                }
                None => match input.read(room) {
                    Ok(0) => {
                        failure = Some(format!(
                            "file changed while it was copied: it had {len} bytes and ends at {}",
                            len - left
                        ));
                        continue;
                    }
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        failure = Some(text::reason(&error));
                        continue;
                    }
                },
            };
            self.keep_pace()?;
            let bytes = chunk.get(..count).unwrap_or_default();
            self.send_out(bytes)?;
            let count = u64::try_from(count).unwrap_or_default();
            self.pace.went(count);
            self.report.moved(0, count);
            self.tell_times(false);
            left -= count;
        }
        self.output.flush()?;
        Ok(failure)
    }
}
