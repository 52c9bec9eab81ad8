//! The error type of a connection, which says whose fault a failure is, and the mapping from errors
//! to DISCONNECT reasons (RFC 4253 §11.1).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use wire::DecodeError;
use wire::message::reason;

/// Reason why a connection cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The peer's bytes do not decode as the message that they claim to be.
    Malformed(DecodeError),
    /// The peer violated the named rule.
    PeerMisbehaved(&'static str),
    /// A message arrived that is not permitted in this phase.
    NotPermitted {
        /// Message number.
        message: u8,
    },
    /// The peer requested an unknown service (RFC 4253 §10).
    ServiceNotAvailable,
    /// The peer's identification line is not SSH-2.
    NotSsh(String),
    /// The two sides have no common algorithm of one kind.
    NoCommonAlgorithm {
        /// The kind: `key exchange method`, `host key type`, `cipher`, `MAC` or `compression
        /// method`.
        kind: &'static str,
        /// Our list.
        ours: Vec<String>,
        /// The peer's list.
        theirs: Vec<String>,
    },
    /// A short first KEXINIT led to other algorithms than the full lists ([`crate::ShortOffer`]).
    ShortOffer,
    /// A MAC or tag did not match, or a packet's length or padding is invalid. No detail is kept.
    IntegrityFailed,
    /// The server's signature over the exchange hash is wrong.
    HostKeySignature,
    /// The server's host key is an RSA key of fewer bits than [`crate::TransportConfig::min_rsa_bits`].
    HostKeyTooSmall {
        /// Bits of its modulus.
        bits: usize,
        /// The least number of bits that is accepted.
        minimum: usize,
    },
    /// The application refused the server's host key.
    HostKeyRefused,
    /// A key exchange by GSS-API failed, for this reason of the library or of the peer; it is not escaped.
    GssFailed(String),
    /// A key exchange value was refused.
    KeyExchange(crypto::KexError),
    /// A compressed payload is invalid, or inflates past the limit.
    Compression(compress::InflateError),
    /// The peer sent DISCONNECT.
    Disconnected {
        /// One of `wire::message::reason`.
        reason: u32,
        /// The peer's text, not escaped.
        description: String,
    },
    /// No input arrived for too long, or a key exchange was not completed in time.
    TimedOut(&'static str),
    /// A command does not fit the connection's state: the caller's fault.
    Misuse(&'static str),
    /// An internal invariant is violated.
    Bug(&'static str),
}

impl Error {
    /// Returns the reason code and description for our DISCONNECT; `None` if the peer sent one.
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
            Self::ShortOffer => (reason::KEY_EXCHANGE_FAILED, "the full lists are needed"),
            Self::IntegrityFailed => (reason::MAC_ERROR, "packet integrity error"),
            Self::HostKeySignature => (reason::KEY_EXCHANGE_FAILED, "host key signature incorrect"),
            Self::HostKeyTooSmall { .. } => {
                (reason::HOST_KEY_NOT_VERIFIABLE, "RSA host key too small")
            }
            Self::HostKeyRefused => (reason::HOST_KEY_NOT_VERIFIABLE, "host key not verified"),
            Self::GssFailed(_) => (reason::KEY_EXCHANGE_FAILED, "GSS-API key exchange failed"),
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
            Self::ServiceNotAvailable => f.write_str("the peer requested an unknown service"),
            Self::NotSsh(line) => write!(f, "the peer does not speak SSH-2: {line}"),
            Self::NoCommonAlgorithm { kind, theirs, .. } => {
                write!(
                    f,
                    "no matching {kind} found. Their offer: {}",
                    theirs.join(",")
                )
            }
            Self::ShortOffer => {
                f.write_str("the server no longer agrees to the algorithms of the last connection")
            }
            // OpenSSH's wording, because people search logs for it.
            Self::IntegrityFailed => {
                f.write_str("Corrupted MAC on input: message authentication code incorrect")
            }
            Self::HostKeySignature => {
                f.write_str("the server's signature over the key exchange is incorrect")
            }
            Self::HostKeyTooSmall { bits, minimum } => write!(
                f,
                "the server's RSA host key has {bits} bits, fewer than {minimum}"
            ),
            Self::HostKeyRefused => f.write_str("Host key verification failed."),
            Self::GssFailed(reason) => write!(f, "GSS-API key exchange failed: {reason}"),
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
    // The peer learns nothing about which check failed: one answer for all (RFC 4253 §11.1; more
    // detail made plaintext recovery attacks possible).
    fn from(_: packet::PacketError) -> Self {
        Self::IntegrityFailed
    }
}
