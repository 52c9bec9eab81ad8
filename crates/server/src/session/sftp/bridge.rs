//! The bridge between the connection's thread and an SFTP thread: received requests, answers to
//! send, and wake-ups.
//!
//! No bytes are copied: requests are passed in the slabs in which they were decrypted, and answers
//! in the packet buffers that will be encrypted. Answers are bounded by [`OUTBOX_BYTES`], requests
//! by the channel's window, which opens again when the thread has consumed the data, for example
//! written it to the file.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use driver::ChannelIo;
use packet::PacketBuf;
use sftp::server::OUTBOX_BYTES;
use sys::epoll::EventFd;

/// Bytes of queued answers below which a thread that waits for room is woken: few wake-ups for many
/// packets.
const LOW_BYTES: usize = OUTBOX_BYTES / 2;
/// Consumed bytes after which the connection is woken to open the window: while the thread has more
/// work, and before it sleeps.
const TELL_BYTES: usize = 256 << 10;
const TELL_BEFORE_SLEEP_BYTES: usize = 16 << 10;
/// Bytes of data in an answer if the connection ended before it stated its packet size; such
/// answers are never sent.
const UNSENT_BYTES: usize = 32 << 10;
/// Most empty buffers kept for answers, while the thread works and while it is idle.
const SPARE_BUFFERS: usize = 16;
const SPARE_AT_REST: usize = 2;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Commands of the connection to the thread, in increasing order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BridgeCommand {
    #[default]
    GoOn,
    /// The client takes no more answers; received requests are completed.
    Abort,
    /// The connection has ended; no further request is started.
    Abandon,
}

#[derive(Debug)]
struct BridgeState {
    command: BridgeCommand,
    /// Longest data of a packet, in bytes; 0 until the connection's first call of
    /// [`PacketBridge::meet`].
    max_data: usize,
    arrived: Vec<Bytes>,
    input_ended: bool,
    answers: VecDeque<PacketBuf>,
    /// Bytes of `answers`, and of answers that the connection has taken and not sent yet.
    queued: usize,
    /// Bytes consumed that the connection has not collected yet.
    used: usize,
    spare: Vec<PacketBuf>,
    /// True if the last turn used buffers of full packet size.
    takes_spare: bool,
    /// The thread waits for work or for room.
    asleep: bool,
    /// The thread has more work as soon as there is room for answers.
    has_more: bool,
    /// The connection was notified and has not called [`PacketBridge::meet`] since.
    notified: bool,
    /// The connection waits for the client's window: further answers need no notification.
    blocked: bool,
    /// Exit status of the thread; `None` while it runs.
    over: Option<u8>,
}

/// The state shared by the connection's thread and an SFTP thread.
#[derive(Debug)]
pub(in crate::session) struct PacketBridge {
    state: Mutex<BridgeState>,
    /// Wakes the thread: new input, room or command.
    something: Condvar,
    /// Signals the thread's end.
    ended: Condvar,
    waker: EventFd,
    /// True if no further request may be started.
    stop: AtomicBool,
}

/// The thread's input of a turn.
#[derive(Debug, Default)]
pub(super) struct TurnInput {
    pub(super) command: BridgeCommand,
    pub(super) input_ended: bool,
    /// Free bytes for answers.
    pub(super) room: usize,
    pub(super) max_data: usize,
}

