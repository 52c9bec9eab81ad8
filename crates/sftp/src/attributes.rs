//! ATTRS (draft §5): the attributes of a file, or those to be set.

use alloc::vec::Vec;

use wire::{DecodeError, Field, Put, Reader};

use crate::names as vendor;

const SIZE: u32 = 0x1;
const OWNER: u32 = 0x2;
const PERMISSIONS: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;

/// Numeric ids of the owning user and group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Access and modification time in whole seconds since 1970, as version 3 encodes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Times {
    /// Last access.
    pub accessed: u32,
    /// Last modification of the content.
    pub modified: u32,
}

/// A time with nanosecond resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Seconds since 1970; negative before.
    pub seconds: i64,
    /// Nanoseconds within the second, 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Access and modification time with nanosecond resolution: an extended attribute of Fulmar
/// (docs/PROTOCOL.md).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExactTimes {
    /// Last access.
    pub accessed: Timestamp,
    /// Last modification of the content.
    pub modified: Timestamp,
}

impl From<ExactTimes> for Times {
    /// Drops the nanoseconds and clamps the seconds to the range 1970 to 2106.
    fn from(exact: ExactTimes) -> Self {
        let cut = |at: Timestamp| {
            let seconds = at.seconds.clamp(0, i64::from(u32::MAX));
            u32::try_from(seconds).unwrap_or(u32::MAX)
        };
        Self {
            accessed: cut(exact.accessed),
            modified: cut(exact.modified),
        }
    }
}

/// ATTRS (draft-ietf-secsh-filexfer-02 §5): `None` fields are absent from the message. Extended
/// attributes of other vendors are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Length of the file, bytes.
    pub size: Option<u64>,
    /// Owning user and group.
    pub owner: Option<Owner>,
    /// File type and permission bits, as in `st_mode`; see [`mode`].
    pub permissions: Option<u32>,
    /// Times in whole seconds since 1970.
    pub times: Option<Times>,
    /// Times in nanoseconds, a vendor extension of Fulmar (docs/PROTOCOL.md); sent only to a peer that
    /// has it.
    pub exact_times: Option<ExactTimes>,
    /// True if OPEN says that nobody else writes to the file, a vendor extension of Fulmar
    /// (docs/PROTOCOL.md).
    pub sole_writer: bool,
}

/// `S_IFMT` and its values, for [`Attributes::permissions`].
pub mod mode {
    use alloc::string::String;

    /// Mask of the file type.
    pub const TYPE: u32 = 0o170_000;
    /// Directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// Regular file.
    pub const REGULAR: u32 = 0o100_000;
    /// Symbolic link.
    pub const SYMLINK: u32 = 0o120_000;
    /// The mode bits that a copy keeps of a directory, as OpenSSH: setuid and setgid are dropped.
    pub const KEPT_OF_DIRECTORY: u32 = 0o1777;

    /// Formats `mode` as the ten letters of `ls -l`. A mode without a file type is shown as a
    /// regular file.
    #[must_use]
    pub fn letters(mode: u32) -> String {
        let mut letters = String::from(match mode & TYPE {
            DIRECTORY => 'd',
            SYMLINK => 'l',
            REGULAR | 0 => '-',
            0o010_000 => 'p',
            0o020_000 => 'c',
            0o060_000 => 'b',
            0o140_000 => 's',
            _ => '?',
        });
        for (shift, special, lower, upper) in [
            (6, 0o4000, 's', 'S'),
            (3, 0o2000, 's', 'S'),
            (0, 0o1000, 't', 'T'),
        ] {
            let bits = mode >> shift;
            letters.push(if bits & 4 != 0 { 'r' } else { '-' });
            letters.push(if bits & 2 != 0 { 'w' } else { '-' });
            letters.push(match (bits & 1 != 0, mode & special != 0) {
                (true, true) => lower,
                (false, true) => upper,
                (true, false) => 'x',
                (false, false) => '-',
            });
        }
        letters
    }
}

impl Attributes {
    /// No attribute present.
    pub const NONE: Self = Self {
        size: None,
        owner: None,
        permissions: None,
        times: None,
        exact_times: None,
        sole_writer: false,
    };

