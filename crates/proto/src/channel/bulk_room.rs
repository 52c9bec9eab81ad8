//! Bulk data that may be sent while the peer's user types, so that an echo overtakes it: see
//! [`OutstandingBound`](super::window::OutstandingBound).

use super::Channels;
use super::record::ChannelRecord;
use crate::transport::Transport;
use crate::{ChannelId, Millis, Role};

/// Bytes of a Fulmar peer's window that bulk data leaves to others while its user types.
const KEPT_BYTES: usize = 1024;

impl Channels {
    /// As [`Self::send_room`], for bulk data. Other data may exceed the limit, so that an echo does
    /// not wait for a grant.
    pub(crate) fn bulk_room(&self, transport: &Transport, id: ChannelId) -> usize {
        let room = self.send_room(transport, id);
        let channel = self.table.get(id);
        let limit = channel.and_then(|channel| self.bulk_limit(transport, channel));
        limit.map_or(room, |(bytes, _)| room.min(bytes))
    }

    /// Time at which bulk data that is held back on the channel may be sent even if nothing is
    /// received; `None` if none is held back.
    pub(crate) fn bulk_deadline(&self, transport: &Transport, id: ChannelId) -> Option<Millis> {
        let channel = self.table.get(id).filter(|channel| channel.is_open())?;
        let (bytes, ends_at) = self.bulk_limit(transport, channel)?;
        (bytes == 0).then_some(ends_at)
    }

    /// Bytes of bulk data that the channel takes while the user types, and the time at which this
    /// limit ends; `None` without a limit.
    fn bulk_limit(
        &self,
        transport: &Transport,
        channel: &ChannelRecord,
    ) -> Option<(usize, Millis)> {
        let typing_ends_at = self.typing.active_until(transport.now)?;
        if transport.versions.peer_quirks().is_fulmar {
            // It reduces its window itself.
            let left = channel.send.open_bytes().saturating_sub(KEPT_BYTES);
            return Some((left, typing_ends_at));
        }
        let bound = self.outstanding_bound(transport)?;
        let left = channel.outstanding.left(bound, transport.now)?;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        // Whole packets.
        let longest = channel.send.max_data(transport.outbound.most_data()).max(1);
        let left = left.checked_next_multiple_of(longest).unwrap_or(left);
        Some((left, typing_ends_at.min(channel.outstanding.silent_at())))
    }

    /// Bytes that may be outstanding on each channel; `None` without a bound.
    pub(super) fn outstanding_bound(&self, transport: &Transport) -> Option<u64> {
        self.typing.active_until(transport.now)?;
        if transport.role == Role::Client || transport.versions.peer_quirks().is_fulmar {
            return None;
        }
        self.bound.bytes(self.path.shortest_us()?, transport.now)
    }

    /// Records that the peer granted `bytes` of window.
    pub(super) fn count_grant(&mut self, transport: &Transport, id: u32, bytes: u32) {
        let bound = self.outstanding_bound(transport);
        if let Some(channel) = self.table.get_mut(ChannelId(id)) {
            self.bound
                .grant(&mut channel.outstanding, bytes, bound, transport.now);
        }
    }
}
