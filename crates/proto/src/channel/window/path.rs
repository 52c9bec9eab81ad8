//! How long it takes until a peer that was granted something makes use of it.
//!
//! Two sources: what the kernel knows of the socket (TCP_INFO, handed in by the owner), and what
//! the channels see themselves: a sender that has used up its window stands still until the
//! next adjust has reached it and its data has come back. The second holds where the first
//! cannot: behind a proxy, where the socket ends in the next room, and where the peer needs
//! longer than the path.

use crate::Millis;

/// Assumed while nothing is known, microseconds: a window that is too large for a moment costs
/// less than one that binds.
const UNKNOWN_US: u64 = 50_000;
/// The shortest round trip that windows are made for, microseconds: two programs on one machine
/// wait as long for the processor.
const LEAST_US: u64 = 1_000;
/// No path is longer, microseconds; a peer that stood still for longer was stopped.
const MOST_US: u64 = 4_000_000;

/// Standstills that must agree: a machine that was busy for a moment looks like one, too.
const STALLS: usize = 4;

/// What is known of the round trip.
#[derive(Debug, Default)]
pub(crate) struct Path {
    hint_us: u64,
    /// The last standstills, microseconds; 0 for none yet.
    stalls_us: [u64; STALLS],
    next_stall: usize,
}

impl Path {
    /// What the kernel says, microseconds; 0 says nothing.
    pub(crate) fn hint(&mut self, round_trip_us: u32) {
        if round_trip_us > 0 {
            self.hint_us = u64::from(round_trip_us).min(MOST_US);
        }
    }

    /// A sender stood still at the edge of its window for this long after we granted more.
    pub(super) fn stalled(&mut self, for_ms: Millis) {
        if let Some(place) = self.stalls_us.get_mut(self.next_stall) {
            *place = for_ms.saturating_mul(1000).min(MOST_US);
        }
        self.next_stall = (self.next_stall + 1) % STALLS;
    }

    pub(super) fn round_trip_us(&self) -> u64 {
        let stalled_us = self.stalls_us.iter().copied().min().unwrap_or(0);
        match self.hint_us.max(stalled_us) {
            0 => UNKNOWN_US,
            known => known.max(LEAST_US),
        }
    }
}
