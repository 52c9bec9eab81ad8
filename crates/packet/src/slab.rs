//! The receive memory: slabs that the socket is read into and packets are cut from, recycled
//! when the last of their packets is dropped.
//!
//! A payload that someone keeps pins its whole slab, so how many slabs may be pinned is bounded:
//! at [`MAX_RETIRED`] the slab turns *scarce*, and packets are then detached, that is copied
//! into memory of their own size when they are kept. A stopped reader costs the connection
//! `(MAX_RETIRED + 1)` slabs and the bytes of its window, whatever sizes the peer chooses.

use alloc::vec::Vec;

use bytes::BytesMut;

/// Spare capacity for each read of the socket, in bytes. More than the largest packet, so that
/// any packet fits without growing.
pub(crate) const READ_BYTES: usize = 256 * 1024;

/// Size of a slab: a read behind the beginning of a largest packet.
const SLAB_BYTES: usize = 2 * READ_BYTES + 4096;

/// Slabs that may be pinned by kept payloads beside the present one.
const MAX_RETIRED: usize = 8;

/// The unread bytes and the memory behind them.
#[derive(Debug, Default)]
pub(crate) struct Slab {
    current: BytesMut,
    /// Former slabs: their packets may still be out.
    retired: Vec<BytesMut>,
    scarce: bool,
    /// A slab has been filled since memory was last given back.
    spread: bool,
}

impl Slab {
    /// The unread bytes, with at least [`READ_BYTES`] of spare capacity behind them.
    pub(crate) fn receive_buffer(&mut self) -> &mut BytesMut {
        if self.scarce {
            self.scarce = !self.retired.iter_mut().any(reclaim);
        }
        let spare = self.current.capacity() - self.current.len();
        if spare < READ_BYTES && !self.reuse_current() {
            self.switch();
        }
        &mut self.current
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
        self.scarce = self.retired.len() >= MAX_RETIRED;
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
            if self.retired.len() < MAX_RETIRED {
                self.retired.push(former);
            }
        }
        // Not scarce means that the next switch finds a place: a retired slab that is free
        // stays free, as no packet is cut from it.
        self.scarce = self.retired.len() >= MAX_RETIRED && !self.retired.iter_mut().any(reclaim);
    }
}

/// Gives an empty slab its whole memory back, if all of its packets are gone.
fn reclaim(slab: &mut BytesMut) -> bool {
    slab.try_reclaim(SLAB_BYTES)
}
