//! Private keys: generation and signing. [`crate::private_file`] reads and writes their files; keys
//! in an agent are in the `agent` crate.

use core::fmt;

use crypto::sign::{KeyKind, MLDSA44_ED25519_SEED_BYTES, RsaParts, SignatureScheme};
use zeroize::Zeroizing;

use crate::algorithm::{KeyType, SignatureAlgorithm};
use crate::error::KeyError;
use crate::public_key::{EcCurve, PublicKey};
use crate::signature;

impl EcCurve {
    /// The crypto crate's key kind for this curve.
    pub(crate) fn kind(self) -> KeyKind {
        match self {
            Self::P256 => KeyKind::EcdsaP256,
            Self::P384 => KeyKind::EcdsaP384,
            Self::P521 => KeyKind::EcdsaP521,
        }
    }

    /// The crypto crate's signature scheme for this curve.
    pub(crate) fn scheme(self) -> SignatureScheme {
        match self {
            Self::P256 => SignatureScheme::EcdsaP256Sha256,
            Self::P384 => SignatureScheme::EcdsaP384Sha384,
            Self::P521 => SignatureScheme::EcdsaP521Sha512,
        }
    }
}

/// Type and size of a key to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySpec {
    /// Ed25519.
    Ed25519,
    /// ECDSA on this curve.
    Ecdsa(EcCurve),
    /// RSA.
    Rsa {
        /// Size of the modulus, 1024 to 16384 bits.
        bits: usize,
    },
    /// ML-DSA-44 with Ed25519.
    MlDsa44Ed25519,
}

/// Why a key could not be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerateError {
    /// An RSA size outside 1024..=16384 bits.
    BadSize,
    /// The cryptographic library failed.
    Internal,
}

impl fmt::Display for GenerateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadSize => "RSA keys have 1024 to 16384 bits",
            Self::Internal => "the cryptographic library failed",
        })
    }
}

impl std::error::Error for GenerateError {}

/// A private key with its public key. Cheap to clone; the secret is wiped when the last clone is
/// dropped.
#[derive(Clone)]
pub struct PrivateKey {
    public: PublicKey,
    secret: PrivateKeySecret,
}

/// The secret of a private key, or a handle to it.
#[derive(Clone)]
pub(crate) enum PrivateKeySecret {
    /// A key in memory.
    Software(crypto::sign::PrivateKey),
    /// A key in a security key, of which only the handle is known.
    SecurityKey(SecurityKeyHandle),
}

/// The fields that the file of a security key has besides the public key.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SecurityKeyHandle {
    pub(crate) flags: u8,
    pub(crate) handle: Zeroizing<Vec<u8>>,
    pub(crate) reserved: Vec<u8>,
}

/// A key in a security key: what its file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityKeyParts<'a> {
    /// FIDO application, usually `ssh:`.
    pub application: &'a [u8],
    /// What signatures need: 1, a touch; 4, the user's verification. 32: the token stores the key.
    pub flags: u8,
    /// The handle by which the token finds the secret.
    pub handle: &'a [u8],
}

impl PrivateKey {
    /// Generates a key.
    ///
    /// # Errors
    /// [`GenerateError`].
    pub fn generate(spec: KeySpec) -> Result<Self, GenerateError> {
        let (kind, bits) = match spec {
            KeySpec::Ed25519 => (KeyKind::Ed25519, 0),
            KeySpec::Ecdsa(curve) => (curve.kind(), 0),
            KeySpec::Rsa { bits } => (KeyKind::Rsa, bits),
            KeySpec::MlDsa44Ed25519 => (KeyKind::MlDsa44Ed25519, 0),
        };
        crypto::sign::PrivateKey::generate(kind, bits)
            .map_err(|error| match error {
                crypto::BadKey::OutOfBounds => GenerateError::BadSize,
                _ => GenerateError::Internal,
            })
            .and_then(|key| Self::from_software(key).map_err(|_| GenerateError::Internal))
    }

    /// Creates an Ed25519 key from its seed (RFC 8032 §5.1.5).
    #[must_use]
    pub fn from_ed25519_seed(seed: &[u8; 32]) -> Self {
        let key = crypto::sign::PrivateKey::ed25519_from_seed(seed);
        let point = key.public().ed25519_bytes().copied().unwrap_or_default();
        Self {
            public: PublicKey::Ed25519 { point },
            secret: PrivateKeySecret::Software(key),
        }
    }

    /// Creates a key of ML-DSA-44 with Ed25519 from both seeds, as they are in its file.
    pub(crate) fn from_mldsa44_ed25519(secret: &[u8]) -> Result<Self, KeyError> {
        let seeds: &[u8; MLDSA44_ED25519_SEED_BYTES] = secret
            .try_into()
            .map_err(|_| KeyError::Invalid("its private part is not 64 bytes"))?;
        Self::from_software(crypto::sign::PrivateKey::mldsa44_ed25519_from_seeds(seeds)?)
    }

    /// Creates an ECDSA key from its scalar, and from its point if the file contains it.
    pub(crate) fn from_ecdsa(
        curve: EcCurve,
        scalar: &[u8],
        point: Option<&[u8]>,
    ) -> Result<Self, KeyError> {
        let key = match point {
            Some(point) => crypto::sign::PrivateKey::ecdsa_from_parts(curve.kind(), scalar, point)?,
            None => crypto::sign::PrivateKey::ecdsa_from_scalar(curve.kind(), scalar)?,
        };
        Self::from_software(key)
    }

