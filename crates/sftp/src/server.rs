//! What a server must know of a request before it carries it out: whether the client may ask it
//! at all now, and by which name it is told and refused.

use alloc::string::String;
use alloc::vec::Vec;

use crate::extension::{self, EXTENSIONS, Extended};
use crate::message::{Init, Request, Version, open_flag};
use crate::{VERSION, own};

/// A request as administrators name it (sftp-server(8), -p and -P).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// The name.
    pub name: &'static str,
    /// The extension that it is, with its version.
    pub extension: Option<(&'static str, &'static str)>,
    /// It changes files, which a read-only server refuses. OPEN may, as its flags say.
    pub changes: bool,
}

const fn plain(name: &'static str, changes: bool) -> RequestInfo {
    RequestInfo {
        name,
        extension: None,
        changes,
    }
}

const fn extended(
    name: &'static str,
    extension: &'static str,
    version: &'static str,
    changes: bool,
) -> RequestInfo {
    RequestInfo {
        name,
        extension: Some((extension, version)),
        changes,
    }
}

/// THE table of requests, in the order of `sftp-server -Q requests`.
pub const REQUESTS: &[RequestInfo] = &[
    plain("open", false),
    plain("close", false),
    plain("read", false),
    plain("write", true),
    plain("lstat", false),
    plain("fstat", false),
    plain("setstat", true),
    plain("fsetstat", true),
    plain("opendir", false),
    plain("readdir", false),
    plain("remove", true),
    plain("mkdir", true),
    plain("rmdir", true),
    plain("realpath", false),
    plain("stat", false),
    plain("rename", true),
    plain("readlink", false),
    plain("symlink", true),
    extended("posix-rename", extension::POSIX_RENAME, "1", true),
    extended("statvfs", extension::STATVFS, "2", false),
    extended("fstatvfs", extension::FSTATVFS, "2", false),
    extended("hardlink", extension::HARDLINK, "1", true),
    extended("fsync", extension::FSYNC, "1", true),
    extended("lsetstat", extension::LSETSTAT, "1", true),
    extended("limits", extension::LIMITS, "1", false),
    extended("expand-path", extension::EXPAND_PATH, "1", false),
    extended("copy-data", extension::COPY_DATA, "1", true),
    extended("home-directory", extension::HOME_DIRECTORY, "1", false),
    extended(
        "users-groups-by-id",
        extension::USERS_GROUPS_BY_ID,
        "1",
        false,
    ),
    extended("exact-times", own::EXACT_TIMES, "1", false),
    extended("cancel", own::CANCEL, "1", false),
    extended("hash-range", own::HASH_RANGE, "1", false),
    extended("read-range", own::READ_RANGE, "1", false),
    extended("open-read", own::OPEN_READ, "1", false),
    extended("put-file", own::PUT_FILE, "1", true),
    extended("get-file", own::GET_FILE, "1", false),
    extended("walk", own::WALK, "2", false),
    extended("walk-on", own::WALK_ON, "1", false),
];

