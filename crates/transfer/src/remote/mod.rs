//! Single requests whose caller waits for the answer.

use sftp::attributes::mode;
use sftp::extension::{self, Extended, FileSystem};
use sftp::message::reply::NameEntry;
use sftp::message::{Reply, Request, request};
use sftp::{Attributes, Code, vendor};

use crate::engine::{
    Engine, EngineError, Op, Server, Session, Token, Transport, Work, status_text,
};
use crate::plan::{names, plain};
use crate::step::may_be_same;
use crate::text;

mod listing;
mod small_file;

pub use listing::Entry;

/// Maximum length of a path in an answer, bytes.
const MAX_PATH_BYTES: usize = 64 << 10;

/// Why a request failed.
#[derive(Debug)]
pub enum RemoteError {
    /// The server refused the request.
    Status {
        /// The status code.
        code: Code,
        /// Code and message, for the user.
        text: String,
    },
    /// The server lacks this extension.
    Unsupported(&'static str),
    /// The answer is of the wrong kind or malformed.
    Unexpected,
    /// The connection failed.
    Engine(EngineError),
}

impl std::fmt::Display for RemoteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status { text, .. } => f.write_str(text),
            Self::Unsupported(name) => write!(f, "Server does not support {name} extension"),
            Self::Unexpected => f.write_str("the server's answer does not match the request"),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RemoteError {}

impl From<EngineError> for RemoteError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// A copy of an answer.
#[derive(Debug)]
enum Kept {
    Status(Code, String),
    Handle(Vec<u8>),
    Names(Vec<Entry>),
    Attributes(Attributes),
    Extended(Vec<u8>),
}

impl Kept {
    fn of(reply: &Reply<'_>) -> Option<Self> {
        Some(match reply {
            Reply::Status(status) => {
                Self::Status(status.code, status_text(status.code, status.message))
            }
            Reply::Handle(handle) => Self::Handle(handle.handle.to_vec()),
            Reply::Names(names) => {
                let kept = |entry: NameEntry<'_>| Entry {
                    name: entry.name.to_vec(),
                    long_name: entry.long_name.to_vec(),
                    attributes: entry.attributes,
                };
                let entries: Result<Vec<_>, _> =
                    names.iter().map(|entry| entry.map(kept)).collect();
                Self::Names(entries.ok()?)
            }
            Reply::Attrs(attributes) => Self::Attributes(*attributes),
            Reply::Extended(fields) => Self::Extended(fields.to_vec()),
            Reply::Data(_) => return None,
        })
    }
}

/// A single request as a [`Work`].
struct Single<'q> {
    request: Option<Request<'q>>,
    answer: Option<Option<Kept>>,
    link: usize,
    greets: bool,
    lost: bool,
}

impl Work for Single<'_> {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        if link != self.link || !(session.is_ready() || self.is_early() && session.takes_early()) {
            return false;
        }
        if self.greets {
            self.greets = false;
            self.answer = Some(None);
            return false;
        }
        match self.request.take() {
            Some(request) => {
                session.send(Token::new(0, Op::Plain), &request);
                true
            }
            None => false,
        }
    }

    fn is_early(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| !matches!(request, Request::Extended(_)))
    }

    fn reply(&mut self, _link: usize, _session: &mut Session, _token: Token, reply: &Reply<'_>) {
        self.answer = Some(Kept::of(reply));
    }

    fn is_done(&self) -> bool {
        self.answer.is_some() || self.lost
    }

    fn lost(&mut self, _why: &EngineError) {
        self.lost = true;
    }
}

/// The id of a user (`false`) or a group (`true`).
pub type Id = (u32, bool);

/// A server that answers single requests.
#[derive(Debug)]
pub struct Remote<T> {
    engine: Engine<T>,
    link: usize,
}

