//! Authentication of clients: the decisions that the embedding program makes, and the state of one
//! login.
//!
//! The state belongs to one user name: when a client continues under another name, earlier proofs
//! do not count. A key is checked twice, when the client asks about it and when it has signed; only
//! the second can log a user in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keys::candidate::{CandidateKey, CandidateRules, SignedFor};
use keys::certificate::VERIFY_REQUIRED;
use keys::{Certificate, PresentedKey, PublicKey, SignatureAlgorithm, VerifyPolicy};
use proto::{AuthMethod, AuthRequest, Connection, Prompt};
use wire::message::reason;
use wire::names;
use zeroize::Zeroizing;

use super::config::Config;
use crate::Error;

/// Most rounds of one keyboard-interactive dialogue.
const MAX_ROUNDS: u32 = 32;

/// An authentication method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// Method `none`, without proof (RFC 4252 §5.2).
    None,
    /// Method `password` (RFC 4252 §8).
    Password,
    /// Method `publickey`, with a key or a certificate (RFC 4252 §7).
    PublicKey,
    /// Method `keyboard-interactive` (RFC 4256).
    KeyboardInteractive,
}

impl Method {
    /// The method's name in the protocol.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => names::METHOD_NONE,
            Self::Password => names::METHOD_PASSWORD,
            Self::PublicKey => names::METHOD_PUBLICKEY,
            Self::KeyboardInteractive => names::METHOD_KEYBOARD_INTERACTIVE,
        }
    }
}

/// A login attempt: the user, and the methods this user has passed on this connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The user name, as the client sent it, valid UTF-8. It may contain any characters, also none: do
    /// not build paths or commands from it.
    pub user: &'a str,
    /// The client's address, if the stream has one.
    pub peer: Option<SocketAddr>,
    /// Methods that ended in [`Decision::Partial`] for this user.
    pub passed: &'a [Method],
}

/// The decision of an [`Authenticator`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The user is logged in.
    Accept,
    /// The proof is accepted, and another method is needed in addition.
    Partial,
    /// The proof is refused.
    Reject,
}

impl From<bool> for Decision {
    fn from(accepted: bool) -> Self {
        if accepted { Self::Accept } else { Self::Reject }
    }
}

/// One step of a keyboard-interactive dialogue.
#[derive(Debug)]
pub enum Dialogue {
    /// Ask these questions (RFC 4256 §3.2). Without prompts, the client shows the instruction only.
    Ask {
        /// Title; may be empty.
        name: String,
        /// Text that the client shows above the prompts; may be empty.
        instruction: String,
        /// The prompts, at most 64.
        prompts: Vec<Prompt>,
    },
    /// The dialogue is over.
    Done(Decision),
}

/// Decides who may log in. Every method refuses unless it is implemented. The calls of one connection
/// come one after the other, on the connection's thread, which does nothing else meanwhile; those of
/// several connections come at the same time. To keep the existence of users secret, an implementation
/// must take as long for an unknown user as for a known one.
pub trait Authenticator: Send + Sync {
    /// The methods to name to a client after a refusal or [`Decision::Partial`] (RFC 4252 §5.1). Other
    /// methods are refused without a call to this trait, except `none`, which is never named and always
    /// passed to [`Authenticator::none`]. The default names all others.
    fn methods(&self, attempt: &Attempt<'_>) -> Vec<Method> {
        let _ = attempt;
        vec![
            Method::PublicKey,
            Method::Password,
            Method::KeyboardInteractive,
        ]
    }

    /// Decides about a user without any proof (RFC 4252 §5.2).
    fn none(&self, attempt: &Attempt<'_>) -> Decision {
        let _ = attempt;
        Decision::Reject
    }

    /// Decides about a password (RFC 4252 §8), which is UTF-8 if the client follows the RFC. Compare in
    /// constant time.
    fn password(&self, attempt: &Attempt<'_>, password: &[u8]) -> Decision {
        let _ = (attempt, password);
        Decision::Reject
    }

    /// Decides about a key of the user (RFC 4252 §7). Also called for keys that the client only asks about; the
    /// user is logged in only after the signature was verified.
    fn public_key(&self, attempt: &Attempt<'_>, key: &PublicKey) -> Decision {
        let _ = (attempt, key);
        Decision::Reject
    }

    /// Decides about a certificate for the user. Only its own signature has been verified: compare
    /// its authority with yours and call [`Certificate::check`], which also returns the
    /// certificate's restrictions (a forced command, source addresses).
    fn certificate(&self, attempt: &Attempt<'_>, certificate: &Certificate) -> Decision {
        let _ = (attempt, certificate);
        Decision::Reject
    }

    /// The next step of a dialogue (RFC 4256). `round` counts from 0 to at most 31; `answers` are the answers
    /// to the prompts of the previous round.
    fn keyboard_interactive(
        &self,
        attempt: &Attempt<'_>,
        round: u32,
        answers: &[Zeroizing<Vec<u8>>],
    ) -> Dialogue {
        let _ = (attempt, round, answers);
        Dialogue::Done(Decision::Reject)
    }
}

