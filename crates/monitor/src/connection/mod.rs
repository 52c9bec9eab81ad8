//! The monitor: the privileged process of one connection, which the listener executes. It starts
//! the auth process, serves its requests until somebody has logged in ([`login`]), then starts the
//! session process and serves its requests ([`session`]). It never reads the network.

mod accounts;
mod admit;
mod audit;
mod chains;
mod channel;
mod configuration;
mod delay;
mod early_session;
mod groups;
mod gss_exchange;
mod host_key_agent;
mod hostbased;
mod kbdint;
mod kerberos;
mod login;
mod pam;
mod password;
mod publickey;
mod rate;
pub(crate) mod recording;
mod reports;
mod selinux;
mod session;
mod signing;
mod start;
mod tunnel;
mod user;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

pub(crate) use accounts::Account;
pub(crate) use chains::ChainMethod;
use config::algorithms::key_exchanges;
use config::server::{LimitOptions, LoggingOptions, ServerOptions};
use privsep::roles::{self, ConnectionNews};
use privsep::{AuthConnection, LoginPhase, MonitorStart};
pub(crate) use reports::{ATTEMPT_COUNTS, AttemptOutcome};
use sys::process::{Child, ExitStatus};
use sys::signals::Signal;

use crate::log::{self, Log};
use chains::Authenticated;
use channel::{RpcChannel, RpcEnd};
use configuration::Configuration;
use early_session::{EarlySession, SessionProcess};
use kerberos::Kerberos;
use login::{AuthService, NotLoggedIn};
use reports::AttemptCounts;
use session::{MonitorSession, Predecessor};
use signing::Signer;
use start::{Handed, Inherited};
use user::{Addresses, LoginUser};

/// PATH of the processes that the monitor starts; no program of Fulmar is found through it.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Limit on the start record, in bytes: configuration with Match blocks, host certificates.
const MAX_START_BYTES: usize = 16 << 20;
/// Limit on the record of secrets, in bytes.
pub(crate) const MAX_SECRETS_BYTES: usize = 1 << 20;
/// Exit status of a connection that ended before anybody had logged in, as in OpenSSH.
const NOT_LOGGED_IN: i32 = 255;
/// Time limit for the auth process's exit after its socket has closed.
pub(crate) const AUTH_EXIT_WAIT: Duration = Duration::from_secs(2);

/// Runs the role `sshd-monitor`; returns its exit status.
#[must_use]
pub fn monitor_main() -> i32 {
    sys::signals::began_with_defaults();
    let _ = sys::process::set_name(roles::PROCESS_NAME);
    let mut handed = match Handed::read() {
        Ok(handed) => handed,
        Err(error) => {
            eprintln!("{}: {error}", roles::ROLE_MONITOR);
            return 255;
        }
    };
    let config = match Configuration::decode(&handed.start.config) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{}: configuration: {error}", roles::ROLE_MONITOR);
            return 255;
        }
    };
    // The encoded configuration is only needed to start; it is freed, since a connection may last
    // for days.
    handed.start.config = Vec::new();
    let log = open_log(&handed.start, &config.global().logging);
    let served = match handed.connection(config.global(), &log) {
        Ok(Some(inherited)) => serve(inherited, config, &log),
        // The listener has closed the socket without a connection.
        Ok(None) => Ok(0),
        Err(error) => Err(error),
    };
    match served {
        Ok(status) => status,
        Err(error) => {
            log.fatal(&error);
            255
        }
    }
}

fn open_log(start: &MonitorStart, logging: &LoggingOptions) -> Log {
    let forced = log::forced_level(start.log_override);
    let level = forced.unwrap_or(logging.log_level);
    let log = if start.log_to_stderr {
        Log::to_stderr(level)
    } else {
        Log::to_syslog(level, logging.syslog_facility)
    };
    log.set_json(logging.is_json);
    let log = log.forced(forced.is_some());
    log.follow(logging);
    log
}

/// The addresses of a connection whose client is `client`, if a load balancer has named one, or the
/// connection's peer.
fn addresses(
    network: &OwnedFd,
    client: Option<&(String, u16)>,
    use_dns: bool,
) -> io::Result<Addresses> {
    let client = client.map(|(address, port)| -> io::Result<_> {
        let address = address.parse().map_err(io::Error::other)?;
        Ok(std::net::SocketAddr::new(address, *port))
    });
    let remote = match client.unwrap_or_else(|| sys::socket::peer_address(network)) {
        Ok(remote) => sys::socket::unmapped(remote),
        // A pipe or a local socket has no address; the placeholder must match no list by accident.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(no_addresses()),
        Err(error) => return Err(error),
    };
    let local = sys::socket::unmapped(sys::socket::local_address(network)?);
    let name = use_dns
        .then(|| sys::socket::reverse_confirmed(remote.ip()))
        .flatten();
    Ok(Addresses {
        remote: remote.ip(),
        remote_port: remote.port(),
        local: local.ip(),
        local_port: local.port(),
        rdomain: sys::socket::bound_device(network).unwrap_or_default(),
        host: name.unwrap_or_else(|| remote.ip().to_string()),
    })
}

