//! The server's proof that it holds its host key, checked by the client (RFC 4253 §8).
//!
//! Whether the key is the right one for this host is not decided here: the owner answers
//! `Event::HostKey`.

use keys::{PresentedKey, SignatureAlgorithm, VerifyPolicy};

use crate::Error;

/// Checks that `key` is of the negotiated kind and that `signature` is its signature over `hash`.
///
/// # Errors
/// [`Error::HostKeySignature`], whatever is wrong.
pub(super) fn verify(
    algorithm: SignatureAlgorithm,
    key: &[u8],
    hash: &[u8],
    signature: &[u8],
    min_rsa_bits: usize,
) -> Result<(), Error> {
    let presented =
        PresentedKey::from_blob_for(algorithm, key).map_err(|_| Error::HostKeySignature)?;
    let policy = VerifyPolicy {
        min_rsa_bits,
        ..VerifyPolicy::default()
    };
    presented
        .key()
        .verify(algorithm, hash, signature, &policy)
        .map_err(|_| Error::HostKeySignature)
}
