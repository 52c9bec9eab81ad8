//! The packet bridge: the queues between a connection's thread and a thread that consumes and
//! produces the bytes of one channel (the worker), and the wake-ups of both.
//!
//! No byte is copied: received data crosses in the slabs in which it was decrypted, and data to
//! send in the packet buffers that will be encrypted. [`BridgeLimits`] bounds outgoing data.
//! Received data is bounded by the channel's window, which opens again when the worker has consumed
//! the data; the handler may set a lower limit with
//! [`ChannelHandler::most_held`](super::ChannelHandler::most_held).
//!
//! Invariant: whoever changes the state so that the other thread has work notifies it in the same
//! critical section or after it, unless it has a notification that it has not looked at yet.
//! tests/bridge_model.rs checks that no wake-up is lost.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use packet::PacketBuf;
use proto::Error;

use super::channel_handler::ChannelIo;
use super::sync::{Arc, EventFd, Mutex, MutexGuard};
use super::thread_waker::{ThreadWaker, locked};

/// Consumed bytes after which the connection is woken to open the window, while the worker has more
/// work and before it sleeps: no peer waits for such a small part of a window.
const TELL_BYTES: usize = 256 << 10;
const TELL_BEFORE_SLEEP_BYTES: usize = 16 << 10;
/// Parts of a large window after which the same holds, and the maximum in bytes: the peer hears
/// of each quarter, and each notification wakes a thread.
const TELL_OF_WINDOW: usize = 8;
const TELL_BEFORE_SLEEP_OF_WINDOW: usize = 128;
const MOST_TELL_BYTES: usize = 1 << 20;
/// Longest data of a packet if the connection ended before it stated its packet size; such packets
/// are never sent.
const UNSENT_BYTES: usize = 32 << 10;

/// Bounds of a bridge's memory.
#[derive(Debug, Clone, Copy)]
pub struct BridgeLimits {
    /// Bytes of outgoing packets that are not sent yet, from which on the worker must wait.
    pub outgoing_bytes: usize,
    /// Bytes of outgoing packets up to which a worker that waits for room is woken.
    pub low_bytes: usize,
    /// Empty buffers kept for the worker: allocating, clearing and freeing one for each packet
    /// costs more.
    pub spare_buffers: usize,
    /// The same while the worker is idle.
    pub spare_at_rest: usize,
}

/// A command of one side to the other, in increasing order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BridgeCommand {
    /// Bytes move in both directions.
    #[default]
    GoOn,
    /// End when everything that has been passed on is done.
    Finish,
    /// End at once.
    Abandon,
}

#[derive(Debug, Default)]
struct BridgeState {
    command: BridgeCommand,
    /// Longest data of a packet, in bytes; 0 until the connection's first exchange.
    max_data: usize,
    arrived: Vec<Bytes>,
    input_ended: bool,
    outgoing: VecDeque<PacketBuf>,
    /// Bytes of `outgoing`, and of packets that the connection has taken and not sent yet.
    queued: usize,
    /// Bytes consumed that the connection has not collected yet.
    used: usize,
    /// Size of the channel's receive window at the last exchange, bytes.
    window: usize,
    spare: Vec<PacketBuf>,
    /// The worker takes spare buffers: in its last turn, and in this one.
    takes_spare: bool,
    took_spare: bool,
    /// The worker waits for work or for room.
    asleep: bool,
    /// The worker has more to send as soon as there is room.
    waits_for_room: bool,
    worker_ended: bool,
    /// The connection was notified and has not looked since.
    notified: bool,
    /// The connection waits for the peer's window: further packets need no notification.
    blocked: bool,
}

impl BridgeState {
    fn queue(&mut self, packets: impl IntoIterator<Item = PacketBuf>) -> bool {
        let before = self.outgoing.len();
        self.outgoing.extend(packets);
        let new = self.outgoing.range(before..);
        self.queued += new.map(PacketBuf::len).sum::<usize>();
        self.outgoing.len() > before && !self.blocked
    }

