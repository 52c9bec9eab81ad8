//! Takes the snapshot from the auth process after a completed chain, starts the session process,
//! serves it, and cleans up after it.
//!
//! Invariants: a session exists only with an [`Authenticated`]; the snapshot is passed on unread;
//! user, command, restrictions and environment come only from here; every terminal that was granted
//! is taken back and its record closed, however the session ends.

mod gss_rekey;

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use config::tokens::{Purpose, Tokens};
use keys::Permission;
use privsep::{
    HostkeysProof, LoginPhase, Message, PtyGranted, PtyRefused, Restrictions, SessionGrant,
    Signature, Snapshot, ToMonitor, TunnelGranted, TunnelOpen, TunnelRefused,
};
use sys::audit::AuditRecord;
use sys::process::{Child, SelfExe};
use sys::signals::Signal;

use super::AUTH_EXIT_WAIT;
use super::accounts::Account;
use super::admit::auth_info_text;
use super::audit;
use super::chains::Authenticated;
use super::channel::{RpcChannel, RpcEnd};
use super::early_session::SessionProcess;
use super::groups::choose_group;
use super::gss_exchange::OpenExchange;
use super::has_ended;
use super::kerberos::{CredentialCache, Kerberos, TicketTerms};
use super::pam::PamLogin;
use super::rate::Rate;
use super::recording::{LAST_WRITE_WAIT, Recorder};
use super::reports::{Reports, SessionTraffic};
use super::selinux::SessionContext;
use super::signing::{Signer, SigningRefusal};
use super::tunnel::TunnelTerms;
use super::user::{Addresses, LoginUser};
use crate::log::Log;

/// Time limit for the auth process to send the snapshot, and for the session process to receive it.
const HAND_OVER_MS: u64 = 30_000;
/// Largest snapshot that is written together with the grant.
const SMALL_SNAPSHOT_BYTES: usize = 16 * 1024;
/// Most terminals of one session, above any sensible MaxSessions.
const MAX_TERMINALS: usize = 64;
/// Rate limit of terminals: burst, and milliseconds until one more; each leaves records on disk.
const TERMINAL_BURST: u64 = 128;
const TERMINAL_REFILL_MS: u64 = 50;
/// Rate limit of reports of traffic: burst, and milliseconds until one more.
const TRAFFIC_BURST: u64 = 4;
const TRAFFIC_REFILL_MS: u64 = 30_000;
/// Time limit for the exit of a session process.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Everything needed to serve a session.
pub(crate) struct MonitorSession<'c> {
    proof: Authenticated,
    /// The login's state, until the session process has received its grant.
    user: Option<LoginUser>,
    terms: Terms,
    pam: Option<PamLogin>,
    /// Credentials that the client has delegated.
    cache: Option<CredentialCache>,
    /// SELinux context of the session's programs and terminals.
    context: Option<SessionContext>,
    account: Account,
    signer: Signer,
    addresses: &'c Addresses,
    executable: &'c SelfExe,
    log: &'c Log,
    terminals: Vec<Terminal>,
    terminal_rate: Rate,
    traffic: SessionTraffic,
    traffic_rate: Rate,
    /// Empty directory, uid and gid of recorders.
    confinement: Option<(String, (u32, u32))>,
    /// Recorders of released terminals, which write the rest of the output.
    finishing: Vec<Recorder>,
    /// Starts acceptors for rekeys by GSS-API.
    kerberos: Option<Kerberos<'c>>,
    /// The running rekey by GSS-API.
    gss: Option<OpenExchange>,
}

/// The settings that decide over the session's requests. Configuration and login, a hundred times
/// larger, are freed.
struct Terms {
    moduli_file: String,
    permit_tty: bool,
    print_last_log: bool,
    cleans_credentials: bool,
    /// How tickets of rekeys are accepted; credentials only for GSSAPIStoreCredentialsOnRekey.
    tickets: TicketTerms,
    tunnel: TunnelTerms,
    /// RecordTerminals.
    record_terminals: Option<PathBuf>,
}

