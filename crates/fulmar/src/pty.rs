//! Types that both sides use: the requested terminal and the exit of a command.

use std::fmt;

use proto::channel::Request;

/// A terminal, as `pty-req` describes it (RFC 4254 §6.2).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pty {
    /// Value of `TERM`, such as `xterm-256color`. A server's handler gets it with invalid UTF-8
    /// replaced.
    pub term: String,
    /// Width, characters; 0 if unknown. Its size in pixels is always sent as 0 (unknown).
    pub columns: u32,
    /// Height, rows; 0 if unknown.
    pub rows: u32,
    /// Encoded terminal modes (RFC 4254 §8); one byte 0 for none.
    pub modes: Vec<u8>,
}

impl Pty {
    /// A terminal with this `TERM` and size, and the server's default modes.
    #[must_use]
    pub fn new(term: &str, columns: u32, rows: u32) -> Self {
        Self {
            term: term.to_owned(),
            columns,
            rows,
            modes: vec![0],
        }
    }

    pub(crate) fn to_request(&self) -> Request {
        Request::Pty {
            term: self.term.clone().into_bytes(),
            columns: self.columns,
            rows: self.rows,
            width_px: 0,
            height_px: 0,
            modes: self.modes.clone(),
        }
    }
}

/// How a command ended (RFC 4254 §6.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// The command ended with this status: on Unix 0 to 255, 0 for success; the protocol permits any
    /// number.
    Status(u32),
    /// A signal ended the command.
    Signal {
        /// The signal's name without `SIG`, such as `TERM`. From a server, it may be any text: escape
        /// it before printing.
        name: String,
        /// True if a core was dumped.
        core_dumped: bool,
        /// The peer's text; escape it before printing.
        message: String,
    },
    /// The peer closed the channel without an exit status.
    Unknown,
}

impl Exit {
    /// True if the command ended with status 0.
    #[must_use]
    pub fn is_success(&self) -> bool {
        *self == Self::Status(0)
    }

    pub(crate) fn from_request(request: &Request) -> Option<Self> {
        match request {
            Request::ExitStatus { status } => Some(Self::Status(*status)),
            Request::ExitSignal {
                name,
                core_dumped,
                message,
                ..
            } => Some(Self::Signal {
                name: name.clone(),
                core_dumped: *core_dumped,
                message: message.clone(),
            }),
            _ => None,
        }
    }

    pub(crate) fn to_request(&self) -> Option<Request> {
        match self {
            Self::Status(status) => Some(Request::ExitStatus { status: *status }),
            Self::Signal {
                name,
                core_dumped,
                message,
            } => Some(Request::ExitSignal {
                name: name.clone(),
                core_dumped: *core_dumped,
                message: message.clone(),
                language: String::new(),
            }),
            Self::Unknown => None,
        }
    }
}

impl From<u32> for Exit {
    fn from(status: u32) -> Self {
        Self::Status(status)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "exit status {status}"),
            Self::Signal { name, .. } => write!(f, "signal {name:?}"),
            Self::Unknown => f.write_str("closed without an exit status"),
        }
    }
}
