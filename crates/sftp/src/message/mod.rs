//! One struct per message. A decoded struct borrows from its message.
//!
//! `encode_into` writes the whole message with its length field and request id. `decode` reads it
//! without the length field, which [`crate::frame`] has removed.

use alloc::vec::Vec;

use wire::{DecodeError, Put, Reader};

pub mod reply;
pub mod request;

pub(crate) use crate::framing::{framed, framed_with_id};
pub use crate::number;
pub use reply::Reply;
pub use request::Request;

/// Flags of OPEN (draft §6.3).
pub mod open_flag {
    /// Open for reading.
    pub const READ: u32 = 0x1;
    /// Open for writing.
    pub const WRITE: u32 = 0x2;
    /// Append each write to the file.
    pub const APPEND: u32 = 0x4;
    /// Create the file if it does not exist.
    pub const CREATE: u32 = 0x8;
    /// Truncate an existing file to length 0.
    pub const TRUNCATE: u32 = 0x10;
    /// With [`CREATE`]: fail if the file exists.
    pub const EXCLUSIVE: u32 = 0x20;
}

/// Why a message could not be decoded, with its request id for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Undecodable {
    /// The request id, if the message is long enough to hold one.
    pub id: Option<u32>,
    /// The message number; 0 for an empty message.
    pub number: u8,
    /// The error.
    pub error: DecodeError,
}

impl core::fmt::Display for Undecodable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "message {}: {}", self.number, self.error)
    }
}

impl core::error::Error for Undecodable {}

/// Reads a message with a request id but without its length field. Returns the id and the result of
/// `read`, which gets the message number and the fields.
fn decode_with_id<'a, M>(
    message: &'a [u8],
    read: impl FnOnce(u8, &mut Reader<'a>) -> Result<M, DecodeError>,
) -> Result<(u32, M), Undecodable> {
    let mut reader = Reader::new(message);
    let failed = |id, number| move |error| Undecodable { id, number, error };
    let number = reader.u8().map_err(failed(None, 0))?;
    let id = reader.u32().map_err(failed(None, number))?;
    let read = read(number, &mut reader).map_err(failed(Some(id), number))?;
    Ok((id, read))
}

/// INIT: a client's first message. INIT and VERSION alone have no request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// The highest version that the client supports.
    pub version: u32,
}

impl Init {
    /// Writes the message.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        framed(out, number::INIT, |out| out.put_u32(self.version));
    }

    /// Reads the message and ignores extensions after the version: none are defined for clients.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        match reader.u8()? {
            number::INIT => Ok(Self {
                version: reader.u32()?,
            }),
            got => Err(DecodeError::WrongMessage {
                expected: number::INIT,
                got,
            }),
        }
    }
}

/// VERSION: the answer to INIT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The version of the session.
    pub version: u32,
    /// Extensions: name and data (usually a version number).
    pub extensions: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Version {
    /// Maximum number of extensions kept; later ones are ignored.
    const MAX_EXTENSIONS: usize = 256;

    /// Writes a VERSION with these extensions.
    pub fn encode<'e>(
        version: u32,
        extensions: impl IntoIterator<Item = (&'e str, &'e str)>,
        out: &mut Vec<u8>,
    ) {
        framed(out, number::VERSION, |out| {
            out.put_u32(version);
            for (name, data) in extensions {
                out.put_string(name.as_bytes());
                out.put_string(data.as_bytes());
            }
        });
    }

    /// Reads the message.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(message: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(message);
        match reader.u8()? {
            number::VERSION => {}
            got => {
                return Err(DecodeError::WrongMessage {
                    expected: number::VERSION,
                    got,
                });
            }
        }
        let version = reader.u32()?;
        let mut extensions = Vec::new();
        while !reader.is_empty() && extensions.len() < Self::MAX_EXTENSIONS {
            extensions.push((reader.string()?.to_vec(), reader.string()?.to_vec()));
        }
        Ok(Self {
            version,
            extensions,
        })
    }

    /// Returns true if the server announced this extension in this version.
    #[must_use]
    pub fn has(&self, name: &str, version: &str) -> bool {
        self.extensions
            .iter()
            .any(|(each, data)| each == name.as_bytes() && data == version.as_bytes())
    }
}
