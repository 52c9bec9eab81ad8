//! [`PacketBuf`]: headroom, payload and tailroom in one allocation, so that headers, framing,
//! padding and tag are written around a payload that does not move.
//!
//! Invariant: `start <= end <= bytes.len()`. Bytes outside `start..end` are initialised but
//! meaningless, so that a recycled buffer can be read into without clearing it again. `pool`
//! recycles buffers.

use alloc::vec::Vec;
use core::fmt;

use crate::MIN_PADDING_BYTES;

/// Bytes reserved before the payload for `packet_length`, `padding_length` and the headers of
/// channel and SFTP messages.
pub const HEADROOM: usize = 64;

/// Bytes reserved after the payload for the longest padding and the longest MAC (HMAC-SHA2-512).
pub const TAILROOM: usize = 255 + 64 + 1;

/// The bytes of one packet while it is built and sealed.
#[derive(Clone)]
pub struct PacketBuf {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    conceal: u8,
}

impl PacketBuf {
    /// An empty payload with room for `payload` bytes before the buffer has to grow.
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

    /// A copy of `payload` with headroom and tailroom.
    #[must_use]
    pub fn from_payload(payload: &[u8]) -> Self {
        let mut this = Self::with_capacity(payload.len());
        this.extend(payload);
        this
    }

    /// The payload; once the packet is stamped or sealed, the whole packet.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The payload, mutable in place.
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

    /// Number of bytes that the payload can hold before the buffer grows.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity().saturating_sub(self.start + TAILROOM)
    }

    /// Appends `more` to the payload.
    pub fn extend(&mut self, more: &[u8]) {
        self.spare(more.len()).copy_from_slice(more);
        self.end += more.len();
    }

    /// Prepends `header` to the payload: into the headroom if it fits, else by moving the payload
    /// once.
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

    /// Returns `max` writable bytes directly after the payload, with meaningless content.
    /// [`PacketBuf::fill_with`] makes them part of the payload.
    pub fn spare(&mut self, max: usize) -> &mut [u8] {
        let end = self.end;
        self.ensure_len(end + max);
        &mut self.bytes[end..end + max]
    }

    /// Calls `read` with `max` writable bytes directly after the payload, and appends the number of
    /// bytes that `read` returns (at most `max`). A file can so be read straight into its packet.
    /// Returns the number of appended bytes.
    ///
    /// # Errors
    /// Those of `read`; the payload is then unchanged.
    pub fn fill_with<E>(
        &mut self,
        max: usize,
        read: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let count = read(self.spare(max))?.min(max);
        self.end += count;
        Ok(count)
    }

    /// Shortens the payload to its first `len` bytes; does nothing if it is not longer.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
    }

    /// Empties the payload and restores the headroom. Keeps the allocation.
    pub fn clear(&mut self) {
        self.ensure_len(HEADROOM);
        self.start = HEADROOM;
        self.end = HEADROOM;
        self.conceal = 0;
    }

    /// Requests padding to a multiple of `block_bytes` (at most 128), so that the packet length
    /// reveals the length of a secret payload, such as a password, only in steps of that size.
    pub fn conceal_length(&mut self, block_bytes: u8) {
        self.conceal = block_bytes.min(128);
    }

    /// The multiple requested by [`PacketBuf::conceal_length`]; 0 for none.
    pub(crate) fn concealed_to(&self) -> usize {
        usize::from(self.conceal)
    }

    /// Size of the allocation in bytes.
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity()
    }

    /// Frames the payload in place: `packet_length` and `padding_length` before it, padding after
    /// it. Returns the padding for the caller to fill. From then on `payload()` is the whole
    /// packet.
    pub(crate) fn frame(&mut self, packet_length: u32, padding_length: u8) -> &mut [u8] {
        debug_assert!(usize::from(padding_length) >= MIN_PADDING_BYTES);
        let [a, b, c, d] = packet_length.to_be_bytes();
        self.prepend(&[a, b, c, d, padding_length]);
        self.append_stale(usize::from(padding_length))
    }

    /// Extends the payload by `count` bytes of meaningless content and returns them for the caller
    /// to overwrite.
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

/// Shows only lengths, because a payload may be a password.
impl fmt::Debug for PacketBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketBuf")
            .field("headroom", &self.start)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
