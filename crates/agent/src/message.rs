//! The messages of the agent protocol (RFC 9987 §5; OpenSSH PROTOCOL.agent for
//! `session-bind@openssh.com`): encoding of requests, decoding of answers.

use wire::{DecodeError, Put, Reader};
use zeroize::Zeroizing;

use crate::error::AgentError;

/// Longest message in either direction, in bytes without the length field.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;

/// Largest number of identities in an answer.
pub const MAX_IDENTITIES: u32 = 2048;

/// SSH_AGENT_FAILURE
pub const FAILURE: u8 = 5;
/// SSH_AGENT_SUCCESS
pub const SUCCESS: u8 = 6;
/// SSH_AGENTC_REQUEST_IDENTITIES
pub const REQUEST_IDENTITIES: u8 = 11;
/// SSH_AGENT_IDENTITIES_ANSWER
pub const IDENTITIES_ANSWER: u8 = 12;
/// SSH_AGENTC_SIGN_REQUEST
pub const SIGN_REQUEST: u8 = 13;
/// SSH_AGENT_SIGN_RESPONSE
pub const SIGN_RESPONSE: u8 = 14;
/// SSH_AGENTC_EXTENSION
pub const EXTENSION: u8 = 27;
/// SSH_AGENT_EXTENSION_FAILURE
pub const EXTENSION_FAILURE: u8 = 28;

/// SSH_AGENT_EXTENSION_RESPONSE
pub const EXTENSION_RESPONSE: u8 = 29;

/// Name of the extension that lists the agent's extensions.
pub const QUERY: &str = "query";

/// Name of the extension that binds an agent connection to an SSH session.
pub const SESSION_BIND: &str = "session-bind@openssh.com";

/// Flags of a signature request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignFlags(u32);

impl SignFlags {
    /// No flags: the key type's only or default algorithm.
    pub const NONE: Self = Self(0);
    /// SSH_AGENT_RSA_SHA2_256
    pub const RSA_SHA2_256: Self = Self(2);
    /// SSH_AGENT_RSA_SHA2_512
    pub const RSA_SHA2_512: Self = Self(4);

    /// Returns the flags that select this algorithm.
    #[must_use]
    pub fn for_algorithm(algorithm: keys::SignatureAlgorithm) -> Self {
        match algorithm.plain() {
            keys::SignatureAlgorithm::RsaSha256 => Self::RSA_SHA2_256,
            keys::SignatureAlgorithm::RsaSha512 => Self::RSA_SHA2_512,
            _ => Self::NONE,
        }
    }

    /// The flags of a request. Unknown bits are kept, and an agent ignores them.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The algorithm that a key of this type signs with: the flags select that of an RSA key.
    /// Without a flag it is `ssh-rsa` with SHA-1, which clients of old devices expect, or
    /// `rsa-sha2-512` in a build with the feature `strict`; the signature names its algorithm.
    #[must_use]
    pub fn algorithm(self, key_type: keys::KeyType) -> keys::SignatureAlgorithm {
        let strongest = key_type.algorithms().first().copied();
        match key_type {
            keys::KeyType::Rsa if self.0 & Self::RSA_SHA2_256.0 != 0 => {
                keys::SignatureAlgorithm::RsaSha256
            }
            keys::KeyType::Rsa
                if self.0 & Self::RSA_SHA2_512.0 == 0 && !wire::algorithms::STRICT =>
            {
                keys::SignatureAlgorithm::RsaSha1
            }
            _ => strongest.unwrap_or(keys::SignatureAlgorithm::RsaSha512),
        }
    }

    /// Returns the flags as encoded on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A key that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Public key or certificate blob.
    pub blob: Vec<u8>,
    /// Comment that the agent stores with the key; foreign text, to be escaped before display.
    pub comment: String,
}

/// An encoded request with its length field; wiped on drop.
pub type Frame = Zeroizing<Vec<u8>>;

/// Encodes SSH_AGENTC_REQUEST_IDENTITIES.
pub(crate) fn request_identities() -> Result<Frame, AgentError> {
    frame(&[REQUEST_IDENTITIES])
}

