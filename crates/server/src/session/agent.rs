//! The Unix socket through which the user's programs reach the client's agent: its place
//! (AgentSocketPath), as OpenSSH 10.6 has it. The listener is one of [`super::forward`]'s.
//!
//! Without AgentSocketPath the socket is in ~/.ssh/agent, or below /tmp if it cannot be made there:
//! the home directory may be missing, read-only, or have too long a path.

use std::io;

use agent::socket::{AgentPlace, SOCKET_MASK, SocketOwner, default_place, link};
use config::server::AgentSocketPath;
use driver::forward::ListeningSockets;
use privsep::SessionGrant;

use crate::log::Logger;

pub(super) use agent::socket::AgentSocket;

/// The kind of agent in the name of a socket whose login may run one command only. The link does not
/// follow these: whoever holds a key with a forced command would receive what the user's other
/// sessions add to their agent.
const FORCED: &str = "sshd-forced";
/// The directory that substitutes the default place.
const SHARED_DIRECTORY: &str = "/tmp";

/// Makes the socket at the place of AgentSocketPath.
///
/// # Errors
/// Those of the last place that was tried; or no place is configured.
pub(super) fn listen(
    configured: &AgentSocketPath,
    grant: &SessionGrant,
) -> io::Result<(ListeningSockets, AgentSocket)> {
    match configured {
        AgentSocketPath::At(place) => listen_at(place, grant),
        AgentSocketPath::None => Err(io::Error::other("AgentSocketPath is none")),
        AgentSocketPath::Usual => listen_at(&default_place(), grant).or_else(|_| {
            let shared = AgentPlace::Shared(SHARED_DIRECTORY.to_owned());
            listen_at(&shared, grant)
        }),
    }
}

fn listen_at(
    place: &AgentPlace,
    grant: &SessionGrant,
) -> io::Result<(ListeningSockets, AgentSocket)> {
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
