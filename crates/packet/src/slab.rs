//! The receive memory: slabs that the socket is read into and packets are cut from, recycled
//! when the last of their packets is dropped.
//!
//! A payload that someone keeps pins its whole slab, so how many slabs may be pinned is bounded:
//! at [`MAX_RETIRED`] the slab turns *scarce*, and packets are then detached, that is copied
//! into memory of their own size when they are kept. A stopped reader costs the connection
//! `(MAX_RETIRED + 1)` slabs and the bytes of its window, whatever sizes the peer chooses; one that
//! says that it [keeps](Slab::keep) more while it works costs that instead.

use alloc::vec::Vec;

use bytes::BytesMut;

/// Spare capacity for each read of the socket, in bytes. More than the largest packet, so that
/// any packet fits without growing.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// Size of a slab: a read behind the beginning of a largest packet.
const SLAB_BYTES: usize = 2 * READ_BYTES + 4096;

/// The least that is worth a read of its own at the end of a slab, in bytes: moving the beginning
/// of a usual packet, 16 KiB in the mean, costs less than a system call for a few more bytes.
const LAST_READ_BYTES: usize = 64 * 1024;

/// Slabs that may be pinned by kept payloads beside the present one.
const MAX_RETIRED: usize = 8;

/// What a slab holds of bulk data at least: it ends where a packet does.
const FILLED_BYTES: usize = SLAB_BYTES - 64 * 1024;

/// Slabs that are pinned in part where a reader keeps many bytes of bulk data: the one that it works
/// on, and the one that was filled last.
const PARTLY_PINNED: usize = 2;

/// Where packets will end in what is read next, as far as can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Borders {
    /// Bytes to the first end of a packet; 0 where one ends now.
    pub(crate) first: usize,
    /// From each to the next; 0 when nothing is known.
    pub(crate) step: usize,
}

impl Borders {
    /// Bytes to the last border within `spare`; 0 if there is none.
    fn last_within(self, spare: usize) -> usize {
        match spare.checked_sub(self.first) {
            Some(rest) if self.step > 0 => spare - rest % self.step,
            _ => 0,
        }
    }
}

/// The unread bytes and the memory behind them.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    current: BytesMut,
    /// Former slabs: their packets may still be out.
    retired: Vec<BytesMut>,
    scarce: bool,
    /// Slabs that may be pinned beyond [`MAX_RETIRED`].
    more_retired: usize,
    /// A slab has been filled since memory was last given back.
    spread: bool,
    #[cfg(test)]
    moved_bytes: usize,
}

impl Slab {
    /// The unread bytes, with at least [`READ_BYTES`] of spare capacity behind them.
    pub(crate) fn receive_buffer(&mut self) -> &mut BytesMut {
        self.look_for_free();
        if self.spare() < READ_BYTES {
            self.go_on();
        }
        &mut self.current
    }

    /// The unread bytes, and how much should be read behind them: up to the last of `borders` that
    /// the slab has room for. A slab that ends with a packet has nothing to be moved to the next.
    pub(crate) fn receive_room(&mut self, borders: Borders) -> (&mut BytesMut, usize) {
        self.look_for_free();
        let mut most = borders.last_within(self.spare());
        if self.spare() < READ_BYTES {
            // Nothing is moved where a packet ends now: the whole slab anew, if it is free.
            let renewed = self.current.is_empty() && self.reuse_current();
            if !renewed && most < LAST_READ_BYTES {
                self.go_on();
            }
            most = borders.last_within(self.spare());
        }
        if most < LAST_READ_BYTES {
            most = self.spare();
        }
        (&mut self.current, most)
    }

    /// A reader keeps so many bytes of bulk data for as long as it needs to use them, and they are
    /// to stay where they are.
    pub(crate) fn keep(&mut self, bytes: usize) {
        let slabs = bytes.div_ceil(FILLED_BYTES).saturating_add(PARTLY_PINNED);
        self.more_retired = slabs.saturating_sub(MAX_RETIRED);
    }

    fn most_retired(&self) -> usize {
        MAX_RETIRED + self.more_retired
    }

    /// Bytes moved to where there was room behind them.
    #[cfg(test)]
    pub(crate) fn moved_bytes(&self) -> usize {
        self.moved_bytes
    }

    fn spare(&self) -> usize {
        self.current.capacity() - self.current.len()
    }

    /// Room at the front of the slab, or in another.
    fn go_on(&mut self) {
        #[cfg(test)]
        {
            self.moved_bytes += self.current.len();
        }
        if !self.reuse_current() {
            self.switch();
        }
    }

    fn look_for_free(&mut self) {
        if self.scarce {
            self.scarce = !self.retired.iter_mut().any(reclaim);
        }
    }

    /// Bytes that arrived and were not split yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.current
    }

    /// The unread bytes, to be cut off at the front.
    pub(crate) fn unread_mut(&mut self) -> &mut BytesMut {
        &mut self.current
    }

    /// Whether payloads that are kept must not pin a slab.
    pub(crate) fn is_scarce(&self) -> bool {
        self.scarce
    }

    /// Whether [`Slab::shed`] has something to give back: not for what a few small packets use.
    pub(crate) fn is_spread(&self) -> bool {
        self.spread || !self.retired.is_empty()
    }

    /// Frees every slab of which nothing is left, the present one too. Those that kept payloads
    /// pin stay counted.
    pub(crate) fn shed(&mut self) {
        self.retired.retain_mut(|slab| !reclaim(slab));
        self.scarce = self.retired.len() >= self.most_retired();
        if self.current.is_empty() && reclaim(&mut self.current) {
            self.current = BytesMut::new();
        }
        self.spread = false;
    }

    /// Moves the unread bytes to the front of the slab, if all of its packets are gone.
    fn reuse_current(&mut self) -> bool {
        let whole = SLAB_BYTES.saturating_sub(self.current.len());
        let reused =
            (whole >= READ_BYTES && self.current.capacity() > 0 && self.current.try_reclaim(whole))
                || self.current.try_reclaim(READ_BYTES);
        self.spread |= reused;
        reused
    }

    /// Goes on in another slab: one whose packets are all gone, else a new one.
    fn switch(&mut self) {
        let needed = self.current.len() + READ_BYTES;
        let free = self.retired.iter_mut().position(reclaim);
        let mut next = match free {
            Some(index) if needed <= SLAB_BYTES => self.retired.swap_remove(index),
            _ => BytesMut::with_capacity(needed.max(SLAB_BYTES)),
        };
        next.extend_from_slice(&self.current);
        let mut former = core::mem::replace(&mut self.current, next);
        former.clear();
        if former.capacity() > 0 {
            self.spread = true;
            if self.retired.len() < self.most_retired() {
                self.retired.push(former);
            }
        }
        // Not scarce means that the next switch finds a place: a retired slab that is free
        // stays free, as no packet is cut from it.
        self.scarce =
            self.retired.len() >= self.most_retired() && !self.retired.iter_mut().any(reclaim);
    }
}

/// Gives an empty slab its whole memory back, if all of its packets are gone.
fn reclaim(slab: &mut BytesMut) -> bool {
    slab.try_reclaim(SLAB_BYTES)
}
