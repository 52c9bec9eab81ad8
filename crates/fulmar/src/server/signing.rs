//! The use of the private host keys: signs exchange hashes and the proofs of
//! `hostkeys-prove-00@openssh.com`; also chooses Diffie-Hellman groups.

use crypto::kex::{DhGroup, KexAlgorithm};
use keys::{PrivateKey, SignatureAlgorithm};
use proto::Connection;

use super::config::Config;
use crate::Error;

/// Smallest group offered, whatever the client requests, bits (RFC 8270 §3).
const MIN_GROUP_BITS: usize = 2048;

fn key_of<'c>(config: &'c Config, blob: &[u8]) -> Option<&'c PrivateKey> {
    config
        .host_keys
        .iter()
        .find(|key| key.public().blob() == blob)
}

/// Answers `SignExchangeHash`.
pub(super) fn exchange(
    connection: &mut Connection,
    config: &Config,
    algorithm: &str,
    key: &[u8],
    hash: &[u8],
) -> Result<(), Error> {
    let signature = key_of(config, key)
        .zip(SignatureAlgorithm::from_name(algorithm))
        .and_then(|(key, algorithm)| key.sign(algorithm, hash).ok())
        .ok_or(proto::Error::Bug("host key does not sign"))?;
    Ok(connection.provide_host_signature(&signature)?)
}

/// Answers `HostKeysProve` for all of the keys or for none.
pub(super) fn prove(
    connection: &mut Connection,
    config: &Config,
    keys: &[Vec<u8>],
) -> Result<(), Error> {
    let mut signatures = Vec::new();
    for blob in keys {
        let data = connection.hostkeys_prove_data(blob)?;
        let signature = key_of(config, blob).and_then(|key| {
            // RFC 8332 requires SHA-2; the key's strongest algorithm is first in the list.
            let algorithm = key.key_type().algorithms().first()?;
            key.sign(*algorithm, &data).ok()
        });
        match signature {
            Some(signature) => signatures.push(signature),
            None => return Ok(connection.provide_host_key_proofs(None)?),
        }
    }
    Ok(connection.provide_host_key_proofs(Some(&signatures))?)
}

/// Answers `ChooseGroup` from the groups of RFC 3526: the smallest that is as large as the
/// client prefers, else the largest that it allows.
pub(super) fn choose_group(
    connection: &mut Connection,
    min: u32,
    preferred: u32,
    max: u32,
) -> Result<(), Error> {
    let bits = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let range = bits(min).max(MIN_GROUP_BITS)..=bits(max);
    let fitting = [
        KexAlgorithm::DhGroup14Sha256,
        KexAlgorithm::DhGroup16Sha512,
        KexAlgorithm::DhGroup18Sha512,
    ]
    .into_iter()
    .filter_map(|algorithm| DhGroup::fixed(algorithm).ok())
    .filter(|group| range.contains(&group.bits()));
    let mut chosen: Option<DhGroup> = None;
    for group in fitting {
        let is_enough = group.bits() >= bits(preferred);
        chosen = Some(group);
        if is_enough {
            break;
        }
    }
    Ok(connection.provide_group(chosen)?)
}
