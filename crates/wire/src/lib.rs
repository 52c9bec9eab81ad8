//! RFC 4251 §5 data types, one struct per SSH message, and the one table of messages.
//!
//! No I/O, no cryptography, no state: a [`Reader`] takes foreign bytes apart without ever
//! panicking or allocating by a foreign count, and [`Put`] writes ours. What a message *does*
//! lives in `proto`; which message may arrive *when* is answered there too, from
//! [`message::MESSAGES`].
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;

pub mod algorithms;
mod codec;
pub mod message;
pub mod names;

#[cfg(test)]
mod tests;

pub use codec::{DecodeError, Field, Mpint, NameList, Put, Reader, Rest};

/// The domain behind every extension, algorithm and request name of our own.
pub const EXTENSION_DOMAIN: &str = "fulmar.invalid";

/// Longest packet that is ever accepted, in bytes, counted as RFC 4253 §6 counts
/// `packet_length` (padding length, payload and padding).
pub const MAX_PACKET_BYTES: usize = 256 * 1024;

/// Longest multiple-precision integer that is accepted, in bits.
pub const MAX_MPINT_BITS: usize = 16_384;
