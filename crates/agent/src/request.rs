//! The requests of the agent protocol as an agent reads them and as a client writes them
//! (RFC 9987, "Requests from the client to the agent").

use keys::private_file::{HeldKey, PrivateFileError};
use wire::{DecodeError, Put, Reader};
use zeroize::Zeroizing;

use crate::constraint::Constraints;
use crate::error::AgentError;
use crate::message::{
    EXTENSION, Frame, MAX_MESSAGE_BYTES, QUERY, REQUEST_IDENTITIES, SESSION_BIND, SIGN_REQUEST,
    SignFlags, frame,
};

/// SSH_AGENTC_REMOVE_ALL_RSA_IDENTITIES of protocol 1
const REMOVE_ALL_RSA_IDENTITIES: u8 = 9;
/// SSH_AGENTC_ADD_IDENTITY
const ADD_IDENTITY: u8 = 17;
/// SSH_AGENTC_REMOVE_IDENTITY
const REMOVE_IDENTITY: u8 = 18;
/// SSH_AGENTC_REMOVE_ALL_IDENTITIES
const REMOVE_ALL_IDENTITIES: u8 = 19;
/// SSH_AGENTC_ADD_SMARTCARD_KEY
const ADD_SMARTCARD_KEY: u8 = 20;
/// SSH_AGENTC_REMOVE_SMARTCARD_KEY
const REMOVE_SMARTCARD_KEY: u8 = 21;
/// SSH_AGENTC_LOCK
const LOCK: u8 = 22;
/// SSH_AGENTC_UNLOCK
const UNLOCK: u8 = 23;
/// SSH_AGENTC_ADD_ID_CONSTRAINED
const ADD_ID_CONSTRAINED: u8 = 25;
/// SSH_AGENTC_ADD_SMARTCARD_KEY_CONSTRAINED
const ADD_SMARTCARD_KEY_CONSTRAINED: u8 = 26;

/// Longest session identifier, in bytes, as in OpenSSH.
pub const MAX_SESSION_IDENTIFIER_BYTES: usize = 128;

/// A decoded request. Borrowed fields point into the request's bytes.
#[derive(Debug)]
pub enum AgentRequest<'a> {
    /// Lists the keys.
    ListIdentities,
    /// Signs with a key.
    Sign(SignRequest<'a>),
    /// Adds a key or replaces the one with the same blob.
    Add(Box<AddRequest>),
    /// Removes the key with this blob.
    Remove(&'a [u8]),
    /// Removes all keys.
    RemoveAll,
    /// Removes all keys of SSH protocol 1, which no agent of today holds; OpenSSH's agent removes all
    /// keys.
    RemoveAllOfProtocol1,
    /// Locks the agent with a passphrase.
    Lock(&'a [u8]),
    /// Unlocks the agent.
    Unlock(&'a [u8]),
    /// Adds the keys of a token.
    AddSmartcard {
        /// The library that reaches the token.
        provider: &'a [u8],
        /// The PIN of the token; may be empty.
        pin: &'a [u8],
        /// What restricts each of its keys.
        constraints: Constraints,
    },
    /// Removes the keys of a token.
    RemoveSmartcard {
        /// The library that reaches the token.
        provider: &'a [u8],
    },
    /// Binds the connection to an SSH session.
    BindSession(SessionBind<'a>),
    /// Asks for the names of the agent's extensions.
    Query,
    /// An extension that is not in this list, by its name.
    OtherExtension(&'a [u8]),
}

/// A request for a signature.
#[derive(Debug, Clone, Copy)]
pub struct SignRequest<'a> {
    /// Blob of the key or certificate.
    pub blob: &'a [u8],
    /// The bytes to sign.
    pub data: &'a [u8],
    /// Selects the algorithm of an RSA key.
    pub flags: SignFlags,
}

/// The fields of `session-bind@openssh.com`.
#[derive(Debug, Clone, Copy)]
pub struct SessionBind<'a> {
    /// Blob of the server's host key or host certificate.
    pub host_key: &'a [u8],
    /// Identifier of the SSH session.
    pub session_identifier: &'a [u8],
    /// The host key's signature over the identifier.
    pub signature: &'a [u8],
    /// True if requests on this connection come from that server, false if they log in there.
    pub is_forwarding: bool,
}

/// A key to add.
#[derive(Debug)]
pub struct AddRequest {
    /// The key.
    pub key: HeldKey,
    /// Comment to show with it; foreign text, to be escaped before display.
    pub comment: String,
    /// What restricts its use.
    pub constraints: Constraints,
}

/// Why a request cannot be carried out. The agent answers each with SSH_AGENT_FAILURE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadRequest {
    /// A field is malformed, or a constraint is unknown.
    Malformed(DecodeError),
    /// The key to add cannot be used.
    Key(PrivateFileError),
    /// The request's number is unknown.
    UnknownNumber(u8),
}

impl core::fmt::Display for BadRequest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Malformed(error) => write!(f, "malformed request: {error}"),
            Self::Key(error) => write!(f, "key cannot be added: {error}"),
            Self::UnknownNumber(number) => write!(f, "unknown request {number}"),
        }
    }
}

