//! RFC 4253 §6: the binary packet protocol as pure jobs, and the data path that they form.
//!
//! # The data path
//!
//! **Sending: order → stamp → seal.** `proto` decides the *order*: a message's payload enters a
//! [`PacketBuf`] behind its headroom, headers are prepended into the headroom, and the buffer
//! stands in the queue. [`Sequencer::stamp`] is called in that same order, once the payload's
//! length is known: it frames the packet in place (length, padding length, padding), and fixes
//! everything that depends on what went before: sequence number, GCM invocation, CTR block
//! offset, byte budget. The result, a [`SealJob`], owns its buffer and an `Arc` of its epoch's
//! [`SealKeys`]; [`SealJob::run`] encrypts and authenticates in place and depends on nothing
//! else, so jobs run in any order on any thread and the bytes are those of a serial sender.
//! The [`SealedPacket`]s leave in stamped order; their buffers go back to a [`BufPool`].
//!
//! **Receiving: split → open → dispatch.** The driver reads the socket into
//! [`Splitter::receive_buffer`]. [`Splitter::next`] finds the next boundary (decrypting a length
//! on the side where the cipher hides it), checks the length before anything depends on it, and
//! cuts the packet out of the slab without a copy: an [`OpenJob`], as independent as a
//! `SealJob`. [`OpenJob::run`] verifies, decrypts in place and checks the padding. Only it makes
//! an [`OpenedPacket`], so what reaches dispatch has passed its MAC or tag. Dispatch is in the
//! order of the splits; the first failure ends the connection, and what stands behind it is
//! dropped unseen.
//!
//! **Epochs.** `set_keys` on either side is NEWKEYS of that direction: later packets carry the
//! new `Arc`, earlier jobs keep theirs, so a rekey drains nothing.
//!
//! No I/O, clock or thread here: `driver` has the sockets, `pipeline` the workers, `crypto` the
//! kernels, `compress` the payload codec (before stamp, after open), `proto` the decisions.
#![forbid(unsafe_code)]
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod buf;
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
pub use position::{SequencerState, SplitterState};
pub use seal::{SealJob, SealedPacket};
pub use sequencer::Sequencer;
pub use splitter::Splitter;

/// Key or IV of the wrong length for its algorithm, or no MAC where the cipher needs one.
pub use crypto::KeyLengthError;
/// The longest `packet_length` that is sent or accepted, in bytes.
pub use wire::MAX_PACKET_BYTES;

/// Size of the `packet_length` field, in bytes.
pub(crate) const LENGTH_BYTES: usize = 4;

/// Size of the `padding_length` field, in bytes.
pub(crate) const PADDING_LENGTH_BYTES: usize = 1;

/// RFC 4253 §6: the least padding, in bytes.
pub(crate) const MIN_PADDING_BYTES: usize = 4;
