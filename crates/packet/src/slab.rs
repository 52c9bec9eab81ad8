//! Receive memory: slabs that the socket is read into and packets are cut from. A slab is reused
//! when the last of its packets is dropped.
//!
//! A kept payload pins its whole slab, so the number of pinned slabs is bounded: at [`MAX_RETIRED`]
//! memory is *scarce*, and payloads are then copied into memory of their own size when they are
//! kept. A stopped reader costs the connection `(MAX_RETIRED + 1)` slabs plus the bytes of its
//! window, whatever sizes the peer chooses. A reader that reserves more with [`Slab::keep`] costs
//! that amount instead.

use alloc::vec::Vec;

use bytes::BytesMut;

/// Minimum spare capacity for each read of the socket, in bytes.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// Size of a slab in bytes: the beginning of a packet of maximum size, and a read after it.
const SLAB_BYTES: usize = 2 * READ_BYTES + 4096;

/// Minimum size of a read at the end of a slab, in bytes: moving the beginning of a packet, 16 KiB
/// on average, costs less than a system call for a few more bytes.
const LAST_READ_BYTES: usize = 64 * 1024;

/// Number of slabs, besides the current one, that kept payloads may pin.
const MAX_RETIRED: usize = 8;

/// Minimum number of bytes of bulk data in a filled slab: reads stop at a packet's end.
const FILLED_BYTES: usize = SLAB_BYTES - 64 * 1024;

/// Number of partly pinned slabs while a reader keeps bulk data: the one that it works on, and the
/// one that was filled last.
const PARTLY_PINNED: usize = 2;

/// Predicted ends of packets in the bytes of the next read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketEnds {
    /// Bytes up to the first packet end; 0 if a packet ends at the current position.
    pub(crate) first: usize,
    /// Bytes from each packet end to the next; 0 if unknown.
    pub(crate) step: usize,
}

impl PacketEnds {
    /// Bytes up to the last packet end within `spare`; 0 if there is none.
    fn last_within(self, spare: usize) -> usize {
        match spare.checked_sub(self.first) {
            Some(rest) if self.step > 0 => spare - rest % self.step,
            _ => 0,
        }
    }
}

/// The unread bytes and the slabs that hold them.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    current: BytesMut,
    /// Earlier slabs; packets cut from them may still be in use.
    retired: Vec<BytesMut>,
    scarce: bool,
    /// Number of slabs that may be pinned in addition to [`MAX_RETIRED`].
    extra_retired: usize,
    /// A slab has been filled since the last [`Slab::shed`].
    filled_slab: bool,
    #[cfg(test)]
    moved_bytes: usize,
}

impl Slab {
    /// Returns the unread bytes, followed by at least [`READ_BYTES`] of spare capacity.
    pub(crate) fn receive_buffer(&mut self) -> &mut BytesMut {
        self.update_scarce();
        if self.spare() < READ_BYTES {
            self.make_room();
        }
        &mut self.current
    }

    /// Returns the unread bytes and the number of bytes to read after them: up to the last packet
    /// end in `ends` for which the slab has room. If a slab ends with a packet, no partial packet
    /// has to move to the next slab.
    pub(crate) fn receive_room(&mut self, ends: PacketEnds) -> (&mut BytesMut, usize) {
        self.update_scarce();
        let mut most = ends.last_within(self.spare());
        if self.spare() < READ_BYTES {
            // At a packet end nothing has to move: start over in this slab if its packets are gone.
            let renewed = self.current.is_empty() && self.reuse_current();
            if !renewed && most < LAST_READ_BYTES {
                self.make_room();
            }
            most = ends.last_within(self.spare());
        }
        if most < LAST_READ_BYTES {
            most = self.spare();
        }
        (&mut self.current, most)
    }

    /// Lets a reader pin up to `bytes` of bulk data without copies. 0 restores the default.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let slabs = bytes.div_ceil(FILLED_BYTES).saturating_add(PARTLY_PINNED);
        self.extra_retired = slabs.saturating_sub(MAX_RETIRED);
    }

    fn max_retired(&self) -> usize {
        MAX_RETIRED + self.extra_retired
    }

    /// Total number of unread bytes that were moved to make room.
    #[cfg(test)]
    pub(crate) fn moved_bytes(&self) -> usize {
        self.moved_bytes
    }

    fn spare(&self) -> usize {
        self.current.capacity() - self.current.len()
    }

    /// Makes room for a read, at the front of this slab or in another.
    fn make_room(&mut self) {
        #[cfg(test)]
        {
            self.moved_bytes += self.current.len();
        }
        if !self.reuse_current() {
            self.switch_slab();
        }
    }

    fn update_scarce(&mut self) {
        if self.scarce {
            self.scarce = !self.retired.iter_mut().any(reclaim);
        }
    }

    /// Bytes that arrived and were not split yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.current
    }

    /// The unread bytes, for splitting packets off the front.
    pub(crate) fn unread_mut(&mut self) -> &mut BytesMut {
        &mut self.current
    }

    /// Returns true if kept payloads must not pin another slab.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce
    }

    /// Returns true if [`Slab::shed`] is worth calling: a slab was filled. A few small packets do
    /// not count.
    pub(crate) fn has_filled_slab(&self) -> bool {
        self.filled_slab || !self.retired.is_empty()
    }

    /// Returns true if there is a slab.
    pub(crate) fn has_any(&self) -> bool {
        self.current.capacity() > 0 || !self.retired.is_empty()
    }

    /// Frees every slab, including the current one, that holds no unread bytes and no packets in
    /// use. Slabs that kept payloads pin stay counted.
    pub(crate) fn shed(&mut self) {
        self.retired.retain_mut(|slab| !reclaim(slab));
        self.scarce = self.retired.len() >= self.max_retired();
        if self.current.is_empty() && reclaim(&mut self.current) {
            self.current = BytesMut::new();
        }
        self.filled_slab = false;
    }

    /// Moves the unread bytes to the front of the slab if all packets cut from it are gone.
    fn reuse_current(&mut self) -> bool {
        let whole = SLAB_BYTES.saturating_sub(self.current.len());
        let reused =
            (whole >= READ_BYTES && self.current.capacity() > 0 && self.current.try_reclaim(whole))
                || self.current.try_reclaim(READ_BYTES);
        self.filled_slab |= reused;
        reused
    }

    /// Continues in another slab: a retired one whose packets are all gone, else a new one.
    fn switch_slab(&mut self) {
        let needed = self.current.len() + READ_BYTES;
        let free = self.retired.iter_mut().position(reclaim);
        let mut next = match free {
            Some(index) if needed <= SLAB_BYTES => self.retired.swap_remove(index),
            _ => BytesMut::with_capacity(needed.max(SLAB_BYTES)),
        };
        next.extend_from_slice(&self.current);
        let mut previous = core::mem::replace(&mut self.current, next);
        previous.clear();
        if previous.capacity() > 0 {
            self.filled_slab = true;
            if self.retired.len() < self.max_retired() {
                self.retired.push(previous);
            }
        }
        // If memory is not scarce, the next switch finds a slab: a free retired slab stays free,
        // because no packet is cut from it.
        self.scarce =
            self.retired.len() >= self.max_retired() && !self.retired.iter_mut().any(reclaim);
    }
}

/// Restores the full capacity of an empty slab if all packets cut from it are gone.
fn reclaim(slab: &mut BytesMut) -> bool {
    slab.try_reclaim(SLAB_BYTES)
}
