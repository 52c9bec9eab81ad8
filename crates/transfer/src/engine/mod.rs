//! The engine: requests and answers over one or more connections, without I/O of its own toward
//! the server.
//!
//! A [`Transport`] moves bytes: it asks an [`Exchange`] for what is to go out ([`Exchange::fill`]
//! writes straight into its packets) and hands in what came ([`Exchange::feed`]). Between them
//! stand a [`Session`] for each connection, which knows the protocol, and one [`Work`], which
//! knows what is wanted: a tree to put, a tree to get, or a single request.
//!
//! Invariants: a server's answer is believed only if its id was asked for and its data are no
//! more than was asked for; requests, handles and bytes in flight are bounded; a work that is
//! neither done nor waiting for anything ends with an error instead of waiting for ever.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use wire::DecodeError;

use sftp::frame::FrameError;
use sftp::message::Reply;

use crate::report::Times;

mod flow;
mod meter;
mod outgoing;
mod session;

pub use meter::{Disk, LinkTimes};
pub(crate) use meter::{Meter, Waits};
pub use outgoing::{Body, Spoiled};
pub use session::{Server, Session, attributes_of, status_text};

/// What an open request is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `limits@openssh.com`, asked by the session itself.
    Limits,
    /// OPEN of a file.
    Open,
    /// READ.
    Read,
    /// READ_RANGE: DATA after DATA.
    ReadRange,
    /// OPEN_READ: what was opened, then DATA after DATA.
    OpenRead,
    /// WALK: a part of a tree after the other.
    Walk,
    /// PUT_FILE.
    PutFile,
    /// GET_FILE.
    GetFile,
    /// WRITE.
    Write,
    /// CLOSE.
    Close,
    /// CLOSE of what was read, by the session itself.
    CloseRead,
    /// CANCEL, by the session itself.
    Cancel,
    /// FSETSTAT that cuts a file to its length.
    Truncate,
    /// FSETSTAT or SETSTAT of mode and times.
    Attributes,
    /// STAT or LSTAT.
    Stat,
    /// FSTAT.
    Fstat,
    /// FSTAT for the owner of what was just made.
    Owner,
    /// MKDIR.
    Mkdir,
    /// OPENDIR.
    Opendir,
    /// READDIR.
    Readdir,
    /// RENAME or posix-rename.
    Rename,
    /// REMOVE.
    Remove,
    /// fsync@openssh.com
    Sync,
    /// statvfs of a full disk.
    Space,
    /// A hash of a range.
    Hash,
    /// A single request of a caller who waits for it.
    Plain,
}

impl Op {
    /// Answered by many messages, of which STATUS is the last.
    #[must_use]
    pub fn has_many(self) -> bool {
        matches!(self, Self::ReadRange | Self::OpenRead | Self::Walk)
    }
}

/// What an answer is recognized by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The work's own number.
    pub job: usize,
    /// What was asked.
    pub op: Op,
    /// Where in the file, for READ and WRITE.
    pub offset: u64,
    /// Bytes that it is about, for READ and WRITE; 0 else.
    pub len: u32,
}

impl Token {
    /// A request without data.
    #[must_use]
    pub fn new(job: usize, op: Op) -> Self {
        Self {
            job,
            op,
            offset: 0,
            len: 0,
        }
    }

    /// A READ or WRITE.
    #[must_use]
    pub fn data(job: usize, op: Op, offset: u64, len: u32) -> Self {
        Self {
            job,
            op,
            offset,
            len,
        }
    }
}

/// How a server broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// What is no message.
    Frame(FrameError),
    /// A message that cannot be read.
    Undecodable(DecodeError),
    /// An older version of the protocol.
    Version(u32),
    /// A rule, in words.
    Rule(&'static str),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // A shell that greets ends up here: its first letters are the length.
            Self::Frame(FrameError::TooLong(len)) => write!(
                f,
                "Received message too long {len}\nEnsure the remote shell produces no output for \
                 non-interactive sessions."
            ),
            Self::Frame(error) => write!(f, "the server broke the protocol: {error}"),
            Self::Undecodable(error) => write!(f, "the server sent what cannot be read: {error}"),
            Self::Version(version) => write!(f, "the server speaks version {version}, not 3"),
            Self::Rule(rule) => write!(f, "the server broke the protocol: {rule}"),
        }
    }
}

