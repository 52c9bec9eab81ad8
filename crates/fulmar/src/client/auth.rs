//! Authentication of the user (RFC 4252, RFC 4256).

use std::fmt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agent::{AgentClient, Identity};
use keys::{Certificate, KeyType, PresentedKey, PrivateKey, SignatureAlgorithm};
use proto::{AuthProof, Connection, Event, Prompt};
use zeroize::Zeroizing;

use crate::Error;
use crate::link::Handle;

/// Most rounds of prompts in one login: a server that exceeds it is not asking a person.
const MAX_ROUNDS: usize = 32;
/// Most keys of an agent that are offered; servers usually end the login sooner.
const MAX_AGENT_KEYS: usize = 64;

/// A server's questions to the user (RFC 4256 §3.2). Foreign text: escape it before printing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prompts<'a> {
    /// Title; may be empty.
    pub name: &'a str,
    /// Text to show above the prompts; may be empty.
    pub instruction: &'a str,
    /// The prompts, in order; may be empty.
    pub prompts: &'a [Prompt],
}

/// An authentication method with its secret.
#[non_exhaustive]
pub enum Auth<'a> {
    /// Method `none`: some servers want no proof.
    None,
    /// A private key.
    Key(&'a PrivateKey),
    /// A private key and the certificate for its public key.
    Certificate(&'a PrivateKey, &'a Certificate),
    /// The keys of the agent at `SSH_AUTH_SOCK`, in the agent's order, at most 64.
    Agent,
    /// The keys of the agent at this socket, in the agent's order, at most 64.
    AgentAt(&'a Path),
    /// A password.
    Password(&'a str),
    /// Method `keyboard-interactive`: a closure that returns one answer for each prompt. It is
    /// called for each round, at most 32 times.
    KeyboardInteractive(&'a mut dyn FnMut(&Prompts<'_>) -> Vec<Zeroizing<String>>),
}

impl fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Key(_) => "Key",
            Self::Certificate(..) => "Certificate",
            Self::Agent | Self::AgentAt(_) => "Agent",
            Self::Password(_) => "Password",
            Self::KeyboardInteractive(_) => "KeyboardInteractive",
        })
    }
}

/// The server's answer to one request.
enum Answer {
    Success(AuthProof),
    Refused(Error),
    PkOk,
    Prompts(String, String, Vec<Prompt>),
}

/// One login attempt over a connection whose keys are agreed on.
pub(super) struct Attempt<'c> {
    pub(super) handle: &'c Handle,
    pub(super) events: &'c Events,
    pub(super) user: &'c str,
    pub(super) timeout: Option<Duration>,
}

