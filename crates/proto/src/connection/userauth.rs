//! Commands of user authentication, RFC 4252. [`ClientAuth`] and [`ServerAuth`] own its state.

use alloc::vec::Vec;

use wire::userauth::HostbasedClaim;
use zeroize::Zeroizing;

use super::{Auth, Connection, ConnectionStage};
use crate::transport::Transport;
use crate::userauth::client::ClientAuth;
use crate::userauth::server::ServerAuth;
use crate::{Error, Prompt};

/// Client.
impl Connection {
    pub(super) fn client_auth(&mut self) -> Result<(&mut ClientAuth, &mut Transport), Error> {
        match &mut self.auth {
            Auth::Client(client) => Ok((client, &mut self.transport)),
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Requests login with the method `none`, which also returns the list of methods.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication or with 16 unanswered requests, as for all requests
    /// below.
    pub fn auth_none(&mut self, user: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.none(transport, user)
    }

    /// Requests login with a password, RFC 4252 §8.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_password(&mut self, user: &[u8], password: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.password(transport, user, password, None)
    }

    /// Requests login with an expired password and a new one, RFC 4252 §8.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_change_password(
        &mut self,
        user: &[u8],
        old: &[u8],
        new: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.password(transport, user, old, Some(new))
    }

    /// Asks whether the server accepts a public key, RFC 4252 §7 without a signature.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_publickey_query(
        &mut self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.publickey_query(transport, user, algorithm.as_bytes(), key)
    }

    /// Data that a key has to sign; bound to the server's host key if the server supports that.
    ///
    /// # Errors
    /// [`Error::Misuse`] before the first key exchange is complete.
    pub fn publickey_signed_data(
        &self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
    ) -> Result<Vec<u8>, Error> {
        match &self.auth {
            Auth::Client(client) => {
                client.signed_data(&self.transport, user, algorithm.as_bytes(), key)
            }
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Leaves signatures unbound to the host key even if the server supports binding
    /// (`PubkeyAuthentication unbound`). To be called before the first key is offered.
    ///
    /// # Errors
    /// [`Error::Misuse`] on a server.
    pub fn leave_signatures_unbound(&mut self) -> Result<(), Error> {
        let (client, _) = self.client_auth()?;
        client.unbound = true;
        Ok(())
    }

    /// Requests login with a signature over [`Connection::publickey_signed_data`], RFC 4252 §7.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_publickey(
        &mut self,
        user: &[u8],
        algorithm: &str,
        key: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.publickey(transport, user, algorithm.as_bytes(), key, signature)
    }

    /// Data that the key of this host has to sign for [`Connection::auth_hostbased`].
    ///
    /// # Errors
    /// [`Error::Misuse`] on a server and before the first key exchange is complete.
    pub fn hostbased_signed_data(
        &self,
        user: &[u8],
        claim: &HostbasedClaim<'_>,
    ) -> Result<Vec<u8>, Error> {
        match &self.auth {
            Auth::Client(_) => ClientAuth::hostbased_signed_data(&self.transport, user, claim),
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Requests login with a signature by the key of this host, RFC 4252 §9.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_hostbased(
        &mut self,
        user: &[u8],
        claim: &HostbasedClaim<'_>,
        signature: &[u8],
    ) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.hostbased(transport, user, claim, signature)
    }

    /// Requests login with `gssapi-with-mic` and Kerberos, RFC 4462 §3.2.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_gssapi(&mut self, user: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.gssapi(transport, user)
    }

    /// Sends the token that the server waits for.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the server waits for none.
    pub fn auth_gssapi_token(&mut self, token: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.gssapi_token(transport, token)
    }

    /// Data that the MIC of [`Connection::auth_gssapi_mic`] covers.
    ///
    /// # Errors
    /// [`Error::Misuse`] on a server and before the first key exchange is complete.
    pub fn gssapi_signed_data(&self, user: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.auth {
            Auth::Client(_) => ClientAuth::gssapi_signed_data(&self.transport, user),
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Ends the exchange with the proof; the server's answer follows.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the server waits for none.
    pub fn auth_gssapi_mic(&mut self, mic: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.gssapi_mic(transport, mic)
    }

    /// Gives the exchange up, with the mechanism's error token unless it is empty (RFC 4462 §3.9). The
    /// server does not answer; another request follows.
    ///
    /// # Errors
    /// [`Error::Misuse`] if the server waits for nothing.
    pub fn auth_gssapi_give_up(&mut self, error_token: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.gssapi_give_up(transport, error_token)
    }

    /// Data that the MIC of [`Connection::auth_gssapi_keyex`] covers.
    ///
    /// # Errors
    /// [`Error::Misuse`] on a server, and unless the first key exchange was by GSS-API.
    pub fn gssapi_keyex_signed_data(&self, user: &[u8]) -> Result<Vec<u8>, Error> {
        match &self.auth {
            Auth::Client(_) => ClientAuth::gssapi_keyex_signed_data(&self.transport, user),
            Auth::Server(_) => Err(Error::Misuse("client command on a server")),
        }
    }

    /// Requests login with `gssapi-keyex`, RFC 4462 §4: `mic` is made in the context of the first key exchange.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_gssapi_keyex(&mut self, user: &[u8], mic: &[u8]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.gssapi_keyex(transport, user, mic)
    }

    /// Requests login with keyboard-interactive, RFC 4256 §3.1.
    ///
    /// # Errors
    /// [`Error::Misuse`] outside authentication.
    pub fn auth_keyboard_interactive(&mut self, user: &[u8], devices: &str) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.keyboard_interactive(transport, user, devices.as_bytes())
    }

    /// Sends one response for each prompt of [`crate::Event::AuthInfoRequest`], RFC 4256 §3.4.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no prompt awaits a response.
    pub fn auth_respond(&mut self, responses: &[Zeroizing<Vec<u8>>]) -> Result<(), Error> {
        let (client, transport) = self.client_auth()?;
        client.respond(transport, responses)
    }
}