fn no_addresses() -> Addresses {
    let nowhere = std::net::IpAddr::from([0, 0, 0, 0]);
    Addresses {
        remote: nowhere,
        remote_port: 65_535,
        local: nowhere,
        local_port: 65_535,
        rdomain: String::new(),
        host: user::UNKNOWN.to_owned(),
    }
}

/// Serves a connection to its end; returns the exit status, which becomes that of `sshd -i`.
fn serve(mut inherited: Inherited, config: Configuration, log: &Log) -> Result<i32, String> {
    let use_dns = config.global().connection.use_dns;
    let client = inherited.client.take();
    let Ok(addresses) = addresses(&inherited.network, client.as_ref(), use_dns) else {
        // The client is gone already.
        inherited.tell(ConnectionNews::Gone);
        return Ok(NOT_LOGGED_IN);
    };
    log.name_client(&addresses.remote_text(), addresses.remote_port);
    let Some(login) = log_in(&mut inherited, &config, &addresses, log)? else {
        return Ok(NOT_LOGGED_IN);
    };
    // The session does not need the configuration, and may last for days.
    drop(config);
    let confinement = inherited.start.chroot.take().zip(inherited.start.auth_ids);
    let session = MonitorSession::new(
        login.proof,
        login.user,
        login.account,
        login.signer,
        &addresses,
        &inherited.executable,
        log,
    );
    let kerberos = Kerberos::new(&inherited.executable, inherited.start.auth_ids);
    let session = Box::new(
        session
            .with_confinement(confinement)
            .with_kerberos(kerberos),
    );
    session.run(
        inherited.network,
        login.auth,
        login.process,
        &inherited.reports,
    )?;
    Ok(0)
}

/// Somebody has logged in.
struct LoggedIn<'log> {
    proof: Authenticated,
    user: LoginUser,
    account: Account,
    signer: Signer,
    auth: Predecessor<'log>,
    process: Option<SessionProcess>,
}

/// Shows in `ps` whom this process serves, in the words of OpenSSH 10.6.
fn show_title(what: &str) {
    let _ = sys::process::set_title(&format!("{}: {what}", roles::PROCESS_NAME));
}

/// Serves a connection until a login. Returns `None` if nobody has logged in; the listener has then
/// received the news. Never inlined, so that its stack memory is free during the session.
#[inline(never)]
fn log_in<'log>(
    inherited: &mut Inherited,
    config: &Configuration,
    addresses: &Addresses,
    log: &'log Log,
) -> Result<Option<Box<LoggedIn<'log>>>, String> {
    let options = config.for_connection(&addresses.spec());
    log.follow(&options.logging);
    if !is_welcome(&options, addresses, log) {
        inherited.tell(ConnectionNews::Refused);
        return Ok(None);
    }
    show_title("[accepted]");
    let greeted = inherited.greeted.take();
    let (mut auth, socket) = inherited
        .start_auth(
            &options,
            AuthConnection {
                options: None,
                greeted,
                remote_address: addresses.remote_text(),
                remote_port: addresses.remote_port,
                local_address: addresses.local_text(),
                local_port: addresses.local_port,
                login_grace_seconds: options.limits.login_grace_time_s,
            },
            config.has_conditions(),
            log,
        )
        .map_err(|error| format!("starting the auth process: {error}"))?;
    let mut channel = RpcChannel::new(socket, LoginPhase::KeyExchange, log, log::PREAUTH)
        .map_err(|error| error.to_string())?;
    channel.set_deadline_ms(deadline_ms(inherited.accepted_ms, &options.limits));
    let signer = Signer::new(
        core::mem::take(&mut inherited.start.host_keys),
        core::mem::take(&mut inherited.private_keys),
        core::mem::take(&mut inherited.start.host_key_agent),
        options.host_keys.security_key_provider.clone(),
        key_exchanges(
            options.authentication.gssapi_key_exchange,
            &options.algorithms.gssapi_kex_algorithms,
            &options.algorithms.kex_algorithms,
        ),
        sys::time::monotonic_ms(),
    );
    let ahead = if options.authentication.use_pam {
        EarlySession::never()
    } else {
        EarlySession::of(&inherited.executable, &inherited.network)
    };
    drop(options);
    let mut login = AuthService {
        channel,
        signer,
        config,
        addresses,
        delay_secret: inherited.delay_secret.expose(),
        log,
        user: None,
        revoked: Default::default(),
        ahead,
        kerberos: Kerberos::new(&inherited.executable, inherited.start.auth_ids),
        gss: None,
        attempts: AttemptCounts::default(),
    };
    let ran = login.run();
    // Before the news, for which the listener wakes.
    if let Some(report) = login.attempts.report() {
        inherited.reports.send(&report);
    }
    let proof = match ran {
        Ok(proof) => proof,
        Err(end) => {
            let news = end_without_login(login, &end, &mut auth);
            inherited.tell(news);
            return Ok(None);
        }
    };
    let (channel, signer, user, process) = login.into_parts();
    // LoginGraceTime and the MaxStartups slot end here.
    inherited.tell(ConnectionNews::Authenticated);
    inherited.news = None;
    let auth = Predecessor::new(auth, channel);
    let Some(user) = user else {
        return Err("login without a user".to_owned());
    };
    let Some(account) = user.account().cloned() else {
        return Err("login without an account".to_owned());
    };
    show_title(&format!("{} [postauth]", privsep::log_text(&user.name)));
    Ok(Some(Box::new(LoggedIn {
        proof,
        user,
        account,
        signer,
        auth,
        process,
    })))
}

