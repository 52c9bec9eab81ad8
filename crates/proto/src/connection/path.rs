//! What is known of the path to the peer, and whose data must not wait on it.

use super::Connection;
use crate::{ChannelId, Millis, Stream};

impl Connection {
    /// What the kernel knows of the round trip to the peer (`tcpi_rtt`, `tcpi_min_rtt`; 0: nothing),
    /// microseconds: receive windows open by it before they could bind. Without it they go by what
    /// they see.
    pub fn handle_round_trip(&mut self, round_trip_us: u32, least_us: u32, now: Millis) {
        self.transport.now = now;
        self.channels.handle_round_trip(round_trip_us, least_us);
    }

    /// This stream of the channel goes to or comes from a descriptor. Where it carries the channel's
    /// data, somebody waits for them, as in a session: to and from a peer that is less than a
    /// millisecond away no more is on its way then than a few hundred KiB, so that a keystroke's echo
    /// does not wait behind 2 MiB of output.
    pub fn set_prompt(&mut self, channel: ChannelId, stream: Stream) {
        if stream == Stream::Data {
            self.channels.set_prompt(&self.transport, channel);
        }
    }
}
