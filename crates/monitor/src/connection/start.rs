//! Start of a monitor: reads what the listener passes on, and starts the auth process. A pre-forked
//! monitor (PreauthSpares) starts its auth process first and then waits for its connection; any
//! other monitor has its connection from the start.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use config::server::ServerOptions;
use privsep::roles::{self, ConnectionNews};
use privsep::{
    AuthConnection, AuthStart, FrameSplitter, Message, MonitorConnection, MonitorSecrets,
    MonitorStart, Secret,
};
use sys::memory::REST;
use sys::process::{Child, SelfExe};
use sys::signals::Signal;

use super::reports::Reports;
use super::{MAX_SECRETS_BYTES, MAX_START_BYTES};
use crate::log::Log;

/// Descriptors and records that the listener passes to a monitor.
pub(super) struct Handed {
    network: Option<OwnedFd>,
    news: OwnedFd,
    pub(super) start: MonitorStart,
    secrets: MonitorSecrets,
    executable: SelfExe,
    reports: Reports,
}

/// A connection and everything needed to serve it.
pub(super) struct Inherited {
    pub(super) network: OwnedFd,
    pub(super) news: Option<OwnedFd>,
    pub(super) start: MonitorStart,
    /// Milliseconds of the monotonic clock.
    pub(super) accepted_ms: u64,
    /// As in [`AuthConnection`].
    pub(super) greeted: Option<Vec<u8>>,
    /// As in [`MonitorConnection`].
    pub(super) client: Option<(String, u16)>,
    pub(super) delay_secret: Secret,
    pub(super) private_keys: Vec<Secret>,
    pub(super) executable: SelfExe,
    pub(super) reports: Reports,
    /// The pre-forked auth process, if there is one.
    auth: Option<Waiting>,
}

impl Handed {
    pub(super) fn read() -> Result<Self, String> {
        let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
        // No core file and no tracing. A resource limit of 0 on core files would be inherited by
        // the user's programs.
        sys::process::set_dumpable(false).map_err(failed("dumpable"))?;
        let inherited = |number, what| sys::io::inherited(number).map_err(failed(what));
        let keys = inherited(roles::MONITOR_KEYS_FD, "key descriptor")?;
        let secrets = zeroize::Zeroizing::new(
            sys::io::read_to_end(&keys, MAX_SECRETS_BYTES).map_err(failed("host keys"))?,
        );
        drop(keys);
        let secrets =
            MonitorSecrets::decode_body(&secrets).map_err(|error| format!("host keys: {error}"))?;
        let network = secrets
            .accepted_ms
            .map(|_| inherited(roles::NETWORK_FD, "network descriptor"))
            .transpose()?;
        let news = inherited(roles::MONITOR_NEWS_FD, "news descriptor")?;
        let config = inherited(roles::MONITOR_CONFIG_FD, "configuration descriptor")?;
        let binary = inherited(roles::MONITOR_BINARY_FD, "program descriptor")?;
        let start =
            sys::memfd::read_sealed(&config, MAX_START_BYTES).map_err(failed("start record"))?;
        let start =
            MonitorStart::decode_body(&start).map_err(|error| format!("start record: {error}"))?;
        Ok(Self {
            network,
            news,
            reports: Reports::inherited(start.reports).map_err(failed("report descriptor"))?,
            start,
            secrets,
            executable: SelfExe::from_fd(binary),
        })
    }

    /// Returns the connection; a pre-forked monitor waits for it. Returns `None` if the listener
    /// has closed the socket instead. `options` apply to a connection of which nothing is known.
    pub(super) fn connection(
        self,
        options: &ServerOptions,
        log: &Log,
    ) -> Result<Option<Inherited>, String> {
        let Self {
            network,
            news,
            start,
            secrets,
            executable,
            reports,
        } = self;
        let (network, message, auth) = match (network, secrets.accepted_ms) {
            (Some(network), Some(accepted_ms)) => {
                let message = MonitorConnection {
                    accepted_ms,
                    greeted: secrets.greeted,
                    client: secrets.client,
                };
                (network, message, None)
            }
            _ => {
                let auth = start_auth(&start, &executable, options, None, log)
                    .map_err(|error| format!("starting the auth process: {error}"))?;
                super::show_title("[waiting]");
                if options.authentication.use_pam {
                    // If libpam cannot be loaded, the login reports it.
                    let _ = sys::pam::preload();
                }
                let came = await_connection(&news)
                    .map_err(|error| format!("waiting for a connection: {error}"))?;
                let Some((network, message)) = came else {
                    // The auth process ends because its socket closes.
                    return Ok(None);
                };
                let (process, socket) = auth;
                (network, message, Some(Waiting { process, socket }))
            }
        };
        Ok(Some(Inherited {
            network,
            news: Some(news),
            start,
            accepted_ms: message.accepted_ms,
            greeted: message.greeted,
            client: message.client,
            delay_secret: secrets.delay_secret,
            private_keys: secrets.private_keys,
            executable,
            reports,
            auth,
        }))
    }
}

