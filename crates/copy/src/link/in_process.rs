//! Connections in this process, each in a thread of its own: what `fulmar ssh` does, with a
//! [`EngineBridge`] in place of its standard streams.
//!
//! The first logs in alone, since it may ask something on the terminal, and what it was told, of a
//! host key or to an agent, serves the others. These log in together, and while the first carries
//! the copy already, unless it had to ask: then so will they, and not in the middle of a copy. What
//! one of them has to ask waits until the rest have logged in or wait as well. Where the server is
//! expected to be one of ours, the copy begins while the first logs in: what it says first leaves
//! with the login, and then it waits. While questions may
//! be asked, signals do to us what they do to `ssh`: a question puts the terminal back, and the
//! program ends. One behind the first that does not come about has said why, and is done without.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::flags::SessionRequest;
use driver::{LoopTimes, ThreadWaker};
use packet::PacketBuf;
use sys::signals::{self, Blocked, Signal};
use transfer::engine::{EngineError, Exchange, LinkTimes, Transport};

use crate::host_copy::Connect;

use super::bridge::{EngineBridge, LinkStage, Local, Questions};

/// How often a wait looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(200);
/// How long a connection that is given up has to leave the terminal and its proxy in order.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Logins under way at once: fewer than servers begin to turn away (OpenSSH's MaxStartups, 10).
const AT_ONCE: usize = 8;
/// Bytes that the first carries before others are made: what is less is done by then.
const WORTH_OTHERS_BYTES: u64 = 1 << 20;
/// Stack of a connection's thread, bytes: as a program's.
const STACK_BYTES: usize = 8 << 20;
/// Most packets that one turn sends: the connection may take them as fast as a slow disk gives them, and answers are read and
/// progress is shown between turns.
const PACKETS_OF_A_TURN: usize = 16;

/// Signals that end a copy in order.
const ENDING: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// From here on, signals that would end the program let it clear up first.
pub(crate) fn note_signals() {
    for signal in ENDING {
        // What our parent had us ignore stays ignored. What fails leaves the default, which ends
        // us without a word.
        if !signals::is_ignored(signal).unwrap_or(false) {
            let _ = signals::note(signal);
        }
    }
}

/// How the connections of a program with many hosts are made, and how they are ended.
#[derive(Clone)]
pub(crate) struct Host {
    /// Makes a connection and serves it to its end, on a thread of its own.
    pub(crate) connect: Connect,
    /// True when the host is to be given up.
    pub(crate) is_given_up: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Host")
    }
}

/// While a login is under way: signals end the program, by way of the thread that logs in.
#[derive(Debug)]
struct LoginSignals {
    _blocked: Blocked,
}

impl LoginSignals {
    fn begin() -> io::Result<Self> {
        for signal in ENDING {
            if !signals::is_ignored(signal)? {
                signals::restore_default(signal)?;
            }
        }
        Ok(Self {
            _blocked: Blocked::new(&sys::terminal::CAUGHT_SIGNALS)?,
        })
    }
}

impl Drop for LoginSignals {
    fn drop(&mut self) {
        note_signals();
    }
}

/// One connection, as the engine's thread has it.
#[derive(Debug)]
struct Connection {
    bridge: Arc<EngineBridge>,
    /// How it is to be made, as long as it is not.
    request: Option<SessionRequest>,
    /// Others depend on it.
    is_first: bool,
    /// Something was sent on it.
    carries: bool,
    spare: Option<(PacketBuf, usize)>,
    arrived: Vec<Bytes>,
}

/// The login of the first of some connections, which is waited for.
#[derive(Debug)]
struct PendingLogin {
    /// Its number.
    link: usize,
    bridge: Arc<EngineBridge>,
    /// There are others behind it.
    is_first_of_many: bool,
    /// `None` among many hosts: the program sees to signals itself.
    _signals: Option<LoginSignals>,
}

/// Connections in this process that carry SFTP. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    waker: Arc<ThreadWaker>,
    connections: Vec<Connection>,
    /// It is under way, and nobody waits for it yet.
    login: Option<PendingLogin>,
    /// Some are not made, or log in.
    more_to_come: bool,
    /// Bytes sent and received.
    carried: u64,
    /// The host that they lead to, among many of the program.
    host: Option<Box<Host>>,
}

impl Connections {
    /// No connections yet, to one of many hosts of the program.
    pub(crate) fn to_host(host: Option<Host>) -> Self {
        let mut connections = Self::default();
        connections.host = host.map(Box::new);
        connections
    }

    /// True if what is under way is to end.
    fn is_given_up(&self) -> bool {
        signals::noted() || self.host.as_ref().is_some_and(|host| (host.is_given_up)())
    }

    /// True for one of many hosts that is to be given up: without one, a signal ends the program.
    fn host_is_given_up(&self) -> bool {
        self.host.is_some() && self.is_given_up()
    }

