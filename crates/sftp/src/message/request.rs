//! What a client asks (draft §6).

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
                /// Writes the message behind what is in `out`.
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
            /// EXTENDED with a name that is known here.
            Extended(Extended<'a>),
            /// EXTENDED with another name.
            UnknownExtension {
                /// The name, any bytes.
                name: &'a [u8],
            },
            /// A number that is no request's.
            Unknown {
                /// The number.
                number: u8,
            },
        }

        impl<'a> Request<'a> {
            /// Writes the message behind what is in `out`; those that are unknown are not
            /// written.
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
    /// OPEN: answered by HANDLE.
    Open = OPEN {
        /// The file.
        path: &'a [u8],
        /// Of [`super::open_flag`].
        flags: u32,
        /// For a file that is made.
        attributes: Attributes,
    }
    /// CLOSE.
    Close = CLOSE { /** From HANDLE. */ handle: &'a [u8] }
    /// READ: answered by DATA, or STATUS with EOF.
    Read = READ {
        /// From HANDLE.
        handle: &'a [u8],
        /// First byte.
        offset: u64,
        /// Most bytes that are wanted.
        len: u32,
    }
    /// WRITE. A stream's are cut by [`crate::frame`], which does not gather their data.
    Write = WRITE {
        /// From HANDLE.
        handle: &'a [u8],
        /// Where the data go.
        offset: u64,
        /// The data.
        data: &'a [u8],
    }
    /// LSTAT: answered by ATTRS, of a link itself.
    Lstat = LSTAT { /** The file. */ path: &'a [u8] }
    /// FSTAT: answered by ATTRS.
    Fstat = FSTAT { /** From HANDLE. */ handle: &'a [u8] }
    /// SETSTAT.
    Setstat = SETSTAT {
        /// The file; a link is followed.
        path: &'a [u8],
        /// What to set.
        attributes: Attributes,
    }
    /// FSETSTAT.
    Fsetstat = FSETSTAT {
        /// From HANDLE.
        handle: &'a [u8],
        /// What to set.
        attributes: Attributes,
    }
    /// OPENDIR: answered by HANDLE.
    Opendir = OPENDIR { /** The directory. */ path: &'a [u8] }
    /// READDIR: answered by NAME, or STATUS with EOF behind the last.
    Readdir = READDIR { /** From HANDLE. */ handle: &'a [u8] }
    /// REMOVE: not for directories.
    Remove = REMOVE { /** The file. */ path: &'a [u8] }
    /// MKDIR.
    Mkdir = MKDIR {
        /// The directory.
        path: &'a [u8],
        /// Its mode.
        attributes: Attributes,
    }
    /// RMDIR.
    Rmdir = RMDIR { /** The directory, which must be empty. */ path: &'a [u8] }
    /// REALPATH: answered by NAME with one name.
    Realpath = REALPATH { /** Any path. */ path: &'a [u8] }
    /// STAT: answered by ATTRS; links are followed.
    Stat = STAT { /** The file. */ path: &'a [u8] }
    /// RENAME: refused where the new name exists (with OpenSSH and with us).
    Rename = RENAME {
        /// What it is called.
        old: &'a [u8],
        /// What it will be called.
        new: &'a [u8],
    }
    /// READLINK: answered by NAME with one name.
    Readlink = READLINK { /** The link. */ path: &'a [u8] }
    /// SYMLINK, in OpenSSH's order of fields, which is not the draft's (PROTOCOL §4.1) and is
    /// what everybody sends and expects.
    Symlink = SYMLINK {
        /// What the link says.
        target: &'a [u8],
        /// Where it is made.
        link: &'a [u8],
    }
}

impl<'a> Request<'a> {
    /// Reads a message without its length field; its id comes first. INIT is no request.
    ///
    /// # Errors
    /// [`Undecodable`], with the id where there was one.
    pub fn decode(message: &'a [u8]) -> Result<(u32, Self), Undecodable> {
        decode_with_id(message, Self::read)
    }
}

/// Longest head of a WRITE, bytes, its length field included.
pub const MAX_WRITE_HEAD_BYTES: usize = 4 + 1 + 4 + 4 + crate::MAX_HANDLE_BYTES + 8 + 4;

/// Writes a WRITE up to its data, of which exactly `data_len` bytes must follow.
pub fn write_head(id: u32, handle: &[u8], offset: u64, data_len: u32, out: &mut Vec<u8>) {
    let handle_len = u32::try_from(handle.len()).expect("a handle has at most 256 bytes");
    out.put_u32(1 + 4 + 4 + handle_len + 8 + 4 + data_len);
    out.put_u8(number::WRITE);
    out.put_u32(id);
    out.put_string(handle);
    out.put_u64(offset);
    out.put_u32(data_len);
}
