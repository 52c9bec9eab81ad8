//! Bulk data beside a user who types. The channels notice keystrokes and bound receive windows; the
//! owner sends less at once.

use super::Connection;
use crate::{ChannelId, Millis};

impl Connection {
    /// Returns true if the client's user has typed within the last second. A client counts only
    /// keystrokes beside received bulk data.
    #[must_use]
    pub fn is_typing(&self) -> bool {
        self.channels.is_typing(self.transport.now)
    }

    /// As [`Connection::channel_send_room`], for bulk data: while the client's user types, less of it
    /// is outstanding. Changes with time, no later than at [`Connection::channel_bulk_deadline`].
    #[must_use]
    pub fn channel_bulk_room(&self, channel: ChannelId) -> usize {
        self.channels.bulk_room(&self.transport, channel)
    }

    /// The time at which the channel takes bulk data that is held back beside a user who types, even
    /// if nothing is received; `None` if none is held back.
    #[must_use]
    pub fn channel_bulk_deadline(&self, channel: ChannelId) -> Option<Millis> {
        self.channels.bulk_deadline(&self.transport, channel)
    }

    /// Records the kernel's shortest round-trip time to the peer (`tcpi_min_rtt`), microseconds; 0 if
    /// unknown. While a user types, it bounds what is outstanding.
    pub fn handle_shortest_round_trip(&mut self, round_trip_us: u32) {
        self.channels.handle_shortest_round_trip(round_trip_us);
    }
}
