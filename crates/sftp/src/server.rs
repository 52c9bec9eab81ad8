//! What a server must know of a request before it carries it out: whether the client may ask it
//! at all now, and by which name it is told and refused.

use alloc::string::String;
use alloc::vec::Vec;

use crate::extension::{self, Extended};
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
    /// The requests whose work an extension does, or what they reveal it reveals, with any of its
    /// flags: where one of them is denied, so is the extension. Empty for a request of the
    /// protocol itself, and for an extension that does what no other request does.
    pub stands_for: &'static [&'static str],
}

impl RequestInfo {
    /// Whether this is an extension of ours, and not of OpenSSH's or of a draft.
    #[must_use]
    pub fn is_vendor(&self) -> bool {
        self.extension
            .is_some_and(|(name, _)| name.ends_with(wire::EXTENSION_DOMAIN))
    }
}

const fn plain(name: &'static str, changes: bool) -> RequestInfo {
    RequestInfo {
        name,
        extension: None,
        changes,
        stands_for: &[],
    }
}

/// An extension that changes nothing.
const fn reads(
    name: &'static str,
    extension: &'static str,
    version: &'static str,
    stands_for: &'static [&'static str],
) -> RequestInfo {
    RequestInfo {
        name,
        extension: Some((extension, version)),
        changes: false,
        stands_for,
    }
}

/// An extension that changes files.
const fn writes(
    name: &'static str,
    extension: &'static str,
    version: &'static str,
    stands_for: &'static [&'static str],
) -> RequestInfo {
    RequestInfo {
        changes: true,
        ..reads(name, extension, version, stands_for)
    }
}

/// What [`own::WALK`] and what lets it go on do: they list, tell attributes of names, of what links
/// lead to and of open files, and read.
const WALKS: &[&str] = &[
    "opendir", "readdir", "lstat", "stat", "fstat", "readlink", "open", "read", "close",
];

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
    writes("posix-rename", extension::POSIX_RENAME, "1", &["rename"]),
    reads("statvfs", extension::STATVFS, "2", &[]),
    reads("fstatvfs", extension::FSTATVFS, "2", &[]),
    writes("hardlink", extension::HARDLINK, "1", &[]),
    writes("fsync", extension::FSYNC, "1", &[]),
    writes("lsetstat", extension::LSETSTAT, "1", &["setstat"]),
    reads("limits", extension::LIMITS, "1", &[]),
    reads("expand-path", extension::EXPAND_PATH, "1", &["realpath"]),
    writes("copy-data", extension::COPY_DATA, "1", &["read", "write"]),
    reads(
        "home-directory",
        extension::HOME_DIRECTORY,
        "1",
        &["realpath"],
    ),
    reads(
        "users-groups-by-id",
        extension::USERS_GROUPS_BY_ID,
        "1",
        &[],
    ),
    // It changes how attributes are written that other requests tell.
    reads("exact-times", own::EXACT_TIMES, "1", &[]),
    reads("cancel", own::CANCEL, "1", &[]),
    // Its answer tells a file's length, and that of read-range where its holes are.
    reads("hash-range", own::HASH_RANGE, "1", &["read", "fstat"]),
    reads("read-range", own::READ_RANGE, "1", &["read", "fstat"]),
    // It tells what a path leads to without opening it, and "cancel" alone ends it.
    reads(
        "open-read",
        own::OPEN_READ,
        "1",
        &["open", "read", "stat", "fstat", "cancel"],
    ),
    writes(
        "put-file",
        own::PUT_FILE,
        "1",
        &["open", "write", "close", "fsetstat", "fsync"],
    ),
    reads(
        "get-file",
        own::GET_FILE,
        "1",
        &["open", "read", "close", "stat", "fstat"],
    ),
    reads("walk", own::WALK, "2", WALKS),
    reads("walk-on", own::WALK_ON, "1", WALKS),
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

/// Which requests may be asked. A request that stands for others ([`RequestInfo::stands_for`]) is
/// refused where one of these is denied, and not announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    read_only: bool,
    /// Names of [`REQUESTS`] that are refused, by either list or for what they stand for.
    refused: Vec<&'static str>,
}

impl Permits {
    /// Everything, or everything that changes nothing, but for what `denied` names; of `allowed`,
    /// when there is such a list, only what it names (init is not subject to it).
    ///
    /// An extension of OpenSSH's that `allowed` names needs no other request in that list, as in
    /// OpenSSH; one of ours needs all that it stands for. What `denied` names counts for both.
    ///
    /// # Errors
    /// The name that is no request's.
    pub fn new<'n>(
        read_only: bool,
        allowed: Option<impl IntoIterator<Item = &'n str>>,
        denied: impl IntoIterator<Item = &'n str>,
    ) -> Result<Self, String> {
        fn known<'n>(
            names: impl IntoIterator<Item = &'n str>,
        ) -> Result<Vec<&'static str>, String> {
            let known = |name: &'n str| {
                let info = REQUESTS.iter().find(|info| info.name == name);
                info.map(|info| info.name).ok_or_else(|| String::from(name))
            };
            names.into_iter().map(known).collect()
        }
        let denied = known(denied)?;
        let allowed = allowed.map(known).transpose()?;
        let is_denied = |name: &str| denied.contains(&name);
        let is_missing = |name: &str| {
            let allowed = allowed.as_ref();
            allowed.is_some_and(|allowed| !allowed.contains(&name))
        };
        let is_refused = |info: &RequestInfo| {
            let mut bases = info.stands_for.iter();
            is_denied(info.name)
                || is_missing(info.name)
                || bases.any(|base| is_denied(base) || (info.is_vendor() && is_missing(base)))
        };
        let refused = REQUESTS.iter().filter(|info| is_refused(info));
        Ok(Self {
            read_only,
            refused: refused.map(|info| info.name).collect(),
        })
    }

    /// Nothing is refused.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            read_only: false,
            refused: Vec::new(),
        }
    }

    /// Files may not be changed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn by_name(&self, name: &str) -> Result<(), Refusal> {
        if self.refused.contains(&name) {
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
        match request {
            Request::Open(open) if self.read_only && opens_for_change(open.flags) => {
                Err(Refusal::ReadOnly)
            }
            _ => Ok(()),
        }
    }

    /// Extensions for VERSION: those that are known and would be carried out.
    pub fn extensions(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        REQUESTS.iter().filter_map(move |info| {
            let extension = info.extension?;
            self.by_name(info.name).is_ok().then_some(extension)
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
