//! Algorithms and limits of a connection. Algorithms are wire names in order of preference; they
//! are resolved when the connection is created.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use compress::CompressionSettings as DeflateSettings;

use crypto::cipher::CipherAlgorithm;
use crypto::kex::KexAlgorithm;
use crypto::mac::MacAlgorithm;
use keys::SignatureAlgorithm;
use wire::{algorithms, names};

use crate::limits::LEAST_WINDOW_BYTES;
use crate::{Error, Millis};

/// Default for the total size of a connection's receive windows, bytes: twice the bandwidth-delay
/// product of 1 GB/s and 128 ms.
const WINDOW_MEMORY_BYTES: u64 = 256 * 1024 * 1024;

/// Side of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that connected.
    Client,
    /// The side that was connected to.
    Server,
}

/// Compression of one direction (RFC 4253 §6.2). Only OpenSSH's delayed form of zlib is supported,
/// since plain `zlib` would inflate bytes of peers that have not logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    ZlibOpenssh,
    /// Fulmar's own extension.
    Zstd,
}

impl Compression {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            names::COMPRESSION_NONE => Some(Self::None),
            names::COMPRESSION_ZLIB_OPENSSH => Some(Self::ZlibOpenssh),
            names::COMPRESSION_ZSTD => Some(Self::Zstd),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => names::COMPRESSION_NONE,
            Self::ZlibOpenssh => names::COMPRESSION_ZLIB_OPENSSH,
            Self::Zstd => names::COMPRESSION_ZSTD,
        }
    }
}

/// Algorithms and limits of a connection. Lists hold wire names in order of preference. Fields may be
/// added: begin with [`TransportConfig::default`], whose lists are a server's.
#[derive(Debug, Clone)]
pub struct TransportConfig {
    /// Key exchange methods (RFC 4253 §7.1).
    pub kex: Vec<String>,
    /// Host key algorithms (RFC 4253 §7.1). Default: Ed25519 and RSA with SHA-2.
    pub host_key_algorithms: Vec<String>,
    /// Algorithms with which a certificate authority may sign the server's certificate. The authority
    /// of another certificate is not parsed: the owner decides about the plain key.
    pub ca_signature_algorithms: Vec<String>,
    /// Ciphers, both directions.
    pub ciphers: Vec<String>,
    /// MACs, both directions.
    pub macs: Vec<String>,
    /// `none`, `zlib@openssh.com` or Fulmar's `zstd2@` extension; both directions.
    pub compression: Vec<String>,
    /// Settings for compressing the data that we send, if compression is negotiated.
    pub deflate: DeflateSettings,
    /// The first bytes that we send.
    pub opening: OpeningBytes,
    /// Rekey after this many bytes in either direction (RFC 4253 §9); `None`, the default, for the
    /// cipher's own limit.
    pub rekey_bytes: Option<u64>,
    /// Rekey after this many milliseconds; `None`, the default, for no limit.
    pub rekey_ms: Option<Millis>,
    /// After login, send a keepalive after this many milliseconds without input; `None`, the default,
    /// for never.
    pub alive_interval_ms: Option<Millis>,
    /// Number of unanswered keepalives, after which the connection ends: with 0 the first silent interval
    /// ends it, unasked; with `u32::MAX` none does. Default: 3.
    pub alive_count_max: u32,
    /// RSA keys below this many bits are refused. Default: 2048.
    pub min_rsa_bits: usize,
    /// Server: signature algorithms announced in `server-sig-algs` (RFC 8308 §3.1).
    pub peer_signature_algorithms: Vec<String>,
    /// Maximum number of open channels. Default: 4,096, as many as `window_memory_bytes` suffices for.
    pub max_channels: usize,
    /// Server: the owner answers requests to listen for the client (`Event::GlobalRequest`); false
    /// refuses them. Default: false.
    pub answers_forward_requests: bool,
    /// Maximum total size of the receive windows of all channels, bytes: the amount of a peer's
    /// data that is kept while no consumer takes it. Default: 256 MiB. Below 64 KiB no channel can
    /// be opened.
    pub window_memory_bytes: u64,
    /// Client: smallest and largest size for group exchange, bits (RFC 4419 §3). The preferred size is
    /// as strong as the ciphers and MACs. Default: 2048, 8192.
    pub group_exchange_bits: (u32, u32),
    /// Client: the guess of the key exchange.
    pub guess: KexGuess,
    /// True for one of thousands of connections of a process: while it is idle it keeps no buffer, not
    /// even the few that keystrokes need.
    pub saves_memory: bool,
}