impl Terms {
    fn of(user: &LoginUser) -> Self {
        let options = &user.options;
        let grants = user.grants.as_ref();
        let key_permits = grants.is_none_or(|grants| grants.permissions.permits(Permission::Pty));
        Self {
            moduli_file: options.algorithms.moduli_file.clone(),
            permit_tty: options.session.permit_tty && key_permits,
            print_last_log: options.session.print_last_log,
            cleans_credentials: user
                .delegated
                .as_ref()
                .is_some_and(|delegated| delegated.is_cleaned(options)),
            tickets: TicketTerms {
                takes_delegated: options.authentication.gssapi_store_credentials_on_rekey
                    && options.authentication.gssapi_delegate_credentials,
                ..TicketTerms::of(options, true)
            },
            tunnel: TunnelTerms::of(user),
            record_terminals: options.session.record_terminals.as_ref().map(PathBuf::from),
        }
    }
}

/// A terminal granted to the session. The open master keeps the name from passing to another user
/// before the terminal is taken back.
struct Terminal {
    name: PathBuf,
    line: String,
    _master: OwnedFd,
    recorder: Option<Recorder>,
}

/// The auth process after the login, which only has the connection to hand over. On drop it is
/// killed if it does not end in time.
pub(crate) struct Predecessor<'log> {
    process: Child,
    channel: RpcChannel<'log>,
    patience: Duration,
}

impl<'log> Predecessor<'log> {
    pub(crate) fn new(process: Child, channel: RpcChannel<'log>) -> Self {
        Self {
            process,
            channel,
            patience: AUTH_EXIT_WAIT,
        }
    }

    fn take_snapshot(&mut self) -> Result<privsep::Frame, RpcEnd> {
        let taken = take_snapshot(&mut self.channel);
        if matches!(taken, Err(RpcEnd::Violation(_))) {
            self.patience = Duration::ZERO;
        }
        taken
    }
}

impl Drop for Predecessor<'_> {
    fn drop(&mut self) {
        if !has_ended(&mut self.process, self.patience) {
            let _ = self.process.signal(Signal::KILL);
        }
        let _ = self.process.wait();
    }
}

/// Receives the snapshot, the last message of the auth process, as an undecoded frame.
fn take_snapshot(channel: &mut RpcChannel<'_>) -> Result<privsep::Frame, RpcEnd> {
    channel.set_deadline_ms(Some(sys::time::monotonic_ms() + HAND_OVER_MS));
    let frame = channel.frame()?;
    if frame.number != Snapshot::NUMBER {
        return Err(RpcEnd::Violation("no snapshot after success".to_owned()));
    }
    channel.set_phase(LoginPhase::HandedOver);
    match channel.frame() {
        Err(RpcEnd::Closed) => Ok(frame),
        Err(end) => Err(end),
        Ok(_) => Err(RpcEnd::Violation("request after the snapshot".to_owned())),
    }
}

impl<'c> MonitorSession<'c> {
    /// Makes the session of `user`, who has logged in as `account` according to `proof`.
    pub(crate) fn new(
        proof: Authenticated,
        mut user: LoginUser,
        account: Account,
        signer: Signer,
        addresses: &'c Addresses,
        executable: &'c SelfExe,
        log: &'c Log,
    ) -> Self {
        let now_ms = sys::time::monotonic_ms();
        Self {
            proof,
            terms: Terms::of(&user),
            pam: user.pam.take(),
            cache: None,
            context: None,
            user: Some(user),
            account,
            signer,
            addresses,
            executable,
            log,
            terminals: Vec::new(),
            terminal_rate: Rate::new(TERMINAL_BURST, TERMINAL_REFILL_MS, now_ms),
            traffic: SessionTraffic::new(now_ms),
            traffic_rate: Rate::new(TRAFFIC_BURST, TRAFFIC_REFILL_MS, now_ms),
            confinement: None,
            finishing: Vec::new(),
            kerberos: None,
            gss: None,
        }
    }

    /// Sets what starts acceptors; without it there are no rekeys by GSS-API.
    pub(crate) fn with_kerberos(self, kerberos: Kerberos<'c>) -> Self {
        Self {
            kerberos: Some(kerberos),
            ..self
        }
    }

