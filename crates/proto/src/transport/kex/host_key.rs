//! Client-side verification of the server's proof that it holds its host key (RFC 4253 §8).
//!
//! Whether the key belongs to this host is decided by the owner, who answers `Event::HostKey`.

use keys::{KeyError, PresentedKey, SignatureAlgorithm, VerifyPolicy};

use crate::Error;

/// Checks that `key` is of the negotiated type and that `signature` is its signature over `hash`. A
/// certificate must be signed with one of the algorithms `authorities`.
///
/// # Errors
/// [`Error::HostKeyAuthority`] for a certificate signed with another algorithm,
/// [`Error::HostKeySignature`] for anything else.
pub(super) fn verify(
    algorithm: SignatureAlgorithm,
    key: &[u8],
    hash: &[u8],
    signature: &[u8],
    authorities: &[SignatureAlgorithm],
    min_rsa_bits: usize,
) -> Result<(), Error> {
    let presented = PresentedKey::from_blob_permitted(algorithm, key, authorities);
    let presented = presented.map_err(|reason| match reason {
        KeyError::AuthorityAlgorithm => Error::HostKeyAuthority,
        _ => Error::HostKeySignature,
    })?;
    let policy = VerifyPolicy {
        min_rsa_bits,
        ..VerifyPolicy::default()
    };
    presented
        .key()
        .verify(algorithm, hash, signature, &policy)
        .map_err(|_| Error::HostKeySignature)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use keys::certificate::CertificateFields;
    use keys::{CertificateKind, PrivateKey};

    use super::*;

    #[test]
    fn a_certificate_of_an_authority_that_signs_otherwise_than_permitted_is_refused() {
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
        let judged = |authorities: &[SignatureAlgorithm]| {
            verify(
                algorithm,
                certificate.blob(),
                b"hash",
                &signature,
                authorities,
                2048,
            )
        };
        assert_eq!(judged(&[SignatureAlgorithm::Ed25519]), Ok(()));
        assert_eq!(
            judged(&[SignatureAlgorithm::RsaSha512]),
            Err(Error::HostKeyAuthority)
        );
    }
}
