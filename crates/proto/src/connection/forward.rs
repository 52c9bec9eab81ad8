//! Global requests of forwardings (RFC 4254 §7.1, OpenSSH's PROTOCOL §2.4): the owner encodes,
//! decides and answers them.

use wire::message::Debug;

use super::Connection;
use crate::Error;

impl Connection {
    /// Client: sends a global request that wants a reply; [`Event::GlobalReply`](crate::Event)
    /// follows, in the order of the requests.
    ///
    /// # Errors
    /// [`Error::Misuse`] before login or with 4,096 unanswered requests.
    pub fn global_request(&mut self, name: &str, fields: &[u8]) -> Result<(), Error> {
        self.connected()?;
        self.globals.send_owners(&mut self.transport, name, fields)
    }

    /// Server: answers [`Event::GlobalRequest`](crate::Event) that wants a reply, with these fields;
    /// `None` refuses. No input is processed before.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no reply is owed.
    pub fn global_reply(&mut self, fields: Option<&[u8]>) -> Result<(), Error> {
        self.globals.reply(&mut self.transport, fields)
    }

    /// Tells the peer's user something about the connection, for its log (RFC 4253 §11.3).
    ///
    /// # Errors
    /// [`Error::Misuse`] before login.
    pub fn tell_peer(&mut self, text: &str) -> Result<(), Error> {
        self.connected()?;
        self.transport.send_message(&Debug {
            always_display: false,
            text: text.as_bytes(),
            language: b"",
        })
    }
}
