//! Turns a connected stream into an authenticated connection: versions, key exchange, host key
//! check, user authentication.
//!
//! [`LoginOpening::send`] sends the first flight; the caller can prepare the login while the server answers,
//! before it calls [`Greeted::secure`]. docs/login.md shows the flights.

use std::io::ErrorKind;
use std::os::fd::AsFd;

use config::client::ClientOptions;
use config::types::{Compression, WarnWeakCrypto};
use driver::{CryptoThreads, Driver, DriverError, LaneTerms, Notice};
use proto::{
    Connection, DirectionAlgorithms, Event, Negotiated, OpeningBytes, ShortOffer, TransportConfig,
};
use wire::message::reason;

use crate::auth::identity::Keys;
use crate::auth::{Authenticator, TOKEN_DEADLINE};
use crate::connect::{self, Link};
use crate::error::{ClientError, Peer};
use crate::host_key::{self, HostKeyChecker, HostKeyJudge, HostKeyOffer, Verdict};
use crate::interaction::Interaction;
use crate::kerberos::{self, KerberosExchanges};
use crate::log::{self, debug1, debug2, error, verbose};
use crate::pipelining::{
    Caution, Failure, LoginStrategy, ProfileCache, RetryPolicy, ServerProfile,
};
use crate::text::one_line;

/// The transport settings that follow from the options.
pub(crate) fn transport_config(options: &ClientOptions) -> TransportConfig {
    let mut compression = vec![
        wire::names::COMPRESSION_NONE,
        wire::names::COMPRESSION_ZLIB_OPENSSH,
    ];
    if options.compression.method.is_on() {
        compression.reverse();
    }
    // External compression libraries produce zlib streams only.
    if options.compression.method == Compression::Zstd && options.compression.hardware().is_none() {
        compression.insert(0, wire::names::COMPRESSION_ZSTD);
    }
    let seconds = |seconds: u32| (seconds > 0).then(|| u64::from(seconds) * 1000);
    TransportConfig {
        kex: options.algorithms.kex_algorithms.clone(),
        host_key_algorithms: options.algorithms.host_key_algorithms.clone(),
        ca_signature_algorithms: options.algorithms.ca_signature_algorithms.clone(),
        ciphers: options.algorithms.ciphers.clone(),
        macs: options.algorithms.macs.clone(),
        compression: compression.iter().map(ToString::to_string).collect(),
        opening: OpeningBytes {
            comment: options
                .connection
                .version_addendum
                .clone()
                .unwrap_or_default(),
            ..OpeningBytes::default()
        },
        rekey_bytes: (options.algorithms.rekey_limit.bytes > 0)
            .then_some(options.algorithms.rekey_limit.bytes),
        rekey_ms: seconds(options.algorithms.rekey_limit.seconds),
        alive_interval_ms: seconds(options.connection.server_alive_interval_s),
        alive_count_max: options.connection.server_alive_count_max,
        min_rsa_bits: usize::try_from(options.algorithms.required_rsa_size).unwrap_or(usize::MAX),
        deflate: proto::DeflateSettings {
            level: options.compression.level,
            adaptive: options.compression.adaptive,
        },
        max_channels: TransportConfig::channels_in(options.limits.window_memory_bytes),
        window_memory_bytes: options.limits.window_memory_bytes,
        ..TransportConfig::default()
    }
}

/// A connection whose first flight has been sent: version line, KEXINIT and, if the login guesses,
/// the guessed key exchange packet.
#[derive(Debug)]
pub struct Greeted {
    driver: Driver,
    peer: Peer,
    offered: Offered,
    guessed: bool,
    fast_open: bool,
    warn_weak_crypto: WarnWeakCrypto,
    /// `KexAlgorithms` is set: no warning about the method.
    kex_is_chosen: bool,
    /// The service that a key exchange by GSS-API proves.
    service: Option<String>,
}

/// The lists in the configured order, before a cached profile moves names to the front.
#[derive(Debug)]
struct Offered {
    kex: Vec<String>,
    host_key: Vec<String>,
    name: String,
}

