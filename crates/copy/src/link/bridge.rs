//! Where the engine's thread and a connection's thread meet: packets on their way out, bytes that
//! came in, and who is to be woken.
//!
//! The engine writes requests and files' bytes straight into the packet buffers that are sealed
//! and sent; what the server sends comes in the slabs in which it was opened. So no byte is
//! copied on the way. Bounded by [`QUEUED_BYTES`] outwards. Inwards the channel's window opens
//! again when the engine has used what came; it follows the path, and may be many times what the
//! engine keeps up with. So no more is read while [`HELD_BYTES`] wait for the engine.
//!
//! What the engine says first may leave with the login, where the server is expected to be one of
//! ours: see [`First`].

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::session::{EARLY_BYTES, LocalEnd, Turns};
use driver::{ChannelHandler, ChannelIo, HandlerProgress, LoopTimes};
use packet::PacketBuf;
use proto::{Error, Stream};
use sys::epoll::EventFd;

/// Bytes that wait to go out before the engine is held back: more than leave at once.
const QUEUED_BYTES: usize = 2 << 20;
/// Bytes that the engine has used before the connection is woken to hear of it, and those of which
/// it hears before the engine sleeps: a quarter of the smallest window, so that no peer waits for
/// one.
const TELL_BYTES: usize = 256 << 10;
const TELL_BEFORE_SLEEP_BYTES: usize = 16 << 10;
/// The parts of a large window that are as much, and the most, bytes: the peer is told when it has
/// used a quarter, and each word wakes a thread.
const TELL_OF_WINDOW: usize = 8;
const TELL_BEFORE_SLEEP_OF_WINDOW: usize = 128;
const MOST_TELL_BYTES: usize = 1 << 20;
/// Bytes that have come on all connections of a copy and that the engine has not used, up to which
/// more is read; and the least of one connection. It is what a cache holds, and no more: bytes that
/// wait in the kernel cost nothing besides, and bridge a round trip as well.
const HELD_BYTES: usize = 8 << 20;
const LEAST_HELD_BYTES: usize = 2 << 20;
/// Empty buffers at hand for the engine.
const SPARE_BUFFERS: usize = 32;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes the engine, whichever connection has something for it.
#[derive(Debug, Default)]
pub(super) struct EngineWaker {
    state: Mutex<WakerState>,
    rings: Condvar,
}

#[derive(Debug, Default)]
struct WakerState {
    notified: bool,
    waits: bool,
}

impl EngineWaker {
    fn ring(&self) {
        let mut state = locked(&self.state);
        state.notified = true;
        if state.waits {
            self.rings.notify_one();
        }
    }

    /// Waits until it is notified, or was since the last time; false when it does not for `wait`.
    pub(super) fn wait(&self, wait: Duration) -> bool {
        self.wait_timed(wait).0
    }

    /// The same, and how long that took: nothing where it was notified before, for which no clock is
    /// asked.
    pub(super) fn wait_timed(&self, wait: Duration) -> (bool, Duration) {
        let mut state = locked(&self.state);
        if std::mem::take(&mut state.notified) {
            return (true, Duration::ZERO);
        }
        let begun = Instant::now();
        while !state.notified {
            let left = wait.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return (false, begun.elapsed());
            }
            state.waits = true;
            let (woken, _) = self
                .rings
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.waits = false;
        }
        state.notified = false;
        drop(state);
        (true, begun.elapsed())
    }
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

/// What the engine wants of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkCommand {
    GoOn,
    /// End when all is sent.
    Finish,
    /// End at once.
    Abandon,
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

/// What the engine says first: INIT, and what it asks behind it of a server that is expected to
/// read on. Written while the connection is being made, it leaves with the login if the server
/// turns out to be one of ours, and when the channel is there if not. Of another server than was
/// expected only INIT is known to be taken; the rest waits until it has said something.
#[derive(Debug)]
enum First {
    /// Nothing was said. Before the channel is there it may be only where `expected` says so.
    Unsaid { expected: bool },
    /// It waits for the channel.
    Written(PacketBuf),
    /// This waits for the server's first word.
    Held(VecDeque<PacketBuf>),
    /// It is on its way, and whatever is said may follow.
    Sent,
}

