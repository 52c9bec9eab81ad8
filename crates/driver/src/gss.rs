//! Key exchanges by GSS-API of a client: the loop passes tokens between the connection and the contexts of its
//! owner, in the first exchange and in rekeys, so that no other code meets them.

use proto::Event;

use crate::{Driver, DriverError};

/// The client's side of the contexts of a connection's key exchanges. Each call may wait for a process or a KDC, so
/// it must limit its time. An error is the reason, for people.
pub trait GssContexts: Send {
    /// Takes the server's token, or begins the context of an exchange if it is empty; returns the next token, and
    /// true if the context is established.
    ///
    /// # Errors
    /// The reason why the context fails.
    fn token(&mut self, token: Vec<u8>) -> Result<(Vec<u8>, bool), String>;

    /// Takes the server's last token, if there is one, and verifies the MIC of the exchange hash in the established
    /// context.
    ///
    /// # Errors
    /// The reason why the server has not proved who it is.
    fn verify(&mut self, token: Option<Vec<u8>>, hash: &[u8], mic: Vec<u8>) -> Result<(), String>;

    /// The MIC of `data` in the context of the first exchange, for `gssapi-keyex`.
    ///
    /// # Errors
    /// The reason, for example that the context has been dropped.
    fn mic(&mut self, data: Vec<u8>) -> Result<Vec<u8>, String>;

    /// Drops the context of the first exchange: the user is logged in.
    fn logged_in(&mut self);
}

impl Driver {
    /// Sets the contexts for a connection that offers key exchanges by GSS-API.
    pub fn set_gss(&mut self, contexts: Box<dyn GssContexts>) {
        self.gss = Some(contexts);
    }

    /// The contexts, if there are any.
    pub fn gss(&mut self) -> Option<&mut dyn GssContexts> {
        match &mut self.gss {
            Some(contexts) => Some(contexts.as_mut()),
            None => None,
        }
    }

    /// Carries out an event of a client's key exchange by GSS-API; returns every other event.
    pub(super) fn pass_token(&mut self, event: Event) -> Result<Option<Event>, DriverError> {
        if !matches!(event, Event::GssToken { .. } | Event::GssComplete { .. }) {
            return Ok(Some(event));
        }
        let failed = |reason: String| DriverError::from(proto::Error::GssFailed(reason));
        let contexts = self.gss.as_mut();
        let contexts = contexts.ok_or_else(|| failed("no context".to_owned()))?;
        match event {
            Event::GssToken { token } => {
                let (token, is_established) = contexts.token(token).map_err(failed)?;
                self.connection.provide_gss_token(&token, is_established)?;
                Ok(None)
            }
            Event::GssComplete { token, hash, mic } => {
                contexts.verify(token, hash.as_ref(), mic).map_err(failed)?;
                self.connection.accept_gss()?;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }
}
