//! User authentication: which method next, with which key or secret (RFC 4252, 4256).
//!
//! `proto` implements the messages and their order. [`pipelined`] sends what may be sent before the
//! server's answers: the signature of a single key or of the first if the last login was with it, or questions.
//! [`identity`] finds the keys; each method has a file. [`one_method`] is the login of a program that chooses the
//! methods itself.

mod gssapi;
mod hostbased;
pub mod identity;
mod keyboard_interactive;
mod one_method;
mod password;
mod pipelined;
mod publickey;
mod security_key;

use std::collections::VecDeque;

use config::client::{ClientOptions, PubkeyAuthentication};
use driver::{Driver, DriverError, Notice};
use proto::{AuthProof, Event};
use wire::names;

use crate::children;
use crate::error::{ClientError, Peer};
use crate::interaction::Interaction;
use crate::log::{self, debug1, debug2, debug3, error, info, verbose};
use crate::pipelining::{EarlyChannel, Failure, RetryPolicy};
use crate::text::one_line;
use hostbased::HostKeys;
use identity::{Identity, Keys};
pub use one_method::Attempted;
pub use pipelined::Early;
use pipelined::Flight;

/// Timer of `ConnectTimeout`, which runs until the keys are agreed on.
pub const TOKEN_DEADLINE: u64 = 9;
/// What OpenSSH and Fulmar say when they end a connection because of `MaxAuthTries`.
const TOO_MANY_FAILURES: &str = "Too many authentication failures";
/// Longest wait for SERVICE_ACCEPT without another limit, milliseconds.
const SERVICE_MS: u64 = 60_000;

/// The result of a login, for the session that follows.
#[derive(Debug)]
pub struct LoggedIn {
    /// The method that completed the login.
    pub method: &'static str,
    /// Whether the user proved anything to the server.
    pub proof: AuthProof,
    /// Fingerprint of the key, if the login needed one key and nothing else.
    pub key: Option<String>,
    /// The session's channel, if it was opened before the login was answered.
    pub early: Option<EarlyChannel>,
}

/// The server's answer to one request.
#[derive(Debug)]
enum Answer {
    Success(AuthProof),
    Failure {
        methods: Vec<String>,
        partial_success: bool,
    },
    PkOk,
    InfoRequest {
        name: String,
        instruction: String,
        prompts: Vec<proto::Prompt>,
    },
    ChangePassword {
        prompt: String,
    },
    GssapiResponse,
    GssapiToken {
        token: Vec<u8>,
        is_error: bool,
    },
}

impl Answer {
    /// True if the proof was accepted, alone or as one of several.
    fn is_accepted(&self) -> bool {
        match self {
            Self::Success(_) => true,
            Self::Failure {
                partial_success, ..
            } => *partial_success,
            _ => false,
        }
    }
}

/// A login under way.
pub struct Authenticator<'c> {
    driver: &'c mut Driver,
    options: &'c ClientOptions,
    peer: &'c Peer,
    interaction: &'c mut dyn Interaction,
    /// True if no secret may be sent, because the host key is not the recorded one.
    without_secrets: bool,
    identities: VecDeque<Identity>,
    used: Vec<Identity>,
    /// The keys of this host, with `HostbasedAuthentication`.
    host_keys: HostKeys,
    /// Keys without an algorithm that the server is known to accept; tried again after its first
    /// answer.
    deferred: VecDeque<Identity>,
    flight: Flight,
    /// Time limit of each answer, milliseconds.
    answer_timeout_ms: Option<u64>,
    /// Why the last key made no signature.
    unsigned: Option<String>,
    /// Fingerprint of the last key offered.
    offered: Option<String>,
    partly: bool,
    /// The algorithms of accepted proofs that only old devices need.
    old_algorithms: Vec<&'static str>,
    agent: Option<identity::Agent>,
    /// The methods that can continue; `None` before the first refusal.
    allowed: Option<Vec<String>>,
    tries: Tries,
    /// The server is one that counts `none` after another request as a failure.
    counts_none: bool,
    /// The key exchange was by GSS-API.
    is_by_gss: bool,
}

/// Number of attempts by each method, for the limits of the options.
#[derive(Debug, Default)]
struct Tries {
    none: bool,
    gssapi: bool,
    gssapi_keyex: bool,
    password: u32,
    interactive: u32,
}

