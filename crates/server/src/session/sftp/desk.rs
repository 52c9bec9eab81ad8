//! Where the connection's thread and the thread that works with files meet: bytes that came in,
//! answers on their way out, and who is to be woken.
//!
//! Nothing is copied here: requests are handed over in the slabs in which they were opened, and
//! answers in the packet buffers that will be sealed. Bounded by [`OUTBOX_BYTES`] outwards and by
//! the channel's window inwards, which opens again when what came has been used: when it is in
//! the file.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use driver::Line;
use packet::PacketBuf;
use sys::epoll::EventFd;
use transfer::serve::OUTBOX_BYTES;

/// Bytes of answers that are left when a thread that had to wait for room is woken: a few wake-ups
/// for many packets.
const LOW_BYTES: usize = OUTBOX_BYTES / 2;
/// Bytes that were used before the connection is woken to open the window for them, while there is
/// more to do, and before the thread sleeps.
const TELL_BYTES: usize = 256 << 10;
const TELL_BEFORE_SLEEP_BYTES: usize = 16 << 10;
/// What a packet of answers carries where the connection was over before it looked, bytes: nobody
/// takes them.
const UNSENT_BYTES: usize = 32 << 10;
/// Empty buffers at hand for answers, while there is something to do and while there is nothing.
const SPARE_BUFFERS: usize = 16;
const SPARE_AT_REST: usize = 2;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the connection wants of the thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    #[default]
    GoOn,
    /// The client takes no answers any more; what it has asked for is to be done.
    Desert,
    /// There is nobody left: nothing more is begun.
    Abandon,
}

#[derive(Debug)]
struct State {
    wish: Wish,
    /// Longest data in a packet, bytes; 0 until the connection has looked.
    max_data: usize,
    arrived: Vec<Bytes>,
    input_ended: bool,
    answers: VecDeque<PacketBuf>,
    /// Bytes of `answers`, and of what the connection took of them and could not send yet.
    queued: usize,
    /// Bytes of the client's that were used, and the connection has not heard of.
    used: usize,
    spare: Vec<PacketBuf>,
    /// Answers take whole packets.
    takes_spare: bool,
    /// The thread has nothing to do, or no room for it, and waits.
    asleep: bool,
    /// It would go on if there were room for answers.
    has_more: bool,
    /// The connection was woken and has not looked yet.
    rung: bool,
    /// What the connection waits for is the client's window: more to send is no news.
    blocked: bool,
    /// The thread is done, with this exit status.
    over: Option<u8>,
}

/// See the module's head.
#[derive(Debug)]
pub(in crate::session) struct Desk {
    state: Mutex<State>,
    /// For the thread: something is there, or wanted.
    something: Condvar,
    /// The thread has come to its end.
    ended: Condvar,
    bell: EventFd,
    /// Nothing more is to be begun.
    stop: AtomicBool,
}

/// What the thread is to do next.
#[derive(Debug, Default)]
pub(super) struct Next {
    pub(super) wish: Wish,
    pub(super) input_ended: bool,
    /// Bytes of answers for which there is room.
    pub(super) room: usize,
    pub(super) max_data: usize,
}