/// Server.
impl Connection {
    fn server_auth(&mut self) -> Result<(&mut ServerAuth, &mut Transport), Error> {
        match &mut self.auth {
            Auth::Server(server) => Ok((server, &mut self.transport)),
            Auth::Client(_) => Err(Error::Misuse("server command on a client")),
        }
    }

    /// Accepts the open request: the client is logged in.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open, as for all answers below.
    pub fn auth_success(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.success(transport)?;
        self.stage = ConnectionStage::Connected;
        self.alive.heard(self.transport.now);
        Ok(())
    }

    /// Rejects the open request; `methods` can continue.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open.
    pub fn auth_failure(&mut self, methods: &[&str], partial_success: bool) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.failure(transport, methods, partial_success)
    }

    /// Accepts the key of the open query.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no key query is open.
    pub fn auth_pk_ok(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.pk_ok(transport)
    }

    /// Sends prompts for keyboard-interactive, at most 64.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open, or with too many prompts.
    pub fn auth_info_request(
        &mut self,
        name: &str,
        instruction: &str,
        prompts: &[Prompt],
    ) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.info_request(transport, name, instruction, prompts)
    }

    /// Chooses Kerberos for the open request, RFC 4462 §3.3; the client's token follows.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open.
    pub fn auth_gssapi_response(&mut self) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.gssapi_response(transport)
    }

    /// Answers the client's token, and waits for the next token or the MIC. An empty token is not sent.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open.
    pub fn auth_gssapi_next(&mut self, token: &[u8]) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.gssapi_next(transport, token)
    }

    /// Sends the mechanism's error token before the failure of the open request, RFC 4462 §3.9.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no request is open.
    pub fn auth_gssapi_error_token(&mut self, token: &[u8]) -> Result<(), Error> {
        let (server, transport) = self.server_auth()?;
        server.gssapi_error_token(transport, token)
    }

    /// Sends text to show before login.
    ///
    /// # Errors
    /// [`Error::Misuse`] after login.
    pub fn auth_banner(&mut self, text: &str) -> Result<(), Error> {
        let (_, transport) = self.server_auth()?;
        ServerAuth::banner(transport, text)
    }

    /// Announces which algorithms this user's keys may use, if the client supports
    /// `ext-info-in-auth@openssh.com`.
    ///
    /// # Errors
    /// Errors of sending.
    pub fn send_ext_info_in_auth(&mut self, algorithms: &[&str]) -> Result<(), Error> {
        self.transport.send_ext_info_in_auth(algorithms)
    }
}
