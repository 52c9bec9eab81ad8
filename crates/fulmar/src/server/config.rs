//! What a server offers and how much it puts up with.

use std::fmt;
use std::time::Duration;

use driver::CryptoThreads;
use keys::PrivateKey;
use proto::{ServerHostKey, TransportConfig};

use crate::Error;

/// Channels of one connection unless told otherwise, as OpenSSH's MaxSessions.
const MAX_CHANNELS: usize = 10;
/// Failed tries of one connection unless told otherwise, as OpenSSH's MaxAuthTries.
const MAX_AUTH_TRIES: u32 = 6;
/// Time for a login unless told otherwise, as OpenSSH's LoginGraceTime.
const LOGIN_GRACE: Duration = Duration::from_secs(120);

/// How a [`Server`](super::Server) works.
#[non_exhaustive]
pub struct Config {
    /// Keys that the server shows; the client chooses among their types.
    pub host_keys: Vec<PrivateKey>,
    /// Algorithms in order of preference, rekeying, keepalive, and the most channels of one
    /// connection (10). `peer_signature_algorithms` are those that users may sign with.
    pub transport: TransportConfig,
    /// Text that clients show before the login.
    pub banner: Option<String>,
    /// Failed tries after which a connection is cut; 6.
    pub max_auth_tries: u32,
    /// How long a client may take to log in; 120 seconds.
    pub login_grace: Duration,
    /// Least time that a wrong password, answer or signature takes to be refused; 50 ms.
    pub failure_delay: Duration,
    /// Connections at once, each with a thread; 256. More are closed at once.
    pub max_connections: usize,
    /// Connections at once that are not logged in; 64. More are closed at once.
    pub max_logins: usize,
    /// How many threads may encrypt and decrypt for each connection: as many as are worth it.
    /// Those beside the connection's own come with bulk data, where cores are idle, and go when
    /// it is over; `AtMost(1)` for none. What is sent is the same with any number.
    pub crypto_threads: CryptoThreads,
}

impl Config {
    /// The defaults, with these host keys.
    #[must_use]
    pub fn new(host_keys: Vec<PrivateKey>) -> Self {
        let transport = TransportConfig {
            host_key_algorithms: wire::algorithms::SIGNATURES
                .iter()
                .map(ToString::to_string)
                .collect(),
            max_channels: MAX_CHANNELS,
            ..TransportConfig::default()
        };
        Self {
            host_keys,
            transport,
            banner: None,
            max_auth_tries: MAX_AUTH_TRIES,
            login_grace: LOGIN_GRACE,
            failure_delay: Duration::from_millis(50),
            max_connections: 256,
            max_logins: 64,
            crypto_threads: CryptoThreads::Auto,
        }
    }

    /// The public halves, as `proto` wants them.
    pub(super) fn public_host_keys(&self) -> Result<Vec<ServerHostKey>, Error> {
        if self.host_keys.is_empty() {
            return Err(Error::Misuse("a server needs a host key"));
        }
        if !self.host_keys.iter().all(PrivateKey::can_sign) {
            return Err(Error::UnusableKey(
                "a host key's secret is in a security key".into(),
            ));
        }
        let public = |key: &PrivateKey| ServerHostKey {
            algorithms: key
                .key_type()
                .algorithms()
                .iter()
                .map(|algorithm| algorithm.name().to_owned())
                .collect(),
            blob: key.public().blob(),
        };
        Ok(self.host_keys.iter().map(public).collect())
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("host_keys", &self.host_keys)
            .field("transport", &self.transport)
            .field("crypto_threads", &self.crypto_threads)
            .finish_non_exhaustive()
    }
}