#[derive(Debug)]
struct LinkState {
    stage: LinkStage,
    first: First,
    /// The channel is there.
    begun: bool,
    command: LinkCommand,
    questions: Questions,
    /// It had something to ask.
    asked: bool,
    /// Longest data in a packet, bytes; 0 until the channel is there.
    max_data: usize,
    outgoing: VecDeque<PacketBuf>,
    /// Bytes of `outgoing`, and of what the endpoint took of it and could not send yet.
    queued: usize,
    spare: Vec<PacketBuf>,
    arrived: Vec<Bytes>,
    /// Bytes that the engine has used, and the endpoint has not heard of.
    used: usize,
    /// The peer's window when the endpoint looked last, bytes.
    window: usize,
    /// The endpoint was woken and has not looked yet.
    notified: bool,
    /// What it waits for is the peer's window: more to send is no news.
    blocked: bool,
    /// The server takes what comes before it has answered.
    reads_on: bool,
    /// The server is one of ours; that of the files may be another.
    is_fulmar: bool,
}

/// The meeting place of one connection. See the module's head.
#[derive(Debug)]
pub(super) struct EngineBridge {
    state: Mutex<LinkState>,
    to_endpoint: EventFd,
    to_engine: Arc<EngineWaker>,
    /// It may ask now, or need not any more.
    turn: Condvar,
    /// What the connection's thread waits for.
    times: Arc<LoopTimes>,
    /// How many connections the copy may have, this one among them.
    of: usize,
}

impl EngineBridge {
    /// Of a copy with so many connections.
    pub(super) fn new(
        to_engine: Arc<EngineWaker>,
        questions: Questions,
        of: usize,
    ) -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(LinkState {
                stage: LinkStage::LogsIn,
                first: First::Unsaid { expected: false },
                begun: false,
                command: LinkCommand::GoOn,
                questions,
                asked: false,
                max_data: 0,
                outgoing: VecDeque::new(),
                queued: 0,
                spare: Vec::new(),
                arrived: Vec::new(),
                used: 0,
                window: 0,
                notified: false,
                blocked: false,
                reads_on: false,
                is_fulmar: false,
            }),
            to_endpoint: EventFd::new()?,
            to_engine,
            turn: Condvar::new(),
            times: Arc::default(),
            of,
        })
    }

    /// Wakes the endpoint unless it is about to look anyway.
    fn wake(&self, mut state: MutexGuard<'_, LinkState>) {
        if !std::mem::replace(&mut state.notified, true) {
            drop(state);
            // Fails for no counter that is not full, and that one has been signalled.
            let _ = self.to_endpoint.signal();
        }
    }

    // ---- the engine's side ------------------------------------------------------------------

    pub(super) fn stage(&self) -> LinkStage {
        locked(&self.state).stage
    }

    pub(super) fn times(&self) -> &LoopTimes {
        &self.times
    }

    /// The server is known to take requests before it has answered the first; while the login is
    /// under way, it is expected to.
    pub(super) fn reads_on(&self) -> bool {
        let state = locked(&self.state);
        match state.stage {
            LinkStage::LogsIn => state.is_expected(),
            LinkStage::LoggedIn | LinkStage::Ended => state.reads_on,
        }
    }

    /// The login is under way, and what is said now may leave with it.
    pub(super) fn is_expected(&self) -> bool {
        locked(&self.state).is_expected()
    }

    /// The server is one of ours; while the login is under way, it is expected to be.
    pub(super) fn is_fulmar(&self) -> bool {
        let state = locked(&self.state);
        match state.stage {
            LinkStage::LogsIn => state.is_expected(),
            LinkStage::LoggedIn | LinkStage::Ended => state.is_fulmar,
        }
    }

    /// It waits for its turn to ask something.
    pub(super) fn waits_to_ask(&self) -> bool {
        locked(&self.state).questions == Questions::Waits
    }

    /// It had something to ask.
    pub(super) fn has_asked(&self) -> bool {
        locked(&self.state).asked
    }

    /// It may ask, and go on until it has something else to ask.
    pub(super) fn may_ask(&self) {
        locked(&self.state).questions = Questions::InTurn;
        self.turn.notify_one();
    }

    /// A buffer to be filled with that many bytes at most; nothing while enough is on its way.
    pub(super) fn room(&self) -> Option<(PacketBuf, usize)> {
        let mut state = locked(&self.state);
        if state.stage == LinkStage::Ended || state.queued >= QUEUED_BYTES {
            return None;
        }
        let max = match state.first {
            First::Unsaid { expected: true } if !state.begun => EARLY_BYTES,
            First::Written(_) | First::Held(_) => return None,
            First::Unsaid { .. } | First::Sent if state.max_data == 0 => return None,
            First::Unsaid { .. } | First::Sent => state.max_data,
        };
        let spare = state.spare.pop();
        drop(state);
        Some((spare.unwrap_or_else(|| PacketBuf::with_capacity(max)), max))
    }

    pub(super) fn send(&self, buf: PacketBuf) {
        let mut state = locked(&self.state);
        state.queued += buf.len();
        let begun = state.begun;
        match &mut state.first {
            first @ First::Unsaid { .. } if !begun => {
                *first = First::Written(buf);
                return;
            }
            First::Unsaid { .. } => state.say_first(buf),
            First::Held(held) => held.push_back(buf),
            First::Written(_) | First::Sent => state.outgoing.push_back(buf),
        }
        if !state.blocked {
            self.wake(state);
        }
    }

    /// Moves what has come behind what is in `arrived`.
    pub(super) fn take_arrived(&self, arrived: &mut Vec<Bytes>) {
        arrived.append(&mut locked(&self.state).arrived);
    }

    /// So many more bytes are used.
    pub(super) fn used(&self, bytes: usize) {
        let mut state = locked(&self.state);
        state.used += bytes;
        let part = state.window / TELL_OF_WINDOW;
        if state.used >= part.clamp(TELL_BYTES, MOST_TELL_BYTES) {
            self.wake(state);
        }
    }

    /// The engine has nothing more to do: what was used must not be left untold.
    pub(super) fn sleeps(&self) {
        let state = locked(&self.state);
        let part = state.window / TELL_BEFORE_SLEEP_OF_WINDOW;
        if state.used >= part.clamp(TELL_BEFORE_SLEEP_BYTES, MOST_TELL_BYTES) {
            self.wake(state);
        }
    }

    /// Nothing more will be sent.
    pub(super) fn finish(&self) {
        self.end(LinkCommand::Finish);
    }

    /// Nothing matters any more.
    pub(super) fn abandon(&self) {
        self.end(LinkCommand::Abandon);
    }

    fn end(&self, command: LinkCommand) {
        let mut state = locked(&self.state);
        state.command = command;
        self.turn.notify_one();
        self.wake(state);
    }

    // ---- the connection's side --------------------------------------------------------------

    pub(super) fn reached(&self, stage: LinkStage) {
        let mut state = locked(&self.state);
        state.stage = state.stage.max(stage);
        drop(state);
        self.to_engine.ring();
    }
}

