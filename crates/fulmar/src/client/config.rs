//! The client's algorithms, policies and time limits.

use std::fmt;
use std::time::Duration;

use driver::CryptoThreads;
use proto::TransportConfig;

use super::host_key::{HostKeyPolicy, KnownHosts};

/// Default of `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of `handshake_timeout`.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of a [`Session`](super::Session).
#[non_exhaustive]
pub struct Config {
    /// Algorithms in order of preference, rekeying and keepalive. The lists take the names of
    /// ssh_config's Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms.
    pub transport: TransportConfig,
    /// Decides whether the server's host key is accepted.
    pub host_key: Box<dyn HostKeyPolicy>,
    /// Time limit of the TCP connection, for each of the host's addresses. Default: 30 seconds.
    pub connect_timeout: Duration,
    /// Time limit from the TCP connection to the end of the first key exchange. Default: 60
    /// seconds.
    pub handshake_timeout: Duration,
    /// Time limit for each of the server's answers during authentication. Default: `None`, no
    /// limit, since the server may wait for a person.
    pub auth_timeout: Option<Duration>,
    /// Sends the first request of the login together with the end of the key exchange, without
    /// waiting for the server's answers in between. Saves a round trip. Default: true; false is for
    /// servers that break because of it.
    pub pipelines_login: bool,
    /// Limits the threads that encrypt and decrypt, the connection's own included. The default,
    /// [`CryptoThreads::Auto`], adds threads during bulk transfers while cores are idle, and ends
    /// them afterwards; `AtMost(1)` adds none. The bytes sent are the same with any number.
    pub crypto_threads: CryptoThreads,
}

impl Config {
    /// The defaults with this host key policy. A closure `|key: &PresentedHostKey| …` that returns
    /// a `bool` is a policy, too.
    #[must_use]
    pub fn new(host_key: impl HostKeyPolicy + 'static) -> Self {
        Self {
            transport: default_transport(),
            host_key: Box::new(host_key),
            connect_timeout: CONNECT_TIMEOUT,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            auth_timeout: None,
            pipelines_login: true,
            crypto_threads: CryptoThreads::Auto,
        }
    }
}

/// Trusts the keys in the user's and the system's `known_hosts` files and no others; without a
/// `HOME`, those of the system's file only.
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
