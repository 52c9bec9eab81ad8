//! The login of a program that chooses each method itself: the library. Keys, agent and answers are
//! handled as in [`Authenticator::run`].

use driver::DriverError;
use wire::names;

use super::{Answer, Authenticator, Early, LoggedIn};
use crate::error::ClientError;
use crate::pipelining::Failure;

/// The end of one method.
#[derive(Debug)]
pub enum Attempted {
    /// The user is logged in.
    Success(LoggedIn),
    /// The server refused, or needs another method in addition.
    Refused {
        /// The methods that can continue.
        methods: Vec<String>,
        /// True if the proof was accepted.
        partial_success: bool,
    },
    /// The password has expired, and no new one was given. Holds the server's text.
    PasswordExpired(String),
    /// No request was sent. Holds the reason, if there is one: the error of the key or the agent.
    NotSent(Option<String>),
}

impl Authenticator<'_> {
    /// Limits the time for each of the server's answers, milliseconds.
    #[must_use]
    pub fn answering_within(mut self, timeout_ms: Option<u64>) -> Self {
        self.answer_timeout_ms = timeout_ms;
        self
    }

    /// Tries one method: for `publickey` all keys, in order, until one is accepted. With `early`,
    /// everything that may be sent before the server's answers is sent at once.
    ///
    /// # Errors
    /// As [`Authenticator::run`], without [`ClientError::Denied`]; [`ClientError::TimedOut`].
    pub fn attempt(
        mut self,
        method: &'static str,
        early: Option<&Early<'_>>,
    ) -> Result<Attempted, Failure> {
        self.try_method(method, early)
            .map_err(|error| self.failure(error))
    }

    fn try_method(
        &mut self,
        method: &'static str,
        early: Option<&Early<'_>>,
    ) -> Result<Attempted, ClientError> {
        if [names::METHOD_PASSWORD, names::METHOD_KEYBOARD_INTERACTIVE].contains(&method) {
            if self.without_secrets {
                let why = "the host's key has changed: no secret is sent".to_owned();
                return Ok(Attempted::NotSent(Some(why)));
            }
            self.await_service()?;
        }
        let is_key = method == names::METHOD_PUBLICKEY;
        if let Some(early) = early.filter(|_| is_key) {
            self.send_early_requests(early)?;
        }
        let mut refused = None;
        let mut partly = false;
        loop {
            if is_key && self.identities.is_empty() && !self.flight.is_under_way() {
                // Keys without an algorithm wait for the server's first answer.
                return Ok(refused.unwrap_or(Attempted::NotSent(self.unsigned.take())));
            }
            match self.request(method, early)? {
                Some(Answer::Success(proof)) => {
                    return Ok(Attempted::Success(self.logged_in(method, proof)));
                }
                Some(Answer::Failure {
                    methods,
                    partial_success,
                }) => {
                    self.identities.append(&mut self.deferred);
                    self.allowed = Some(methods.clone());
                    partly |= partial_success;
                    let outcome = Attempted::Refused {
                        methods,
                        partial_success: partly,
                    };
                    // Each answer to a key that was sent early belongs to this method.
                    if !is_key || partly && self.flight.keys.is_empty() {
                        return Ok(outcome);
                    }
                    refused = Some(outcome);
                }
                Some(Answer::ChangePassword { prompt }) => {
                    return Ok(Attempted::PasswordExpired(prompt));
                }
                Some(_) => {
                    let error = proto::Error::PeerMisbehaved("an answer to another request");
                    return Err(self.lost(DriverError::Proto(error)));
                }
                None if is_key => {}
                None => return Ok(Attempted::NotSent(None)),
            }
        }
    }
}