    /// Creates an RSA key from magnitudes. The primes may be in either order if `iqmp` matches.
    pub(crate) fn from_rsa(parts: &RsaParts<'_>) -> Result<Self, KeyError> {
        Self::from_software(crypto::sign::PrivateKey::rsa_from_parts(parts)?)
    }

    /// Creates a key from a security key's public key and handle.
    pub(crate) fn from_security_key(
        public: PublicKey,
        handle: SecurityKeyHandle,
    ) -> Result<Self, KeyError> {
        if !public.key_type().is_security_key() {
            return Err(KeyError::WrongKind("not a security key"));
        }
        Ok(Self {
            public,
            secret: PrivateKeySecret::SecurityKey(handle),
        })
    }

    /// Creates the private form of a key that a security key has made.
    ///
    /// # Errors
    /// [`KeyError::WrongKind`] if `public` is not a security key's.
    pub fn of_security_key(public: PublicKey, flags: u8, handle: &[u8]) -> Result<Self, KeyError> {
        let handle = SecurityKeyHandle {
            flags,
            handle: Zeroizing::new(handle.to_vec()),
            reserved: Vec::new(),
        };
        Self::from_security_key(public, handle)
    }

    /// The parts of a key in a security key; `None` for other keys.
    #[must_use]
    pub fn security_key(&self) -> Option<SecurityKeyParts<'_>> {
        match (&self.public, &self.secret) {
            (
                PublicKey::SkEd25519 { application, .. }
                | PublicKey::SkEcdsaP256 { application, .. },
                PrivateKeySecret::SecurityKey(handle),
            ) => Some(SecurityKeyParts {
                application,
                flags: handle.flags,
                handle: &handle.handle,
            }),
            _ => None,
        }
    }

    fn from_software(key: crypto::sign::PrivateKey) -> Result<Self, KeyError> {
        let public = key.public();
        let copy = |part: Option<&[u8]>| part.map(<[u8]>::to_vec).ok_or(KeyError::Internal);
        let ecdsa = |curve| -> Result<PublicKey, KeyError> {
            Ok(PublicKey::Ecdsa {
                curve,
                point: copy(public.ecdsa_point())?,
            })
        };
        let public = match key.kind() {
            KeyKind::Ed25519 => PublicKey::Ed25519 {
                point: *public.ed25519_bytes().ok_or(KeyError::Internal)?,
            },
            KeyKind::EcdsaP256 => ecdsa(EcCurve::P256)?,
            KeyKind::EcdsaP384 => ecdsa(EcCurve::P384)?,
            KeyKind::EcdsaP521 => ecdsa(EcCurve::P521)?,
            KeyKind::Rsa => PublicKey::Rsa {
                exponent: copy(public.rsa_exponent())?,
                modulus: copy(public.rsa_modulus())?,
            },
            KeyKind::MlDsa44Ed25519 => PublicKey::MlDsa44Ed25519 {
                bytes: Box::new(*public.mldsa44_ed25519_bytes().ok_or(KeyError::Internal)?),
            },
        };
        Ok(Self {
            public,
            secret: PrivateKeySecret::Software(key),
        })
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The key's type.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        self.public.key_type()
    }

    /// False if the secret is in a security key, so that only its token or an agent can sign.
    #[must_use]
    pub fn can_sign(&self) -> bool {
        matches!(self.secret, PrivateKeySecret::Software(_))
    }

    /// Signs `message`; returns the signature blob. A certificate algorithm signs like its plain
    /// algorithm.
    ///
    /// # Errors
    /// [`KeyError::WrongAlgorithm`], [`KeyError::NoSecret`], [`KeyError::Internal`].
    pub fn sign(&self, algorithm: SignatureAlgorithm, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let algorithm = algorithm.plain();
        if algorithm.key_type() != self.key_type() {
            return Err(KeyError::WrongAlgorithm);
        }
        let PrivateKeySecret::Software(key) = &self.secret else {
            return Err(KeyError::NoSecret);
        };
        let scheme = match algorithm {
            SignatureAlgorithm::Ed25519 => SignatureScheme::Ed25519,
            SignatureAlgorithm::EcdsaP256 => SignatureScheme::EcdsaP256Sha256,
            SignatureAlgorithm::EcdsaP384 => SignatureScheme::EcdsaP384Sha384,
            SignatureAlgorithm::EcdsaP521 => SignatureScheme::EcdsaP521Sha512,
            SignatureAlgorithm::RsaSha1 => SignatureScheme::RsaPkcs1Sha1,
            SignatureAlgorithm::RsaSha256 => SignatureScheme::RsaPkcs1Sha256,
            SignatureAlgorithm::RsaSha512 => SignatureScheme::RsaPkcs1Sha512,
            SignatureAlgorithm::MlDsa44Ed25519 => SignatureScheme::MlDsa44Ed25519,
            _ => return Err(KeyError::WrongAlgorithm),
        };
        let bytes = key.sign(scheme, message).map_err(|_| KeyError::Internal)?;
        let bytes = match self.public {
            PublicKey::Ecdsa { .. } => signature::ecdsa_from_fixed(&bytes),
            _ => bytes,
        };
        Ok(signature::blob(algorithm, &bytes))
    }

    pub(crate) fn secret(&self) -> &PrivateKeySecret {
        &self.secret
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({:?}, secret not shown)", self.public)
    }
}