/// Receives the only message from the listener to a pre-forked monitor.
fn await_connection(news: &OwnedFd) -> io::Result<Option<(OwnedFd, MonitorConnection)>> {
    if !sys::io::wait_readable(news, Some(REST))? {
        // The wait may take hours.
        sys::memory::rest();
    }
    let mut bytes = [0; 128];
    let mut received = sys::socket::recv_with_fds(news, &mut bytes, 1)?;
    if received.len == 0 {
        return Ok(None);
    }
    // A message this short arrives in one piece.
    let mut splitter = FrameSplitter::new();
    splitter.feed(bytes.get(..received.len).unwrap_or_default());
    let frame = splitter.next_frame().map_err(io::Error::other)?;
    let message: Option<MonitorConnection> = frame
        .map(|frame| frame.decode())
        .transpose()
        .map_err(io::Error::other)?;
    match (message, received.fds.pop()) {
        (Some(message), Some(network)) => Ok(Some((network, message))),
        _ => Err(io::Error::other("no connection came with the message")),
    }
}

impl Inherited {
    pub(super) fn tell(&self, news: ConnectionNews) {
        if let Some(pipe) = &self.news {
            let _ = sys::io::write(pipe, &[news.byte()]);
        }
    }

    /// Returns the auth process for the connection and the monitor's end of the RPC: the pre-forked
    /// process, or a new one. `told_apart`: the options may differ from those that the pre-forked
    /// process has.
    pub(super) fn start_auth(
        &mut self,
        options: &ServerOptions,
        mut connection: AuthConnection,
        told_apart: bool,
        log: &Log,
    ) -> io::Result<(Child, OwnedFd)> {
        if let Some(waiting) = self.auth.take() {
            connection.options = told_apart.then(|| options.encode_for_auth());
            if let Some(begun) = waiting.begin(&self.network, &connection) {
                return Ok(begun);
            }
            log.verbose("the auth process that was started early has ended; starting another");
            connection.options = None;
        }
        let connection = Some((&self.network, connection));
        start_auth(&self.start, &self.executable, options, connection, log)
    }
}

/// A pre-forked auth process, which has closed its sandbox and waits for a connection.
struct Waiting {
    process: Child,
    socket: OwnedFd,
}

impl Waiting {
    /// Passes the connection to the process; returns `None` if the process has ended.
    fn begin(mut self, network: &OwnedFd, connection: &AuthConnection) -> Option<(Child, OwnedFd)> {
        let frame = connection.encode_frame();
        let sent = sys::socket::send_with_fds(&self.socket, &frame, &[network.as_fd()]).and_then(
            |count| sys::io::write_all(&self.socket, frame.get(count..).unwrap_or_default()),
        );
        if sent.is_ok() {
            return Some((self.process, self.socket));
        }
        let _ = self.process.signal(Signal::KILL);
        let _ = self.process.wait();
        None
    }
}

/// Starts an auth process, for `connection` or pre-forked without one.
fn start_auth(
    start: &MonitorStart,
    executable: &SelfExe,
    options: &ServerOptions,
    connection: Option<(&OwnedFd, AuthConnection)>,
    log: &Log,
) -> io::Result<(Child, OwnedFd)> {
    let (network, connection) = connection.unzip();
    let record = AuthStart {
        options: options.encode_for_auth(),
        host_keys: start.host_keys.clone(),
        connection,
        chroot: start.chroot.clone(),
        uid_gid: start.auth_ids,
        log_level: log.level(),
        log_verbose: log.forced_places(),
    };
    let record = sys::memfd::sealed("sshd-auth", &record.encode_body())?;
    let (ours, theirs) = sys::socket::stream_pair()?;
    let mut command = executable.command()?;
    command
        .args(["fulmar", roles::ROLE_AUTH])
        // The monitor's standard input is /dev/null.
        .fd_shared(sys::io::stdin(), 0)
        .fd_shared(sys::io::stdin(), 1)
        .fd_shared(sys::io::stderr(), 2)
        .fd(theirs, roles::RPC_FD)
        .fd(record, roles::AUTH_START_FD)
        .death_signal(Signal::KILL);
    if let Some(network) = network {
        command.fd_shared(network, roles::NETWORK_FD);
    }
    if let Ok(features) = std::env::var(crypto::arch::FEATURES_VARIABLE) {
        command.env(crypto::arch::FEATURES_VARIABLE, features);
    }
    Ok((command.spawn()?, ours))
}
