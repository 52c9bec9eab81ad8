//! Signature blobs (RFC 4253 §6.6, RFC 5656 §3.1.2, RFC 8332 §3, RFC 8709 §6, OpenSSH PROTOCOL.u2f,
//! draft-miller-sshm-mldsa44-ed25519-composite-sigs-00) and their verification with a policy.
//!
//! The algorithm named in a signature must be the negotiated one and must fit the key, so that
//! permitting one algorithm never admits another.

use crypto::hash::HashAlgorithm;
use crypto::sign::SignatureScheme;
use wire::{DecodeError, Mpint, Put, Reader};

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::error::{KeyError, VerifyError};
use crate::public_key::{EcCurve, PublicKey};
use crate::{DEFAULT_MIN_RSA_BITS, MAX_BLOB_BYTES};

mod webauthn;

use webauthn::BrowserFields;

/// FIDO flag: the user touched the security key.
const FLAG_USER_PRESENT: u8 = 0x01;
/// FIDO flag: the security key verified its user (PIN, fingerprint).
const FLAG_USER_VERIFIED: u8 = 0x04;

/// Conditions that a valid signature must meet in addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifyPolicy {
    /// Smallest RSA modulus in bits.
    pub min_rsa_bits: usize,
    /// True if security keys must have been touched (false with `no-touch-required`).
    pub require_user_presence: bool,
    /// True if security keys must have verified their user (`verify-required`).
    pub require_user_verification: bool,
}

impl Default for VerifyPolicy {
    fn default() -> Self {
        Self {
            min_rsa_bits: DEFAULT_MIN_RSA_BITS,
            require_user_presence: true,
            require_user_verification: false,
        }
    }
}

impl VerifyPolicy {
    /// The policy for host keys: nobody is at a server to touch its security key, and OpenSSH's
    /// sshd asks for no touch.
    #[must_use]
    pub fn of_host(min_rsa_bits: usize) -> Self {
        Self {
            min_rsa_bits,
            require_user_presence: false,
            require_user_verification: false,
        }
    }
}

/// A parsed signature blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature<'a> {
    /// The algorithm that it names; never a certificate algorithm.
    pub algorithm: SignatureAlgorithm,
    /// The signature in the algorithm's encoding.
    bytes: &'a [u8],
    /// What a security key adds.
    security_key: Option<SecurityKeyFields<'a>>,
}

/// The fields after the signature of a security key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SecurityKeyFields<'a> {
    flags: u8,
    counter: u32,
    browser: Option<BrowserFields<'a>>,
}

impl<'a> Signature<'a> {
    /// Parses a signature blob of any supported algorithm.
    ///
    /// # Errors
    /// [`VerifyError::WrongAlgorithm`] for an unknown algorithm, [`VerifyError::Malformed`].
    pub fn from_blob(blob: &'a [u8]) -> Result<Self, VerifyError> {
        Self::from_blob_if(blob, |_| true)
    }

    /// Parses a signature blob if `permits` returns true for its algorithm; `permits` is called
    /// before anything after the algorithm's name is read.
    ///
    /// # Errors
    /// [`VerifyError::WrongAlgorithm`] for an algorithm that is unknown or not permitted,
    /// [`VerifyError::Malformed`].
    pub fn from_blob_if(
        blob: &'a [u8],
        permits: impl Fn(SignatureAlgorithm) -> bool,
    ) -> Result<Self, VerifyError> {
        if blob.len() > MAX_BLOB_BYTES {
            return Err(VerifyError::Malformed(DecodeError::TooLong {
                limit_bytes: MAX_BLOB_BYTES,
            }));
        }
        let mut reader = Reader::new(blob);
        let algorithm = SignatureAlgorithm::from_wire_name(reader.string()?)
            .filter(|algorithm| !algorithm.is_certificate() && permits(*algorithm))
            .ok_or(VerifyError::WrongAlgorithm)?;
        let bytes = reader.string()?;
        let security_key = if algorithm.is_security_key() {
            Some(SecurityKeyFields {
                flags: reader.u8()?,
                counter: reader.u32()?,
                browser: match algorithm.is_of_browser() {
                    true => Some(BrowserFields::read(&mut reader)?),
                    false => None,
                },
            })
        } else {
            None
        };
        reader.finish()?;
        Ok(Self {
            algorithm,
            bytes,
            security_key,
        })
    }
}