    /// Sets the empty directory, uid and gid of recorders; none on a server not started as root.
    pub(crate) fn with_confinement(self, confinement: Option<(String, (u32, u32))>) -> Self {
        Self {
            confinement,
            ..self
        }
    }

    /// Runs the session to its end.
    ///
    /// # Errors
    /// If the session could not be started.
    pub(crate) fn run(
        mut self,
        network: OwnedFd,
        auth: Predecessor<'_>,
        started: Option<SessionProcess>,
        reports: &Reports,
    ) -> Result<(), String> {
        if self.user.as_ref().map(|user| user.name.as_str()) != Some(self.proof.user()) {
            return Err("the proof is another user's".to_owned());
        }
        self.log.debug(&format!(
            "{} authenticated by {}",
            self.proof.user(),
            self.proof.methods().join(",")
        ));
        // From here on something is to be removed at the end, also after a signal: it ends the session
        // process, and the end of that one is the end of the session.
        for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
            sys::signals::pass_on(signal).map_err(|error| format!("signals: {error}"))?;
        }
        self.store_delegated();
        // PAM's modules may choose the context, and it must not be that of the session process.
        let opened = self.open_pam().and_then(|()| self.find_context());
        if let Err(error) = opened {
            self.tidy_up();
            return Err(error);
        }
        let started = started.filter(|_| self.pam.is_none());
        audit::session(AuditRecord::Login, self.account.uid, self.addresses);
        let ran = self.run_process(network, auth, started, reports);
        audit::session(AuditRecord::Logout, self.account.uid, self.addresses);
        if let Some(report) = self.traffic.rest() {
            reports.send(&report);
        }
        self.tidy_up();
        ran
    }

    /// Stores delegated credentials for the session. As in OpenSSH, a login does not need them.
    fn store_delegated(&mut self) {
        let delegated = self.user.as_mut().and_then(|user| user.delegated.take());
        let Some(delegated) = delegated else {
            return;
        };
        match CredentialCache::store(self.executable, &self.account, delegated) {
            Ok(cache) => self.cache = Some(cache),
            Err(error) => self.log.error(&format!("delegated credentials: {error}")),
        }
    }

    /// Opens PAM's session, if PAM is used. Its modules see the delegated credentials.
    fn open_pam(&mut self) -> Result<(), String> {
        let cache = self.cache.as_ref().map(CredentialCache::variable);
        if let Some(pam) = &mut self.pam {
            let proved = self
                .user
                .as_ref()
                .map(|user| auth_info_text(&user.auth_info));
            let exposed = pam
                .expose(&proved.unwrap_or_default())
                .and_then(|()| match &cache {
                    Some((name, value)) => pam.put_env(name, value),
                    None => Ok(()),
                });
            match exposed.and_then(|()| pam.open_session(&self.account.groups)) {
                Ok(groups) => self.account.groups = groups,
                Err(error) => {
                    pam.close();
                    return Err(format!("PAM session for {}: {error}", self.proof.user()));
                }
            }
        }
        Ok(())
    }

    fn find_context(&mut self) -> Result<(), String> {
        if sys::process::is_root() {
            self.context = SessionContext::of(&self.account.name, self.log)?;
        }
        Ok(())
    }

    fn run_process(
        &mut self,
        network: OwnedFd,
        mut auth: Predecessor<'_>,
        started: Option<SessionProcess>,
        reports: &Reports,
    ) -> Result<(), String> {
        let process = match started {
            Some(process) => process,
            None => SessionProcess::start(self.executable, &network)
                .map_err(|error| format!("starting the session: {error}"))?,
        };
        // Closes this copy, so that the connection belongs to the session process alone.
        drop(network);
        // The session process starts while the auth process makes its snapshot. It receives
        // nothing, and touches no byte of the connection, before the snapshot is complete.
        let snapshot = match auth.take_snapshot() {
            Ok(snapshot) => snapshot,
            Err(end) => {
                drop(auth);
                process.end();
                return match end {
                    // The client left right after its login.
                    RpcEnd::Closed => Ok(()),
                    end => Err(end.to_string()),
                };
            }
        };
        let SessionProcess { mut child, socket } = process;
        sys::signals::pass_on_to(Some(child.pid()));
        if sys::signals::noted() {
            let _ = child.signal(Signal::TERM);
        }
        self.log
            .verbose(&format!("User child is on pid {}", child.pid()));
        let mut channel = RpcChannel::new(socket, LoginPhase::Session, self.log, "")
            .map_err(|error| error.to_string())?;
        // The auth process still has the connection's keys: the session begins after it has ended.
        drop(auth);
        let handed_over = self.hand_over(&mut channel, snapshot);
        let served = handed_over.and_then(|()| self.serve(&mut channel, child.pid(), reports));
        drop(channel);
        // A process that broke a rule is killed at once; any other may still send a DISCONNECT.
        let patience = match &served {
            Err(RpcEnd::Violation(_)) => Duration::ZERO,
            _ => KILL_WAIT,
        };
        match served {
            Ok(()) | Err(RpcEnd::Closed) => {}
            Err(end) => self
                .log
                .error(&format!("session of {}: {end}", self.proof.user())),
        }
        if !has_ended(&mut child, patience) {
            let _ = child.signal(Signal::KILL);
            if !has_ended(&mut child, KILL_WAIT) {
                // The process hangs in a system call, for example on a disk that does not answer.
                // It has the user's rights and no connection: cleaning up does not wait for it.
                let pid = child.pid();
                self.log.error(&format!(
                    "session process {pid} does not end: the kernel holds it"
                ));
                return Ok(());
            }
        }
        sys::signals::pass_on_to(None);
        match child.wait() {
            Ok(status) => self.log.debug(&format!("session process ended: {status}")),
            Err(error) => self.log.error(&format!("waiting for the session: {error}")),
        }
        Ok(())
    }

    fn hand_over(
        &mut self,
        channel: &mut RpcChannel<'_>,
        snapshot: privsep::Frame,
    ) -> Result<(), RpcEnd> {
        channel.set_deadline_ms(Some(sys::time::monotonic_ms() + HAND_OVER_MS));
        let Some(user) = self.user.take() else {
            return Err(RpcEnd::Violation("a session is granted once".to_owned()));
        };
        let grant = self.grant(user).map_err(RpcEnd::Violation)?;
        let mut bytes = zeroize::Zeroizing::new(grant.encode_frame());
        // An empty frame's header with the true length inserted, which saves a copy of the body.
        let mut header = privsep::frame::frame(snapshot.number, &[]);
        let length = u32::try_from(snapshot.body.len() + 1).unwrap_or(u32::MAX);
        if let Some(field) = header.first_chunk_mut::<4>() {
            *field = length.to_be_bytes();
        }
        if snapshot.body.len() <= SMALL_SNAPSHOT_BYTES {
            bytes.reserve_exact(header.len() + snapshot.body.len());
            bytes.extend_from_slice(&header);
            bytes.extend_from_slice(&snapshot.body);
            channel.send_bytes(&bytes)?;
        } else {
            bytes.extend_from_slice(&header);
            channel.send_bytes(&bytes)?;
            channel.send_bytes(&snapshot.body)?;
        }
        channel.set_deadline_ms(None);
        Ok(())
    }

    fn grant(&self, user: LoginUser) -> Result<SessionGrant, String> {
        let options = user.options;
        let grants = user.grants.unwrap_or_default();
        let chroot = options
            .session
            .chroot_directory
            .as_ref()
            .map(|template| chroot_of(template, &self.account))
            .transpose()?;
        let key_environment = grants
            .environment
            .into_iter()
            .filter(|(name, _)| options.session.permit_user_environment.permits(name))
            .collect();
        let pam = self.pam.as_ref();
        // A user who must change the password first gets nothing else, port forwarding included.
        let expired = user.password_expired;
        Ok(SessionGrant {
            user: self.account.name.clone(),
            uid: self.account.uid,
            gid: self.account.gid,
            groups: self.account.groups.clone(),
            home: self.account.home.clone(),
            shell: self.account.shell.clone(),
            change_user: sys::process::is_root(),
            chroot,
            forced_command: options
                .session
                .force_command
                .clone()
                .or(grants.force_command),
            restrictions: Restrictions {
                permissions: match expired {
                    true => grants.permissions.with_expired_password(),
                    false => grants.permissions,
                },
                permit_open: grants.permit_open,
                permit_listen: grants.permit_listen,
            },
            key_environment,
            pam_environment: match (pam, &self.cache) {
                (Some(pam), _) => pam.environment(),
                (None, Some(cache)) => vec![cache.variable()],
                (None, None) => Vec::new(),
            },
            session_id: self.signer.session_id().unwrap_or_default().to_vec(),
            remote_address: self.addresses.remote_text(),
            remote_port: self.addresses.remote_port,
            local_address: self.addresses.local_text(),
            local_port: self.addresses.local_port,
            client_version: user.client_version,
            options: options.encode(),
            host_keys: self.signer.host_keys().to_vec(),
            login_messages: pam.map(|pam| pam.messages().to_owned()).unwrap_or_default(),
            pam_shows_motd: false,
            auth_info: auth_info_text(&user.auth_info),
            log_level: self.log.level(),
            log_verbose: self.log.forced_places(),
            password_expired: expired,
            selinux_context: self.context.as_ref().map(|found| found.text().to_owned()),
        })
    }

    fn serve(
        &mut self,
        channel: &mut RpcChannel<'_>,
        pid: sys::Pid,
        reports: &Reports,
    ) -> Result<(), RpcEnd> {
        loop {
            match channel.request()? {
                ToMonitor::ChooseGroup(request) => {
                    self.in_turn(|signer, now_ms| signer.allow_group(true, now_ms))?;
                    let file = &self.terms.moduli_file;
                    channel.send(&choose_group(&request, file, self.log))?;
                }
                ToMonitor::SignExchangeHash(request) => {
                    let blob = self.in_turn(|signer, now_ms| {
                        signer.sign_exchange_hash(&request, true, now_ms)
                    })?;
                    self.traffic.rekeyed();
                    channel.send(&Signature { blob })?;
                }
                ToMonitor::GssExchange(request) => self.exchange_keys(channel, request)?,
                ToMonitor::HostkeysProve(request) => {
                    let signatures = self
                        .signer
                        .prove(&request, sys::time::monotonic_ms())
                        .map_err(|refusal| self.violation(&refusal))?;
                    channel.send(&HostkeysProof { signatures })?;
                }
                ToMonitor::PtyAllocate(_) => self.allocate(channel, pid)?,
                ToMonitor::PtyRelease(request) => {
                    let name = PathBuf::from(request.tty);
                    let Some(at) = self.terminals.iter().position(|each| each.name == name) else {
                        return Err(RpcEnd::Violation("terminal was not granted".to_owned()));
                    };
                    let terminal = self.terminals.remove(at);
                    self.release(terminal, pid);
                }
                ToMonitor::TunnelOpen(request) => self.open_tunnel(channel, &request)?,
                ToMonitor::TrafficReport(claim) => {
                    let now_ms = sys::time::monotonic_ms();
                    if !self.traffic_rate.take(1, now_ms) {
                        return Err(RpcEnd::Violation("too many reports".to_owned()));
                    }
                    let report = self.traffic.advance(claim, now_ms);
                    reports.send(&report.map_err(|what| RpcEnd::Violation(what.to_owned()))?);
                }
                _ => return Err(RpcEnd::Violation("request in the wrong phase".to_owned())),
            }
        }
    }

    /// Serves a request of a rekey. Above the rate limit it sleeps, which delays only this
    /// session's own monitor.
    fn in_turn<T>(
        &mut self,
        mut ask: impl FnMut(&mut Signer, u64) -> Result<T, SigningRefusal>,
    ) -> Result<T, RpcEnd> {
        loop {
            match ask(&mut self.signer, sys::time::monotonic_ms()) {
                Ok(given) => return Ok(given),
                Err(SigningRefusal::Rate(wait_ms)) => {
                    std::thread::sleep(Duration::from_millis(wait_ms));
                }
                Err(refusal) => return Err(self.violation(&refusal)),
            }
        }
    }

    fn violation(&self, refusal: &SigningRefusal) -> RpcEnd {
        RpcEnd::Violation(match refusal {
            SigningRefusal::Violation(what) => (*what).to_owned(),
            SigningRefusal::Rate(_) => "too many signatures".to_owned(),
            SigningRefusal::Key(error) => format!("host key cannot sign: {error}"),
        })
    }

    fn open_tunnel(
        &mut self,
        channel: &mut RpcChannel<'_>,
        request: &TunnelOpen,
    ) -> Result<(), RpcEnd> {
        match self.terms.tunnel.open(request, &self.account) {
            Ok((device, interface)) => {
                channel.send_with_fds(&TunnelGranted { interface }, &[device.as_fd()])
            }
            Err(reason) => channel.send(&TunnelRefused { reason }),
        }
    }

    fn allocate(&mut self, channel: &mut RpcChannel<'_>, pid: sys::Pid) -> Result<(), RpcEnd> {
        if !self.terms.permit_tty {
            return Err(RpcEnd::Violation(
                "terminal where none is permitted".to_owned(),
            ));
        }
        if self.terminals.len() >= MAX_TERMINALS {
            return channel.send(&PtyRefused {
                reason: "too many terminals".to_owned(),
            });
        }
        if !self.terminal_rate.take(1, sys::time::monotonic_ms()) {
            return channel.send(&PtyRefused {
                reason: "too many terminals in a short time".to_owned(),
            });
        }
        let opened = sys::pty::Pty::open().and_then(|pty| {
            pty.give_to(self.account.uid, sys::pty::tty_group())?;
            Ok(pty)
        });
        let pty = match opened {
            Ok(pty) => pty,
            Err(error) => {
                self.log.error(&format!("no terminal: {error}"));
                return channel.send(&PtyRefused {
                    reason: error.to_string(),
                });
            }
        };
        let log = self.log;
        self.finishing.retain_mut(|each| !each.has_finished(log));
        let recording = match self.start_recorder().transpose() {
            Ok(recording) => recording,
            Err(error) => {
                let user = &self.account.name;
                self.log
                    .error(&format!("no terminal for {user}: RecordTerminals: {error}"));
                return channel.send(&PtyRefused {
                    reason: "it cannot be recorded".to_owned(),
                });
            }
        };
        let (recorder, pipe) = recording.unzip();
        if let Some(context) = &self.context {
            context.label(&pty.name, self.log);
        }
        let last_login = self.last_login();
        let terminal = Terminal {
            name: pty.name.clone(),
            line: pty.line(),
            _master: sys::io::dup(&pty.master)?,
            recorder,
        };
        self.record_login(&terminal.line, pid);
        self.terminals.push(terminal);
        let granted = PtyGranted {
            tty: pty.name.to_string_lossy().into_owned(),
            last_login,
        };
        let mut descriptors = vec![pty.master.as_fd(), pty.slave.as_fd()];
        descriptors.extend(pipe.as_ref().map(AsFd::as_fd));
        channel.send_with_fds(&granted, &descriptors)
    }

    /// Starts the recorder of a new terminal, if terminals are recorded. Its pipe is for the session
    /// process alone.
    fn start_recorder(&self) -> Option<Result<(Recorder, OwnedFd), String>> {
        let directory = self.terms.record_terminals.as_ref()?;
        let confinement = self.confinement.as_ref();
        let started = Recorder::start(directory, confinement, self.executable, &self.account);
        Some(started.inspect(|(recorder, _)| {
            let (user, path) = (&self.account.name, recorder.path().display());
            self.log
                .info(&format!("recording a terminal of {user} to {path}"));
        }))
    }

    fn last_login(&self) -> Option<privsep::LastLogin> {
        if !self.terms.print_last_log {
            return None;
        }
        let last = sys::loginrec::RecordFiles::default()
            .last_login(self.account.uid)
            .ok()
            .flatten()?;
        Some(privsep::LastLogin {
            time: u64::try_from(last.seconds).unwrap_or(0),
            host: last.host,
        })
    }

    fn record_login(&self, line: &str, pid: sys::Pid) {
        if !sys::process::is_root() {
            return;
        }
        let written = sys::loginrec::RecordFiles::default().login(&sys::loginrec::LoginRecord {
            user: &self.account.name,
            uid: self.account.uid,
            line,
            host: &self.addresses.host,
            address: Some(self.addresses.remote),
            pid,
            time: sys::time::realtime(),
        });
        if let Err(error) = written {
            self.log.debug(&format!("login record: {error}"));
        }
    }

    fn release(&mut self, terminal: Terminal, pid: sys::Pid) {
        if sys::process::is_root() {
            let files = sys::loginrec::RecordFiles::default();
            if let Err(error) = files.logout(&terminal.line, pid, sys::time::realtime()) {
                self.log.debug(&format!("logout record: {error}"));
            }
        }
        if let Err(error) = sys::pty::release_by_name(&terminal.name) {
            self.log
                .error(&format!("{}: {error}", terminal.name.display()));
        }
        self.finishing.extend(terminal.recorder);
    }

    fn tidy_up(&mut self) {
        for terminal in core::mem::take(&mut self.terminals) {
            self.release(terminal, sys::process::pid());
        }
        if let Some(cache) = self.cache.take().filter(|_| self.terms.cleans_credentials) {
            cache.remove(&self.account, self.log);
        }
        if let Some(pam) = &mut self.pam {
            pam.close();
        }
        // Last: their disk may not answer.
        let deadline = Instant::now() + LAST_WRITE_WAIT;
        for mut recorder in core::mem::take(&mut self.finishing) {
            recorder.finish(self.log, deadline);
        }
    }
}

