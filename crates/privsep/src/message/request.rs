//! Messages from the unprivileged processes.

use wire::{DecodeError, Put, Reader};

use crate::field::{Field, Secret, record};

pub use escape::LogLevel;

impl Field for LogLevel {
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let number = reader.u8()?;
        let level = Self::ALL.get(usize::from(number)).copied();
        level.ok_or(DecodeError::Malformed("unknown log level"))
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.number());
    }
}

record! {
    /// A line for the log; no reply. The monitor escapes and shortens it and limits the rate.
    Log {
        /// Severity of the line.
        level: LogLevel,
        /// True if LogVerbose names the place that wrote it, so that the level does not count.
        is_forced: bool,
        /// The text, without a line end.
        text: String,
        /// Second half of the line, if user and address belong between `text` and `tail`. The
        /// monitor inserts both, because only it knows whether the user exists.
        tail: Option<String>,
    }
}

record! {
    /// Asks for a group from the moduli file (RFC 4419 §3); the reply is [`crate::Group`].
    ChooseGroup {
        /// Smallest size in bits that the client accepts.
        min_bits: u32,
        /// Size in bits that the client prefers.
        preferred_bits: u32,
        /// Largest size in bits that the client accepts.
        max_bits: u32,
    }
}

record! {
    /// Asks for the host's signature of an exchange hash (RFC 4253 §8); the reply is [`crate::Signature`].
    /// The monitor keeps the first hash as the session identifier.
    SignExchangeHash {
        /// Negotiated key exchange method, which determines the length of `hash`.
        kex_algorithm: String,
        /// Negotiated host key algorithm (`rsa-sha2-512`, `…-cert-v01@openssh.com`).
        host_key_algorithm: String,
        /// The host key's [`crate::HostKey::index`].
        key_index: u32,
        /// Exchange hash H.
        hash: Vec<u8>,
        /// True if the client seems to be about to log in. The monitor uses this only to choose
        /// when to start the session process.
        expects_login: bool,
    }
}

record! {
    /// Names the user of the first USERAUTH_REQUEST (RFC 4252 §5), once; the reply is
    /// [`crate::UserPolicy`]. The auth process refuses later changes of user name or service.
    User {
        /// User name as the client sent it; valid UTF-8.
        user: String,
        /// Service name; must be `ssh-connection`.
        service: String,
        /// The client's version line without line end.
        client_version: String,
    }
}

record! {
    /// Method `none` (RFC 4252 §5.2); the reply is [`crate::AuthOutcome`].
    AuthNone {}
}

record! {
    /// An unknown method or a request to change a password: always a failure, delayed and counted
    /// like any other; the reply is [`crate::AuthOutcome`].
    AuthOther {
        /// Name of the method as the client sent it.
        method: String,
    }
}

record! {
    /// Method `password` (RFC 4252 §8); the reply is [`crate::AuthOutcome`].
    AuthPassword {
        /// The password.
        password: Secret,
    }
}

record! {
    /// Starts method `keyboard-interactive` (RFC 4256 §3.1); the reply is [`crate::KbdintPrompts`] or
    /// [`crate::AuthOutcome`].
    KbdintStart {
        /// The client's list of preferred submethods, as received.
        devices: String,
    }
}

record! {
    /// Answers to the prompts (RFC 4256 §3.4); the reply is as for [`KbdintStart`]. The number of
    /// answers must equal the number of prompts.
    KbdintRespond {
        /// The answers in the order of the prompts.
        responses: Vec<Secret>,
    }
}

record! {
    /// Asks whether a key is acceptable (RFC 4252 §7, no signature); the reply is [`crate::KeyAnswer`].
    KeyQuery {
        /// Public key algorithm named in the request.
        algorithm: String,
        /// Public key or certificate blob.
        key: Vec<u8>,
    }
}

record! {
    /// Method `publickey` with a signature; the reply is [`crate::AuthOutcome`]. The monitor builds the
    /// signed data itself, from its own session identifier, user and service.
    KeyVerify {
        /// Public key algorithm named in the request.
        algorithm: String,
        /// Public key or certificate blob.
        key: Vec<u8>,
        /// Signature blob.
        signature: Vec<u8>,
        /// Host key that the client saw, for `publickey-hostbound-v00@openssh.com`. It must be the
        /// key that signed the first exchange.
        hostbound: Option<Vec<u8>>,
    }
}

