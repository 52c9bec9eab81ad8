//! Errors, and who is responsible for them.

use std::fmt;
use std::io;
use std::sync::Arc;

use driver::DriverError;

/// Who must change something before a retry can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The peer broke the protocol, refused, or closed the connection.
    Peer,
    /// The network: no route, a timeout, a broken connection.
    Network,
    /// The program that uses this library.
    Caller,
    /// The configuration: no common algorithm, a host key that is not trusted.
    Policy,
    /// This library.
    Bug,
}

/// Why a call failed. Cheap to clone: when a connection ends, all threads that wait on it get the
/// same error.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed: for a socket, a file or a new thread.
    Io(Arc<io::Error>),
    /// A protocol error: one side broke the protocol, or its rules end the connection. A DISCONNECT
    /// of the peer (RFC 4253 §11.1) is [`proto::Error::Disconnected`].
    Protocol(proto::Error),
    /// The connection has ended without DISCONNECT: the peer closed it, or this side has.
    Closed,
    /// The named operation did not complete within its time limit, which the caller or a `Config` has
    /// set.
    TimedOut(&'static str),
    /// The host key policy did not accept the server's key.
    HostKey(HostKeyProblem),
    /// The server refused the login by this method (RFC 4252 §5.1).
    AuthRefused {
        /// Methods that the server still accepts.
        methods: Vec<String>,
        /// True if the proof was accepted and one of `methods` is needed in addition.
        partial_success: bool,
    },
    /// The password was correct but has expired (RFC 4252 §8); the library cannot change it. Holds the
    /// server's text; escape it before printing.
    PasswordExpired(String),
    /// The key cannot be used to log in: its private part is elsewhere, it does not belong to the
    /// certificate, or the server accepts none of its algorithms.
    UnusableKey(String),
    /// The agent cannot be reached or gave an invalid answer.
    Agent(String),
    /// The peer refused the channel (RFC 4254 §5.1).
    ChannelRefused {
        /// Reason code: 1 prohibited, 2 connect failed, 3 unknown channel type, 4 resource shortage
        /// (RFC 4254 §5.1); others are possible.
        reason: u32,
        /// The peer's text; escape it before printing.
        description: String,
    },
    /// The peer refused the named channel request (`exec`, `pty-req`, …; RFC 4254 §5.4) or global request
    /// (`tcpip-forward`, …; RFC 4254 §4).
    RequestRefused(&'static str),
    /// The peer closed the channel.
    ChannelClosed,
    /// The command wrote more than the limit of bytes to keep in memory.
    TooMuchOutput {
        /// The limit, bytes, for standard output and standard error together.
        limit_bytes: usize,
    },
    /// The SFTP server refused a request, lacks an extension, or gave an invalid answer.
    Sftp {
        /// The server's status code (draft-ietf-secsh-filexfer-02 §7: 2 no such file, 3 permission
        /// denied, 4 failure, …), if it refused.
        code: Option<u32>,
        /// The reason, escaped.
        text: String,
    },
    /// Files or directories of a copy failed; the others are complete.
    Copy {
        /// Number of files and directories that failed.
        failures: usize,
        /// The first failure: file, operation and cause, escaped.
        first: String,
    },
    /// The call is not valid in the current state; the text says why.
    Misuse(&'static str),
}

/// Why a host key policy refused a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostKeyProblem {
    /// No key is recorded for the host.
    Unknown {
        /// Fingerprint `SHA256:…` of the server's key.
        fingerprint: String,
    },
    /// Another key is recorded for the host, of the same type or of another type.
    Changed {
        /// Fingerprint `SHA256:…` of the server's key.
        fingerprint: String,
        /// File and line of the recorded keys, separated by `, `.
        known_at: String,
    },
    /// The key, or the authority of its certificate, is marked as revoked.
    Revoked {
        /// File and line of the revocation.
        at: String,
    },
    /// The certificate is not valid; holds the reason.
    BadCertificate(String),
    /// The key cannot be used; holds the reason.
    Unusable(String),
    /// The key is not the expected one, or a closure returned false.
    NotExpected {
        /// Fingerprint `SHA256:…` of the server's key.
        fingerprint: String,
    },
    /// The known_hosts file cannot be read or written; holds the reason.
    Record(String),
}

impl Error {
    /// Who must change something before a retry can succeed.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Io(_) | Self::Closed | Self::TimedOut(_) => Fault::Network,
            Self::Protocol(error) => match error {
                proto::Error::NoCommonAlgorithm { .. }
                | proto::Error::HostKeyTooSmall { .. }
                | proto::Error::HostKeyRefused => Fault::Policy,
                proto::Error::TimedOut(_) => Fault::Network,
                proto::Error::Misuse(_) => Fault::Caller,
                proto::Error::Bug(_) => Fault::Bug,
                _ => Fault::Peer,
            },
            Self::HostKey(_) => Fault::Policy,
            Self::AuthRefused { .. }
            | Self::PasswordExpired(_)
            | Self::ChannelRefused { .. }
            | Self::RequestRefused(_)
            | Self::ChannelClosed
            | Self::TooMuchOutput { .. }
            | Self::Sftp { .. }
            | Self::Copy { .. } => Fault::Peer,
            Self::UnusableKey(_) | Self::Agent(_) | Self::Misuse(_) => Fault::Caller,
        }
    }

    /// The error that an [`io::Error`] of this crate carries, or the I/O error itself.
    #[cfg(feature = "sftp")]
    pub(crate) fn from_io(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(error) => error,
            Err(error) => error.into(),
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Io(error) => error.kind(),
            Self::TimedOut(_) | Self::Protocol(proto::Error::TimedOut(_)) => {
                io::ErrorKind::TimedOut
            }
            Self::Closed | Self::Protocol(proto::Error::Disconnected { .. }) => {
                io::ErrorKind::ConnectionReset
            }
            Self::ChannelClosed => io::ErrorKind::BrokenPipe,
            Self::AuthRefused { .. } | Self::PasswordExpired(_) | Self::HostKey(_) => {
                io::ErrorKind::PermissionDenied
            }
            Self::Misuse(_) => io::ErrorKind::InvalidInput,
            Self::Protocol(_) => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        }
    }
}