impl Attempt<'_> {
    pub(super) fn run(&mut self, auth: Auth<'_>) -> Result<AuthProof, Error> {
        match auth {
            Auth::None => {
                self.send(|connection, user| connection.auth_none(user))?;
                self.outcome()
            }
            Auth::Password(password) => {
                let password = Zeroizing::new(password.as_bytes().to_vec());
                self.send(move |connection, user| connection.auth_password(user, &password))?;
                self.outcome()
            }
            Auth::Key(key) => self.sign_with(key, &PresentedKey::Plain(key.public().clone())),
            Auth::Certificate(key, certificate) => {
                if certificate.key() != key.public() {
                    return Err(Error::UnusableKey(
                        "the certificate is for another key".into(),
                    ));
                }
                self.sign_with(key, &PresentedKey::from(certificate.clone()))
            }
            Auth::Agent => {
                let path = std::env::var_os("SSH_AUTH_SOCK")
                    .filter(|path| !path.is_empty())
                    .ok_or_else(|| Error::Agent("SSH_AUTH_SOCK is not set".into()))?;
                self.agent(Path::new(&path))
            }
            Auth::AgentAt(path) => self.agent(path),
            Auth::KeyboardInteractive(answer) => self.keyboard_interactive(answer),
        }
    }

    /// Runs `work` on the connection's thread, for this user.
    fn send<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection, &[u8]) -> Result<T, proto::Error> + Send + 'static,
    ) -> Result<T, Error> {
        let user = self.user.as_bytes().to_vec();
        self.handle.with(move |connection| work(connection, &user))
    }

    /// The signature algorithm for a key; for RSA, one that the server has listed.
    fn algorithm(&self, presented: &PresentedKey) -> Result<SignatureAlgorithm, Error> {
        let key_type = presented.key().key_type();
        let can = match presented.certificate() {
            Some(_) => key_type.certificate_algorithms(),
            None => key_type.algorithms(),
        };
        let server = self
            .handle
            .with(|connection| Ok(connection.server_sig_algs().map(<[String]>::to_vec)))?;
        let chosen = match (key_type, server) {
            (KeyType::Rsa, Some(list)) => can.iter().find(|each| {
                list.iter()
                    .any(|name| name == each.name() || name == each.plain().name())
            }),
            _ => can.first(),
        };
        chosen.copied().ok_or_else(|| {
            Error::UnusableKey("the server accepts none of its signature algorithms".into())
        })
    }

    fn signed_data(&self, name: &'static str, blob: &[u8]) -> Result<Vec<u8>, Error> {
        let blob = blob.to_vec();
        self.send(move |connection, user| connection.publickey_signed_data(user, name, &blob))
    }

    fn prove(
        &self,
        name: &'static str,
        blob: Vec<u8>,
        signature: Vec<u8>,
    ) -> Result<AuthProof, Error> {
        self.send(move |connection, user| {
            connection.auth_publickey(user, name, &blob, &signature)
        })?;
        self.outcome()
    }

    fn sign_with(&self, key: &PrivateKey, presented: &PresentedKey) -> Result<AuthProof, Error> {
        let algorithm = self.algorithm(presented)?;
        let blob = presented.blob();
        let data = self.signed_data(algorithm.name(), &blob)?;
        let signature = key
            .sign(algorithm, &data)
            .map_err(|error| Error::UnusableKey(error.to_string()))?;
        self.prove(algorithm.name(), blob, signature)
    }

    fn agent(&self, path: &Path) -> Result<AuthProof, Error> {
        let stream = UnixStream::connect(path)
            .map_err(|error| Error::Agent(format!("{}: {error}", path.display())))?;
        let mut agent = AgentClient::new(stream);
        let identities = agent
            .list()
            .map_err(|error| Error::Agent(error.to_string()))?;
        let mut last = Error::Agent("it has no key that can be offered".into());
        for Identity { blob, .. } in identities.into_iter().take(MAX_AGENT_KEYS) {
            let Ok(presented) = PresentedKey::from_blob(&blob) else {
                continue;
            };
            let algorithm = match self.algorithm(&presented) {
                Ok(algorithm) => algorithm,
                Err(Error::UnusableKey(_)) => continue,
                Err(error) => return Err(error),
            };
            match self.offer(&mut agent, blob, algorithm) {
                // Another key may be accepted; after a partial success the caller must continue.
                Err(
                    error @ (Error::AuthRefused {
                        partial_success: false,
                        ..
                    }
                    | Error::Agent(_)),
                ) => last = error,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    /// Asks the server about a key before the agent signs, since a signature may need a person's
    /// touch.
    fn offer(
        &self,
        agent: &mut AgentClient<UnixStream>,
        blob: Vec<u8>,
        algorithm: SignatureAlgorithm,
    ) -> Result<AuthProof, Error> {
        let name = algorithm.name();
        let asked = blob.clone();
        self.send(move |connection, user| connection.auth_publickey_query(user, name, &asked))?;
        match self.answer()? {
            Answer::PkOk => {}
            Answer::Refused(error) => return Err(error),
            Answer::Success(proof) => return Ok(proof),
            Answer::Prompts(..) => return Err(unasked()),
        }
        let data = self.signed_data(name, &blob)?;
        let signature = agent
            .sign_with(&blob, &data, algorithm)
            .map_err(|error| Error::Agent(error.to_string()))?;
        self.prove(name, blob, signature)
    }

    fn keyboard_interactive(
        &self,
        ask: &mut dyn FnMut(&Prompts<'_>) -> Vec<Zeroizing<String>>,
    ) -> Result<AuthProof, Error> {
        self.send(|connection, user| connection.auth_keyboard_interactive(user, ""))?;
        for _ in 0..MAX_ROUNDS {
            let (name, instruction, prompts) = match self.answer()? {
                Answer::Success(proof) => return Ok(proof),
                Answer::Refused(error) => return Err(error),
                Answer::PkOk => return Err(unasked()),
                Answer::Prompts(name, instruction, prompts) => (name, instruction, prompts),
            };
            let answers = ask(&Prompts {
                name: &name,
                instruction: &instruction,
                prompts: &prompts,
            });
            if answers.len() != prompts.len() {
                return Err(Error::Misuse("give one answer for each prompt"));
            }
            let answers: Vec<Zeroizing<Vec<u8>>> = answers
                .iter()
                .map(|answer| Zeroizing::new(answer.as_bytes().to_vec()))
                .collect();
            self.handle
                .with(move |connection| connection.auth_respond(&answers))?;
        }
        Err(proto::Error::PeerMisbehaved("too many rounds of prompts").into())
    }

    fn outcome(&self) -> Result<AuthProof, Error> {
        match self.answer()? {
            Answer::Success(proof) => Ok(proof),
            Answer::Refused(error) => Err(error),
            Answer::PkOk | Answer::Prompts(..) => Err(unasked()),
        }
    }

    fn answer(&self) -> Result<Answer, Error> {
        let event = self
            .events
            .next(self.handle, self.timeout, "the server's answer")?;
        Ok(match event {
            Event::AuthSuccess(proof) => Answer::Success(proof),
            Event::AuthFailure {
                methods,
                partial_success,
            } => Answer::Refused(Error::AuthRefused {
                methods,
                partial_success,
            }),
            Event::AuthPkOk { .. } => Answer::PkOk,
            Event::AuthInfoRequest {
                name,
                instruction,
                prompts,
            } => Answer::Prompts(name, instruction, prompts),
            Event::AuthChangePassword { prompt } => Answer::Refused(Error::PasswordExpired(prompt)),
            _ => return Err(unasked()),
        })
    }
}

fn unasked() -> Error {
    proto::Error::PeerMisbehaved("an answer to another request").into()
}

/// The login events that the connection's thread passes on.
pub(super) struct Events(pub(super) Mutex<Receiver<Event>>);

impl Events {
    /// Waits for the next event. `what` names the operation in the timeout error.
    pub(super) fn next(
        &self,
        handle: &Handle,
        timeout: Option<Duration>,
        what: &'static str,
    ) -> Result<Event, Error> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match timeout {
            None => events.recv().map_err(|_| handle.failure()),
            Some(timeout) => events.recv_timeout(timeout).map_err(|error| match error {
                RecvTimeoutError::Timeout => Error::TimedOut(what),
                RecvTimeoutError::Disconnected => handle.failure(),
            }),
        }
    }
}
