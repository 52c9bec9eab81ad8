//! [`Origin`]: whose bytes a payload carries. It decides what a payload may be matched against.

/// Whose bytes a payload carries.
///
/// A payload is compared with earlier payloads of the same channel and with nothing else, so that
/// the length of one channel's packets says nothing about the bytes of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Data of the channel with this serial number. The caller gives each channel a number that
    /// no other channel of the connection has had, since a number that is used again would join
    /// two histories.
    Channel(u64),
    /// CHANNEL_OPEN or CHANNEL_OPEN_CONFIRMATION: from here on there may be one channel more.
    Opening,
    /// PING or PONG, which stand for keystrokes and echoes (`ping@openssh.com`) and must be as long:
    /// they are matched with each other, as keystrokes of a channel are.
    Ping,
    /// Every other message. It is stored as it is and leaves no history.
    Other,
}

impl Origin {
    /// True for channel data.
    #[must_use]
    pub fn is_data(self) -> bool {
        matches!(self, Self::Channel(_))
    }
}
