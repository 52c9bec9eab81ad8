//! Signing of certificates (`ssh-keygen -s`).

use wire::Put;

use crate::algorithm::SignatureAlgorithm;
use crate::certificate::{Certificate, CertificateKind, CertificateOption};
use crate::error::KeyError;
use crate::private_key::PrivateKey;
use crate::public_key::PublicKey;

/// The fields of a certificate that the authority chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFields {
    /// The key to certify.
    pub key: PublicKey,
    /// Serial number; 0 for none.
    pub serial: u64,
    /// Whether it is for a user or a host.
    pub kind: CertificateKind,
    /// The authority's free text to identify the certificate.
    pub key_id: String,
    /// Names of the users or hosts that it is for.
    pub principals: Vec<String>,
    /// First second of validity, in seconds since 1970.
    pub valid_after: u64,
    /// First second after validity, in seconds since 1970; `u64::MAX` for no end.
    pub valid_before: u64,
    /// Critical options, in any order.
    pub critical_options: Vec<CertificateOption>,
    /// Extensions, in any order.
    pub extensions: Vec<CertificateOption>,
}

impl CertificateOption {
    /// Creates an option without data.
    #[must_use]
    pub fn flag(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            data: Vec::new(),
        }
    }

    /// Creates an option with a text value.
    #[must_use]
    pub fn with_text(name: &str, text: &str) -> Self {
        let mut data = Vec::new();
        data.put_string(text.as_bytes());
        Self {
            name: name.to_owned(),
            data,
        }
    }
}

impl CertificateFields {
    /// Signs the fields with the key of the authority.
    ///
    /// # Errors
    /// [`KeyError`] if the key cannot sign with `algorithm`, or the fields exceed a limit of
    /// [`Certificate::from_blob`], which parses the result.
    pub fn sign(
        &self,
        authority: &PrivateKey,
        algorithm: SignatureAlgorithm,
    ) -> Result<Certificate, KeyError> {
        self.sign_with(authority.public(), |message| {
            authority.sign(algorithm.plain(), message)
        })
    }

    /// As [`Self::sign`], with a signature blob from `signer`, such as an agent.
    ///
    /// # Errors
    /// The error of `signer`, or [`KeyError`] as for [`Self::sign`], also if the signature is not
    /// by the authority's key.
    pub fn sign_with<E: From<KeyError>>(
        &self,
        authority: &PublicKey,
        signer: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>,
    ) -> Result<Certificate, E> {
        let mut blob = self.unsigned(authority, &crypto::random::bytes());
        let signature = signer(&blob)?;
        blob.put_string(&signature);
        Ok(Certificate::from_blob(&blob)?)
    }

    fn unsigned(&self, authority: &PublicKey, nonce: &[u8; 32]) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_string(self.key.key_type().certificate_name().as_bytes());
        out.put_string(nonce);
        self.key.write_fields(&mut out);
        out.put_u64(self.serial);
        out.put_u32(self.kind.number());
        out.put_string(self.key_id.as_bytes());
        let mut principals = Vec::new();
        for principal in &self.principals {
            principals.put_string(principal.as_bytes());
        }
        out.put_string(&principals);
        out.put_u64(self.valid_after);
        out.put_u64(self.valid_before);
        out.put_string(&write_options(&self.critical_options));
        out.put_string(&write_options(&self.extensions));
        out.put_string(b"");
        out.put_string(&authority.blob());
        out
    }
}

/// Encodes the options sorted by name, as PROTOCOL.certkeys requires.
fn write_options(options: &[CertificateOption]) -> Vec<u8> {
    let mut sorted: Vec<&CertificateOption> = options.iter().collect();
    sorted.sort_by(|left, right| left.name.cmp(&right.name));
    let mut out = Vec::new();
    for option in sorted {
        out.put_string(option.name.as_bytes());
        out.put_string(&option.data);
    }
    out
}
