//! From sshd_config's options to the limits and algorithm lists of a connection, the same for
//! both processes of a login.

use core::mem::take;

use config::server::ServerOptions;
use crypto::kex::{DhGroup, DhPolicy, Primality};
use privsep::{Group, HostKey};
use proto::{ServerHostKey, TransportConfig};
use wire::names;

use crate::log::Logger;

/// Channels of all types that one connection may have open, forwardings included.
const MAX_CHANNELS: usize = 1024;

/// What `proto` is to use. The lists of algorithms are gone from the options then: nothing else in
/// these processes asks for them.
pub(crate) fn config(options: &mut ServerOptions) -> TransportConfig {
    let mut compression = vec![names::COMPRESSION_NONE.to_owned()];
    if options.compression {
        compression.push(names::COMPRESSION_ZLIB_OPENSSH.to_owned());
    }
    // Libraries of others make zlib's streams alone.
    if options.compression_zstd && options.hardware().is_none() {
        compression.push(names::COMPRESSION_ZSTD.to_owned());
    }
    let limit = options.rekey_limit;
    let alive_seconds = u64::from(options.client_alive_interval_s);
    TransportConfig {
        kex: take(&mut options.kex_algorithms),
        host_key_algorithms: take(&mut options.host_key_algorithms),
        ciphers: take(&mut options.ciphers),
        macs: take(&mut options.macs),
        compression,
        version_comment: options.version_addendum.take().unwrap_or_default(),
        rekey_bytes: (limit.bytes > 0).then_some(limit.bytes),
        rekey_ms: (limit.seconds > 0).then_some(u64::from(limit.seconds) * 1000),
        alive_interval_ms: (alive_seconds > 0).then_some(alive_seconds * 1000),
        // 0 asks but never gives up (sshd_config(5), ClientAliveCountMax).
        alive_count_max: match options.client_alive_count_max {
            0 => u32::MAX,
            count => count,
        },
        min_rsa_bits: usize::try_from(options.required_rsa_size).unwrap_or(usize::MAX),
        peer_signature_algorithms: signature_algorithms(take(
            &mut options.pubkey_accepted_algorithms,
        )),
        max_channels: MAX_CHANNELS,
        deflate: proto::DeflateSettings {
            level: options.compression_level,
            adaptive: options.compression_adaptive,
        },
        window_memory_bytes: options.window_memory_bytes,
        ..TransportConfig::default()
    }
}

/// The group that the monitor has chosen; none where it has none that fits.
pub(crate) fn group(answer: &Group, log: &Logger<'_>) -> Option<DhGroup> {
    if answer.p.is_empty() || answer.g.is_empty() {
        return None;
    }
    // It comes from our own moduli file, tested when it was made.
    let policy = DhPolicy {
        primality: Primality::Trusted,
        ..DhPolicy::default()
    };
    match DhGroup::new(&answer.p, &answer.g, &policy) {
        Ok(group) => Some(group),
        Err(error) => {
            log.error(&format!("a group of the moduli file is refused: {error}"));
            None
        }
    }
}

/// What `server-sig-algs` names (RFC 8308 §3.1) for PubkeyAcceptedAlgorithms: the algorithms that
/// stand in signatures. For a certificate that is the one of the key inside, which clients look
/// for before they offer an RSA certificate.
pub(crate) fn signature_algorithms(accepted: Vec<String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in accepted {
        let name = match name.split_once("-cert-v01@openssh.com") {
            // The names of security keys end with the domain themselves.
            Some((stem, "")) if stem.starts_with("sk-") => format!("{stem}@openssh.com"),
            Some((stem, "")) => stem.to_owned(),
            _ => name,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The host keys as `proto` wants them.
pub(crate) fn host_keys(keys: &[HostKey]) -> Vec<ServerHostKey> {
    keys.iter()
        .map(|key| ServerHostKey {
            algorithms: key.algorithms.clone(),
            blob: key.blob.clone(),
        })
        .collect()
}

/// The index by which the monitor knows the host key with this blob.
pub(crate) fn key_index(keys: &[HostKey], blob: &[u8]) -> Option<u32> {
    keys.iter()
        .find(|key| key.blob == blob)
        .map(|key| key.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_announced_by_the_algorithms_of_their_signatures() {
        let announced = |names: &[&str]| {
            let accepted = names.iter().map(|&name| name.to_owned()).collect();
            signature_algorithms(accepted)
        };
        let certificates = [
            "rsa-sha2-512-cert-v01@openssh.com",
            "ssh-ed25519-cert-v01@openssh.com",
        ];
        assert_eq!(announced(&certificates), ["rsa-sha2-512", "ssh-ed25519"]);
        for algorithm in keys::SignatureAlgorithm::ALL {
            assert_eq!(announced(&[algorithm.name()]), [algorithm.plain().name()]);
        }
        let mixed = ["ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519", "x"];
        assert_eq!(announced(&mixed), ["ssh-ed25519", "x"]);
    }
}