/// A completed login: the user and the proofs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Login {
    /// The user name.
    pub user: String,
    /// The client's address, if the stream has one.
    pub peer: Option<SocketAddr>,
    /// The method that completed the login.
    pub method: Method,
    /// The key or certificate whose signature was verified, if `method` is [`Method::PublicKey`].
    pub key: Option<PresentedKey>,
    /// Methods that ended in `Decision::Partial` before.
    pub passed: Vec<Method>,
}

/// The result of a request, before it is sent to the client.
enum Verdict {
    Decided(Method, Decision, Option<PresentedKey>),
    /// The key that the client asked about is acceptable.
    KeyWouldDo,
    Ask(String, String, Vec<Prompt>),
}

/// The state of the login on one connection.
pub(super) struct LoginState {
    peer: Option<SocketAddr>,
    user: String,
    passed: Vec<Method>,
    failures: u32,
    round: u32,
}

/// What follows a request.
pub(super) enum Step {
    Continue,
    LoggedIn(Arc<Login>),
    /// Too many failures: the connection ends.
    CutOff,
}

impl LoginState {
    pub(super) fn new(peer: Option<SocketAddr>) -> Self {
        Self {
            peer,
            user: String::new(),
            passed: Vec::new(),
            failures: 0,
            round: 0,
        }
    }

    /// Decides about a request and answers it.
    pub(super) fn handle(
        &mut self,
        connection: &mut Connection,
        config: &Config,
        authenticator: &dyn Authenticator,
        request: AuthRequest,
    ) -> Result<Step, Error> {
        let began = Instant::now();
        if request.service != names::SERVICE_CONNECTION.as_bytes() {
            connection.disconnect(reason::SERVICE_NOT_AVAILABLE, "no such service");
            return Ok(Step::CutOff);
        }
        let verdict = match String::from_utf8(request.user) {
            Ok(user) => {
                if user != self.user {
                    self.passed.clear();
                    self.user = user;
                }
                self.judge(connection, config, authenticator, request.method)?
            }
            // A user name that is not UTF-8 belongs to no user.
            Err(_) => {
                self.passed.clear();
                self.user.clear();
                Verdict::Decided(Method::Password, Decision::Reject, None)
            }
        };
        self.answer(connection, config, authenticator, verdict, began)
    }

