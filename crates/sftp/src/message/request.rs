//! Requests of a client (draft §6).

use alloc::vec::Vec;

use wire::{DecodeError, Field, Put, Reader};

use super::{Undecodable, decode_with_id, framed_with_id, number};
use crate::attributes::Attributes;
use crate::extension::Extended;

macro_rules! requests {
    ($( $(#[$doc:meta])* $name:ident = $number:ident {
        $( $(#[$fdoc:meta])* $field:ident : $type:ty ),* $(,)?
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name<'a> { $( $(#[$fdoc])* pub $field: $type, )* }

            impl $name<'_> {
                /// Appends the encoded message to `out`.
                pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
                    framed_with_id(out, number::$number, id, |out| {
                        $( Field::write(&self.$field, out); )*
                    });
                }
            }
        )*

        /// A request.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Request<'a> {
            $( $(#[$doc])* $name($name<'a>), )*
            /// EXTENDED with a known name.
            Extended(Extended<'a>),
            /// EXTENDED with an unknown name.
            UnknownExtension {
                /// The name; any bytes.
                name: &'a [u8],
            },
            /// A message number that is not a request's.
            Unknown {
                /// The message number.
                number: u8,
            },
        }

        impl<'a> Request<'a> {
            /// Appends the encoded message to `out`; nothing for an unknown request.
            pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
                match self {
                    $( Self::$name(request) => request.encode_into(id, out), )*
                    Self::Extended(request) => request.encode_into(id, out),
                    Self::UnknownExtension { .. } | Self::Unknown { .. } => {}
                }
            }

            fn read(number: u8, reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
                Ok(match number {
                    $( number::$number => Self::$name($name {
                        $( $field: Field::read(reader)?, )*
                    }), )*
                    number::EXTENDED => {
                        let name = reader.string()?;
                        match Extended::read(name, reader)? {
                            Some(extended) => Self::Extended(extended),
                            None => Self::UnknownExtension { name },
                        }
                    }
                    number => Self::Unknown { number },
                })
            }
        }
    };
}

requests! {
    /// OPEN, answered by HANDLE.
    Open = OPEN {
        /// The path.
        path: &'a [u8],
        /// Flags of [`super::open_flag`].
        flags: u32,
        /// Attributes of a file that the request creates.
        attributes: Attributes,
    }
    /// CLOSE.
    Close = CLOSE { /** The handle. */ handle: &'a [u8] }
    /// READ, answered by DATA, or by STATUS with EOF.
    Read = READ {
        /// The handle.
        handle: &'a [u8],
        /// Offset of the first byte.
        offset: u64,
        /// Maximum number of bytes to return.
        len: u32,
    }
    /// WRITE as one message; [`crate::frame`] passes the data in a stream on without collecting it.
    Write = WRITE {
        /// The handle.
        handle: &'a [u8],
        /// Offset of the first byte.
        offset: u64,
        /// The data.
        data: &'a [u8],
    }
    /// LSTAT, answered by ATTRS; symbolic links are not followed.
    Lstat = LSTAT { /** The path. */ path: &'a [u8] }
    /// FSTAT, answered by ATTRS.
    Fstat = FSTAT { /** The handle. */ handle: &'a [u8] }
    /// SETSTAT.
    Setstat = SETSTAT {
        /// The path; a symbolic link is followed.
        path: &'a [u8],
        /// The attributes to set.
        attributes: Attributes,
    }
    /// FSETSTAT.
    Fsetstat = FSETSTAT {
        /// The handle.
        handle: &'a [u8],
        /// The attributes to set.
        attributes: Attributes,
    }
    /// OPENDIR, answered by HANDLE.
    Opendir = OPENDIR { /** The directory. */ path: &'a [u8] }
    /// READDIR, answered by NAME; after the last entry by STATUS with EOF.
    Readdir = READDIR { /** The handle. */ handle: &'a [u8] }
    /// REMOVE; fails for a directory.
    Remove = REMOVE { /** The path. */ path: &'a [u8] }
    /// MKDIR.
    Mkdir = MKDIR {
        /// The directory.
        path: &'a [u8],
        /// Its attributes.
        attributes: Attributes,
    }
    /// RMDIR.
    Rmdir = RMDIR { /** The directory, which must be empty. */ path: &'a [u8] }
    /// REALPATH, answered by NAME with one entry.
    Realpath = REALPATH { /** The path to resolve. */ path: &'a [u8] }
    /// STAT, answered by ATTRS; symbolic links are followed.
    Stat = STAT { /** The path. */ path: &'a [u8] }
    /// RENAME; OpenSSH and Fulmar refuse it if the new path exists.
    Rename = RENAME {
        /// The current path.
        old: &'a [u8],
        /// The new path.
        new: &'a [u8],
    }
    /// READLINK, answered by NAME with one entry.
    Readlink = READLINK { /** The link. */ path: &'a [u8] }
    /// SYMLINK with OpenSSH's order of fields, which is the reverse of the draft's (PROTOCOL §4.1);
    /// other implementations follow OpenSSH.
    Symlink = SYMLINK {
        /// The target of the link.
        target: &'a [u8],
        /// The path of the link.
        link: &'a [u8],
    }
}

impl<'a> Request<'a> {
    /// Reads a message without its length field and returns its request id and content. INIT is not
    /// a request.
    ///
    /// # Errors
    /// [`Undecodable`], with the request id if the message holds one.
    pub fn decode(message: &'a [u8]) -> Result<(u32, Self), Undecodable> {
        decode_with_id(message, Self::read)
    }
}

/// Appends a WRITE up to its data to `out`; exactly `data_len` bytes must follow.
pub fn write_head(id: u32, handle: &[u8], offset: u64, data_len: u32, out: &mut Vec<u8>) {
    let handle_len = u32::try_from(handle.len()).expect("a handle has at most 256 bytes");
    out.put_u32(1 + 4 + 4 + handle_len + 8 + 4 + data_len);
    out.put_u8(number::WRITE);
    out.put_u32(id);
    out.put_string(handle);
    out.put_u64(offset);
    out.put_u32(data_len);
}
