//! SFTP version 3 (draft-ietf-secsh-filexfer-02), OpenSSH's extensions to it (PROTOCOL §4) and
//! our own (docs/PROTOCOL.md), without I/O.
//!
//! [`message`] holds one struct for each message, [`frame`] cuts a stream into them and lets the
//! data of WRITE and DATA pass without being gathered, [`requests`] is a client's memory of what
//! it has asked for, [`server`] what a server must know before it carries a request out. Files
//! are touched elsewhere: in `transfer`.
//!
//! Foreign lengths and counts are believed only as far as the bytes reach. Bytes behind the last
//! field of a message are passed over, as OpenSSH does: later versions of the protocol put
//! fields there, and some clients send them whatever version was agreed on.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod attributes;
pub mod extension;
pub mod frame;
pub mod message;
pub mod own;
pub mod requests;
pub mod server;
pub mod status;

#[cfg(test)]
mod tests;

pub use attributes::{Attributes, ExactTimes, Owner, Times, Timestamp};
pub use message::{Reply, Request};
pub use status::Code;

/// The version of the protocol.
pub const VERSION: u32 = 3;

/// Most payload bytes in one WRITE or DATA that a peer is told of (`limits@openssh.com`), as
/// OpenSSH's.
pub const MAX_DATA_BYTES: u32 = 255 * 1024;

/// Longest message that is accepted, in bytes without its length field: 256 KiB of data and a
/// head.
pub const MAX_MESSAGE_BYTES: usize = 257 * 1024;

/// Longest handle (draft §6.2), bytes.
pub const MAX_HANDLE_BYTES: usize = 256;

/// What WRITE and DATA may carry to or from a peer that announces no limits: every
/// implementation must take packets of 34,000 bytes (draft §3).
pub const SAFE_DATA_BYTES: u32 = 32 * 1024;
