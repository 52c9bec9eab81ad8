//! Fulmar's vendor extensions, under [`wire::EXTENSION_DOMAIN`]; docs/PROTOCOL.md specifies them. A
//! server announces each that it has in VERSION, with its version.
//!
//! [`READ_RANGE`], [`OPEN_READ`] and [`WALK`] are answered by several messages with the same id.
//! The last of them is always STATUS, with OK if everything was sent. Answers to other requests may
//! come between. [`CANCEL`] ends such a request early.

use alloc::vec::Vec;

use wire::{DecodeError, Field, Put, Reader};

use crate::attributes::Attributes;
use crate::status::Code;

pub use crate::names::*;

/// Length of a BLAKE3 hash, bytes.
pub const HASH_BYTES: usize = 32;
/// Minimum length of a separately hashed block, bytes.
pub const MIN_HASH_BLOCK_BYTES: u64 = 64 * 1024;
/// Maximum number of blocks of one request; their hashes fit into one message.
pub const MAX_HASH_BLOCKS: u64 = 8000;

/// Flags of [`READ_RANGE`].
pub mod read_flag {
    /// The server reports holes as [`Hole`](super::Hole) instead of sending zeros.
    pub const HOLES: u32 = 1;
}

/// Flags of [`PUT_FILE`].
pub mod put_flag {
    /// After the write, set the attributes as FSETSTAT does, whatever the umask.
    pub const EXACT: u32 = 2;
    /// Flush the content to the disk before the answer is sent.
    pub const SYNC: u32 = 4;
}

/// Flags of [`WALK`].
pub mod walk_flag {
    /// List the targets of symbolic links in place of the links. A directory that is its own
    /// ancestor is not entered again.
    pub const FOLLOW: u32 = 1;
    /// Include the content of regular files up to `max_len` bytes.
    pub const CONTENT: u32 = 2;
    /// Send one entry only, that of the path itself, following links, with its content.
    pub const FILE: u32 = 4;
}

/// Maximum nesting of directories that [`WALK`] enters; a deeper directory is listed without its
/// contents.
pub const WALK_DEPTH: usize = 64;

/// Bytes of window that an entry without content uses in addition to its own length: the receiver
/// has to remember such an entry.
pub const ENTRY_CHARGE_BYTES: u64 = 1024;

/// The answer to [`HASH_RANGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashes<'a> {
    /// Number of bytes hashed; less than the range asked for if the file ends before.
    pub len: u64,
    /// One hash of [`HASH_BYTES`] per block, at least one; the last block may be short.
    pub hashes: &'a [u8],
}

impl<'a> Hashes<'a> {
    /// Appends the fields to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.len);
        out.put_string(self.hashes);
    }

    /// Reads the fields of an EXTENDED_REPLY.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        let read = Self {
            len: reader.u64()?,
            hashes: reader.string()?,
        };
        if !read.hashes.len().is_multiple_of(HASH_BYTES) {
            return Err(DecodeError::Malformed("a hash has 32 bytes"));
        }
        Ok(read)
    }
}

/// A hole in the range that [`READ_RANGE`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Length of the hole, bytes.
    pub len: u64,
}

impl Hole {
    /// Appends the fields to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.len);
    }

    /// Reads the fields of an EXTENDED_REPLY.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            len: Reader::new(fields).u64()?,
        })
    }
}

/// The first answer to [`OPEN_READ`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedFile<'a> {
    /// The attributes as FSTAT returns them; for anything but a regular file, as STAT does.
    pub attributes: Attributes,
    /// The open handle, as HANDLE would carry it. Empty for anything but a regular file: the server
    /// has not opened that, and no DATA follow.
    pub handle: &'a [u8],
}

impl<'a> OpenedFile<'a> {
    /// Reads the fields of an EXTENDED_REPLY.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        Ok(Self {
            attributes: Field::read(&mut reader)?,
            handle: reader.string()?,
        })
    }

    /// Appends the fields to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.attributes.write(out);
        out.put_string(self.handle);
    }
}

/// One entry of a directory tree listed by [`WALK`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WalkEntry<'a> {
    /// OK, or the error that kept the server from reading this entry or the contents of this
    /// directory.
    pub code: Code,
    /// Path relative to the listed directory, with `/` between names; empty for the directory
    /// itself.
    pub path: &'a [u8],
    /// The attributes as LSTAT returns them; with [`walk_flag::FOLLOW`], as STAT does.
    pub attributes: Attributes,
    /// Bytes allocated on the disk; less than the size if the file has holes.
    pub allocated: u64,
    /// The target of a symbolic link, or the text of an error; otherwise empty.
    pub text: &'a [u8],
    /// The whole content of a regular file, if included.
    pub content: Option<&'a [u8]>,
}

impl WalkEntry<'_> {
    /// Appends the entry to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.code.0);
        out.put_string(self.path);
        self.attributes.write(out);
        out.put_u64(self.allocated);
        out.put_string(self.text);
        out.put_bool(self.content.is_some());
        if let Some(content) = self.content {
            out.put_string(content);
        }
    }
}

/// Iterates over the entries of an EXTENDED_REPLY to [`WALK`]; the first that cannot be read ends
/// the iteration with its error.
pub fn entries(fields: &[u8]) -> impl Iterator<Item = Result<WalkEntry<'_>, DecodeError>> {
    let mut reader = Reader::new(fields);
    let mut failed = false;
    core::iter::from_fn(move || {
        if failed || reader.is_empty() {
            return None;
        }
        let entry = read_entry(&mut reader);
        failed = entry.is_err();
        Some(entry)
    })
}

fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<WalkEntry<'a>, DecodeError> {
    Ok(WalkEntry {
        code: Code(reader.u32()?),
        path: reader.string()?,
        attributes: Field::read(reader)?,
        allocated: reader.u64()?,
        text: reader.string()?,
        content: match reader.bool()? {
            true => Some(reader.string()?),
            false => None,
        },
    })
}
