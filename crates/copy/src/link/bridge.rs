//! A copy's bridge between the engine's thread and a connection's thread: the login, questions to
//! the user, and the channel's packets.
//!
//! The engine writes requests and files' bytes directly into the packet buffers that are sealed and
//! sent; see [`driver::PacketBridge`]. Outwards, [`QUEUED_BYTES`] is the limit. Inwards the
//! channel's window follows the path and may be many times what the engine keeps up with, so the
//! connection reads no more while [`HELD_BYTES`] wait for the engine.
//!
//! The engine's first packets may leave with the login: see [`FirstPackets`].

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use client::prompt::Turns;
use client::session::{EARLY_BYTES, LocalEnd, ServerFacts};
use driver::{
    BridgeCommand, BridgeEnd, BridgeLimits, ChannelHandler, ChannelIo, HandlerProgress, LoopTimes,
    PacketBridge, ThreadWaker,
};
use packet::PacketBuf;
use proto::{Error, Stream};
use sys::epoll::EventFd;

use super::first::FirstPackets;

/// Bytes that wait to be sent before the engine is held back: more than leave at once.
const QUEUED_BYTES: usize = 2 << 20;
const LIMITS: BridgeLimits = BridgeLimits {
    outgoing_bytes: QUEUED_BYTES,
    low_bytes: QUEUED_BYTES - 1,
    spare_buffers: 32,
    spare_at_rest: 0,
};
/// Bytes that have come on all connections of a copy and that the engine has not used, up to which
/// more is read; and the least of one connection. It is what a cache holds, and no more: bytes that
/// wait in the kernel cost nothing besides, and bridge a round trip as well.
const HELD_BYTES: usize = 8 << 20;
const LEAST_HELD_BYTES: usize = 2 << 20;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkStage {
    /// It is made, and questions may be asked.
    LogsIn,
    /// Its session begins or is there.
    LoggedIn,
    /// It is over.
    Ended,
}

/// Whether the connection may ask the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Questions {
    /// It is the only one that logs in.
    Free,
    /// Others log in as well: it waits for its turn.
    InTurn,
    /// It waits.
    Waits,
}

#[derive(Debug)]
struct LinkLogin {
    stage: LinkStage,
    first: FirstPackets,
    /// The engine needs the connection.
    is_wanted: bool,
    questions: Questions,
    /// The connection had something to ask.
    asked: bool,
    /// The server takes requests before it has answered the first.
    reads_on: bool,
    /// The server is Fulmar; the server of the files may be another.
    is_fulmar: bool,
}

impl LinkLogin {
    fn is_expected(&self) -> bool {
        self.first.is_expected() && self.stage == LinkStage::LogsIn
    }
}

/// The bridge of one connection. See the module's head.
#[derive(Debug)]
pub(super) struct EngineBridge {
    login: Mutex<LinkLogin>,
    packets: Arc<PacketBridge>,
    to_engine: Arc<ThreadWaker>,
    /// The connection may ask now, or is not wanted any more.
    turn: Condvar,
    /// What the connection's thread waits for.
    times: Arc<LoopTimes>,
    /// Number of connections of the copy, this one included.
    of: usize,
}

impl EngineBridge {
    /// Creates the bridge of one of `of` connections.
    pub(super) fn new(
        to_engine: Arc<ThreadWaker>,
        questions: Questions,
        of: usize,
    ) -> io::Result<Self> {
        let packets = PacketBridge::new(LIMITS, Arc::clone(&to_engine))?;
        Ok(Self {
            login: Mutex::new(LinkLogin {
                stage: LinkStage::LogsIn,
                first: FirstPackets::new(),
                is_wanted: true,
                questions,
                asked: false,
                reads_on: false,
                is_fulmar: false,
            }),
            packets: Arc::new(packets),
            to_engine,
            turn: Condvar::new(),
            times: Arc::default(),
            of,
        })
    }

    // ---- the engine's side ------------------------------------------------------------------

    pub(super) fn stage(&self) -> LinkStage {
        locked(&self.login).stage
    }

    pub(super) fn times(&self) -> &LoopTimes {
        &self.times
    }

    /// The server is known to take requests before it has answered the first; while the login is
    /// under way, it is expected to.
    pub(super) fn reads_on(&self) -> bool {
        let state = locked(&self.login);
        match state.stage {
            LinkStage::LogsIn => state.is_expected(),
            LinkStage::LoggedIn | LinkStage::Ended => state.reads_on,
        }
    }

    /// The login is under way, and what is said now may leave with it.
    pub(super) fn is_expected(&self) -> bool {
        locked(&self.login).is_expected()
    }

    /// The server is one of ours; while the login is under way, it is expected to be.
    pub(super) fn is_fulmar(&self) -> bool {
        let state = locked(&self.login);
        match state.stage {
            LinkStage::LogsIn => state.is_expected(),
            LinkStage::LoggedIn | LinkStage::Ended => state.is_fulmar,
        }
    }

    /// It waits for its turn to ask something.
    pub(super) fn waits_to_ask(&self) -> bool {
        locked(&self.login).questions == Questions::Waits
    }