impl TransportConfig {
    /// The [`ca_signature_algorithms`](Self::ca_signature_algorithms) that this build supports.
    #[must_use]
    pub fn authorities(&self) -> Vec<SignatureAlgorithm> {
        let names = self.ca_signature_algorithms.iter();
        names
            .filter_map(|name| SignatureAlgorithm::from_name(name))
            .collect()
    }
}

/// Our identification line and the cookie of our first KEXINIT. By default the line has our name alone, and
/// the cookie is random.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpeningBytes {
    /// The line names OpenSSH first and ourselves in the comment, for peers that use OpenSSH's extensions
    /// only with a server of that name.
    pub names_openssh: bool,
    /// Appended to the line after a space; empty for none.
    pub comment: String,
    /// Cookie of the first KEXINIT instead of a random one, for a server whose acceptor sent
    /// identification line and KEXINIT before the connection was created. A cookie is used once.
    pub cookie: Option<[u8; 16]>,
}

/// What a client assumes about the server's preferences. By default nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KexGuess {
    /// Assume that the server prefers the first names of `kex` and `host_key_algorithms` too, and
    /// send the first packet of that method right after KEXINIT (`first_kex_packet_follows`, RFC
    /// 4253 §7). No effect with group exchange.
    pub first_packet_follows: bool,
    /// With `first_packet_follows`: the first KEXINIT may be a short one.
    pub short: Option<ShortOffer>,
}

/// Contents of a short first KEXINIT, in addition to the first names of `kex` and
/// `host_key_algorithms`, so that the first flight fits into the SYN of TCP Fast Open. The result
/// equals that of the full lists: if the full lists would lead to other algorithms, the exchange
/// ends with [`Error::ShortOffer`]. If a name is not configured, the full lists are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShortOffer {
    /// The cipher that the server agreed to in both directions, for the same full lists.
    pub cipher: String,
    /// The MAC, if the cipher needs one.
    pub mac: Option<String>,
    /// The server reads Fulmar's own, shorter encoding.
    pub understood: bool,
    /// Maximum size of the first flight, bytes. If the full lists fit, or not even the short ones
    /// do, the full lists are sent.
    pub flight_bytes: usize,
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

impl TransportConfig {
    /// Number of channels for which a window memory of `bytes` suffices; 4,096 for the default.
    #[must_use]
    pub fn channels_in(bytes: u64) -> usize {
        usize::try_from(bytes / u64::from(LEAST_WINDOW_BYTES)).unwrap_or(usize::MAX)
    }
}

impl Default for TransportConfig {
    fn default() -> Self {
        Self {
            kex: strings(algorithms::SERVER_KEX),
            host_key_algorithms: strings(&["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]),
            ca_signature_algorithms: strings(algorithms::CA_SIGNATURES),
            ciphers: strings(algorithms::ciphers(crypto::arch::has_fast_aes())),
            macs: strings(algorithms::MACS),
            compression: strings(&[names::COMPRESSION_NONE, names::COMPRESSION_ZLIB_OPENSSH]),
            deflate: DeflateSettings::default(),
            opening: OpeningBytes::default(),
            rekey_bytes: None,
            rekey_ms: None,
            alive_interval_ms: None,
            alive_count_max: 3,
            min_rsa_bits: keys::DEFAULT_MIN_RSA_BITS,
            peer_signature_algorithms: strings(algorithms::PLAIN_SIGNATURES),
            max_channels: Self::channels_in(WINDOW_MEMORY_BYTES),
            answers_forward_requests: false,
            window_memory_bytes: WINDOW_MEMORY_BYTES,
            group_exchange_bits: (2048, 8192),
            guess: KexGuess::default(),
            saves_memory: false,
        }
    }
}

/// Public part of a server's host key, for the process without privileges.
#[derive(Debug, Clone)]
pub struct ServerHostKey {
    /// Algorithms with which the key can sign.
    pub algorithms: Vec<String>,
    /// Key or certificate blob.
    pub blob: Vec<u8>,
}

/// The configured lists, resolved to algorithms.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) kex: Vec<KexAlgorithm>,
    pub(crate) host_key: Vec<SignatureAlgorithm>,
    /// `null` follows the host key algorithms (RFC 4462 §5): of a client that offers methods by GSS-API, and of a
    /// server that has no host key and only such methods.
    pub(crate) null_host_key: bool,
    pub(crate) ciphers: Vec<CipherAlgorithm>,
    pub(crate) macs: Vec<MacAlgorithm>,
    pub(crate) compression: Vec<Compression>,
}

fn resolve<T>(
    list: &[String],
    from_name: impl Fn(&str) -> Option<T>,
    kind: &'static str,
) -> Result<Vec<T>, Error> {
    let found: Option<Vec<T>> = list.iter().map(|name| from_name(name)).collect();
    match found {
        Some(found) if !found.is_empty() => Ok(found),
        _ => Err(Error::Misuse(kind)),
    }
}

impl Offer {
    /// Resolves the lists; a server offers only host key algorithms for which it has a key.
    pub(crate) fn new(
        config: &TransportConfig,
        host_keys: Option<&[ServerHostKey]>,
    ) -> Result<Self, Error> {
        let mut host_key = resolve(
            &config.host_key_algorithms,
            SignatureAlgorithm::from_name,
            "unknown or no host key algorithm configured",
        )?;
        let mut kex = resolve(
            &config.kex,
            KexAlgorithm::from_name,
            "unknown or no key exchange method configured",
        )?;
        let mut null_host_key = kex.iter().any(|each| each.is_gss());
        if let Some(keys) = host_keys {
            host_key.retain(|algorithm| {
                keys.iter()
                    .any(|key| key.algorithms.iter().any(|name| name == algorithm.name()))
            });
            null_host_key &= host_key.is_empty();
            match (host_key.is_empty(), null_host_key) {
                (true, false) => {
                    return Err(Error::Misuse("no host key for any configured algorithm"));
                }
                (true, true) => kex.retain(|each| each.is_gss()),
                (false, _) => {}
            }
        }
        Ok(Self {
            kex,
            host_key,
            null_host_key,
            ciphers: resolve(
                &config.ciphers,
                CipherAlgorithm::from_name,
                "unknown or no cipher configured",
            )?,
            macs: resolve(
                &config.macs,
                MacAlgorithm::from_name,
                "unknown or no MAC configured",
            )?,
            compression: resolve(
                &config.compression,
                Compression::from_name,
                "unknown or no compression configured",
            )?,
        })
    }