impl<'c> Authenticator<'c> {
    /// A login that tries `keys`.
    pub fn new(
        driver: &'c mut Driver,
        options: &'c ClientOptions,
        peer: &'c Peer,
        interaction: &'c mut dyn Interaction,
        keys: Keys,
    ) -> Self {
        let Keys { identities, agent } = keys;
        let connection = driver.connection();
        let is_by_gss = connection.is_by_gss();
        let version = connection.peer_version().unwrap_or_default();
        let counts_none = proto::Quirks::of(version).pipelining == proto::Pipelining::InOrder;
        Self {
            driver,
            options,
            peer,
            interaction,
            without_secrets: false,
            flight: Flight::with(identities.len()),
            identities,
            used: Vec::new(),
            host_keys: match options.authentication.hostbased_authentication {
                true => HostKeys::load(&options.algorithms.hostbased_accepted_algorithms),
                false => HostKeys::default(),
            },
            deferred: VecDeque::new(),
            answer_timeout_ms: None,
            unsigned: None,
            offered: None,
            partly: false,
            old_algorithms: Vec::new(),
            agent,
            allowed: None,
            tries: Tries::default(),
            counts_none,
            is_by_gss,
        }
    }

    /// Forbids methods that send a secret to the server.
    #[must_use]
    pub fn without_secrets(mut self, without: bool) -> Self {
        self.without_secrets = without;
        self
    }

    /// Logs in. With `early`, everything that may be sent before the server's answers is sent at
    /// once.
    ///
    /// # Errors
    /// [`ClientError::Denied`] if no method is left; else why the connection ended. The policy says
    /// whether early messages may be the cause, and a retry is safe.
    pub fn run(mut self, early: Option<&Early<'_>>) -> Result<LoggedIn, Failure> {
        self.try_run(early).map_err(|error| self.failure(error))
    }

    /// Decides what follows a login that ended with `error`.
    fn failure(&self, error: ClientError) -> Failure {
        let retry = match &error {
            ClientError::Lost {
                error: DriverError::Proto(proto::Error::Disconnected { description, .. }),
                ..
            } if description.contains(TOO_MANY_FAILURES) => self.retry_after_too_many(),
            ClientError::Lost {
                error: DriverError::Proto(proto::Error::Disconnected { .. }),
                ..
            } => self.retry_policy(true),
            ClientError::Lost { .. } | ClientError::Closed(_) | ClientError::TimedOut { .. } => {
                self.retry_policy(false)
            }
            _ => RetryPolicy::NotNeeded,
        };
        Failure { error, retry }
    }

    fn try_run(&mut self, early: Option<&Early<'_>>) -> Result<LoggedIn, ClientError> {
        // `host-bound` means `yes`, as in OpenSSH: signatures are bound if the server knows that
        // form.
        if self.options.authentication.pubkey_authentication == PubkeyAuthentication::Unbound {
            let unbound = self.driver.connection().leave_signatures_unbound();
            self.sent(unbound)?;
        }
        if let Some(early) = early {
            self.send_early_requests(early)?;
        }
        loop {
            let Some(method) = self.next_method() else {
                return Err(self.denied());
            };
            debug3!("next method: {method}");
            match self.request(method, early)? {
                Some(Answer::Success(proof)) => return Ok(self.logged_in(method, proof)),
                Some(Answer::Failure {
                    methods,
                    partial_success,
                }) => {
                    self.refused(method, methods, partial_success);
                }
                // The method had nothing to offer, or the answer is one that `proto` does not pass
                // on.
                Some(_) | None => {}
            }
        }
    }

    /// Carries out one method; `None` if it had nothing to offer.
    fn request(
        &mut self,
        method: &str,
        early: Option<&Early<'_>>,
    ) -> Result<Option<Answer>, ClientError> {
        children::go_on()?;
        match method {
            names::METHOD_NONE => self.none().map(Some),
            names::METHOD_GSSAPI_KEYEX => self.gssapi_keyex(),
            names::METHOD_GSSAPI_WITH_MIC => self.gssapi(),
            names::METHOD_HOSTBASED => self.hostbased(),
            names::METHOD_PUBLICKEY => self.publickey(early),
            names::METHOD_PASSWORD => self.password(),
            _ => self.keyboard_interactive(),
        }
    }

    fn logged_in(&mut self, method: &'static str, proof: AuthProof) -> LoggedIn {
        if let Some(contexts) = self.driver.gss() {
            contexts.logged_in();
        }
        verbose!(
            "Authenticated to {} using \"{method}\".",
            self.peer.shown_with_address()
        );
        if proof == AuthProof::Nothing {
            info!(
                "The server accepted the login without any proof of who you are: do not give it \
                 secrets that it asks for now."
            );
        }
        let told = self.options.algorithms.warn_weak_crypto;
        if told.warns_of_old_algorithms() {
            log::warn_of_old_algorithms(
                "login",
                &self.old_algorithms,
                "A server that needs SHA-1 should be upgraded, and a certificate signed with it be signed again: others may be forged.",
            );
        }
        let by_key = method == names::METHOD_PUBLICKEY && !self.partly;
        LoggedIn {
            method,
            proof,
            key: self.offered.take().filter(|_| by_key),
            early: self.flight.channel.take(),
        }
    }

