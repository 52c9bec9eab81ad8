//! EXTENDED requests: OpenSSH's (PROTOCOL §4.2 to §4.12) and, from [`crate::own`], ours; and what
//! answers those of them that are not answered by STATUS.

use alloc::vec::Vec;

use wire::{DecodeError, Field, Put, Reader};

use crate::attributes::Attributes;
use crate::message::{framed_with_id, number};
use crate::own;

macro_rules! read_fields {
    ($name:ident, $reader:ident, $($field:ident),*) => {
        $name { $( $field: Field::read($reader)?, )* }
    };
}

macro_rules! extended {
    ($( $(#[$doc:meta])* $name:ident $(<$life:lifetime>)? = $text:expr, $version:literal {
        $( $(#[$fdoc:meta])* $field:ident : $type:ty ),* $(,)?
    } )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq)]
            pub struct $name $(<$life>)? { $( $(#[$fdoc])* pub $field: $type, )* }

            extended!(@encode $name [$($life)?] $text, { $($field),* });
        )*

        /// A request of an extension.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Extended<'a> {
            $( $(#[$doc])* $name($name $(<$life>)?), )*
        }

        impl<'a> Extended<'a> {
            /// Writes the message behind what is in `out`.
            pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
                match self {
                    $( Self::$name(request) => request.encode_into(id, out), )*
                }
            }

            /// The extension's name.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => $text, )*
                }
            }

            /// Reads the fields behind the name; none for a name that is not known.
            pub(crate) fn read(
                name: &[u8],
                reader: &mut Reader<'a>,
            ) -> Result<Option<Self>, DecodeError> {
                $(
                    if name == $text.as_bytes() {
                        return Ok(Some(Self::$name(read_fields!($name, reader, $($field),*))));
                    }
                )*
                Ok(None)
            }
        }

        /// Every extension that is known here, with the version that is spoken.
        pub const EXTENSIONS: &[(&str, &str)] = &[ $( ($text, $version), )* ];
    };
    (@encode $name:ident [$($life:lifetime)?] $text:expr, { $($field:ident),* }) => {
        impl $(<$life>)? $name $(<$life>)? {
            /// Writes the message behind what is in `out`.
            pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
                framed_with_id(out, number::EXTENDED, id, |out| {
                    out.put_string($text.as_bytes());
                    $( Field::write(&self.$field, out); )*
                });
            }
        }
    };
}

/// `posix-rename@openssh.com`
pub const POSIX_RENAME: &str = "posix-rename@openssh.com";
/// `statvfs@openssh.com`
pub const STATVFS: &str = "statvfs@openssh.com";
/// `fstatvfs@openssh.com`
pub const FSTATVFS: &str = "fstatvfs@openssh.com";
/// `hardlink@openssh.com`
pub const HARDLINK: &str = "hardlink@openssh.com";
/// `fsync@openssh.com`
pub const FSYNC: &str = "fsync@openssh.com";
/// `lsetstat@openssh.com`
pub const LSETSTAT: &str = "lsetstat@openssh.com";
/// `limits@openssh.com`
pub const LIMITS: &str = "limits@openssh.com";
/// `expand-path@openssh.com`
pub const EXPAND_PATH: &str = "expand-path@openssh.com";
/// `copy-data` (draft-ietf-secsh-filexfer-extensions-00 §7)
pub const COPY_DATA: &str = "copy-data";
/// `home-directory` (draft-ietf-secsh-filexfer-extensions-00 §5)
pub const HOME_DIRECTORY: &str = "home-directory";
/// `users-groups-by-id@openssh.com`
pub const USERS_GROUPS_BY_ID: &str = "users-groups-by-id@openssh.com";

