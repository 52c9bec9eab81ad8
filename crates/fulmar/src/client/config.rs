//! The client's algorithms, policies and time limits.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::client::pipelining::ProfileStore;
use driver::CryptoThreads;
use proto::TransportConfig;

use super::host_key::{HostKeyPolicy, KnownHosts};

/// Default of `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Default of `handshake_timeout`.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Profiles of servers: the algorithms that a server put first, its version line, and the
/// fingerprint of the key that logged in. With a profile the client guesses the key exchange (RFC
/// 4253 §7), and sends to more servers what [`Config::pipelines_login`] permits. A profile grants
/// nothing: the names in it count only among the configured algorithms and the known host keys.
///
/// Sessions share a cache through clones of it. It keeps the 256 newest profiles.
#[derive(Debug, Clone)]
pub struct LoginCache(pub(super) ProfileStore);

impl LoginCache {
    /// A cache in memory.
    #[must_use]
    pub fn in_memory() -> Self {
        Self(ProfileStore::Memory(Arc::default()))
    }

    /// A cache in a file, which each login may write (mode 0600). It has the format of `ssh`'s
    /// `login_cache`. A file that others may write, or a symbolic link, counts as empty; a file that
    /// cannot be written makes later logins slower and nothing else.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(ProfileStore::File(path.into()))
    }
}

/// The settings of a [`Session`](super::Session).
#[non_exhaustive]
pub struct Config {
    /// Algorithms in order of preference, rekeying and keepalive. The lists take the names of
    /// ssh_config's Ciphers, MACs, KexAlgorithms and HostKeyAlgorithms. The default lists are those of
    /// `fulmar ssh`; keys are exchanged again at the cipher's own limit, and no keepalives are sent.
    pub transport: TransportConfig,
    /// Decides whether the server's host key is accepted.
    pub host_key: Box<dyn HostKeyPolicy>,
    /// Time limit of the TCP connection, for each of the host's addresses. Default: 30 seconds. With
    /// zero, connecting fails.
    pub connect_timeout: Duration,
    /// Time limit from the TCP connection to the end of the first key exchange, in whole
    /// milliseconds, at least one. Default: 60 seconds.
    pub handshake_timeout: Duration,
    /// Time limit for each of the server's answers during authentication, in whole milliseconds, at
    /// least one. Default: `None`, no limit, since the server may wait for a person.
    pub auth_timeout: Option<Duration>,
    /// Sends the first request of the login together with the end of the key exchange, and the
    /// requests of the first channel together with its CHANNEL_OPEN, without waiting for the server's
    /// answers in between, to servers that are known to accept that. Saves up to four round trips.
    /// Default: true; false is for servers that break because of it.
    pub pipelines_login: bool,
    /// Profiles of servers from earlier logins, which save a round trip at the next login to the
    /// same server. Default: `None`.
    pub login_cache: Option<LoginCache>,
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
            login_cache: None,
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
            .field("login_cache", &self.login_cache)
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