/// The request's name in [`REQUESTS`]; none for those that are unknown.
#[must_use]
pub fn name(request: &Request<'_>) -> Option<&'static str> {
    Some(match request {
        Request::Open(_) => "open",
        Request::Close(_) => "close",
        Request::Read(_) => "read",
        Request::Write(_) => "write",
        Request::Lstat(_) => "lstat",
        Request::Fstat(_) => "fstat",
        Request::Setstat(_) => "setstat",
        Request::Fsetstat(_) => "fsetstat",
        Request::Opendir(_) => "opendir",
        Request::Readdir(_) => "readdir",
        Request::Remove(_) => "remove",
        Request::Mkdir(_) => "mkdir",
        Request::Rmdir(_) => "rmdir",
        Request::Realpath(_) => "realpath",
        Request::Stat(_) => "stat",
        Request::Rename(_) => "rename",
        Request::Readlink(_) => "readlink",
        Request::Symlink(_) => "symlink",
        Request::Extended(extended) => return extended_name(extended),
        Request::UnknownExtension { .. } | Request::Unknown { .. } => return None,
    })
}

fn extended_name(extended: &Extended<'_>) -> Option<&'static str> {
    let wire_name = extended.name();
    let found = REQUESTS
        .iter()
        .find(|info| info.extension.is_some_and(|(name, _)| name == wire_name));
    found.map(|info| info.name)
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The server is read-only, and it would change a file.
    ReadOnly,
    /// It is denied, or not among those that are allowed.
    NotPermitted,
}

/// Which requests may be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    read_only: bool,
    /// Names of [`REQUESTS`] that are refused.
    denied: Vec<&'static str>,
}

impl Permits {
    /// Everything, or everything that changes nothing, but for what `denied` names; of `allowed`,
    /// when there is such a list, only what it names (init is not subject to it).
    ///
    /// # Errors
    /// The name that is no request's.
    pub fn new<'n>(
        read_only: bool,
        allowed: Option<impl IntoIterator<Item = &'n str>>,
        denied: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, String> {
        let known = |name: &str| {
            let info = REQUESTS.iter().find(|info| info.name == name);
            info.map(|info| info.name).ok_or_else(|| String::from(name))
        };
        let mut refused = Vec::new();
        for name in denied {
            refused.push(known(name)?);
        }
        if let Some(allowed) = allowed {
            let mut kept = Vec::new();
            for name in allowed {
                kept.push(known(name)?);
            }
            let others = REQUESTS.iter().filter(|info| !kept.contains(&info.name));
            refused.extend(others.map(|info| info.name));
        }
        Ok(Self {
            read_only,
            denied: refused,
        })
    }

    /// Nothing is refused.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            read_only: false,
            denied: Vec::new(),
        }
    }

    /// Files may not be changed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn by_name(&self, name: &str) -> Result<(), Refusal> {
        if self.denied.contains(&name) {
            return Err(Refusal::NotPermitted);
        }
        let changes = REQUESTS
            .iter()
            .any(|info| info.name == name && info.changes);
        if self.read_only && changes {
            return Err(Refusal::ReadOnly);
        }
        Ok(())
    }

    /// Whether this WRITE, of which only the head is known, may be carried out.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn write(&self) -> Result<(), Refusal> {
        self.by_name("write")
    }

    /// Whether this request may be carried out.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn request(&self, request: &Request<'_>) -> Result<(), Refusal> {
        let Some(name) = name(request) else {
            return Ok(());
        };
        self.by_name(name)?;
        // What is composed of others is refused where one of these is.
        let parts: &[&str] = match request {
            Request::Extended(Extended::PutFile(_)) => &["open", "write", "close"],
            Request::Extended(Extended::GetFile(_)) => &["open", "read", "close"],
            // It tells what is there, and is ended by "cancel" alone.
            Request::Extended(Extended::OpenRead(_)) => {
                &["open", "read", "stat", "fstat", "cancel"]
            }
            Request::Extended(Extended::ReadRange(_) | Extended::HashRange(_)) => &["read"],
            Request::Extended(Extended::Walk(_)) => &["opendir", "readdir", "lstat", "readlink"],
            Request::Extended(Extended::CopyData(_)) => &["read", "write"],
            _ => &[],
        };
        for part in parts {
            self.by_name(part)?;
        }
        let has = |flags: u32, flag: u32| flags & flag != 0;
        match request {
            Request::Extended(Extended::PutFile(put)) => {
                if has(put.flags, own::put_flag::EXACT) {
                    self.by_name("fsetstat")?;
                }
                if has(put.flags, own::put_flag::SYNC) {
                    self.by_name("fsync")?;
                }
                Ok(())
            }
            Request::Extended(Extended::Walk(walk)) => {
                if has(walk.flags, own::walk_flag::FOLLOW) {
                    self.by_name("stat")?;
                }
                if has(walk.flags, own::walk_flag::CONTENT) {
                    for part in ["open", "read", "close"] {
                        self.by_name(part)?;
                    }
                }
                Ok(())
            }
            Request::Open(open) if self.read_only && opens_for_change(open.flags) => {
                Err(Refusal::ReadOnly)
            }
            _ => Ok(()),
        }
    }

    /// Extensions for VERSION: those that are known and not denied.
    pub fn extensions(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        EXTENSIONS.iter().copied().filter(move |(name, _)| {
            let info = REQUESTS
                .iter()
                .find(|info| info.extension.is_some_and(|(each, _)| each == *name));
            info.is_none_or(|info| self.by_name(info.name).is_ok())
        })
    }
}

fn opens_for_change(flags: u32) -> bool {
    flags & (open_flag::WRITE | open_flag::APPEND | open_flag::CREATE | open_flag::TRUNCATE) != 0
}

/// Where a server's conversation stands: INIT comes first, and once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Nothing but INIT may come.
    #[default]
    Beginning,
    /// Requests.
    Serving {
        /// What the client said it has.
        client_version: u32,
    },
}

/// A conversation that began otherwise than with INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotInit;

impl core::fmt::Display for NotInit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the client's first message is not INIT")
    }
}

impl core::error::Error for NotInit {}

impl Phase {
    /// Takes INIT and answers it with VERSION.
    ///
    /// # Errors
    /// [`NotInit`].
    pub fn begin(
        &mut self,
        message: &[u8],
        permits: &Permits,
        out: &mut Vec<u8>,
    ) -> Result<(), NotInit> {
        let init = Init::decode(message).map_err(|_| NotInit)?;
        *self = Self::Serving {
            client_version: init.version,
        };
        Version::encode(VERSION, permits.extensions(), out);
        Ok(())
    }
}
