//! Methods `gssapi-with-mic` and `gssapi-keyex` (RFC 4462 §3 and §4) with the user's Kerberos tickets, in a process of
//! the crate `gssapi`, which loads the library.
//!
//! Many systems set GSSAPIAuthentication for everybody. Where no credential cache can be, the method
//! is passed over, and a login is as fast as without it.

use gssapi::{ContextStep, GssFailure, KerberosInitiator};

use super::{Answer, Authenticator};
use crate::error::ClientError;
use crate::kerberos::{self, debug_lines, may_have_tickets};
use crate::log::debug1;
use crate::text::one_line;

impl Authenticator<'_> {
    pub(super) fn may_try_gssapi(&self) -> bool {
        self.options.authentication.gssapi_authentication
            && !self.tries.gssapi
            && may_have_tickets()
    }

    pub(super) fn may_try_gssapi_keyex(&self) -> bool {
        self.is_by_gss && !self.tries.gssapi_keyex
    }

    /// Proves the user by the context of the key exchange, once for each connection.
    pub(super) fn gssapi_keyex(&mut self) -> Result<Option<Answer>, ClientError> {
        self.tries.gssapi_keyex = true;
        let user = self.options.user.as_bytes();
        let data = self.driver.connection().gssapi_keyex_signed_data(user);
        let data = data.map_err(|error| self.lost(driver::DriverError::Proto(error)))?;
        let Some(contexts) = self.driver.gss() else {
            return Ok(None);
        };
        let mic = match contexts.mic(data) {
            Ok(mic) => mic,
            Err(reason) => {
                debug1!("{}", one_line(&reason));
                return Ok(None);
            }
        };
        self.await_service()?;
        let sent = self.driver.connection().auth_gssapi_keyex(user, &mic);
        self.sent(sent)?;
        self.answer().map(Some)
    }

    /// Tries `gssapi-with-mic`, once for each connection.
    pub(super) fn gssapi(&mut self) -> Result<Option<Answer>, ClientError> {
        self.tries.gssapi = true;
        // Nothing is delegated to a host whose key is not the recorded one, nor a second time after a
        // key exchange by GSS-API.
        let delegates = self.options.authentication.gssapi_delegate_credentials
            && !self.without_secrets
            && !self.is_by_gss;
        let terms = kerberos::terms(self.options, self.peer, delegates);
        let begun = KerberosInitiator::begin(terms, None);
        let (context, first) = match begun {
            Ok(begun) => begun,
            Err(failure) => {
                debug_lines(&failure);
                return Ok(None);
            }
        };
        self.await_service()?;
        let user = self.options.user.as_bytes();
        let sent = self.driver.connection().auth_gssapi(user);
        self.sent(sent)?;
        let mut step = first;
        loop {
            match self.answer()? {
                Answer::GssapiResponse => {}
                // The server's words follow its error token; the library knows more of them.
                Answer::GssapiToken {
                    token,
                    is_error: true,
                } => {
                    if let Err(failure) = context.step(token) {
                        debug_lines(&failure);
                    }
                    continue;
                }
                Answer::GssapiToken { token, .. } => match context.step(token) {
                    Ok(next) => step = next,
                    Err(failure) => return self.give_up(&failure),
                },
                answer => return Ok(Some(answer)),
            }
            if let Some(given_up) = self.take_turn(&context, &step)? {
                return Ok(given_up);
            }
        }
    }

    /// Sends the token of a step, or the proof if the context is established; returns the end of the
    /// method if there is neither.
    fn take_turn(
        &mut self,
        context: &KerberosInitiator,
        step: &ContextStep,
    ) -> Result<Option<Option<Answer>>, ClientError> {
        if !step.token.is_empty() {
            let sent = self.driver.connection().auth_gssapi_token(&step.token);
            self.sent(sent)?;
            return Ok(None);
        }
        let user = self.options.user.as_bytes();
        let data = self.driver.connection().gssapi_signed_data(user);
        let data = data.map_err(|error| self.lost(driver::DriverError::Proto(error)))?;
        match context.mic(data) {
            Ok(mic) => {
                let sent = self.driver.connection().auth_gssapi_mic(&mic);
                self.sent(sent)?;
                Ok(None)
            }
            Err(failure) => self.give_up(&failure).map(Some),
        }
    }

    /// Ends the method without an answer of the server; the next method follows.
    fn give_up(&mut self, failure: &GssFailure) -> Result<Option<Answer>, ClientError> {
        debug_lines(failure);
        let sent = self.driver.connection().auth_gssapi_give_up(&failure.token);
        self.sent(sent)?;
        Ok(None)
    }
}