impl<T: Transport> Remote<T> {
    /// Sends INIT and waits for the server's capabilities.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn new(transport: T) -> Result<Self, EngineError> {
        let mut remote = Self::unmet(transport);
        remote.meet()?;
        Ok(remote)
    }

    /// Creates a server that is greeted with the first request. The request does not wait for
    /// VERSION if the transport permits that ([`Transport::reads_on`]).
    pub fn unmet(transport: T) -> Self {
        Self {
            engine: Engine::new(transport),
            link: 0,
        }
    }

    /// Uses the engine of a server that was greeted before.
    pub fn with(engine: Engine<T>) -> Self {
        Self { engine, link: 0 }
    }

    /// Waits for the server's capabilities, unless they are known.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn meet(&mut self) -> Result<(), EngineError> {
        if self.engine.is_ready(self.link) {
            return Ok(());
        }
        let mut work = Single {
            request: None,
            answer: None,
            link: self.link,
            greets: true,
            lost: false,
        };
        self.engine.run(&mut work)
    }

    /// Sends later requests over this connection, for connections that lead to different servers.
    pub fn use_link(&mut self, link: usize) {
        self.link = link;
    }

    /// Returns the engine, for copies.
    pub fn engine(&mut self) -> &mut Engine<T> {
        &mut self.engine
    }

    /// Returns true if the server announced this extension in this version.
    #[must_use]
    pub fn has(&self, name: &str, version: &str) -> bool {
        self.server()
            .is_some_and(|server| server.has(name, version))
    }

    /// Returns the server's capabilities.
    #[must_use]
    pub fn server(&self) -> Option<&Server> {
        self.engine.server(self.link)
    }

    fn ask(&mut self, request: Request<'_>) -> Result<Kept, RemoteError> {
        let mut work = Single {
            request: Some(request),
            answer: None,
            link: self.link,
            greets: false,
            lost: false,
        };
        self.engine.run(&mut work)?;
        work.answer.flatten().ok_or(RemoteError::Unexpected)
    }

    /// Sends a request that is answered by STATUS.
    fn tell(&mut self, request: Request<'_>) -> Result<(), RemoteError> {
        match self.ask(request)? {
            Kept::Status(code, _) if code.is_ok() => Ok(()),
            other => Err(refused(other)),
        }
    }

    fn tell_extension(
        &mut self,
        name: &'static str,
        version: &str,
        request: Extended<'_>,
    ) -> Result<(), RemoteError> {
        self.require(name, version)?;
        self.tell(Request::Extended(request))
    }

    /// Waits for the server's capabilities; fails if it lacks this extension.
    fn require(&mut self, name: &'static str, version: &str) -> Result<(), RemoteError> {
        self.meet()?;
        match self.has(name, version) {
            true => Ok(()),
            false => Err(RemoteError::Unsupported(name)),
        }
    }

    fn attributes(&mut self, request: Request<'_>) -> Result<Attributes, RemoteError> {
        match self.ask(request)? {
            Kept::Attributes(attributes) => Ok(attributes),
            other => Err(refused(other)),
        }
    }

    fn path(&mut self, request: Request<'_>) -> Result<Vec<u8>, RemoteError> {
        match self.ask(request)? {
            Kept::Names(names) => match <[Entry; 1]>::try_from(names) {
                Ok([entry]) if entry.name.len() <= MAX_PATH_BYTES && !entry.name.contains(&0) => {
                    Ok(entry.name)
                }
                _ => Err(RemoteError::Unexpected),
            },
            other => Err(refused(other)),
        }
    }

    /// STAT: symbolic links are followed.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn stat(&mut self, path: &[u8]) -> Result<Attributes, RemoteError> {
        self.attributes(Request::Stat(request::Stat { path }))
    }

    /// LSTAT.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn lstat(&mut self, path: &[u8]) -> Result<Attributes, RemoteError> {
        self.attributes(Request::Lstat(request::Lstat { path }))
    }

    /// Returns true if the path is a directory or a link to one.
    ///
    /// # Errors
    /// [`EngineError`] only; a refused STAT counts as no directory.
    pub fn is_directory(&mut self, path: &[u8]) -> Result<bool, EngineError> {
        match self.stat(path) {
            Ok(attributes) => Ok(attributes.is(mode::DIRECTORY)),
            Err(RemoteError::Engine(error)) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// REALPATH.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn realpath(&mut self, path: &[u8]) -> Result<Vec<u8>, RemoteError> {
        self.path(Request::Realpath(request::Realpath { path }))
    }

    /// `expand-path@openssh.com`: `~` and `~user` expanded.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn expand(&mut self, path: &[u8]) -> Result<Vec<u8>, RemoteError> {
        self.require(extension::EXPAND_PATH, "1")?;
        let request = Extended::ExpandPath(extension::ExpandPath { path });
        self.path(Request::Extended(request))
    }

    /// READLINK.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn readlink(&mut self, path: &[u8]) -> Result<Vec<u8>, RemoteError> {
        self.path(Request::Readlink(request::Readlink { path }))
    }

    /// SETSTAT, or `lsetstat@openssh.com` if symbolic links are not to be followed.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn setstat(
        &mut self,
        path: &[u8],
        attributes: Attributes,
        follow: bool,
    ) -> Result<(), RemoteError> {
        if follow {
            return self.tell(Request::Setstat(request::Setstat { path, attributes }));
        }
        self.tell_extension(
            extension::LSETSTAT,
            "1",
            Extended::Lsetstat(extension::Lsetstat { path, attributes }),
        )
    }

    /// MKDIR.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<(), RemoteError> {
        let attributes = Attributes::with_permissions(mode);
        self.tell(Request::Mkdir(request::Mkdir { path, attributes }))
    }

    /// RMDIR.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn rmdir(&mut self, path: &[u8]) -> Result<(), RemoteError> {
        self.tell(Request::Rmdir(request::Rmdir { path }))
    }

    /// REMOVE.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn remove(&mut self, path: &[u8]) -> Result<(), RemoteError> {
        self.tell(Request::Remove(request::Remove { path }))
    }

    /// `posix-rename@openssh.com` if the server has it and `plain` is false, else RENAME.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn rename(&mut self, old: &[u8], new: &[u8], plain: bool) -> Result<(), RemoteError> {
        self.meet()?;
        if !plain && self.has(extension::POSIX_RENAME, "1") {
            let request = Extended::PosixRename(extension::PosixRename { old, new });
            return self.tell(Request::Extended(request));
        }
        self.tell(Request::Rename(request::Rename { old, new }))
    }

    /// SYMLINK.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn symlink(&mut self, target: &[u8], link: &[u8]) -> Result<(), RemoteError> {
        self.tell(Request::Symlink(request::Symlink { target, link }))
    }

    /// `hardlink@openssh.com`
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn hardlink(&mut self, old: &[u8], new: &[u8]) -> Result<(), RemoteError> {
        self.tell_extension(
            extension::HARDLINK,
            "1",
            Extended::Hardlink(extension::Hardlink { old, new }),
        )
    }

    /// `statvfs@openssh.com`
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn statvfs(&mut self, path: &[u8]) -> Result<FileSystem, RemoteError> {
        self.require(extension::STATVFS, "2")?;
        let request = Extended::Statvfs(extension::Statvfs { path });
        match self.ask(Request::Extended(request))? {
            Kept::Extended(fields) => {
                FileSystem::decode(&fields).map_err(|_| RemoteError::Unexpected)
            }
            other => Err(refused(other)),
        }
    }

    /// Returns the names of users (`false`) and groups (`true`) by id
    /// (`users-groups-by-id@openssh.com`); ids without a name are left out.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn names(&mut self, wanted: &[Id]) -> Result<Vec<(Id, String)>, RemoteError> {
        self.require(extension::USERS_GROUPS_BY_ID, "1")?;
        let ids = |group: bool| {
            wanted
                .iter()
                .filter(move |(_, of_group)| *of_group == group)
                .map(|(id, _)| *id)
        };
        let (mut uids, mut gids) = (Vec::new(), Vec::new());
        ids(false).for_each(|id| uids.extend(id.to_be_bytes()));
        ids(true).for_each(|id| gids.extend(id.to_be_bytes()));
        let request = Extended::UsersGroupsById(extension::UsersGroupsById {
            uids: &uids,
            gids: &gids,
        });
        let fields = match self.ask(Request::Extended(request))? {
            Kept::Extended(fields) => fields,
            other => return Err(refused(other)),
        };
        let names =
            extension::UserGroupNames::decode(&fields).map_err(|_| RemoteError::Unexpected)?;
        let users = ids(false)
            .map(|id| (id, false))
            .zip(extension::strings(names.users));
        let groups = ids(true)
            .map(|id| (id, true))
            .zip(extension::strings(names.groups));
        Ok(users
            .chain(groups)
            .filter(|(_, name)| !name.is_empty())
            .map(|(key, name)| (key, text::name(name)))
            .collect())
    }

    fn open(&mut self, request: Request<'_>) -> Result<Vec<u8>, RemoteError> {
        match self.ask(request)? {
            Kept::Handle(handle) => Ok(handle),
            other => Err(refused(other)),
        }
    }

    /// CLOSE.
    fn close(&mut self, handle: &[u8]) -> Result<(), RemoteError> {
        self.tell(Request::Close(request::Close { handle }))
    }

    /// Copies a file within the server (`copy-data`). A file is not copied onto itself. A target
    /// that may be the source under another name (a hard link: equal size and time) is not
    /// truncated before the copy.
    ///
    /// # Errors
    /// The error in OpenSSH's wording.
    pub fn copy(&mut self, from: &[u8], to: &[u8]) -> Result<(), String> {
        use sftp::message::open_flag;
        self.meet().map_err(|error| error.to_string())?;
        if !self.has(extension::COPY_DATA, "1") {
            return Err("Server does not support copy-data extension".to_owned());
        }
        let (shown_from, shown_to) = (text::name(from), text::name(to));
        let there = self
            .stat(from)
            .map_err(|why| format!("stat remote \"{shown_from}\": {why}"))?;
        let mode = there.permissions.unwrap_or(0o100_666);
        if mode & mode::TYPE != 0 && mode & mode::TYPE != mode::REGULAR {
            return Err(format!("Cannot copy non-regular file: {shown_from}"));
        }
        if plain(from) == plain(to) || self.leads_to_same(from, to) {
            return Err(format!("Cannot copy \"{shown_from}\" onto itself"));
        }
        let open = |path, flags| {
            Request::Open(request::Open {
                path,
                flags,
                attributes: Attributes::with_permissions(mode & 0o777),
            })
        };
        let source = self
            .open(open(from, open_flag::READ))
            .map_err(|why| format!("remote open \"{shown_from}\": {why}"))?;
        let cut = match self.stat(to) {
            Ok(target) if may_be_same(&there, Some(&target)) => 0,
            _ => open_flag::TRUNCATE,
        };
        let flags = open_flag::WRITE | open_flag::CREATE | cut;
        let target = match self.open(open(to, flags)) {
            Ok(target) => target,
            Err(why) => {
                let _ = self.close(&source);
                return Err(format!("remote open \"{shown_to}\": {why}"));
            }
        };
        let copied = self.tell(Request::Extended(Extended::CopyData(extension::CopyData {
            from: &source,
            from_offset: 0,
            len: 0,
            to: &target,
            to_offset: 0,
        })));
        let closed = [self.close(&source), self.close(&target)];
        copied.map_err(|why| {
            format!("Couldn't copy file \"{shown_from}\" to \"{shown_to}\": {why}")
        })?;
        for result in closed {
            result.map_err(|why| format!("close remote: {why}"))?;
        }
        Ok(())
    }

    /// Returns true if the server resolves both paths to the same one.
    fn leads_to_same(&mut self, one: &[u8], other: &[u8]) -> bool {
        match (self.realpath(one), self.realpath(other)) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
    }

    /// Asks the server for times with nanosecond resolution, if it has the extension.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn ask_exact_times(&mut self) -> Result<(), EngineError> {
        self.meet()?;
        if !self.has(vendor::EXACT_TIMES, "1") {
            return Ok(());
        }
        let request = Extended::SetExactTimes(extension::SetExactTimes { on: true });
        match self.tell(Request::Extended(request)) {
            Err(RemoteError::Engine(error)) => Err(error),
            // If refused, times have whole seconds.
            _ => Ok(()),
        }
    }

    /// Returns the entries of a directory, without `.` and `..` unless `dots`. Names that are not a
    /// single component are left out and passed to `suspect`.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn list(
        &mut self,
        path: &[u8],
        dots: bool,
        suspect: &mut dyn FnMut(&[u8]),
    ) -> Result<Vec<Entry>, RemoteError> {
        let entries = listing::read(&mut self.engine, self.link, path)?;
        Ok(entries
            .into_iter()
            .filter(|entry| match entry.name.as_slice() {
                b"." | b".." => dots,
                name if names::is_plain(name) => true,
                name => {
                    suspect(name);
                    false
                }
            })
            .collect())
    }
}

fn refused(kept: Kept) -> RemoteError {
    match kept {
        Kept::Status(code, text) if !code.is_ok() => RemoteError::Status { code, text },
        _ => RemoteError::Unexpected,
    }
}