impl Desk {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(State {
                wish: Wish::GoOn,
                max_data: 0,
                arrived: Vec::new(),
                input_ended: false,
                answers: VecDeque::new(),
                queued: 0,
                used: 0,
                spare: Vec::new(),
                takes_spare: false,
                asleep: false,
                has_more: false,
                rung: false,
                blocked: false,
                over: None,
            }),
            something: Condvar::new(),
            ended: Condvar::new(),
            bell: EventFd::new()?,
            stop: AtomicBool::new(false),
        })
    }

    /// Readable when the channel's endpoint is to be woken.
    pub(in crate::session) fn bell(&self) -> &EventFd {
        &self.bell
    }

    /// There is nobody left who wants anything of this.
    pub(in crate::session) fn abandon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut state = locked(&self.state);
        state.wish = Wish::Abandon;
        self.wake(state, true);
    }

    /// Waits for the thread's end; false when it does not come until then.
    pub(in crate::session) fn ends_before(&self, deadline: Instant) -> bool {
        let mut state = locked(&self.state);
        while state.over.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// The client takes no answers any more: what came until now, `arrived` being the last of it, is
    /// all that is to be done. Both at once, for what comes behind the wish would find nobody.
    pub(super) fn desert(&self, arrived: &mut Vec<Bytes>) {
        let mut state = locked(&self.state);
        state.arrived.append(arrived);
        state.wish = state.wish.max(Wish::Desert);
        if state.max_data == 0 {
            state.max_data = UNSENT_BYTES;
        }
        self.wake(state, true);
    }

    /// Wakes the thread if it sleeps and `reason` holds.
    fn wake(&self, mut state: MutexGuard<'_, State>, reason: bool) {
        if reason && std::mem::replace(&mut state.asleep, false) {
            drop(state);
            self.something.notify_one();
        }
    }

    // ---- the thread's side ------------------------------------------------------------------

    /// Set when nothing more is to be begun.
    pub(super) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Waits until there is something to do: input, room for more answers (where the last turn
    /// ended for want of it), or another wish than `known`.
    pub(super) fn next(&self, known: &Next, hands: &mut Hands) -> Next {
        let mut state = locked(&self.state);
        loop {
            let has_room = state.has_more && state.queued < OUTBOX_BYTES;
            let is_news = state.wish != known.wish
                || state.input_ended != known.input_ended
                || !state.arrived.is_empty();
            if state.max_data > 0 && (has_room || is_news) || state.wish == Wish::Abandon {
                break;
            }
            state.asleep = true;
            let waited = self.something.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        hands.arrived.append(&mut state.arrived);
        hands.spare.append(&mut state.spare);
        Next {
            wish: state.wish,
            input_ended: state.input_ended,
            room: OUTBOX_BYTES.saturating_sub(state.queued),
            max_data: state.max_data,
        }
    }

    /// Hands over what a turn has come to. With `has_more` there is more to do as soon as there
    /// is room for its answers.
    pub(super) fn hand_over(&self, hands: &mut Hands, has_more: bool) {
        let mut state = locked(&self.state);
        let news = !hands.answers.is_empty();
        state.queued += hands.answers.iter().map(PacketBuf::len).sum::<usize>();
        state.answers.append(&mut hands.answers);
        state.used += std::mem::take(&mut hands.used);
        state.spare.append(&mut hands.spare);
        state.takes_spare = std::mem::take(&mut hands.took_spare);
        state.has_more = has_more;
        let has_room = has_more && state.queued < OUTBOX_BYTES;
        let sleeps = !has_room && state.arrived.is_empty();
        // Said here already: the connection is told no second time that the thread rests.
        state.asleep = sleeps;
        let limit = if sleeps {
            TELL_BEFORE_SLEEP_BYTES
        } else {
            TELL_BYTES
        };
        let rings = (news && !state.blocked) || state.used >= limit;
        self.ring(state, rings);
    }

    /// The thread is done.
    pub(super) fn end(&self, status: u8) {
        let mut state = locked(&self.state);
        state.over = Some(status);
        state.asleep = false;
        state.arrived = Vec::new();
        self.ended.notify_all();
        self.ring(state, true);
    }

    /// Wakes the connection unless it is about to look anyway.
    fn ring(&self, mut state: MutexGuard<'_, State>, reason: bool) {
        if reason && !std::mem::replace(&mut state.rung, true) {
            drop(state);
            // Fails for no counter that is not full, and that one has been signalled.
            let _ = self.bell.signal();
        }
    }

    // ---- the connection's side --------------------------------------------------------------

    /// Hands over what has come, and takes what is there. Gives the bytes that were used since,
    /// and the thread's status when it is done.
    pub(super) fn meet(
        &self,
        arrived: &mut Vec<Bytes>,
        input_ended: bool,
        answers: &mut VecDeque<PacketBuf>,
        line: &mut Line<'_>,
    ) -> (usize, Option<u8>) {
        let mut state = locked(&self.state);
        state.rung = false;
        let mut is_news = !arrived.is_empty() || state.input_ended != input_ended;
        if state.over.is_some() {
            // Nobody uses it: the driver takes it for consumed.
            arrived.clear();
        }
        state.arrived.append(arrived);
        state.input_ended = input_ended;
        answers.append(&mut state.answers);
        let max_data = line.max_data();
        if max_data > 0 {
            is_news |= state.max_data == 0;
            state.max_data = max_data;
        }
        self.supply(&mut state, is_news, line);
        let used = std::mem::take(&mut state.used);
        let over = state.over;
        self.wake(state, is_news);
        (used, over)
    }

    /// Keeps buffers at hand: one that is made for each packet would be made, cleared and freed
    /// again. At rest nearly all of them go back to where they are shared and shed.
    fn supply(&self, state: &mut State, is_news: bool, line: &mut Line<'_>) {
        let at_rest = state.asleep && !state.has_more && !is_news || state.over.is_some();
        let wanted = match (at_rest, state.takes_spare) {
            (false, true) => SPARE_BUFFERS,
            (true, true) => SPARE_AT_REST,
            (_, false) => 0,
        };
        while state.spare.len() < wanted && !at_rest {
            state.spare.push(line.take_buffer(state.max_data));
        }
        while state.spare.len() > wanted {
            state
                .spare
                .pop()
                .into_iter()
                .for_each(|buf| line.recycle(buf));
        }
    }

    /// `sent` bytes of answers have gone; with `blocked` others wait for the window. True when
    /// there is more to be sent, of which this end was not told.
    pub(super) fn sent(&self, sent: usize, blocked: bool) -> bool {
        let mut state = locked(&self.state);
        state.queued = state.queued.saturating_sub(sent);
        state.blocked = blocked;
        let more = !blocked && !state.answers.is_empty();
        let has_room = state.has_more && state.queued <= LOW_BYTES;
        self.wake(state, has_room);
        more
    }
}

/// What the thread holds in its hands during a turn.
#[derive(Debug, Default)]
pub(super) struct Hands {
    pub(super) arrived: Vec<Bytes>,
    pub(super) answers: VecDeque<PacketBuf>,
    /// Bytes of the client's that were used.
    pub(super) used: usize,
    pub(super) spare: Vec<PacketBuf>,
    pub(super) took_spare: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where the connection has never looked.
    #[test]
    fn what_came_before_a_close_is_there_with_it() {
        let desk = Desk::new().unwrap();
        let mut arrived = vec![Bytes::from_static(b"mkdir")];
        desk.desert(&mut arrived);
        assert!(arrived.is_empty());
        let mut hands = Hands::default();
        let next = desk.next(&Next::default(), &mut hands);
        assert_eq!(next.wish, Wish::Desert);
        assert_eq!(hands.arrived, [&b"mkdir"[..]]);
        // Nothing less is wanted afterwards, and nothing more begun.
        desk.abandon();
        desk.desert(&mut Vec::new());
        assert_eq!(desk.next(&next, &mut hands).wish, Wish::Abandon);
    }
}