/// A signature as a security key gives it (OpenSSH PROTOCOL.u2f).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityKeySignature<'a> {
    /// The number r of ECDSA, big-endian, or an Ed25519 signature.
    pub r: &'a [u8],
    /// The number s of ECDSA; empty for Ed25519.
    pub s: &'a [u8],
    /// FIDO flags.
    pub flags: u8,
    /// The token's signature counter.
    pub counter: u32,
}

impl SecurityKeySignature<'_> {
    /// Encodes the signature blob of a key of this type.
    ///
    /// # Errors
    /// [`KeyError::Invalid`] if the parts do not fit the type.
    pub fn blob(&self, key_type: KeyType) -> Result<Vec<u8>, KeyError> {
        let (algorithm, bytes) = match key_type {
            KeyType::SkEd25519 if self.r.len() == 64 && self.s.is_empty() => {
                (SignatureAlgorithm::SkEd25519, self.r.to_vec())
            }
            KeyType::SkEcdsaP256 if !self.r.is_empty() && !self.s.is_empty() => {
                let mut bytes = Vec::new();
                for number in [self.r, self.s] {
                    bytes.put_mpint(Mpint::from_magnitude(number).magnitude());
                }
                (SignatureAlgorithm::SkEcdsaP256, bytes)
            }
            _ => return Err(KeyError::Invalid("a signature of a security key")),
        };
        let mut out = blob(algorithm, &bytes);
        out.put_u8(self.flags);
        out.put_u32(self.counter);
        Ok(out)
    }
}

/// Encodes a signature blob.
pub(crate) fn blob(algorithm: SignatureAlgorithm, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    out.put_string(algorithm.name().as_bytes());
    out.put_string(bytes);
    out
}

impl PublicKey {
    /// Verifies `signature_blob` over `message`. `algorithm` is the negotiated one; a certificate
    /// algorithm verifies like its plain algorithm.
    ///
    /// # Errors
    /// [`VerifyError`]; with every variant the signature must not be accepted.
    pub fn verify(
        &self,
        algorithm: SignatureAlgorithm,
        message: &[u8],
        signature_blob: &[u8],
        policy: &VerifyPolicy,
    ) -> Result<(), VerifyError> {
        let agreed = algorithm.plain();
        if agreed.key_type() != self.key_type() {
            return Err(VerifyError::WrongKeyType);
        }
        let signature = Signature::from_blob_if(signature_blob, |named| named == agreed)?;
        if self.key_type() == KeyType::Rsa && self.bits() < policy.min_rsa_bits {
            return Err(VerifyError::KeyTooSmall {
                bits: self.bits(),
                minimum: policy.min_rsa_bits,
            });
        }
        let bad = |_| VerifyError::BadSignature;
        match (self, &signature.security_key) {
            (Self::Ed25519 { point }, None) => verify_ed25519(point, message, signature.bytes),
            (Self::Ecdsa { curve, point }, None) => {
                verify_ecdsa(*curve, point, message, signature.bytes)
            }
            (Self::Rsa { exponent, modulus }, None) => {
                let scheme = match agreed {
                    SignatureAlgorithm::RsaSha1 => SignatureScheme::RsaPkcs1Sha1,
                    SignatureAlgorithm::RsaSha256 => SignatureScheme::RsaPkcs1Sha256,
                    SignatureAlgorithm::RsaSha512 => SignatureScheme::RsaPkcs1Sha512,
                    _ => return Err(VerifyError::WrongKeyType),
                };
                crypto::sign::PublicKey::rsa(exponent, modulus)
                    .map_err(|_| VerifyError::BadSignature)?
                    .verify(scheme, message, signature.bytes)
                    .map_err(bad)
            }
            (Self::MlDsa44Ed25519 { bytes }, None) => {
                crypto::sign::PublicKey::mldsa44_ed25519(&bytes[..])
                    .map_err(|_| VerifyError::BadSignature)?
                    .verify(SignatureScheme::MlDsa44Ed25519, message, signature.bytes)
                    .map_err(bad)
            }
            (Self::SkEd25519 { point, application }, Some(fields)) => {
                check_flags(fields.flags, policy)?;
                let signed = fields.signed(application, message)?;
                verify_ed25519(point, &signed, signature.bytes)
            }
            (Self::SkEcdsaP256 { point, application }, Some(fields)) => {
                check_flags(fields.flags, policy)?;
                let signed = fields.signed(application, message)?;
                verify_ecdsa(EcCurve::P256, point, &signed, signature.bytes)
            }
            _ => Err(VerifyError::WrongKeyType),
        }
    }
}

