//! Limits of the output that waits for the socket, in bytes that the line carries in a short time.
//! So a keystroke that follows bulk data waits as long on a slow line as on a fast one, unless
//! other limits are lower.
//!
//! The speed is measured between moments at which the socket is full, provided that there was
//! always something to send in between.

use proto::Millis;

/// Maximum time for the output in each of three places (unsealed, sealed and in the socket) to
/// leave, milliseconds.
const WAIT_MS: u64 = 20;
/// Lower bound for the unsealed and the sealed output, bytes: one packet of a Fulmar peer.
const LEAST_BYTES: u64 = 64 * 1024;
/// Lower bound for the unsent bytes in the socket: a few segments.
const LEAST_UNSENT_BYTES: u64 = 16 * 1024;
/// Upper bound for the unsent bytes in the socket on a short path. The kernel asks for more when
/// half of them are left, so a fast path does not run dry while this process waits to be scheduled.
const MOST_UNSENT_BYTES: u64 = 128 * 1024;
/// On a long path the socket may hold the bytes of one part in this many of a round trip, if that
/// is more. Nobody notices that delay there, and bytes that miss their moment are late by a round
/// trip while the kernel grows its congestion window.
const UNSENT_ROUND_TRIPS: u64 = 8;
/// Upper bound for the unsent bytes in the socket on any path.
const MOST_UNSENT_LONG_BYTES: u64 = 4 * 1024 * 1024;
/// Minimum time over which the speed is measured, milliseconds.
const LEAST_MS: Millis = 10;

/// Measures the speed at which the socket accepts bytes.
#[derive(Debug)]
pub(super) struct SendLimits {
    /// Bytes per millisecond; `None` until the socket has been full.
    speed: Option<u64>,
    /// Time of the last moment at which the socket was full, and the total bytes sent by then.
    full_at: Millis,
    full_sent: u64,
    /// Time at which the socket became writable again.
    again_at: Millis,
    counted_ms: Millis,
    counted_bytes: u64,
    /// Shortest round trip seen by the kernel, microseconds; 0 if unknown.
    round_trip_us: u32,
    /// Unsent bytes in the socket when the measurement began; `None` if unknown.
    unsent: Option<u64>,
}

impl SendLimits {
    pub(super) fn new() -> Self {
        Self {
            speed: None,
            full_at: 0,
            full_sent: 0,
            again_at: 0,
            counted_ms: 0,
            counted_bytes: 0,
            round_trip_us: 0,
            unsent: Some(0),
        }
    }

    /// Sets the kernel's shortest round trip.
    pub(super) fn set_round_trip(&mut self, shortest_us: u32) {
        self.round_trip_us = shortest_us;
    }

    /// Records that the socket is writable again.
    pub(super) fn takes_more(&mut self, now: Millis) {
        self.again_at = now;
    }

    /// Records that the socket is full after `sent` bytes in total; returns true if the limits
    /// changed noticeably: the caller then sets them. `unsent` returns the bytes in the socket that
    /// are not sent, `None` if unknown; it is called once in a measurement.
    pub(super) fn is_full(
        &mut self,
        sent: u64,
        now: Millis,
        unsent: impl FnOnce() -> Option<u64>,
    ) -> bool {
        let whole_ms = now.saturating_sub(self.full_at);
        let idle_ms = now.saturating_sub(self.again_at);
        let bytes = sent.saturating_sub(self.full_sent);
        (self.full_at, self.full_sent, self.again_at) = (now, sent, now);
        if idle_ms > whole_ms / 4 + 1 {
            // There was nothing to send for a while, so the interval does not measure the socket.
            (self.counted_ms, self.counted_bytes) = (0, 0);
            self.unsent = unsent();
            return false;
        }
        self.counted_ms += whole_ms;
        self.counted_bytes = self.counted_bytes.saturating_add(bytes);
        if self.counted_ms < LEAST_MS {
            return false;
        }
        // What left the socket, not what entered it: a limit that was just raised lets more enter
        // once, and would look like a faster line and be raised again.
        let unsent = unsent();
        let left = match (self.unsent, unsent) {
            (Some(before), Some(after)) => (self.counted_bytes + before).saturating_sub(after),
            _ => self.counted_bytes,
        };
        self.unsent = unsent;
        let speed = left / self.counted_ms;
        (self.counted_ms, self.counted_bytes) = (0, 0);
        let before = self.speed.replace(speed);
        // A change of less than a quarter is not worth a system call.
        before.is_none_or(|before| before.abs_diff(speed) > before / 4)
    }

    /// Maximum bytes of sealed output, and of unsealed output; `usize::MAX` while the speed is
    /// unknown.
    pub(super) fn limit_bytes(&self) -> usize {
        let limit = self.speed.map_or(u64::MAX, |speed| {
            speed.saturating_mul(WAIT_MS).max(LEAST_BYTES)
        });
        usize::try_from(limit).unwrap_or(usize::MAX)
    }

    /// Maximum unsent bytes in the socket (`TCP_NOTSENT_LOWAT`).
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

