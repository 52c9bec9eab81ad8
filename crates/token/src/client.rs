//! A blocking client of the helper, for programs that have one user and one thing to do.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use keys::SignatureAlgorithm;
use sys::process::{Child, PrintedText};
use sys::signals::Signal;

use crate::message::{
    MAX_FRAME_BYTES, Pin, PinState, TokenEntry, TokenKey, TokenList, TokenReply, TokenRequest,
};

/// A question for a PIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinQuestion {
    /// Label of the token, with escapes for what is not printable.
    pub label: String,
    /// The attempts that are left, as far as the token tells.
    pub state: PinState,
}

impl PinQuestion {
    /// The prompt, in OpenSSH's words.
    #[must_use]
    pub fn prompt(&self) -> String {
        format!("Enter PIN for '{}': ", self.label)
    }

    /// A warning before the prompt, if few attempts are left.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let label = &self.label;
        match self.state {
            PinState::FinalTry => Some(format!(
                "TokenLibrary '{label}': this is the last attempt; a wrong PIN locks it."
            )),
            PinState::Low => Some(format!(
                "TokenLibrary '{label}': a wrong PIN was entered before; few attempts are left."
            )),
            PinState::Fine | PinState::Locked => None,
        }
    }
}

/// Asks a person for a PIN; `None` if there is nobody, or nobody wants to.
pub type AskPin<'a> = &'a mut dyn FnMut(&PinQuestion) -> Option<Pin>;

/// The errors of requests to tokens.
#[derive(Debug)]
pub enum TokenError {
    /// The helper has ended or cannot be started.
    Helper(io::Error),
    /// The library's or the token's reason, in words.
    Refused(String),
    /// A PIN is needed, and nobody gave one.
    NoPin(String),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Helper(error) => {
                write!(f, "the helper for the PKCS#11 library failed: {error}")
            }
            Self::Refused(reason) => f.write_str(&escape::one_line(reason)),
            Self::NoPin(label) => write!(f, "token '{label}' needs a PIN"),
        }
    }
}

impl std::error::Error for TokenError {}

impl From<io::Error> for TokenError {
    fn from(error: io::Error) -> Self {
        Self::Helper(error)
    }
}

/// A library with its tokens, and the helper that has loaded it.
#[derive(Debug)]
pub struct TokenLibrary {
    stream: UnixStream,
    child: Child,
    printed: PrintedText,
    list: TokenList,
    /// Tokens whose PIN was wrong or not given: nobody is asked again.
    given_up: Vec<u32>,
    next: u32,
}

impl TokenLibrary {
    /// Loads the library at `path` in a helper and lists its keys. Asks for PINs only if there is no key
    /// without a login, and some token needs one.
    ///
    /// # Errors
    /// [`TokenError`]. A library without keys is no error: [`Self::keys`] is then empty.
    pub fn open(path: &Path, ask: AskPin<'_>) -> Result<Self, TokenError> {
        let started = crate::start(path)?;
        let mut token = Self {
            stream: UnixStream::from(started.socket),
            child: started.child,
            printed: started.printed,
            list: TokenList::default(),
            given_up: Vec::new(),
            next: 0,
        };
        token.refresh()?;
        let wanting: Vec<u32> = (0_u32..)
            .zip(&token.list.tokens)
            .filter(|(_, entry)| entry.needs_pin)
            .map(|(place, _)| place)
            .collect();
        if token.list.keys.is_empty() && !wanting.is_empty() {
            let mut failure = None;
            for place in wanting {
                failure = token.login(place, ask).err().or(failure);
            }
            token.refresh()?;
            if let Some(failure) = failure.filter(|_| token.list.keys.is_empty()) {
                return Err(failure);
            }
        }
        Ok(token)
    }

    /// The keys, in the library's order.
    #[must_use]
    pub fn keys(&self) -> &[TokenKey] {
        &self.list.keys
    }

