//! Key exchange methods: a table, and the initiator's and responder's half of each.
//!
//! RFC 4253 §8 and RFC 8268 (fixed groups), RFC 4419 (group exchange), RFC 5656 (NIST curves), RFC
//! 8731 (curve25519), RFC 8732 (GSS-API), and the hybrids sntrup761x25519, mlkem768x25519 and mlkem768nistp256. Public
//! values are the *content* of the wire value: the string body of Q_C, Q_S, C_INIT and S_REPLY, or
//! e and f as unsigned big-endian bytes (with or without leading zeros). The exchange hash, the key
//! derivation and the messages are in `proto`.
//!
//! All randomness is from the kernel. Values of the peer are rejected if they have the wrong
//! length, are not on the curve, have low order, or fail ML-KEM's modulus check.
#![forbid(unsafe_code)]

mod curve25519;
mod dh;
mod hybrid;

use core::fmt;

use zeroize::Zeroizing;

use crate::KexError;
use crate::awslc::ec::{Curve, EcKey};
use crate::hash::HashAlgorithm;
use hybrid::Hybrid;

pub use dh::{DhGroup, DhPolicy, Primality};

/// A key exchange method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KexAlgorithm {
    /// mlkem768x25519-sha256
    MlKem768X25519Sha256,
    /// mlkem768nistp256-sha256
    MlKem768NistP256Sha256,
    /// sntrup761x25519-sha512
    Sntrup761X25519Sha512,
    /// sntrup761x25519-sha512@openssh.com
    Sntrup761X25519Sha512OpenSsh,
    /// curve25519-sha256
    Curve25519Sha256,
    /// curve25519-sha256@libssh.org
    Curve25519Sha256LibSsh,
    /// ecdh-sha2-nistp256
    EcdhNistP256,
    /// ecdh-sha2-nistp384
    EcdhNistP384,
    /// ecdh-sha2-nistp521
    EcdhNistP521,
    /// diffie-hellman-group14-sha256
    DhGroup14Sha256,
    /// diffie-hellman-group16-sha512
    DhGroup16Sha512,
    /// diffie-hellman-group18-sha512
    DhGroup18Sha512,
    /// diffie-hellman-group-exchange-sha256
    DhGroupExchangeSha256,
    /// diffie-hellman-group14-sha1
    DhGroup14Sha1,
    /// diffie-hellman-group1-sha1
    DhGroup1Sha1,
    /// diffie-hellman-group-exchange-sha1
    DhGroupExchangeSha1,
    /// gss-curve25519-sha256- with Kerberos
    GssCurve25519Sha256,
    /// gss-nistp256-sha256- with Kerberos
    GssNistP256Sha256,
    /// gss-group14-sha256- with Kerberos
    GssGroup14Sha256,
    /// gss-group16-sha512- with Kerberos
    GssGroup16Sha512,
}

/// The end of the names of exchanges by GSS-API: the MD5 of the DER encoding of Kerberos' OID in Base64
/// (RFC 4462 §2).
macro_rules! kerberos {
    ($family:literal) => {
        concat!($family, "toWM5Slw5Ew8Mqkay+al2g==")
    };
}

/// The messages of a method (methods share the numbers from 30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KexFamily {
    /// KEX_HYBRID_INIT and _REPLY: strings C_INIT and S_REPLY.
    Hybrid,
    /// KEX_ECDH_INIT and _REPLY with X25519 values.
    Curve25519,
    /// KEX_ECDH_INIT and _REPLY with points of a NIST curve.
    Ecdh,
    /// KEXDH_INIT and _REPLY: mpints e and f in a fixed group.
    Dh,
    /// KEX_DH_GEX_*: the server chooses the group.
    DhGroupExchange,
}

/// How K enters the exchange hash and the key derivation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecretEncoding {
    /// As an mpint (RFC 4253 §8).
    Mpint,
    /// As a string; the hybrids' K is a hash value.
    String,
}

