//! The engine: requests and answers over one or more connections, without I/O of its own toward the
//! server.
//!
//! A [`Transport`] moves bytes: it asks an [`Exchange`] for bytes to send ([`Exchange::fill`]
//! writes straight into its packets) and passes received bytes to [`Exchange::feed`]. The exchange
//! connects it with one [`Session`] of `sftp` per connection, which implements the protocol, and one
//! [`Work`], which decides the requests: to upload a tree, download a tree, or a single request.
//!
//! Invariants: those of [`sftp::client`]; a work that is neither done nor waiting for anything ends
//! with an error instead of waiting forever.

use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sftp::client::Answers;
use sftp::message::Reply;

use crate::report::Times;

mod meter;

pub use meter::{Disk, LinkTimes};
pub(crate) use meter::{Meter, Waits};
pub use sftp::client::{
    Body, Broken, Op, Server, Session, Spoiled, Token, attributes_of, status_text,
};

/// Why a run of the engine ended early.
#[derive(Debug)]
pub enum EngineError {
    /// A connection ended.
    Closed,
    /// The server broke the protocol.
    Broken(Broken),
    /// I/O on a connection failed.
    Io(io::Error),
    /// A signal ended the run.
    Interrupted,
    /// A bug in Fulmar: the work is not done, but no request is unanswered.
    Stuck,
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("Connection closed"),
            Self::Broken(broken) => broken.fmt(f),
            Self::Io(error) => write!(f, "Connection failed: {error}"),
            Self::Interrupted => f.write_str("Interrupted"),
            Self::Stuck => f.write_str("internal error: the copy cannot make progress"),
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

/// A task that sends requests and processes their answers.
pub trait Work {
    /// Sends another request on this connection if one can be sent now; returns false if not.
    fn poll(&mut self, link: usize, session: &mut Session) -> bool;

    /// Returns true if the work has a request for a server that has not sent VERSION yet
    /// ([`Session::takes_early`]); [`Work::poll`] is then called for such a server.
    fn is_early(&self) -> bool {
        false
    }

    /// Processes an answer other than DATA.
    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>);

    /// Processes data of an answer, `at` bytes after the first byte of its DATA. Keeping `bytes`
    /// pins the receive buffer.
    fn data(&mut self, link: usize, token: Token, at: u32, bytes: &Bytes) {
        let _ = (link, token, at, bytes);
    }

    /// A DATA has been received completely; it had `len` bytes.
    fn data_ends(&mut self, link: usize, session: &mut Session, token: Token, len: u32) {
        let _ = (link, session, token, len);
    }

    /// Reading a local file for a WRITE failed or came up short.
    fn spoiled(&mut self, spoiled: Spoiled) {
        let _ = spoiled;
    }

    /// Returns true when the work is complete.
    fn is_done(&self) -> bool;

    /// Returns the time at which [`Work::poll`] will have a request without further input.
    fn wakes_at(&self) -> Option<Instant> {
        None
    }

    /// Returns true if there is work best done while nothing is received and nothing can be sent.
    fn has_idle_work(&self) -> bool {
        false
    }

    /// Does a part of the idle work; takes at most half a millisecond.
    fn work_idly(&mut self) {}

    /// Returns whether the work reads or writes local files; `None` if nobody asks where the time
    /// goes.
    fn disk(&self) -> Option<Disk> {
        None
    }

    /// Called several times a second if [`Work::disk`] is known, with the distribution of the time
    /// since the last call.
    fn tick(&mut self, times: &Times) {
        let _ = times;
    }

    /// Stops the work after an interrupt: it begins nothing more, ends open requests in a way that
    /// leaves the connections usable for the next work, and reports unfinished parts as failed. The
    /// default ignores the interrupt.
    fn stop(&mut self) {}

    /// The connections are lost; the work reports unfinished parts as failed.
    fn lost(&mut self, why: &EngineError) {
        let _ = why;
    }
}

/// The protocol side of a transport: its source and destination of bytes.
pub trait Exchange {
    /// Writes bytes to send on the connection into `room` and returns their number; 0 if there are
    /// none now.
    fn fill(&mut self, link: usize, room: &mut [u8]) -> usize;

    /// Processes bytes received on the connection.
    ///
    /// # Errors
    /// [`Broken`]: the connection is unusable from now on.
    fn feed(&mut self, link: usize, bytes: Bytes) -> Result<(), Broken>;

    /// Records that the transport waited for `time`.
    fn waited(&mut self, time: Duration) {
        let _ = time;
    }

