//! [`PacketBuf`]: headroom, payload and tailroom in one allocation, so that headers, framing,
//! padding and tag are written around a payload that never moves.
//!
//! Invariant: `start <= end <= bytes.len()`. What lies outside `start..end` is initialised but
//! meaningless; keeping it initialised lets a recycled buffer be read into without clearing it
//! again. Recycling is in `pool`.

use alloc::vec::Vec;
use core::fmt;

use crate::MIN_PADDING_BYTES;

/// Bytes kept free before the payload: `packet_length`, `padding_length` and the headers of
/// channel and SFTP messages.
pub const HEADROOM: usize = 64;

/// Bytes kept free behind the payload: the longest padding and the longest MAC (HMAC-SHA2-512).
pub const TAILROOM: usize = 255 + 64 + 1;

/// One packet's bytes while it is built and sealed.
#[derive(Clone)]
pub struct PacketBuf {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    conceal: u8,
}

impl PacketBuf {
    /// An empty payload with room for `payload` bytes before it has to grow.
    #[must_use]
    pub fn with_capacity(payload: usize) -> Self {
        let mut bytes =
            Vec::with_capacity(HEADROOM.saturating_add(payload).saturating_add(TAILROOM));
        bytes.resize(HEADROOM, 0);
        Self {
            bytes,
            start: HEADROOM,
            end: HEADROOM,
            conceal: 0,
        }
    }

    /// A copy of `payload` with head- and tailroom around it.
    #[must_use]
    pub fn from_payload(payload: &[u8]) -> Self {
        let mut this = Self::with_capacity(payload.len());
        this.extend(payload);
        this
    }

    /// The payload; of a [`SealedPacket`](crate::SealedPacket), the whole packet.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The payload, to be changed in place.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Length of the payload in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether the payload is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes that the payload can hold in all before the buffer grows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity().saturating_sub(self.start + TAILROOM)
    }

    /// Appends to the payload.
    pub fn extend(&mut self, more: &[u8]) {
        self.spare(more.len()).copy_from_slice(more);
        self.end += more.len();
    }

    /// Puts `header` before the payload: into the headroom where it fits, else by moving the
    /// payload once.
    pub fn prepend(&mut self, header: &[u8]) {
        if header.len() > self.start {
            let shift = header.len() + HEADROOM - self.start;
            self.ensure_len(self.end + shift);
            self.bytes
                .copy_within(self.start..self.end, self.start + shift);
            self.start += shift;
            self.end += shift;
        }
        let start = self.start - header.len();
        self.bytes[start..self.start].copy_from_slice(header);
        self.start = start;
    }

    /// `max` writable bytes directly behind the payload (their content is meaningless), to be
    /// made part of it by [`PacketBuf::fill_with`].
    pub fn spare(&mut self, max: usize) -> &mut [u8] {
        let end = self.end;
        self.ensure_len(end + max);
        &mut self.bytes[end..end + max]
    }

    /// Lets `read` write at most `max` bytes directly behind the payload, appends as many as it
    /// says it wrote, and returns that number: a file is read straight into its packet.
    ///
    /// # Errors
    /// Those of `read`; the payload is then as before.
    pub fn fill_with<E>(
        &mut self,
        max: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let count = read(self.spare(max))?.min(max);
        self.end += count;
        Ok(count)
    }

    /// Lets `write` append to the payload through the `Vec` that `wire` encodes into. What it
    /// must not do is shorten the `Vec`.
    pub fn encode_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.truncate(self.end);
        write(&mut self.bytes);
        debug_assert!(self.bytes.len() >= self.end, "an encoder only appends");
        self.ensure_len(self.start);
        self.end = self.bytes.len();
    }

    /// Shortens the payload to its first `len` bytes; does nothing if it is no longer.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
    }

    /// Empties the payload and gives the headroom back. The memory stays.
    pub fn clear(&mut self) {
        self.ensure_len(HEADROOM);
        self.start = HEADROOM;
        self.end = HEADROOM;
        self.conceal = 0;
    }

    /// Asks for padding that makes the packet a multiple of `block_bytes` (at most 128), so that
    /// the length of what is inside, a password, shows only in steps of that size.
    pub fn conceal_length(&mut self, block_bytes: u8) {
        self.conceal = block_bytes.min(128);
    }

    /// The step asked for by [`PacketBuf::conceal_length`]; 0 for none.
    pub(crate) fn concealed_to(&self) -> usize {
        usize::from(self.conceal)
    }

    /// Bytes of the allocation.
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frames the payload in place: `packet_length` and `padding_length` before it, padding
    /// behind it, which is returned to be filled. From here on `payload()` is the packet.
    pub(crate) fn frame(&mut self, packet_length: u32, padding_length: u8) -> &mut [u8] {
        debug_assert!(usize::from(padding_length) >= MIN_PADDING_BYTES);
        let [a, b, c, d] = packet_length.to_be_bytes();
        self.prepend(&[a, b, c, d, padding_length]);
        self.append_stale(usize::from(padding_length))
    }

    /// Makes `count` bytes behind the payload part of it, content to be overwritten.
    pub(crate) fn append_stale(&mut self, count: usize) -> &mut [u8] {
        let end = self.end;
        self.ensure_len(end + count);
        self.end += count;
        &mut self.bytes[end..end + count]
    }

    fn ensure_len(&mut self, len: usize) {
        if self.bytes.len() < len {
            self.bytes.resize(len, 0);
        }
    }
}

/// Lengths only: a payload may be a password.
impl fmt::Debug for PacketBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketBuf")
            .field("headroom", &self.start)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
