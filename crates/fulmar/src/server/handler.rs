//! What a server does for those who are in.

use std::fmt;
use std::net::SocketAddr;

use keys::PresentedKey;

use super::auth::Method;
use super::channel::Channel;
use crate::{Exit, Pty};

/// Who is logged in, and by what.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Login {
    /// The user name.
    pub user: String,
    /// The client's address, where the stream has one.
    pub peer: Option<SocketAddr>,
    /// The method that completed the login.
    pub method: Method,
    /// The key or certificate whose signature was verified, when `method` is a key's.
    pub key: Option<PresentedKey>,
    /// Methods that were passed before.
    pub passed: Vec<Method>,
}

/// What a client wants on a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// A command line, as the client sent it.
    Exec(Vec<u8>),
    /// A shell.
    Shell,
    /// A subsystem by name.
    Subsystem(String),
}

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(command) => write!(f, "command {}", command.escape_ascii()),
            Self::Shell => f.write_str("shell"),
            Self::Subsystem(name) => write!(f, "subsystem {name:?}"),
        }
    }
}

/// Serves channels. A closure `Fn(&Login, &Start, &mut Channel) -> impl Into<Exit>` is one that
/// accepts everything.
pub trait Handler: Send + Sync {
    /// Whether to serve this at all; called on the connection's thread, so answer at once.
    fn accepts(&self, login: &Login, start: &Start) -> bool {
        let _ = (login, start);
        true
    }

    /// Whether to grant a terminal. Nothing here makes one: the handler gets its description.
    fn accepts_pty(&self, login: &Login, pty: &Pty) -> bool {
        let _ = (login, pty);
        true
    }

    /// Serves a channel, on a thread of its own. What was written is sent before the channel
    /// is closed with the exit that is returned.
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