record! {
    /// Method `hostbased` (RFC 4252 §9); the reply is [`crate::AuthOutcome`]. The monitor builds the
    /// signed data itself, from its own session identifier, user and service.
    HostbasedVerify {
        /// Public key algorithm named in the request.
        algorithm: String,
        /// Public key or certificate blob of the client's host.
        key: Vec<u8>,
        /// Name of the client's host, as the client sent it.
        client_host: String,
        /// The user's name on the client's host, as the client sent it.
        client_user: String,
        /// Signature blob.
        signature: Vec<u8>,
    }
}

record! {
    /// Starts method `gssapi-with-mic` with Kerberos (RFC 4462 §3.2); the reply is
    /// [`crate::GssapiReady`] or [`crate::AuthOutcome`].
    GssapiStart {}
}

record! {
    /// The client's token of the exchange (RFC 4462 §3.4); the reply is [`crate::GssapiReady`], or
    /// [`crate::AuthOutcome`], which [`crate::GssapiErrorToken`] may precede.
    GssapiToken {
        /// The token.
        token: Vec<u8>,
    }
}

record! {
    /// The client's MIC (RFC 4462 §3.5); the reply is [`crate::AuthOutcome`]. The monitor builds the
    /// data that it covers itself, from its own session identifier, user and service.
    GssapiMic {
        /// The MIC; empty if the client sent none.
        mic: Vec<u8>,
    }
}

record! {
    /// The client's token of a key exchange by GSS-API (RFC 4462 §2.1); the reply is [`crate::GssOutcome`]. The first
    /// one begins an exchange, in which method and hash do not change. The monitor keeps the hash of the first
    /// complete exchange as the session identifier.
    GssExchange {
        /// Negotiated key exchange method, which determines the length of `hash`.
        kex_algorithm: String,
        /// Exchange hash H.
        hash: Vec<u8>,
        /// The token.
        token: Vec<u8>,
    }
}

record! {
    /// Method `gssapi-keyex` (RFC 4462 §4); the reply is [`crate::AuthOutcome`]. The monitor builds the data that the
    /// MIC covers itself, from its own session identifier, user and service.
    GssapiKeyex {
        /// The MIC in the context of the first key exchange.
        mic: Vec<u8>,
    }
}

/// The state of the live connection as opaque bytes: the last message of the auth process, sent
/// after [`crate::AuthOutcome::Success`]. The auth process then exits. The monitor forwards the bytes to
/// the session process without decoding them.
#[derive(Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Snapshot in `proto`'s encoding.
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
    /// Asks for signatures for `hostkeys-prove-00@openssh.com`; the reply is [`crate::HostkeysProof`].
    HostkeysProve {
        /// [`crate::HostKey::index`] of each key, and the signature algorithm for it.
        keys: Vec<(u32, String)>,
    }
}

record! {
    /// Asks for a pseudo-terminal; the reply is [`crate::PtyRefused`], or [`crate::PtyGranted`] with the
    /// descriptors of master and slave, in this order, attached to its first byte. The monitor
    /// writes the login records.
    PtyAllocate {}
}

record! {
    /// Releases a pseudo-terminal; no reply. The monitor writes the logout records and resets the
    /// device's owner.
    PtyRelease {
        /// Device path as in [`crate::PtyGranted::tty`].
        tty: String,
    }
}

record! {
    /// Asks for a tunnel device; the reply is [`crate::TunnelRefused`], or [`crate::TunnelGranted`]
    /// with the device's descriptor attached to its first byte. The monitor decides whether the user
    /// may have it, and opens it with the user's rights.
    TunnelOpen {
        /// True for a device of Ethernet frames, false for one of IP packets.
        ethernet: bool,
        /// Number of the device; `None` for any free one.
        unit: Option<u32>,
        /// True if virtio's header shall precede each packet.
        with_header: bool,
    }
}

record! {
    /// What this session has done so far, for the metrics; no reply. Sent at the session's end and at
    /// most once a minute before.
    TrafficReport {
        /// Bytes read from the client.
        received: u64,
        /// Bytes written to the client.
        sent: u64,
        /// Numbers of channels opened, in the order of [`crate::roles::COUNTED_CHANNELS`].
        channels: Vec<u64>,
    }
}
