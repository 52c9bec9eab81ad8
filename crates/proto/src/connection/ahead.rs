//! What a client says ahead of the server's answers, and what it has to know for that.

use alloc::string::String;

use super::Connection;
use crate::{ChannelId, Error};

/// Getters.
impl Connection {
    /// Client: the server's lists of key exchange methods and of host key types in its first
    /// KEXINIT, as sent.
    #[must_use]
    pub fn peer_lists(&self) -> Option<(&[String], &[String])> {
        let lists = self.transport.peer_lists.as_ref()?;
        Some((&lists.kex, &lists.host_key))
    }

    /// Client: whether the guess (`TransportConfig::guess`) was right; `None` without one, or
    /// before the server's KEXINIT.
    #[must_use]
    pub fn guess_was_right(&self) -> Option<bool> {
        self.transport.guess_was_right
    }

    /// Client: the first KEXINIT was a short one (`TransportConfig::short`).
    #[must_use]
    pub fn offers_short(&self) -> bool {
        self.transport.offers_short
    }

    /// Client: the server said that it reads our short spelling of a first KEXINIT.
    #[must_use]
    pub fn short_kexinit_understood(&self) -> bool {
        self.transport.extensions.short_kexinit
    }

    /// Server: the client guessed the method of its first key exchange, right or wrong: it has been
    /// here before, most likely, and will not wait for much.
    #[must_use]
    pub fn peer_guessed(&self) -> bool {
        self.transport.peer_guessed
    }

    /// Client: what is sent to the server is compressed once the user is logged in.
    #[must_use]
    pub fn will_compress(&self) -> bool {
        self.transport.will_compress()
    }
}

/// Commands.
impl Connection {
    /// Client: asks for a channel after the login, or behind a signed request that is still open, on
    /// the expectation that it succeeds. Until the channel is confirmed, [`Connection::channel_request`],
    /// [`Connection::channel_send_early`], [`Connection::channel_eof`] and
    /// [`Connection::send_no_more_sessions`] may follow it: they go to the first channel that the server gives out, which is 0 with those that number from
    /// there. Where no request succeeds, the channel is gone, and no event tells.
    ///
    /// # Errors
    /// [`Error::Misuse`] without such a request, for a second channel, and where what we send will
    /// be compressed: servers inflate what follows their answer as soon as they have sent it.
    pub fn open_channel_early(&mut self, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
        let (client, transport) = self.client_auth()?;
        if !transport.authenticated && !client.expects_login() {
            return Err(Error::Misuse("no signed request is open"));
        }
        if !transport.authenticated && transport.will_compress() {
            return Err(Error::Misuse("nothing may follow a login that compresses"));
        }
        self.channels.open_early(&mut self.transport, kind, fields)
    }

    /// Client: sends data on the channel of [`Connection::open_channel_early`] before it is
    /// confirmed, to a server of our own kind: what it takes on a new channel is known. They count
    /// only where [`Connection::channel_heard_early`] says so, once the channel is there; else they
    /// have gone nowhere and have to be sent again.
    ///
    /// # Errors
    /// [`Error::Misuse`] for other servers, for another channel, once that is confirmed, and beyond
    /// 32 KiB in all.
    pub fn channel_send_early(&mut self, channel: ChannelId, data: &[u8]) -> Result<(), Error> {
        self.channels.send_early(&mut self.transport, channel, data)
    }

    /// The channel of [`Connection::open_channel_early`], as long as it may still come to be.
    #[must_use]
    pub fn early_channel(&self) -> Option<ChannelId> {
        self.channels.early()
    }

    /// What was sent on an early channel before it was confirmed has reached it: the server gave
    /// it the number that was expected.
    #[must_use]
    pub fn channel_heard_early(&self, channel: ChannelId) -> bool {
        self.channels.heard_early(channel)
    }
}
