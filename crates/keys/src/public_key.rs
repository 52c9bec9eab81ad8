//! Plain public keys and their blobs (RFC 4253 §6.6, RFC 5656 §3.1, RFC 8709 §4, OpenSSH
//! PROTOCOL.u2f, draft-miller-sshm-mldsa44-ed25519-composite-sigs-00). [`crate::certificate`] has certificates, [`crate::Signature`] signature blobs.

use core::fmt;

use crypto::sign::MLDSA44_ED25519_PUBLIC_BYTES;
use wire::{DecodeError, Put, Reader};

use crate::algorithm::KeyType;
use crate::der::oid;
use crate::error::{KeyError, printable};
use crate::{MAX_BLOB_BYTES, base64};

/// A curve of RFC 5656.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EcCurve {
    /// nistp256
    P256,
    /// nistp384
    P384,
    /// nistp521
    P521,
}

impl EcCurve {
    /// Identifier of the curve in key blobs (RFC 5656 §6.1).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::P256 => "nistp256",
            Self::P384 => "nistp384",
            Self::P521 => "nistp521",
        }
    }

    /// The curve of an object identifier (RFC 5480 §2.1.1.1).
    pub(crate) fn from_oid(oid: &[u8]) -> Option<Self> {
        match oid {
            oid::P256 => Some(Self::P256),
            oid::P384 => Some(Self::P384),
            oid::P521 => Some(Self::P521),
            _ => None,
        }
    }

    /// The curve's object identifier.
    pub(crate) fn oid(self) -> &'static [u8] {
        match self {
            Self::P256 => oid::P256,
            Self::P384 => oid::P384,
            Self::P521 => oid::P521,
        }
    }

    /// Length of a field element or scalar in bytes.
    #[must_use]
    pub fn field_bytes(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    /// Size of the curve in bits.
    #[must_use]
    pub fn bits(self) -> usize {
        match self {
            Self::P256 => 256,
            Self::P384 => 384,
            Self::P521 => 521,
        }
    }

    /// Length of an uncompressed point in bytes.
    #[must_use]
    pub fn point_bytes(self) -> usize {
        1 + 2 * self.field_bytes()
    }

    fn key_type(self) -> KeyType {
        match self {
            Self::P256 => KeyType::EcdsaP256,
            Self::P384 => KeyType::EcdsaP384,
            Self::P521 => KeyType::EcdsaP521,
        }
    }
}

/// A plain public key. Lengths, curve names and bounds of its parts are checked; that a point or
/// number is a valid group element is checked only when a signature is verified.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PublicKey {
    /// `ssh-ed25519` (RFC 8709).
    Ed25519 {
        /// The encoded point.
        point: [u8; 32],
    },
    /// `ecdsa-sha2-*` (RFC 5656).
    Ecdsa {
        /// The curve.
        curve: EcCurve,
        /// The uncompressed point, `4 | x | y`.
        point: Vec<u8>,
    },
    /// `ssh-rsa` (RFC 4253 §6.6).
    Rsa {
        /// The public exponent, big-endian without leading zeros.
        exponent: Vec<u8>,
        /// The modulus, big-endian without leading zeros.
        modulus: Vec<u8>,
    },
    /// Ed25519 in a security key.
    SkEd25519 {
        /// The encoded point.
        point: [u8; 32],
        /// FIDO application, usually `ssh:`.
        application: Vec<u8>,
    },
    /// ECDSA on P-256 in a security key.
    SkEcdsaP256 {
        /// The uncompressed point.
        point: Vec<u8>,
        /// FIDO application, usually `ssh:`.
        application: Vec<u8>,
    },
    /// `ssh-mldsa44-ed25519`: ML-DSA-44 with Ed25519.
    MlDsa44Ed25519 {
        /// The public key of ML-DSA-44 (FIPS 204), then the encoded point of Ed25519.
        bytes: Box<[u8; MLDSA44_ED25519_PUBLIC_BYTES]>,
    },
}