impl LinkState {
    fn is_expected(&self) -> bool {
        let is_early = matches!(
            self.first,
            First::Unsaid { expected: true } | First::Written(_)
        );
        is_early && self.stage == LinkStage::LogsIn
    }

    /// The channel is there, and this goes to it first.
    fn say_first(&mut self, buf: PacketBuf) {
        let init = first_message(buf.payload());
        match buf.payload().split_at_checked(init) {
            Some((init, rest)) if !self.reads_on && !rest.is_empty() => {
                let [init, rest] = [init, rest].map(PacketBuf::from_payload);
                self.outgoing.push_back(init);
                self.first = First::Held(VecDeque::from([rest]));
            }
            _ => {
                self.outgoing.push_back(buf);
                self.first = First::Sent;
            }
        }
    }

    /// The server has said something.
    fn hears(&mut self) {
        if let First::Held(held) = &mut self.first {
            self.outgoing.append(held);
            self.first = First::Sent;
        }
    }
}

/// Length of the first message of SFTP with its length field, bytes.
fn first_message(bytes: &[u8]) -> usize {
    let len = bytes
        .first_chunk()
        .map_or(0, |len| u32::from_be_bytes(*len));
    usize::try_from(len).map_or(usize::MAX, |len| len.saturating_add(4))
}

/// The connection's end of a bridge.
#[derive(Debug)]
pub(super) struct Local(pub(super) Arc<EngineBridge>);

impl LocalEnd for Local {
    fn endpoint(&mut self) -> Box<dyn ChannelHandler> {
        Box::new(BridgeHandler {
            bridge: Arc::clone(&self.0),
            arrived: Vec::new(),
            outgoing: VecDeque::new(),
            errors: 0,
            most_held: (HELD_BYTES / self.0.of.max(1)).max(LEAST_HELD_BYTES),
        })
    }

    fn expects_fulmar(&mut self) {
        let mut state = locked(&self.0.state);
        // One behind the first may come to nothing, and the copy does without it: nothing of it is
        // said there before.
        if state.questions == Questions::Free
            && let First::Unsaid { expected } = &mut state.first
        {
            *expected = true;
            drop(state);
            self.0.to_engine.ring();
        }
    }

