//! The errors of requests to security keys.

use std::fmt;

/// Why there is no signature or no key. The words of the first four are OpenSSH's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FidoError {
    /// The PIN is wrong, or one is needed and none was given.
    PinRequired,
    /// The token or the library lacks a feature.
    Unsupported,
    /// No token is attached that knows the key.
    DeviceNotFound,
    /// The token stores a key for the same application and user.
    CredentialExists,
    /// Anything else, in words.
    Failed(String),
}

impl FidoError {
    pub(crate) fn failed(text: impl fmt::Display) -> Self {
        Self::Failed(text.to_string())
    }

    /// The error with this number of sk-api.h.
    pub(crate) fn from_code(code: i32) -> Self {
        match code {
            -2 => Self::Unsupported,
            -3 => Self::PinRequired,
            -4 => Self::DeviceNotFound,
            -5 => Self::CredentialExists,
            _ => Self::Failed("invalid format".to_owned()),
        }
    }

    /// The number in sk-api.h.
    pub(crate) fn code(&self) -> i32 {
        match self {
            Self::Failed(_) => -1,
            Self::Unsupported => -2,
            Self::PinRequired => -3,
            Self::DeviceNotFound => -4,
            Self::CredentialExists => -5,
        }
    }
}

impl fmt::Display for FidoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PinRequired => {
                f.write_str("incorrect passphrase supplied to decrypt private key")
            }
            Self::Unsupported => f.write_str("requested feature not supported"),
            Self::DeviceNotFound => f.write_str("device not found"),
            Self::CredentialExists => f.write_str("bad permissions"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for FidoError {}

impl From<wire::DecodeError> for FidoError {
    fn from(error: wire::DecodeError) -> Self {
        Self::Failed(format!("bad answer: {error}"))
    }
}

impl From<keys::KeyError> for FidoError {
    fn from(error: keys::KeyError) -> Self {
        Self::Failed(error.to_string())
    }
}
