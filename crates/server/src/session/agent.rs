//! The Unix socket through which the user's programs reach the client's agent: its place
//! (AgentSocketPath) and name, as OpenSSH 10.6 has them. The listener is one of
//! [`super::forward`]'s.
//!
//! Without AgentSocketPath the socket is in ~/.ssh/agent, or below /tmp if it cannot be made there:
//! the home directory may be missing, read-only, or have too long a path.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use config::tokens::{Purpose, Tokens};
use crypto::hash::HashAlgorithm;
use driver::forward::ListeningSockets;
use privsep::SessionGrant;

/// AgentSocketPath by default, and its substitute.
const DEFAULT_PLACES: [&str; 2] = ["user:.ssh/agent", "shared:/tmp"];
/// Mode of directories that are made.
const FOLDER_MODE: u32 = 0o700;
/// Umask of the socket.
const SOCKET_MASK: u32 = 0o177;
/// Characters of the random parts of names.
const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
/// Length of the part of a name that depends on the host name.
const HOST_LETTERS: usize = 10;
/// Length of the random part of a socket's name.
const SOCKET_LETTERS: usize = 10;
/// Length of the random part of a directory's name.
const FOLDER_LETTERS: usize = 12;

/// The socket of a connection.
pub(super) struct AgentSocket {
    pub(super) path: PathBuf,
    /// The socket's own directory, if it has one.
    folder: Option<PathBuf>,
}

impl AgentSocket {
    /// Removes the socket's own directory, after the socket.
    pub(super) fn remove_folder(self) {
        if let Some(folder) = self.folder {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Makes the socket at the place of AgentSocketPath; empty for the default.
///
/// # Errors
/// Those of the last place that was tried.
pub(super) fn listen(
    configured: &str,
    grant: &SessionGrant,
) -> io::Result<(ListeningSockets, AgentSocket)> {
    if !configured.is_empty() {
        return listen_at(configured, grant);
    }
    let [home, shared] = DEFAULT_PLACES;
    listen_at(home, grant).or_else(|_| listen_at(shared, grant))
}

fn listen_at(place: &str, grant: &SessionGrant) -> io::Result<(ListeningSockets, AgentSocket)> {
    let (kind, template) = place.split_once(':').unwrap_or((place, ""));
    let parent = expand(template, grant)?;
    let pid = std::process::id();
    let mut folder = None;
    let path = match kind {
        "user" => {
            make_folder(&parent, true)?;
            let (host, suffix) = (host_letters(), random_letters(SOCKET_LETTERS));
            parent.join(format!("s.{host}.sshd.{pid}.{suffix}"))
        }
        "shared" => {
            let own = parent.join(format!("ssh-{}", random_letters(FOLDER_LETTERS)));
            make_folder(&own, false)?;
            folder.insert(own).join(format!("agent.sshd.{pid}"))
        }
        _ => return Err(io::Error::other("AgentSocketPath names no directory")),
    };
    let socket = AgentSocket { path, folder };
    match ListeningSockets::unix(&socket.path, SOCKET_MASK, false) {
        Ok(sockets) => Ok((sockets, socket)),
        Err(error) => {
            socket.remove_folder();
            Err(error)
        }
    }
}

/// The directory of a template; a relative one begins in the home directory.
fn expand(template: &str, grant: &SessionGrant) -> io::Result<PathBuf> {
    let expanded = Tokens::new()
        .with('h', &grant.home)
        .with('u', &grant.user)
        .with('U', grant.uid.to_string())
        .expand(template, Purpose::Path)
        .map_err(|error| io::Error::other(format!("AgentSocketPath: {error}")))?;
    let relative = expanded.strip_prefix("~/").unwrap_or(&expanded);
    Ok(Path::new(&grant.home).join(relative))
}

fn make_folder(path: &Path, with_parents: bool) -> io::Result<()> {
    DirBuilder::new()
        .recursive(with_parents)
        .mode(FOLDER_MODE)
        .create(path)
}

/// Letters that are the same for all sockets of a host: home directories may be shared by hosts.
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