/// Why a run ended early.
#[derive(Debug)]
pub enum EngineError {
    /// A connection ended.
    Closed,
    /// The server broke the protocol.
    Broken(Broken),
    /// Moving bytes failed.
    Io(io::Error),
    /// A signal ended it.
    Interrupted,
    /// A defect of ours: nothing is open and the work is not done.
    Stuck,
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("Connection closed"),
            Self::Broken(broken) => broken.fmt(f),
            Self::Io(error) => write!(f, "Connection failed: {error}"),
            Self::Interrupted => f.write_str("Interrupted"),
            Self::Stuck => f.write_str("internal error: the copy waits for nothing"),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<Broken> for EngineError {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl From<io::Error> for EngineError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// What is wanted of the servers.
pub trait Work {
    /// Sends more on this connection, if there is something to send now; false when not.
    fn poll(&mut self, link: usize, session: &mut Session) -> bool;

    /// It has a request for a server that has not told what it can ([`Session::takes_early`]):
    /// [`Work::poll`] is called then, too.
    fn is_early(&self) -> bool {
        false
    }

    /// An answer that is no DATA.
    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>);

    /// Bytes of a READ's answer, `at` bytes behind its first. Kept, they pin what they came in.
    fn data(&mut self, link: usize, token: Token, at: u32, bytes: &Bytes) {
        let _ = (link, token, at, bytes);
    }

    /// A READ's answer is whole: so many bytes.
    fn data_ends(&mut self, link: usize, session: &mut Session, token: Token, len: u32) {
        let _ = (link, session, token, len);
    }

    /// A file gave other than a WRITE promised.
    fn spoiled(&mut self, spoiled: Spoiled) {
        let _ = spoiled;
    }

    /// All of it is done.
    fn is_done(&self) -> bool;

    /// When [`Work::poll`] will have something although nothing comes in.
    fn wakes_at(&self) -> Option<Instant> {
        None
    }

    /// There is something that is best done while nothing comes and nothing can be sent.
    fn has_idle_work(&self) -> bool {
        false
    }

    /// Does a little of it, no longer than half a millisecond.
    fn work_idly(&mut self) {}

    /// Which local files it moves; none where nobody wants to know what it waits for.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// Called several times a second, where [`Work::disk`] is known: where the time went since.
    fn tick(&mut self, times: &Times) {
        let _ = times;
    }

    /// An interrupt: nothing more begins, what is open is brought to an end that leaves the
    /// connections fit for the next work, and what was not done has failed. A work that does not
    /// know how goes on.
    fn stop(&mut self) {}

    /// The connections are gone: what was not done has failed.
    fn lost(&mut self, why: &EngineError) {
        let _ = why;
    }
}

/// The inner side of a transport.
pub trait Exchange {
    /// Writes what is to go out on the connection into `room`; 0 when there is nothing now.
    fn fill(&mut self, link: usize, room: &mut [u8]) -> usize;

    /// Takes in what came on the connection.
    ///
    /// # Errors
    /// [`Broken`]: the connection is of no more use.
    fn feed(&mut self, link: usize, bytes: Bytes) -> Result<(), Broken>;

    /// The transport has waited for so long.
    fn waited(&mut self, time: Duration) {
        let _ = time;
    }

    /// Nothing is wanted any more: a transport need not wait. A work can be done without anything
    /// having moved, when it was only asked for more.
    fn is_over(&self) -> bool;
}

/// The outer side: what moves bytes to servers and back.
pub trait Transport {
    /// How many connections there are; they are numbered from 0.
    fn links(&self) -> usize;

    /// Whether this connection's server is known to take requests before it has greeted. Asked
    /// until something was sent on it: some connections are made while others carry a copy.
    fn reads_on(&self, link: usize) -> bool {
        let _ = link;
        false
    }

    /// Whether this connection leads to a Fulmar, as far as that is known before the server of the
    /// files has told what it can: that may be another. Asked where [`Transport::reads_on`] says so.
    fn is_fulmar(&self, link: usize) -> bool {
        let _ = link;
        false
    }

