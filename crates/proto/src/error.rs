//! Whose fault a failed connection is, and the one function that turns an error into the
//! reason of a DISCONNECT (RFC 4253 §11.1).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use wire::DecodeError;
use wire::message::reason;

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The peer's bytes are not the message that they claim to be.
    Malformed(DecodeError),
    /// The peer broke the rule that is named.
    PeerMisbehaved(&'static str),
    /// A message arrived that has no place in this phase.
    NotPermitted {
        /// Its number.
        message: u8,
    },
    /// The peer asked for a service that we do not have (RFC 4253 §10).
    ServiceNotAvailable,
    /// The peer's version line is not SSH-2.
    NotSsh(String),
    /// The two sides share no algorithm of one kind.
    NoCommonAlgorithm {
        /// What kind: `key exchange method`, `host key type`, `cipher`, `MAC`, `compression`.
        kind: &'static str,
        /// Our list.
        ours: Vec<String>,
        /// The peer's list.
        theirs: Vec<String>,
    },
    /// A short first KEXINIT would have led elsewhere than the whole lists ([`crate::ShortOffer`]).
    ShortOffer,
    /// A MAC or tag did not match, or a packet's frame is impossible. No detail is kept.
    IntegrityFailed,
    /// The server's signature over the exchange hash is wrong.
    HostKeySignature,
    /// The server's host certificate is signed with an algorithm that is not permitted for one
    /// ([`crate::TransportConfig::ca_signature_algorithms`]).
    HostKeyAuthority,
    /// The application refused the server's host key.
    HostKeyRefused,
    /// A key exchange value was refused.
    KeyExchange(crypto::KexError),
    /// A compressed payload could not be inflated, or inflates past the limit.
    Compression(compress::InflateError),
    /// The peer said goodbye.
    Disconnected {
        /// One of `wire::message::reason`.
        reason: u32,
        /// The peer's words, not escaped.
        description: String,
    },
    /// Nothing came for too long, or a key exchange did not end in time.
    TimedOut(&'static str),
    /// A command that does not fit the connection's state: the caller's fault.
    Misuse(&'static str),
    /// An invariant of ours does not hold.
    Bug(&'static str),
}

impl Error {
    /// The reason code and words for the DISCONNECT that we send, or `None` where the peer
    /// has already gone.
    #[must_use]
    pub fn disconnect_reason(&self) -> Option<(u32, &'static str)> {
        Some(match self {
            Self::Disconnected { .. } => return None,
            Self::Malformed(_) => (reason::PROTOCOL_ERROR, "malformed message"),
            Self::PeerMisbehaved(rule) => (reason::PROTOCOL_ERROR, rule),
            Self::NotPermitted { .. } => (reason::PROTOCOL_ERROR, "message not permitted now"),
            Self::ServiceNotAvailable => (reason::SERVICE_NOT_AVAILABLE, "service not available"),
            Self::NotSsh(_) => (
                reason::PROTOCOL_VERSION_NOT_SUPPORTED,
                "protocol version not supported",
            ),
            Self::NoCommonAlgorithm { .. } => (reason::KEY_EXCHANGE_FAILED, "no common algorithm"),
            Self::ShortOffer => (reason::KEY_EXCHANGE_FAILED, "the whole lists are needed"),
            Self::IntegrityFailed => (reason::MAC_ERROR, "packet integrity error"),
            Self::HostKeySignature => (reason::KEY_EXCHANGE_FAILED, "host key signature incorrect"),
            Self::HostKeyAuthority => (
                reason::HOST_KEY_NOT_VERIFIABLE,
                "host certificate not permitted",
            ),
            Self::HostKeyRefused => (reason::HOST_KEY_NOT_VERIFIABLE, "host key not verified"),
            Self::KeyExchange(_) => (reason::KEY_EXCHANGE_FAILED, "key exchange value refused"),
            Self::Compression(_) => (reason::COMPRESSION_ERROR, "compression error"),
            Self::TimedOut(what) => (reason::BY_APPLICATION, what),
            Self::Misuse(_) | Self::Bug(_) => (reason::BY_APPLICATION, "internal error"),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed message from the peer: {error}"),
            Self::PeerMisbehaved(rule) => write!(f, "protocol error by the peer: {rule}"),
            Self::NotPermitted { message } => match wire::message::info(*message) {
                Some(info) => write!(
                    f,
                    "protocol error: {} ({message}) is not permitted now",
                    info.name
                ),
                None => write!(
                    f,
                    "protocol error: message type {message} is not permitted now"
                ),
            },
            Self::ServiceNotAvailable => f.write_str("the peer asked for an unknown service"),
            Self::NotSsh(line) => write!(f, "the peer does not speak SSH-2: {line}"),
            Self::NoCommonAlgorithm { kind, theirs, .. } => {
                write!(
                    f,
                    "no matching {kind} found. Their offer: {}",
                    theirs.join(",")
                )
            }
            Self::ShortOffer => {
                f.write_str("the server would agree to others of our algorithms than the last time")
            }
            // Both in OpenSSH's words: logs are searched for either.
            Self::IntegrityFailed => {
                f.write_str("Corrupted MAC on input: message authentication code incorrect")
            }
            Self::HostKeySignature => {
                f.write_str("the server's signature over the key exchange is incorrect")
            }
            Self::HostKeyAuthority => f.write_str(
                "the server's host certificate is signed with an algorithm that is not permitted",
            ),
            Self::HostKeyRefused => f.write_str("Host key verification failed."),
            Self::KeyExchange(error) => write!(f, "key exchange: {error}"),
            Self::Compression(why) => write!(f, "compressed data: {why}"),
            Self::Disconnected {
                reason,
                description,
            } => {
                write!(f, "disconnected by the peer: {reason}: {description}")
            }
            Self::TimedOut(what) => write!(f, "timed out: {what}"),
            Self::Misuse(what) => write!(f, "misuse of the connection: {what}"),
            Self::Bug(what) => write!(f, "internal error: {what}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<DecodeError> for Error {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<crypto::KexError> for Error {
    fn from(error: crypto::KexError) -> Self {
        Self::KeyExchange(error)
    }
}

impl From<packet::PacketError> for Error {
    // Which check failed is nobody's business but ours: one answer for all (RFC 4253 §11.1,
    // and the plaintext recovery attacks that more detail made possible).
    fn from(_: packet::PacketError) -> Self {
        Self::IntegrityFailed
    }
}
