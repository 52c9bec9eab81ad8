//! The listener's loop: accepts connections, applies MaxStartups and penalties, sends the early
//! banner, starts a monitor for each connection whose client sends data ([`greeted`]), and reads
//! each monitor's news. One thread with epoll; the loop waits for no child, except for the only
//! session of `-d`.

mod greeted;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use config::server::{LimitOptions, ServerConfig, ServerOptions};
use privsep::MonitorConnection;
use privsep::roles::ConnectionNews;
use sys::epoll::{Epoll, Events, Interest};
use sys::process::{Child, ExitStatus, reap_any};
use sys::signals::{Signal, SignalFd};

use super::accelerate::Trial;
use super::block::NetBlock;
use super::early_banner::COOKIE_BYTES;
use super::hostkeys::HostKeys;
use super::launch::Launch;
use super::penalties::{Offence, Penalties};
use super::preforked::PreforkedMonitors;
use super::sockets::{self, Socket};
use super::startups::{StartupRefusal, StartupRules, StartupVerdict, Startups};
use crate::log::Log;
use greeted::Greeted;

/// Connections accepted before other events are handled.
const ACCEPT_BATCH: usize = 64;
/// Pause after `accept` failed for lack of descriptors or memory.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Time after LoginGraceTime at which a monitor is killed. A monitor ends itself in time unless a
/// library call (PAM, DNS) does not return.
const GRACE_SLACK_MS: u64 = 10_000;

const SIGNAL_TOKEN: u64 = 0;
const TRIAL_TOKEN: u64 = 1;
const FIRST_SOCKET_TOKEN: u64 = 2;
const FIRST_CONNECTION_TOKEN: u64 = 1 << 32;

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// SIGTERM or SIGINT.
    Signal(Signal),
    /// The only connection of `-d` has ended.
    OnlyConnection,
}

/// The two steps of a reload (SIGHUP). Between them libraries may be probed while connections are
/// served.
pub(crate) trait Reloads {
    /// Reads the configuration and keys again. Returns `None` if any of it is invalid, and logs the
    /// reason.
    fn begin(&mut self) -> Option<NewConfiguration>;

    /// Makes the new `Launch` and sockets. On failure, logs the reason and returns the old ones.
    fn finish(
        &mut self,
        candidate: NewConfiguration,
        launch: Launch,
        sockets: Vec<Socket>,
    ) -> Result<Reloaded, (Launch, Vec<Socket>)>;
}

/// A configuration that was read and is not in use yet.
pub(crate) struct NewConfiguration {
    pub(crate) config: ServerConfig,
    pub(crate) host_keys: HostKeys,
    /// The probe of the libraries that the configuration names.
    pub(crate) trial: Option<Trial>,
}

/// Result of a successful reload.
pub(crate) struct Reloaded {
    pub(crate) config: ServerConfig,
    pub(crate) launch: Launch,
    pub(crate) sockets: Vec<Socket>,
}

/// A connection that passed MaxStartups and the penalties.
struct Accepted {
    network: OwnedFd,
    peer: SocketAddr,
    source: NetBlock,
    /// Monotonic milliseconds.
    at_ms: u64,
    /// The KEXINIT cookie of the early banner that was sent; `None` if none was sent.
    greeted: Option<[u8; COOKIE_BYTES]>,
}

/// A connection with a monitor in which nobody has logged in yet.
struct Pending {
    child: Child,
    news: OwnedFd,
    source: NetBlock,
    peer: SocketAddr,
    /// Monotonic milliseconds after which the monitor is killed.
    deadline_ms: Option<u64>,
    /// The news pipe is closed; the connection no longer counts for MaxStartups.
    silent: bool,
    /// The outcome is known and any penalty was applied.
    told: bool,
}

