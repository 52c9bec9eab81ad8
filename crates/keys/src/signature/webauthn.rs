//! Signatures that a browser asked a security key for (OpenSSH PROTOCOL.u2f, "webauthn signatures"; W3C
//! Web Authentication Level 2 §5.8.1.1 and §6.1): the message is the challenge in client data
//! that the browser has written, and the token signs the hash of these.

use crypto::hash::HashAlgorithm;
use wire::{Put, Reader};

use crate::base64;
use crate::error::VerifyError;

/// Flag of authenticator data with a new key in them, which no signature over a message has.
const FLAG_NEW_KEY: u8 = 0x40;
/// Flag of authenticator data that end in extensions.
const FLAG_EXTENSIONS: u8 = 0x80;

/// The text between the parts of client data, whose order and spelling WebAuthn §5.8.1.1 fixes. Text after
/// the origin is the browser's affair.
const BEFORE_CHALLENGE: &[u8] = b"{\"type\":\"webauthn.get\",\"challenge\":\"";
const BEFORE_ORIGIN: &[u8] = b"\",\"origin\":\"";
const AFTER_ORIGIN: u8 = b'"';

/// The fields that these signatures have in addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BrowserFields<'a> {
    /// The origin of the web page that asked, as in the client data.
    origin: &'a [u8],
    /// The JSON text that the browser has written.
    client_data: &'a [u8],
    /// Extensions of the authenticator data, CBOR; usually empty.
    extensions: &'a [u8],
}

impl<'a> BrowserFields<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, VerifyError> {
        Ok(Self {
            origin: reader.string()?,
            client_data: reader.string()?,
            extensions: reader.string()?,
        })
    }

    /// Appends what a token signs after flags and counter: the extensions and the hash of the client data.
    ///
    /// # Errors
    /// [`VerifyError::BadSignature`] if flags and extensions do not agree, or the client data are not
    /// those of this message and origin.
    pub(super) fn write_signed(
        &self,
        flags: u8,
        message: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), VerifyError> {
        let has_extensions = flags & FLAG_EXTENSIONS != 0;
        let agrees = has_extensions != self.extensions.is_empty() && flags & FLAG_NEW_KEY == 0;
        // A quote would end the origin early, and a NUL ends it for other implementations.
        let ends_early = |byte: &u8| matches!(byte, b'"' | 0);
        if !agrees || self.origin.iter().any(ends_early) || !self.speaks_of(message) {
            return Err(VerifyError::BadSignature);
        }
        out.extend_from_slice(self.extensions);
        out.extend_from_slice(&HashAlgorithm::Sha256.digest(self.client_data));
        Ok(())
    }

    /// True if the client data begin with the message as challenge and with the origin.
    fn speaks_of(&self, message: &[u8]) -> bool {
        let challenge = base64::encode_url(message);
        let mut expected = BEFORE_CHALLENGE.to_vec();
        expected.extend_from_slice(challenge.as_bytes());
        expected.extend_from_slice(BEFORE_ORIGIN);
        expected.extend_from_slice(self.origin);
        expected.put_u8(AFTER_ORIGIN);
        self.client_data.starts_with(&expected)
    }
}

#[cfg(test)]
#[path = "webauthn_tests.rs"]
mod tests;
