//! What each forwarding has carried, for the user's report at the end.

use std::collections::BTreeMap;

use proto::ChannelId;
use proto::channel::ChannelTraffic;

use super::Forwards;
use crate::Driver;

/// The connections of one forwarding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForwardTotals {
    /// Number of connections.
    pub connections: u64,
    /// Number of connections that are open now.
    pub open: u64,
    /// Highest number of connections that were open at a time.
    pub peak: u64,
    /// Bytes sent to the peer.
    pub sent: u64,
    /// Bytes received from the peer.
    pub received: u64,
}

impl Forwards {
    /// Returns a number for a forwarding that listens elsewhere: that of a listener is taken from
    /// [`Forwards::listen`].
    pub fn new_number(&mut self) -> u64 {
        let number = self.next_serial;
        self.next_serial += 1;
        number
    }

    /// Counts the connections of this forwarding from now on.
    pub fn count(&mut self, number: u64) {
        self.totals.insert(number, ForwardTotals::default());
    }

    /// Forgets the totals of a forwarding that has ended.
    pub fn count_no_more(&mut self, number: u64) {
        self.totals.remove(&number);
    }

    /// The totals of each forwarding that is counted, with those of its open connections.
    pub fn totals(&self, driver: &mut Driver) -> BTreeMap<u64, ForwardTotals> {
        let mut all = self.totals.clone();
        for entry in self.entries.values() {
            if let (Some(origin), Some(channel)) = (entry.origin, entry.channel)
                && let Some(totals) = all.get_mut(&origin)
            {
                let traffic = driver.connection().channel_traffic(channel);
                totals.sent += traffic.sent;
                totals.received += traffic.received;
            }
        }
        for (origin, channel, first) in self.udp_open() {
            if let Some(totals) = origin.and_then(|origin| all.get_mut(&origin)) {
                let traffic = driver.connection().channel_traffic(channel);
                totals.sent += traffic.sent + first.sent;
                totals.received += traffic.received + first.received;
            }
        }
        all
    }

    pub(super) fn count_opened(&mut self, origin: Option<u64>) {
        if let Some(totals) = origin.and_then(|origin| self.totals.get_mut(&origin)) {
            totals.connections += 1;
            totals.open += 1;
            totals.peak = totals.peak.max(totals.open);
        }
    }

    pub(super) fn count_closed(
        &mut self,
        origin: Option<u64>,
        channel: Option<ChannelId>,
        driver: &mut Driver,
    ) {
        if let Some(totals) = origin.and_then(|origin| self.totals.get_mut(&origin)) {
            totals.open = totals.open.saturating_sub(1);
            if let Some(channel) = channel {
                let traffic = driver.connection().channel_traffic(channel);
                totals.sent += traffic.sent;
                totals.received += traffic.received;
            }
        }
    }

    /// Counts data that a request for a channel has carried.
    pub(super) fn count_first(&mut self, origin: Option<u64>, first: ChannelTraffic) {
        if let Some(totals) = origin.and_then(|origin| self.totals.get_mut(&origin)) {
            totals.sent += first.sent;
            totals.received += first.received;
        }
    }
}
