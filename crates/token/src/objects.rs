//! Reads the public keys of a token's objects, and makes SSH's signatures of those of PKCS #11.

use crypto::hash::HashAlgorithm;
use keys::{KeyType, PublicKey, SignatureAlgorithm, x509};
use sys::cryptoki::{
    Cryptoki, CryptokiHandle, CryptokiNumber, attribute, class, key_type, mechanism, number_value,
};
use wire::Put;

/// Most keys of a token.
const MAX_KEYS: usize = 256;
/// CKC_X_509
const X509: CryptokiNumber = 0;

/// A key that a token lists.
pub(crate) struct FoundKey {
    pub(crate) public: PublicKey,
    pub(crate) label: String,
    /// CKA_ID, by which the private key is found.
    pub(crate) id: Vec<u8>,
}

/// The public keys of a token, then those of its X.509 certificates; each key once. Keys of other types
/// and keys without CKA_ID, which no private key can be found by, are left out.
pub(crate) fn keys(cryptoki: &Cryptoki, session: CryptokiHandle) -> Vec<FoundKey> {
    let mut found: Vec<FoundKey> = Vec::new();
    let is_x509 = number_value(X509);
    let public = number_value(class::PUBLIC_KEY);
    let certificate = number_value(class::CERTIFICATE);
    let searches = [
        vec![(attribute::CLASS, &public[..])],
        vec![
            (attribute::CLASS, &certificate[..]),
            (attribute::CERTIFICATE_TYPE, &is_x509[..]),
        ],
    ];
    for wanted in searches {
        let is_certificate = wanted.len() > 1;
        for object in cryptoki.find(session, &wanted).unwrap_or_default() {
            let id = cryptoki.attribute(session, object, attribute::ID);
            let Some(id) = id.filter(|id| !id.is_empty()) else {
                continue;
            };
            let key = match is_certificate {
                true => cryptoki
                    .attribute(session, object, attribute::VALUE)
                    .and_then(|der| x509::public_key_of_certificate(&der)),
                false => public_key(cryptoki, session, object),
            };
            let Some(public) = key else { continue };
            let is_known = found.iter().any(|other| other.public == public);
            if is_known || found.len() >= MAX_KEYS {
                continue;
            }
            let label = cryptoki.attribute(session, object, attribute::LABEL);
            found.push(FoundKey {
                public,
                label: String::from_utf8_lossy(&label.unwrap_or_default()).into_owned(),
                id,
            });
        }
    }
    found
}

fn public_key(
    cryptoki: &Cryptoki,
    session: CryptokiHandle,
    object: CryptokiHandle,
) -> Option<PublicKey> {
    let value = |kind| cryptoki.attribute(session, object, kind);
    match cryptoki.number(session, object, attribute::KEY_TYPE)? {
        key_type::RSA => x509::rsa(
            &value(attribute::PUBLIC_EXPONENT)?,
            &value(attribute::MODULUS)?,
        ),
        key_type::EC => x509::elliptic(&value(attribute::EC_PARAMS)?, &value(attribute::EC_POINT)?),
        key_type::EC_EDWARDS => {
            x509::edwards(&value(attribute::EC_PARAMS)?, &value(attribute::EC_POINT)?)
        }
        _ => None,
    }
}

/// The private key with this CKA_ID that signs.
pub(crate) fn private_key(
    cryptoki: &Cryptoki,
    session: CryptokiHandle,
    id: &[u8],
) -> Result<Option<CryptokiHandle>, sys::cryptoki::CryptokiError> {
    let private = number_value(class::PRIVATE_KEY);
    let wanted = [
        (attribute::CLASS, &private[..]),
        (attribute::ID, id),
        (attribute::SIGN, &[1][..]),
    ];
    let found = cryptoki.find(session, &wanted)?;
    Ok(found.first().copied())
}

/// The input of the token's signature for a message, and its mechanism.
pub(crate) fn to_sign(
    algorithm: SignatureAlgorithm,
    message: &[u8],
) -> Option<(CryptokiNumber, Vec<u8>)> {
    /// DER of DigestInfo before the digest (RFC 8017 §9.2).
    const SHA256: &[u8] =
        b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20";
    const SHA1: &[u8] = b"\x30\x21\x30\x09\x06\x05\x2b\x0e\x03\x02\x1a\x05\x00\x04\x14";
    const SHA512: &[u8] =
        b"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40";
    let digest = |hash: HashAlgorithm, prefix: &[u8]| {
        let mut out = prefix.to_vec();
        out.extend_from_slice(hash.digest(message).as_ref());
        out
    };
    Some(match algorithm.plain() {
        SignatureAlgorithm::RsaSha1 => (mechanism::RSA_PKCS, digest(HashAlgorithm::Sha1, SHA1)),
        SignatureAlgorithm::RsaSha256 => {
            (mechanism::RSA_PKCS, digest(HashAlgorithm::Sha256, SHA256))
        }
        SignatureAlgorithm::RsaSha512 => {
            (mechanism::RSA_PKCS, digest(HashAlgorithm::Sha512, SHA512))
        }
        SignatureAlgorithm::EcdsaP256 => (mechanism::ECDSA, digest(HashAlgorithm::Sha256, &[])),
        SignatureAlgorithm::EcdsaP384 => (mechanism::ECDSA, digest(HashAlgorithm::Sha384, &[])),
        SignatureAlgorithm::EcdsaP521 => (mechanism::ECDSA, digest(HashAlgorithm::Sha512, &[])),
        SignatureAlgorithm::Ed25519 => (mechanism::EDDSA, message.to_vec()),
        _ => return None,
    })
}

/// The signature blob for the token's output; `None` if its length is wrong.
pub(crate) fn signature_blob(
    key: &PublicKey,
    algorithm: SignatureAlgorithm,
    signature: &[u8],
) -> Option<Vec<u8>> {
    let mut inner = Vec::new();
    match key {
        PublicKey::Ecdsa { curve, .. } => {
            if signature.len() != 2 * curve.field_bytes() {
                return None;
            }
            let (r, s) = signature.split_at_checked(curve.field_bytes())?;
            inner.put_mpint(r);
            inner.put_mpint(s);
        }
        PublicKey::Rsa { modulus, .. } => {
            // Some tokens leave out leading zeros.
            let missing = modulus.len().checked_sub(signature.len())?;
            inner.resize(missing, 0);
            inner.extend_from_slice(signature);
        }
        _ if key.key_type() == KeyType::Ed25519 && signature.len() == 64 => {
            inner.extend_from_slice(signature);
        }
        _ => return None,
    }
    let mut blob = Vec::new();
    blob.put_string(algorithm.plain().name().as_bytes());
    blob.put_string(&inner);
    Some(blob)
}
