//! Client-side verification of the server's proof that it holds its host key (RFC 4253 §8).
//!
//! Whether the key belongs to this host is decided by the owner, who answers `Event::HostKey`.

use keys::{Certificate, KeyError, PresentedKey, SignatureAlgorithm, VerifyError, VerifyPolicy};

use crate::Error;

/// Checks that `key` is of the negotiated type and that `signature` is its signature over `hash`. The
/// authority of a certificate is not parsed if it signs with none of `authorities`: the owner then
/// decides about the plain key.
///
/// # Errors
/// [`Error::HostKeySignature`], or [`Error::HostKeyTooSmall`] for an RSA key of fewer than
/// `min_rsa_bits` bits, whose signature is not checked.
pub(super) fn verify(
    algorithm: SignatureAlgorithm,
    key: &[u8],
    hash: &[u8],
    signature: &[u8],
    authorities: &[SignatureAlgorithm],
    min_rsa_bits: usize,
) -> Result<(), Error> {
    let plain = match PresentedKey::from_blob_permitted(algorithm, key, authorities) {
        Ok(presented) => Ok(presented.key().clone()),
        Err(KeyError::AuthorityAlgorithm) => Certificate::certified_key(key),
        Err(reason) => Err(reason),
    };
    let plain = plain.map_err(|_| Error::HostKeySignature)?;
    let policy = VerifyPolicy::of_host(min_rsa_bits);
    plain
        .verify(algorithm, hash, signature, &policy)
        .map_err(|error| match error {
            VerifyError::KeyTooSmall { bits, minimum } => Error::HostKeyTooSmall { bits, minimum },
            _ => Error::HostKeySignature,
        })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use keys::certificate::CertificateFields;
    use keys::{CertificateKind, PrivateKey};

    use super::*;

    #[test]
    fn the_key_of_any_certificate_must_have_signed() {
        let host = PrivateKey::from_ed25519_seed(&[1; 32]);
        let authority = PrivateKey::from_ed25519_seed(&[2; 32]);
        let fields = CertificateFields {
            key: host.public().clone(),
            serial: 1,
            kind: CertificateKind::Host,
            key_id: "host".into(),
            principals: Vec::new(),
            valid_after: 0,
            valid_before: u64::MAX,
            critical_options: Vec::new(),
            extensions: Vec::new(),
        };
        let certificate = fields
            .sign(&authority, SignatureAlgorithm::Ed25519)
            .unwrap();
        let algorithm = SignatureAlgorithm::Ed25519Cert;
        let signature = host.sign(algorithm.plain(), b"hash").unwrap();
        let judged = |blob: &[u8], signature: &[u8], authorities: &[SignatureAlgorithm]| {
            verify(algorithm, blob, b"hash", signature, authorities, 2048)
        };
        let other = authority.sign(algorithm.plain(), b"hash").unwrap();
        let mut forged = certificate.blob().to_vec();
        *forged.last_mut().unwrap() ^= 1;
        for (authorities, is_forgery_seen) in [
            ([SignatureAlgorithm::Ed25519], true),
            ([SignatureAlgorithm::RsaSha512], false),
        ] {
            let blob = certificate.blob();
            assert_eq!(judged(blob, &signature, &authorities), Ok(()));
            assert_eq!(
                judged(blob, &other, &authorities),
                Err(Error::HostKeySignature)
            );
            // Where the authority does not count, nobody looks at its signature.
            let seen = judged(&forged, &signature, &authorities).is_err();
            assert_eq!(seen, is_forgery_seen);
        }
    }
}
