//! Commands of the transport: host keys, key exchanges, DISCONNECT and IGNORE.

use crypto::kex::DhGroup;
use wire::message;

use super::Connection;
use crate::{Error, Millis, Role};

impl Connection {
    /// Client: trusts the host key of [`crate::Event::HostKey`].
    ///
    /// # Errors
    /// [`Error::Misuse`] if no host key awaits a decision.
    pub fn accept_host_key(&mut self) -> Result<(), Error> {
        self.transport.accept_host_key()
    }

    /// Client: refuses the host key and sends DISCONNECT.
    pub fn refuse_host_key(&mut self) {
        self.fail(&Error::HostKeyRefused);
    }

    /// Server: provides the signature blob for [`crate::Event::SignExchangeHash`].
    ///
    /// # Errors
    /// [`Error::Misuse`] if no signature was requested.
    pub fn provide_host_signature(&mut self, signature: &[u8]) -> Result<(), Error> {
        self.transport.provide_host_signature(signature)
    }

    /// Server: provides the group for [`crate::Event::ChooseGroup`]; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] for `None`, [`Error::Misuse`] if no group was requested.
    pub fn provide_group(&mut self, group: Option<DhGroup>) -> Result<(), Error> {
        self.transport.provide_group(group)
    }

    /// Client: sends the token for [`crate::Event::GssToken`]. `is_established` is true if the context needs no
    /// further token of the server.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] for an empty token: the server waits for one. [`Error::Misuse`] if no token was
    /// asked for.
    pub fn provide_gss_token(&mut self, token: &[u8], is_established: bool) -> Result<(), Error> {
        self.transport.provide_gss_token(token, is_established)
    }

    /// Client: the MIC of [`crate::Event::GssComplete`] is valid.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no MIC awaits a decision.
    pub fn accept_gss(&mut self) -> Result<(), Error> {
        self.transport.accept_gss()
    }

    /// Server: answers the token of [`crate::Event::GssAccept`], and awaits the next one.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no token awaits an answer.
    pub fn continue_gss(&mut self, token: &[u8]) -> Result<(), Error> {
        self.transport.continue_gss(token)
    }

    /// Server: completes the exchange of [`crate::Event::GssAccept`] with the last token, which may be empty, and the
    /// MIC of the exchange hash.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no token awaits an answer.
    pub fn complete_gss(&mut self, token: &[u8], mic: &[u8]) -> Result<(), Error> {
        self.transport.complete_gss(token, mic)
    }

    /// Server: refuses the token of [`crate::Event::GssAccept`], with the mechanism's error token unless it is empty.
    /// The returned error ends the connection.
    pub fn refuse_gss(&mut self, token: &[u8]) -> Error {
        self.transport.refuse_gss(token)
    }

    /// Starts a key exchange, unless one is running.
    ///
    /// # Errors
    /// Errors of sending KEXINIT.
    pub fn rekey(&mut self, now: Millis) -> Result<(), Error> {
        self.transport.now = now;
        self.transport.rekey()
    }

    /// Client: creates the key pair of the next key exchange in advance if a limit on bytes is
    /// near. To be called when there is nothing else to do. The pair is used for one exchange, and
    /// dropped when the connection has been idle for a second.
    ///
    /// # Errors
    /// [`Error::KeyExchange`] if no pair could be created.
    pub fn prepare_rekey(&mut self) -> Result<(), Error> {
        self.transport.prepare_rekey()
    }

    /// Sends DISCONNECT (RFC 4253 §11.1); nothing is sent or accepted afterwards.
    pub fn disconnect(&mut self, reason: u32, description: &str) {
        self.transport.disconnect(reason, description);
    }

    /// Sends the DISCONNECT that matches `error`, if there is one. A client that does not speak SSH-2
    /// gets OpenSSH's line instead (`kex.c`, `kex_exchange_identification`).
    pub fn fail(&mut self, error: &Error) {
        if let Error::NotSsh(line) = error
            && self.transport.role == Role::Server
        {
            return self.transport.refuse_version(line);
        }
        if let Some((reason, description)) = error.disconnect_reason() {
            self.transport.disconnect(reason, description);
        }
    }

    /// Sends SSH_MSG_IGNORE.
    ///
    /// # Errors
    /// Errors of sending.
    pub fn send_ignore(&mut self, data: &[u8]) -> Result<(), Error> {
        self.transport.send_message(&message::Ignore { data })
    }
}
