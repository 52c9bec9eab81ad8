//! Replies of a server (draft §7).

use alloc::vec::Vec;

use wire::{DecodeError, Field, Put, Reader};

use super::{Undecodable, decode_with_id, framed_with_id, number};
use crate::attributes::Attributes;
use crate::status::Code;

/// STATUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status<'a> {
    /// The result.
    pub code: Code,
    /// Text for the user, any bytes; empty if the server sends none.
    pub message: &'a [u8],
}

impl Status<'_> {
    /// Appends the encoded message to `out`.
    pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
        framed_with_id(out, number::STATUS, id, |out| {
            out.put_u32(self.code.0);
            out.put_string(self.message);
            out.put_string(b"");
        });
    }
}

/// HANDLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handle<'a> {
    /// Opaque; at most 256 bytes.
    pub handle: &'a [u8],
}

impl Handle<'_> {
    /// Appends the encoded message to `out`.
    pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
        framed_with_id(out, number::HANDLE, id, |out| {
            out.put_string(self.handle);
        });
    }
}

/// Length of a DATA up to its data, with the length field, bytes.
pub const DATA_HEAD_BYTES: usize = 13;

/// Returns the bytes of a DATA up to its data; exactly `data_len` bytes must follow.
#[must_use]
pub fn data_head(id: u32, data_len: u32) -> [u8; DATA_HEAD_BYTES] {
    let mut head = [0; DATA_HEAD_BYTES];
    let (len, rest) = head.split_at_mut(4);
    len.copy_from_slice(&(data_len + 9).to_be_bytes());
    let (number, rest) = rest.split_at_mut(1);
    number.copy_from_slice(&[number::DATA]);
    let (head_id, head_len) = rest.split_at_mut(4);
    head_id.copy_from_slice(&id.to_be_bytes());
    head_len.copy_from_slice(&data_len.to_be_bytes());
    head
}

/// One entry of a NAME.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameEntry<'a> {
    /// A name in a directory, or a path.
    pub name: &'a [u8],
    /// The line that `ls -l` would print; text from the peer.
    pub long_name: &'a [u8],
    /// The attributes of the file.
    pub attributes: Attributes,
}

impl NameEntry<'_> {
    /// Appends the entry to `out`.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.put_string(self.name);
        out.put_string(self.long_name);
        self.attributes.write(out);
    }
}

/// NAME; [`Names::iter`] decodes its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names<'a> {
    count: u32,
    reader: &'a [u8],
}

impl<'a> Names<'a> {
    /// Appends a NAME whose entries [`NameEntry::encode_into`] has written to `encoded`.
    pub fn encode_into(id: u32, count: u32, encoded: &[u8], out: &mut Vec<u8>) {
        framed_with_id(out, number::NAME, id, |out| {
            out.put_u32(count);
            out.extend_from_slice(encoded);
        });
    }

    /// Appends a NAME of one path without attributes, as REALPATH is answered; the path is also its
    /// long name.
    pub fn encode_path_into(id: u32, path: &[u8], out: &mut Vec<u8>) {
        let mut entry = Vec::new();
        NameEntry {
            name: path,
            long_name: path,
            attributes: Attributes::NONE,
        }
        .encode_into(&mut entry);
        Self::encode_into(id, 1, &entry, out);
    }

    /// Number of entries that the server states; the message may hold fewer.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Iterates over the entries; the first that cannot be read ends the iteration with its error.
    pub fn iter(&self) -> impl Iterator<Item = Result<NameEntry<'a>, DecodeError>> + use<'a> {
        let mut reader = Reader::new(self.reader);
        let mut left = self.count;
        core::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let entry = read_entry(&mut reader);
            if entry.is_err() {
                left = 0;
            }
            Some(entry)
        })
    }
}

fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<NameEntry<'a>, DecodeError> {
    Ok(NameEntry {
        name: reader.string()?,
        long_name: reader.string()?,
        attributes: Field::read(reader)?,
    })
}

/// Appends an ATTRS to `out`.
pub fn encode_attrs(id: u32, attributes: &Attributes, out: &mut Vec<u8>) {
    framed_with_id(out, number::ATTRS, id, |out| {
        attributes.write(out);
    });
}

/// Appends an EXTENDED_REPLY with the fields that `fields` appends.
pub fn encode_extended(id: u32, out: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    framed_with_id(out, number::EXTENDED_REPLY, id, fields);
}

/// A reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// STATUS.
    Status(Status<'a>),
    /// HANDLE.
    Handle(Handle<'a>),
    /// DATA as one message; [`crate::frame`] passes the data in a stream on without collecting it.
    Data(&'a [u8]),
    /// NAME.
    Names(Names<'a>),
    /// ATTRS.
    Attrs(Attributes),
    /// EXTENDED_REPLY: its fields, whose form depends on the request ([`crate::extension`],
    /// [`crate::vendor`]).
    Extended(&'a [u8]),
}

impl<'a> Reply<'a> {
    /// Reads a message without its length field and returns its request id and content. VERSION is
    /// not a reply.
    ///
    /// # Errors
    /// [`Undecodable`], also for a message number that is not a reply's.
    pub fn decode(message: &'a [u8]) -> Result<(u32, Self), Undecodable> {
        decode_with_id(message, Self::read)
    }

    fn read(number: u8, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(match number {
            number::STATUS => {
                let code = Code(reader.u32()?);
                // Servers before version 3 send no text.
                let message = if reader.is_empty() {
                    b"".as_slice()
                } else {
                    reader.string()?
                };
                Self::Status(Status { code, message })
            }
            number::HANDLE => Self::Handle(Handle {
                handle: reader.string_max(crate::MAX_HANDLE_BYTES)?,
            }),
            number::DATA => Self::Data(reader.string()?),
            number::NAME => Self::Names(Names {
                count: reader.u32()?,
                reader: reader.rest(),
            }),
            number::ATTRS => Self::Attrs(Field::read(reader)?),
            number::EXTENDED_REPLY => Self::Extended(reader.rest()),
            _ => return Err(DecodeError::Malformed("not a reply")),
        })
    }
}
