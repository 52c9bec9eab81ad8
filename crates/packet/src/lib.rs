//! RFC 4253 §6: the binary packet protocol, as jobs without side effects, and the data path that
//! uses them.
//!
//! # The data path
//!
//! **Sending: order → stamp → seal.** `proto` decides the *order*: it writes a message's payload
//! into a [`PacketBuf`] after its headroom, prepends headers into the headroom, and queues the
//! buffer. [`Sequencer::stamp`] is called in the same order, once the payload's length is known. It
//! frames the packet in place (length, padding length, padding) and fixes everything that depends
//! on earlier packets: sequence number, GCM invocation counter, CTR block offset, byte budget. It
//! returns a [`SealJob`], which owns its buffer and an `Arc` of its epoch's [`SealKeys`].
//! [`SealJob::run`] encrypts and authenticates in place and depends on nothing else, so jobs can
//! run in any order on any thread and produce the bytes of a serial sender. The [`SealedPacket`]s
//! must be sent in stamped order; their buffers return to a [`BufPool`].
//!
//! **Receiving: split → open → dispatch.** The driver reads the socket into
//! [`Splitter::receive_buffer`]. [`Splitter::next`] finds the next packet boundary (it decrypts a
//! copy of the length where the cipher hides it), checks the length before using it, and cuts the
//! packet out of the slab without a copy. It returns an [`OpenJob`], as independent as a `SealJob`.
//! [`OpenJob::run`] verifies, decrypts in place and checks the padding. Only it makes an
//! [`OpenedPacket`], so every packet that reaches dispatch has passed its MAC or tag. Packets are
//! dispatched in the order in which they were split; the first failure ends the connection, and
//! later packets are dropped unseen.
//!
//! **Epochs.** `set_keys` on either side is NEWKEYS of that direction: later packets carry the new
//! `Arc`, earlier jobs keep theirs, so a rekey need not wait for outstanding jobs.
//!
//! This crate has no I/O, clock or thread: `driver` has the sockets, `pipeline` the workers,
//! `crypto` the kernels, `compress` the payload codec (before stamp, after open), `proto` the
//! decisions.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod buf;
mod cbc_mac;
mod ctr_mac;
mod error;
mod keys;
mod open;
mod padding;
mod pool;
mod position;
mod seal;
mod sequencer;
mod slab;
mod splitter;

#[cfg(test)]
mod tests;

pub use batch::{open_batch, seal_batch};
pub use buf::{HEADROOM, PacketBuf, TAILROOM};
pub use error::{PacketError, StampError};
pub use keys::{Keys, OpenKeys, Opening, SealKeys, Sealing};
pub use open::{OpenJob, OpenedPacket};
pub use pool::BufPool;
pub use position::Position;
pub use seal::{SealJob, SealedPacket};
pub use sequencer::Sequencer;
pub use splitter::Splitter;

/// A key or IV has the wrong length for its algorithm, or the cipher needs a MAC and none was
/// given.
pub use crypto::KeyLengthError;
/// The longest `packet_length` that is sent or accepted, in bytes (256 KiB).
pub use wire::MAX_PACKET_BYTES;

/// Size of the `packet_length` field, in bytes.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Size of the `padding_length` field, in bytes.
pub(crate) const PADDING_LENGTH_BYTES: usize = 1;

/// Minimum padding in bytes (RFC 4253 §6).
pub(crate) const MIN_PADDING_BYTES: usize = 4;