    /// The signals of a login, unless the program sees to them.
    fn login_signals(&self) -> io::Result<Option<LoginSignals>> {
        match &self.host {
            Some(_) => Ok(None),
            None => LoginSignals::begin().map(Some),
        }
    }

    /// Connects and logs in as `ssh` does for this request, `count` times: begins with the
    /// first, whose login is waited for by [`Connections::log_in`]. Where its server is not
    /// expected to read on, that has been done.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn begin(&mut self, request: &SessionRequest, count: usize) -> io::Result<()> {
        let link = self.connections.len();
        for index in 0..count {
            let questions = match index {
                0 => Questions::Free,
                _ => Questions::InTurn,
            };
            self.connections.push(Connection {
                bridge: Arc::new(EngineBridge::new(
                    Arc::clone(&self.waker),
                    questions,
                    count,
                )?),
                request: Some(request.clone()),
                is_first: index == 0,
                carries: false,
                spare: None,
                arrived: Vec::new(),
            });
        }
        let host = self.host.as_deref().cloned();
        let Some(first) = self.connections.get_mut(link) else {
            return Ok(());
        };
        // A signal that came before ends it all with the first turn.
        let ends = signals::noted();
        // The thread has its signals as they are now, this one without them.
        first.begin(host)?;
        let bridge = Arc::clone(&first.bridge);
        let login = PendingLogin {
            link,
            bridge: Arc::clone(&bridge),
            is_first_of_many: count > 1,
            _signals: self.login_signals()?,
        };
        self.login = (!ends).then_some(login);
        while self.login.is_some() && !bridge.is_expected() && !self.host_is_given_up() {
            if bridge.stage() != LinkStage::LogsIn {
                return self.log_in();
            }
            let _ = self.waker.wait_at_most(LOOK);
        }
        Ok(())
    }

    /// A login is under way.
    pub(crate) fn logs_in(&self) -> bool {
        self.login.is_some()
    }

    /// Waits for the login that is under way, if any, and for the others where it had to ask
    /// something: else these follow when there is something for them to do. Whether it succeeds
    /// shows with the first bytes.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn log_in(&mut self) -> io::Result<()> {
        let Some(login) = self.login.take() else {
            return Ok(());
        };
        let first = Arc::clone(&login.bridge);
        while first.stage() == LinkStage::LogsIn && !self.host_is_given_up() {
            let _ = self.waker.wait_at_most(LOOK);
        }
        self.more_to_come = login.is_first_of_many && first.stage() == LinkStage::LoggedIn;
        drop(login);
        while first.has_asked() && self.more_to_come && !signals::noted() {
            self.tend(true)?;
            if self.more_to_come {
                let _ = self.waker.wait_at_most(LOOK);
            }
        }
        Ok(())
    }

    /// Lets what is asked first leave with the login, and waits for that.
    fn ask_with_login(&mut self, exchange: &mut dyn Exchange) -> io::Result<()> {
        let Some(login) = &self.login else {
            return Ok(());
        };
        let link = login.link;
        if let Some(connection) = self.connections.get_mut(link) {
            connection.send(link, exchange);
        }
        let begun = Instant::now();
        let logged_in = self.log_in();
        exchange.waited(begun.elapsed());
        super::let_terminals_block();
        logged_in
    }

    /// Begins connections that are not made, if they are worth it, as many as may log in at once,
    /// and lets one ask when there is nothing else to wait for.
    fn tend(&mut self, begins: bool) -> io::Result<()> {
        let mut under_way = Vec::new();
        let mut is_any_left = false;
        for connection in &mut self.connections {
            if begins && under_way.len() < AT_ONCE {
                connection.begin(self.host.as_deref().cloned())?;
            }
            if connection.logs_in() {
                under_way.push(Arc::clone(&connection.bridge));
            }
            is_any_left |= connection.request.is_some();
        }
        self.more_to_come = is_any_left || !under_way.is_empty();
        match under_way.first() {
            Some(asks) if under_way.iter().all(|each| each.waits_to_ask()) => self.let_ask(asks),
            _ => Ok(()),
        }
    }

    /// Lets one that waits ask, alone, until it has logged in or waits again.
    fn let_ask(&self, bridge: &EngineBridge) -> io::Result<()> {
        let _signals = self.login_signals()?;
        bridge.may_ask();
        while bridge.stage() == LinkStage::LogsIn && !bridge.waits_to_ask() {
            let _ = self.waker.wait_at_most(LOOK);
        }
        Ok(())
    }

    /// Ends all of them when what was sent has left.
    pub(crate) fn finish(&mut self) {
        for connection in &self.connections {
            match connection.bridge.stage() {
                // It is not needed any more.
                LinkStage::LogsIn => connection.bridge.abandon(),
                LinkStage::LoggedIn | LinkStage::Ended => connection.bridge.finish(),
            }
        }
        while self.is_any(LinkStage::LoggedIn) && !signals::noted() {
            let _ = self.waker.wait_at_most(LOOK);
        }
    }

    /// Any that was begun is at this stage.
    fn is_any(&self, stage: LinkStage) -> bool {
        self.connections
            .iter()
            .any(|each| each.request.is_none() && each.bridge.stage() == stage)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        for connection in &self.connections {
            connection.bridge.abandon();
        }
        let end = Instant::now() + LAST_WORDS;
        while self.is_any(LinkStage::LogsIn) || self.is_any(LinkStage::LoggedIn) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let _ = self.waker.wait_at_most(left);
        }
    }
}

