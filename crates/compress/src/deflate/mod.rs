//! Deflate by packets (RFC 1951): an encoder that takes a payload whole, with its history before
//! it, and a decoder that has all of a payload's bytes in memory.
//!
//! Neither is resumable inside a payload, and that is where their speed comes from: no window is
//! copied, no state is kept but the matches' tables and fewer than ten bits.
//!
//! `encoder`: `matcher` finds repetitions, `parse` chooses among them, `block` writes them down
//! with the codes of `huffman`. `decoder`: `tables` from code lengths, `inflate` with them. What
//! they know of the stream around a payload is in `window` and `gaps`: a window holds one channel's bytes
//! alone, and the gaps say where other bytes stand in the stream between them (`encoder::translate`).

// Lengths and positions within a payload and its history: bounded by their sum, which is checked
// where a payload comes in.
#![allow(clippy::cast_possible_truncation)]

mod decoder;
mod encoder;
mod gaps;
mod symbols;
mod window;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decoder::PacketDecoder;
pub(crate) use encoder::{Carry, Engine, Piece, Source, flush_behind, store};
pub(crate) use gaps::Gaps;
pub(crate) use window::Window;

/// Bytes that may be read behind a window's last, whatever they hold.
pub(crate) const SLACK_BYTES: usize = 32;