    /// Signs with a key by its place in [`Self::keys`]; returns the signature blob (RFC 4253 §6.6). Asks
    /// for a PIN if the token needs one; after a wrong PIN, or none, the token's PIN is not asked for again.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn sign(
        &mut self,
        key: usize,
        algorithm: SignatureAlgorithm,
        data: &[u8],
        ask: AskPin<'_>,
    ) -> Result<Vec<u8>, TokenError> {
        let key = u32::try_from(key).unwrap_or(u32::MAX);
        let mut pin = None;
        let mut asked = Vec::new();
        loop {
            let answers = pin.as_ref().map(|(pin_use, token, _)| (*pin_use, *token));
            let request = TokenRequest::Sign {
                key,
                algorithm,
                data: data.to_vec(),
                pin: pin.take().map(|(pin_use, _, pin)| (pin_use, pin)),
            };
            match self.call(&request)? {
                TokenReply::Signature(blob) => return Ok(blob),
                TokenReply::NeedsPin { token, pin_use } if !asked.contains(&pin_use) => {
                    asked.push(pin_use);
                    pin = Some((pin_use, token, self.ask(token, ask)?));
                }
                TokenReply::Failed {
                    reason,
                    is_pin_wrong,
                } => {
                    if let (Some((_, token)), true) = (answers, is_pin_wrong) {
                        self.given_up.push(token);
                    }
                    return Err(TokenError::Refused(reason));
                }
                _ => return Err(unexpected()),
            }
        }
    }

    fn refresh(&mut self) -> Result<(), TokenError> {
        match self.call(&TokenRequest::Open { pin: None })? {
            TokenReply::Opened(list) => {
                self.list = list;
                Ok(())
            }
            TokenReply::Failed { reason, .. } => Err(TokenError::Refused(reason)),
            _ => Err(unexpected()),
        }
    }

    fn entry(&self, token: u32) -> TokenEntry {
        let place = usize::try_from(token).ok();
        let entry = place.and_then(|place| self.list.tokens.get(place));
        entry.cloned().unwrap_or_default()
    }

    fn login(&mut self, token: u32, ask: AskPin<'_>) -> Result<(), TokenError> {
        let pin = match self.entry(token).has_keypad {
            true => None,
            false => Some(self.ask(token, ask)?),
        };
        match self.call(&TokenRequest::Login { token, pin })? {
            TokenReply::LoggedIn => Ok(()),
            TokenReply::Failed { reason, .. } => {
                self.given_up.push(token);
                Err(TokenError::Refused(reason))
            }
            _ => Err(unexpected()),
        }
    }

    fn ask(&mut self, token: u32, ask: AskPin<'_>) -> Result<Pin, TokenError> {
        let entry = self.entry(token);
        let label = escape::one_line(&entry.label);
        if entry.pin_state == PinState::Locked {
            let reason = format!("the PIN of token '{label}' is locked");
            return Err(TokenError::Refused(reason));
        }
        let question = PinQuestion {
            label,
            state: entry.pin_state,
        };
        let pin = match self.given_up.contains(&token) {
            true => None,
            false => ask(&question).filter(|pin| !pin.is_empty()),
        };
        pin.ok_or_else(|| {
            self.given_up.push(token);
            TokenError::NoPin(question.label)
        })
    }

    fn call(&mut self, request: &TokenRequest) -> Result<TokenReply, TokenError> {
        self.next = self.next.wrapping_add(1);
        self.stream.write_all(&request.encode(self.next))?;
        self.printed.show_until_readable(&self.stream, None)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > MAX_FRAME_BYTES {
            return Err(unexpected());
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        match TokenReply::decode(&body) {
            Ok((number, reply)) if number == self.next => Ok(reply),
            _ => Err(unexpected()),
        }
    }
}

fn unexpected() -> TokenError {
    TokenError::Helper(io::Error::other("its answer is malformed"))
}

impl Drop for TokenLibrary {
    fn drop(&mut self) {
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