/// Logs the connection; false if RefuseConnection ends it.
fn is_welcome(options: &ServerOptions, addresses: &Addresses, log: &Log) -> bool {
    if options.connection.refuse_connection {
        log.info(&format!(
            "administratively prohibited connection from {} port {}",
            addresses.remote_text(),
            addresses.remote_port
        ));
        return false;
    }
    log.verbose(&format!(
        "Connection from {} port {} on {} port {} rdomain \"{}\"",
        addresses.remote_text(),
        addresses.remote_port,
        addresses.local_text(),
        addresses.local_port,
        addresses.rdomain
    ));
    true
}

/// The end of LoginGraceTime, which starts when the connection is accepted; `None` without a limit.
fn deadline_ms(accepted_ms: u64, limits: &LimitOptions) -> Option<u64> {
    let grace_ms = u64::from(limits.login_grace_time_s) * 1000;
    (grace_ms > 0).then(|| accepted_ms.saturating_add(grace_ms))
}

/// Ends the auth process of a connection without a login, logs the reason and returns the news for
/// the listener.
fn end_without_login(
    mut login: AuthService<'_, '_, '_>,
    end: &NotLoggedIn,
    auth: &mut Child,
) -> ConnectionNews {
    login.ask_for_user();
    let address = format!(
        "{} port {}",
        login.addresses.remote_text(),
        login.addresses.remote_port
    );
    let who = match &login.user {
        Some(user) => user.who(),
        None => address.clone(),
    };
    login.channel.write_last_words(&who);
    let attempted = login.user.as_ref().is_some_and(|user| user.tries.attempted);
    let unknown = login.user.as_ref().is_some_and(LoginUser::is_unknown);
    let log = login.log;
    let signed = login.signer.session_id().is_some();
    // After TooManyFailures the auth process still writes its DISCONNECT. In all other cases it
    // ends because its socket closes.
    drop(login);
    let wait = match end {
        NotLoggedIn::TooMany | NotLoggedIn::End(RpcEnd::Closed) => AUTH_EXIT_WAIT,
        NotLoggedIn::End(_) | NotLoggedIn::Refused => Duration::ZERO,
    };
    if !has_ended(auth, wait) {
        let _ = auth.signal(Signal::KILL);
        let _ = auth.wait();
    }
    let status = auth.try_wait().ok().flatten();
    let crashed = match status {
        Some(ExitStatus::Signaled { signal, .. }) if signal != Signal::KILL => {
            log.error(&format!("auth process was killed by signal {signal:?}"));
            true
        }
        _ => false,
    };
    // A process that had an exchange hash signed has started, whatever its exit status claims.
    let never_began = !signed
        && matches!(status, Some(ExitStatus::Exited(code))
            if i32::from(code) == roles::exit::NOT_STARTED);
    match end {
        NotLoggedIn::End(RpcEnd::Deadline) => {
            log.fatal(&format!("Timeout before authentication for {address}"));
            ConnectionNews::GraceExceeded
        }
        NotLoggedIn::End(RpcEnd::Violation(what)) => {
            log.error(&format!("{who}: auth process broke a rule: {what}"));
            ConnectionNews::Crashed
        }
        NotLoggedIn::End(RpcEnd::Io(error)) => {
            log.error(&format!("{who}: {error}"));
            ConnectionNews::NoAttempt
        }
        NotLoggedIn::Refused => ConnectionNews::Refused,
        _ if crashed => ConnectionNews::Crashed,
        _ if never_began => ConnectionNews::NotServed,
        _ if attempted && unknown => ConnectionNews::InvalidUser,
        _ if attempted => ConnectionNews::AuthenticationFailed,
        _ => ConnectionNews::NoAttempt,
    }
}

/// Waits up to `at_most` for a child to end; returns true if it has ended.
pub(crate) fn has_ended(child: &mut Child, at_most: Duration) -> bool {
    match sys::io::wait_readable(child.pidfd(), Some(at_most)) {
        Ok(ended) => ended,
        Err(_) => child.try_wait().is_ok_and(|status| status.is_some()),
    }
}
