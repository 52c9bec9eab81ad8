//! The server's keys, algorithms and limits.

use std::fmt;
use std::time::Duration;

use driver::CryptoThreads;
use keys::{KeyType, PrivateKey};
use proto::{ServerHostKey, TransportConfig};

use crate::Error;

/// Default number of channels of one connection, as OpenSSH's MaxSessions.
const MAX_CHANNELS: usize = 10;
/// Default number of failed attempts of one connection, as OpenSSH's MaxAuthTries.
const MAX_AUTH_TRIES: u32 = 6;
/// Default time limit of a login, as OpenSSH's LoginGraceTime.
const LOGIN_GRACE: Duration = Duration::from_secs(120);

/// The settings of a [`Server`](super::Server).
#[non_exhaustive]
pub struct Config {
    /// The server's host keys, at least one; the client chooses among their types. Certificates of
    /// hosts are not supported.
    pub host_keys: Vec<PrivateKey>,
    /// Algorithms in order of preference, rekeying, keepalive, and the most channels of one
    /// connection (`max_channels`, default 10). `peer_signature_algorithms` are those that users may
    /// sign with. By default keys are exchanged again at the cipher's own limit, and no keepalives are
    /// sent.
    pub transport: TransportConfig,
    /// Text that clients show before the login (RFC 4252 §5.4); none by default. Its lines end in CR LF.
    pub banner: Option<String>,
    /// Number of failed attempts after which the server disconnects; method `none` does not count.
    /// Default: 6, as OpenSSH's MaxAuthTries. With 0 the server disconnects after any refusal, even of
    /// method `none`.
    pub max_auth_tries: u32,
    /// Time limit from the TCP connection to the login. Default: 120 seconds, as OpenSSH's
    /// LoginGraceTime; unlike there, zero is no time, so that nobody can log in.
    pub login_grace: Duration,
    /// Least time before a wrong password, answer or signature is refused; the connection's thread
    /// waits for it. Default: 50 ms.
    pub failure_delay: Duration,
    /// Most connections at a time, each with a thread. Further connections are closed at once.
    /// Default: 256.
    pub max_connections: usize,
    /// Most connections at a time that are not logged in, as OpenSSH's MaxStartups. Further connections
    /// are closed at once. Default: 64.
    pub max_logins: usize,
    /// Limits the threads that encrypt and decrypt for each connection, the connection's own
    /// included. The default, [`CryptoThreads::Auto`], adds threads during bulk transfers while
    /// cores are idle, and ends them afterwards; `AtMost(1)` adds none. The bytes sent are the same
    /// with any number.
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

    /// The public halves of the host keys, for `proto`.
    pub(super) fn public_host_keys(&self) -> Result<Vec<ServerHostKey>, Error> {
        if self.host_keys.is_empty() {
            return Err(Error::Misuse("a server needs a host key"));
        }
        if !self.host_keys.iter().all(PrivateKey::can_sign) {
            return Err(Error::UnusableKey(
                "a host key's secret is in a security key".into(),
            ));
        }
        let minimum = self.transport.min_rsa_bits;
        for key in &self.host_keys {
            let public = key.public();
            if public.key_type() == KeyType::Rsa && public.bits() < minimum {
                let bits = public.bits();
                return Err(Error::UnusableKey(format!(
                    "a host key has {bits} bits of RSA; min_rsa_bits asks for {minimum}"
                )));
            }
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