/// Encodes SSH_AGENTC_SIGN_REQUEST, as it is sent, with its length.
///
/// # Errors
/// [`AgentError::RequestTooLong`].
pub fn sign_request(blob: &[u8], data: &[u8], flags: SignFlags) -> Result<Frame, AgentError> {
    if blob.len() + data.len() > MAX_MESSAGE_BYTES {
        return Err(AgentError::RequestTooLong);
    }
    let mut body = Zeroizing::new(vec![SIGN_REQUEST]);
    body.put_string(blob);
    body.put_string(data);
    body.put_u32(flags.number());
    frame(&body)
}

/// Encodes SSH_AGENTC_EXTENSION with `session-bind@openssh.com`, as it is sent, with its length.
///
/// # Errors
/// [`AgentError::RequestTooLong`].
pub fn session_bind(
    host_key: &[u8],
    session_identifier: &[u8],
    signature: &[u8],
    forwarding: bool,
) -> Result<Frame, AgentError> {
    if host_key.len() + session_identifier.len() + signature.len() > MAX_MESSAGE_BYTES {
        return Err(AgentError::RequestTooLong);
    }
    let mut body = vec![EXTENSION];
    body.put_string(SESSION_BIND.as_bytes());
    body.put_string(host_key);
    body.put_string(session_identifier);
    body.put_string(signature);
    body.put_bool(forwarding);
    frame(&body)
}

pub(crate) fn frame(body: &[u8]) -> Result<Frame, AgentError> {
    if body.len() > MAX_MESSAGE_BYTES {
        return Err(AgentError::RequestTooLong);
    }
    let mut out = Zeroizing::new(Vec::with_capacity(body.len() + 4));
    out.put_string(body);
    Ok(out)
}

/// Decodes SSH_AGENT_IDENTITIES_ANSWER.
pub(crate) fn identities_answer(body: &[u8]) -> Result<Vec<Identity>, AgentError> {
    let mut reader = expect(body, IDENTITIES_ANSWER)?;
    let count = reader.u32()?;
    // The count reserves no memory: a false count fails when the answer's bytes run out.
    if count > MAX_IDENTITIES {
        return Err(DecodeError::Malformed("agent lists too many identities").into());
    }
    let mut identities = Vec::new();
    for _ in 0..count {
        identities.push(Identity {
            blob: reader.string()?.to_vec(),
            comment: String::from_utf8_lossy(reader.string()?).into_owned(),
        });
    }
    reader.finish()?;
    Ok(identities)
}

/// Decodes SSH_AGENT_SIGN_RESPONSE.
pub(crate) fn sign_response(body: &[u8]) -> Result<Vec<u8>, AgentError> {
    let mut reader = expect(body, SIGN_RESPONSE)?;
    let signature = reader.string()?.to_vec();
    reader.finish()?;
    Ok(signature)
}

/// Decodes SSH_AGENT_SUCCESS.
pub(crate) fn success(body: &[u8]) -> Result<(), AgentError> {
    Ok(expect(body, SUCCESS)?.finish()?)
}

fn expect(body: &[u8], number: u8) -> Result<Reader<'_>, AgentError> {
    let mut reader = Reader::new(body);
    match reader.u8()? {
        got if got == number => Ok(reader),
        FAILURE | EXTENSION_FAILURE => Err(AgentError::Refused),
        got => Err(AgentError::UnexpectedAnswer { number: got }),
    }
}

/// Decodes SSH_AGENT_EXTENSION_RESPONSE to `query`: the names of the agent's extensions.
pub(crate) fn extensions(body: &[u8]) -> Result<Vec<String>, AgentError> {
    let mut reader = expect(body, EXTENSION_RESPONSE)?;
    if reader.string()? != QUERY.as_bytes() {
        return Err(DecodeError::Malformed("answer to another extension").into());
    }
    let mut names = Vec::new();
    while !reader.is_empty() {
        names.push(String::from_utf8_lossy(reader.string()?).into_owned());
    }
    Ok(names)
}
