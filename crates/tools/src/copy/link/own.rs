//! Connections in this process, each in a thread of its own: what `fulmar ssh` does, with a
//! [`Mailbox`] in place of its standard streams.
//!
//! The first logs in alone, since it may ask something on the terminal, and what it was told, of a
//! host key or to an agent, serves the others. These log in together; what one of them has to ask
//! waits until the rest have logged in or wait as well. While questions may be asked, signals do
//! to us what they do to `ssh`: a question puts the terminal back, and the program ends.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use driver::LoopTimes;
use packet::PacketBuf;
use sys::signals::{self, Blocked, Signal};
use transfer::engine::{EngineError, Exchange, LinkTimes, Transport};

use super::mailbox::{Bell, Local, Mailbox, Questions, Stage};

/// How often a wait looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(200);
/// How long a connection that is given up has to leave the terminal and its proxy in order.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Logins under way at once: fewer than servers begin to turn away (OpenSSH's MaxStartups, 10).
const AT_ONCE: usize = 8;
/// Stack of a connection's thread, bytes: as a program's.
const STACK_BYTES: usize = 8 << 20;

/// Signals that a question on the terminal sees to.
pub(super) const OF_THE_TERMINAL: [Signal; 7] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

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

/// While a login is under way: signals end the program, by way of the thread that logs in.
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
            _blocked: Blocked::new(&OF_THE_TERMINAL)?,
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
    mailbox: Arc<Mailbox>,
    spare: Option<(PacketBuf, usize)>,
    arrived: Vec<Bytes>,
}

/// Connections in this process that carry SFTP. See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    bell: Arc<Bell>,
    connections: Vec<Connection>,
}

impl Connections {
    /// Connects and logs in as `ssh` does with these arguments, `count` times, and waits for that;
    /// whether it succeeds shows with the first bytes. Where the first fails there are no more.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add(&mut self, arguments: &[OsString], count: usize) -> io::Result<()> {
        let wanted = signals::noted();
        // The thread has its signals as they are now, this one without them.
        let first = self.begin(arguments.to_vec(), Questions::Free)?;
        let signals = LoginSignals::begin()?;
        while first.stage() == Stage::LogsIn && !wanted {
            let _ = self.bell.wait(LOOK);
        }
        drop(signals);
        let mut left = count.saturating_sub(1);
        let mut under_way = Vec::new();
        while first.stage() == Stage::LoggedIn && !signals::noted() {
            under_way.retain(|each: &Arc<Mailbox>| each.stage() == Stage::LogsIn);
            while left > 0 && under_way.len() < AT_ONCE {
                left -= 1;
                under_way.push(self.begin(arguments.to_vec(), Questions::InTurn)?);
            }
            if under_way.is_empty() {
                break;
            }
            match under_way.first() {
                Some(asks) if under_way.iter().all(|each| each.waits_to_ask()) => {
                    self.let_ask(asks)?;
                }
                _ => {
                    let _ = self.bell.wait(LOOK);
                }
            }
        }
        Ok(())
    }

    /// Lets one that waits ask, alone, until it has logged in or waits again.
    fn let_ask(&self, mailbox: &Mailbox) -> io::Result<()> {
        let _signals = LoginSignals::begin()?;
        mailbox.may_ask();
        while mailbox.stage() == Stage::LogsIn && !mailbox.waits_to_ask() {
            let _ = self.bell.wait(LOOK);
        }
        Ok(())
    }

    /// Begins a connection.
    fn begin(
        &mut self,
        arguments: Vec<OsString>,
        questions: Questions,
    ) -> io::Result<Arc<Mailbox>> {
        let mailbox = Arc::new(Mailbox::new(Arc::clone(&self.bell), questions)?);
        let mut local = Local(Arc::clone(&mailbox));
        let thread = thread::Builder::new()
            .name("connection".to_owned())
            .stack_size(STACK_BYTES);
        thread.spawn(move || {
            // Why it ended has been said.
            let _ = client::ssh_with(arguments, &mut local);
        })?;
        self.connections.push(Connection {
            mailbox: Arc::clone(&mailbox),
            spare: None,
            arrived: Vec::new(),
        });
        Ok(mailbox)
    }

    /// Ends all of them when what was sent has left.
    pub(crate) fn finish(&mut self) {
        for connection in &self.connections {
            connection.mailbox.finish();
        }
        while self.is_any_left() && !signals::noted() {
            let _ = self.bell.wait(LOOK);
        }
    }

    fn is_any_left(&self) -> bool {
        self.connections
            .iter()
            .any(|connection| connection.mailbox.stage() != Stage::Ended)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        for connection in &self.connections {
            connection.mailbox.abandon();
        }
        let end = Instant::now() + LAST_WORDS;
        while self.is_any_left() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let _ = self.bell.wait(left);
        }
    }
}

impl Connection {
    /// Writes what is to go out into packets; true when that was something.
    fn send(&mut self, link: usize, exchange: &mut dyn Exchange) -> bool {
        let mut moved = false;
        while let Some((mut buf, max)) = self.spare.take().or_else(|| self.mailbox.room()) {
            let filled = buf.fill_with(max, |room| {
                Ok::<usize, std::convert::Infallible>(exchange.fill(link, room))
            });
            if filled == Ok(0) {
                self.spare = Some((buf, max));
                break;
            }
            self.mailbox.send(buf);
            moved = true;
        }
        moved
    }

    fn receive(&mut self, link: usize, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        // Asked first: what comes before the end is there by then.
        let has_ended = self.mailbox.stage() == Stage::Ended;
        self.mailbox.take_arrived(&mut self.arrived);
        if self.arrived.is_empty() {
            return match has_ended {
                true => Err(EngineError::Closed),
                false => Ok(false),
            };
        }
        for bytes in self.arrived.drain(..) {
            let len = bytes.len();
            exchange.feed(link, bytes)?;
            self.mailbox.used(len);
        }
        Ok(true)
    }
}

impl Transport for Connections {
    fn links(&self) -> usize {
        self.connections.len()
    }

    fn reads_on(&self, link: usize) -> bool {
        let connection = self.connections.get(link);
        connection.is_some_and(|connection| connection.mailbox.reads_on())
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError> {
        let mut moved = false;
        for (link, connection) in self.connections.iter_mut().enumerate() {
            moved |= connection.send(link, exchange);
            moved |= connection.receive(link, exchange)?;
        }
        if moved || exchange.is_over() {
            return Ok(true);
        }
        for connection in &self.connections {
            connection.mailbox.sleeps();
        }
        let (rang, waited) = self.bell.wait_timed(wait);
        exchange.waited(waited);
        Ok(rang)
    }

    fn times(&self) -> Option<LinkTimes> {
        let count = u32::try_from(self.connections.len()).ok()?;
        let mean = |each: fn(&LoopTimes) -> Duration| {
            let all = self.connections.iter();
            let sum: Duration = all.map(|connection| each(connection.mailbox.times())).sum();
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