impl std::error::Error for BadRequest {}

impl From<DecodeError> for BadRequest {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl From<PrivateFileError> for BadRequest {
    fn from(error: PrivateFileError) -> Self {
        Self::Key(error)
    }
}

impl<'a> AgentRequest<'a> {
    /// Decodes a request without its length field.
    ///
    /// # Errors
    /// [`BadRequest`].
    pub fn decode(body: &'a [u8]) -> Result<Self, BadRequest> {
        let mut reader = Reader::new(body);
        let number = reader.u8()?;
        let request = match number {
            REQUEST_IDENTITIES => Self::ListIdentities,
            SIGN_REQUEST => Self::Sign(SignRequest {
                blob: reader.string()?,
                data: reader.string()?,
                flags: SignFlags::from_number(reader.u32()?),
            }),
            // Constraints count after either number, as in OpenSSH.
            ADD_IDENTITY | ADD_ID_CONSTRAINED => Self::Add(AddRequest::read(&mut reader)?),
            REMOVE_IDENTITY => Self::Remove(reader.string()?),
            REMOVE_ALL_IDENTITIES => Self::RemoveAll,
            REMOVE_ALL_RSA_IDENTITIES => Self::RemoveAllOfProtocol1,
            LOCK => Self::Lock(reader.string()?),
            UNLOCK => Self::Unlock(reader.string()?),
            ADD_SMARTCARD_KEY | ADD_SMARTCARD_KEY_CONSTRAINED => {
                let provider = reader.string()?;
                let pin = reader.string()?;
                Self::AddSmartcard {
                    provider,
                    pin,
                    constraints: Constraints::read(&mut reader)?,
                }
            }
            REMOVE_SMARTCARD_KEY => {
                let provider = reader.string()?;
                let _pin = reader.string()?;
                Self::RemoveSmartcard { provider }
            }
            EXTENSION => return Self::decode_extension(&mut reader),
            other => return Err(BadRequest::UnknownNumber(other)),
        };
        reader.finish()?;
        Ok(request)
    }

    fn decode_extension(reader: &mut Reader<'a>) -> Result<Self, BadRequest> {
        let name = reader.string()?;
        if name == QUERY.as_bytes() {
            return Ok(Self::Query);
        }
        if name != SESSION_BIND.as_bytes() {
            return Ok(Self::OtherExtension(name));
        }
        let bind = SessionBind {
            host_key: reader.string()?,
            session_identifier: reader.string()?,
            signature: reader.string()?,
            is_forwarding: reader.bool()?,
        };
        reader.finish()?;
        Ok(Self::BindSession(bind))
    }

    /// True if the bytes are a request of `session-bind@openssh.com`, whole or not: an attempt to
    /// bind marks a connection as remote even if it fails.
    #[must_use]
    pub fn is_session_bind(body: &[u8]) -> bool {
        let mut reader = Reader::new(body);
        reader.u8() == Ok(EXTENSION) && reader.string() == Ok(SESSION_BIND.as_bytes())
    }
}

impl AddRequest {
    fn read(reader: &mut Reader<'_>) -> Result<Box<Self>, BadRequest> {
        let key = HeldKey::read(reader)?;
        let comment = reader.string()?;
        // OpenSSH's clients take a comment with a NUL for a damaged list of all keys, unless it is the end of a
        // string of C.
        let comment = comment.strip_suffix(b"\0").unwrap_or(comment);
        if comment.contains(&0) {
            return Err(DecodeError::Malformed("a comment has a NUL").into());
        }
        Ok(Box::new(Self {
            key,
            comment: String::from_utf8_lossy(comment).into_owned(),
            constraints: Constraints::read(reader)?,
        }))
    }