extended! {
    /// rename(2): what has the new name is replaced.
    PosixRename<'a> = POSIX_RENAME, "1" {
        /// What it is called.
        old: &'a [u8],
        /// What it will be called.
        new: &'a [u8],
    }
    /// statvfs(2): answered by [`FileSystem`].
    Statvfs<'a> = STATVFS, "2" { /** Any file there. */ path: &'a [u8] }
    /// fstatvfs(2): answered by [`FileSystem`].
    Fstatvfs<'a> = FSTATVFS, "2" { /** From HANDLE. */ handle: &'a [u8] }
    /// link(2).
    Hardlink<'a> = HARDLINK, "1" {
        /// The file.
        old: &'a [u8],
        /// Its further name.
        new: &'a [u8],
    }
    /// fsync(2).
    Fsync<'a> = FSYNC, "1" { /** From HANDLE. */ handle: &'a [u8] }
    /// SETSTAT of a link itself.
    Lsetstat<'a> = LSETSTAT, "1" {
        /// The file.
        path: &'a [u8],
        /// What to set.
        attributes: Attributes,
    }
    /// Answered by [`Limits`].
    GetLimits = LIMITS, "1" {}
    /// REALPATH with a leading `~` or `~user` expanded: answered by NAME.
    ExpandPath<'a> = EXPAND_PATH, "1" { /** Any path. */ path: &'a [u8] }
    /// Copies within the server.
    CopyData<'a> = COPY_DATA, "1" {
        /// From HANDLE.
        from: &'a [u8],
        /// First byte.
        from_offset: u64,
        /// Bytes; 0 for all up to the end of the file.
        len: u64,
        /// From HANDLE; another file, or a range that does not overlap.
        to: &'a [u8],
        /// Where they go.
        to_offset: u64,
    }
    /// A user's home: answered by NAME.
    HomeDirectory<'a> = HOME_DIRECTORY, "1" { /** The user; empty for the own. */ user: &'a [u8] }
    /// Names for numbers: answered by [`UserGroupNames`].
    UsersGroupsById<'a> = USERS_GROUPS_BY_ID, "1" {
        /// `uint32` after `uint32`.
        uids: &'a [u8],
        /// `uint32` after `uint32`.
        gids: &'a [u8],
    }
    /// See [`own::EXACT_TIMES`].
    SetExactTimes = own::EXACT_TIMES, "1" { /** Whether attributes carry them from here on. */ on: bool }
    /// See [`own::CANCEL`].
    Cancel = own::CANCEL, "1" { /** The request that is to end. */ request: u32 }
    /// See [`own::HASH_RANGE`].
    HashRange<'a> = own::HASH_RANGE, "1" {
        /// From HANDLE, open for reading.
        handle: &'a [u8],
        /// First byte.
        offset: u64,
        /// Bytes; those behind the end of the file are not there.
        len: u64,
        /// Bytes in a block, at least [`own::MIN_HASH_BLOCK_BYTES`]; 0 for one hash over all.
        block_len: u64,
    }
    /// See [`own::READ_RANGE`].
    ReadRange<'a> = own::READ_RANGE, "1" {
        /// From HANDLE, open for reading.
        handle: &'a [u8],
        /// First byte.
        offset: u64,
        /// Bytes; those behind the end of the file are not there.
        len: u64,
        /// Of [`own::read_flag`].
        flags: u32,
    }
    /// See [`own::OPEN_READ`].
    OpenRead<'a> = own::OPEN_READ, "1" {
        /// The file.
        path: &'a [u8],
        /// None is known: 0.
        flags: u32,
        /// Bytes; those behind the end of the file are not there.
        len: u64,
    }
    /// See [`own::PUT_FILE`].
    PutFile<'a> = own::PUT_FILE, "1" {
        /// The file.
        path: &'a [u8],
        /// Of [`own::put_flag`].
        flags: u32,
        /// Its mode, and with [`own::put_flag::EXACT`] everything else that is set.
        attributes: Attributes,
        /// The whole content.
        data: &'a [u8],
    }
    /// See [`own::GET_FILE`].
    GetFile<'a> = own::GET_FILE, "1" {
        /// The file.
        path: &'a [u8],
        /// Of [`own::get_flag`].
        flags: u32,
        /// A longer file's content is not sent, bytes.
        max_len: u32,
    }
    /// See [`own::WALK`].
    Walk<'a> = own::WALK, "2" {
        /// The directory.
        path: &'a [u8],
        /// Of [`own::walk_flag`].
        flags: u32,
        /// A longer file's content does not come along, bytes.
        max_len: u32,
        /// So much may be sent before [`WalkOn`] asks for more: the lengths of the answers'
        /// fields, and [`own::ENTRY_CHARGE_BYTES`] for each entry without content. The last answer
        /// may exceed it; that is taken from what is granted next.
        window: u64,
    }
    /// See [`own::WALK_ON`].
    WalkOn = own::WALK_ON, "1" {
        /// The [`Walk`] that may go on.
        request: u32,
        /// How much more it may send, counted as its window is.
        more: u64,
    }
}

/// The answer to `limits@openssh.com`. Zero: no limit that the server could name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest message, bytes.
    pub max_message_bytes: u64,
    /// Most bytes that a READ brings.
    pub max_read_bytes: u64,
    /// Most bytes that a WRITE takes.
    pub max_write_bytes: u64,
    /// Most handles open at once.
    pub max_handles: u64,
}

/// The answer to `statvfs@openssh.com`; fields as in statvfs(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct FileSystem {
    pub block_size: u64,
    pub fragment_size: u64,
    pub blocks: u64,
    pub blocks_free: u64,
    pub blocks_available: u64,
    pub files: u64,
    pub files_free: u64,
    pub files_available: u64,
    pub id: u64,
    pub flags: u64,
    pub name_max: u64,
}

/// Flags of [`FileSystem::flags`].
pub mod file_system_flag {
    /// Read-only.
    pub const READ_ONLY: u64 = 1;
    /// No setuid.
    pub const NO_SETUID: u64 = 2;
}

macro_rules! numbers {
    ($name:ident { $($field:ident),* }) => {
        impl $name {
            /// Writes the fields behind what is in `out`.
            pub fn write(&self, out: &mut Vec<u8>) {
                $( out.put_u64(self.$field); )*
            }

            /// Reads what stands in an EXTENDED_REPLY.
            ///
            /// # Errors
            /// [`DecodeError`].
            pub fn decode(fields: &[u8]) -> Result<Self, DecodeError> {
                let mut reader = Reader::new(fields);
                Ok(Self { $( $field: reader.u64()?, )* })
            }
        }
    };
}

numbers!(Limits {
    max_message_bytes,
    max_read_bytes,
    max_write_bytes,
    max_handles
});
numbers!(FileSystem {
    block_size,
    fragment_size,
    blocks,
    blocks_free,
    blocks_available,
    files,
    files_free,
    files_available,
    id,
    flags,
    name_max
});

/// The answer to `users-groups-by-id@openssh.com`: `string` after `string` in each, in the order
/// of the numbers, empty where there is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserGroupNames<'a> {
    /// Of users.
    pub users: &'a [u8],
    /// Of groups.
    pub groups: &'a [u8],
}

impl<'a> UserGroupNames<'a> {
    /// Writes the fields behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.users);
        out.put_string(self.groups);
    }

    /// Reads what stands in an EXTENDED_REPLY.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(fields: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(fields);
        Ok(Self {
            users: reader.string()?,
            groups: reader.string()?,
        })
    }
}

/// The strings that a list holds, up to the first that cannot be read.
pub fn strings(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(list);
    core::iter::from_fn(move || reader.string().ok())
}
