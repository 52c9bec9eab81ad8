//! Private keys in an agent's request to add one (RFC 9987, "Adding keys to the
//! agent"; OpenSSH for certificates): the fields of the OpenSSH file format, and for a certificate
//! its blob followed by the secret fields only.

use crypto::sign::RsaParts;
use wire::{Put, Reader};
use zeroize::Zeroizing;

use super::PrivateFileError;
use super::openssh::{self, read_private, write_private};
use crate::algorithm::KeyType;
use crate::certificate::Certificate;
use crate::error::{KeyError, printable};
use crate::private_key::{PrivateKey, SecurityKeyHandle};
use crate::public_key::PublicKey;

/// A private key as an agent holds it: presented as itself, or by a certificate for it.
#[derive(Debug, Clone)]
pub struct HeldKey {
    /// The private key.
    pub key: PrivateKey,
    /// The certificate under which the key is listed; `None` for the plain key.
    pub certificate: Option<Certificate>,
}

impl HeldKey {
    /// The blob by which the agent's clients name the key.
    #[must_use]
    pub fn blob(&self) -> Vec<u8> {
        match &self.certificate {
            Some(certificate) => certificate.blob().to_vec(),
            None => self.key.public().blob(),
        }
    }

    /// The name of the key's type at the start of its blob.
    #[must_use]
    pub fn blob_name(&self) -> &'static str {
        let key_type = self.key.key_type();
        match self.certificate {
            Some(_) => key_type.certificate_name(),
            None => key_type.name(),
        }
    }

    /// Reads a key and leaves the reader after its last field.
    ///
    /// # Errors
    /// [`PrivateFileError`]; the key of a certificate and its secret must belong together.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, PrivateFileError> {
        let mut ahead = *reader;
        let name = ahead.string()?;
        match KeyType::from_blob_name(name) {
            Some((_, false)) => Ok(Self {
                key: read_private(reader)?,
                certificate: None,
            }),
            Some((_, true)) => {
                let certificate = Certificate::from_blob(ahead.string()?)?;
                if certificate.key().key_type().certificate_name().as_bytes() != name {
                    return Err(PrivateFileError::Malformed);
                }
                let key = read_secret(certificate.key(), &mut ahead)?;
                *reader = ahead;
                Ok(Self {
                    key,
                    certificate: Some(certificate),
                })
            }
            None => Err(KeyError::UnknownType(printable(name)).into()),
        }
    }

    /// Appends the key's fields.
    ///
    /// # Errors
    /// [`PrivateFileError::Key`] if the crypto library fails.
    pub fn write(&self, out: &mut Zeroizing<Vec<u8>>) -> Result<(), PrivateFileError> {
        match &self.certificate {
            None => write_private(&self.key, out),
            Some(certificate) => {
                out.put_string(certificate.key().key_type().certificate_name().as_bytes());
                out.put_string(certificate.blob());
                write_secret(&self.key, out)
            }
        }
    }
}

/// Reads the secret fields that follow a certificate for `public`.
fn read_secret(
    public: &PublicKey,
    reader: &mut Reader<'_>,
) -> Result<PrivateKey, PrivateFileError> {
    let key = match public {
        PublicKey::Ed25519 { point } => {
            let (repeated, secret) = (reader.string()?, reader.string()?);
            let seed = secret
                .first_chunk::<32>()
                .filter(|_| repeated == point && secret.len() == 64)
                .ok_or(PrivateFileError::Malformed)?;
            PrivateKey::from_ed25519_seed(seed)
        }
        PublicKey::Ecdsa { curve, point } => {
            PrivateKey::from_ecdsa(*curve, reader.mpint()?.magnitude(), Some(point))?
        }
        PublicKey::Rsa { exponent, modulus } => {
            let (d, iqmp) = (reader.mpint()?, reader.mpint()?);
            let (p, q) = (reader.mpint()?, reader.mpint()?);
            PrivateKey::from_rsa(&RsaParts {
                n: modulus,
                e: exponent,
                d: d.magnitude(),
                iqmp: iqmp.magnitude(),
                p: p.magnitude(),
                q: q.magnitude(),
            })?
        }
        PublicKey::MlDsa44Ed25519 { .. } => PrivateKey::from_mldsa44_ed25519(reader.string()?)?,
        PublicKey::SkEd25519 { application, .. } | PublicKey::SkEcdsaP256 { application, .. } => {
            if reader.string()? != application.as_slice() {
                return Err(PrivateFileError::Malformed);
            }
            let handle = SecurityKeyHandle {
                flags: reader.u8()?,
                handle: Zeroizing::new(reader.string()?.to_vec()),
                reserved: reader.string()?.to_vec(),
            };
            PrivateKey::from_security_key(public.clone(), handle)?
        }
    };
    if key.public() != public {
        return Err(KeyError::Invalid("its certificate is for another key").into());
    }
    Ok(key)
}

/// Writes the secret fields that follow a certificate.
fn write_secret(key: &PrivateKey, out: &mut Zeroizing<Vec<u8>>) -> Result<(), PrivateFileError> {
    if let PublicKey::SkEd25519 { application, .. } | PublicKey::SkEcdsaP256 { application, .. } =
        key.public()
    {
        out.put_string(application);
    }
    openssh::write_secret(key, out)
}
