//! EXTENDED requests of OpenSSH (PROTOCOL §4.2 to §4.12) and of Fulmar ([`crate::vendor`]), and the
//! EXTENDED_REPLY fields that answer them.

use alloc::vec::Vec;

use wire::{DecodeError, Field, Put, Reader};

use crate::attributes::Attributes;
use crate::framing::framed_with_id;
use crate::number;
use crate::vendor;

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
            /// Appends the encoded message to `out`.
            pub fn encode_into(&self, id: u32, out: &mut Vec<u8>) {
                match self {
                    $( Self::$name(request) => request.encode_into(id, out), )*
                }
            }

            /// Returns the extension's name on the wire.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$name(_) => $text, )*
                }
            }

            /// Reads the fields that follow the name; `None` for an unknown name.
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

        /// Name and version of every extension in this table.
        pub const EXTENSIONS: &[(&str, &str)] = &[ $( ($text, $version), )* ];
    };
    (@encode $name:ident [$($life:lifetime)?] $text:expr, { $($field:ident),* }) => {
        impl $(<$life>)? $name $(<$life>)? {
            /// Appends the encoded message to `out`.
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
    /// rename(2): replaces an existing file of the new name.
    PosixRename<'a> = POSIX_RENAME, "1" {
        /// The current path.
        old: &'a [u8],
        /// The new path.
        new: &'a [u8],
    }
    /// statvfs(2), answered by [`FileSystem`].
    Statvfs<'a> = STATVFS, "2" { /** Any file of the file system. */ path: &'a [u8] }
    /// fstatvfs(2), answered by [`FileSystem`].
    Fstatvfs<'a> = FSTATVFS, "2" { /** The handle, from HANDLE. */ handle: &'a [u8] }
    /// link(2).
    Hardlink<'a> = HARDLINK, "1" {
        /// The existing path.
        old: &'a [u8],
        /// The path of the new link.
        new: &'a [u8],
    }
    /// fsync(2).
    Fsync<'a> = FSYNC, "1" { /** The handle, from HANDLE. */ handle: &'a [u8] }
    /// SETSTAT that does not follow a symbolic link.
    Lsetstat<'a> = LSETSTAT, "1" {
        /// The path.
        path: &'a [u8],
        /// The attributes to set.
        attributes: Attributes,
    }
    /// Asks for the server's limits; answered by [`Limits`].
    GetLimits = LIMITS, "1" {}
    /// REALPATH that also expands a leading `~` or `~user`; answered by NAME.
    ExpandPath<'a> = EXPAND_PATH, "1" { /** The path to expand. */ path: &'a [u8] }
    /// Copies a range between two open files on the server.
    CopyData<'a> = COPY_DATA, "1" {
        /// The handle to read from.
        from: &'a [u8],
        /// Offset of the first byte.
        from_offset: u64,
        /// Number of bytes; 0 for all up to the end of the file.
        len: u64,
        /// The handle to write to: of another file, or of the same one if the ranges do not
        /// overlap.
        to: &'a [u8],
        /// Offset of the first byte written.
        to_offset: u64,
    }
    /// Asks for a user's home directory; answered by NAME.
    HomeDirectory<'a> = HOME_DIRECTORY, "1" { /** Empty: the session's user. */ user: &'a [u8] }
    /// Asks for the names of user and group ids; answered by [`UserGroupNames`].
    UsersGroupsById<'a> = USERS_GROUPS_BY_ID, "1" {
        /// User ids, a sequence of `uint32`.
        uids: &'a [u8],
        /// Group ids, a sequence of `uint32`.
        gids: &'a [u8],
    }
    /// See [`vendor::EXACT_TIMES`].
    SetExactTimes = vendor::EXACT_TIMES, "1" { /** True if later ATTRS carry exact times. */ on: bool }
    /// See [`vendor::CANCEL`].
    Cancel = vendor::CANCEL, "1" { /** Id of the request to end. */ request: u32 }
    /// See [`vendor::HASH_RANGE`].
    HashRange<'a> = vendor::HASH_RANGE, "1" {
        /// The handle of a file open for reading.
        handle: &'a [u8],
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes; a range that passes the end of the file is cut there.
        len: u64,
        /// Bytes per hashed block, at least [`vendor::MIN_HASH_BLOCK_BYTES`]; 0 for one hash over the
        /// whole range.
        block_len: u64,
    }
    /// See [`vendor::READ_RANGE`].
    ReadRange<'a> = vendor::READ_RANGE, "1" {
        /// The handle of a file open for reading.
        handle: &'a [u8],
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes; a range that passes the end of the file is cut there.
        len: u64,
        /// Flags of [`vendor::read_flag`].
        flags: u32,
    }
    /// See [`vendor::OPEN_READ`].
    OpenRead<'a> = vendor::OPEN_READ, "1" {
        /// The path.
        path: &'a [u8],
        /// Must be 0: no flag is defined.
        flags: u32,
        /// Number of bytes; a range that passes the end of the file is cut there.
        len: u64,
    }
    /// See [`vendor::PUT_FILE`].
    PutFile<'a> = vendor::PUT_FILE, "1" {
        /// The path.
        path: &'a [u8],
        /// Flags of [`vendor::put_flag`].
        flags: u32,
        /// Mode of the new file; with [`vendor::put_flag::EXACT`], all attributes to set after the
        /// write.
        attributes: Attributes,
        /// The whole content.
        data: &'a [u8],
    }
    /// See [`vendor::WALK`].
    Walk<'a> = vendor::WALK, "2" {
        /// The directory.
        path: &'a [u8],
        /// Flags of [`vendor::walk_flag`].
        flags: u32,
        /// Maximum length of included content, bytes; a longer file is listed without content.
        max_len: u32,
        /// Window of the answer, bytes: the server may send this much before [`WalkOn`] grants
        /// more. Each EXTENDED_REPLY counts with the length of its fields, and each entry without
        /// content with [`vendor::ENTRY_CHARGE_BYTES`] more. The last answer may exceed the window;
        /// the excess is deducted from the next grant.
        window: u64,
    }
    /// See [`vendor::WALK_ON`].
    WalkOn = vendor::WALK_ON, "1" {
        /// Id of the [`Walk`] request.
        request: u32,
        /// Bytes added to the window of the [`Walk`].
        more: u64,
    }
}

