//! `ping@openssh.com` (OpenSSH's PROTOCOL): a message that the peer answers at once. `dispatch`
//! answers the peer's pings and drops the answers to ours, whose arrival is all that matters.

use wire::message::Ping;

use super::{Connection, ConnectionStage};
use crate::Error;

impl Connection {
    /// Client: the server announced that it answers pings.
    #[must_use]
    pub fn ping_supported(&self) -> bool {
        self.transport.extensions.ping
    }

    /// Sends a ping. Returns false and sends nothing if it could not leave at once: before login,
    /// in a key exchange, or with other output queued. A peer without support answers
    /// UNIMPLEMENTED; see [`Connection::ping_supported`].
    ///
    /// # Errors
    /// [`Error::Bug`] if the packet cannot be created.
    pub fn send_ping(&mut self, data: &[u8]) -> Result<bool, Error> {
        let leaves_at_once =
            self.stage == ConnectionStage::Connected && self.transport.sends_at_once();
        if leaves_at_once {
            self.transport.send_message(&Ping { data })?;
        }
        Ok(leaves_at_once)
    }
}