    /// Encodes the request with its length field.
    ///
    /// # Errors
    /// [`AgentError::RequestTooLong`]; [`AgentError::Key`] if the key's secret is not available.
    pub fn encode(&self) -> Result<Frame, AgentError> {
        let mut rest = Vec::new();
        rest.put_string(self.comment.as_bytes());
        let number = if self.constraints.is_empty() {
            ADD_IDENTITY
        } else {
            self.constraints.write(&mut rest);
            ADD_ID_CONSTRAINED
        };
        // A key of 16384 bits takes under 10 KiB, its certificate at most 64 KiB: the capacity
        // suffices, so that no reallocation leaves secrets in freed memory.
        let mut body = Zeroizing::new(Vec::with_capacity(96 * 1024 + rest.len()));
        body.put_u8(number);
        self.key.write(&mut body).map_err(AgentError::Key)?;
        body.extend_from_slice(&rest);
        frame(&body)
    }
}

/// Seconds for which an agent keeps a certificate after its validity, as in OpenSSH: clocks differ.
const CERTIFICATE_GRACE_S: u64 = 300;

/// The certificate's validity has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateExpired;

/// The lifetime in seconds with which a certificate is added at the time `now` (seconds since 1970):
/// `wanted`, and at most until shortly after its validity.
///
/// # Errors
/// [`CertificateExpired`].
pub fn lifetime_of_certificate(
    certificate: &keys::Certificate,
    wanted: Option<u32>,
    now: u64,
) -> Result<Option<u32>, CertificateExpired> {
    if certificate.valid_before() == u64::MAX {
        return Ok(wanted);
    }
    let end = certificate
        .valid_before()
        .saturating_add(CERTIFICATE_GRACE_S);
    let left = end.checked_sub(now).filter(|left| *left > 0);
    let left = u32::try_from(left.ok_or(CertificateExpired)?).unwrap_or(u32::MAX);
    Ok(Some(wanted.map_or(left, |wanted| wanted.min(left))))
}

/// Encodes SSH_AGENTC_ADD_SMARTCARD_KEY, with constraints if there are any.
pub(crate) fn add_token(
    provider: &[u8],
    pin: &[u8],
    constraints: &Constraints,
) -> Result<Frame, AgentError> {
    let mut rest = Vec::new();
    constraints.write(&mut rest);
    let number = match constraints.is_empty() {
        true => ADD_SMARTCARD_KEY,
        false => ADD_SMARTCARD_KEY_CONSTRAINED,
    };
    if provider.len() + pin.len() + rest.len() > MAX_MESSAGE_BYTES {
        return Err(AgentError::RequestTooLong);
    }
    // The capacity suffices, so that no reallocation leaves the PIN in freed memory.
    let mut body = Zeroizing::new(Vec::with_capacity(
        provider.len() + pin.len() + rest.len() + 16,
    ));
    body.put_u8(number);
    body.put_string(provider);
    body.put_string(pin);
    body.extend_from_slice(&rest);
    frame(&body)
}

/// Encodes SSH_AGENTC_REMOVE_SMARTCARD_KEY, whose PIN no agent uses.
pub(crate) fn remove_token(provider: &[u8]) -> Result<Frame, AgentError> {
    if provider.len() > MAX_MESSAGE_BYTES {
        return Err(AgentError::RequestTooLong);
    }
    let mut body = vec![REMOVE_SMARTCARD_KEY];
    body.put_string(provider);
    body.put_string(b"");
    frame(&body)
}

/// Encodes SSH_AGENTC_REMOVE_IDENTITY.
pub(crate) fn remove(blob: &[u8]) -> Result<Frame, AgentError> {
    with_string(REMOVE_IDENTITY, blob)
}

/// Encodes SSH_AGENTC_REMOVE_ALL_IDENTITIES.
pub(crate) fn remove_all() -> Result<Frame, AgentError> {
    frame(&[REMOVE_ALL_IDENTITIES])
}

/// Encodes SSH_AGENTC_LOCK or SSH_AGENTC_UNLOCK.
pub(crate) fn lock(passphrase: &[u8], is_lock: bool) -> Result<Frame, AgentError> {
    with_string(if is_lock { LOCK } else { UNLOCK }, passphrase)
}

/// Encodes SSH_AGENTC_EXTENSION with `query`.
pub(crate) fn query() -> Result<Frame, AgentError> {
    with_string(EXTENSION, QUERY.as_bytes())
}

fn with_string(number: u8, field: &[u8]) -> Result<Frame, AgentError> {
    if field.len() > MAX_MESSAGE_BYTES {
        return Err(AgentError::RequestTooLong);
    }
    let mut body = Zeroizing::new(Vec::with_capacity(field.len() + 5));
    body.put_u8(number);
    body.put_string(field);
    frame(&body)
}
