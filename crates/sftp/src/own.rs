//! Our own extensions, under [`wire::EXTENSION_DOMAIN`]; docs/PROTOCOL.md describes them. A server
//! that has them names them in VERSION with their version.
//!
//! Three of them are answered by more than one message with the same id: [`READ_RANGE`],
//! [`OPEN_READ`] and [`WALK`]. STATUS is the last one always, with OK when everything was sent. Others' answers may
//! come between. [`CANCEL`] ends them.

use alloc::vec::Vec;

use wire::{DecodeError, EXTENSION_DOMAIN, Field, Put, Reader};

use crate::attributes::Attributes;
use crate::status::Code;

/// `name@domain` as bytes.
const fn joined<const N: usize>(name: &str) -> [u8; N] {
    let (name, domain) = (name.as_bytes(), EXTENSION_DOMAIN.as_bytes());
    let mut out = [b'@'; N];
    let mut at = 0;
    while at < name.len() {
        out[at] = name[at];
        at += 1;
    }
    let mut from = 0;
    while from < domain.len() {
        out[at + 1 + from] = domain[from];
        from += 1;
    }
    out
}

macro_rules! names {
    ($( $(#[$doc:meta])* $name:ident = $text:literal; )*) => {$(
        $(#[$doc])*
        pub const $name: &str = {
            const BYTES: [u8; $text.len() + 1 + EXTENSION_DOMAIN.len()] = joined($text);
            match core::str::from_utf8(&BYTES) {
                Ok(name) => name,
                Err(_) => panic!("names are ASCII"),
            }
        };
    )*};
}

names! {
    /// Times to the nanosecond: the name of an attribute (two times, each an `int64` of seconds
    /// and a `uint32` of nanoseconds: access, modification), and of the request that makes the
    /// server send it. It is understood in what a client sets without that.
    EXACT_TIMES = "exact-times";
    /// The name of an attribute of OPEN, without data: nobody else is to write the file until CLOSE. If
    /// somebody does, WRITE, FSETSTAT and CLOSE of this handle fail.
    SOLE_WRITER = "sole-writer";
    /// Ends a request that is answered by many messages: its STATUS comes soon, then this one's.
    CANCEL = "cancel";
    /// BLAKE3 of a range of a file: answered by EXTENDED_REPLY ([`super::own::Hashes`]).
    HASH_RANGE = "hash-range";
    /// A range of a file as DATA after DATA, and [`Hole`] in EXTENDED_REPLY where the client
    /// wants to know of holes; each begins where the one before ended.
    READ_RANGE = "read-range";
    /// Opens a file and reads it from its beginning: [`Opened`] in EXTENDED_REPLY, then its bytes
    /// as [`READ_RANGE`] sends them. It stays open.
    OPEN_READ = "open-read";
    /// Makes a file, writes it and closes it: answered by STATUS.
    PUT_FILE = "put-file";
    /// Opens a file, reads it and closes it: answered by EXTENDED_REPLY ([`File`]).
    GET_FILE = "get-file";
    /// A directory and all that is below it, as [`Entry`] after [`Entry`] in EXTENDED_REPLY after
    /// EXTENDED_REPLY; a directory stands before what is in it, and all of that before what is
    /// beside it.
    WALK = "walk";
    /// Lets a [`WALK`] send more: answered by STATUS.
    WALK_ON = "walk-on";
}

/// Length of a hash, bytes.
pub const HASH_BYTES: usize = 32;
/// Shortest block that is hashed by itself, bytes.
pub const MIN_HASH_BLOCK_BYTES: u64 = 64 * 1024;
/// Most blocks in one request: what fits in a message.
pub const MAX_HASH_BLOCKS: u64 = 8000;

/// Flags of [`READ_RANGE`].
pub mod read_flag {
    /// Holes are told, not sent as zeros.
    pub const HOLES: u32 = 1;
}

/// Flags of [`PUT_FILE`].
pub mod put_flag {
    /// There must be no file of this name.
    pub const EXCLUSIVE: u32 = 1;
    /// Behind the content, the attributes are set as FSETSTAT does, whatever the umask.
    pub const EXACT: u32 = 2;
    /// The content is on the disk before the answer is sent.
    pub const SYNC: u32 = 4;
}

/// Flags of [`GET_FILE`].
pub mod get_flag {
    /// A link is not followed, but refused.
    pub const NO_FOLLOW: u32 = 1;
}

/// Flags of [`WALK`].
pub mod walk_flag {
    /// What links point to stands in their place; a directory that is on the way already is not
    /// entered again.
    pub const FOLLOW: u32 = 1;
    /// What regular files hold comes with them.
    pub const CONTENT: u32 = 2;
}

/// Directories within directories that [`WALK`] enters; deeper ones are told only.
pub const WALK_DEPTH: usize = 64;

/// What an entry whose content does not come with it is counted for besides its own length, bytes:
/// whoever takes it in has to remember it.
pub const ENTRY_CHARGE_BYTES: u64 = 1024;

/// The answer to [`HASH_RANGE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashes<'a> {
    /// Bytes that were there and are hashed.
    pub len: u64,
    /// [`HASH_BYTES`] for each block, of which the last may be short; at least one.
    pub hashes: &'a [u8],
}

impl<'a> Hashes<'a> {
    /// Writes the fields behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.len);
        out.put_string(self.hashes);
    }

    /// Reads what stands in an EXTENDED_REPLY.
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

/// A hole in what [`READ_RANGE`] sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Bytes.
    pub len: u64,
}

