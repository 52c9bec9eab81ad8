//! [`BufPool`]: a bounded free list of [`PacketBuf`]s, so that a steady sender allocates nothing.
//!
//! The pool keeps as many buffers as were in use at once. That number depends on how many packets
//! the queues and workers hold, and the buffers may return singly or all together.
//!
//! Two sizes are kept, because a control message must not occupy a buffer that bulk data is read
//! into, nor shorten its initialised part.

use alloc::vec::Vec;

use crate::buf::{HEADROOM, PacketBuf, TAILROOM};

/// Payload capacity of a buffer for control messages and keystrokes, in bytes.
const SMALL_PAYLOAD_BYTES: usize = 1024;

/// Default payload capacity of a buffer for bulk data, in bytes: the maximum packet of every peer
/// (32 KiB of data), its headers, and the growth of incompressible data.
const BULK_PAYLOAD_BYTES: usize = 33 * 1024;

/// Number of small buffers that [`BufPool::shed`] keeps: enough for a login, so that a login alone
/// leaves nothing to free.
const KEPT_SMALL: usize = 16;

/// Number of bulk buffers that [`BufPool::shed`] keeps, for interactive data.
const KEPT_BULK: usize = 2;

/// A bounded free list of packet buffers. Must belong to a single connection, because unused parts
/// of a buffer may still hold its plaintext.
#[derive(Debug)]
pub struct BufPool {
    small: FreeList,
    bulk: FreeList,
    bulk_payload_bytes: usize,
    max_buffers: usize,
}

/// The free buffers of one size.
#[derive(Debug, Default)]
struct FreeList {
    free: Vec<PacketBuf>,
    /// Number of buffers taken and not yet given back.
    in_use: usize,
    /// Maximum of `in_use` since the last [`BufPool::shed`].
    max_in_use: usize,
}

impl FreeList {
    fn take(&mut self) -> Option<PacketBuf> {
        self.in_use = self.in_use.saturating_add(1);
        self.max_in_use = self.max_in_use.max(self.in_use);
        self.free.pop()
    }

    fn give(&mut self, mut buf: PacketBuf, max_buffers: usize) {
        self.in_use = self.in_use.saturating_sub(1);
        if self.free.len() < max_buffers && self.free.len() + self.in_use < self.max_in_use {
            buf.clear();
            self.free.push(buf);
        }
    }

    /// Frees all but `kept` buffers and resets the maximum in use.
    fn shed(&mut self, kept: usize) {
        self.free.truncate(kept);
        self.free.shrink_to_fit();
        self.max_in_use = self.in_use.saturating_add(self.free.len());
    }
}

impl BufPool {
    /// Creates a pool that keeps at most `max_buffers` of each size, and no more than were in use
    /// at once.
    #[must_use]
    pub fn new(max_buffers: usize) -> Self {
        Self {
            small: FreeList::default(),
            bulk: FreeList::default(),
            bulk_payload_bytes: BULK_PAYLOAD_BYTES,
            max_buffers,
        }
    }

    /// Sets the payload capacity of bulk buffers to `bytes`, for a peer with larger packets.
    #[must_use]
    pub fn with_bulk_payload(mut self, bytes: usize) -> Self {
        self.bulk_payload_bytes = bytes.max(SMALL_PAYLOAD_BYTES + 1);
        self.bulk.free.clear();
        self
    }

    /// Returns an empty buffer with room for at least `capacity` bytes of payload. A request larger
    /// than a bulk buffer is always allocated.
    pub fn take(&mut self, capacity: usize) -> PacketBuf {
        let (list, size) = if capacity <= SMALL_PAYLOAD_BYTES {
            (&mut self.small, SMALL_PAYLOAD_BYTES)
        } else if capacity <= self.bulk_payload_bytes {
            (&mut self.bulk, self.bulk_payload_bytes)
        } else {
            return PacketBuf::with_capacity(capacity);
        };
        list.take()
            .unwrap_or_else(|| PacketBuf::with_capacity(size))
    }

    /// Returns true if [`BufPool::shed`] would free a buffer.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.small.free.len() > KEPT_SMALL || self.bulk.free.len() > KEPT_BULK
    }

    /// Frees all but 16 small and 2 bulk buffers.
    pub fn shed(&mut self) {
        self.small.shed(KEPT_SMALL);
        self.bulk.shed(KEPT_BULK);
    }

    /// Returns true if [`BufPool::shed_all`] would free a buffer.
    #[must_use]
    pub fn has_any(&self) -> bool {
        !(self.small.free.is_empty() && self.bulk.free.is_empty())
    }

    /// Frees every buffer, for a connection that is one of many in its process.
    pub fn shed_all(&mut self) {
        self.small.shed(0);
        self.bulk.shed(0);
    }

    /// Recycles `buf`, or frees it if the free list is full or the pool does not keep its size.
    pub fn give(&mut self, buf: PacketBuf) {
        let payload = buf.allocated().saturating_sub(HEADROOM + TAILROOM);
        let bulk = self.bulk_payload_bytes..2 * self.bulk_payload_bytes;
        let small = SMALL_PAYLOAD_BYTES..4 * SMALL_PAYLOAD_BYTES;
        let list = if bulk.contains(&payload) {
            &mut self.bulk
        } else if small.contains(&payload) {
            &mut self.small
        } else {
            return;
        };
        list.give(buf, self.max_buffers);
    }
}
