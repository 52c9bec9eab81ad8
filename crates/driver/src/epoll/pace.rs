//! How much may wait for the socket: what it takes in a moment. A keystroke behind bulk waits
//! as long on a slow line as on a fast one, where other limits count before these.
//!
//! The speed is counted from one moment at which the socket takes no more to the next, as long
//! as there was always something to send in between.

use proto::Millis;

/// What waits in each of three places, unsealed, sealed and in the socket, may take so long to
/// leave, milliseconds.
const WAIT_MS: u64 = 20;
/// Never less waits in each, bytes: one packet of a peer of our own kind.
const LEAST_BYTES: u64 = 64 * 1024;
/// The least that is left to the socket, bytes: a few segments.
const LEAST_UNSENT_BYTES: u64 = 16 * 1024;
/// The most that is left to the socket on a short path, bytes. With half of it left the kernel asks
/// for more, so that a fast path does not run dry while this process waits for its turn.
const MOST_UNSENT_BYTES: u64 = 128 * 1024;
/// The part of a round trip whose bytes are left to the socket where that is more: on a long path,
/// nobody feels the wait, and what was not sent when it could have been is late by a round trip
/// for as long as the kernel grows its congestion window.
const UNSENT_ROUND_TRIPS: u64 = 8;
/// And the most on any path, bytes.
const MOST_UNSENT_LONG_BYTES: u64 = 4 * 1024 * 1024;
/// A speed is counted over at least so many milliseconds.
const LEAST_MS: Millis = 10;

/// The socket's speed. See the module's head.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes per millisecond; none while it was never full.
    speed: Option<u64>,
    /// When the socket was full last, and what had been sent until then.
    full_at: Millis,
    full_sent: u64,
    /// When it took more after that.
    again_at: Millis,
    counted_ms: Millis,
    counted_bytes: u64,
    /// The shortest that the kernel has seen, microseconds.
    round_trip_us: u32,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self {
            speed: None,
            full_at: 0,
            full_sent: 0,
            again_at: 0,
            counted_ms: 0,
            counted_bytes: 0,
            round_trip_us: 0,
        }
    }

    /// What the kernel knows of the path.
    pub(super) fn set_round_trip(&mut self, shortest_us: u32) {
        self.round_trip_us = shortest_us;
    }

    /// The socket takes more again.
    pub(super) fn takes_more(&mut self, now: Millis) {
        self.again_at = now;
    }

    /// The socket takes no more, after `sent` bytes in all; says whether the limits changed.
    pub(super) fn is_full(&mut self, sent: u64, now: Millis) -> bool {
        let whole_ms = now.saturating_sub(self.full_at);
        let idle_ms = now.saturating_sub(self.again_at);
        let bytes = sent.saturating_sub(self.full_sent);
        (self.full_at, self.full_sent, self.again_at) = (now, sent, now);
        if idle_ms > whole_ms / 4 + 1 {
            // Nobody had anything to send for a while: that says nothing of the socket.
            (self.counted_ms, self.counted_bytes) = (0, 0);
            return false;
        }
        self.counted_ms += whole_ms;
        self.counted_bytes = self.counted_bytes.saturating_add(bytes);
        if self.counted_ms < LEAST_MS {
            return false;
        }
        let speed = self.counted_bytes / self.counted_ms;
        (self.counted_ms, self.counted_bytes) = (0, 0);
        let before = self.speed.replace(speed);
        // By less than a quarter it is not worth a system call.
        before.is_none_or(|before| before.abs_diff(speed) > before / 4)
    }

    /// Bytes that may wait sealed, and as many unsealed, where that is less than what they may
    /// without this.
    pub(super) fn limit_bytes(&self) -> usize {
        let limit = self.speed.map_or(u64::MAX, |speed| {
            speed.saturating_mul(WAIT_MS).max(LEAST_BYTES)
        });
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// Bytes that may wait in the socket without having been sent.
    pub(super) fn unsent_bytes(&self) -> u32 {
        let limit = self.speed.map_or(MOST_UNSENT_BYTES, |speed| {
            let part_of_a_round_trip =
                speed.saturating_mul(self.round_trip_us.into()) / (1000 * UNSENT_ROUND_TRIPS);
            let most = part_of_a_round_trip.clamp(MOST_UNSENT_BYTES, MOST_UNSENT_LONG_BYTES);
            speed
                .saturating_mul(WAIT_MS)
                .clamp(LEAST_UNSENT_BYTES, most)
        });
        u32::try_from(limit).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that takes `bytes` each `every_ms`, and a source that is always there.
    fn saturated(bytes: u64, every_ms: Millis) -> Pace {
        let mut pace = Pace::new();
        let (mut now, mut sent) = (1000, 0);
        for _ in 0..100 {
            pace.is_full(sent, now);
            now += every_ms;
            pace.takes_more(now);
            sent += bytes;
        }
        pace
    }

    #[test]
    fn a_slow_line_lets_little_wait() {
        // 10 Mbit/s: 24 KiB in 20 ms.
        let pace = saturated(12_500, 10);
        assert_eq!(pace.limit_bytes(), 64 * 1024);
        assert_eq!(pace.unsent_bytes(), 25_000);
        // 1 Mbit/s.
        assert_eq!(saturated(12_500, 100).unsent_bytes(), 16 * 1024);
    }

    #[test]
    fn a_fast_line_lets_as_much_wait_as_others_allow() {
        for pace in [Pace::new(), saturated(64 * 1024, 1)] {
            assert!(pace.limit_bytes() >= 1 << 20);
            assert_eq!(pace.unsent_bytes(), 128 * 1024);
        }
    }

    #[test]
    fn a_long_line_is_left_an_eighth_of_what_is_under_way() {
        // 320 MB/s over 50 ms.
        let mut pace = saturated(320_000, 1);
        pace.set_round_trip(50_000);
        assert_eq!(pace.unsent_bytes(), 2_000_000);
        pace.set_round_trip(500_000);
        assert_eq!(pace.unsent_bytes(), 4 << 20);
        pace.set_round_trip(100);
        assert_eq!(pace.unsent_bytes(), 128 * 1024);
        // A slow one has 20 ms of its own speed.
        let mut pace = saturated(12_500, 10);
        pace.set_round_trip(500_000);
        assert_eq!(pace.unsent_bytes(), 25_000);
    }

    #[test]
    fn a_source_that_pauses_makes_no_line_slow() {
        let mut pace = saturated(64 * 1024, 1);
        let (mut now, mut sent) = (10_000, 100 << 20);
        for _ in 0..100 {
            pace.is_full(sent, now);
            pace.takes_more(now + 1);
            // Silent for a second, then full at once.
            now += 1000;
            sent += 100_000;
        }
        assert!(pace.limit_bytes() >= 1 << 20);
    }

    #[test]
    fn a_line_that_becomes_faster_is_used_within_moments() {
        let mut pace = saturated(12_500, 10);
        let (mut now, mut sent) = (10_000, 0);
        let mut steps = 0;
        while pace.limit_bytes() < 1 << 20 {
            pace.takes_more(now);
            pace.is_full(sent, now);
            sent += 64 * 1024;
            now += 1;
            steps += 1;
            assert!(steps < 50);
        }
    }
}