impl Hole {
    /// Writes the fields behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u64(self.len);
    }

    /// Reads what stands in an EXTENDED_REPLY.
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
pub struct Opened<'a> {
    /// As FSTAT would tell them, or STAT of what is no regular file.
    pub attributes: Attributes,
    /// From here on as from HANDLE. Empty for what is no regular file: that was not opened, and no
    /// DATA follow.
    pub handle: &'a [u8],
}

impl<'a> Opened<'a> {
    /// Reads what stands in an EXTENDED_REPLY.
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

    /// Writes the fields behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.attributes.write(out);
        out.put_string(self.handle);
    }
}

/// The answer to [`GET_FILE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File<'a> {
    /// As FSTAT would tell them.
    pub attributes: Attributes,
    /// The whole content was sent. If not, the file is longer than what was asked for, or no
    /// regular file, and `data` is empty.
    pub is_whole: bool,
    /// The content.
    pub data: &'a [u8],
}

impl<'a> File<'a> {
    /// Reads what stands in an EXTENDED_REPLY.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        Ok(Self {
            attributes: Field::read(&mut reader)?,
            is_whole: reader.bool()?,
            data: reader.string()?,
        })
    }

    /// Writes the fields behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.attributes.write(out);
        out.put_bool(self.is_whole);
        out.put_string(self.data);
    }
}

/// One of what [`WALK`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// OK, or why nothing more is known of it, or of what is in it.
    pub code: Code,
    /// From the directory that was asked for: names parted by `/`, empty for itself.
    pub path: &'a [u8],
    /// As LSTAT (with [`walk_flag::FOLLOW`], STAT) would tell them.
    pub attributes: Attributes,
    /// Bytes that the file takes on the disk; less than its size where it has holes.
    pub allocated: u64,
    /// What a link says; for an error, its text; else empty.
    pub text: &'a [u8],
    /// All that a regular file holds, if it comes along.
    pub content: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Writes the entry behind what is in `out`.
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

/// The entries in an EXTENDED_REPLY to [`WALK`], up to the first that cannot be read.
pub fn entries(fields: &[u8]) -> impl Iterator<Item = Result<Entry<'_>, DecodeError>> {
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

fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>, DecodeError> {
    Ok(Entry {
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