    /// Moves what can be moved, and waits for at most `wait` if that is nothing and the exchange is
    /// not over; how long that was it [tells](Exchange::waited). True when something was moved.
    ///
    /// # Errors
    /// [`EngineError`], also when any of the connections has ended.
    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError>;

    /// Where the time of its connections went so far; none where they do not tell.
    fn times(&self) -> Option<LinkTimes> {
        None
    }

    /// Where more waits for the work to be done, one line for `-v`.
    fn report(&self) -> Option<String> {
        None
    }
}

struct Pairing<'e> {
    sessions: &'e mut [Session],
    work: &'e mut dyn Work,
    /// The work was stopped: answers on their way are not the next work's.
    stopped: bool,
    waited: Duration,
}

/// The work is done, and its answers have come where it was stopped.
fn is_over(work: &dyn Work, sessions: &[Session], stopped: bool) -> bool {
    work.is_done() && (!stopped || sessions.iter().all(Session::is_at_rest))
}

impl Exchange for Pairing<'_> {
    fn fill(&mut self, link: usize, room: &mut [u8]) -> usize {
        let Some(session) = self.sessions.get_mut(link) else {
            return 0;
        };
        let mut filled = 0;
        while filled < room.len() {
            let may_ask = session.is_open() || session.takes_early() && self.work.is_early();
            let more = session.has_output() || may_ask && self.work.poll(link, session);
            if !more {
                break;
            }
            filled += session.fill(room.get_mut(filled..).unwrap_or_default());
            for spoiled in session.take_spoiled() {
                self.work.spoiled(spoiled);
            }
        }
        filled
    }

    fn feed(&mut self, link: usize, bytes: Bytes) -> Result<(), Broken> {
        match self.sessions.get_mut(link) {
            Some(session) => session.feed(link, bytes, self.work),
            None => Ok(()),
        }
    }

    fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    fn is_over(&self) -> bool {
        is_over(self.work, self.sessions, self.stopped)
    }
}

/// How long a work that was stopped has for clearing up before the engine does without.
const STOPS: Duration = Duration::from_secs(1);
/// How long a turn waits when nothing else says so: what is shown is brought up to date.
const TURN: Duration = Duration::from_millis(200);
/// Turns in which nothing is open and nothing happens before that is called a defect.
const MAX_IDLE_TURNS: u32 = 50;

/// Connections with their sessions.
#[derive(Debug)]
pub struct Engine<T> {
    transport: T,
    sessions: Vec<Session>,
}

impl<T: Transport> Engine<T> {
    /// Greets the servers of all connections with the first run.
    pub fn new(transport: T) -> Self {
        let sessions = (0..transport.links()).map(|_| Session::default()).collect();
        Self {
            transport,
            sessions,
        }
    }

    /// What a connection's server told; meaningful once something was asked.
    pub fn server(&self, link: usize) -> Option<&Server> {
        self.sessions.get(link).map(Session::server)
    }

    /// Whether a connection's server has told all that it tells of itself.
    pub fn is_ready(&self, link: usize) -> bool {
        self.sessions.get(link).is_some_and(Session::is_ready)
    }

    /// How many connections there are.
    pub fn links(&self) -> usize {
        self.sessions.len()
    }

    /// The transport.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Runs `work` to its end. Where interrupts are counted ([`sys::signals::interrupts`]), the
    /// first one stops it, and the engine can run the next; another one, a second later, does not
    /// wait for the server. A signal that ends the program ([`sys::signals::noted`]) stops it as
    /// well, so that part files are removed, and ends it after a second at most.
    ///
    /// # Errors
    /// [`EngineError`]; `work` has heard of it.
    pub fn run(&mut self, work: &mut dyn Work) -> Result<(), EngineError> {
        let links = self.transport.times();
        let mut meter = work.disk().map(|disk| Meter::begin(disk, links));
        let result = self.turns(work, meter.as_mut());
        if let Some(meter) = &mut meter {
            work.tick(&meter.take(self.transport.times()));
        }
        if let Err(error) = &result {
            for session in &mut self.sessions {
                session.forget();
            }
            work.lost(error);
        }
        result
    }