impl PublicKey {
    /// Parses a key blob. No bytes may follow the key.
    ///
    /// # Errors
    /// [`KeyError::UnknownType`] for types that are not supported, [`KeyError::WrongKind`] for a
    /// certificate, otherwise the reason.
    pub fn from_blob(blob: &[u8]) -> Result<Self, KeyError> {
        let (key_type, is_certificate, mut reader) = read_type(blob)?;
        if is_certificate {
            return Err(KeyError::WrongKind(
                "expected a plain key, found a certificate",
            ));
        }
        let key = Self::read_fields(key_type, &mut reader)?;
        reader.finish()?;
        Ok(key)
    }

    /// Reads the fields after the type's name, which plain keys and certificates share.
    pub(crate) fn read_fields(
        key_type: KeyType,
        reader: &mut Reader<'_>,
    ) -> Result<Self, KeyError> {
        Ok(match key_type {
            KeyType::Ed25519 => Self::Ed25519 {
                point: read_ed25519(reader)?,
            },
            KeyType::EcdsaP256 => Self::ecdsa(EcCurve::P256, reader)?,
            KeyType::EcdsaP384 => Self::ecdsa(EcCurve::P384, reader)?,
            KeyType::EcdsaP521 => Self::ecdsa(EcCurve::P521, reader)?,
            KeyType::Rsa => {
                let exponent = reader.mpint()?.magnitude().to_vec();
                let modulus = reader.mpint()?.magnitude().to_vec();
                check_rsa(&exponent, &modulus)?;
                Self::Rsa { exponent, modulus }
            }
            KeyType::SkEd25519 => Self::SkEd25519 {
                point: read_ed25519(reader)?,
                application: reader.string_max(MAX_APPLICATION_BYTES)?.to_vec(),
            },
            KeyType::SkEcdsaP256 => Self::SkEcdsaP256 {
                point: read_point(EcCurve::P256, reader)?,
                application: reader.string_max(MAX_APPLICATION_BYTES)?.to_vec(),
            },
            KeyType::MlDsa44Ed25519 => Self::MlDsa44Ed25519 {
                bytes: read_mldsa44_ed25519(reader)?,
            },
        })
    }

    fn ecdsa(curve: EcCurve, reader: &mut Reader<'_>) -> Result<Self, KeyError> {
        Ok(Self::Ecdsa {
            curve,
            point: read_point(curve, reader)?,
        })
    }

    /// Encodes the key as a blob.
    #[must_use]
    pub fn blob(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_string(self.key_type().name().as_bytes());
        self.write_fields(&mut out);
        out
    }

    /// Writes the fields after the type's name.
    pub(crate) fn write_fields(&self, out: &mut Vec<u8>) {
        match self {
            Self::Ed25519 { point } => out.put_string(point),
            Self::Ecdsa { curve, point } => {
                out.put_string(curve.name().as_bytes());
                out.put_string(point);
            }
            Self::Rsa { exponent, modulus } => {
                out.put_mpint(exponent);
                out.put_mpint(modulus);
            }
            Self::SkEd25519 { point, application } => {
                out.put_string(point);
                out.put_string(application);
            }
            Self::MlDsa44Ed25519 { bytes } => out.put_string(&bytes[..]),
            Self::SkEcdsaP256 { point, application } => {
                out.put_string(EcCurve::P256.name().as_bytes());
                out.put_string(point);
                out.put_string(application);
            }
        }
    }

