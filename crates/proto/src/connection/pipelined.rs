//! Pipelining by a client: messages sent before the server's answers, and the state that decides
//! whether that is possible.

use alloc::string::String;

use super::{Auth, Connection};
use crate::{ChannelId, Error};

/// Getters.
impl Connection {
    /// True if the server has granted the service ssh-userauth. Until then no request with a secret
    /// may be sent, so that a server that answers out of order obtains none.
    #[must_use]
    pub fn takes_secrets(&self) -> bool {
        match &self.auth {
            Auth::Client(client) => client.is_granted(),
            Auth::Server(_) => false,
        }
    }

    /// Client: key exchange methods and host key types of the server's first KEXINIT, as sent.
    #[must_use]
    pub fn peer_lists(&self) -> Option<(&[String], &[String])> {
        let lists = self.transport.exchange.first_inits().peer_lists.as_ref()?;
        Some((&lists.kex, &lists.host_key))
    }

    /// Client: whether the guess (`TransportConfig::guess`) was right; `None` without a guess or
    /// before the server's KEXINIT.
    #[must_use]
    pub fn guess_was_right(&self) -> Option<bool> {
        self.transport.exchange.first_inits().guess_was_right
    }

    /// Client: the first KEXINIT was a short one (`TransportConfig::short`).
    #[must_use]
    pub fn offers_short(&self) -> bool {
        self.transport.exchange.first_inits().offers_short
    }

    /// Client: the server announced that it reads the short encoding of a first KEXINIT.
    #[must_use]
    pub fn short_kexinit_understood(&self) -> bool {
        self.transport.extensions.short_kexinit
    }

    /// Server: the client guessed the method of its first key exchange, right or wrong. Such a
    /// client has probably connected before and pipelines its requests.
    #[must_use]
    pub fn peer_guessed(&self) -> bool {
        self.transport.exchange.first_inits().peer_guessed
    }

    /// Client: data to the server will be compressed once the user is logged in.
    #[must_use]
    pub fn will_compress(&self) -> bool {
        self.transport.will_compress()
    }
}

/// Commands.
impl Connection {
    /// Client: opens a channel after the login, or right after a signed request that is still
    /// unanswered, in the expectation that it succeeds. Until the channel is confirmed,
    /// [`Connection::channel_request`], [`Connection::channel_send_early`],
    /// [`Connection::channel_eof`] and [`Connection::send_no_more_sessions`] may follow. They are
    /// addressed to channel 0, the server's first number if it counts from there. If no request
    /// succeeds, the channel is removed without an event.
    ///
    /// # Errors
    /// [`Error::Misuse`] without such a request, for a second channel, and before login if our data
    /// will be compressed: servers inflate everything that follows their answer as soon as they
    /// have sent it.
    pub fn open_channel_early(&mut self, kind: &str, fields: &[u8]) -> Result<ChannelId, Error> {
        let (client, transport) = self.client_auth()?;
        if !transport.authenticated && !client.expects_login() {
            return Err(Error::Misuse("no signed request is open"));
        }
        if !transport.authenticated && transport.will_compress() {
            return Err(Error::Misuse(
                "no early channel before a login that starts compression",
            ));
        }
        self.channels.open_early(&mut self.transport, kind, fields)
    }

    /// Client: sends data on the channel of [`Connection::open_channel_early`] before it is
    /// confirmed. The server must be a Fulmar, because the size of its first window is known. Once
    /// the channel is confirmed, [`Connection::channel_heard_early`] says whether the data arrived;
    /// if not, it must be sent again.
    ///
    /// # Errors
    /// [`Error::Misuse`] for other servers, for another channel, after the confirmation, and beyond
    /// 32 KiB in total.
    pub fn channel_send_early(&mut self, channel: ChannelId, data: &[u8]) -> Result<(), Error> {
        self.channels.send_early(&mut self.transport, channel, data)
    }

    /// The channel of [`Connection::open_channel_early`], until it is removed.
    #[must_use]
    pub fn early_channel(&self) -> Option<ChannelId> {
        self.channels.early()
    }

    /// Returns true if packets sent on an early channel before its confirmation reached it: the
    /// server assigned the expected number.
    #[must_use]
    pub fn channel_heard_early(&self, channel: ChannelId) -> bool {
        self.channels.heard_early(channel)
    }
}