/// A row of [`KEXES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KexSpec {
    /// The method that this row describes.
    pub algorithm: KexAlgorithm,
    /// SSH name.
    pub name: &'static str,
    /// Hash for the exchange hash and the key derivation.
    pub hash: HashAlgorithm,
    /// Messages of the method.
    pub family: KexFamily,
    /// Encoding of the shared secret.
    pub encoding: SecretEncoding,
}

/// All methods, in the order of [`KexAlgorithm`]'s variants.
pub const KEXES: &[KexSpec] = {
    use HashAlgorithm::{Sha1, Sha256, Sha384, Sha512};
    use KexAlgorithm as A;
    use KexFamily as F;
    &[
        spec(
            A::MlKem768X25519Sha256,
            "mlkem768x25519-sha256",
            Sha256,
            F::Hybrid,
        ),
        spec(
            A::MlKem768NistP256Sha256,
            "mlkem768nistp256-sha256",
            Sha256,
            F::Hybrid,
        ),
        spec(
            A::Sntrup761X25519Sha512,
            "sntrup761x25519-sha512",
            Sha512,
            F::Hybrid,
        ),
        spec(
            A::Sntrup761X25519Sha512OpenSsh,
            "sntrup761x25519-sha512@openssh.com",
            Sha512,
            F::Hybrid,
        ),
        spec(
            A::Curve25519Sha256,
            "curve25519-sha256",
            Sha256,
            F::Curve25519,
        ),
        spec(
            A::Curve25519Sha256LibSsh,
            "curve25519-sha256@libssh.org",
            Sha256,
            F::Curve25519,
        ),
        spec(A::EcdhNistP256, "ecdh-sha2-nistp256", Sha256, F::Ecdh),
        spec(A::EcdhNistP384, "ecdh-sha2-nistp384", Sha384, F::Ecdh),
        spec(A::EcdhNistP521, "ecdh-sha2-nistp521", Sha512, F::Ecdh),
        spec(
            A::DhGroup14Sha256,
            "diffie-hellman-group14-sha256",
            Sha256,
            F::Dh,
        ),
        spec(
            A::DhGroup16Sha512,
            "diffie-hellman-group16-sha512",
            Sha512,
            F::Dh,
        ),
        spec(
            A::DhGroup18Sha512,
            "diffie-hellman-group18-sha512",
            Sha512,
            F::Dh,
        ),
        spec(
            A::DhGroupExchangeSha256,
            "diffie-hellman-group-exchange-sha256",
            Sha256,
            F::DhGroupExchange,
        ),
        spec(A::DhGroup14Sha1, "diffie-hellman-group14-sha1", Sha1, F::Dh),
        spec(A::DhGroup1Sha1, "diffie-hellman-group1-sha1", Sha1, F::Dh),
        spec(
            A::DhGroupExchangeSha1,
            "diffie-hellman-group-exchange-sha1",
            Sha1,
            F::DhGroupExchange,
        ),
        spec(
            A::GssCurve25519Sha256,
            kerberos!("gss-curve25519-sha256-"),
            Sha256,
            F::Curve25519,
        ),
        spec(
            A::GssNistP256Sha256,
            kerberos!("gss-nistp256-sha256-"),
            Sha256,
            F::Ecdh,
        ),
        spec(
            A::GssGroup14Sha256,
            kerberos!("gss-group14-sha256-"),
            Sha256,
            F::Dh,
        ),
        spec(
            A::GssGroup16Sha512,
            kerberos!("gss-group16-sha512-"),
            Sha512,
            F::Dh,
        ),
    ]
};

const fn spec(
    algorithm: KexAlgorithm,
    name: &'static str,
    hash: HashAlgorithm,
    family: KexFamily,
) -> KexSpec {
    let encoding = match family {
        KexFamily::Hybrid => SecretEncoding::String,
        _ => SecretEncoding::Mpint,
    };
    KexSpec {
        algorithm,
        name,
        hash,
        family,
        encoding,
    }
}

