//! `ping@openssh.com` (OpenSSH's PROTOCOL): a message that the peer answers at once. The peer's
//! are answered in `dispatch`; answers to ours are dropped there, since their coming is all that
//! they are for.

use wire::message::Ping;

use super::{Connection, Stage};
use crate::Error;

impl Connection {
    /// Client: the server has said that it answers pings.
    #[must_use]
    pub fn ping_supported(&self) -> bool {
        self.transport.extensions.ping
    }

    /// Sends a ping; false, with nothing sent, while it could not leave at once: before login,
    /// in a key exchange, or behind other output. To a peer that does not know pings it is a
    /// message of an unknown type; see [`Connection::ping_supported`].
    ///
    /// # Errors
    /// [`Error::Bug`] when the packet cannot be made.
    pub fn send_ping(&mut self, data: &[u8]) -> Result<bool, Error> {
        let leaves_at_once = self.stage == Stage::Connected && self.transport.sends_at_once();
        if leaves_at_once {
            self.transport.send_message(&Ping { data })?;
        }
        Ok(leaves_at_once)
    }
}
