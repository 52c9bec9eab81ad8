//! From a connected stream to an authenticated connection: versions, key exchange, the
//! judgement of the host key, user authentication.

use config::client::ClientOptions;
use driver::{CryptoThreads, Driver, DriverError, LaneTerms, Notice};
use proto::{Connection, Event, Negotiated, TransportConfig};
use wire::message::reason;

use crate::auth::{Authenticator, LoggedIn, TOKEN_DEADLINE};
use crate::connect::Link;
use crate::error::{ClientError, Peer};
use crate::host_key::{HostKeyChecker, Verdict};
use crate::interaction::Interaction;
use crate::log::{debug1, debug2};
use crate::text::one_line;

/// The transport settings that the options come to. `host_key_algorithms` is the order that
/// the checker wants.
#[must_use]
pub fn transport_config(
    options: &ClientOptions,
    host_key_algorithms: Vec<String>,
) -> TransportConfig {
    let compression: &[&str] = if options.compression {
        &[
            wire::names::COMPRESSION_ZLIB_OPENSSH,
            wire::names::COMPRESSION_NONE,
        ]
    } else {
        &[
            wire::names::COMPRESSION_NONE,
            wire::names::COMPRESSION_ZLIB_OPENSSH,
        ]
    };
    let seconds = |seconds: u32| (seconds > 0).then(|| u64::from(seconds) * 1000);
    TransportConfig {
        kex: options.kex_algorithms.clone(),
        host_key_algorithms,
        ciphers: options.ciphers.clone(),
        macs: options.macs.clone(),
        compression: compression.iter().map(ToString::to_string).collect(),
        version_comment: options.version_addendum.clone().unwrap_or_default(),
        rekey_bytes: (options.rekey_limit.bytes > 0).then_some(options.rekey_limit.bytes),
        rekey_ms: seconds(options.rekey_limit.seconds),
        alive_interval_ms: seconds(options.server_alive_interval_s),
        alive_count_max: options.server_alive_count_max,
        min_rsa_bits: usize::try_from(options.required_rsa_size).unwrap_or(usize::MAX),
        window_memory_bytes: options.window_memory_bytes,
        ..TransportConfig::default()
    }
}

/// A connection that is secured: the server's host key was accepted.
#[derive(Debug)]
pub struct Secured {
    /// The connection, ready for authentication.
    pub driver: Driver,
    /// Who is at the other end.
    pub peer: Peer,
    /// The host key changed and the configuration lets it pass.
    pub without_secrets: bool,
}

/// Exchanges versions and keys over `link` and has the host key judged.
///
/// # Errors
/// [`ClientError`].
pub fn handshake(
    link: (std::os::fd::OwnedFd, Option<std::os::fd::OwnedFd>),
    peer: Peer,
    options: &ClientOptions,
    checker: &mut HostKeyChecker,
    interaction: &mut dyn Interaction,
) -> Result<Secured, ClientError> {
    let failed = |error: DriverError| ClientError::Handshake {
        peer: peer.clone(),
        error,
    };
    checker.set_address(peer.address);
    let config = transport_config(options, checker.algorithms());
    let now = sys::time::monotonic_ms();
    let connection =
        Connection::client(config, now).map_err(|error| failed(DriverError::Proto(error)))?;
    debug1!("Local version string {}", connection.our_version());
    let mut driver =
        Driver::new(link.0, link.1, connection).map_err(|error| failed(DriverError::Io(error)))?;
    let threads = CryptoThreads::from_option(options.crypto_threads);
    driver.set_lane_terms(LaneTerms::new(threads));
    driver.trim_memory();
    if let Some(seconds) = options.connect_timeout_s {
        let at = driver.now().saturating_add(u64::from(seconds) * 1000);
        driver.set_timer(TOKEN_DEADLINE, Some(at));
    }
    let mut without_secrets = false;
    loop {
        let event = match driver.next().map_err(failed)? {
            Notice::Event(event) => event,
            Notice::Timer {
                token: TOKEN_DEADLINE,
            } => return Err(ClientError::TimedOut(peer)),
            Notice::PeerClosed => return Err(ClientError::Closed(peer)),
            _ => continue,
        };
        match event {
            Event::Version => {
                let version = driver.connection().peer_version().unwrap_or_default();
                debug1!("Remote version string {}", one_line(version));
            }
            Event::PreVersionLine(line) => debug1!("banner line: {}", one_line(&line)),
            Event::HostKey { algorithm, key } => {
                let verdict = checker.judge(algorithm, &key, interaction);
                if verdict == Verdict::Refuse {
                    driver.connection().refuse_host_key();
                    let _ = driver.flush();
                    return Err(ClientError::HostKey);
                }
                without_secrets = verdict == Verdict::AcceptWithoutSecrets;
                let accepted = driver.connection().accept_host_key();
                accepted.map_err(|error| failed(DriverError::Proto(error)))?;
            }
            Event::UserauthReady => {
                debug2!("SERVICE_ACCEPT ssh-userauth");
                driver.set_timer(TOKEN_DEADLINE, None);
                return Ok(Secured {
                    driver,
                    peer,
                    without_secrets,
                });
            }
            other => crate::auth::note(other),
        }
    }
}

/// Logs in over a secured connection.
///
/// # Errors
/// [`ClientError`].
pub fn authenticate(
    secured: &mut Secured,
    options: &ClientOptions,
    interaction: &mut dyn Interaction,
) -> Result<LoggedIn, ClientError> {
    let host = one_line(&options.hostname);
    debug1!(
        "Authenticating to {host}:{} as '{}'",
        options.port,
        one_line(&options.user)
    );
    let without = secured.without_secrets;
    Authenticator::new(&mut secured.driver, options, &secured.peer, interaction)
        .without_secrets(without)
        .run()
}

/// Says goodbye; a peer that is gone already is no error.
pub fn disconnect(driver: &mut Driver) {
    driver
        .connection()
        .disconnect(reason::BY_APPLICATION, "disconnected by user");
    let _ = driver.flush();
}

/// Takes a link apart for [`handshake`]; the proxy process stays with the caller.
#[must_use]
pub fn split(
    link: Link,
) -> (
    (std::os::fd::OwnedFd, Option<std::os::fd::OwnedFd>),
    Peer,
    Option<sys::process::Child>,
) {
    ((link.read, link.write), link.peer, link.proxy)
}

/// Logs what a key exchange agreed on.
pub(crate) fn note_keys(negotiated: &Negotiated, first: bool) {
    if !first {
        debug1!("keys were exchanged anew");
    }
    debug1!("kex: algorithm: {}", negotiated.kex);
    debug1!("kex: host key algorithm: {}", negotiated.host_key);
    for (name, direction) in [
        ("server->client", &negotiated.server_to_client),
        ("client->server", &negotiated.client_to_server),
    ] {
        debug1!(
            "kex: {name} cipher: {} MAC: {} compression: {}",
            direction.cipher,
            direction.mac,
            direction.compression
        );
    }
    if negotiated.strict_kex {
        debug2!("kex: both sides follow strict KEX");
    }
}
