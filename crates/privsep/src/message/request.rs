//! What the unprivileged halves send.

use wire::{DecodeError, Put, Reader};

use crate::field::{Field, Secret, record};

/// OpenSSH's levels of LogLevel, in which a line is written or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Cannot go on.
    Fatal,
    /// Something failed.
    Error,
    /// Logins and ends of connections.
    Info,
    /// Detail that an operator may want always.
    Verbose,
    /// Decisions.
    Debug1,
    /// Messages by name.
    Debug2,
    /// Internals.
    Debug3,
}

impl Field for LogLevel {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            0 => Self::Fatal,
            1 => Self::Error,
            2 => Self::Info,
            3 => Self::Verbose,
            4 => Self::Debug1,
            5 => Self::Debug2,
            6 => Self::Debug3,
            _ => return Err(DecodeError::Malformed("unknown log level")),
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(match self {
            Self::Fatal => 0,
            Self::Error => 1,
            Self::Info => 2,
            Self::Verbose => 3,
            Self::Debug1 => 4,
            Self::Debug2 => 5,
            Self::Debug3 => 6,
        });
    }
}

record! {
    /// A line for the log; no reply. The monitor escapes it, shortens it and bounds the rate.
    Log {
        /// Its level.
        level: LogLevel,
        /// The text, without a line end.
        text: String,
        /// Where the line says who the connection is with: what follows behind that. The monitor
        /// puts it between, for it knows whether there is such a user.
        tail: Option<String>,
    }
}

record! {
    /// Asks for a group of the moduli file (RFC 4419 §3); the reply is [`Group`].
    ChooseGroup {
        /// Smallest size in bits that the client takes.
        min_bits: u32,
        /// Size in bits that the client wishes.
        preferred_bits: u32,
        /// Largest size in bits that the client takes.
        max_bits: u32,
    }
}

record! {
    /// Asks for the host's signature of an exchange hash (RFC 4253 §8); the reply is
    /// [`Signature`]. The first hash is the session identifier, which the monitor keeps.
    SignExchangeHash {
        /// Key exchange method that was negotiated: it gives the length that `hash` must have.
        kex_algorithm: String,
        /// Host key algorithm that was negotiated (`rsa-sha2-512`, `…-cert-v01@openssh.com`).
        host_key_algorithm: String,
        /// Which host key: [`HostKey::index`].
        key_index: u32,
        /// H.
        hash: Vec<u8>,
        /// The client seems to be about to log in. Nothing is decided by it but when the next
        /// process is started.
        expects_login: bool,
    }
}

record! {
    /// Names the user of the first USERAUTH_REQUEST (RFC 4252 §5), once; the reply is
    /// [`UserPolicy`]. A later change of name or service is refused by the auth process.
    User {
        /// User name as the client sent it, which must be UTF-8.
        user: String,
        /// Service, which must be `ssh-connection`.
        service: String,
        /// The client's version line without line end.
        client_version: String,
    }
}

record! {
    /// Method `none` (RFC 4252 §5.2); the reply is [`AuthOutcome`].
    AuthNone {}
}

record! {
    /// A method that is not known here, or a request to change a password: always a failure,
    /// with the delay and the count of any other; the reply is [`AuthOutcome`].
    AuthOther {
        /// Name of the method as the client sent it.
        method: String,
    }
}

record! {
    /// Method `password` (RFC 4252 §8); the reply is [`AuthOutcome`].
    AuthPassword {
        /// The password.
        password: Secret,
    }
}

record! {
    /// Method `keyboard-interactive` begins (RFC 4256 §3.1); the reply is [`KbdintPrompts`] or
    /// [`AuthOutcome`].
    KbdintStart {
        /// Submethods that the client hints at, as it sent them.
        devices: String,
    }
}

record! {
    /// Answers to the prompts (RFC 4256 §3.4); the reply is as for [`KbdintStart`]. The count
    /// must be that of the prompts.
    KbdintRespond {
        /// The answers in the order of the prompts.
        responses: Vec<Secret>,
    }
}

record! {
    /// Asks whether this key would do (RFC 4252 §7, no signature); the reply is [`KeyAnswer`].
    KeyQuery {
        /// Public key algorithm of the request.
        algorithm: String,
        /// Public key or certificate blob.
        key: Vec<u8>,
    }
}

record! {
    /// Method `publickey` with a signature; the reply is [`AuthOutcome`]. The monitor builds
    /// the signed data itself, from its own session identifier, user and service.
    KeyVerify {
        /// Public key algorithm of the request.
        algorithm: String,
        /// Public key or certificate blob.
        key: Vec<u8>,
        /// Signature blob.
        signature: Vec<u8>,
        /// The host key that the client saw, for `publickey-hostbound-v00@openssh.com`: must be
        /// the one that signed the first exchange.
        hostbound: Option<Vec<u8>>,
    }
}

/// The live connection as opaque bytes, after [`AuthOutcome::Success`] and as the last message
/// of the auth process, which then ends. The monitor hands it to the session unread.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// What `proto` wrote.
    pub bytes: zeroize::Zeroizing<Vec<u8>>,
}

impl core::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Snapshot({} bytes)", self.bytes.len())
    }
}

impl Field for Snapshot {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            bytes: zeroize::Zeroizing::new(reader.string()?.to_vec()),
        })
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_string(&self.bytes);
    }
}

record! {
    /// Asks for proofs of `hostkeys-prove-00@openssh.com`; the reply is [`HostkeysProof`].
    HostkeysProve {
        /// Which keys, by [`HostKey::index`], and the signature algorithm for each.
        keys: Vec<(u32, String)>,
    }
}

record! {
    /// Asks for a pseudo-terminal; the reply is [`PtyGranted`], with the descriptors of master
    /// and slave in this order beside its first byte, or [`PtyRefused`]. The monitor writes the
    /// login records.
    PtyAllocate {}
}

record! {
    /// Gives a pseudo-terminal back: logout records are written, its owner reset; no reply.
    PtyRelease {
        /// Name as granted.
        tty: String,
    }
}
