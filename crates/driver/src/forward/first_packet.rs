//! Channels of the peer whose first packet is checked before they are connected: those to an X server,
//! whose cookie is exchanged.

use proto::ChannelId;

use super::{FIRST_PACKET_MS, ForwardReport, ForwardTarget, Forwards};
use crate::Driver;

/// Checks the bytes received so far, and may change them: they are what the target gets.
pub type FirstPacket = Box<dyn Fn(&mut [u8]) -> FirstPacketStep>;

/// What follows from the bytes received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPacketStep {
    /// The packet is not complete.
    More,
    /// The packet may pass.
    Pass,
    /// The channel ends, for this reason.
    Refuse(&'static str),
}

impl Forwards {
    /// Accepts the peer's channel, and connects it to `target` when `first` has passed its first
    /// packet. `first` bounds the packet's size; further data is not read meanwhile.
    pub fn connect_checked(
        &mut self,
        channel: ChannelId,
        target: ForwardTarget,
        first: FirstPacket,
        driver: &mut Driver,
    ) {
        let label = (format!("X11 to {target}"), None);
        let Some(serial) = self.admit(channel, label, None, driver) else {
            return;
        };
        if driver.connection().accept_channel(channel).is_err() {
            return self.fail(serial, None, driver);
        }
        if let Some(entry) = self.entries.get_mut(&serial) {
            entry.first = Some((first, target));
            entry.is_accepted = true;
        }
        self.limit(serial, FIRST_PACKET_MS, driver);
    }

    /// Checks the first packet, after data was received.
    pub(super) fn check_first(&mut self, serial: u64, driver: &mut Driver) {
        let Some(entry) = self.entries.get_mut(&serial) else {
            return;
        };
        let Some((first, _)) = &entry.first else {
            return;
        };
        match first(&mut entry.held) {
            FirstPacketStep::More => {}
            FirstPacketStep::Pass => {
                if let Some((_, target)) = entry.first.take() {
                    self.dial(serial, target, driver);
                }
            }
            FirstPacketStep::Refuse(reason) => {
                let held = std::mem::take(&mut entry.held);
                if let Some(channel) = entry.channel {
                    let _ = driver.connection().channel_consumed(channel, held.len());
                }
                self.reports
                    .push_back(ForwardReport::FirstPacketRefused(reason));
                self.end_both(serial, driver);
            }
        }
    }
}
