//! Asks the kernel how long the round trip to the peer is, while bulk data arrives: receive
//! windows go by it.

use std::os::fd::BorrowedFd;

use proto::{Connection, Millis};

/// Bytes received between two questions: an interactive session asks none.
const BULK_BYTES: u64 = 256 * 1024;
/// Time between two questions, milliseconds.
const INTERVAL_MS: Millis = 100;

/// When to ask next.
#[derive(Default)]
pub(super) struct Probe {
    next_bytes: u64,
    next_at: Millis,
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
            }
            Err(_) => self.knows_nothing = true,
        }
    }
}
