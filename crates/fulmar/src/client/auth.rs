//! Authentication of the user (RFC 4252, RFC 4256): the caller's secrets, for the login that the
//! crate `client` carries out.

use std::fmt;
use std::path::{Path, PathBuf};

use ::client::auth::LoggedIn;
use ::client::embedded::{Credentials, Login, TokenReach};
use ::client::pipelining::ChannelStart;
use ::client::{Attempted, ClientError, Interaction, Question, Round};
use driver::DriverError;
use keys::{Certificate, PresentedKey, PrivateKey};
use proto::Prompt;
use zeroize::Zeroizing;

use super::role::keep;
use crate::Error;

/// Most rounds of prompts in one login: a server that exceeds it is not asking a person.
const MAX_ROUNDS: usize = 32;

/// A server's questions to the user (RFC 4256 §3.2). Foreign text: escape it before printing.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prompts<'a> {
    /// Title; may be empty.
    pub name: &'a str,
    /// Text to show above the prompts; may be empty.
    pub instruction: &'a str,
    /// The prompts, in order; may be empty, and then the answer is an empty list.
    pub prompts: &'a [Prompt],
}

/// A closure that returns one answer for each prompt, in the same order. With another number of answers
/// the login fails with [`Error::Misuse`]. It may take as long as a person needs.
pub type Ask<'a> = dyn FnMut(&Prompts<'_>) -> Vec<Zeroizing<String>> + 'a;

/// An authentication method with its secret (RFC 4252). Secrets are sent only over the encrypted
/// connection, to a server whose host key the policy has accepted.
#[non_exhaustive]
pub enum Auth<'a> {
    /// Method `none` (RFC 4252 §5.2): some servers want no proof.
    None,
    /// Method `publickey` with a private key (RFC 4252 §7).
    Key(&'a PrivateKey),
    /// A private key and the certificate for its public key (OpenSSH's PROTOCOL.certkeys).
    Certificate(&'a PrivateKey, &'a Certificate),
    /// A key of type `ed25519-sk` or `ecdsa-sk`, whose secret is in a security key: the login waits
    /// until somebody touches it. The certificate, if there is one, is for the key.
    SecurityKey(
        &'a PrivateKey,
        Option<&'a Certificate>,
        SecurityKeyAccess<'a>,
    ),
    /// The keys of the agent at `SSH_AUTH_SOCK`, in the agent's order, at most 256.
    Agent,
    /// The keys of the agent at this socket, in the agent's order, at most 256.
    AgentAt(&'a Path),
    /// Method `password` (RFC 4252 §8).
    Password(&'a str),
    /// Method `keyboard-interactive` (RFC 4256): a closure that returns one answer for each prompt. It
    /// is called for each round of prompts, at most 32 times; a server that asks more often breaks the
    /// protocol.
    KeyboardInteractive(&'a mut Ask<'a>),
}

impl fmt::Debug for Auth<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Key(_) => "Key",
            Self::Certificate(..) => "Certificate",
            Self::SecurityKey(..) => "SecurityKey",
            Self::Agent | Self::AgentAt(_) => "Agent",
            Self::Password(_) => "Password",
            Self::KeyboardInteractive(_) => "KeyboardInteractive",
        })
    }
}

/// How a security key is reached: by a confined process of an installed Fulmar, because code that speaks
/// to hardware or loads a library does not run in the calling program.
///
/// ```no_run
/// use std::path::Path;
/// use fulmar::client::{Auth, SecurityKeyAccess, Session};
/// use fulmar::keys::private_file;
///
/// # fn log_in(session: &mut Session) -> Result<(), Box<dyn std::error::Error>> {
/// let file = private_file::parse(&std::fs::read("/home/mia/.ssh/id_ed25519_sk")?, None)?;
/// let access = SecurityKeyAccess::new(Path::new("/usr/bin/fulmar"));
/// session.authenticate("mia", Auth::SecurityKey(&file.key, None, access))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy)]
#[must_use]
pub struct SecurityKeyAccess<'a> {
    reach: TokenReach<'a>,
    pin: Option<&'a str>,
}

impl<'a> SecurityKeyAccess<'a> {
    /// By CTAP over USB; `program` is an installed `fulmar` of this library's version.
    pub fn new(program: &'a Path) -> Self {
        let library = None;
        Self {
            reach: TokenReach { program, library },
            pin: None,
        }
    }

    /// By the shared library at this path instead, which has the functions of OpenSSH's sk-api.h.
    pub fn library(mut self, library: &'a Path) -> Self {
        self.reach.library = Some(library);
        self
    }

    /// The token's PIN, which is sent to the token once, and only if it wants one.
    pub fn pin(mut self, pin: &'a str) -> Self {
        self.pin = Some(pin);
        self
    }
}

impl fmt::Debug for SecurityKeyAccess<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecurityKeyAccess")
            .field("program", &self.reach.program)
            .field("library", &self.reach.library)
            .finish_non_exhaustive()
    }
}

