//! What a peer presents as its key: a plain key or a certificate. Hosts and users alike.

use wire::Reader;

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::certificate::Certificate;
use crate::error::{KeyError, VerifyError};
use crate::public_key::PublicKey;
use crate::signature::VerifyPolicy;

/// A key blob of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedKey {
    /// A plain key.
    Plain(PublicKey),
    /// A certificate whose signature has been verified; not yet whether it is valid for
    /// anything ([`Certificate::check`]), nor whether its authority is trusted.
    Certificate(Box<Certificate>),
}

impl PresentedKey {
    /// Takes a blob apart; the name at its head decides the kind. A certificate's own
    /// signature is verified.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn from_blob(blob: &[u8]) -> Result<Self, KeyError> {
        let name = Reader::new(blob).string()?;
        match KeyType::from_blob_name(name) {
            Some((_, true)) => Ok(Self::Certificate(Box::new(Certificate::from_blob(blob)?))),
            _ => PublicKey::from_blob(blob).map(Self::Plain),
        }
    }

    /// Takes apart a blob that was presented under a negotiated `algorithm`: the name at its
    /// head must be the one that belongs to that algorithm.
    ///
    /// # Errors
    /// [`KeyError::WrongAlgorithm`] or what [`Self::from_blob`] says.
    pub fn from_blob_for(algorithm: SignatureAlgorithm, blob: &[u8]) -> Result<Self, KeyError> {
        if Reader::new(blob).string()? != algorithm.blob_name().as_bytes() {
            return Err(KeyError::WrongAlgorithm);
        }
        Self::from_blob(blob)
    }

    /// As [`Self::from_blob_for`], with the algorithms that the authority of a certificate may sign
    /// with (CASignatureAlgorithms): another one's key and signature are not even parsed.
    ///
    /// # Errors
    /// As [`Self::from_blob_for`], and [`KeyError::AuthorityAlgorithm`].
    pub fn from_blob_permitted(
        algorithm: SignatureAlgorithm,
        blob: &[u8],
        authorities: &[SignatureAlgorithm],
    ) -> Result<Self, KeyError> {
        if Reader::new(blob).string()? != algorithm.blob_name().as_bytes() {
            return Err(KeyError::WrongAlgorithm);
        }
        if algorithm.is_certificate() {
            let certificate = Certificate::from_blob_permitted(blob, authorities)?;
            Ok(Self::Certificate(Box::new(certificate)))
        } else {
            PublicKey::from_blob(blob).map(Self::Plain)
        }
    }

    /// The plain key: itself or the one inside the certificate.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        match self {
            Self::Plain(key) => key,
            Self::Certificate(certificate) => certificate.key(),
        }
    }

    /// The certificate, if it is one.
    #[must_use]
    pub fn certificate(&self) -> Option<&Certificate> {
        match self {
            Self::Plain(_) => None,
            Self::Certificate(certificate) => Some(certificate),
        }
    }

    /// The blob as it was presented.
    #[must_use]
    pub fn blob(&self) -> Vec<u8> {
        match self {
            Self::Plain(key) => key.blob(),
            Self::Certificate(certificate) => certificate.blob().to_vec(),
        }
    }

    /// The name at the head of the blob.
    #[must_use]
    pub fn blob_name(&self) -> &'static str {
        match self {
            Self::Plain(key) => key.key_type().name(),
            Self::Certificate(certificate) => certificate.key().key_type().certificate_name(),
        }
    }

    /// Verifies a signature made by this key; see [`PublicKey::verify`]. The algorithm's
    /// certificate flag must fit the kind of key.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub fn verify(
        &self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature_blob: &[u8],
        policy: &VerifyPolicy,
    ) -> Result<(), VerifyError> {
        if algorithm.is_certificate() != self.certificate().is_some() {
            return Err(VerifyError::WrongKeyType);
        }
        self.key()
            .verify(algorithm, message, signature_blob, policy)
    }
}

impl From<PublicKey> for PresentedKey {
    fn from(key: PublicKey) -> Self {
        Self::Plain(key)
    }
}

impl From<Certificate> for PresentedKey {
    fn from(certificate: Certificate) -> Self {
        Self::Certificate(Box::new(certificate))
    }
}