/// Fingerprint of the configured algorithm lists: a cached server profile is valid for the same
/// fingerprint only. The known host keys are not part of it, since the first login changes them.
fn fingerprint(config: &TransportConfig) -> String {
    let lists = [
        &config.kex,
        &config.host_key_algorithms,
        &config.ciphers,
        &config.macs,
    ];
    let text = lists.map(|list| list.join(",")).join(" ");
    keys::fingerprint::sha256(text.as_bytes())
}

/// A secured connection: the keys are agreed on and the server's host key was accepted.
#[derive(Debug)]
pub struct Secured {
    /// The connection, ready for authentication.
    pub driver: Driver,
    /// The server.
    pub peer: Peer,
    /// True if the host key has changed and the configuration lets it pass: no secret may be sent.
    pub without_secrets: bool,
    offered: Offered,
}

fn handshake_failed(peer: &Peer, error: DriverError) -> ClientError {
    ClientError::Handshake {
        peer: peer.clone(),
        error,
    }
}

/// What OpenSSH says before it reports that the connection ended without the server's version line.
fn note_no_version(error: &ClientError) {
    match error {
        ClientError::TimedOut(_) => error!("Connection timed out during banner exchange"),
        ClientError::Closed(_) => {
            verbose!("kex_exchange_identification: Connection closed by remote host");
        }
        ClientError::Handshake {
            error: DriverError::Io(error),
            ..
        } => {
            let reason = connect::plain_reason(error);
            error!("kex_exchange_identification: read: {reason}");
        }
        _ => {}
    }
}

/// With TCP Fast Open data is written before the connection exists, so a failure to connect arrives
/// late. Turns it into the usual connect error.
fn not_connected(error: ClientError) -> ClientError {
    match error {
        ClientError::Handshake {
            peer,
            error: DriverError::Io(error),
        } if matches!(
            error.kind(),
            ErrorKind::ConnectionRefused
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::TimedOut
        ) =>
        {
            ClientError::Connect {
                host: peer.host,
                port: peer.port,
                reason: connect::plain_reason(&error),
            }
        }
        other => other,
    }
}

/// Moves `name` to the front; false if it is not in the list.
fn put_first(names: &mut [String], name: &str) -> bool {
    match names.iter().position(|each| each == name) {
        Some(place) => {
            names.get_mut(..=place).unwrap_or_default().rotate_right(1);
            true
        }
        None => false,
    }
}

/// Prepares a guessed key exchange packet from the cached server profile, if its offer is the same.
/// The host key algorithm moves to the front only among the first `expected_host_keys` names, which
/// known_hosts has for this host. `syn_bytes` is the space that the SYN has for the flight; with
/// it, the lists may be cut down to the names that were agreed on.
fn guess(
    config: &mut TransportConfig,
    expected_host_keys: usize,
    profile: &ServerProfile,
    offer: &str,
    syn_bytes: Option<usize>,
) -> bool {
    let (Some(kex), Some(host_key)) = (&profile.kex, &profile.host_key) else {
        return false;
    };
    if profile.careful || profile.offer != offer {
        return false;
    }
    let (mut methods, mut host_keys) = (config.kex.clone(), config.host_key_algorithms.clone());
    let expected = host_keys.get_mut(..expected_host_keys).unwrap_or_default();
    if !(put_first(&mut methods, kex) && put_first(expected, host_key)) {
        return false;
    }
    debug1!("kex: guessing {kex} with {host_key}, which the last login used");
    config.kex = methods;
    config.host_key_algorithms = host_keys;
    config.guess.first_packet_follows = true;
    config.guess.short = syn_bytes.and_then(|bytes| short_offer(profile, bytes));
    true
}

/// The server's version line in OpenSSH's words, from which ssh-copy-id reads the software.
fn version_words(line: &str) -> String {
    let words = line
        .strip_prefix("SSH-")
        .and_then(|rest| rest.split_once('-'));
    match words {
        Some((protocol, software)) => format!(
            "Remote protocol version {}, remote software version {}",
            one_line(protocol),
            one_line(software)
        ),
        None => format!("Remote version string {}", one_line(line)),
    }
}

