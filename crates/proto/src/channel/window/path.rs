//! How long it takes until a peer that was granted something makes use of it.
//!
//! Two sources: what the kernel knows of the socket (TCP_INFO, handed in by the owner), and what
//! the channels see themselves: a sender that has used up its window stands still until the
//! next adjust has reached it and its data has come back. The second holds where the first
//! cannot: behind a proxy, where the socket ends in the next room, and where the peer needs
//! longer than the path.

use super::MAX_DATA_BYTES_FULMAR;
use crate::Millis;

/// Assumed while nothing is known, microseconds: a window that is too large for a moment costs
/// less than one that binds.
const UNKNOWN_US: u64 = 50_000;
/// The shortest round trip that windows are made for, microseconds: two programs on one machine
/// wait as long for the processor.
const LEAST_US: u64 = 1_000;
/// No path is longer, microseconds; a peer that stood still for longer was stopped.
const MOST_US: u64 = 4_000_000;

/// A peer is near where a round trip takes no longer, microseconds: there the processor makes the
/// speed, and whatever is on its way waits in some buffer.
const NEAR_US: u64 = 1_000;
/// And where no standstill was seen that took longer, microseconds.
const NEAR_STALL_US: u64 = 1_000;
/// What may be on its way to or from a near peer, bytes: so much that both programs always have work.
const NEAR_BYTES: u64 = 256 * 1024;
/// And beside that for each microsecond of its round trip, bytes: 20 Gbit/s.
const NEAR_BYTES_PER_US: u64 = 2_500;
/// Standstills that must agree: a machine that was busy for a moment looks like one, too.
const STALLS: usize = 4;

/// What is known of the round trip.
#[derive(Debug, Default)]
pub(crate) struct Path {
    hint_us: u64,
    /// The shortest that the kernel has seen; 0 for none yet.
    least_us: u64,
    /// The last standstills, microseconds; 0 for none yet.
    stalls_us: [u64; STALLS],
    next_stall: usize,
}

impl Path {
    /// What the kernel says of the last round trips and of the shortest, microseconds; 0 says
    /// nothing.
    pub(crate) fn hint(&mut self, round_trip_us: u32, least_us: u32) {
        if round_trip_us > 0 {
            self.hint_us = u64::from(round_trip_us).min(MOST_US);
        }
        self.least_us = u64::from(least_us);
    }

    /// A sender stood still at the edge of its window for this long after we granted more.
    pub(super) fn stalled(&mut self, for_ms: Millis) {
        if let Some(place) = self.stalls_us.get_mut(self.next_stall) {
            *place = for_ms.saturating_mul(1000).min(MOST_US);
        }
        self.next_stall = (self.next_stall + 1) % STALLS;
    }

    pub(super) fn round_trip_us(&self) -> u64 {
        match self.hint_us.max(self.stalled_us()) {
            0 => UNKNOWN_US,
            known => known.max(LEAST_US),
        }
    }

    /// The round trip to a near peer, microseconds. None where it is not near or where nothing is
    /// known, and where senders stood still for longer: the socket may end at a proxy.
    pub(crate) fn near_us(&self) -> Option<u64> {
        let is_near = (1..=NEAR_US).contains(&self.least_us) && self.stalled_us() <= NEAR_STALL_US;
        is_near.then_some(self.least_us)
    }

    /// What may be on its way to or from a peer that is `near_us` away, bytes: whole packets, since
    /// some senders wait for room for one, and a standstill is seen at the very end of the window.
    pub(super) fn near_bytes(near_us: u64) -> u32 {
        let bytes = NEAR_BYTES.saturating_add(near_us.saturating_mul(NEAR_BYTES_PER_US));
        let whole = bytes.next_multiple_of(u64::from(MAX_DATA_BYTES_FULMAR));
        u32::try_from(whole).unwrap_or(u32::MAX)
    }

    fn stalled_us(&self) -> u64 {
        self.stalls_us.iter().copied().min().unwrap_or(0)
    }
}
