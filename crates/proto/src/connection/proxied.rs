//! A connection that a master shares in proxy mode (OpenSSH's PROTOCOL.mux §9): the master's side,
//! which passes on messages of channels, and the other side, which speaks the connection protocol
//! without a transport below it.

use super::{Connection, ConnectionStage};
use crate::channel::HandedOver;
use crate::transport::Transport;
use crate::{ChannelId, Error, Millis, TransportConfig};

/// Proxy mode.
impl Connection {
    /// The side that asked a master for proxy mode. There is no version exchange, no key exchange and
    /// no login: channels may be opened at once. Only messages of the connection protocol are sent and
    /// accepted, as OpenSSH's `ssh` does.
    ///
    /// # Errors
    /// [`Error::Misuse`] for unknown algorithm names in the configuration.
    pub fn shared(config: TransportConfig, now: Millis) -> Result<Self, Error> {
        let transport = Transport::shared(config, now)?;
        Ok(Self::over(transport, ConnectionStage::Connected))
    }

    /// Opens a channel for another process; its messages arrive as [`crate::Event::ChannelProxied`].
    /// `rest` is what follows the sender's number in CHANNEL_OPEN: window, maximum packet size, and the
    /// fields of the type.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login, with too many channels, or if `rest` is cut off.
    pub fn open_proxied(&mut self, kind: &[u8], rest: &[u8]) -> Result<ChannelId, Error> {
        self.connected()?;
        self.channels.open_proxied(&mut self.transport, kind, rest)
    }

    /// Leaves the channel of [`crate::Event::ChannelOpenRequest`] to another process, which answers it.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that the peer did not request.
    pub fn hand_over_channel(&mut self, channel: ChannelId) -> Result<HandedOver, Error> {
        self.channels.hand_over(channel)
    }

    /// Sends a message of a proxied channel: the payload of its packet, with the peer's number.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a channel that is not proxied, and for other messages.
    pub fn send_proxied(&mut self, channel: ChannelId, payload: &[u8]) -> Result<(), Error> {
        let transport = &mut self.transport;
        self.channels.send_proxied(transport, channel, payload)
    }

    /// Frees the number of a proxied channel, when no message of the peer can name it any more.
    pub fn release_proxied(&mut self, channel: ChannelId) {
        self.channels.release_proxied(channel);
    }

    /// Returns true if messages of other processes may be queued now.
    #[must_use]
    pub fn takes_proxied(&self) -> bool {
        self.transport.takes_bulk()
    }
}
