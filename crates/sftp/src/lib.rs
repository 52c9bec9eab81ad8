//! SFTP version 3 (draft-ietf-secsh-filexfer-02), OpenSSH's extensions (PROTOCOL §4) and Fulmar's
//! vendor extensions (docs/PROTOCOL.md): the messages, the client's session and the server.
//!
//! [`message`] has one struct per message. [`frame`] splits a byte stream into messages and passes
//! the data of WRITE and DATA on without collecting it. [`client`] sends requests and passes on the
//! answers. [`server`] decides which requests a server accepts, and carries them out. [`hash`] and
//! [`watch`] are what both ends do with files: hashes of ranges, and whether another program writes.
//! The codec touches no file. Copies are in the crate `transfer`.
//!
//! A length or count from the peer is checked against the bytes received; no memory is reserved for
//! it in advance. Bytes after the last field of a message are ignored, as OpenSSH ignores them:
//! later versions of the protocol add fields there, and some clients send them whatever version was
//! negotiated.
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attributes;
pub mod client;
pub mod extension;
pub mod frame;
mod framing;
pub mod hash;
pub mod message;
mod names;
pub mod number;
#[cfg(test)]
mod scratch;
pub mod server;
pub mod status;
pub mod vendor;

pub mod watch;

#[cfg(test)]
mod tests;

pub use attributes::{Attributes, ExactTimes, Owner, Times, Timestamp};
pub use message::{Reply, Request};
pub use status::Code;

/// The SFTP version that client and server speak.
pub const VERSION: u32 = 3;

/// Maximum number of bytes of one READ or WRITE, as announced in `limits@openssh.com`: OpenSSH's
/// value.
pub const MAX_DATA_BYTES: u32 = 255 * 1024;

/// Maximum length of an accepted message, in bytes without its length field: 256 KiB of data plus
/// the other fields.
pub const MAX_MESSAGE_BYTES: usize = 257 * 1024;

/// Maximum length of a handle (draft §6.2), bytes.
pub const MAX_HANDLE_BYTES: usize = 256;

/// Number of data bytes that every peer accepts in one WRITE or DATA, whether or not it announces
/// limits: every implementation must accept packets of 34,000 bytes (draft §3).
pub const SAFE_DATA_BYTES: u32 = 32 * 1024;
