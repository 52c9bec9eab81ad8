//! A blocking client: it sends one request and reads its answer.

use std::io::{Read, Write};

use keys::SignatureAlgorithm;

use crate::constraint::Constraints;
use crate::error::AgentError;
use crate::message::{self, Identity, MAX_MESSAGE_BYTES, SignFlags};
use crate::request::{self, AddRequest};

/// A connection to an agent. After an error other than [`AgentError::Refused`] the position in the
/// stream is unknown, and every further request fails with [`AgentError::Io`].
#[derive(Debug)]
pub struct AgentClient<S> {
    stream: S,
    broken: bool,
}

impl<S: Read + Write> AgentClient<S> {
    /// Takes ownership of a connected stream. The caller sets its timeouts; signing may wait for
    /// the user to touch a token or confirm.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            broken: false,
        }
    }

    /// Lists the agent's keys, in the agent's order.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn list(&mut self) -> Result<Vec<Identity>, AgentError> {
        self.call(&message::request_identities()?, message::identities_answer)
    }

    /// Signs `data` with the key of this blob (plain key or certificate) and returns the signature
    /// blob. Does not verify the signature nor check its algorithm; the caller does that where it
    /// matters.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] if the agent does not sign.
    pub fn sign(
        &mut self,
        key_blob: &[u8],
        data: &[u8],
        flags: SignFlags,
    ) -> Result<Vec<u8>, AgentError> {
        let request = message::sign_request(key_blob, data, flags)?;
        self.call(&request, message::sign_response)
    }

    /// As [`Self::sign`], with the flags that select `algorithm`.
    ///
    /// # Errors
    /// As [`Self::sign`].
    pub fn sign_with(
        &mut self,
        key_blob: &[u8],
        data: &[u8],
        algorithm: SignatureAlgorithm,
    ) -> Result<Vec<u8>, AgentError> {
        self.sign(key_blob, data, SignFlags::for_algorithm(algorithm))
    }

    /// Binds this agent connection to an SSH session (`session-bind@openssh.com`), given the host
    /// key, the session identifier and the host's signature over it. Agents that do not know the
    /// extension answer with a refusal, which the caller may ignore.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn bind_session(
        &mut self,
        host_key: &[u8],
        session_identifier: &[u8],
        signature: &[u8],
        forwarding: bool,
    ) -> Result<(), AgentError> {
        let request = message::session_bind(host_key, session_identifier, signature, forwarding)?;
        self.call(&request, message::success)
    }

    /// Adds a key, or replaces the agent's key with the same blob.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] also if the agent does not know a constraint.
    pub fn add(&mut self, request: &AddRequest) -> Result<(), AgentError> {
        self.call(&request.encode()?, message::success)
    }

    /// Removes the key with this blob.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] if the agent does not have it.
    pub fn remove(&mut self, key_blob: &[u8]) -> Result<(), AgentError> {
        self.call(&request::remove(key_blob)?, message::success)
    }

    /// Adds the keys of the tokens that a PKCS #11 library reaches; the constraints are for each of
    /// them.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] also if the library is not permitted or has no key.
    pub fn add_token(
        &mut self,
        provider: &[u8],
        pin: &[u8],
        constraints: &Constraints,
    ) -> Result<(), AgentError> {
        let request = request::add_token(provider, pin, constraints)?;
        self.call(&request, message::success)
    }

    /// Removes the keys of the tokens that a PKCS #11 library reaches.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] if there is none.
    pub fn remove_token(&mut self, provider: &[u8]) -> Result<(), AgentError> {
        self.call(&request::remove_token(provider)?, message::success)
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// [`AgentError`].
    pub fn remove_all(&mut self) -> Result<(), AgentError> {
        self.call(&request::remove_all()?, message::success)
    }

    /// Locks the agent: it lists no keys and signs nothing until [`Self::unlock`].
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] if it is locked already.
    pub fn lock(&mut self, passphrase: &[u8]) -> Result<(), AgentError> {
        self.call(&request::lock(passphrase, true)?, message::success)
    }

    /// Unlocks the agent.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] if the passphrase is wrong or it is not locked.
    pub fn unlock(&mut self, passphrase: &[u8]) -> Result<(), AgentError> {
        self.call(&request::lock(passphrase, false)?, message::success)
    }

    /// Asks for the names of the extensions that the agent supports.
    ///
    /// # Errors
    /// [`AgentError`]; [`AgentError::Refused`] from agents without this request.
    pub fn extensions(&mut self) -> Result<Vec<String>, AgentError> {
        self.call(&request::query()?, message::extensions)
    }

    /// Returns the stream.
    pub fn into_inner(self) -> S {
        self.stream
    }

    fn call<T>(
        &mut self,
        request: &[u8],
        decode: impl Fn(&[u8]) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        if self.broken {
            return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into());
        }
        self.broken = true;
        self.stream.write_all(request)?;
        self.stream.flush()?;
        let body = self.read_answer()?;
        let answer = decode(&body);
        self.broken = !matches!(answer, Ok(_) | Err(AgentError::Refused));
        answer
    }

    fn read_answer(&mut self) -> Result<Vec<u8>, AgentError> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let bytes = u32::from_be_bytes(length);
        let len = usize::try_from(bytes)
            .ok()
            .filter(|len| (1..=MAX_MESSAGE_BYTES).contains(len))
            .ok_or(AgentError::BadLength { bytes })?;
        let mut body = vec![0; len];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}
