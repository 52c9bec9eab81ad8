//! Bulk data beside a user who types. The channels notice keystrokes and bound receive windows; the
//! owner sends less at once.

use super::Connection;

impl Connection {
    /// Returns true if the client's user has typed within the last second. A client counts only
    /// keystrokes beside received bulk data.
    #[must_use]
    pub fn is_typing(&self) -> bool {
        self.channels.is_typing(self.transport.now)
    }

    /// Records the kernel's shortest round-trip time to the peer (`tcpi_min_rtt`), microseconds; 0 if
    /// unknown. While a user types, it bounds what is outstanding.
    pub fn handle_shortest_round_trip(&mut self, round_trip_us: u32) {
        self.channels.handle_shortest_round_trip(round_trip_us);
    }
}