impl Connection {
    /// Begins it, in a thread of its own.
    fn begin(&mut self, host: Option<Host>) -> io::Result<()> {
        let Some(request) = self.request.take() else {
            return Ok(());
        };
        let mut local = Local(Arc::clone(&self.bridge));
        let thread = thread::Builder::new()
            .name("connection".to_owned())
            .stack_size(STACK_BYTES);
        thread.spawn(move || {
            match host {
                Some(host) => (host.connect)(request, &mut local),
                // Why it ended has been said.
                None => drop(client::ssh_with(request, &mut local)),
            }
        })?;
        Ok(())
    }

    fn logs_in(&self) -> bool {
        self.request.is_none() && self.bridge.stage() == LinkStage::LogsIn
    }

    /// Writes what is to go out into packets, at most [`PACKETS_OF_A_TURN`]; gives the number of bytes.
    fn send(&mut self, link: usize, exchange: &mut dyn Exchange) -> usize {
        let mut sent = 0;
        for _ in 0..PACKETS_OF_A_TURN {
            let Some((mut buf, max)) = self.spare.take().or_else(|| self.bridge.room()) else {
                break;
            };
            let filled = buf.fill_with(max, |room| {
                Ok::<usize, std::convert::Infallible>(exchange.fill(link, room))
            });
            if filled == Ok(0) {
                self.spare = Some((buf, max));
                break;
            }
            sent += buf.len();
            self.bridge.send(buf);
            self.carries = true;
        }
        sent
    }

    /// Hands over what has come; gives the number of bytes.
    fn receive(&mut self, link: usize, exchange: &mut dyn Exchange) -> Result<usize, EngineError> {
        // Asked first: what comes before the end is there by then.
        let has_ended = self.bridge.stage() == LinkStage::Ended;
        self.bridge.take_arrived(&mut self.arrived);
        if self.arrived.is_empty() {
            return match has_ended {
                true if self.is_first || self.carries => Err(EngineError::Closed),
                _ => Ok(0),
            };
        }
        let mut received = 0;
        for bytes in self.arrived.drain(..) {
            let len = bytes.len();
            exchange.feed(link, bytes)?;
            self.bridge.used(len);
            received += len;
        }
        Ok(received)
    }
}

impl Transport for Connections {
    fn links(&self) -> usize {
        self.connections.len()
    }

    fn reads_on(&self, link: usize) -> bool {
        let connection = self.connections.get(link);
        connection.is_some_and(|connection| connection.bridge.reads_on())
    }

    fn is_fulmar(&self, link: usize) -> bool {
        let connection = self.connections.get(link);
        connection.is_some_and(|connection| connection.bridge.is_fulmar())
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError> {
        if self.host_is_given_up() {
            return Err(EngineError::Closed);
        }
        self.ask_with_login(exchange)?;
        if self.more_to_come {
            self.tend(self.carried >= WORTH_OTHERS_BYTES)?;
        }
        let mut moved = false;
        for (link, connection) in self.connections.iter_mut().enumerate() {
            let bytes = connection.send(link, exchange) + connection.receive(link, exchange)?;
            self.carried = self.carried.saturating_add(bytes as u64);
            moved |= bytes > 0;
        }
        if moved || exchange.is_over() {
            return Ok(true);
        }
        for connection in &self.connections {
            connection.bridge.sleeps();
        }
        let wait = match &self.host {
            Some(_) => wait.min(LOOK),
            None => wait,
        };
        let (rang, waited) = self.waker.wait_at_most(wait);
        exchange.waited(waited);
        Ok(rang)
    }

    fn times(&self) -> Option<LinkTimes> {
        let count = u32::try_from(self.connections.len()).ok()?;
        let mean = |each: fn(&LoopTimes) -> Duration| {
            let all = self.connections.iter();
            let sum: Duration = all.map(|connection| each(connection.bridge.times())).sum();
            sum.checked_div(count)
        };
        Some(LinkTimes {
            work: mean(LoopTimes::work)?,
            network: mean(LoopTimes::network)?,
            peer: mean(LoopTimes::peer)?,
            network_or_peer: mean(LoopTimes::socket)?,
        })
    }
}