    /// The key's type.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        match self {
            Self::Ed25519 { .. } => KeyType::Ed25519,
            Self::Ecdsa { curve, .. } => curve.key_type(),
            Self::Rsa { .. } => KeyType::Rsa,
            Self::SkEd25519 { .. } => KeyType::SkEd25519,
            Self::SkEcdsaP256 { .. } => KeyType::SkEcdsaP256,
            Self::MlDsa44Ed25519 { .. } => KeyType::MlDsa44Ed25519,
        }
    }

    /// Nominal size of the key in bits: of the modulus for RSA, of both seeds (512) for ML-DSA-44
    /// with Ed25519 as in OpenSSH, else of the curve's field.
    #[must_use]
    pub fn bits(&self) -> usize {
        match self {
            Self::Ed25519 { .. } | Self::SkEd25519 { .. } | Self::SkEcdsaP256 { .. } => 256,
            Self::Ecdsa { curve, .. } => curve.bits(),
            Self::Rsa { modulus, .. } => bit_length(modulus),
            Self::MlDsa44Ed25519 { .. } => 512,
        }
    }

    /// Formats `type base64` for one-line files.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!(
            "{} {}",
            self.key_type().name(),
            base64::encode(&self.blob())
        )
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PublicKey({} {})",
            self.key_type().name(),
            crate::fingerprint::sha256(&self.blob())
        )
    }
}

/// Reads the type at the start of a blob; returns it, whether it is a certificate's, and a reader
/// of the rest.
pub(crate) fn read_type(blob: &[u8]) -> Result<(KeyType, bool, Reader<'_>), KeyError> {
    if blob.len() > MAX_BLOB_BYTES {
        return Err(KeyError::Malformed(DecodeError::TooLong {
            limit_bytes: MAX_BLOB_BYTES,
        }));
    }
    let mut reader = Reader::new(blob);
    let name = reader.string()?;
    let (key_type, is_certificate) =
        KeyType::from_blob_name(name).ok_or_else(|| KeyError::UnknownType(printable(name)))?;
    Ok((key_type, is_certificate, reader))
}

/// Limit on a FIDO application, which is a short URL-like name.
const MAX_APPLICATION_BYTES: usize = 1024;

fn read_mldsa44_ed25519(
    reader: &mut Reader<'_>,
) -> Result<Box<[u8; MLDSA44_ED25519_PUBLIC_BYTES]>, KeyError> {
    let bytes: Box<[u8]> = reader.string()?.into();
    bytes
        .try_into()
        .map_err(|_| KeyError::Invalid("ML-DSA-44 with Ed25519 key is not 1344 bytes"))
}

fn read_ed25519(reader: &mut Reader<'_>) -> Result<[u8; 32], KeyError> {
    reader
        .string()?
        .try_into()
        .map_err(|_| KeyError::Invalid("Ed25519 key is not 32 bytes"))
}

fn read_point(curve: EcCurve, reader: &mut Reader<'_>) -> Result<Vec<u8>, KeyError> {
    if reader.string()? != curve.name().as_bytes() {
        return Err(KeyError::Invalid("curve name differs from the key type"));
    }
    let point = reader.string()?;
    check_point(curve, point)?;
    Ok(point.to_vec())
}

/// Accepts only uncompressed points: RFC 5656 §3.1 allows compressed ones, but no implementation
/// sends them.
pub(crate) fn check_point(curve: EcCurve, point: &[u8]) -> Result<(), KeyError> {
    if point.len() != curve.point_bytes() || point.first() != Some(&4) {
        return Err(KeyError::Invalid(
            "point is not uncompressed or has the wrong length",
        ));
    }
    Ok(())
}

/// Limits the work that a foreign RSA key can cause: wire limits the modulus to 16384 bits, and a
/// long exponent would make each verification as expensive as a signature.
pub(crate) fn check_rsa(exponent: &[u8], modulus: &[u8]) -> Result<(), KeyError> {
    let odd = |number: &[u8]| number.last().is_some_and(|last| last & 1 == 1);
    if bit_length(modulus) < 512 || bit_length(modulus) > wire::MAX_MPINT_BITS || !odd(modulus) {
        return Err(KeyError::Invalid(
            "RSA modulus is even, too small or too large",
        ));
    }
    if exponent.len() > 8 || bit_length(exponent) < 2 || !odd(exponent) {
        return Err(KeyError::Invalid(
            "RSA exponent is even, too small or too large",
        ));
    }
    Ok(())
}

fn bit_length(magnitude: &[u8]) -> usize {
    wire::Mpint::from_magnitude(magnitude).bits()
}

#[cfg(test)]
mod tests;