    /// Returns true if the work is complete, so that a transport need not wait. A work can complete
    /// in `fill`, without any bytes moved.
    fn is_over(&self) -> bool;
}

/// Moves bytes to servers and back.
pub trait Transport {
    /// Number of connections; they are numbered from 0.
    fn links(&self) -> usize;

    /// Returns true if this connection's server is known to accept requests before it has sent
    /// VERSION. Asked until something was sent on the connection: some connections are opened while
    /// others already carry a copy.
    fn reads_on(&self, link: usize) -> bool {
        let _ = link;
        false
    }

    /// Returns true if the SSH server of this connection is Fulmar. Its SFTP server may be another;
    /// VERSION shows that later. Asked only if [`Transport::reads_on`] returns true.
    fn is_fulmar(&self, link: usize) -> bool {
        let _ = link;
        false
    }

    /// Moves all bytes that can be moved now. If there are none and the exchange is not over, waits
    /// for at most `wait` and reports the time waited ([`Exchange::waited`]). Returns true if bytes
    /// were moved.
    ///
    /// # Errors
    /// [`EngineError`], also when any of the connections has ended.
    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError>;

    /// Returns where the time of the connections went so far; `None` if the transport does not
    /// measure it.
    fn times(&self) -> Option<LinkTimes> {
        None
    }

    /// Returns a line for `-v` about waiting input, if the transport has one.
    fn report(&self) -> Option<String> {
        None
    }
}

/// Passes a session's answers on to a work.
struct AnswersOf<'w>(&'w mut dyn Work);

impl Answers for AnswersOf<'_> {
    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>) {
        self.0.reply(link, session, token, reply);
    }

    fn data(&mut self, link: usize, token: Token, at: u32, bytes: &Bytes) {
        self.0.data(link, token, at, bytes);
    }

    fn data_ends(&mut self, link: usize, session: &mut Session, token: Token, len: u32) {
        self.0.data_ends(link, session, token, len);
    }
}

struct Pairing<'e> {
    sessions: &'e mut [Session],
    work: &'e mut dyn Work,
    /// The work was stopped: wait for the answers on their way, which the next work must not get.
    stopped: bool,
    waited: Duration,
}

/// True if the work is done and, after a stop, all its answers have arrived.
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
            Some(session) => session.feed(link, bytes, &mut AnswersOf(self.work)),
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

/// Time limit for a stopped work to clean up.
const STOPS: Duration = Duration::from_secs(1);
/// Maximum waiting time of a turn: progress is shown at this interval.
const TURN: Duration = Duration::from_millis(200);
/// Number of turns without unanswered requests and without progress after which the run ends with
/// [`EngineError::Stuck`].
const MAX_IDLE_TURNS: u32 = 50;

/// Runs works over the connections of a transport, with a session for each.
#[derive(Debug)]
pub struct Engine<T> {
    transport: T,
    sessions: Vec<Session>,
}

impl<T: Transport> Engine<T> {
    /// Creates the engine; the first run sends INIT on all connections.
    pub fn new(transport: T) -> Self {
        let sessions = (0..transport.links()).map(|_| Session::default()).collect();
        Self {
            transport,
            sessions,
        }
    }

    /// Returns the capabilities of a connection's server; the defaults until the server has sent
    /// them.
    pub fn server(&self, link: usize) -> Option<&Server> {
        self.sessions.get(link).map(Session::server)
    }

    /// Returns true if the limits of a connection's server are known.
    pub fn is_ready(&self, link: usize) -> bool {
        self.sessions.get(link).is_some_and(Session::is_ready)
    }

    /// Number of connections.
    pub fn links(&self) -> usize {
        self.sessions.len()
    }

    /// Returns the transport.
    pub fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Runs `work` to its end. If interrupts are counted ([`sys::signals::interrupts`]), the first
    /// one stops the work and leaves the engine usable; a second one, at least a second later, ends
    /// the run without waiting for the server. A signal that ends the program
    /// ([`sys::signals::noted`]) stops the work too, so that part files are removed, and ends the
    /// run after at most a second.
    ///
    /// # Errors
    /// [`EngineError`], after [`Work::lost`] was called with it.
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
                // The server has the same time to carry out the cleanup.
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
            let turn = self.transport.turn(&mut pairing, wait);
            let waited = pairing.waited;
            let moved = match turn {
                // The last answer and the connection's end may come in one turn.
                Err(_) if is_over(work, &self.sessions, stopped.is_some()) => continue,
                turn => turn?,
            };
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

    /// A connection on which bytes move in every `moves_in`-th turn; it never sleeps.
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

    /// A work with this many pieces of idle work, done after the last.
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