fn short_offer(profile: &ServerProfile, flight_bytes: usize) -> Option<ShortOffer> {
    let suite = profile.suite.as_deref()?;
    let (cipher, mac) = match suite.split_once('+') {
        Some((cipher, mac)) => (cipher, Some(mac)),
        None => (suite, None),
    };
    Some(ShortOffer {
        cipher: cipher.to_owned(),
        mac: mac.map(str::to_owned),
        understood: profile.short_kexinit,
        flight_bytes,
    })
}

/// The settings of the first flight and of the key exchange.
#[derive(Debug)]
pub struct LoginOpening {
    /// Algorithms and limits.
    pub transport: TransportConfig,
    /// Number of host key algorithms at the front of the list that lead to a known key.
    pub expected_host_keys: usize,
    /// Time limit until the keys are agreed on, milliseconds; `None` for no limit.
    pub timeout_ms: Option<u64>,
    /// Threads that encrypt, decrypt and compress.
    pub lanes: LaneTerms,
    /// True if this process serves only this connection ([`Driver::trim_memory`]).
    pub alone_in_process: bool,
    /// True if this connection has its own thread among many of this process ([`Driver::trim_stack`]).
    pub trims_stack: bool,
    /// Number of bytes of the first flight that the SYN can carry; `None` without TCP Fast Open.
    pub syn_bytes: Option<usize>,
    /// Fingerprint of the configured algorithm lists.
    offer: String,
    warn_weak_crypto: WarnWeakCrypto,
    /// `KexAlgorithms` is set: no warning about the method.
    kex_is_chosen: bool,
    gss: Option<KerberosExchanges>,
}

impl LoginOpening {
    /// The settings of a program that has many connections, without a time limit. `transport` has
    /// the configured lists; `host_keys` is the order in which to offer the host key algorithms.
    #[must_use]
    pub fn new(
        mut transport: TransportConfig,
        host_keys: HostKeyOffer,
        threads: CryptoThreads,
    ) -> Self {
        let offer = fingerprint(&transport);
        transport.host_key_algorithms = host_keys.names;
        Self {
            transport,
            expected_host_keys: host_keys.expected,
            timeout_ms: None,
            lanes: LaneTerms::new(threads),
            alone_in_process: false,
            trims_stack: false,
            syn_bytes: None,
            offer,
            warn_weak_crypto: WarnWeakCrypto::No,
            kex_is_chosen: false,
            gss: None,
        }
    }

    /// The settings that the options ask for; `checker` orders the host key algorithms. With GSSAPIKeyExchange it may
    /// wait for a KDC.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if `KnownHostsCommand` fails.
    pub fn from_options(
        options: &ClientOptions,
        peer: &Peer,
        checker: &mut HostKeyChecker,
    ) -> Result<Self, ClientError> {
        checker.set_address(peer.address);
        let threads = CryptoThreads::from_option(options.limits.crypto_threads);
        let offer = checker.offer();
        if checker.has_command_failed() {
            return Err(ClientError::Refused(host_key::COMMAND_FAILED.to_owned()));
        }
        let mut opening = Self::new(transport_config(options), offer, threads);
        opening.timeout_ms = options
            .connection
            .connect_timeout_s
            .map(|seconds| u64::from(seconds) * 1000);
        opening.lanes.compress_threads = CryptoThreads::from_option(options.compression.threads);
        opening.alone_in_process = true;
        opening.syn_bytes = connect::syn_data_bytes(options, peer);
        opening.warn_weak_crypto = options.algorithms.warn_weak_crypto;
        opening.kex_is_chosen = options.algorithms.kex_algorithms_set;
        opening.gss = KerberosExchanges::begin(options, peer);
        if opening.gss.is_some() {
            let names = KerberosExchanges::names(options);
            opening.transport.kex.splice(..0, names);
        }
        Ok(opening)
    }