    /// It had something to ask.
    pub(super) fn has_asked(&self) -> bool {
        locked(&self.login).asked
    }

    /// It may ask, and go on until it has something else to ask.
    pub(super) fn may_ask(&self) {
        locked(&self.login).questions = Questions::InTurn;
        self.turn.notify_one();
    }

    /// Returns an empty buffer and the number of bytes that it may carry; `None` while the
    /// connection takes no packets.
    pub(super) fn room(&self) -> Option<(PacketBuf, usize)> {
        let login = locked(&self.login);
        if login.stage == LinkStage::Ended || login.first.holds() {
            return None;
        }
        if login.first.takes_early() {
            return Some((PacketBuf::with_capacity(EARLY_BYTES), EARLY_BYTES));
        }
        drop(login);
        self.packets.room()
    }

    pub(super) fn send(&self, buf: PacketBuf) {
        let mut login = locked(&self.login);
        if login.first.is_sent() {
            drop(login);
            self.packets.send(buf);
        } else {
            let leave = login.first.add(buf);
            leave.into_iter().for_each(|buf| self.packets.send(buf));
        }
    }

    /// Appends received data to `arrived`.
    pub(super) fn take_arrived(&self, arrived: &mut Vec<Bytes>) {
        self.packets.take_arrived(arrived);
    }

    /// Reports `bytes` of received data as consumed.
    pub(super) fn used(&self, bytes: usize) {
        self.packets.consumed(bytes);
    }

    /// To be called before the engine sleeps.
    pub(super) fn sleeps(&self) {
        self.packets.rest();
    }

    /// Ends the connection when everything is sent.
    pub(super) fn finish(&self) {
        self.end(BridgeCommand::Finish);
    }

    /// Ends the connection at once.
    pub(super) fn abandon(&self) {
        self.end(BridgeCommand::Abandon);
    }

    fn end(&self, command: BridgeCommand) {
        locked(&self.login).is_wanted = false;
        self.turn.notify_one();
        self.packets.command_connection(command);
    }

    // ---- the connection's side --------------------------------------------------------------

    pub(super) fn reached(&self, stage: LinkStage) {
        let mut login = locked(&self.login);
        login.stage = login.stage.max(stage);
        drop(login);
        self.to_engine.notify();
    }

    /// The server has sent its first message.
    fn hears(&self) {
        // Under the lock, so that no later packet of the engine goes before these.
        let mut login = locked(&self.login);
        let leave = login.first.hear();
        leave.into_iter().for_each(|buf| self.packets.send(buf));
    }
}

/// The connection's end of a bridge.
#[derive(Debug)]
pub(super) struct Local(pub(super) Arc<EngineBridge>);

impl LocalEnd for Local {
    fn endpoint(&mut self) -> Box<dyn ChannelHandler> {
        Box::new(EngineHandler {
            bridge: Arc::clone(&self.0),
            end: BridgeEnd::new(Arc::clone(&self.0.packets)),
            has_heard: false,
            errors: 0,
            most_held: (HELD_BYTES / self.0.of.max(1)).max(LEAST_HELD_BYTES),
        })
    }

    fn expects_fulmar(&mut self) {
        let mut login = locked(&self.0.login);
        // A later connection may not come about, and the copy does without it: no first packet is
        // written for it in advance.
        if login.questions == Questions::Free && login.first.expect() {
            drop(login);
            self.0.to_engine.notify();
        }
    }

    fn early(&mut self) -> Vec<u8> {
        locked(&self.0.login).first.early()
    }

    fn channel_begins(&mut self, heard: bool) {
        let mut login = locked(&self.0.login);
        let reads_on = login.reads_on;
        let leave = login.first.begin(heard, reads_on);
        leave.into_iter().for_each(|buf| self.0.packets.send(buf));
    }

    fn waker(&self) -> &EventFd {
        self.0.packets.waker()
    }

    fn logged_in(&mut self, server: ServerFacts) {
        let mut state = locked(&self.0.login);
        (state.reads_on, state.is_fulmar) = (server.reads_on, server.is_fulmar);
        drop(state);
        self.0.reached(LinkStage::LoggedIn);
    }

    fn loop_times(&self) -> Option<Arc<LoopTimes>> {
        Some(Arc::clone(&self.0.times))
    }

    fn turns(&self) -> Option<Arc<dyn Turns>> {
        Some(Arc::clone(&self.0) as Arc<dyn Turns>)
    }

    fn sharers(&self) -> u64 {
        u64::try_from(self.0.of).unwrap_or(u64::MAX)
    }
}

