//! What a client may use and how long it waits.

use std::fmt;
use std::time::Duration;

use driver::CryptoThreads;
use proto::TransportConfig;

use super::host_key::{HostKeyPolicy, KnownHosts};

/// How long connecting may take unless told otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the first key exchange may take unless told otherwise.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// How a [`Session`](super::Session) is made.
pub struct Config {
    /// Algorithms in order of preference, rekeying and keepalive. The lists hold the names of
    /// ssh_config's Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms.
    pub transport: TransportConfig,
    /// Decides whether the server is the right one.
    pub host_key: Box<dyn HostKeyPolicy>,
    /// How long to try each of the host's addresses; 30 seconds.
    pub connect_timeout: Duration,
    /// How long the server may take from the connection to the end of the key exchange;
    /// 60 seconds.
    pub handshake_timeout: Duration,
    /// How long the server may take for each answer during authentication; `None` for as long
    /// as it likes, since it may be waiting for a person.
    pub auth_timeout: Option<Duration>,
    /// How many threads may encrypt and decrypt: as many as are worth it. Those beside the
    /// connection's own come with bulk data, where cores are idle, and go when it is over;
    /// `AtMost(1)` for none. What is sent is the same with any number.
    pub crypto_threads: CryptoThreads,
}

impl Config {
    /// The defaults with this host key policy. `|key: &PresentedHostKey| …` is one, too.
    #[must_use]
    pub fn new(host_key: impl HostKeyPolicy + 'static) -> Self {
        Self {
            transport: default_transport(),
            host_key: Box::new(host_key),
            connect_timeout: CONNECT_TIMEOUT,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            auth_timeout: None,
            crypto_threads: CryptoThreads::Auto,
        }
    }
}

/// The user's `known_hosts` and the system's, and nothing that is not in them.
impl Default for Config {
    fn default() -> Self {
        Self::new(KnownHosts::of_user().unwrap_or_else(|_| KnownHosts::of_system()))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("transport", &self.transport)
            .field("connect_timeout", &self.connect_timeout)
            .field("handshake_timeout", &self.handshake_timeout)
            .field("auth_timeout", &self.auth_timeout)
            .field("crypto_threads", &self.crypto_threads)
            .finish_non_exhaustive()
    }
}

fn default_transport() -> TransportConfig {
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect();
    TransportConfig {
        kex: names(wire::algorithms::CLIENT_KEX),
        host_key_algorithms: names(wire::algorithms::CLIENT_HOST_KEYS),
        ..TransportConfig::default()
    }
}