    /// Sends the first flight over `link` without waiting for the server: version line and KEXINIT
    /// and, with a cached profile in `profile`, the guessed first packet of the key exchange.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn send(
        self,
        link: (std::os::fd::OwnedFd, Option<std::os::fd::OwnedFd>),
        peer: Peer,
        profile: Option<&ServerProfile>,
    ) -> Result<Greeted, ClientError> {
        let failed = |error| handshake_failed(&peer, error);
        let mut config = self.transport;
        let offered = Offered {
            kex: config.kex.clone(),
            host_key: config.host_key_algorithms.clone(),
            name: self.offer,
        };
        // No guess beside the methods by GSS-API, which come first.
        let profile = profile.filter(|_| self.gss.is_none());
        let guessed = profile.is_some_and(|profile| {
            let expected = self.expected_host_keys;
            guess(
                &mut config,
                expected,
                profile,
                &offered.name,
                self.syn_bytes,
            )
        });
        let now = sys::time::monotonic_ms();
        let connection =
            Connection::client(config, now).map_err(|error| failed(DriverError::Proto(error)))?;
        debug1!("Local version string {}", connection.our_version());
        if connection.offers_short() {
            debug1!("kex: short lists, for a first flight that fits into the SYN");
        }
        let mut driver = Driver::new(link.0, link.1, connection)
            .map_err(|error| failed(DriverError::Io(error)))?;
        driver.set_lane_terms(self.lanes);
        let service = self.gss.as_ref().map(|gss| gss.service().to_owned());
        if let Some(gss) = self.gss {
            driver.set_gss(Box::new(gss));
        }
        match (self.alone_in_process, self.trims_stack) {
            (true, _) => driver.trim_memory(),
            (false, true) => driver.trim_stack(),
            (false, false) => {}
        }
        if let Some(timeout_ms) = self.timeout_ms {
            let at = driver.now().saturating_add(timeout_ms);
            driver.set_timer(TOKEN_DEADLINE, Some(at));
        }
        driver
            .flush()
            .map_err(|error| not_connected(failed(error)))?;
        Ok(Greeted {
            driver,
            peer,
            offered,
            guessed,
            fast_open: self.syn_bytes.is_some(),
            warn_weak_crypto: self.warn_weak_crypto,
            kex_is_chosen: self.kex_is_chosen,
            service,
        })
    }
}