    fn attempt(&self) -> Attempt<'_> {
        Attempt {
            user: &self.user,
            peer: self.peer,
            passed: &self.passed,
        }
    }

    fn judge(
        &mut self,
        connection: &Connection,
        config: &Config,
        authenticator: &dyn Authenticator,
        method: AuthMethod,
    ) -> Result<Verdict, Error> {
        let attempt = self.attempt();
        let kind = match &method {
            AuthMethod::None
            | AuthMethod::Hostbased { .. }
            | AuthMethod::GssapiWithMic { .. }
            | AuthMethod::GssapiToken { .. }
            | AuthMethod::GssapiMic { .. }
            | AuthMethod::GssapiKeyex { .. }
            | AuthMethod::Unknown { .. } => Method::None,
            AuthMethod::Password { .. } => Method::Password,
            AuthMethod::PublickeyQuery { .. } | AuthMethod::Publickey { .. } => Method::PublicKey,
            AuthMethod::KeyboardInteractive { .. } | AuthMethod::InfoResponse { .. } => {
                Method::KeyboardInteractive
            }
        };
        let decided = |decision| Verdict::Decided(kind, decision, None);
        if kind != Method::None && !authenticator.methods(&attempt).contains(&kind) {
            return Ok(decided(Decision::Reject));
        }
        Ok(match method {
            AuthMethod::None => decided(authenticator.none(&attempt)),
            AuthMethod::Hostbased { .. }
            | AuthMethod::GssapiWithMic { .. }
            | AuthMethod::GssapiToken { .. }
            | AuthMethod::GssapiMic { .. }
            | AuthMethod::GssapiKeyex { .. }
            | AuthMethod::Unknown { .. } => decided(Decision::Reject),
            AuthMethod::Password {
                password,
                new_password: None,
            } => decided(authenticator.password(&attempt, &password)),
            // The server has not asked for a new password.
            AuthMethod::Password { .. } => decided(Decision::Reject),
            AuthMethod::PublickeyQuery { algorithm, key } => {
                let would_do = candidate(config, &algorithm, &key).is_some_and(|candidate| {
                    judge_key(authenticator, &attempt, candidate.key()) != Decision::Reject
                });
                if would_do {
                    Verdict::KeyWouldDo
                } else {
                    decided(Decision::Reject)
                }
            }
            AuthMethod::Publickey {
                algorithm,
                key,
                signature,
                hostbound,
            } => {
                let Some(candidate) = candidate(config, &algorithm, &key) else {
                    return Ok(decided(Decision::Reject));
                };
                let (Some(session_id), Some(host_key)) =
                    (connection.session_id(), connection.host_key())
                else {
                    return Err(proto::Error::Bug("login before keys").into());
                };
                let signed_for = SignedFor {
                    session_id,
                    user: &self.user,
                    service: names::SERVICE_CONNECTION,
                    hostbound: hostbound.then_some(host_key),
                };
                // The application does not see whether the security key verified its user.
                let demands_user = |certificate: &Certificate| {
                    let mut options = certificate.critical_options().iter();
                    options.any(|option| option.name == VERIFY_REQUIRED)
                };
                let policy = VerifyPolicy {
                    min_rsa_bits: config.transport.min_rsa_bits,
                    require_user_verification: candidate
                        .key()
                        .certificate()
                        .is_some_and(demands_user),
                    ..VerifyPolicy::default()
                };
                match candidate.verify(&signed_for, &signature, &policy) {
                    Ok(()) => {
                        let decision = judge_key(authenticator, &attempt, candidate.key());
                        Verdict::Decided(kind, decision, Some(candidate.into_key()))
                    }
                    Err(_) => decided(Decision::Reject),
                }
            }
            AuthMethod::KeyboardInteractive { .. } => self.talk(authenticator, 0, &[]),
            AuthMethod::InfoResponse { responses } => {
                self.talk(authenticator, self.round.saturating_add(1), &responses)
            }
        })
    }

    fn talk(
        &mut self,
        authenticator: &dyn Authenticator,
        round: u32,
        answers: &[Zeroizing<Vec<u8>>],
    ) -> Verdict {
        self.round = round;
        let turn = if round < MAX_ROUNDS {
            authenticator.keyboard_interactive(&self.attempt(), round, answers)
        } else {
            Dialogue::Done(Decision::Reject)
        };
        match turn {
            Dialogue::Ask {
                name,
                instruction,
                prompts,
            } => Verdict::Ask(name, instruction, prompts),
            Dialogue::Done(decision) => {
                Verdict::Decided(Method::KeyboardInteractive, decision, None)
            }
        }
    }

    fn answer(
        &mut self,
        connection: &mut Connection,
        config: &Config,
        authenticator: &dyn Authenticator,
        verdict: Verdict,
        began: Instant,
    ) -> Result<Step, Error> {
        let (method, decision, key) = match verdict {
            Verdict::KeyWouldDo => {
                connection.auth_pk_ok()?;
                return Ok(Step::Continue);
            }
            Verdict::Ask(name, instruction, prompts) => {
                connection.auth_info_request(&name, &instruction, &prompts)?;
                return Ok(Step::Continue);
            }
            Verdict::Decided(method, decision, key) => (method, decision, key),
        };
        match decision {
            Decision::Accept => {
                connection.auth_success()?;
                return Ok(Step::LoggedIn(Arc::new(Login {
                    user: self.user.clone(),
                    peer: self.peer,
                    method,
                    key,
                    passed: self.passed.clone(),
                })));
            }
            Decision::Partial if !self.passed.contains(&method) => self.passed.push(method),
            Decision::Partial => {}
            Decision::Reject => {
                if method != Method::None {
                    self.failures = self.failures.saturating_add(1);
                    wait_out(began, config.failure_delay);
                }
                if self.failures >= config.max_auth_tries {
                    connection.disconnect(
                        reason::NO_MORE_AUTH_METHODS_AVAILABLE,
                        "Too many authentication failures",
                    );
                    return Ok(Step::CutOff);
                }
            }
        }
        let methods: Vec<&str> = authenticator
            .methods(&self.attempt())
            .into_iter()
            .filter(|each| *each != Method::None)
            .map(Method::name)
            .collect();
        connection.auth_failure(&methods, decision == Decision::Partial)?;
        Ok(Step::Continue)
    }
}

/// Waits until at least `delay` has passed since `began`, so that guessing is slow and the time
/// does not reveal the reason of a refusal.
fn wait_out(began: Instant, delay: Duration) {
    let left = delay.saturating_sub(began.elapsed());
    if !left.is_zero() {
        std::thread::sleep(left);
    }
}

fn judge_key(
    authenticator: &dyn Authenticator,
    attempt: &Attempt<'_>,
    key: &PresentedKey,
) -> Decision {
    match key {
        PresentedKey::Plain(key) => authenticator.public_key(attempt, key),
        PresentedKey::Certificate(certificate) => authenticator.certificate(attempt, certificate),
    }
}

/// The key of a request, if users may sign with its algorithm. The names of
/// `peer_signature_algorithms` also permit certificates.
fn candidate(config: &Config, algorithm: &[u8], blob: &[u8]) -> Option<CandidateKey> {
    let permitted = &config.transport.peer_signature_algorithms;
    let rules = CandidateRules {
        list: "peer_signature_algorithms",
        permits: &|algorithm| {
            let plain = SignatureAlgorithm::from_name(algorithm).map(|each| each.plain().name());
            let mut names = permitted.iter().map(String::as_str);
            names.any(|name| name == algorithm || Some(name) == plain)
        },
        authorities: &config.transport.authorities(),
        min_rsa_bits: config.transport.min_rsa_bits,
    };
    CandidateKey::new(core::str::from_utf8(algorithm).ok()?, blob, &rules).ok()
}
