//! Errors of the event loop.

use std::io;

/// Reason why the event loop ended.
#[derive(Debug)]
pub enum DriverError {
    /// The socket or epoll failed.
    Io(io::Error),
    /// Protocol error or end of the connection; a matching DISCONNECT has been sent.
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