impl Greeted {
    /// Exchanges versions and keys and has `judge` check the host key. A step-by-step login also
    /// waits until the server grants the service ssh-userauth; otherwise the request for the
    /// service may not have been sent yet, and leaves together with the next messages. `on_version` is
    /// called with the server's version line as soon as it has arrived. `strategy` keeps its profile
    /// only if the server still has that version.
    ///
    /// # Errors
    /// [`ClientError`], and whether the guess may be the cause.
    pub fn secure(
        mut self,
        strategy: &mut LoginStrategy,
        judge: &mut dyn HostKeyJudge,
        interaction: &mut dyn Interaction,
        on_version: &mut dyn FnMut(&str),
    ) -> Result<Secured, Failure> {
        match self.exchange_keys(strategy.is_step_by_step(), judge, interaction, on_version) {
            Ok(without_secrets) => {
                let connection = self.driver.connection();
                strategy.meet(connection.peer_version().unwrap_or_default());
                if self.warn_weak_crypto.warns_of_kex() && !self.kex_is_chosen {
                    warn_of_kex(self.driver.connection());
                }
                if self.warn_weak_crypto.warns_of_old_algorithms() {
                    warn_of_old_algorithms(self.driver.connection());
                }
                Ok(Secured {
                    driver: self.driver,
                    peer: self.peer,
                    without_secrets,
                    offered: self.offered,
                })
            }
            Err(error) if self.guess_may_be_why(&error) => Err(Failure {
                error,
                retry: RetryPolicy::Safe(Caution::NoGuess),
            }),
            Err(error) if self.driver.connection().peer_version().is_none() => {
                let error = not_connected(error);
                note_no_version(&error);
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// True if the guess may have caused `error`. A server that has not sent its version line
    /// cannot have objected to the guess. One that has, and whose first names differ from the
    /// guess, may have misread the rest; one that got short lists may need other algorithms now.
    fn guess_may_be_why(&mut self, error: &ClientError) -> bool {
        let connection = self.driver.connection();
        let wrong = connection.guess_was_right() != Some(true);
        self.guessed
            && (wrong || connection.offers_short())
            && connection.peer_version().is_some()
            && matches!(
                error,
                ClientError::Handshake { .. } | ClientError::Closed(_)
            )
    }

    /// Returns true if a changed host key was let through.
    fn exchange_keys(
        &mut self,
        step_by_step: bool,
        judge: &mut dyn HostKeyJudge,
        interaction: &mut dyn Interaction,
        on_version: &mut dyn FnMut(&str),
    ) -> Result<bool, ClientError> {
        let peer = self.peer.clone();
        let failed = |error| handshake_failed(&peer, error);
        let driver = &mut self.driver;
        let mut without_secrets = false;
        let mut keys_are_new = false;
        loop {
            // After NEWKEYS the server names the signature algorithms that it accepts: everything
            // received is handled first, so that the answer leaves as one flight.
            let received = driver.next_received().map_err(failed)?;
            let notice = match received {
                Some(notice) => notice,
                None if keys_are_new && !step_by_step => {
                    driver.set_timer(TOKEN_DEADLINE, None);
                    return Ok(without_secrets);
                }
                None => driver.next().map_err(failed)?,
            };
            let event = match notice {
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
                    debug1!("{}", version_words(version));
                    on_version(version);
                    if self.fast_open {
                        tell_fast_open(driver.socket());
                    }
                }
                Event::PreVersionLine(line) => debug1!("banner line: {}", one_line(&line)),
                Event::HostKey { algorithm, key } => {
                    let verdict = judge.judge(algorithm, &key, interaction);
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
                    return Ok(without_secrets);
                }
                other => {
                    let is_new = matches!(other, Event::KeysChanged { .. });
                    keys_are_new |= is_new;
                    crate::auth::note(other);
                    if is_new && driver.connection().is_by_gss() {
                        let service = self.service.as_deref().unwrap_or_default();
                        tell_gss(service);
                    }
                }
            }
        }
    }
}

/// `-v`: logs what has proved the server.
fn tell_gss(service: &str) {
    debug1!(
        "The server is authenticated by GSSAPI as {}; known_hosts is not consulted",
        one_line(service)
    );
}

/// `WarnWeakCrypto`: traffic recorded now may be decrypted later. The text equals OpenSSH's.
fn warn_of_kex(connection: &Connection) {
    let kex = connection.negotiated().map(|negotiated| negotiated.kex);
    if kex.is_some_and(|kex| !wire::algorithms::is_post_quantum(kex)) {
        log::info_once(
            "** WARNING: connection is not using a post-quantum key exchange algorithm.\n\
             ** This session may be vulnerable to \"store now, decrypt later\" attacks.\n\
             ** The server may need to be upgraded. See https://openssh.com/pq.html",
        );
    }
}

/// `WarnWeakCrypto`: warns of the algorithms of old devices that were agreed on.
fn warn_of_old_algorithms(connection: &Connection) {
    if let Some(negotiated) = connection.negotiated() {
        log::warn_of_old_algorithms(
            "connection",
            &negotiated.old_algorithms(),
            "The server should be upgraded: whoever can change its traffic may read the session.",
        );
    }
}

/// `-v`: logs whether the server accepted data in the SYN.
fn tell_fast_open(socket: impl AsFd) {
    match sys::socket::tcp_info(socket) {
        Ok(info) if info.syn_data => debug1!("TCP Fast Open: the server accepted data in the SYN"),
        _ => debug1!("TCP Fast Open: the server has not accepted data in the SYN"),
    }
}

/// The cached profile of the server, and what one login may send early because of it.
#[derive(Debug)]
pub struct LoginRecords {
    /// The place of the profile; `None` if nothing is cached.
    pub cache: Option<ProfileCache>,
    /// Decides what is sent early.
    pub strategy: LoginStrategy,
}

impl LoginRecords {
    /// The records of one attempt.
    #[must_use]
    pub fn new(
        options: &ClientOptions,
        mut caution: Caution,
        mut cache: Option<ProfileCache>,
    ) -> Self {
        // A cached profile describes another key exchange than one by GSS-API.
        if kerberos::may_exchange_keys(options) {
            (caution, cache) = (Caution::StepByStep, None);
        }
        let profile = cache.as_ref().and_then(ProfileCache::profile).cloned();
        Self {
            cache,
            strategy: LoginStrategy::new(options, caution, profile),
        }
    }

    /// Stores the profile after a login, which used the key with the fingerprint `key`. Nothing is
    /// cached for a server whose changed host key was let through.
    pub fn logged_in(&mut self, secured: &mut Secured, key: Option<String>) {
        self.cache.take_if(|_| secured.without_secrets);
        if let Some(cache) = &mut self.cache {
            cache.store(secured.profile(key, self.strategy.is_careful()));
        }
    }

    /// Makes the next login wait for each answer: a command that was sent early may have run, and
    /// must not be sent again.
    pub fn be_careful(&mut self, secured: &mut Secured) {
        if let Some(precaution) = self.precaution(secured) {
            precaution.store();
        }
    }

    /// Prepares what [`LoginRecords::be_careful`] does; nothing can be stored through these records
    /// afterwards.
    pub fn precaution(&mut self, secured: &mut Secured) -> Option<Precaution> {
        let cache = self.cache.take()?;
        Some(Precaution {
            profile: secured.profile(None, true),
            cache,
        })
    }
}

/// The profile to store if a connection breaks because of what was sent early.
#[derive(Debug)]
pub struct Precaution {
    cache: ProfileCache,
    profile: ServerProfile,
}

impl Precaution {
    /// Makes the next login wait for each answer.
    pub fn store(mut self) {
        self.cache.store(self.profile);
    }
}

impl Secured {
    /// The authentication of the user, with `keys`.
    pub fn authenticator<'c>(
        &'c mut self,
        options: &'c ClientOptions,
        interaction: &'c mut dyn Interaction,
        keys: Keys,
    ) -> Authenticator<'c> {
        Authenticator::new(&mut self.driver, options, &self.peer, interaction, keys)
            .without_secrets(self.without_secrets)
    }