    /// Leaves what a rekey may use, `by_gss` if the first exchange was by GSS-API. A client then has no host key to
    /// compare another one with, and otherwise no method by GSS-API proves the one that it has accepted.
    pub(crate) fn narrow_for_rekeys(&mut self, role: Role, by_gss: bool) {
        self.kex.retain(|each| match by_gss {
            true => each.is_gss() || role == Role::Server,
            false => !each.is_gss(),
        });
        self.null_host_key &= by_gss;
    }

    /// Reduces each list to one name; `None` if a name is not configured or data would be
    /// compressed.
    pub(crate) fn narrowed(&self, short: &ShortOffer) -> Option<Self> {
        let cipher = self
            .ciphers
            .iter()
            .find(|each| each.name() == short.cipher)?;
        let mac = if cipher.needs_mac() {
            let name = short.mac.as_ref()?;
            self.macs.iter().find(|each| each.name() == name)?
        } else {
            // Unused by these ciphers, but a list must not be empty (RFC 4253 §7.1).
            self.macs.iter().min_by_key(|each| each.name().len())?
        };
        if self.compression.first() != Some(&Compression::None) {
            return None;
        }
        Some(Self {
            kex: self.kex.get(..1)?.to_vec(),
            host_key: self.host_key.get(..1)?.to_vec(),
            null_host_key: false,
            ciphers: [*cipher].to_vec(),
            macs: [*mac].to_vec(),
            compression: [Compression::None].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_algorithm_is_carried_out() {
        for name in algorithms::KNOWN_KEX {
            assert!(
                KexAlgorithm::from_name(name).is_some_and(|kex| !kex.is_gss()),
                "{name}"
            );
        }
        for family in algorithms::GSS_KEX {
            let name = alloc::format!("{family}{}", algorithms::KERBEROS_KEX_SUFFIX);
            assert!(algorithms::is_gss_kex(&name));
            assert!(
                KexAlgorithm::from_name(&name).is_some_and(KexAlgorithm::is_gss),
                "{name}"
            );
        }
        for name in algorithms::KNOWN_CIPHERS {
            assert!(CipherAlgorithm::from_name(name).is_some(), "{name}");
        }
        for name in algorithms::KNOWN_MACS {
            assert!(MacAlgorithm::from_name(name).is_some(), "{name}");
        }
        for signatures in [
            algorithms::CLIENT_HOST_KEYS,
            algorithms::KNOWN_SIGNATURES,
            algorithms::KNOWN_CA_SIGNATURES,
        ] {
            for name in signatures {
                assert!(SignatureAlgorithm::from_name(name).is_some(), "{name}");
            }
        }
    }
}
