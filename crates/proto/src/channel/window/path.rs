//! Measures the round trip: the time until a peer uses a window that was granted.
//!
//! There are two sources: the kernel's round-trip time of the socket (TCP_INFO, passed in by the
//! owner), and the channels' own observation: a sender that has used up its window stalls until the
//! next adjust has reached it and its data has come back. The second source works where the first
//! does not: with a proxy, where the socket ends nearby, and where the peer itself is slower than
//! the path.

use crate::Millis;

/// Assumed round trip while nothing is known, microseconds: a window that is too large for a moment
/// costs less than one that limits the speed.
const UNKNOWN_US: u64 = 50_000;
/// Shortest round trip used for windows, microseconds: two programs on one machine wait as long for
/// the processor.
const LEAST_US: u64 = 1_000;
/// Longest round trip used, microseconds; a peer that stalled for longer was stopped.
const MOST_US: u64 = 4_000_000;

/// Shortest round trip that stalls show to be the path's, microseconds.
const LEAST_PROXIED_US: u64 = 10_000;
/// Number of stalls that must agree, since a machine that is busy for a moment causes them, too.
const STALLS: usize = 4;

/// Estimate of the round trip.
#[derive(Debug, Default)]
pub(crate) struct RoundTripEstimate {
    hint_us: u64,
    /// Shortest hint, microseconds: a queue on the path or at its ends makes others longer.
    shortest_us: Option<u64>,
    /// The last stalls, microseconds; 0 for none yet.
    stalls_us: [u64; STALLS],
    next_stall: usize,
}

impl RoundTripEstimate {
    /// Sets the kernel's round trip, microseconds; 0 is ignored.
    pub(crate) fn hint(&mut self, round_trip_us: u32) {
        if round_trip_us > 0 {
            self.hint_us = u64::from(round_trip_us).min(MOST_US);
            self.hint_shortest(round_trip_us);
        }
    }

    /// Records that a round trip was as short as this, microseconds; 0 is ignored.
    pub(crate) fn hint_shortest(&mut self, round_trip_us: u32) {
        if round_trip_us > 0 {
            let shortest = self.shortest_us.unwrap_or(MOST_US);
            self.shortest_us = Some(shortest.min(u64::from(round_trip_us)));
        }
    }

    /// Records that a sender stalled at the edge of its window for this long after a grant.
    pub(super) fn stalled(&mut self, for_ms: Millis) {
        if let Some(place) = self.stalls_us.get_mut(self.next_stall) {
            *place = for_ms.saturating_mul(1000).min(MOST_US);
        }
        self.next_stall = (self.next_stall + 1) % STALLS;
    }

    /// Round trip without queues; `None` if the kernel reports none.
    pub(crate) fn shortest_us(&self) -> Option<u64> {
        let shortest_us = self.shortest_us?;
        // Longer stalls than a busy machine causes show that a short path continues after a proxy.
        let is_proxied = shortest_us < LEAST_PROXIED_US && self.stalled_us() >= LEAST_PROXIED_US;
        Some(if is_proxied {
            self.stalled_us()
        } else {
            shortest_us
        })
    }

    fn stalled_us(&self) -> u64 {
        self.stalls_us.iter().copied().min().unwrap_or(0)
    }

    pub(super) fn round_trip_us(&self) -> u64 {
        match self.hint_us.max(self.stalled_us()) {
            0 => UNKNOWN_US,
            known => known.max(LEAST_US),
        }
    }
}