    fn turns(
        &mut self,
        work: &mut dyn Work,
        mut meter: Option<&mut Meter>,
    ) -> Result<(), EngineError> {
        let mut idle = 0;
        let mut stopped: Option<Instant> = None;
        loop {
            let ends = sys::signals::noted();
            if is_over(work, &self.sessions, stopped.is_some()) {
                return match ends && stopped.is_some() {
                    true => Err(EngineError::Interrupted),
                    false => Ok(()),
                };
            }
            match (sys::signals::interrupts(), stopped) {
                (1.., None) => {
                    stopped = Some(Instant::now());
                    work.stop();
                }
                // The server has as long to take what clears up.
                (_, None) if ends => {
                    stopped = Some(Instant::now());
                    work.stop();
                }
                (2.., Some(at)) if at.elapsed() > STOPS => return Err(EngineError::Interrupted),
                (_, Some(at)) if ends && at.elapsed() > STOPS => {
                    return Err(EngineError::Interrupted);
                }
                _ => {}
            }
            let wakes_at = work.wakes_at();
            let has_idle_work = work.has_idle_work();
            let wait = match wakes_at {
                _ if has_idle_work => Duration::ZERO,
                Some(at) => at.saturating_duration_since(Instant::now()).min(TURN),
                None => TURN,
            };
            for (link, session) in self.sessions.iter_mut().enumerate() {
                if session.is_unmet() && self.transport.reads_on(link) {
                    session.read_on(self.transport.is_fulmar(link));
                }
            }
            let mut pairing = Pairing {
                sessions: &mut self.sessions,
                work,
                stopped: stopped.is_some(),
                waited: Duration::ZERO,
            };
            let moved = self.transport.turn(&mut pairing, wait)?;
            let waited = pairing.waited;
            if has_idle_work && !moved {
                work.work_idly();
            }
            if let Some(meter) = &mut meter {
                if !waited.is_zero() {
                    let sends = work.disk() == Some(Disk::Source);
                    let why = match wakes_at {
                        Some(_) => Waits::Asked,
                        None if sends && self.sessions.iter().any(Session::is_full) => Waits::Full,
                        None => Waits::Answers,
                    };
                    meter.waited(why, waited);
                }
                if meter.is_due() {
                    work.tick(&meter.take(self.transport.times()));
                }
            }
            let waits = has_idle_work
                || work.wakes_at().is_some()
                || self.sessions.iter().any(|session| {
                    !session.is_open() || session.open_requests() > 0 || session.has_output()
                });
            idle = if moved || waits { 0 } else { idle + 1 };
            if idle > MAX_IDLE_TURNS {
                return Err(EngineError::Stuck);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection on which something moves in every so many turns; it never sleeps.
    #[derive(Default)]
    struct Now {
        moves_in: Option<usize>,
        turns: usize,
        waited: Duration,
    }

    impl Transport for Now {
        fn links(&self) -> usize {
            1
        }

        fn turn(&mut self, _: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError> {
            self.turns += 1;
            self.waited += wait;
            Ok(self
                .moves_in
                .is_some_and(|every| self.turns.is_multiple_of(every)))
        }
    }

    /// It has so many pieces of idle work left, and is done behind the last.
    struct Idle(u32);

    impl Work for Idle {
        fn poll(&mut self, _: usize, _: &mut Session) -> bool {
            false
        }

        fn reply(&mut self, _: usize, _: &mut Session, _: Token, _: &Reply<'_>) {}

        fn has_idle_work(&self) -> bool {
            self.0 > 0
        }

        fn work_idly(&mut self) {
            self.0 -= 1;
        }

        fn is_done(&self) -> bool {
            self.0 == 0
        }
    }

    #[test]
    fn what_is_best_done_idly_is_done_where_nothing_moves_and_nothing_waits_for_it() {
        const PIECES: u32 = 4 * MAX_IDLE_TURNS;
        for (moves_in, turns) in [(None, PIECES), (Some(2), 2 * PIECES - 1)] {
            let mut engine = Engine::new(Now {
                moves_in,
                ..Now::default()
            });
            engine.run(&mut Idle(PIECES)).unwrap();
            let now = &engine.transport;
            assert_eq!(now.turns, usize::try_from(turns).unwrap());
            assert_eq!(now.waited, Duration::ZERO);
        }
    }
}
