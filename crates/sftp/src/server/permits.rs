//! Which requests a server accepts: the table of requests with their names, the permitted requests,
//! and the start of a session with INIT.

use alloc::string::String;
use alloc::vec::Vec;

use crate::extension::{self, Extended};
use crate::message::{Init, Request, Version, open_flag};
use crate::{VERSION, vendor};

/// A request by the name that administrators use (sftp-server(8), -p and -P).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// The name of the request.
    pub name: &'static str,
    /// Name and version of the extension; `None` for a request of the protocol itself.
    pub extension: Option<(&'static str, &'static str)>,
    /// True if the request changes files; a read-only server refuses it. OPEN is false here: its
    /// flags decide.
    pub changes: bool,
    /// The requests whose work this extension does, or whose information it reveals, with any of
    /// its flags. If one of them is denied, the extension is denied too. Empty for a request of the
    /// protocol itself, and for an extension that does the work of no other request.
    pub stands_for: &'static [&'static str],
}

impl RequestInfo {
    /// Returns true for a vendor extension of Fulmar, false for one of OpenSSH or of a draft.
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

/// An extension; unless [`RequestInfo::changing`] follows, it does not change files.
const fn extended(
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

impl RequestInfo {
    /// The same request if it changes files.
    const fn changing(self) -> RequestInfo {
        RequestInfo {
            changes: true,
            ..self
        }
    }
}

/// [`vendor::WALK`] and [`vendor::WALK_ON`] list directories, report the attributes of names, link
/// targets and open files, and read files.
const WALKS: &[&str] = &[
    "opendir", "readdir", "lstat", "stat", "fstat", "readlink", "open", "read", "close",
];

/// The table of requests, in the order of `sftp-server -Q requests`.
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
    extended("posix-rename", extension::POSIX_RENAME, "1", &["rename"]).changing(),
    extended("statvfs", extension::STATVFS, "2", &[]),
    extended("fstatvfs", extension::FSTATVFS, "2", &[]),
    extended("hardlink", extension::HARDLINK, "1", &[]).changing(),
    extended("fsync", extension::FSYNC, "1", &[]).changing(),
    extended("lsetstat", extension::LSETSTAT, "1", &["setstat"]).changing(),
    extended("limits", extension::LIMITS, "1", &[]),
    extended("expand-path", extension::EXPAND_PATH, "1", &["realpath"]),
    extended("copy-data", extension::COPY_DATA, "1", &["read", "write"]).changing(),
    extended(
        "home-directory",
        extension::HOME_DIRECTORY,
        "1",
        &["realpath"],
    ),
    extended(
        "users-groups-by-id",
        extension::USERS_GROUPS_BY_ID,
        "1",
        &[],
    ),
    // It only changes how the replies to other requests encode attributes.
    extended("exact-times", vendor::EXACT_TIMES, "1", &[]),
    extended("cancel", vendor::CANCEL, "1", &[]),
    // Its answer reveals the length of a file, and that of read-range where the holes are.
    extended("hash-range", vendor::HASH_RANGE, "1", &["read", "fstat"]),
    extended("read-range", vendor::READ_RANGE, "1", &["read", "fstat"]),
    // It reveals the attributes of a path without opening it, and only "cancel" ends it.
    extended(
        "open-read",
        vendor::OPEN_READ,
        "1",
        &["open", "read", "stat", "fstat", "cancel"],
    ),
    extended(
        "put-file",
        vendor::PUT_FILE,
        "1",
        &["open", "write", "close", "fsetstat", "fsync"],
    )
    .changing(),
    extended("walk", vendor::WALK, "2", WALKS),
    extended("walk-on", vendor::WALK_ON, "1", WALKS),
];

/// Returns the request's name in [`REQUESTS`]; `None` for an unknown request.
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

/// Why a server refuses a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestRefusal {
    /// The server is read-only, and the request would change a file.
    ReadOnly,
    /// The request is on the list of denied requests, or not on that of allowed ones.
    NotPermitted,
}

/// The requests that a client may send. A request that does the work of others
/// ([`RequestInfo::stands_for`]) is refused, and not announced, if one of these is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permits {
    read_only: bool,
    /// Refused names of [`REQUESTS`]: those that the lists refuse, and those whose base requests
    /// they refuse.
    refused: Vec<&'static str>,
}

impl Permits {
    /// Permits every request, or with `read_only` every request that changes no file, except for
    /// those that `denied` names. If `allowed` is given, only the requests that it names (INIT is
    /// always permitted).
    ///
    /// An OpenSSH extension that `allowed` names needs no other request in that list, as with
    /// OpenSSH; a vendor extension of Fulmar needs every request whose work it does. A name in
    /// `denied` denies both kinds.
    ///
    /// # Errors
    /// The first name that is not in [`REQUESTS`].
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

    /// Permits every request.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            read_only: false,
            refused: Vec::new(),
        }
    }

    fn by_name(&self, name: &str) -> Result<(), RequestRefusal> {
        if self.refused.contains(&name) {
            return Err(RequestRefusal::NotPermitted);
        }
        let changes = REQUESTS
            .iter()
            .any(|info| info.name == name && info.changes);
        if self.read_only && changes {
            return Err(RequestRefusal::ReadOnly);
        }
        Ok(())
    }

    /// Checks a WRITE, whose data [`crate::frame`] passes on separately.
    ///
    /// # Errors
    /// [`RequestRefusal`].
    pub fn write(&self) -> Result<(), RequestRefusal> {
        self.by_name("write")
    }

    /// Checks whether a request may be carried out. An unknown request passes: the server answers
    /// it as unsupported.
    ///
    /// # Errors
    /// [`RequestRefusal`].
    pub fn request(&self, request: &Request<'_>) -> Result<(), RequestRefusal> {
        let Some(name) = name(request) else {
            return Ok(());
        };
        self.by_name(name)?;
        match request {
            Request::Open(open) if self.read_only && opens_for_change(open.flags) => {
                Err(RequestRefusal::ReadOnly)
            }
            _ => Ok(()),
        }
    }

    /// Iterates over the extensions to announce in VERSION, with their versions: those that are
    /// permitted.
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

/// Phase of a session on the server: INIT comes first, and only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SftpPhase {
    /// The server waits for INIT.
    #[default]
    Beginning,
    /// The server accepts requests.
    Serving {
        /// The highest version that the client supports.
        client_version: u32,
    },
}

/// Error: the first message of a session is not INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotInit;

impl core::fmt::Display for NotInit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the client's first message is not INIT")
    }
}

impl core::error::Error for NotInit {}

impl SftpPhase {
    /// Reads INIT and appends the VERSION that answers it to `out`.
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
