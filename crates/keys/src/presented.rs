//! The key that a host or user presents: a plain key or a certificate.

use wire::Reader;

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::certificate::Certificate;
use crate::error::{KeyError, VerifyError};
use crate::public_key::PublicKey;
use crate::signature::VerifyPolicy;

/// A parsed key blob of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PresentedKey {
    /// A plain key.
    Plain(PublicKey),
    /// A certificate with a verified signature. Neither its validity ([`Certificate::check`]) nor
    /// the trust in its authority has been checked.
    Certificate(Box<Certificate>),
}

impl PresentedKey {
    /// Parses a blob; the name at its start determines the kind. For a certificate it verifies the
    /// authority's signature.
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

    /// Parses a blob that was presented for a negotiated `algorithm`: the name at its start must be
    /// that of the algorithm. The key and signature of a certificate's authority are not parsed if
    /// their names are not among `authorities` (CASignatureAlgorithms).
    ///
    /// # Errors
    /// [`KeyError::WrongAlgorithm`], [`KeyError::AuthorityAlgorithm`], or as [`Self::from_blob`].
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

    /// The plain key: itself, or the certified key.
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

    /// The presented blob.
    #[must_use]
    pub fn blob(&self) -> Vec<u8> {
        match self {
            Self::Plain(key) => key.blob(),
            Self::Certificate(certificate) => certificate.blob().to_vec(),
        }
    }

    /// The name at the start of the blob.
    #[must_use]
    pub fn blob_name(&self) -> &'static str {
        match self {
            Self::Plain(key) => key.key_type().name(),
            Self::Certificate(certificate) => certificate.key().key_type().certificate_name(),
        }
    }

    /// What only old devices need of a proof with this key by `algorithm`, for warnings: the algorithm
    /// of the signature, and that of a certificate's authority.
    #[must_use]
    pub fn old_algorithms(&self, algorithm: SignatureAlgorithm) -> Vec<&'static str> {
        let own = algorithm.is_sha1().then_some(algorithm.name());
        let authority = self.certificate().and_then(Certificate::old_signature);
        own.into_iter().chain(authority).collect()
    }

    /// Upper-case label for display: that of the key's type, with `-CERT` for a certificate.
    #[must_use]
    pub fn label(&self) -> String {
        let label = self.key().key_type().label();
        match self {
            Self::Plain(_) => label.to_owned(),
            Self::Certificate(_) => format!("{label}-CERT"),
        }
    }

    /// Verifies a signature made by this key; see [`PublicKey::verify`]. A certificate requires a
    /// certificate algorithm, a plain key a plain one.
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
