//! Reads the kernel's round-trip time while bulk data arrives or a user types. The channels'
//! windows and the kernel's own depend on it.

use std::os::fd::BorrowedFd;

use proto::{Connection, Millis};

/// Bytes received between two reads; an idle session causes none.
const BULK_BYTES: u64 = 256 * 1024;
/// Time between two reads, milliseconds.
const INTERVAL_MS: Millis = 100;
/// Size of the kernel's receive window, in round trips at the receiving rate: twice the kernel's
/// own choice, so that a reader that was not scheduled for a moment does not stop the sender. The
/// minimum, in bytes, is where a request pays: on a short path the kernel's own window is larger.
const ROUND_TRIPS: u64 = 4;
const LEAST_WINDOW_BYTES: u64 = 1024 * 1024;

/// Time of the next read, and the state of the kernel's window.
#[derive(Default)]
pub(super) struct Probe {
    next_bytes: u64,
    next_at: Millis,
    /// Total bytes received at the last read, and its time.
    last: Option<(u64, Millis)>,
    /// Window requested from the kernel, bytes.
    window: u64,
    /// Shortest round trip seen, microseconds. Queues on the path lengthen the round trip, and a
    /// larger window would lengthen the queues.
    least_us: Option<u32>,
    /// The descriptor is not a TCP socket and never has these figures.
    knows_nothing: bool,
}

impl Probe {
    /// Reads the kernel's figures for `socket` if the interval has passed, passes the round trip to
    /// the connection and widens the kernel's window. `received` is the total number of bytes read
    /// from the socket.
    pub(super) fn look(
        &mut self,
        socket: BorrowedFd<'_>,
        received: u64,
        now: Millis,
        connection: &mut Connection,
    ) {
        let is_bulk = received >= self.next_bytes.max(BULK_BYTES);
        let is_time = (is_bulk || connection.is_typing()) && now >= self.next_at;
        if self.knows_nothing || !is_time {
            return;
        }
        self.next_bytes = received.saturating_add(BULK_BYTES);
        self.next_at = now.saturating_add(INTERVAL_MS);
        match sys::socket::tcp_info(socket) {
            Ok(info) => {
                // A side that never sends has only the receiver's estimate.
                let round_trip_us = match info.rtt_us {
                    0 => info.rcv_rtt_us,
                    measured => measured,
                };
                connection.handle_round_trip(round_trip_us, now);
                connection.handle_shortest_round_trip(info.min_rtt_us);
                if let Some(window) = self.window(received, now, round_trip_us) {
                    let _ = sys::socket::widen_receive_window(socket, window);
                }
            }
            Err(_) => self.knows_nothing = true,
        }
    }

    /// The window to request from the kernel, if it has grown by a quarter.
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