impl KexAlgorithm {
    /// The method with this SSH name; `None` if unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        KEXES
            .iter()
            .find(|spec| spec.name == name)
            .map(|spec| spec.algorithm)
    }

    /// The row in [`KEXES`].
    #[must_use]
    pub const fn spec(self) -> &'static KexSpec {
        &KEXES[self as usize]
    }

    /// SSH name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Hash for the exchange hash and the key derivation.
    #[must_use]
    pub const fn hash(self) -> HashAlgorithm {
        self.spec().hash
    }

    /// Messages of the method; of a method by GSS-API the encoding of its public values.
    #[must_use]
    pub const fn family(self) -> KexFamily {
        self.spec().family
    }

    /// True for a method whose proof is a MIC of GSS-API (RFC 8732): it has the messages KEXGSS_*, and no
    /// host key signs.
    #[must_use]
    pub const fn is_gss(self) -> bool {
        matches!(
            self,
            Self::GssCurve25519Sha256
                | Self::GssNistP256Sha256
                | Self::GssGroup14Sha256
                | Self::GssGroup16Sha512
        )
    }

    fn method(self) -> KexMethod {
        match self {
            Self::MlKem768X25519Sha256 => KexMethod::Hybrid(Hybrid::MlKem768X25519),
            Self::MlKem768NistP256Sha256 => KexMethod::Hybrid(Hybrid::MlKem768P256),
            Self::Sntrup761X25519Sha512 | Self::Sntrup761X25519Sha512OpenSsh => {
                KexMethod::Hybrid(Hybrid::Sntrup761X25519)
            }
            Self::Curve25519Sha256 | Self::Curve25519Sha256LibSsh | Self::GssCurve25519Sha256 => {
                KexMethod::Curve25519
            }
            Self::EcdhNistP256 | Self::GssNistP256Sha256 => KexMethod::Ecdh(Curve::P256),
            Self::EcdhNistP384 => KexMethod::Ecdh(Curve::P384),
            Self::EcdhNistP521 => KexMethod::Ecdh(Curve::P521),
            Self::DhGroup14Sha256
            | Self::DhGroup16Sha512
            | Self::DhGroup18Sha512
            | Self::GssGroup14Sha256
            | Self::GssGroup16Sha512
            | Self::DhGroup14Sha1
            | Self::DhGroup1Sha1 => KexMethod::Dh,
            Self::DhGroupExchangeSha256 | Self::DhGroupExchangeSha1 => KexMethod::NeedsGroup,
        }
    }
}

/// Implementation of a method.
enum KexMethod {
    Hybrid(Hybrid),
    Curve25519,
    Ecdh(Curve),
    Dh,
    NeedsGroup,
}

/// The shared secret K, wiped on drop.
pub struct SharedSecret {
    bytes: Zeroizing<Vec<u8>>,
    encoding: SecretEncoding,
}

impl SharedSecret {
    fn new(bytes: Zeroizing<Vec<u8>>, encoding: SecretEncoding) -> Self {
        Self { bytes, encoding }
    }

    /// The encoding of the bytes.
    #[must_use]
    pub fn encoding(&self) -> SecretEncoding {
        self.encoding
    }

    /// The string's content, or the mpint's unsigned big-endian bytes; the encoder strips leading
    /// zeros.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedSecret({:?}, ..)", self.encoding)
    }
}

/// The initiator's (client's) half, waiting for the peer's value.
pub struct Initiator(InitiatorState);

enum InitiatorState {
    Hybrid(Box<hybrid::Initiator>),
    Curve25519(curve25519::Private),
    Ecdh(EcKey),
    Dh(dh::Private),
}

impl Initiator {
    /// Generates a private value. Returns the half and its public value.
    ///
    /// # Errors
    /// [`KexError::Misuse`] for group exchange, which needs [`Self::with_group`];
    /// [`KexError::Internal`] if memory allocation fails.
    pub fn new(algorithm: KexAlgorithm) -> Result<(Self, Vec<u8>), KexError> {
        match algorithm.method() {
            KexMethod::Hybrid(which) => {
                let (half, public) = hybrid::Initiator::new(which)?;
                Ok((Self(InitiatorState::Hybrid(Box::new(half))), public))
            }
            KexMethod::Curve25519 => {
                let private = curve25519::Private::generate();
                let public = private.public().to_vec();
                Ok((Self(InitiatorState::Curve25519(private)), public))
            }
            KexMethod::Ecdh(curve) => {
                let key = EcKey::generate(curve).map_err(|_| KexError::Internal)?;
                let public = key.public_point().map_err(|_| KexError::Internal)?;
                Ok((Self(InitiatorState::Ecdh(key)), public))
            }
            KexMethod::Dh => Self::with_group(&DhGroup::fixed(algorithm)?),
            KexMethod::NeedsGroup => Err(KexError::Misuse),
        }
    }

