//! Flow control, RFC 4254 §5.2: what the peer may still send, and when it is told that it may
//! send more. A WINDOW_ADJUST follows the sink, never the arrival.
//!
//! [`ReceiveWindow`] follows twice what its sink takes in one round trip; how that is measured
//! is in [`drain`], how long a round trip takes in [`path`], and how much all windows of a
//! connection may be worth together in [`memory`]. [`SendWindow`] is what the peer permits, and for
//! output that somebody waits for less than that.

mod drain;
mod memory;
mod path;
mod receive;
mod send;
#[cfg(test)]
mod tests;

pub(crate) use memory::Memory;
pub(crate) use path::Path;
pub(crate) use receive::ReceiveWindow;
pub(crate) use send::SendWindow;

/// Bytes that a peer may send on a new channel before we say more, while there is memory.
pub(crate) const FIRST_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
/// The least that a channel is worth opening with, bytes: two packets of 32 KiB under way.
pub(crate) const LEAST_WINDOW_BYTES: u32 = 64 * 1024;
/// Longest data in one message that we accept, bytes.
pub(crate) const MAX_DATA_BYTES: u32 = 32 * 1024;
/// The same for a peer of our own kind, which reads packets of any size in place.
pub(crate) const MAX_DATA_BYTES_FULMAR: u32 = 64 * 1024;
