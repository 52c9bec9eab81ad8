//! Why the loop ends.

use std::io;

/// Why the loop cannot go on.
#[derive(Debug)]
pub enum DriverError {
    /// The socket or epoll failed.
    Io(io::Error),
    /// The protocol was broken or ended; a DISCONNECT that fits has been sent.
    Proto(proto::Error),
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Proto(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DriverError {}

impl From<io::Error> for DriverError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<proto::Error> for DriverError {
    fn from(error: proto::Error) -> Self {
        Self::Proto(error)
    }
}