    /// Attributes with `permissions` only.
    #[must_use]
    pub fn with_permissions(permissions: u32) -> Self {
        Self {
            permissions: Some(permissions),
            ..Self::NONE
        }
    }

    /// Returns true if `permissions` are present and their file type is `kind`, a constant of
    /// [`mode`].
    #[must_use]
    pub fn is(&self, kind: u32) -> bool {
        self.permissions
            .is_some_and(|permissions| permissions & mode::TYPE == kind)
    }

    /// Returns the exact times if present, else the whole seconds.
    #[must_use]
    pub fn best_times(&self) -> Option<ExactTimes> {
        let whole = |seconds: u32| Timestamp {
            seconds: i64::from(seconds),
            nanoseconds: 0,
        };
        self.exact_times.or(self.times.map(|times| ExactTimes {
            accessed: whole(times.accessed),
            modified: whole(times.modified),
        }))
    }
}

impl<'a> Field<'a> for Attributes {
    fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let flags = reader.u32()?;
        let mut read = Self::NONE;
        if flags & SIZE != 0 {
            read.size = Some(reader.u64()?);
        }
        if flags & OWNER != 0 {
            read.owner = Some(Owner {
                uid: reader.u32()?,
                gid: reader.u32()?,
            });
        }
        if flags & PERMISSIONS != 0 {
            read.permissions = Some(reader.u32()?);
        }
        if flags & TIMES != 0 {
            read.times = Some(Times {
                accessed: reader.u32()?,
                modified: reader.u32()?,
            });
        }
        if flags & EXTENDED != 0 {
            // Each pair takes at least eight bytes, so a false count fails at the end of the
            // message.
            for _ in 0..reader.u32()? {
                let name = reader.string()?;
                let data = reader.string()?;
                if name == vendor::EXACT_TIMES.as_bytes() {
                    read.exact_times = Some(exact(data)?);
                }
                read.sole_writer |= name == vendor::SOLE_WRITER.as_bytes();
            }
        }
        Ok(read)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let times = self.times.or(self.exact_times.map(Times::from));
        let flag = |known: bool, flag: u32| if known { flag } else { 0 };
        let pairs = u32::from(self.exact_times.is_some()) + u32::from(self.sole_writer);
        out.put_u32(
            flag(self.size.is_some(), SIZE)
                | flag(self.owner.is_some(), OWNER)
                | flag(self.permissions.is_some(), PERMISSIONS)
                | flag(times.is_some(), TIMES)
                | flag(pairs > 0, EXTENDED),
        );
        if let Some(size) = self.size {
            out.put_u64(size);
        }
        if let Some(owner) = self.owner {
            out.put_u32(owner.uid);
            out.put_u32(owner.gid);
        }
        if let Some(permissions) = self.permissions {
            out.put_u32(permissions);
        }
        if let Some(times) = times {
            out.put_u32(times.accessed);
            out.put_u32(times.modified);
        }
        if pairs > 0 {
            out.put_u32(pairs);
        }
        if let Some(exact) = self.exact_times {
            out.put_string(vendor::EXACT_TIMES.as_bytes());
            out.put_u32(24);
            for at in [exact.accessed, exact.modified] {
                out.extend_from_slice(&at.seconds.to_be_bytes());
                out.put_u32(at.nanoseconds);
            }
        }
        if self.sole_writer {
            out.put_string(vendor::SOLE_WRITER.as_bytes());
            out.put_string(b"");
        }
    }
}

fn exact(data: &[u8]) -> Result<ExactTimes, DecodeError> {
    let mut reader = Reader::new(data);
    let mut at = || {
        let seconds = i64::from_be_bytes(reader.array()?);
        let nanoseconds = reader.u32()?;
        if nanoseconds >= 1_000_000_000 {
            return Err(DecodeError::Malformed(
                "a second has a thousand million nanoseconds",
            ));
        }
        Ok(Timestamp {
            seconds,
            nanoseconds,
        })
    };
    let (accessed, modified) = (at()?, at()?);
    reader.finish()?;
    Ok(ExactTimes { accessed, modified })
}
