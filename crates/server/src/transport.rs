//! Converts sshd_config's options to the limits and algorithm lists of a connection, for both
//! processes of a login.

use core::mem::take;

use config::algorithms::key_exchanges;
use config::server::ServerOptions;
use config::types::Compression;
use crypto::kex::{DhGroup, DhPolicy, Primality};
use privsep::{Group, GssExchange, GssOutcome, HostKey};
use proto::{Connection, OpeningBytes, ServerHostKey, TransportConfig};
use wire::names;

use crate::log::Logger;
use crate::rpc::{Rpc, RpcError};

/// Makes `proto`'s configuration. Moves the algorithm lists out of the options, because nothing
/// else in these processes uses them.
pub(crate) fn config(options: &mut ServerOptions) -> TransportConfig {
    let mut compression = vec![names::COMPRESSION_NONE.to_owned()];
    if options.compression.method.is_on() {
        compression.push(names::COMPRESSION_ZLIB_OPENSSH.to_owned());
    }
    // Hardware compression libraries produce zlib streams only.
    if options.compression.method == Compression::Zstd && options.compression.hardware().is_none() {
        compression.push(names::COMPRESSION_ZSTD.to_owned());
    }
    let limit = options.algorithms.rekey_limit;
    let alive_seconds = u64::from(options.connection.client_alive_interval_s);
    TransportConfig {
        kex: key_exchanges(
            options.authentication.gssapi_key_exchange,
            &options.algorithms.gssapi_kex_algorithms,
            &options.algorithms.kex_algorithms,
        ),
        host_key_algorithms: take(&mut options.algorithms.host_key_algorithms),
        ciphers: take(&mut options.algorithms.ciphers),
        macs: take(&mut options.algorithms.macs),
        compression,
        opening: OpeningBytes {
            names_openssh: options.connection.version_names_openssh,
            comment: options
                .connection
                .version_addendum
                .take()
                .unwrap_or_default(),
            cookie: None,
        },
        rekey_bytes: (limit.bytes > 0).then_some(limit.bytes),
        rekey_ms: (limit.seconds > 0).then_some(u64::from(limit.seconds) * 1000),
        alive_interval_ms: (alive_seconds > 0).then_some(alive_seconds * 1000),
        // 0 sends keep-alive requests but never disconnects (sshd_config(5), ClientAliveCountMax).
        alive_count_max: match options.connection.client_alive_count_max {
            0 => u32::MAX,
            count => count,
        },
        min_rsa_bits: usize::try_from(options.algorithms.required_rsa_size).unwrap_or(usize::MAX),
        peer_signature_algorithms: signature_algorithms(take(
            &mut options.algorithms.pubkey_accepted_algorithms,
        )),
        max_channels: TransportConfig::channels_in(options.limits.window_memory_bytes),
        answers_forward_requests: true,
        deflate: proto::DeflateSettings {
            level: options.compression.level,
            adaptive: options.compression.adaptive,
        },
        window_memory_bytes: options.limits.window_memory_bytes,
        ..TransportConfig::default()
    }
}

/// Parses the group that the monitor has chosen; `None` if the monitor has none that fits.
pub(crate) fn group(answer: &Group, log: &Logger<'_>) -> Option<DhGroup> {
    if answer.p.is_empty() || answer.g.is_empty() {
        return None;
    }
    // The group comes from this server's moduli file, whose primes were tested when it was made.
    let policy = DhPolicy {
        primality: Primality::Trusted,
        ..DhPolicy::default()
    };
    match DhGroup::new(&answer.p, &answer.g, &policy) {
        Ok(group) => Some(group),
        Err(error) => {
            log.error(&format!("ignoring a group of the moduli file: {error}"));
            None
        }
    }
}

/// Has the monitor take the client's token of a key exchange by GSS-API, and sends what follows.
///
/// # Errors
/// Errors of the RPC, and those of `proto` in which the exchange ends.
pub(crate) fn accept_token<E>(
    rpc: &Rpc,
    connection: &mut Connection,
    kex: &str,
    hash: &[u8],
    token: Vec<u8>,
) -> Result<(), E>
where
    E: From<RpcError> + From<proto::Error>,
{
    let outcome: GssOutcome = rpc.ask(&GssExchange {
        kex_algorithm: kex.to_owned(),
        hash: hash.to_vec(),
        token,
    })?;
    match outcome {
        GssOutcome::Continue { token } => connection.continue_gss(&token)?,
        GssOutcome::Complete { token, mic } => connection.complete_gss(&token, &mic)?,
        GssOutcome::Refused { token } => return Err(connection.refuse_gss(&token).into()),
    }
    Ok(())
}

/// The names for `server-sig-algs` (RFC 8308 §3.1) that follow from PubkeyAcceptedAlgorithms: the
/// algorithms that appear in signatures. For a certificate that is the algorithm of its key, which
/// clients look for before they offer an RSA certificate.
pub(crate) fn signature_algorithms(accepted: Vec<String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in accepted {
        let name = match keys::SignatureAlgorithm::from_name(&name) {
            Some(algorithm) => algorithm.plain().name().to_owned(),
            None => name,
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Converts the host keys to `proto`'s type.
pub(crate) fn host_keys(keys: &[HostKey]) -> Vec<ServerHostKey> {
    keys.iter()
        .map(|key| ServerHostKey {
            algorithms: key.algorithms.clone(),
            blob: key.blob.clone(),
        })
        .collect()
}

/// The monitor's index of the host key with this blob.
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