/// The answer to `limits@openssh.com`. 0 means that the server states no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of a message, bytes.
    pub max_message_bytes: u64,
    /// Maximum length of a READ, bytes.
    pub max_read_bytes: u64,
    /// Maximum length of a WRITE, bytes.
    pub max_write_bytes: u64,
    /// Maximum number of open handles.
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
    /// The file system is mounted read-only.
    pub const READ_ONLY: u64 = 1;
    /// setuid and setgid bits have no effect.
    pub const NO_SETUID: u64 = 2;
}

macro_rules! numbers {
    ($name:ident { $($field:ident),* }) => {
        impl $name {
            /// Appends the fields to `out`.
            pub fn write(&self, out: &mut Vec<u8>) {
                $( out.put_u64(self.$field); )*
            }

            /// Reads the fields of an EXTENDED_REPLY.
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

/// The answer to `users-groups-by-id@openssh.com`: two sequences of `string`, in the order of the
/// ids asked for; an id without a name gives an empty string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserGroupNames<'a> {
    /// Names of users.
    pub users: &'a [u8],
    /// Names of groups.
    pub groups: &'a [u8],
}

impl<'a> UserGroupNames<'a> {
    /// Appends the fields to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_string(self.users);
        out.put_string(self.groups);
    }

    /// Reads the fields of an EXTENDED_REPLY.
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

/// Iterates over the strings of `list`, up to the first that cannot be read.
pub fn strings(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut reader = Reader::new(list);
    core::iter::from_fn(move || reader.string().ok())
}