    /// Returns true if the connection must hear of consumed bytes.
    fn must_tell(&self, sleeps: bool) -> bool {
        let (part, least) = if sleeps {
            (TELL_BEFORE_SLEEP_OF_WINDOW, TELL_BEFORE_SLEEP_BYTES)
        } else {
            (TELL_OF_WINDOW, TELL_BYTES)
        };
        self.used >= (self.window / part).clamp(least, MOST_TELL_BYTES)
    }
}

/// The state shared by a connection's thread and a worker. See the module's head.
#[derive(Debug)]
pub struct PacketBridge {
    state: Mutex<BridgeState>,
    limits: BridgeLimits,
    to_connection: EventFd,
    to_worker: Arc<ThreadWaker>,
}

/// The worker's input of a turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerInput {
    /// Command of the connection.
    pub command: BridgeCommand,
    /// The peer sends no more data.
    pub input_ended: bool,
    /// Free bytes for outgoing packets.
    pub room: usize,
    /// Longest data of a packet, in bytes.
    pub max_data: usize,
}

impl PacketBridge {
    /// Creates a bridge to the worker that waits for `to_worker`, which may serve several bridges.
    ///
    /// # Errors
    /// Those of eventfd.
    pub fn new(limits: BridgeLimits, to_worker: Arc<ThreadWaker>) -> io::Result<Self> {
        Ok(Self {
            state: Mutex::new(BridgeState::default()),
            limits,
            to_connection: EventFd::new()?,
            to_worker,
        })
    }

    /// The eventfd that is readable when the channel's handler must be woken. The connection's
    /// thread watches and drains it.
    #[must_use]
    pub fn waker(&self) -> &EventFd {
        &self.to_connection
    }

    /// Wakes the worker if `reason` holds.
    fn wake_worker(&self, mut state: MutexGuard<'_, BridgeState>, reason: bool) {
        if reason {
            state.asleep = false;
            drop(state);
            self.to_worker.notify();
        }
    }

    /// Wakes the connection if `reason` holds and no notification is pending.
    fn wake_connection(&self, mut state: MutexGuard<'_, BridgeState>, reason: bool) {
        if reason && !std::mem::replace(&mut state.notified, true) {
            drop(state);
            // Signalling fails only for a full counter, which is already readable.
            let _ = self.to_connection.signal();
        }
    }

    // ---- the worker's side ------------------------------------------------------------------

    /// Waits for received data, the end of input, a command other than `known`'s, or room for
    /// outgoing packets if the last turn ended for lack of it. Appends the data to `arrived`.
    pub fn next(&self, known: &WorkerInput, arrived: &mut Vec<Bytes>) -> WorkerInput {
        loop {
            let mut state = locked(&self.state);
            let has_room = state.waits_for_room && state.queued < self.limits.outgoing_bytes;
            let is_news = state.command != known.command
                || state.input_ended != known.input_ended
                || !state.arrived.is_empty();
            if state.max_data > 0 && (has_room || is_news)
                || state.command == BridgeCommand::Abandon
            {
                state.asleep = false;
                arrived.append(&mut state.arrived);
                return WorkerInput {
                    command: state.command,
                    input_ended: state.input_ended,
                    room: self.limits.outgoing_bytes.saturating_sub(state.queued),
                    max_data: state.max_data,
                };
            }
            state.asleep = true;
            drop(state);
            self.to_worker.wait();
        }
    }

    /// Appends received data to `arrived`, without waiting.
    pub fn take_arrived(&self, arrived: &mut Vec<Bytes>) {
        arrived.append(&mut locked(&self.state).arrived);
    }

    /// Returns an empty buffer and the longest data of a packet; `None` before the channel is open
    /// and while there is no room. The worker is notified when there is.
    pub fn room(&self) -> Option<(PacketBuf, usize)> {
        let mut state = locked(&self.state);
        state.waits_for_room = state.queued >= self.limits.outgoing_bytes;
        let max_data = state.max_data;
        if state.waits_for_room || max_data == 0 {
            return None;
        }
        Some((Self::take_spare(state, max_data), max_data))
    }

    /// Takes a buffer for a packet of `capacity` bytes.
    pub fn take_buffer(&self, capacity: usize) -> PacketBuf {
        let state = locked(&self.state);
        if capacity < state.max_data {
            drop(state);
            return PacketBuf::with_capacity(capacity);
        }
        Self::take_spare(state, capacity)
    }