    /// A line that carries `bytes` each `every_ms` for ten seconds, with a source that never pauses.
    fn saturated(bytes: u64, every_ms: Millis) -> SendLimits {
        let mut limits = SendLimits::new();
        let mut limit = u64::from(limits.unsent_bytes());
        let (mut sent, mut unsent) = (0, 0);
        let mut is_blocked = false;
        for now in 1000..11_000 {
            // More than the socket held entered and left within this millisecond.
            sent += (bytes / every_ms).saturating_sub(unsent);
            unsent = unsent.saturating_sub(bytes / every_ms);
            if is_blocked && unsent > limit / 2 {
                continue;
            }
            limits.takes_more(now);
            sent += limit.saturating_sub(unsent);
            unsent = unsent.max(limit);
            is_blocked = true;
            if limits.is_full(sent, now, || Some(unsent)) {
                limit = u64::from(limits.unsent_bytes());
            }
        }
        limits
    }

    #[test]
    fn a_slow_line_lets_little_wait() {
        // 10 Mbit/s: 24 KiB in 20 ms.
        let limits = saturated(12_500, 10);
        assert_eq!(limits.limit_bytes(), 64 * 1024);
        assert_eq!(limits.unsent_bytes(), 25_000);
        // 1 Mbit/s.
        assert_eq!(saturated(12_500, 100).unsent_bytes(), 16 * 1024);
    }

    #[test]
    fn a_fast_line_lets_as_much_wait_as_others_allow() {
        for limits in [SendLimits::new(), saturated(64 * 1024, 1)] {
            assert!(limits.limit_bytes() >= 1 << 20);
            assert_eq!(limits.unsent_bytes(), 128 * 1024);
        }
    }

    #[test]
    fn a_long_line_is_left_an_eighth_of_what_is_under_way() {
        // 320 MB/s over 50 ms.
        let mut limits = saturated(320_000, 1);
        limits.set_round_trip(50_000);
        assert_eq!(limits.unsent_bytes(), 2_000_000);
        limits.set_round_trip(500_000);
        assert_eq!(limits.unsent_bytes(), 4 << 20);
        limits.set_round_trip(100);
        assert_eq!(limits.unsent_bytes(), 128 * 1024);
        // A slow line gets 20 ms of its own speed.
        let mut limits = saturated(12_500, 10);
        limits.set_round_trip(500_000);
        assert_eq!(limits.unsent_bytes(), 25_000);
    }

    #[test]
    fn a_source_that_pauses_makes_no_line_slow() {
        let mut limits = saturated(64 * 1024, 1);
        let (mut now, mut sent) = (10_000, 100 << 20);
        for _ in 0..100 {
            limits.is_full(sent, now, || None);
            limits.takes_more(now + 1);
            // Silent for a second, then full at once.
            now += 1000;
            sent += 100_000;
        }
        assert!(limits.limit_bytes() >= 1 << 20);
    }

    #[test]
    fn a_pipe_and_a_small_send_buffer_keep_their_limits() {
        // They are full at 64 KiB, whatever limit is set; the pipe does not say how much it holds.
        for tells in [true, false] {
            for speed in [1000, 2000, 4000] {
                let mut limits = SendLimits::new();
                let (mut sent, mut held, mut changes) = (0, 0_u64, 0);
                for now in 1000..21_000 {
                    held = held.saturating_sub(speed);
                    if held <= 32 * 1024 {
                        limits.takes_more(now);
                        sent += 64 * 1024 - held;
                        held = 64 * 1024;
                        changes += u32::from(limits.is_full(sent, now, || tells.then_some(held)));
                    }
                }
                assert!(changes <= 2, "{tells} {speed}: {changes}");
                let limit = limits.limit_bytes();
                assert!(limit <= 100_000, "{tells} {speed}: {limit}");
            }
        }
    }

    #[test]
    fn a_steady_line_keeps_its_limits() {
        // 5 MB/s, of which 20 ms are less than the largest limit: what enters the socket depends on
        // the limit, and the limit must not follow that.
        let mut limits = SendLimits::new();
        let mut limit = u64::from(limits.unsent_bytes());
        let (mut sent, mut unsent, mut changes) = (0, limit, 0);
        for now in 1000..11_000 {
            unsent -= unsent.min(5000);
            if unsent <= limit / 2 {
                limits.takes_more(now);
                sent += limit - unsent;
                unsent = limit;
                if limits.is_full(sent, now, || Some(unsent)) {
                    limit = u64::from(limits.unsent_bytes());
                    changes += 1;
                }
            }
        }
        assert!(changes <= 2, "{changes}");
        assert!((90_000..=110_000).contains(&limit), "{limit}");
    }

    #[test]
    fn a_line_that_becomes_faster_is_used_within_moments() {
        let mut limits = saturated(12_500, 10);
        let (mut now, mut sent) = (10_000, 0);
        let mut steps = 0;
        while limits.limit_bytes() < 1 << 20 {
            limits.takes_more(now);
            limits.is_full(sent, now, || None);
            sent += 64 * 1024;
            now += 1;
            steps += 1;
            assert!(steps < 50);
        }
    }
}