    fn refused(&mut self, method: &str, methods: Vec<String>, partial_success: bool) {
        let mut first = std::mem::take(&mut self.deferred);
        first.append(&mut self.identities);
        self.identities = first;
        let shown = one_line(&methods.join(","));
        if partial_success {
            verbose!(
                "Authenticated using \"{method}\" with partial success; still needed: {shown}"
            );
            self.partly = true;
            // A second factor may be another key: keys that were refused before may be offered
            // again.
            self.identities.extend(std::mem::take(&mut self.used));
            let accepted = std::mem::take(&mut self.flight.accepted);
            accepted
                .into_iter()
                .rev()
                .for_each(|key| self.identities.push_front(key));
            self.tries.password = 0;
            self.tries.interactive = 0;
        } else {
            debug1!("Authentications that can continue: {shown}");
        }
        self.allowed = Some(methods);
    }

    /// `user@host` for prompts, as OpenSSH has it: the host by HostKeyAlias, else by the name that is connected to.
    fn login_name(&self) -> String {
        let ClientOptions {
            user,
            hostname,
            host_keys,
            ..
        } = self.options;
        let host = host_keys.host_key_alias.as_ref().unwrap_or(hostname);
        one_line(&format!("{user}@{host}"))
    }

    fn denied(&self) -> ClientError {
        ClientError::Denied {
            who: format!("{}@{}", self.options.user, self.options.hostname),
            methods: self.allowed.clone().unwrap_or_default(),
        }
    }

