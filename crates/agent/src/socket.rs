//! The places of agents' sockets, as OpenSSH 10.6 has them: of `fulmar agent` (`-A`) and of a
//! server's forwarded agents (AgentSocketPath).
//!
//! At an [`AgentPlace`] of the form `user:DIRECTORY` the socket lies in the directory, at
//! `shared:/DIRECTORY` in a directory of its own below it. Names in user directories contain letters that are
//! the same for all sockets of a host, because home directories may be shared by hosts.

pub mod link;

pub use config::types::AgentPlace;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use config::tokens::{Purpose, Tokens};
use crypto::hash::HashAlgorithm;

/// The place without configuration: `user:.ssh/agent`.
#[must_use]
pub fn default_place() -> AgentPlace {
    AgentPlace::User(".ssh/agent".to_owned())
}

/// Mode of directories that are made.
const FOLDER_MODE: u32 = 0o700;
/// Umask of a socket.
pub const SOCKET_MASK: u32 = 0o177;
/// Characters of the random parts of names.
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Length of the part of a name that depends on the host name.
const HOST_LETTERS: usize = 10;
/// Length of the random part of a socket's name.
const SOCKET_LETTERS: usize = 10;
/// Length of the random part of a directory's name.
const FOLDER_LETTERS: usize = 12;
/// A socket that changed later is not looked at: its agent may be about to listen.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// Whose socket it is.
#[derive(Debug, Clone, Copy)]
pub struct SocketOwner<'a> {
    /// Name of the user, `%u`.
    pub user: &'a str,
    /// User id, `%U`.
    pub uid: u32,
    /// Home directory, `%h`, where relative places begin.
    pub home: &'a str,
    /// Process id in the socket's name.
    pub pid: u32,
    /// The kind of agent in the socket's name: `local` or `sshd`.
    pub program: &'a str,
}

/// A socket and its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSocket {
    /// Path of the socket.
    pub path: PathBuf,
    /// The socket's own directory, if it has one.
    folder: Option<PathBuf>,
}

impl AgentSocket {
    /// A socket at a path that the user chose.
    #[must_use]
    pub fn at(path: PathBuf) -> Self {
        Self { path, folder: None }
    }

    /// The user's directory of sockets, where the stable name is; `None` for a socket elsewhere.
    #[must_use]
    pub fn users_folder(&self) -> Option<&Path> {
        self.path.parent().filter(|_| self.folder.is_none())
    }

    /// Removes the socket's own directory, after the socket.
    pub fn remove_folder(self) {
        if let Some(folder) = self.folder {
            let _ = fs::remove_dir(folder);
        }
    }

    /// Removes the socket, if it is one and the user's, and its directory.
    pub fn remove(self) {
        let _ = sys::socket::unlink_own_socket(&self.path);
        self.remove_folder();
    }
}

/// Makes the directories of a place and a socket there by `bind`.
///
/// # Errors
/// Those of the file system and of `bind`; a token that the template must not have.
pub fn listen<T>(
    place: &AgentPlace,
    owner: &SocketOwner<'_>,
    bind: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<(T, AgentSocket)> {
    let (pid, program) = (owner.pid, owner.program);
    let socket = match place {
        AgentPlace::User(template) => {
            let parent = expand(template, owner)?;
            make_folder(&parent, true)?;
            let (host, suffix) = (host_letters(), random_letters(SOCKET_LETTERS));
            AgentSocket::at(parent.join(format!("s.{host}.{program}.{pid}.{suffix}")))
        }
        AgentPlace::Shared(template) => own_folder(
            &expand(template, owner)?,
            &random_letters(FOLDER_LETTERS),
            &format!("agent.{program}.{pid}"),
        )?,
    };
    bound(socket, bind)
}

/// Makes a socket named `agent.PID` in a new directory below `parent` (`-T` of ssh-agent).
///
/// # Errors
/// Those of the file system and of `bind`.
pub fn listen_below<T>(
    parent: &Path,
    pid: u32,
    bind: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<(T, AgentSocket)> {
    let letters = random_letters(FOLDER_LETTERS);
    bound(own_folder(parent, &letters, &format!("agent.{pid}"))?, bind)
}

fn own_folder(parent: &Path, letters: &str, name: &str) -> io::Result<AgentSocket> {
    let folder = parent.join(format!("ssh-{letters}"));
    make_folder(&folder, false)?;
    Ok(AgentSocket {
        path: folder.join(name),
        folder: Some(folder),
    })
}

fn bound<T>(
    socket: AgentSocket,
    bind: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<(T, AgentSocket)> {
    match bind(&socket.path) {
        Ok(listener) => Ok((listener, socket)),
        Err(error) => {
            socket.remove_folder();
            Err(error)
        }
    }
}

/// Removes the sockets of a user's place at which nobody listens any more, if they are more than an
/// hour old; those of other hosts only with `of_any_host`. Does nothing for a shared place.
pub fn remove_stale(place: &AgentPlace, owner: &SocketOwner<'_>, of_any_host: bool) {
    let AgentPlace::User(template) = place else {
        return;
    };
    let Ok(folder) = expand(template, owner) else {
        return;
    };
    let prefix = format!("s.{}.", host_letters());
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_ours = of_any_host || name.to_string_lossy().starts_with(&prefix);
        let path = entry.path();
        if is_ours && is_old_socket(&entry) && sys::socket::is_abandoned(&path) {
            let _ = sys::socket::unlink_own_socket(&path);
        }
    }
}

fn is_old_socket(entry: &fs::DirEntry) -> bool {
    let Ok(found) = entry.metadata() else {
        return false;
    };
    let age = found
        .modified()
        .ok()
        .and_then(|time| SystemTime::now().duration_since(time).ok());
    found.file_type().is_socket() && age.is_some_and(|age| age > STALE_AFTER)
}

/// The directory of a template; a relative one begins in the home directory.
fn expand(template: &str, owner: &SocketOwner<'_>) -> io::Result<PathBuf> {
    let expanded = Tokens::new()
        .with('h', owner.home)
        .with('u', owner.user)
        .with('U', owner.uid.to_string())
        .expand(template, Purpose::Path)
        .map_err(|error| io::Error::other(format!("place of the agent's socket: {error}")))?;
    let relative = expanded.strip_prefix("~/").unwrap_or(&expanded);
    Ok(Path::new(owner.home).join(relative))
}

fn make_folder(path: &Path, with_parents: bool) -> io::Result<()> {
    DirBuilder::new()
        .recursive(with_parents)
        .mode(FOLDER_MODE)
        .create(path)
}

fn host_letters() -> String {
    let digest = HashAlgorithm::Sha512.digest(sys::socket::host_name().as_bytes());
    letters(digest.as_ref()).take(HOST_LETTERS).collect()
}

fn random_letters(count: usize) -> String {
    let mut random = [0_u8; FOLDER_LETTERS];
    crypto::random::fill(&mut random);
    letters(&random).take(count).collect()
}

fn letters(bytes: &[u8]) -> impl Iterator<Item = char> {
    let letter = |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len());
    bytes
        .iter()
        .filter_map(letter)
        .map(|byte| char::from(*byte))
}

#[cfg(test)]
#[path = "socket_tests.rs"]
mod tests;
