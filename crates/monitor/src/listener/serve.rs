//! The listener's loop: accepts connections, applies MaxStartups and penalties, sends the early
//! banner, starts a monitor for each connection whose client sends data ([`greeted`]), and reads
//! each monitor's news. One thread with epoll; the loop waits for no child, except for the only
//! session of `-d`.

mod accept_failures;
mod admission;
mod greeted;
mod measure;
mod news;
mod proxied;
mod reload;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use config::server::{LimitOptions, ServerConfig, ServerOptions};
use privsep::roles::ConnectionNews;
use sys::epoll::{Epoll, Events, Interest};
use sys::process::Child;
use sys::signals::{Signal, SignalFd};

use super::block::NetBlock;
use super::early_banner::COOKIE_BYTES;
use super::launch::Launch;
use super::penalties::{Offence, Penalties};
use super::preforked::PreforkedMonitors;
use super::sockets::Socket;
use super::startups::{StartupRules, Startups};
use super::successor::Successor;
use crate::log::Log;
use accept_failures::AcceptFailures;
use greeted::Greeted;
use measure::Measured;
use proxied::Proxied;
pub(crate) use reload::{NewConfiguration, Reloaded, Reloads};

/// Connections accepted before other events are handled.
const ACCEPT_BATCH: usize = 64;
/// Pause after `accept` failed for lack of descriptors or memory.
const ACCEPT_PAUSE_MS: u64 = 100;
/// Time after LoginGraceTime at which a monitor is killed. A monitor ends itself in time unless a
/// library call (PAM, DNS) does not return.
const GRACE_SLACK_MS: u64 = 10_000;

const SIGNAL_TOKEN: u64 = 0;
const TRIAL_TOKEN: u64 = 1;
const READER_TOKEN: u64 = 2;
const METRICS_TOKEN: u64 = 3;
const REPORTS_TOKEN: u64 = 4;
const FIRST_SOCKET_TOKEN: u64 = 5;
const FIRST_CONNECTION_TOKEN: u64 = 1 << 32;

/// Why the loop ended.
#[derive(Debug)]
pub(crate) enum Stop {
    /// SIGTERM or SIGINT.
    Signal,
    /// The only connection of `-d` has ended.
    OnlyConnection,
    /// SIGHUP, and another program has been installed.
    Successor(Successor),
}

/// A connection that passed MaxStartups and the penalties.
struct Accepted {
    network: OwnedFd,
    /// The client: the connection's peer, or whom a load balancer has named.
    peer: SocketAddr,
    /// A load balancer has named the client.
    is_proxied: bool,
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
    /// Monotonic milliseconds at which the connection was accepted.
    accepted_ms: u64,
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
    proxied: Proxied,
    measured: Measured,
    greeted: HashMap<u64, Greeted>,
    pending: HashMap<u64, Pending>,
    next_token: u64,
    /// A configuration whose libraries are still being probed.
    candidate: Option<NewConfiguration>,
    /// Monotonic milliseconds until which no connection is accepted.
    paused_until_ms: Option<u64>,
    /// Monotonic milliseconds when throttling began, and the number of connections refused since.
    throttled: Option<(u64, u64)>,
    /// Failures of `accept` for clients.
    accept_failures: AcceptFailures,
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
        let mut listener = Self {
            log,
            spares: spares_of(&options.limits, only_one),
            options,
            launch,
            sockets,
            epoll,
            signals,
            startups: Startups::default(),
            penalties: Penalties::default(),
            proxied: Proxied::default(),
            measured: Measured::default(),
            greeted: HashMap::new(),
            pending: HashMap::new(),
            next_token: FIRST_CONNECTION_TOKEN,
            candidate: None,
            paused_until_ms: None,
            throttled: None,
            accept_failures: AcceptFailures::default(),
            only_one,
        };
        listener.watch_sockets(Interest::READABLE)?;
        listener.begin_to_measure(sys::time::monotonic_ms());
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
                } else if token == READER_TOKEN {
                    self.hear_reader(now_ms);
                } else if token == METRICS_TOKEN {
                    self.answer_requests(now_ms);
                } else if token == REPORTS_TOKEN {
                    self.hear_reports();
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
            let idle =
                self.greeted.is_empty() && self.pending.is_empty() && self.proxied.is_empty();
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
            .chain(self.proxied.deadline_ms())
            .chain(self.measured.due_ms())
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
        self.end_without_header(now_ms);
        self.keep_measuring(now_ms);
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
                self.measured.counters.ended(ConnectionNews::GraceExceeded);
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
}

fn spares_of(limits: &LimitOptions, only_one: bool) -> PreforkedMonitors {
    let wanted = usize::try_from(limits.preauth_spares).unwrap_or(usize::MAX);
    PreforkedMonitors::new(if only_one { 0 } else { wanted }, sys::time::monotonic_ms())
}
