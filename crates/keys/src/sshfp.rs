//! SSHFP resource records of the DNS: a host key's fingerprints (RFC 4255 §3, numbers of RFC 6594
//! and RFC 7479).

use std::fmt::Write;

use crypto::hash::HashAlgorithm;

use crate::{KeyType, PresentedKey};

/// The hashes that have a number.
pub const HASHES: [HashAlgorithm; 2] = [HashAlgorithm::Sha1, HashAlgorithm::Sha256];

/// What OpenSSH says of a key or hash without a number.
pub const NO_RECORD: &str = "export_dns_rr: unsupported algorithm and/or digest_type";

/// The number of a key's algorithm; `None` for keys that have none.
#[must_use]
pub fn algorithm(key_type: KeyType) -> Option<u8> {
    match key_type {
        KeyType::Rsa => Some(1),
        KeyType::EcdsaP256 | KeyType::EcdsaP384 | KeyType::EcdsaP521 => Some(3),
        KeyType::Ed25519 => Some(4),
        KeyType::SkEd25519 | KeyType::SkEcdsaP256 | KeyType::MlDsa44Ed25519 => None,
    }
}

/// Formats one record of the host `name`, with `generic` in the format for records of any type (RFC
/// 3597 §5); `None` for keys and hashes that have no number, and for certificates.
#[must_use]
pub fn record(
    name: &str,
    key: &PresentedKey,
    hash: HashAlgorithm,
    generic: bool,
) -> Option<String> {
    let algorithm = match key {
        PresentedKey::Plain(key) => algorithm(key.key_type())?,
        PresentedKey::Certificate(_) => return None,
    };
    let kind = match hash {
        HashAlgorithm::Sha1 => 1,
        HashAlgorithm::Sha256 => 2,
        _ => return None,
    };
    let digest = hash.digest(&key.blob());
    let mut out = if generic {
        format!(
            "{name} IN TYPE44 \\# {} {algorithm:02x} {kind:02x} ",
            2 + digest.len()
        )
    } else {
        format!("{name} IN SSHFP {algorithm} {kind} ")
    };
    for byte in digest.iter() {
        let _ = write!(out, "{byte:02x}");
    }
    Some(out)
}
