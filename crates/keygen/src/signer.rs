//! What signs: a private key out of a file, or one that the agent of `SSH_AUTH_SOCK` holds.

use std::fmt;
use std::os::unix::net::UnixStream;

use agent::{AgentClient, AgentError};
use keys::{KeyError, PresentedKey, PrivateKey, SignatureAlgorithm};
use token::{PinQuestion, TokenLibrary};
use zeroize::Zeroizing;

use super::KeygenFailure;
use super::security_key::SecurityKeySigner;

/// A private key that can be used.
pub(super) enum Signer {
    /// Out of a file.
    File(PrivateKey),
    /// In a security key, whose handle was in a file.
    SecurityKey(SecurityKeySigner),
    /// In the agent, under this blob.
    Agent {
        client: AgentClient<UnixStream>,
        blob: Vec<u8>,
    },
    /// In a token of a PKCS #11 library.
    Token {
        /// The library with its tokens.
        token: Box<TokenLibrary>,
        /// Place of the key.
        key: usize,
        /// Asks for a PIN.
        ask: fn(&PinQuestion) -> Option<Zeroizing<Vec<u8>>>,
    },
}

/// Why the agent does not sign with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotHeld {
    /// There is none, or it does not answer.
    NoAgent,
    /// It holds no key at all.
    Empty,
    /// It does not hold this one.
    OtherKeys,
}

/// Why there is no signature, in words.
#[derive(Debug)]
pub(super) struct SignError(String);

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<KeyError> for SignError {
    fn from(error: KeyError) -> Self {
        Self(error.to_string())
    }
}

impl From<AgentError> for SignError {
    fn from(error: AgentError) -> Self {
        Self(error.to_string())
    }
}

impl Signer {
    /// A key out of a file. `pin_prompt` asks for the PIN of a security key that needs one.
    ///
    /// # Errors
    /// The provider of a security key does not exist, or nobody can be asked for its PIN.
    pub(super) fn from_file(
        key: PrivateKey,
        provider: Option<&str>,
        pin_prompt: &str,
    ) -> Result<Self, KeygenFailure> {
        if key.security_key().is_none() {
            return Ok(Self::File(key));
        }
        SecurityKeySigner::new(key, provider, pin_prompt).map(Self::SecurityKey)
    }

    /// The key in the agent; a certificate must be there as such.
    pub(super) fn from_agent(key: &PresentedKey) -> Result<Self, NotHeld> {
        let path = std::env::var_os("SSH_AUTH_SOCK").filter(|path| !path.is_empty());
        let stream = UnixStream::connect(path.ok_or(NotHeld::NoAgent)?);
        let mut client = AgentClient::new(stream.map_err(|_| NotHeld::NoAgent)?);
        let held = client.list().map_err(|_| NotHeld::NoAgent)?;
        let blob = key.blob();
        if held.iter().any(|identity| identity.blob == blob) {
            Ok(Self::Agent { client, blob })
        } else if held.is_empty() {
            Err(NotHeld::Empty)
        } else {
            Err(NotHeld::OtherKeys)
        }
    }

    /// A signature blob over `message`.
    pub(super) fn sign(
        &mut self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
    ) -> Result<Vec<u8>, SignError> {
        Ok(match self {
            Self::File(key) => key.sign(algorithm, message)?,
            Self::SecurityKey(signer) => signer.sign(message).map_err(SignError)?,
            Self::Agent { client, blob } => client.sign_with(blob, message, algorithm)?,
            Self::Token { token, key, ask } => {
                let signed = token.sign(*key, algorithm, message, ask);
                signed.map_err(|error| SignError(error.to_string()))?
            }
        })
    }
}