    fn early(&mut self) -> Vec<u8> {
        match &locked(&self.0.state).first {
            First::Written(first) => first.payload().to_vec(),
            First::Unsaid { .. } | First::Held(_) | First::Sent => Vec::new(),
        }
    }

    fn channel_begins(&mut self, heard: bool) {
        let mut state = locked(&self.0.state);
        state.begun = true;
        match std::mem::replace(&mut state.first, First::Sent) {
            First::Written(first) if heard => state.queued -= first.len().min(state.queued),
            First::Written(first) => state.say_first(first),
            other => state.first = other,
        }
    }

    fn bell(&self) -> &EventFd {
        &self.0.to_endpoint
    }

    fn logged_in(&mut self, reads_on: bool, is_fulmar: bool) {
        let mut state = locked(&self.0.state);
        (state.reads_on, state.is_fulmar) = (reads_on, is_fulmar);
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
        let mut state = locked(&self.state);
        state.asked = true;
        if state.questions == Questions::Free {
            return state.command == LinkCommand::GoOn;
        }
        drop(state);
        // Whoever asks at this moment takes the signals.
        let Ok(_blocked) = sys::signals::Blocked::new(&super::in_process::OF_THE_TERMINAL) else {
            return false;
        };
        let mut state = locked(&self.state);
        state.questions = Questions::Waits;
        self.to_engine.ring();
        while state.questions == Questions::Waits && state.command == LinkCommand::GoOn {
            state = self
                .turn
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.command == LinkCommand::GoOn
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.0.reached(LinkStage::Ended);
    }
}

/// The channel's end, worked by the connection's thread.
struct BridgeHandler {
    bridge: Arc<EngineBridge>,
    arrived: Vec<Bytes>,
    outgoing: VecDeque<PacketBuf>,
    /// Bytes of the server's errors that were shown.
    errors: usize,
    /// Bytes that wait for the engine while more is read.
    most_held: usize,
}

impl BridgeHandler {
    fn hand_over(&mut self, state: &mut LinkState) -> bool {
        let any = !self.arrived.is_empty();
        if any {
            state.hears();
        }
        state.arrived.append(&mut self.arrived);
        any
    }
}

impl ChannelHandler for BridgeHandler {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        match stream {
            Stream::Data => self.arrived.push(data),
            Stream::Stderr => {
                // What cannot be shown is lost, as with a standard error that is closed.
                let _ = sys::io::write_all(sys::io::stderr(), &data);
                self.errors += data.len();
            }
        }
    }

    fn end(&mut self) {}

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        let bridge = Arc::clone(&self.bridge);
        let mut state = locked(&bridge.state);
        state.notified = false;
        let mut rings = self.hand_over(&mut state);
        let used = std::mem::take(&mut state.used);
        self.outgoing.append(&mut state.outgoing);
        let command = state.command;
        if state.max_data == 0 && state.begun {
            // The peer says with its confirmation how much a packet may carry.
            state.max_data = line.max_data();
            rings |= state.max_data > 0;
        }
        let max_data = state.max_data;
        // Those that are on their way come back: one that is made besides would be made, cleared
        // and freed again for each packet.
        let missing = SPARE_BUFFERS.saturating_sub(state.spare.len());
        if max_data > 0 && command == LinkCommand::GoOn {
            let some = (0..missing).map(|_| line.take_buffer(max_data));
            state.spare.extend(some);
        }
        let was_full = state.queued >= QUEUED_BYTES;
        drop(state);
        line.consumed(used + std::mem::take(&mut self.errors))?;
        let sent = match command {
            LinkCommand::Abandon => 0,
            LinkCommand::GoOn | LinkCommand::Finish => line.send_queued(&mut self.outgoing)?,
        };
        let mut state = locked(&bridge.state);
        state.queued -= sent.min(state.queued);
        state.window = line.window();
        state.blocked = !self.outgoing.is_empty();
        rings |= was_full && state.queued < QUEUED_BYTES;
        // What was queued while this was still blocked has woken nobody.
        let more = !state.blocked && !state.outgoing.is_empty();
        drop(state);
        if rings {
            bridge.to_engine.ring();
        }
        let is_over = match command {
            LinkCommand::GoOn => false,
            LinkCommand::Finish => self.outgoing.is_empty(),
            LinkCommand::Abandon => true,
        };
        Ok(match (is_over, more) {
            (true, _) => HandlerProgress::Ended,
            (false, true) => HandlerProgress::Busy,
            (false, false) => HandlerProgress::Waiting,
        })
    }

    fn most_held(&self) -> usize {
        self.most_held
    }
}

