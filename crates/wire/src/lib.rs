//! RFC 4251 §5 data types, one struct per SSH message, and the table of messages.
//!
//! This crate has no I/O, cryptography or state. A [`Reader`] decodes untrusted bytes without
//! panicking and without allocating according to an untrusted count; [`Put`] encodes. `proto`
//! implements the messages, and decides from [`message::MESSAGES`] which message may arrive when.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod algorithms;
mod codec;
pub mod hex;
pub mod message;
pub mod names;
pub mod permissions;
pub mod userauth;

#[cfg(test)]
mod tests;

pub use codec::{DecodeError, Field, Mpint, NameList, Put, Reader, Rest};

/// The domain of Fulmar's own extension, algorithm and request names (`name@domain`).
pub const EXTENSION_DOMAIN: &str = "fulmar.invalid";

/// Maximum length of an accepted packet in bytes, counted like `packet_length` in RFC 4253 §6
/// (padding length, payload and padding).
pub const MAX_PACKET_BYTES: usize = 256 * 1024;

/// Maximum size of an accepted `mpint` in bits.
pub const MAX_MPINT_BITS: usize = 16_384;
