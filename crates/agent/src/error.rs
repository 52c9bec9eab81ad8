//! Errors of the agent protocol.

use core::fmt;
use std::io;

use keys::private_file::PrivateFileError;
use wire::DecodeError;

/// Why a request to an agent failed.
#[derive(Debug)]
pub enum AgentError {
    /// The stream failed or reached its end.
    Io(io::Error),
    /// The answer's length is 0 or exceeds [`crate::message::MAX_MESSAGE_BYTES`].
    BadLength {
        /// The announced length, in bytes.
        bytes: u32,
    },
    /// The fields of the answer are malformed.
    Malformed(DecodeError),
    /// The answer's type does not match the request.
    UnexpectedAnswer {
        /// Message number of the answer.
        number: u8,
    },
    /// The agent refused (SSH_AGENT_FAILURE or SSH_AGENT_EXTENSION_FAILURE): it does not have the
    /// key, it is locked, or its user denied the request.
    Refused,
    /// The request exceeds [`crate::message::MAX_MESSAGE_BYTES`].
    RequestTooLong,
    /// The key to add cannot be encoded: its secret is not in this process.
    Key(PrivateFileError),
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
            Self::Key(error) => write!(f, "{error}"),
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