impl Drop for BridgeHandler {
    fn drop(&mut self) {
        // What came last may have come with the end.
        let bridge = Arc::clone(&self.bridge);
        if self.hand_over(&mut locked(&bridge.state)) {
            bridge.to_engine.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bell_that_rang_before_is_heard_and_only_once() {
        let waker = EngineWaker::default();
        assert!(!waker.wait(Duration::ZERO));
        waker.ring();
        waker.ring();
        assert!(waker.wait(Duration::ZERO));
        assert!(!waker.wait(Duration::ZERO));
        std::thread::scope(|scope| {
            scope.spawn(|| waker.ring());
            assert!(waker.wait(Duration::from_secs(60)));
        });
    }

    fn bridge(questions: Questions) -> EngineBridge {
        EngineBridge::new(Arc::new(EngineWaker::default()), questions, 3).unwrap()
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
                let _ = bridge.to_engine.wait(Duration::from_secs(1));
            }
            end(&bridge);
            assert_eq!(asked.join().unwrap(), wanted);
        }
    }

    #[test]
    fn nothing_goes_out_before_the_channel_is_there_and_no_more_than_a_queue_behind_it() {
        let bridge = Arc::new(bridge(Questions::Free));
        assert!(bridge.room().is_none());
        begins(&bridge, false, true);
        let mut count = 0;
        while let Some((mut buf, max)) = bridge.room() {
            assert_eq!(max, 1000);
            buf.extend(&[7; 1000]);
            bridge.send(buf);
            count += 1;
        }
        assert_eq!(count, QUEUED_BYTES.div_ceil(1000));
        assert!(bridge.to_endpoint.drain().unwrap());
    }

    #[test]
    fn what_was_used_is_told_in_large_pieces_or_before_a_sleep() {
        let bridge = bridge(Questions::Free);
        bridge.used(TELL_BEFORE_SLEEP_BYTES);
        assert!(!bridge.to_endpoint.drain().unwrap());
        bridge.sleeps();
        assert!(bridge.to_endpoint.drain().unwrap());
        locked(&bridge.state).notified = false;
        bridge.used(TELL_BYTES);
        assert!(bridge.to_endpoint.drain().unwrap());
        bridge.used(TELL_BYTES);
        assert!(!bridge.to_endpoint.drain().unwrap(), "it was woken already");
    }

    #[test]
    fn of_a_large_window_larger_pieces_are_told() {
        let bridge = bridge(Questions::Free);
        for (window, before_sleep, told) in [
            (2 << 20, 16 << 10, 256 << 10),
            (4 << 20, 32 << 10, 512 << 10),
            (1 << 30, 1 << 20, 1 << 20),
        ] {
            let mut state = locked(&bridge.state);
            (state.window, state.used, state.notified) = (window, 0, false);
            drop(state);
            bridge.used(before_sleep - 1);
            bridge.sleeps();
            assert!(!bridge.to_endpoint.drain().unwrap(), "{window}");
            bridge.used(1);
            bridge.sleeps();
            assert!(bridge.to_endpoint.drain().unwrap(), "{window}");
            let mut state = locked(&bridge.state);
            (state.used, state.notified) = (0, false);
            drop(state);
            bridge.used(told - 1);
            assert!(!bridge.to_endpoint.drain().unwrap(), "{window}");
            bridge.used(1);
            assert!(bridge.to_endpoint.drain().unwrap(), "{window}");
        }
    }

    /// INIT and two words behind it, as the engine writes them for a server that reads on.
    const INIT: &[u8] = &[0, 0, 0, 5, 1, 0, 0, 0, 3];
    const MORE: &[u8] = b"more";

    fn says(bridge: &EngineBridge, bytes: &[u8]) {
        let (mut buf, _) = bridge.room().unwrap();
        buf.extend(bytes);
        bridge.send(buf);
    }

    /// The channel is there, and the connection's thread has looked.
    fn begins(bridge: &Arc<EngineBridge>, heard: bool, reads_on: bool) {
        let mut local = Local(Arc::clone(bridge));
        local.logged_in(reads_on, reads_on);
        local.channel_begins(heard);
        // Its end is the test's.
        std::mem::forget(local);
        locked(&bridge.state).max_data = 1000;
    }