    fn take_spare(mut state: MutexGuard<'_, BridgeState>, capacity: usize) -> PacketBuf {
        (state.took_spare, state.takes_spare) = (true, true);
        let spare = state.spare.pop();
        drop(state);
        spare.unwrap_or_else(|| PacketBuf::with_capacity(capacity))
    }

    /// Passes a packet to the connection at once.
    pub fn send(&self, buf: PacketBuf) {
        let mut state = locked(&self.state);
        let is_news = state.queue([buf]);
        self.wake_connection(state, is_news);
    }

    /// Reports `bytes` of received data as consumed. The connection is notified of large amounts
    /// at once, of others by [`PacketBridge::rest`] or with the next packet.
    pub fn consumed(&self, bytes: usize) {
        let mut state = locked(&self.state);
        state.used += bytes;
        let must_tell = state.must_tell(false);
        self.wake_connection(state, must_tell);
    }

    /// To be called before the worker sleeps: the window must not stay shut for what it consumed.
    pub fn rest(&self) {
        let state = locked(&self.state);
        let must_tell = state.must_tell(true);
        self.wake_connection(state, must_tell);
    }

    /// Passes the results of a turn to the connection with one notification: packets, and `used`
    /// bytes consumed. `has_more`: the worker has more to send as soon as there is room.
    pub fn hand_over(&self, packets: &mut VecDeque<PacketBuf>, used: usize, has_more: bool) {
        let mut state = locked(&self.state);
        let is_news = state.queue(packets.drain(..));
        state.used += used;
        state.takes_spare = std::mem::take(&mut state.took_spare);
        state.waits_for_room = has_more;
        let has_room = has_more && state.queued < self.limits.outgoing_bytes;
        // Set here already, so that the connection needs no second notification that the worker
        // sleeps.
        state.asleep = !has_room && state.arrived.is_empty();
        let must_tell = state.must_tell(state.asleep);
        self.wake_connection(state, is_news || must_tell);
    }

    /// The worker ends: further data is dropped.
    pub fn end_worker(&self) {
        let mut state = locked(&self.state);
        state.worker_ended = true;
        state.asleep = false;
        state.arrived = Vec::new();
        self.wake_connection(state, true);
    }

    /// Gives the connection a command; a weaker one than before is ignored.
    pub fn command_connection(&self, command: BridgeCommand) {
        let mut state = locked(&self.state);
        state.command = state.command.max(command);
        self.wake_connection(state, true);
    }

    // ---- the connection's side --------------------------------------------------------------

    /// Gives the worker a command; a weaker one than before is ignored.
    pub fn command_worker(&self, command: BridgeCommand) {
        self.command_with(command, &mut Vec::new());
    }

    fn command_with(&self, command: BridgeCommand, arrived: &mut Vec<Bytes>) {
        let mut state = locked(&self.state);
        state.arrived.append(arrived);
        state.command = state.command.max(command);
        if state.max_data == 0 {
            state.max_data = UNSENT_BYTES;
        }
        self.wake_worker(state, true);
    }

    /// Returns the worker's command, for a handler whose channel is not open yet.
    pub fn look(&self) -> BridgeCommand {
        let mut state = locked(&self.state);
        state.notified = false;
        state.command
    }

    /// The state after an exchange with a channel of these figures.
    #[cfg(test)]
    pub(crate) fn set_exchanged(&self, max_data: usize, window: usize) {
        let mut state = locked(&self.state);
        (state.max_data, state.window, state.used) = (max_data, window, 0);
    }