/// State of the listener's loop.
pub(crate) struct Listener<'log> {
    log: &'log Log,
    options: ServerOptions,
    launch: Launch,
    spares: PreforkedMonitors,
    sockets: Vec<Socket>,
    epoll: Epoll,
    signals: SignalFd,
    startups: Startups,
    penalties: Penalties,
    greeted: HashMap<u64, Greeted>,
    pending: HashMap<u64, Pending>,
    next_token: u64,
    /// A configuration whose libraries are still being probed.
    candidate: Option<NewConfiguration>,
    /// Monotonic milliseconds until which no connection is accepted.
    paused_until_ms: Option<u64>,
    /// Monotonic milliseconds when throttling began, and the number of connections refused since.
    throttled: Option<(u64, u64)>,
    /// `-d`: serve one connection, then end.
    only_one: bool,
}

impl<'log> Listener<'log> {
    /// Watches `sockets` and `signals`.
    pub(crate) fn new(
        config: &ServerConfig,
        launch: Launch,
        sockets: Vec<Socket>,
        signals: SignalFd,
        only_one: bool,
        log: &'log Log,
    ) -> io::Result<Self> {
        // Caches the signal actions once; every connection starts a program.
        sys::signals::look_at_actions();
        let epoll = Epoll::new()?;
        epoll.add(&signals, SIGNAL_TOKEN, Interest::READABLE)?;
        let options = config.global();
        let listener = Self {
            log,
            spares: spares_of(&options.limits, only_one),
            options,
            launch,
            sockets,
            epoll,
            signals,
            startups: Startups::default(),
            penalties: Penalties::default(),
            greeted: HashMap::new(),
            pending: HashMap::new(),
            next_token: FIRST_CONNECTION_TOKEN,
            candidate: None,
            paused_until_ms: None,
            throttled: None,
            only_one,
        };
        listener.watch_sockets(Interest::READABLE)?;
        Ok(listener)
    }