/// The method's credentials, and who answers the login's questions.
fn credentials<'a>(auth: Auth<'a>, answers: &mut Answers<'a>) -> Result<Credentials<'a>, Error> {
    Ok(match auth {
        Auth::None => Credentials::None,
        Auth::Key(key) => usable(key, PresentedKey::Plain(key.public().clone()))?,
        Auth::Certificate(key, certificate) => usable(key, certified(key, certificate)?)?,
        Auth::SecurityKey(key, certificate, access) => {
            let presented = match certificate {
                Some(certificate) => certified(key, certificate)?,
                None => PresentedKey::Plain(key.public().clone()),
            };
            if key.security_key().is_none() {
                return Err(Error::UnusableKey(
                    "it is in no security key: use Auth::Key".into(),
                ));
            }
            answers.password = access
                .pin
                .map(|pin| Zeroizing::new(pin.as_bytes().to_vec()));
            Credentials::SecurityKey(key, presented, access.reach)
        }
        Auth::Agent => {
            let path = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| Error::Agent("SSH_AUTH_SOCK is not set".into()))?;
            Credentials::Agent(PathBuf::from(path))
        }
        Auth::AgentAt(path) => Credentials::Agent(path.to_owned()),
        Auth::Password(password) => {
            answers.password = Some(Zeroizing::new(password.as_bytes().to_vec()));
            Credentials::Password
        }
        Auth::KeyboardInteractive(ask) => {
            answers.ask = Some(ask);
            Credentials::KeyboardInteractive
        }
    })
}

fn certified(key: &PrivateKey, certificate: &Certificate) -> Result<PresentedKey, Error> {
    if certificate.key() != key.public() {
        return Err(Error::UnusableKey(
            "the certificate is for another key".into(),
        ));
    }
    Ok(PresentedKey::from(certificate.clone()))
}

fn usable(key: &PrivateKey, presented: PresentedKey) -> Result<Credentials<'_>, Error> {
    if key.can_sign() {
        Ok(Credentials::Key(key, presented))
    } else {
        Err(Error::UnusableKey(
            "its private part is in a security key: use Auth::SecurityKey or an agent".into(),
        ))
    }
}

/// Tries one method, and opens `first` in the same flight if the server is known to accept that;
/// `timeout_ms` limits each of the server's answers.
pub(super) fn run(
    login: &mut Login,
    user: &str,
    auth: Auth<'_>,
    first: Option<&ChannelStart>,
    timeout_ms: Option<u64>,
    banner: &mut String,
) -> Result<LoggedIn, Error> {
    let mut answers = Answers {
        banner: String::new(),
        password: None,
        ask: None,
        rounds: 0,
        failure: None,
    };
    let credentials = credentials(auth, &mut answers)?;
    let outcome = login.attempt(user, &credentials, first, timeout_ms, &mut answers);
    keep(banner, &answers.banner);
    if let Some(failure) = answers.failure {
        return Err(failure);
    }
    match outcome.map_err(|failure| failed(failure.error, "the server's answer"))? {
        Attempted::Success(logged_in) => Ok(logged_in),
        Attempted::Refused {
            methods,
            partial_success,
        } => Err(Error::AuthRefused {
            methods,
            partial_success,
        }),
        Attempted::PasswordExpired(text) => Err(Error::PasswordExpired(text)),
        Attempted::NotSent(reason) => {
            Err(match credentials {
                Credentials::Agent(_) => Error::Agent(
                    reason.unwrap_or_else(|| "it has no key that can be offered".into()),
                ),
                _ => Error::UnusableKey(reason.unwrap_or_else(|| {
                    "the server accepts none of its signature algorithms".into()
                })),
            })
        }
    }
}

/// The error of this crate; `what` names the operation if it took too long.
pub(super) fn failed(error: ClientError, what: &'static str) -> Error {
    match error {
        ClientError::Handshake { error, .. } | ClientError::Lost { error, .. } => match error {
            DriverError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Error::Closed
            }
            error => error.into(),
        },
        ClientError::Closed(_) | ClientError::Ended { .. } => Error::Closed,
        ClientError::TimedOut(_) => Error::TimedOut(what),
        ClientError::System { error, .. } => error.into(),
        _ => Error::Misuse("the login cannot begin"),
    }
}

/// Answers the login's questions with what the caller gave.
struct Answers<'a> {
    banner: String,
    password: Option<Zeroizing<Vec<u8>>>,
    ask: Option<&'a mut Ask<'a>>,
    rounds: usize,
    /// Why the dialogue could not go on.
    failure: Option<Error>,
}

impl Interaction for Answers<'_> {
    /// The password, once: a second question is about an expired one.
    fn ask(&mut self, _prompt: &str, _question: Question) -> Option<Zeroizing<Vec<u8>>> {
        self.password.take()
    }

    fn tell(&mut self, _text: &str) {}

    fn banner(&mut self, text: &str) {
        keep(&mut self.banner, text);
    }

    fn answer(&mut self, round: &Round<'_>) -> Option<Vec<Zeroizing<Vec<u8>>>> {
        let ask = self.ask.as_mut()?;
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            let error = proto::Error::PeerMisbehaved("too many rounds of prompts");
            self.failure = Some(error.into());
            // No number of answers is right: the login ends.
            return Some(vec![Zeroizing::default(); round.prompts.len() + 1]);
        }
        let answers = ask(&Prompts {
            name: round.name,
            instruction: round.instruction,
            prompts: round.prompts,
        });
        if answers.len() != round.prompts.len() {
            self.failure = Some(Error::Misuse("give one answer for each prompt"));
        }
        let bytes = |answer: &Zeroizing<String>| Zeroizing::new(answer.as_bytes().to_vec());
        Some(answers.iter().map(bytes).collect())
    }

    fn can_ask(&self) -> bool {
        true
    }
}
