//! What a server does for clients that are logged in.

use std::fmt;
use std::path::PathBuf;

use super::auth::Login;
use super::channel::Channel;
use crate::{Exit, Pty};

/// What a client asks the server to do for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forward {
    /// Connect to a TCP port.
    ConnectTcp {
        /// Name, which the server looks up, or IP address, as the client sent it.
        host: String,
        /// The port.
        port: u16,
    },
    /// Connect to a Unix socket.
    ConnectUnix(PathBuf),
    /// Listen on a TCP port.
    ListenTcp {
        /// `localhost` for the loopback addresses, empty or `*` for all addresses, or an address.
        address: String,
        /// The port; 0 leaves the choice to the system.
        port: u16,
    },
    /// Listen on a Unix socket, whose file is made with mode 0600 and removed at the end.
    ListenUnix(PathBuf),
    /// Exchange datagrams with a UDP port, through one socket for each sender on the client's side.
    ConnectUdp {
        /// Name, which the server looks up, or IP address, as the client sent it.
        host: String,
        /// The port.
        port: u16,
    },
    /// Receive datagrams on a UDP port.
    ListenUdp {
        /// As in [`Forward::ListenTcp`].
        address: String,
        /// The port; 0 leaves the choice to the system.
        port: u16,
    },
}

/// What a channel is for (RFC 4254 §6.5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// A command line, as the client sent it.
    Exec(Vec<u8>),
    /// A shell.
    Shell,
    /// A subsystem by name; bytes that are not UTF-8 are replaced.
    Subsystem(String),
    /// A channel of a type other than `session`, which [`Handler::accepts_channel`] accepted.
    Channel {
        /// The channel type.
        kind: String,
        /// The encoded fields that are specific to the type (RFC 4254 §5.1).
        fields: Vec<u8>,
    },
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(command) => write!(f, "command {}", command.escape_ascii()),
            Self::Shell => f.write_str("shell"),
            Self::Subsystem(name) => write!(f, "subsystem {name:?}"),
            Self::Channel { kind, .. } => write!(f, "channel {kind:?}"),
        }
    }
}

/// Serves channels. A closure `Fn(&Login, &Start, &mut Channel) -> impl Into<Exit>` is a handler
/// that accepts every request.
pub trait Handler: Send + Sync {
    /// Returns true to accept the request to start a command, shell or subsystem. Called on the
    /// connection's thread, so it must not block. The default accepts all of them.
    fn accepts(&self, login: &Login, start: &Start) -> bool {
        let _ = (login, start);
        true
    }

    /// Returns true to grant a terminal (RFC 4254 §6.2). Called on the connection's thread, so it must
    /// not block. The default grants it. The library opens no pty: the handler gets the terminal's description from [`Channel::pty`].
    fn accepts_pty(&self, login: &Login, pty: &Pty) -> bool {
        let _ = (login, pty);
        true
    }

    /// Returns true to accept a channel of a type other than `session` (RFC 4254 §5.1); `fields` are
    /// encoded, and specific to the type. Called on the connection's thread, so it must not block. The
    /// default refuses all of them.
    fn accepts_channel(&self, login: &Login, kind: &str, fields: &[u8]) -> bool {
        let _ = (login, kind, fields);
        false
    }

    /// Returns true to let the library forward for this client: it connects to the target and moves
    /// the bytes, or it listens until the client cancels that or leaves, with the rights of the
    /// program. A host name is looked up after the decision, so that it may lead to any address, the
    /// server's loopback included. Called on the connection's thread, so it must not block. The
    /// default refuses everything. Channels that [`Handler::accepts_channel`] accepts are not asked
    /// about.
    ///
    /// A connection has at most 256 listeners; each forwarded connection counts as a channel of
    /// `transport.max_channels` in [`Config`](super::Config).
    fn permits(&self, login: &Login, forward: &Forward) -> bool {
        let _ = (login, forward);
        false
    }

    /// Serves a channel, on a thread of its own. After it returns, the written bytes are sent and
    /// the channel is closed with the returned exit.
    fn serve(&self, login: &Login, start: &Start, channel: &mut Channel) -> Exit;
}

impl<F, E> Handler for F
where
    F: Fn(&Login, &Start, &mut Channel) -> E + Send + Sync,
    E: Into<Exit>,
{
    fn serve(&self, login: &Login, start: &Start, channel: &mut Channel) -> Exit {
        self(login, start, channel).into()
    }
}