    /// The listening addresses.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(|socket| socket.address).collect()
    }

    /// The options in force.
    pub(crate) fn options(&self) -> &ServerOptions {
        &self.options
    }

    /// Runs until a signal ends the server; on SIGHUP, reloads through `reloads`.
    pub(crate) fn run(&mut self, reloads: &mut impl Reloads) -> io::Result<Stop> {
        let mut events = Events::with_capacity(256);
        loop {
            let timeout = self.next_wake_ms();
            self.epoll
                .wait(&mut events, timeout.map(Duration::from_millis))?;
            let now_ms = sys::time::monotonic_ms();
            let tokens: Vec<u64> = events.iter().map(|event| event.token).collect();
            for token in tokens {
                if token == SIGNAL_TOKEN {
                    if let Some(stop) = self.take_signals(reloads)? {
                        return Ok(stop);
                    }
                } else if token == TRIAL_TOKEN {
                    self.hear_trial(reloads, now_ms)?;
                } else if self.greeted.contains_key(&token) {
                    self.hear_client(token, now_ms);
                } else if token >= FIRST_CONNECTION_TOKEN {
                    self.hear(token, now_ms);
                } else {
                    self.accept(token, now_ms);
                }
            }
            let now_ms = sys::time::monotonic_ms();
            self.keep_time(now_ms);
            if self.trial_deadline_ms().is_some_and(|at| at <= now_ms) {
                self.hear_trial(reloads, now_ms)?;
            }
            self.prepare(now_ms);
            let idle = self.greeted.is_empty() && self.pending.is_empty();
            if self.only_one && self.sockets.is_empty() && idle {
                return Ok(Stop::OnlyConnection);
            }
        }
    }

    fn watch_sockets(&self, interest: Interest) -> io::Result<()> {
        for (token, socket) in (FIRST_SOCKET_TOKEN..).zip(&self.sockets) {
            self.epoll.add(&socket.fd, token, interest)?;
        }
        Ok(())
    }

    fn forget_sockets(&self) {
        for socket in &self.sockets {
            let _ = self.epoll.remove(&socket.fd);
        }
    }

    fn next_wake_ms(&self) -> Option<u64> {
        let now_ms = sys::time::monotonic_ms();
        self.pending
            .values()
            .filter_map(|pending| pending.deadline_ms)
            .chain(self.greeted.values().filter_map(Greeted::deadline_ms))
            .chain(self.paused_until_ms)
            .chain(self.trial_deadline_ms())
            .chain(self.spares.due_ms(self.places_left()))
            .chain(self.spares.rest_ms())
            .min()
            .map(|at_ms| at_ms.saturating_sub(now_ms))
    }

    /// Handles expired deadlines and the end of the pause after a failed `accept`.
    fn keep_time(&mut self, now_ms: u64) {
        if self.paused_until_ms.is_some_and(|until| until <= now_ms) {
            self.paused_until_ms = None;
            if let Err(error) = self.watch_sockets(Interest::READABLE) {
                self.log.error(&format!("listening again: {error}"));
            }
        }
        self.end_silent(now_ms);
        let late: Vec<u64> = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.deadline_ms.is_some_and(|at| at <= now_ms))
            .map(|(token, _)| *token)
            .collect();
        for token in late {
            if let Some(pending) = self.pending.get_mut(&token) {
                pending.deadline_ms = None;
                let _ = pending.child.signal(Signal::KILL);
                pending.told = true;
                let (peer, source) = (pending.peer, pending.source);
                let peer_text = greeted::text(peer);
                self.log
                    .fatal(&format!("Timeout before authentication for {peer_text}"));
                self.penalise(peer.ip(), source, Offence::GraceExceeded, now_ms);
            }
        }
    }

    /// Number of further connections that MaxStartups would admit.
    fn places_left(&self) -> usize {
        let full = StartupRules::of(&self.options.limits).full;
        full.saturating_sub(self.startups.total())
    }

    /// Starts a pre-forked monitor when one is due; only one per loop iteration, so that a
    /// connection never waits for several.
    fn prepare(&mut self, now_ms: u64) {
        self.spares.rest(now_ms);
        let due = self.spares.due_ms(self.places_left());
        if due.is_some_and(|at| at <= now_ms)
            && let Err(error) = self.spares.add(&self.launch, now_ms)
        {
            self.log.error(&format!(
                "starting a process for a later connection: {error}"
            ));
        }
    }

    // ---- new connections ----

    fn accept(&mut self, token: u64, now_ms: u64) {
        for _ in 0..ACCEPT_BATCH {
            let index = usize::try_from(token - FIRST_SOCKET_TOKEN).unwrap_or(usize::MAX);
            let Some(socket) = self.sockets.get(index) else {
                return;
            };
            match sys::socket::accept(&socket.fd) {
                Ok((network, peer)) => self.admit(network, peer, now_ms),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    self.log.error(&format!("accept: {error}"));
                    // Out of descriptors or memory: with level-triggered epoll the loop would spin.
                    self.forget_sockets();
                    self.paused_until_ms = Some(now_ms + ACCEPT_PAUSE_MS);
                    return;
                }
            }
            if self.only_one {
                self.forget_sockets();
                self.sockets.clear();
                return;
            }
        }
    }

    fn admit(&mut self, network: OwnedFd, peer: SocketAddr, now_ms: u64) {
        let source = self.block_of(peer.ip());
        let rules = StartupRules::of(&self.options.limits);
        let draw = u32::from_be_bytes(crypto::random::bytes()) % 100;
        let verdict = self.startups.verdict(&rules, source, draw);
        if let StartupVerdict::Refuse(refusal) = verdict {
            self.refuse(&network, peer, refusal, now_ms);
            return;
        }
        self.leave_throttling(&rules, now_ms);
        if !self.is_exempt(peer.ip())
            && let Some(reason) =
                self.penalties
                    .refusal(&self.options.limits.per_source_penalties, source, now_ms)
        {
            self.log.verbose(&format!(
                "drop connection #{} from [{}]:{} penalty: {reason}",
                self.startups.total(),
                peer.ip(),
                peer.port()
            ));
            let _ = sys::io::write(&network, b"Not allowed at this time\r\n");
            return;
        }
        if let StartupVerdict::Displace(largest) = verdict {
            self.displace_oldest(largest);
        }
        sockets::prepare(&network, &self.options.connection);
        let token = self.next_token;
        self.next_token += 1;
        self.startups.enter(source);
        let accepted = Accepted {
            network,
            peer,
            source,
            at_ms: now_ms,
            greeted: None,
        };
        self.begin(token, accepted);
    }

    /// Hands a connection to a pre-forked monitor, or starts a monitor for it.
    fn serve(&mut self, token: u64, accepted: Accepted, now_ms: u64) {
        let (address, source) = (accepted.peer.ip(), accepted.source);
        if let Err(error) = self.start(token, accepted, now_ms) {
            self.log
                .error(&format!("starting a process for {address}: {error}"));
            self.startups.leave(source);
        }
    }

    fn start(&mut self, token: u64, accepted: Accepted, now_ms: u64) -> io::Result<()> {
        let Accepted {
            network,
            peer,
            source,
            at_ms,
            greeted,
        } = accepted;
        let message = MonitorConnection {
            accepted_ms: at_ms,
            greeted: greeted.map(Vec::from),
        };
        let (child, news) = match self.spares.give(&network, &message, now_ms) {
            Some(waited) => waited,
            None => self.launch.start(network, at_ms, greeted)?,
        };
        self.epoll.add(&news, token, Interest::READABLE)?;
        self.pending.insert(
            token,
            Pending {
                child,
                news,
                source,
                peer,
                deadline_ms: self.grace_ends_ms(at_ms).map(|at| at + GRACE_SLACK_MS),
                silent: false,
                told: false,
            },
        );
        Ok(())
    }

    /// The end of LoginGraceTime in monotonic milliseconds; `None` without a limit.
    fn grace_ends_ms(&self, accepted_ms: u64) -> Option<u64> {
        let grace_ms = u64::from(self.options.limits.login_grace_time_s) * 1000;
        (grace_ms > 0).then(|| accepted_ms.saturating_add(grace_ms))
    }

    /// Ends the oldest connection of `source` in which nobody has logged in, because another source
    /// needs the slot. The source gets no penalty.
    fn displace_oldest(&mut self, source: NetBlock) {
        let say = |address: IpAddr| {
            let why = "to admit another source: past MaxStartups";
            self.log
                .verbose(&format!("drop connection from {address} {why}"));
        };
        let oldest = self
            .pending
            .iter_mut()
            .filter(|(_, pending)| pending.source == source && !pending.silent)
            .min_by_key(|(token, _)| **token);
        let silent = greeted::oldest(&self.greeted, source);
        let spoken = oldest.as_ref().map(|(token, _)| **token);
        if let Some(token) = silent.filter(|token| spoken.is_none_or(|spoken| *token < spoken)) {
            if let Some(greeted) = self.greeted.remove(&token) {
                say(greeted.address());
                self.startups.leave(source);
            }
            return;
        }
        let Some((_, pending)) = oldest else { return };
        say(pending.peer.ip());
        pending.told = true;
        pending.silent = true;
        let _ = self.epoll.remove(&pending.news);
        let _ = pending.child.signal(Signal::KILL);
        self.startups.leave(source);
    }

    fn refuse(
        &mut self,
        network: &OwnedFd,
        peer: SocketAddr,
        refusal: StartupRefusal,
        now_ms: u64,
    ) {
        let (since_ms, count) = self.throttled.unwrap_or((now_ms, 0));
        if count == 0 {
            self.log.info("beginning MaxStartups throttling");
        }
        self.throttled = Some((since_ms, count + 1));
        self.log.verbose(&format!(
            "drop connection #{} from [{}]:{} past {}",
            self.startups.total(),
            peer.ip(),
            peer.port(),
            match refusal {
                StartupRefusal::MaxStartups => "MaxStartups",
                StartupRefusal::PerSource => "PerSourceMaxStartups",
            }
        ));
        let _ = sys::io::write(network, b"Exceeded MaxStartups\r\n");
    }

    fn leave_throttling(&mut self, rules: &StartupRules, now_ms: u64) {
        let calm = self.startups.total() < rules.begin;
        if let Some((since_ms, count)) = self.throttled.filter(|_| calm) {
            self.throttled = None;
            self.log.info(&format!(
                "exited MaxStartups throttling after {} seconds, {count} connections dropped",
                now_ms.saturating_sub(since_ms) / 1000
            ));
        }
    }

    fn block_of(&self, address: IpAddr) -> NetBlock {
        let (bits4, bits6) = self.options.limits.per_source_net_block_size;
        NetBlock::of(address, bits4, bits6)
    }

    fn is_exempt(&self, address: IpAddr) -> bool {
        let list = &self.options.limits.per_source_penalty_exempt_list;
        !list.is_empty() && config::address::match_cidr_list(Some(address), list).unwrap_or(false)
    }

    fn penalise(&mut self, address: IpAddr, source: NetBlock, offence: Offence, now_ms: u64) {
        if self.is_exempt(address) {
            return;
        }
        let rules = &self.options.limits.per_source_penalties;
        if let Some(length_ms) = self.penalties.penalise(rules, source, offence, now_ms) {
            self.log.info(&format!(
                "{}: activating penalty of {} seconds for {}",
                source.address(),
                length_ms / 1000,
                offence.reason()
            ));
        }
    }

    // ---- news ----

    /// Reads a monitor's news.
    fn hear(&mut self, token: u64, now_ms: u64) {
        let Some(pending) = self.pending.get_mut(&token) else {
            return;
        };
        let mut bytes = [0_u8; 16];
        let count = match sys::io::read(&pending.news, &mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => 0,
        };
        if count == 0 {
            let _ = self.epoll.remove(&pending.news);
            if !core::mem::replace(&mut pending.silent, true) {
                let source = pending.source;
                self.startups.leave(source);
            }
            return;
        }
        for byte in bytes.into_iter().take(count) {
            let Some(news) = ConnectionNews::from_byte(byte) else {
                continue;
            };
            let offence = match news {
                ConnectionNews::Authenticated => {
                    self.logged_in(token);
                    return;
                }
                ConnectionNews::AuthenticationFailed => Some(Offence::AuthFail),
                ConnectionNews::InvalidUser => Some(Offence::InvalidUser),
                ConnectionNews::NoAttempt | ConnectionNews::Gone => Some(Offence::NoAuth),
                ConnectionNews::GraceExceeded => Some(Offence::GraceExceeded),
                ConnectionNews::Crashed => Some(Offence::Crash),
                ConnectionNews::Refused => Some(Offence::RefuseConnection),
                ConnectionNews::NotServed => None,
            };
            if let Some(pending) = self.pending.get_mut(&token) {
                pending.told = true;
                let (address, source) = (pending.peer.ip(), pending.source);
                if news == ConnectionNews::Gone {
                    let peer = greeted::text(pending.peer);
                    self.log.info(&format!(
                        "Connection reset by {peer}{}",
                        crate::log::PREAUTH
                    ));
                }
                if let Some(offence) = offence {
                    self.penalise(address, source, offence, now_ms);
                }
            }
        }
    }

    /// Removes a connection whose user has logged in from the start-ups. Its process is reaped when
    /// it ends.
    fn logged_in(&mut self, token: u64) {
        if let Some(pending) = self.pending.remove(&token) {
            let _ = self.epoll.remove(&pending.news);
            self.startups.leave(pending.source);
            if self.only_one {
                // With `-d`, the server waits for the session's end.
                let mut child = pending.child;
                let _ = child.wait();
            }
        }
    }

    fn take_signals(&mut self, reloads: &mut impl Reloads) -> io::Result<Option<Stop>> {
        while let Some(info) = self.signals.read()? {
            match info.signal {
                Signal::HUP => {
                    self.log.info("Received SIGHUP; restarting.");
                    self.begin_reload(reloads)?;
                }
                Signal::CHLD => self.reap(),
                signal => {
                    self.log.info(&format!(
                        "Received signal {}; terminating.",
                        signal.as_raw()
                    ));
                    return Ok(Some(Stop::Signal(signal)));
                }
            }
        }
        Ok(None)
    }

    fn reap(&mut self) {
        let now_ms = sys::time::monotonic_ms();
        while let Ok(Some((pid, status))) = reap_any() {
            let token = self
                .pending
                .iter()
                .find(|(_, pending)| pending.child.pid() == pid)
                .map(|(token, _)| *token);
            let Some(token) = token else {
                if self.spares.has_ended(pid, now_ms) {
                    let how = "a process that waited for a connection has ended";
                    self.log.verbose(&format!("{how}: {status}"));
                }
                continue;
            };
            // The pipe may still hold the process's last news.
            self.hear(token, now_ms);
            let Some(mut pending) = self.pending.remove(&token) else {
                continue;
            };
            pending.child.set_reaped(status);
            if !pending.silent {
                let _ = self.epoll.remove(&pending.news);
                self.startups.leave(pending.source);
            }
            if let ExitStatus::Signaled { signal, .. } = status
                && !pending.told
            {
                self.log.error(&format!(
                    "process {pid} for {} was killed by signal {}",
                    pending.peer.ip(),
                    signal.as_raw()
                ));
                self.penalise(pending.peer.ip(), pending.source, Offence::Crash, now_ms);
            }
        }
    }

    // ---- another configuration ----

    /// Monotonic milliseconds after which the probe of libraries is abandoned.
    fn trial_deadline_ms(&self) -> Option<u64> {
        let trial = self.candidate.as_ref()?.trial.as_ref()?;
        Some(trial.deadline_ms())
    }

    pub(super) fn begin_reload(&mut self, reloads: &mut impl Reloads) -> io::Result<()> {
        // A new reload replaces one whose probe still runs; dropping the candidate ends its probe.
        self.candidate = None;
        let Some(candidate) = reloads.begin() else {
            return Ok(());
        };
        if let Some(answer) = candidate.trial.as_ref().and_then(Trial::answer) {
            self.epoll.add(answer, TRIAL_TOKEN, Interest::READABLE)?;
            self.candidate = Some(candidate);
            return Ok(());
        }
        self.finish_reload(candidate, reloads)
    }

    /// Handles the probe's answer or deadline; completes the reload once the outcome is known.
    pub(super) fn hear_trial(&mut self, reloads: &mut impl Reloads, now_ms: u64) -> io::Result<()> {
        let Some(mut candidate) = self.candidate.take() else {
            return Ok(());
        };
        if let Some(trial) = &mut candidate.trial {
            trial.hear(now_ms);
            if trial.answer().is_some() {
                self.candidate = Some(candidate);
                return Ok(());
            }
        }
        self.finish_reload(candidate, reloads)
    }

    fn finish_reload(
        &mut self,
        candidate: NewConfiguration,
        reloads: &mut impl Reloads,
    ) -> io::Result<()> {
        let launch = match self.launch.share() {
            Ok(launch) => launch,
            Err(error) => {
                self.log.error(&format!(
                    "reload failed, the old configuration stays in use: {error}"
                ));
                return Ok(());
            }
        };
        self.forget_sockets();
        let sockets = core::mem::take(&mut self.sockets);
        match reloads.finish(candidate, launch, sockets) {
            Ok(reloaded) => {
                // These clients have received a KEXINIT of the old configuration, which their
                // monitors must use too.
                self.serve_greeted();
                self.options = reloaded.config.global();
                self.launch = reloaded.launch;
                self.sockets = reloaded.sockets;
            }
            Err((launch, sockets)) => {
                self.launch = launch;
                self.sockets = sockets;
            }
        }
        // Pre-forked monitors have the old configuration; closing their sockets ends them.
        self.spares = spares_of(&self.options.limits, self.only_one);
        if self.paused_until_ms.is_none() {
            self.watch_sockets(Interest::READABLE)?;
        }
        Ok(())
    }
}

fn spares_of(limits: &LimitOptions, only_one: bool) -> PreforkedMonitors {
    let wanted = usize::try_from(limits.preauth_spares).unwrap_or(usize::MAX);
    PreforkedMonitors::new(if only_one { 0 } else { wanted }, sys::time::monotonic_ms())
}