    /// Keeps empty buffers for the worker. While it is idle, all but
    /// [`BridgeLimits::spare_at_rest`] go back to the connection.
    fn supply(&self, state: &mut BridgeState, is_news: bool, line: &mut ChannelIo<'_>) {
        let at_rest = state.asleep && !state.waits_for_room && !is_news
            || state.command > BridgeCommand::GoOn;
        let wanted = match (at_rest || state.worker_ended, state.takes_spare) {
            (false, true) => self.limits.spare_buffers,
            (true, true) => self.limits.spare_at_rest,
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
}

/// The connection's end of a bridge, for the channel's handler.
#[derive(Debug)]
pub struct BridgeEnd {
    bridge: Arc<PacketBridge>,
    arrived: Vec<Bytes>,
    input_ended: bool,
    outgoing: VecDeque<PacketBuf>,
    /// Outgoing packets are dropped.
    is_aborted: bool,
}

/// State of a bridge after [`BridgeEnd::work`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BridgeProgress {
    /// Command of the worker.
    pub command: BridgeCommand,
    /// The worker has ended. Its last packets may wait for the peer's window.
    pub worker_ended: bool,
    /// Packets wait for the peer's window.
    pub is_blocked: bool,
    /// The worker has passed on packets of which the connection was not notified: the handler is
    /// [busy](super::HandlerProgress::Busy).
    pub has_more: bool,
}

impl BridgeEnd {
    /// Creates the connection's end of `bridge`.
    #[must_use]
    pub fn new(bridge: Arc<PacketBridge>) -> Self {
        Self {
            bridge,
            arrived: Vec::new(),
            input_ended: false,
            outgoing: VecDeque::new(),
            is_aborted: false,
        }
    }

    /// Keeps received data for the next [`BridgeEnd::work`].
    pub fn receive(&mut self, data: Bytes) {
        self.arrived.push(data);
    }

    /// The peer sends no more data.
    pub fn end_input(&mut self) {
        self.input_ended = true;
    }

    /// The peer takes no more packets: passes the last data together with the command
    /// [`BridgeCommand::Finish`], under one lock, because the worker ignores data that arrives
    /// after it has obeyed the command.
    pub fn abort(&mut self) {
        self.is_aborted = true;
        self.bridge
            .command_with(BridgeCommand::Finish, &mut self.arrived);
    }

    /// Passes received data to the worker, opens the window for what it has consumed, and sends its
    /// packets, as many as the peer's window permits.
    ///
    /// # Errors
    /// Those of [`ChannelIo`].
    pub fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<BridgeProgress, Error> {
        let (used, mut progress) = self.exchange(line);
        line.consumed(used)?;
        let sent = if self.is_aborted {
            let len = self.outgoing.iter().map(PacketBuf::len).sum();
            self.outgoing.drain(..).for_each(|buf| line.recycle(buf));
            len
        } else if progress.command == BridgeCommand::Abandon {
            0
        } else {
            line.send_queued(&mut self.outgoing)?
        };
        progress.is_blocked = !self.outgoing.is_empty();
        let bridge = &self.bridge;
        let mut state = locked(&bridge.state);
        state.queued = state.queued.saturating_sub(sent);
        state.window = line.window();
        state.blocked = progress.is_blocked;
        progress.has_more = !state.blocked && !state.outgoing.is_empty();
        let has_room = state.waits_for_room && state.queued <= bridge.limits.low_bytes;
        bridge.wake_worker(state, has_room);
        Ok(progress)
    }

    /// Exchanges the queues with the worker. Returns the bytes consumed since the last exchange.
    fn exchange(&mut self, line: &mut ChannelIo<'_>) -> (usize, BridgeProgress) {
        let bridge = &self.bridge;
        let mut state = locked(&bridge.state);
        state.notified = false;
        let mut is_news = !self.arrived.is_empty() || state.input_ended != self.input_ended;
        if state.worker_ended {
            self.arrived.clear();
        }
        state.arrived.append(&mut self.arrived);
        state.input_ended = self.input_ended;
        self.outgoing.append(&mut state.outgoing);
        let max_data = line.max_data();
        if max_data > 0 {
            is_news |= state.max_data == 0;
            state.max_data = max_data;
        }
        bridge.supply(&mut state, is_news, line);
        let used = std::mem::take(&mut state.used);
        let progress = BridgeProgress {
            command: state.command,
            worker_ended: state.worker_ended,
            is_blocked: false,
            has_more: false,
        };
        bridge.wake_worker(state, is_news);
        (used, progress)
    }
}

impl Drop for BridgeEnd {
    /// The last data may have arrived with the end.
    fn drop(&mut self) {
        if !self.arrived.is_empty() {
            let mut state = locked(&self.bridge.state);
            if !state.worker_ended {
                state.arrived.append(&mut self.arrived);
            }
            self.bridge.wake_worker(state, true);
        }
    }
}