    /// The server profile to cache for the next login. `key` is the fingerprint of the key that the
    /// login used; `careful` makes the next login wait for each answer.
    fn profile(&mut self, key: Option<String>, careful: bool) -> ServerProfile {
        let offer = self.offered.name.clone();
        let connection = self.driver.connection();
        let suite = connection.negotiated().as_ref().and_then(suite);
        let version = connection.peer_version().unwrap_or_default().to_owned();
        let (kex, host_key) = match connection.peer_lists() {
            Some((kex, host_key)) => (
                expected(&self.offered.kex, kex),
                // Whether the name leads to a known key is checked when the profile is used.
                host_key
                    .first()
                    .filter(|name| self.offered.host_key.contains(name))
                    .cloned(),
            ),
            None => (None, None),
        };
        ServerProfile {
            version,
            offer,
            kex,
            host_key,
            signature_algorithms: connection.server_sig_algs().map(<[String]>::to_vec),
            key,
            suite,
            short_kexinit: connection.short_kexinit_understood() && !careful,
            careful,
        }
    }
}

/// The cipher, and the MAC if the cipher needs one, that the next short KEXINIT can name; `None` if
/// the directions differ or compress.
fn suite(negotiated: &Negotiated) -> Option<String> {
    let both = &negotiated.client_to_server;
    if *both != negotiated.server_to_client || both.compression != wire::names::COMPRESSION_NONE {
        return None;
    }
    Some(match both.mac {
        DirectionAlgorithms::IMPLICIT_MAC => both.cipher.to_owned(),
        mac => format!("{}+{mac}", both.cipher),
    })
}

/// The algorithm that both sides agree on by our order, if the server also names it first: then
/// moving it to the front of our list changes only the number of round trips.
fn expected(ours: &[String], theirs: &[String]) -> Option<String> {
    let agreed = ours.iter().find(|name| theirs.contains(name))?;
    (theirs.first() == Some(agreed)).then(|| agreed.clone())
}

/// Sends DISCONNECT; a connection that is closed already is no error.
pub fn disconnect(driver: &mut Driver) {
    driver
        .connection()
        .disconnect(reason::BY_APPLICATION, "disconnected by user");
    let _ = driver.flush();
}

/// Splits a link into the descriptors for [`LoginOpening::send`], the peer and the proxy process, which stays
/// with the caller.
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
