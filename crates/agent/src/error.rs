//! What can go wrong with an agent.

use core::fmt;
use std::io;

use wire::DecodeError;

/// Why a request to an agent came to nothing.
#[derive(Debug)]
pub enum AgentError {
    /// The stream failed or ended.
    Io(io::Error),
    /// The agent answers with a message longer than [`crate::message::MAX_MESSAGE_BYTES`], or
    /// with an empty one.
    BadLength {
        /// The length that it announced, in bytes.
        bytes: u32,
    },
    /// The answer's fields do not fit its type.
    Malformed(DecodeError),
    /// The answer is of a type that does not belong to the request.
    UnexpectedAnswer {
        /// The number that came.
        number: u8,
    },
    /// The agent refuses (SSH_AGENT_FAILURE): it has no such key, it is locked, its user
    /// said no.
    Refused,
    /// The request would be longer than an agent takes.
    RequestTooLong,
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "communication with agent failed: {error}"),
            Self::BadLength { bytes } => {
                write!(f, "agent announced an answer of {bytes} bytes")
            }
            Self::Malformed(error) => write!(f, "malformed answer from agent: {error}"),
            Self::UnexpectedAnswer { number } => {
                write!(f, "agent answered with unexpected message {number}")
            }
            Self::Refused => f.write_str("agent refused operation"),
            Self::RequestTooLong => f.write_str("request is too long for an agent"),
        }
    }
}

impl std::error::Error for AgentError {}

impl From<io::Error> for AgentError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<DecodeError> for AgentError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}
