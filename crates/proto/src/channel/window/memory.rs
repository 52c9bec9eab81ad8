//! How much the receive windows of one connection may be worth together: the memory that a peer
//! can fill while our sinks take nothing.
//!
//! A window *leases* what it stands for, granted or not, so that a grant that is due never finds
//! the memory gone. A quarter of it is kept from windows that grow: new channels start there.

use super::{FIRST_WINDOW_BYTES, LEAST_WINDOW_BYTES};

/// A new window gets at most this part of what is left.
const FIRST_SHARE: u64 = 8;
/// This part of the whole is not lent to windows that grow.
const RESERVE: u64 = 4;

/// The budget of a connection, bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    total: u64,
    leased: u64,
}

impl Memory {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, leased: 0 }
    }

    /// What no window stands for.
    pub(crate) fn left(&self) -> u64 {
        self.total.saturating_sub(self.leased)
    }

    /// The window of a new channel: [`FIRST_WINDOW_BYTES`], or an eighth of what is left, but at
    /// least [`LEAST_WINDOW_BYTES`]. `None` when there is not even that.
    pub(crate) fn first_window(&self) -> Option<u32> {
        self.floor(0)
    }

    /// What a window that leases `own` bytes may keep without having earned it by its speed: as
    /// much as a new one would get in its place.
    pub(super) fn floor(&self, own: u64) -> Option<u32> {
        let left = self.left().saturating_add(own);
        let least = u64::from(LEAST_WINDOW_BYTES);
        let bytes = (left / FIRST_SHARE).clamp(least, u64::from(FIRST_WINDOW_BYTES));
        u32::try_from(bytes).ok().filter(|_| left >= least)
    }

    /// By how much one window may grow now: half of what is lent to growing ones, so that
    /// another that grows beside it is not left with nothing.
    pub(super) fn room_to_grow(&self) -> u64 {
        self.left().saturating_sub(self.total / RESERVE) / 2
    }

    /// A lease changes.
    pub(super) fn change(&mut self, from: u64, to: u64) {
        self.leased = self.leased.saturating_sub(from).saturating_add(to);
    }
}