    /// Like [`Self::new`], in a group that the server chose.
    ///
    /// # Errors
    /// [`KexError::Internal`] if memory allocation fails.
    pub fn with_group(group: &DhGroup) -> Result<(Self, Vec<u8>), KexError> {
        let (private, public) = dh::Private::generate(group)?;
        Ok((Self(InitiatorState::Dh(private)), public))
    }

    /// Computes K from the peer's value.
    ///
    /// # Errors
    /// [`KexError::WrongLength`] or [`KexError::InvalidPublicValue`] if the peer's value is
    /// invalid.
    pub fn finish(self, peer: &[u8]) -> Result<SharedSecret, KexError> {
        match self.0 {
            InitiatorState::Hybrid(half) => half.finish(peer).map(string),
            InitiatorState::Curve25519(private) => {
                private.agree(peer).map(|secret| mpint(&*secret))
            }
            InitiatorState::Ecdh(key) => agree(&key, peer),
            InitiatorState::Dh(private) => private
                .agree(peer)
                .map(|k| SharedSecret::new(k, SecretEncoding::Mpint)),
        }
    }
}

impl fmt::Debug for Initiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Initiator(..)")
    }
}

/// The responder's (server's) half: returns its public value and K for the peer's value.
///
/// # Errors
/// As [`Initiator::new`] and [`Initiator::finish`].
pub fn respond(algorithm: KexAlgorithm, peer: &[u8]) -> Result<(Vec<u8>, SharedSecret), KexError> {
    match algorithm.method() {
        KexMethod::Hybrid(which) => {
            let (reply, secret) = hybrid::respond(which, peer)?;
            Ok((reply, string(secret)))
        }
        KexMethod::Curve25519 => {
            let private = curve25519::Private::generate();
            let secret = private.agree(peer)?;
            Ok((private.public().to_vec(), mpint(&*secret)))
        }
        KexMethod::Ecdh(curve) => {
            let key = EcKey::generate(curve).map_err(|_| KexError::Internal)?;
            let secret = agree(&key, peer)?;
            let public = key.public_point().map_err(|_| KexError::Internal)?;
            Ok((public, secret))
        }
        KexMethod::Dh => respond_with_group(&DhGroup::fixed(algorithm)?, peer),
        KexMethod::NeedsGroup => Err(KexError::Misuse),
    }
}

/// Like [`respond`], in a group that the server chose for group exchange.
///
/// # Errors
/// As [`Initiator::finish`].
pub fn respond_with_group(
    group: &DhGroup,
    peer: &[u8],
) -> Result<(Vec<u8>, SharedSecret), KexError> {
    // Check the peer's value before the expensive exponentiation.
    group.check_public(peer)?;
    let (private, public) = dh::Private::generate(group)?;
    let secret = private.agree(peer)?;
    Ok((public, SharedSecret::new(secret, SecretEncoding::Mpint)))
}

fn agree(key: &EcKey, peer: &[u8]) -> Result<SharedSecret, KexError> {
    if peer.len() != key.curve().point_len() {
        return Err(KexError::WrongLength);
    }
    key.agree(peer)
        .map(|secret| SharedSecret::new(secret, SecretEncoding::Mpint))
        .map_err(|_| KexError::InvalidPublicValue)
}

fn mpint(bytes: &[u8]) -> SharedSecret {
    SharedSecret::new(Zeroizing::new(bytes.to_vec()), SecretEncoding::Mpint)
}

fn string(bytes: Zeroizing<Vec<u8>>) -> SharedSecret {
    SharedSecret::new(bytes, SecretEncoding::String)
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
