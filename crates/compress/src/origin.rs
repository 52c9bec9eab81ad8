//! [`Origin`]: the source of a payload, which determines what the payload may be matched against.

/// The source of a payload's bytes.
///
/// A payload is matched only with earlier payloads of the same channel, so that packet lengths of
/// one channel reveal nothing about the bytes of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Data of the channel with this serial number. The caller must never reuse a number within a
    /// connection, because that would join two histories.
    Channel(u64),
    /// CHANNEL_OPEN or CHANNEL_OPEN_CONFIRMATION: from then on there may be another channel.
    Opening,
    /// PING or PONG, which imitate keystrokes and echoes (`ping@openssh.com`) and must have the
    /// same length: they are matched with each other, as keystrokes of a channel are.
    Ping,
    /// Any other message. It is stored without compression and not added to a history.
    Other,
}

impl Origin {
    /// Returns true for channel data.
    #[must_use]
    pub fn is_data(self) -> bool {
        matches!(self, Self::Channel(_))
    }
}
