//! Budget for the receive windows of one connection: the memory that a peer can fill while the
//! sinks consume nothing.
//!
//! A window *leases* its size, granted or not, so that a due grant never lacks memory. A quarter of
//! the budget is not available to growing windows: it is reserved for new channels.

use super::{CROWD_WINDOW_BYTES, FIRST_WINDOW_BYTES, LEAST_WINDOW_BYTES};

/// A new window gets at most one part in this many of the remaining budget …
const FIRST_SHARE: u64 = 8;
/// … and one in a third of the number of [`CROWD_WINDOW_BYTES`] in the whole budget once less than
/// two thirds of it remain, so that one channel for each [`LEAST_WINDOW_BYTES`] of the budget fits:
/// most of thousands of forwarded connections are idle, and what they do not lease is there for those
/// that grow.
const CROWD_PART: u64 = 3;
/// One part in this many of the budget is not available to growing windows.
const RESERVE: u64 = 4;

/// Window budget of a connection, bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    total: u64,
    leased: u64,
}

impl Memory {
    pub(crate) fn new(total: u64) -> Self {
        Self { total, leased: 0 }
    }

    /// Bytes that no window leases.
    pub(crate) fn left(&self) -> u64 {
        self.total.saturating_sub(self.leased)
    }

    /// Size of a new channel's window: [`FIRST_WINDOW_BYTES`] or a share of the remaining budget,
    /// whichever is less, but at least [`LEAST_WINDOW_BYTES`], or [`CROWD_WINDOW_BYTES`] once less than
    /// two thirds of the budget remain. `None` if less than that remains.
    /// With 256 MiB the first 43 channels get 2 MiB each, and some 4,600 others fit.
    pub(crate) fn first_window(&self) -> Option<u32> {
        self.floor(0)
    }

    /// Size that a window with a lease of `own` bytes may keep regardless of its speed: the size of
    /// a new window in its place.
    pub(super) fn floor(&self, own: u64) -> Option<u32> {
        let left = self.left().saturating_add(own);
        let crowd = u64::from(CROWD_WINDOW_BYTES);
        let (share, least) = match left < self.total / 3 * 2 {
            true => ((self.total / crowd / CROWD_PART).max(1), crowd),
            false => (FIRST_SHARE, u64::from(LEAST_WINDOW_BYTES)),
        };
        let bytes = (left / share).clamp(least, u64::from(FIRST_WINDOW_BYTES));
        u32::try_from(bytes).ok().filter(|_| left >= least)
    }

    /// Bytes by which one window may grow now: half of what is available to growing windows, so
    /// that another growing window gets a share.
    pub(super) fn room_to_grow(&self) -> u64 {
        self.left().saturating_sub(self.total / RESERVE) / 2
    }

    /// Changes a window's lease.
    pub(super) fn change(&mut self, from: u64, to: u64) {
        self.leased = self.leased.saturating_sub(from).saturating_add(to);
    }
}