impl PacketBridge {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(BridgeState {
                command: BridgeCommand::GoOn,
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
                notified: false,
                blocked: false,
                over: None,
            }),
            something: Condvar::new(),
            ended: Condvar::new(),
            waker: EventFd::new()?,
            stop: AtomicBool::new(false),
        })
    }

    /// The eventfd that is readable when the channel's endpoint must be woken.
    pub(in crate::session) fn waker(&self) -> &EventFd {
        &self.waker
    }

    /// Tells the thread to stop; no further request is started.
    pub(in crate::session) fn abandon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let mut state = locked(&self.state);
        state.command = BridgeCommand::Abandon;
        self.wake(state, true);
    }

    /// Waits for the thread's end; returns false if the deadline passes first.
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

    /// Passes the last requests, `arrived`, together with the command [`BridgeCommand::Abort`].
    /// Both under one lock: the thread ignores input that arrives after it has obeyed the command.
    pub(super) fn abort(&self, arrived: &mut Vec<Bytes>) {
        let mut state = locked(&self.state);
        state.arrived.append(arrived);
        state.command = state.command.max(BridgeCommand::Abort);
        if state.max_data == 0 {
            state.max_data = UNSENT_BYTES;
        }
        self.wake(state, true);
    }

    /// Wakes the thread if it sleeps and `reason` holds.
    fn wake(&self, mut state: MutexGuard<'_, BridgeState>, reason: bool) {
        if reason && std::mem::replace(&mut state.asleep, false) {
            drop(state);
            self.something.notify_one();
        }
    }

    // ---- the thread's side ------------------------------------------------------------------

    /// The flag that stops a running turn.
    pub(super) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Waits for input, for room for more answers (if the last turn ended for lack of it), or for a
    /// command other than `known`'s.
    pub(super) fn next(&self, known: &TurnInput, buffers: &mut TurnBuffers) -> TurnInput {
        let mut state = locked(&self.state);
        loop {
            let has_room = state.has_more && state.queued < OUTBOX_BYTES;
            let is_news = state.command != known.command
                || state.input_ended != known.input_ended
                || !state.arrived.is_empty();
            if state.max_data > 0 && (has_room || is_news)
                || state.command == BridgeCommand::Abandon
            {
                break;
            }
            state.asleep = true;
            let waited = self.something.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.asleep = false;
        buffers.arrived.append(&mut state.arrived);
        buffers.spare.append(&mut state.spare);
        TurnInput {
            command: state.command,
            input_ended: state.input_ended,
            room: OUTBOX_BYTES.saturating_sub(state.queued),
            max_data: state.max_data,
        }
    }

    /// Passes the results of a turn to the connection. `has_more`: the thread has more work as soon
    /// as there is room for its answers.
    pub(super) fn hand_over(&self, buffers: &mut TurnBuffers, has_more: bool) {
        let mut state = locked(&self.state);
        let news = !buffers.answers.is_empty();
        state.queued += buffers.answers.iter().map(PacketBuf::len).sum::<usize>();
        state.answers.append(&mut buffers.answers);
        state.used += std::mem::take(&mut buffers.used);
        state.spare.append(&mut buffers.spare);
        state.takes_spare = std::mem::take(&mut buffers.took_spare);
        state.has_more = has_more;
        let has_room = has_more && state.queued < OUTBOX_BYTES;
        let sleeps = !has_room && state.arrived.is_empty();
        // Set here already, so that the connection needs no second notification that the thread
        // sleeps.
        state.asleep = sleeps;
        let limit = if sleeps {
            TELL_BEFORE_SLEEP_BYTES
        } else {
            TELL_BYTES
        };
        let rings = (news && !state.blocked) || state.used >= limit;
        self.ring(state, rings);
    }

    /// Reports the thread's end with its exit status.
    pub(super) fn end(&self, status: u8) {
        let mut state = locked(&self.state);
        state.over = Some(status);
        state.asleep = false;
        state.arrived = Vec::new();
        self.ended.notify_all();
        self.ring(state, true);
    }

    /// Notifies the connection if `reason` holds and no notification is pending.
    fn ring(&self, mut state: MutexGuard<'_, BridgeState>, reason: bool) {
        if reason && !std::mem::replace(&mut state.notified, true) {
            drop(state);
            // Signalling fails only for a full counter, which is already readable.
            let _ = self.waker.signal();
        }
    }

    // ---- the connection's side --------------------------------------------------------------

    /// Passes received data to the thread and collects its answers. Returns the bytes consumed
    /// since the last call, and the exit status if the thread has ended.
    pub(super) fn meet(
        &self,
        arrived: &mut Vec<Bytes>,
        input_ended: bool,
        answers: &mut VecDeque<PacketBuf>,
        line: &mut ChannelIo<'_>,
    ) -> (usize, Option<u8>) {
        let mut state = locked(&self.state);
        state.notified = false;
        let mut is_news = !arrived.is_empty() || state.input_ended != input_ended;
        if state.over.is_some() {
            // The thread has ended: the data is dropped.
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

    /// Keeps empty buffers for the thread, because allocating, clearing and freeing one for each
    /// packet costs more. While the thread is idle, all but `SPARE_AT_REST` go back to the
    /// connection.
    fn supply(&self, state: &mut BridgeState, is_news: bool, line: &mut ChannelIo<'_>) {
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

    /// Reports that `sent` bytes of answers were sent; `blocked` if others wait for the window.
    /// Returns true if there are further answers of which the connection was not notified.
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

/// The thread's data of a turn, outside the lock.
#[derive(Debug, Default)]
pub(super) struct TurnBuffers {
    pub(super) arrived: Vec<Bytes>,
    pub(super) answers: VecDeque<PacketBuf>,
    /// Bytes of the client's data that were consumed.
    pub(super) used: usize,
    pub(super) spare: Vec<PacketBuf>,
    pub(super) took_spare: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also if the connection has never called [`PacketBridge::meet`].
    #[test]
    fn what_came_before_a_close_is_there_with_it() {
        let bridge = PacketBridge::new().unwrap();
        let mut arrived = vec![Bytes::from_static(b"mkdir")];
        bridge.abort(&mut arrived);
        assert!(arrived.is_empty());
        let mut buffers = TurnBuffers::default();
        let next = bridge.next(&TurnInput::default(), &mut buffers);
        assert_eq!(next.command, BridgeCommand::Abort);
        assert_eq!(buffers.arrived, [&b"mkdir"[..]]);
        // A later, weaker command does not replace a stronger one.
        bridge.abandon();
        bridge.abort(&mut Vec::new());
        assert_eq!(
            bridge.next(&next, &mut buffers).command,
            BridgeCommand::Abandon
        );
    }
}
