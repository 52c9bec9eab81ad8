//! Asks the kernel how long the round trip to the peer is, while bulk data arrives: receive
//! windows go by it, the channels' and the kernel's own.

use std::os::fd::BorrowedFd;

use proto::{Connection, Millis};

/// Bytes received between two questions: an interactive session asks none.
const BULK_BYTES: u64 = 256 * 1024;
/// Time between two questions, milliseconds.
const INTERVAL_MS: Millis = 100;
/// The kernel's window in round trips of what arrives: twice what it would do with for itself, so that
/// a reader which had no turn for a moment does not stop the sender. And the least that is worth
/// asking for, bytes: on a short path its own is larger.
const ROUND_TRIPS: u64 = 4;
const LEAST_WINDOW_BYTES: u64 = 1024 * 1024;

/// When to ask next.
#[derive(Default)]
pub(super) struct Probe {
    next_bytes: u64,
    next_at: Millis,
    /// What had been received when it looked last, and when that was.
    last: Option<(u64, Millis)>,
    /// The window that the kernel was asked for, bytes.
    window: u64,
    /// The shortest round trip that was seen: what waits in a queue on the way makes it longer, and a
    /// larger window would make that longer.
    least_us: Option<u32>,
    /// A pipe, or a socket of another kind: it will not know later either.
    knows_nothing: bool,
}

impl Probe {
    /// Passes on what the kernel knows of `socket`, if it is time; `received` counts all bytes
    /// read from it.
    pub(super) fn look(
        &mut self,
        socket: BorrowedFd<'_>,
        received: u64,
        now: Millis,
        connection: &mut Connection,
    ) {
        let is_time = received >= self.next_bytes.max(BULK_BYTES) && now >= self.next_at;
        if self.knows_nothing || !is_time {
            return;
        }
        self.next_bytes = received.saturating_add(BULK_BYTES);
        self.next_at = now.saturating_add(INTERVAL_MS);
        match sys::socket::tcp_info(socket) {
            Ok(info) => {
                // A side that never sends has no figure of its own.
                let round_trip_us = match info.rtt_us {
                    0 => info.rcv_rtt_us,
                    measured => measured,
                };
                connection.handle_round_trip(round_trip_us, now);
                if let Some(window) = self.window(received, now, round_trip_us) {
                    let _ = sys::socket::widen_receive_window(socket, window);
                }
            }
            Err(_) => self.knows_nothing = true,
        }
    }

    /// The window that the kernel is to make room for, if that is news.
    fn window(&mut self, received: u64, now: Millis, round_trip_us: u32) -> Option<u32> {
        let least_us = self
            .least_us
            .map_or(round_trip_us, |least| least.min(round_trip_us));
        self.least_us = Some(least_us);
        let (before, since) = self.last.replace((received, now))?;
        let elapsed_ms = now.saturating_sub(since).max(1);
        let a_millisecond = received.saturating_sub(before) / elapsed_ms;
        let a_round_trip = a_millisecond.saturating_mul(least_us.into()) / 1000;
        let window = a_round_trip.saturating_mul(ROUND_TRIPS);
        if window < LEAST_WINDOW_BYTES.max(self.window + self.window / 4) {
            return None;
        }
        self.window = window;
        Some(u32::try_from(window).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_for_four_round_trips_when_they_have_grown() {
        let mut probe = Probe::default();
        // 800 MB/s over 50 ms.
        assert_eq!(probe.window(1_000_000, 1000, 50_000), None, "no speed yet");
        assert_eq!(
            probe.window(81_000_000, 1100, 50_000),
            Some(4 * 50 * 800_000)
        );
        assert_eq!(probe.window(161_000_000, 1200, 50_000), None, "the same");
        assert_eq!(probe.window(171_000_000, 1300, 50_000), None, "slower");
        let faster = probe.window(291_000_000, 1400, 50_000);
        assert_eq!(faster, Some(4 * 50 * 1_200_000));
        assert_eq!(probe.window(411_000_000, 1500, 90_000), None, "a queue");
    }

    #[test]
    fn on_a_short_path_the_kernel_keeps_its_own() {
        let mut probe = Probe::default();
        let mut received = 0;
        for now in (0..2000).step_by(100) {
            // 2 GB/s over 100 us.
            received += 200_000_000;
            assert_eq!(probe.window(received, now, 100), None);
        }
    }
}