impl Turns for EngineBridge {
    fn take(&self) -> bool {
        let mut state = locked(&self.login);
        state.asked = true;
        if state.questions == Questions::Free {
            return state.is_wanted;
        }
        drop(state);
        // Whoever asks at this moment takes the signals.
        let Ok(_blocked) = sys::signals::Blocked::new(&sys::terminal::CAUGHT_SIGNALS) else {
            return false;
        };
        let mut state = locked(&self.login);
        state.questions = Questions::Waits;
        self.to_engine.notify();
        while state.questions == Questions::Waits && state.is_wanted {
            state = self
                .turn
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_wanted
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.0.reached(LinkStage::Ended);
    }
}

/// The channel's handler, on the connection's thread.
struct EngineHandler {
    bridge: Arc<EngineBridge>,
    end: BridgeEnd,
    has_heard: bool,
    /// Bytes of the server's standard error that were shown.
    errors: usize,
    /// Bytes that may wait for the engine while the connection is read.
    most_held: usize,
}

impl ChannelHandler for EngineHandler {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        match stream {
            Stream::Data => {
                if !std::mem::replace(&mut self.has_heard, true) {
                    self.bridge.hears();
                }
                self.end.receive(data);
            }
            Stream::Stderr => {
                // What cannot be shown is lost, as with a standard error that is closed.
                let _ = sys::io::write_all(sys::io::stderr(), &data);
                self.errors += data.len();
            }
        }
    }

    fn end(&mut self) {}

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        if !locked(&self.bridge.login).first.has_begun() {
            return Ok(match self.bridge.packets.look() {
                BridgeCommand::GoOn => HandlerProgress::Waiting,
                BridgeCommand::Finish | BridgeCommand::Abandon => HandlerProgress::Ended,
            });
        }
        line.consumed(std::mem::take(&mut self.errors))?;
        let progress = self.end.work(line)?;
        Ok(match progress.command {
            BridgeCommand::Finish if !progress.is_blocked => HandlerProgress::Ended,
            BridgeCommand::Abandon => HandlerProgress::Ended,
            _ if progress.has_more => HandlerProgress::Busy,
            _ => HandlerProgress::Waiting,
        })
    }

    fn most_held(&self) -> usize {
        self.most_held
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bridge(questions: Questions) -> EngineBridge {
        EngineBridge::new(Arc::new(ThreadWaker::default()), questions, 3).unwrap()
    }

    #[test]
    fn a_question_waits_for_its_turn_and_no_longer_than_it_is_wanted() {
        let alone = Arc::new(bridge(Questions::Free));
        assert!(!alone.has_asked());
        assert!(Local(Arc::clone(&alone)).turns().unwrap().take());
        assert!(alone.has_asked());
        assert_eq!(Local(alone).sharers(), 3);
        let bridge = Arc::new(bridge(Questions::InTurn));
        let turns = Local(Arc::clone(&bridge)).turns().unwrap();
        type End = fn(&EngineBridge);
        let ends: [(bool, End); 2] = [
            (true, EngineBridge::may_ask),
            (false, EngineBridge::abandon),
        ];
        for (wanted, end) in ends {
            let asked = {
                let turns = Arc::clone(&turns);
                std::thread::spawn(move || turns.take())
            };
            while !bridge.waits_to_ask() {
                let _ = bridge.to_engine.wait_at_most(Duration::from_secs(1));
            }
            end(&bridge);
            assert_eq!(asked.join().unwrap(), wanted);
        }
    }

    /// The copy does without a later connection that does not come about.
    #[test]
    fn only_the_first_connection_takes_a_packet_before_the_login() {
        for (questions, is_early) in [(Questions::Free, true), (Questions::InTurn, false)] {
            let bridge = Arc::new(bridge(questions));
            let mut local = Local(Arc::clone(&bridge));
            assert!(bridge.room().is_none());
            local.expects_fulmar();
            assert_eq!(bridge.reads_on(), is_early);
            assert_eq!(bridge.is_fulmar(), is_early);
            assert_eq!(bridge.is_expected(), is_early);
            let room = bridge.room();
            assert_eq!(room.is_some(), is_early);
            if let Some((mut buf, most)) = room {
                assert_eq!(most, EARLY_BYTES);
                buf.extend(b"INIT");
                bridge.send(buf);
                assert_eq!(local.early(), b"INIT");
                assert!(!bridge.packets.waker().drain().unwrap());
            }
            assert!(bridge.room().is_none());
            // Not Fulmar: what was written goes to the channel when it is open.
            local.logged_in(ServerFacts {
                reads_on: false,
                is_fulmar: false,
            });
            assert!(!bridge.reads_on() && !bridge.is_fulmar() && !bridge.is_expected());
            local.channel_begins(false);
            assert_eq!(bridge.packets.waker().drain().unwrap(), is_early);
        }
    }

    #[test]
    fn a_connection_that_has_ended_stays_so() {
        let bridge = Arc::new(bridge(Questions::Free));
        let mut local = Local(Arc::clone(&bridge));
        assert_eq!(bridge.stage(), LinkStage::LogsIn);
        assert!(!bridge.reads_on() && !bridge.is_fulmar());
        local.logged_in(ServerFacts {
            reads_on: true,
            is_fulmar: true,
        });
        assert!(bridge.reads_on() && bridge.is_fulmar());
        assert_eq!(bridge.stage(), LinkStage::LoggedIn);
        drop(local);
        assert_eq!(bridge.stage(), LinkStage::Ended);
        bridge.reached(LinkStage::LoggedIn);
        assert_eq!(bridge.stage(), LinkStage::Ended);
    }
}