    fn outgoing(bridge: &EngineBridge) -> Vec<u8> {
        let queue = std::mem::take(&mut locked(&bridge.state).outgoing);
        let all: Vec<&[u8]> = queue.iter().map(PacketBuf::payload).collect();
        all.concat()
    }

    /// With what was said before the channel was there.
    fn expecting(questions: Questions) -> Arc<EngineBridge> {
        let bridge = Arc::new(bridge(questions));
        let mut local = Local(Arc::clone(&bridge));
        assert_eq!(local.early(), b"");
        local.expects_fulmar();
        assert_eq!(bridge.reads_on(), questions == Questions::Free);
        if questions == Questions::Free {
            says(&bridge, &[INIT, MORE].concat());
            assert_eq!(local.early(), [INIT, MORE].concat());
            // It may be asked for again, by another connection.
            assert_eq!(local.early(), [INIT, MORE].concat());
        }
        assert!(bridge.room().is_none());
        std::mem::forget(local);
        bridge
    }

    #[test]
    fn what_went_with_the_login_is_not_said_again() {
        let bridge = expecting(Questions::Free);
        begins(&bridge, true, true);
        assert_eq!(outgoing(&bridge), b"");
        assert_eq!(locked(&bridge.state).queued, 0);
        says(&bridge, b"next");
        assert_eq!(outgoing(&bridge), b"next");
    }

    #[test]
    fn what_did_not_reach_the_channel_goes_first() {
        let bridge = expecting(Questions::Free);
        begins(&bridge, false, true);
        says(&bridge, b"next");
        assert_eq!(outgoing(&bridge), [INIT, MORE, b"next"].concat());
    }

    #[test]
    fn another_server_than_was_expected_gets_nothing_behind_init_before_its_first_word() {
        let bridge = expecting(Questions::Free);
        let spare = PacketBuf::with_capacity(10);
        assert!(bridge.is_fulmar());
        begins(&bridge, false, false);
        assert!(!bridge.reads_on() && !bridge.is_fulmar());
        assert_eq!(outgoing(&bridge), INIT);
        assert!(bridge.room().is_none());
        // A buffer that was given out before.
        let mut next = spare;
        next.extend(b"next");
        bridge.send(next);
        assert_eq!(outgoing(&bridge), b"");
        locked(&bridge.state).hears();
        says(&bridge, b"last");
        assert_eq!(outgoing(&bridge), [MORE, b"next", b"last"].concat());
    }

    /// The connection was there before the engine had said anything.
    #[test]
    fn a_first_word_that_is_late_goes_the_same_way() {
        for (reads_on, first) in [(true, [INIT, MORE].concat()), (false, INIT.to_vec())] {
            let bridge = Arc::new(bridge(Questions::Free));
            let mut local = Local(Arc::clone(&bridge));
            local.expects_fulmar();
            let (mut buf, max) = bridge.room().unwrap();
            assert_eq!(max, EARLY_BYTES);
            assert_eq!(local.early(), b"");
            std::mem::forget(local);
            begins(&bridge, false, reads_on);
            buf.extend(&[INIT, MORE].concat());
            bridge.send(buf);
            assert_eq!(outgoing(&bridge), first);
            locked(&bridge.state).hears();
            assert_eq!([first, outgoing(&bridge)].concat(), [INIT, MORE].concat());
        }
    }

    /// The copy does without a connection behind the first that does not come about.
    #[test]
    fn nothing_is_said_before_the_login_behind_the_first() {
        let bridge = expecting(Questions::InTurn);
        begins(&bridge, false, true);
        says(&bridge, INIT);
        assert_eq!(outgoing(&bridge), INIT);
    }

    #[test]
    fn a_connection_that_has_ended_stays_so() {
        let bridge = Arc::new(bridge(Questions::Free));
        let mut local = Local(Arc::clone(&bridge));
        assert_eq!(bridge.stage(), LinkStage::LogsIn);
        assert!(!bridge.reads_on() && !bridge.is_fulmar());
        local.logged_in(true, true);
        assert!(bridge.reads_on() && bridge.is_fulmar());
        assert_eq!(bridge.stage(), LinkStage::LoggedIn);
        drop(local);
        assert_eq!(bridge.stage(), LinkStage::Ended);
        bridge.reached(LinkStage::LoggedIn);
        assert_eq!(bridge.stage(), LinkStage::Ended);
    }
}
