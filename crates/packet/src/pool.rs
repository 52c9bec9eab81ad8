//! [`BufPool`]: a bounded stock of [`PacketBuf`] allocations, so that a steady sender allocates
//! nothing.
//!
//! As many are kept as were out at once: how many that is depends on how far the packets' way
//! is, through few hands or many, and they may come back one by one or all together.
//!
//! Two sizes are kept, because a control message must not take (and shorten the initialised
//! part of) a buffer that bulk data is read into.

use alloc::vec::Vec;

use crate::buf::{HEADROOM, PacketBuf, TAILROOM};

/// Payload capacity of a buffer for control messages and keystrokes, in bytes.
const SMALL_PAYLOAD_BYTES: usize = 1024;

/// Payload capacity of a buffer for bulk data unless told otherwise, in bytes: the maximum
/// packet of every peer (32 KiB of data), its headers, and the growth of incompressible data.
const BULK_PAYLOAD_BYTES: usize = 33 * 1024;

/// Small buffers that [`BufPool::shed`] leaves: those of a login, so that one leaves nothing to
/// give back.
const KEPT_SMALL: usize = 16;

/// Bulk buffers that it leaves: for what is typed.
const KEPT_BULK: usize = 2;

/// A bounded stock of packet buffers. Belongs to one connection, whose plaintext stale bytes
/// may hold.
#[derive(Debug)]
pub struct BufPool {
    small: Stock,
    bulk: Stock,
    bulk_payload_bytes: usize,
    max_buffers: usize,
}

/// The buffers of one size.
#[derive(Debug, Default)]
struct Stock {
    free: Vec<PacketBuf>,
    /// Taken and not given back.
    out: usize,
    /// The most that were out at once.
    most_out: usize,
}

impl Stock {
    fn take(&mut self) -> Option<PacketBuf> {
        self.out = self.out.saturating_add(1);
        self.most_out = self.most_out.max(self.out);
        self.free.pop()
    }

    fn give(&mut self, mut buf: PacketBuf, max_buffers: usize) {
        self.out = self.out.saturating_sub(1);
        if self.free.len() < max_buffers && self.free.len() + self.out < self.most_out {
            buf.clear();
            self.free.push(buf);
        }
    }

    /// Frees all but `kept`, and forgets how many were needed.
    fn shed(&mut self, kept: usize) {
        self.free.truncate(kept);
        self.free.shrink_to_fit();
        self.most_out = self.out.saturating_add(self.free.len());
    }
}

impl BufPool {
    /// Keeps at most `max_buffers` of each of the two sizes, and no more than were out at once.
    #[must_use]
    pub fn new(max_buffers: usize) -> Self {
        Self {
            small: Stock::default(),
            bulk: Stock::default(),
            bulk_payload_bytes: BULK_PAYLOAD_BYTES,
            max_buffers,
        }
    }

    /// The same with bulk buffers for payloads of `bytes`, for a peer with larger packets.
    #[must_use]
    pub fn with_bulk_payload(mut self, bytes: usize) -> Self {
        self.bulk_payload_bytes = bytes.max(SMALL_PAYLOAD_BYTES + 1);
        self.bulk.free.clear();
        self
    }

    /// An empty buffer with room for `capacity` bytes of payload.
    pub fn take(&mut self, capacity: usize) -> PacketBuf {
        let (stock, size) = if capacity <= SMALL_PAYLOAD_BYTES {
            (&mut self.small, SMALL_PAYLOAD_BYTES)
        } else if capacity <= self.bulk_payload_bytes {
            (&mut self.bulk, self.bulk_payload_bytes)
        } else {
            return PacketBuf::with_capacity(capacity);
        };
        stock
            .take()
            .unwrap_or_else(|| PacketBuf::with_capacity(size))
    }

    /// Whether [`BufPool::shed`] would free anything.
    #[must_use]
    pub fn has_spare(&self) -> bool {
        self.small.free.len() > KEPT_SMALL || self.bulk.free.len() > KEPT_BULK
    }

    /// Frees all but a few buffers.
    pub fn shed(&mut self) {
        self.small.shed(KEPT_SMALL);
        self.bulk.shed(KEPT_BULK);
    }

    /// Takes a buffer back, or frees it when the stock is full or its size is not kept.
    pub fn give(&mut self, buf: PacketBuf) {
        let payload = buf.allocated().saturating_sub(HEADROOM + TAILROOM);
        let bulk = self.bulk_payload_bytes..2 * self.bulk_payload_bytes;
        let small = SMALL_PAYLOAD_BYTES..4 * SMALL_PAYLOAD_BYTES;
        let stock = if bulk.contains(&payload) {
            &mut self.bulk
        } else if small.contains(&payload) {
            &mut self.small
        } else {
            return;
        };
        stock.give(buf, self.max_buffers);
    }
}