/// Expands ChrootDirectory for this user. A name that is not a single path component is refused.
fn chroot_of(template: &str, account: &Account) -> Result<String, String> {
    Tokens::new()
        .with('h', &account.home)
        .with('u', &account.name)
        .with('U', account.uid.to_string())
        .expand(template, Purpose::Path)
        .map_err(|error| format!("ChrootDirectory: {error}"))
}

#[cfg(test)]
mod tests {
    use privsep::{AuthNone, LogLevel};

    use super::*;

    fn after_success(frames: &[Vec<u8>]) -> Result<privsep::Frame, RpcEnd> {
        let log = Log::to_memory(LogLevel::Info);
        let (ours, theirs) = sys::socket::stream_pair().unwrap();
        let mut channel = RpcChannel::new(ours, LoginPhase::Authenticated, &log, "").unwrap();
        for frame in frames {
            sys::io::write_all(&theirs, frame).unwrap();
        }
        drop(theirs);
        take_snapshot(&mut channel)
    }

    fn snapshot() -> Vec<u8> {
        Snapshot {
            bytes: zeroize::Zeroizing::new(vec![7; 100_000]),
        }
        .encode_frame()
    }

    #[test]
    fn the_snapshot_is_the_last_message_and_is_not_read() {
        let frame = after_success(&[snapshot()]).unwrap();
        assert_eq!(frame.body.len(), 100_004);
        // A body that is no valid snapshot is passed on too.
        let odd = privsep::frame::frame(Snapshot::NUMBER, b"odd");
        assert_eq!(after_success(&[odd]).unwrap().body, b"odd");
        assert!(matches!(
            after_success(&[snapshot(), snapshot()]),
            Err(RpcEnd::Violation(_))
        ));
        assert!(matches!(
            after_success(&[AuthNone {}.encode_frame()]),
            Err(RpcEnd::Violation(_))
        ));
        assert!(matches!(after_success(&[]), Err(RpcEnd::Closed)));
    }

    #[test]
    fn a_name_with_a_path_in_it_moves_no_root() {
        let mut account = crate::test_support::account();
        assert_eq!(
            chroot_of("/srv/%u/%U%h", &account).as_deref(),
            Ok("/srv/ada/1000/home/ada")
        );
        for name in ["../x", "..", ".", "a/b", ""] {
            account.name = name.to_owned();
            assert!(chroot_of("/srv/%u", &account).is_err(), "{name}");
        }
    }
}