fn check_flags(flags: u8, policy: &VerifyPolicy) -> Result<(), VerifyError> {
    if policy.require_user_presence && flags & FLAG_USER_PRESENT == 0 {
        return Err(VerifyError::NoUserPresence);
    }
    if policy.require_user_verification && flags & FLAG_USER_VERIFIED == 0 {
        return Err(VerifyError::NoUserVerification);
    }
    Ok(())
}

impl SecurityKeyFields<'_> {
    /// The message that a security key signs: the hashes of application and message (or of what a
    /// browser wrote about it), with flags and counter between them.
    fn signed(&self, application: &[u8], message: &[u8]) -> Result<Vec<u8>, VerifyError> {
        let mut out = Vec::with_capacity(69);
        out.extend_from_slice(&HashAlgorithm::Sha256.digest(application));
        out.put_u8(self.flags);
        out.put_u32(self.counter);
        match &self.browser {
            Some(browser) => browser.write_signed(self.flags, message, &mut out)?,
            None => out.extend_from_slice(&HashAlgorithm::Sha256.digest(message)),
        }
        Ok(out)
    }
}

fn verify_ed25519(point: &[u8; 32], message: &[u8], bytes: &[u8]) -> Result<(), VerifyError> {
    if bytes.len() != 64 {
        return Err(VerifyError::BadSignature);
    }
    crypto::sign::PublicKey::ed25519(point)
        .map_err(|_| VerifyError::BadSignature)?
        .verify(SignatureScheme::Ed25519, message, bytes)
        .map_err(|_| VerifyError::BadSignature)
}

fn verify_ecdsa(
    curve: EcCurve,
    point: &[u8],
    message: &[u8],
    bytes: &[u8],
) -> Result<(), VerifyError> {
    let fixed = ecdsa_to_fixed(curve, bytes)?;
    crypto::sign::PublicKey::ecdsa(curve.kind(), point)
        .map_err(|_| VerifyError::BadSignature)?
        .verify(curve.scheme(), message, &fixed)
        .map_err(|_| VerifyError::BadSignature)
}

/// Converts `mpint r, mpint s` (RFC 5656 §3.1.2) to two numbers of the curve's fixed length.
fn ecdsa_to_fixed(curve: EcCurve, bytes: &[u8]) -> Result<Vec<u8>, VerifyError> {
    let mut reader = Reader::new(bytes);
    let (r, s) = (reader.mpint()?, reader.mpint()?);
    reader.finish()?;
    let mut fixed = Vec::with_capacity(2 * curve.field_bytes());
    for number in [r, s] {
        let magnitude = number.magnitude();
        let zeros = curve
            .field_bytes()
            .checked_sub(magnitude.len())
            .ok_or(VerifyError::BadSignature)?;
        fixed.resize(fixed.len() + zeros, 0);
        fixed.extend_from_slice(magnitude);
    }
    Ok(fixed)
}

/// Converts two numbers of fixed length to `mpint r, mpint s`.
pub(crate) fn ecdsa_from_fixed(fixed: &[u8]) -> Vec<u8> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    let mut out = Vec::with_capacity(fixed.len() + 10);
    out.put_mpint(Mpint::from_magnitude(r).magnitude());
    out.put_mpint(Mpint::from_magnitude(s).magnitude());
    out
}

#[cfg(test)]
mod tests;