    /// The next method in the user's order that the server accepts and that has something to offer.
    fn next_method(&self) -> Option<&'static str> {
        if self.flight.is_under_way() {
            return Some(names::METHOD_PUBLICKEY);
        }
        let Some(allowed) = &self.allowed else {
            // No answer yet: start with a signed request if it needs no user.
            return Some(if self.starts_with_a_key() {
                names::METHOD_PUBLICKEY
            } else {
                names::METHOD_NONE
            });
        };
        let permitted = |name: &str| allowed.iter().any(|each| each == name);
        let choose = |name: &str| -> Option<&'static str> {
            match name {
                names::METHOD_GSSAPI_KEYEX if permitted(name) && self.may_try_gssapi_keyex() => {
                    Some(names::METHOD_GSSAPI_KEYEX)
                }
                names::METHOD_GSSAPI_WITH_MIC if permitted(name) && self.may_try_gssapi() => {
                    Some(names::METHOD_GSSAPI_WITH_MIC)
                }
                names::METHOD_HOSTBASED if permitted(name) && !self.host_keys.is_empty() => {
                    Some(names::METHOD_HOSTBASED)
                }
                names::METHOD_PUBLICKEY if permitted(name) && !self.identities.is_empty() => {
                    Some(names::METHOD_PUBLICKEY)
                }
                names::METHOD_PASSWORD if permitted(name) && self.may_ask_password() => {
                    Some(names::METHOD_PASSWORD)
                }
                names::METHOD_KEYBOARD_INTERACTIVE
                    if permitted(name) && self.may_ask_interactive() =>
                {
                    Some(names::METHOD_KEYBOARD_INTERACTIVE)
                }
                _ => None,
            }
        };
        let next = self
            .options
            .authentication
            .preferred_authentications
            .iter()
            .find_map(|name| choose(name));
        match next {
            // Only `none` shows that a server wants no proof: try it before asking the user.
            Some(
                names::METHOD_GSSAPI_KEYEX
                | names::METHOD_GSSAPI_WITH_MIC
                | names::METHOD_HOSTBASED
                | names::METHOD_PUBLICKEY,
            ) => next,
            _ if self.may_try_none() => Some(names::METHOD_NONE),
            next => next,
        }
    }

    /// True if the login begins with requests about keys: one was named and signs alone, or the last login at this server
    /// was with one of the first.
    fn starts_with_a_key(&self) -> bool {
        let first = self
            .options
            .authentication
            .preferred_authentications
            .iter()
            .find(|name| match name.as_str() {
                names::METHOD_GSSAPI_KEYEX => self.may_try_gssapi_keyex(),
                names::METHOD_GSSAPI_WITH_MIC => self.may_try_gssapi(),
                names::METHOD_HOSTBASED => !self.host_keys.is_empty(),
                names::METHOD_PUBLICKEY
                | names::METHOD_PASSWORD
                | names::METHOD_KEYBOARD_INTERACTIVE => true,
                _ => false,
            });
        first.is_some_and(|name| name == names::METHOD_PUBLICKEY)
            && (self.identities.front().is_some_and(Identity::begins)
                || self.knows_one_of_the_first())
    }

    /// After a refused key `none` counts as a failure, which may end the connection. OpenSSH and Fulmar accept it for an
    /// empty password at most, which the user can give.
    fn may_try_none(&self) -> bool {
        let has_failed = self.offered.is_some() || !self.used.is_empty();
        let would_count = has_failed && self.counts_none;
        !self.tries.none && !would_count
    }

    fn may_ask_password(&self) -> bool {
        self.options.authentication.password_authentication
            && !self.options.authentication.batch_mode
            && !self.without_secrets
            && self.tries.password < self.options.authentication.number_of_password_prompts
    }

    fn may_ask_interactive(&self) -> bool {
        self.options.authentication.kbd_interactive_authentication
            && !self.options.authentication.batch_mode
            && !self.without_secrets
            && self.tries.interactive < self.options.authentication.number_of_password_prompts
    }

    fn none(&mut self) -> Result<Answer, ClientError> {
        self.tries.none = true;
        debug2!("USERAUTH_REQUEST none");
        let user = self.options.user.as_bytes();
        let sent = self.driver.connection().auth_none(user);
        self.sent(sent)?;
        self.answer()
    }

    fn lost(&self, error: DriverError) -> ClientError {
        ClientError::Lost {
            peer: self.peer.clone(),
            error,
        }
    }

    fn sent(&self, result: Result<(), proto::Error>) -> Result<(), ClientError> {
        result.map_err(|error| self.lost(DriverError::Proto(error)))
    }

    /// Waits for the answer to the oldest open request; shows banners that arrive before it.
    fn answer(&mut self) -> Result<Answer, ClientError> {
        self.limit_wait(true);
        let answer = self.next_answer()?;
        self.limit_wait(false);
        self.flight.is_refused = false;
        Ok(answer)
    }

    /// Sets or removes the timer of an answer.
    fn limit_wait(&mut self, waits: bool) {
        if let Some(timeout_ms) = self.answer_timeout_ms {
            let at = self.driver.now().saturating_add(timeout_ms);
            self.driver.set_timer(TOKEN_DEADLINE, waits.then_some(at));
        }
    }

    /// Waits until the server has granted the service, after which secrets may be sent. No person has
    /// a part in that answer, so the wait is limited in any case.
    fn await_service(&mut self) -> Result<(), ClientError> {
        let limit_ms = self.answer_timeout_ms.unwrap_or(SERVICE_MS);
        let at = self.driver.now().saturating_add(limit_ms);
        self.driver.set_timer(TOKEN_DEADLINE, Some(at));
        while !self.driver.connection().takes_secrets() {
            match self.next_event()? {
                Event::AuthBanner(text) => self.interaction.banner(&text),
                other => note(other),
            }
        }
        self.driver.set_timer(TOKEN_DEADLINE, None);
        Ok(())
    }

    fn next_event(&mut self) -> Result<Event, ClientError> {
        loop {
            match self.driver.next().map_err(|error| self.lost(error))? {
                Notice::Event(event) => return Ok(event),
                Notice::PeerClosed => return Err(ClientError::Closed(self.peer.clone())),
                Notice::Timer {
                    token: TOKEN_DEADLINE,
                } => return Err(ClientError::TimedOut(self.peer.clone())),
                _ => {}
            }
        }
    }

    fn next_answer(&mut self) -> Result<Answer, ClientError> {
        loop {
            let event = self.next_event()?;
            match event {
                Event::AuthSuccess(proof) => return Ok(Answer::Success(proof)),
                Event::AuthFailure {
                    methods,
                    partial_success,
                } => {
                    return Ok(Answer::Failure {
                        methods,
                        partial_success,
                    });
                }
                Event::AuthPkOk { .. } => return Ok(Answer::PkOk),
                Event::AuthInfoRequest {
                    name,
                    instruction,
                    prompts,
                } => {
                    return Ok(Answer::InfoRequest {
                        name,
                        instruction,
                        prompts,
                    });
                }
                Event::AuthChangePassword { prompt } => {
                    return Ok(Answer::ChangePassword { prompt });
                }
                Event::AuthGssapiResponse => return Ok(Answer::GssapiResponse),
                Event::AuthGssapiToken { token, is_error } => {
                    return Ok(Answer::GssapiToken { token, is_error });
                }
                Event::AuthGssapiError(text) => {
                    debug1!("Server GSSAPI Error: {}", one_line(&text));
                }
                Event::AuthBanner(text) => self.interaction.banner(&text),
                other => note(other),
            }
        }
    }
}

/// Logs events that mean the same before and after login.
pub(crate) fn note(event: Event) {
    match event {
        Event::DebugMessage {
            always_display: true,
            text,
        } => info!("Remote: {}", one_line(&text)),
        Event::DebugMessage { text, .. } => debug1!("Remote: {}", one_line(&text)),
        Event::KeysChanged { negotiated, first } => crate::report::note_keys(&negotiated, first),
        Event::ChannelOpenRequest { .. } => error!("the server asked for a channel before login"),
        other => debug3!("event: {other:?}"),
    }
}
