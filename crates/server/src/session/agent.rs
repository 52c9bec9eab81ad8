//! The Unix socket through which the user's programs reach the client's agent: its place
//! (AgentSocketPath), as OpenSSH 10.6 has it. The listener is one of [`super::forward`]'s.
//!
//! Without AgentSocketPath the socket is in ~/.ssh/agent, or below /tmp if it cannot be made there:
//! the home directory may be missing, read-only, or have too long a path.

use std::io;

use agent::socket::{DEFAULT_PLACE, SOCKET_MASK, SocketOwner, link};
use driver::forward::ListeningSockets;
use privsep::SessionGrant;

use crate::log::Logger;

pub(super) use agent::socket::AgentSocket;

/// The kind of agent in the name of a socket whose login may run one command only. The link does not
/// follow these: whoever holds a key with a forced command would receive what the user's other
/// sessions add to their agent.
const FORCED: &str = "sshd-forced";
/// The substitute of the default place.
const SHARED_PLACE: &str = "shared:/tmp";

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
    listen_at(DEFAULT_PLACE, grant).or_else(|_| listen_at(SHARED_PLACE, grant))
}

fn listen_at(place: &str, grant: &SessionGrant) -> io::Result<(ListeningSockets, AgentSocket)> {
    let owner = SocketOwner {
        user: &grant.user,
        uid: grant.uid,
        home: &grant.home,
        pid: std::process::id(),
        program: match grant.forced_command {
            Some(_) => FORCED,
            None => link::PROGRAM,
        },
    };
    agent::socket::listen(place, &owner, |path| {
        ListeningSockets::unix(path, SOCKET_MASK, false)
    })
}

/// Makes the user's stable name lead to the newest agent (AgentSocketLink), after `socket` was made.
pub(super) fn link_newest(socket: &AgentSocket, uid: u32, log: &Logger<'_>) {
    if let Some(folder) = socket.users_folder()
        && let Err(error) = link::follow_newest(folder, uid, None)
    {
        let link = link::path_in(folder);
        log.debug(&format!("{}: {error}", link.display()));
    }
}

/// The same when `socket` goes.
pub(super) fn unlink(socket: &AgentSocket, uid: u32) {
    if let Some(folder) = socket.users_folder() {
        let _ = link::follow_newest(folder, uid, Some(&socket.path));
    }
}