impl fmt::Display for HostKeyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { fingerprint } => write!(
                f,
                "no key is known for this host; its key is {fingerprint}. Compare this fingerprint with \
                 the one that the host's owner publishes, then add the key to known_hosts"
            ),
            Self::Changed {
                fingerprint,
                known_at,
            } => write!(
                f,
                "the host's key is {fingerprint}, which is not the one in {known_at}. An \
                 attacker may intercept the connection; if the host has a new key, replace that line"
            ),
            Self::Revoked { at } => write!(f, "the host's key is revoked by {at}"),
            Self::BadCertificate(why) => write!(f, "the host's certificate is not valid: {why}"),
            Self::Unusable(why) => write!(f, "the host's key cannot be used: {why}"),
            Self::NotExpected { fingerprint } => {
                write!(f, "the host's key {fingerprint} is not the expected one")
            }
            Self::Record(why) => write!(f, "known_hosts: {why}"),
        }
    }
}

/// Escapes the peer's text for use between double quotes.
fn quoted(text: &str) -> String {
    escape::escape(text, escape::Style::Quoted)
}

impl std::error::Error for HostKeyProblem {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Protocol(error) => error.fmt(f),
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::TimedOut(what) => write!(f, "timed out: {what}"),
            Self::HostKey(problem) => problem.fmt(f),
            Self::AuthRefused {
                methods,
                partial_success: false,
            } => write!(
                f,
                "the server refused the login; it accepts: {}",
                escape::one_line(methods.join(","))
            ),
            Self::AuthRefused { methods, .. } => write!(
                f,
                "the proof was accepted; another one is needed: {}",
                escape::one_line(methods.join(","))
            ),
            Self::PasswordExpired(text) => {
                write!(f, "the password has expired: \"{}\"", quoted(text))
            }
            Self::UnusableKey(why) => write!(f, "the key cannot be used: {why}"),
            Self::Agent(why) => write!(f, "agent: {why}"),
            Self::ChannelRefused {
                reason,
                description,
            } => write!(
                f,
                "the peer refused the channel: {reason}: \"{}\"",
                quoted(description)
            ),
            Self::RequestRefused(name) => write!(f, "the peer refused {name}"),
            Self::ChannelClosed => f.write_str("the peer closed the channel"),
            Self::TooMuchOutput { limit_bytes } => write!(
                f,
                "the command wrote more than {limit_bytes} bytes; read the channel instead"
            ),
            Self::Sftp { text, .. } => f.write_str(text),
            Self::Copy { failures: 1, first } => f.write_str(first),
            Self::Copy { failures, first } => {
                write!(
                    f,
                    "{failures} files or directories failed; the first: {first}"
                )
            }
            Self::Misuse(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Protocol(error) => Some(error),
            Self::HostKey(problem) => Some(problem),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<proto::Error> for Error {
    fn from(error: proto::Error) -> Self {
        Self::Protocol(error)
    }
}

impl From<DriverError> for Error {
    fn from(error: DriverError) -> Self {
        match error {
            DriverError::Io(error) => error.into(),
            DriverError::Proto(error) => error.into(),
        }
    }
}

/// For `Read` and `Write`; [`io::Error::get_ref`] returns the [`Error`].
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        io::Error::new(error.kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_an_owner() {
        let fault = |error: Error| error.fault();
        assert_eq!(fault(Error::Closed), Fault::Network);
        assert_eq!(fault(Error::Misuse("x")), Fault::Caller);
        assert_eq!(fault(proto::Error::PeerMisbehaved("x").into()), Fault::Peer);
        assert_eq!(fault(proto::Error::Bug("x").into()), Fault::Bug);
        assert_eq!(fault(proto::Error::HostKeyRefused.into()), Fault::Policy);
        let small = proto::Error::HostKeyTooSmall {
            bits: 1024,
            minimum: 2048,
        };
        assert_eq!(fault(small.into()), Fault::Policy);
    }

    #[test]
    fn an_io_error_carries_the_whole_error() {
        let io: io::Error = Error::ChannelClosed.into();
        assert_eq!(io.kind(), io::ErrorKind::BrokenPipe);
        let inner = io.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        assert!(matches!(inner, Some(Error::ChannelClosed)));
    }

    #[test]
    fn words_of_a_peer_are_escaped() {
        let error = Error::ChannelRefused {
            reason: 1,
            description: "no\u{1b}[2J".into(),
        };
        assert!(!error.to_string().contains('\u{1b}'));
    }
}
