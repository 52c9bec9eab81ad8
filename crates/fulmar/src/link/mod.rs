//! One connection at work: the thread that owns the driver, and how other threads reach it.
//!
//! [`Core`] runs on the connection's thread. It gives arriving data to the channels' inboxes
//! ([`state`]), joins what callers write (a socket pair for each stream, so that a full one
//! makes the writer wait in the kernel) to the driver's sources, and takes [`Command`]s. What
//! the two sides of the protocol do differently is behind [`Role`].
//!
//! A channel's number is reused as soon as both sides have closed it; a serial number of our
//! own keeps a late command from reaching its successor.

mod channel;
mod commands;
mod handle;
mod opening;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver::{CryptoThreads, Driver, LaneTerms, Notice};
use proto::channel::Request;
use proto::{ChannelId, Connection, Event};
use sys::epoll::EventFd;
use wire::message::reason;

pub(crate) use channel::{ChannelCore, channel_data};
pub(crate) use handle::{Command, Handle};
pub use state::Happening;
pub(crate) use state::{ChannelState, End};

use crate::{Error, Exit};

/// Most bytes that one channel keeps in this process, for each direction: what was written and
/// has not left (socket buffers and the connection's output queue), or what has come and was not
/// read (the window granted to the peer).
///
/// Reading fast over a long path makes the window grow past this; what all channels of a
/// connection keep together is bounded by `window_memory_bytes` of its
/// [`TransportConfig`](proto::TransportConfig).
pub const MAX_BUFFERED_BYTES: usize = 4 * 1024 * 1024;

/// The wake descriptor in the driver.
const TOKEN_WAKE: u64 = 1 << 32;
/// The end of our patience with a peer that does not take the rest of what was written.
const TOKEN_CLOSE: u64 = TOKEN_WAKE + 1;
/// How long the rest of what was written may take to leave after the last handle is gone.
const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// Requests without an answer that may wait for a peer that takes nothing.
const MAX_TOLD: u32 = 1024;
/// How long the socket may leave bytes unacknowledged while we say goodbye.
const FLUSH_GRACE: Duration = Duration::from_secs(10);

/// What the two sides do differently.
pub(crate) trait Role {
    /// The connection is about to start.
    fn begin(&mut self, core: &mut Core);

    /// An event that is not about a channel's data or replies.
    fn event(&mut self, core: &mut Core, event: Event) -> Result<(), Error>;

    /// A timer that the role has set.
    fn timer(&mut self, core: &mut Core, token: u64) -> Result<(), Error>;
}

/// A channel that is ready to be handed to a caller.
pub(crate) struct Opened {
    pub(crate) id: ChannelId,
    pub(crate) serial: u64,
    pub(crate) state: Arc<ChannelState>,
    /// What is written here is sent as data.
    pub(crate) out: UnixStream,
    /// What is written here is sent as stderr.
    pub(crate) err: Option<UnixStream>,
}

/// Who waits for the peer's answer to a request.
enum Waiter {
    /// The request is one of those that come before the channel is handed out.
    Setup(&'static str),
    Caller(SyncSender<Result<bool, Error>>),
}

/// A channel of ours between its open request and the moment when its caller gets it.
struct Setup {
    requests: Vec<(Request, &'static str)>,
    out: Option<UnixStream>,
    unanswered: usize,
    refused: Option<&'static str>,
    done: SyncSender<Result<Opened, Error>>,
}

struct Entry {
    serial: u64,
    state: Arc<ChannelState>,
    setup: Option<Setup>,
    waiters: VecDeque<Waiter>,
    /// Streams whose writer may still write.
    sources: u8,
    /// The caller has let go, and this is how the command ended.
    released: Option<Exit>,
    close_sent: bool,
}

enum Flow {
    Go,
    End,
}

/// What a connection's thread needs of its handle, before there is a thread.
pub(crate) struct Seed {
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    failure: Failure,
}

/// Why the connection has ended, once it has.
type Failure = Arc<Mutex<Option<Error>>>;

fn set_failure(failure: &Failure, error: Error) {
    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

/// The two ends of a connection at work.
pub(crate) fn prepare() -> io::Result<(Seed, Handle)> {
    let wake = Arc::new(EventFd::new()?);
    let failure = Failure::default();
    let (handle, commands) = Handle::new(Arc::clone(&wake), Arc::clone(&failure));
    let seed = Seed {
        commands,
        wake,
        failure,
    };
    Ok((seed, handle))
}

/// Works a connection on this thread until it ends. So many `threads` may seal and open its
/// packets, this one counted.
pub(crate) fn run(
    seed: Seed,
    socket: OwnedFd,
    connection: Connection,
    threads: CryptoThreads,
    role: &mut dyn Role,
) -> Result<(), Error> {
    let failure = Arc::clone(&seed.failure);
    match Core::new(seed, socket, connection) {
        Ok(mut core) => {
            core.driver.set_lane_terms(LaneTerms::new(threads));
            role.begin(&mut core);
            core.work(role)
        }
        Err(error) => {
            let error = Error::from(error);
            set_failure(&failure, error.clone());
            Err(error)
        }
    }
}

/// The thread's side. See the module's head.
pub(crate) struct Core {
    pub(crate) driver: Driver,
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    failure: Failure,
    entries: BTreeMap<ChannelId, Entry>,
    next_serial: u64,
    closing: bool,
    /// Requests without an answer since the output queue was last empty.
    told: u32,
}

impl Core {
    /// The thread's side of `seed` over a socket. To be called on the thread that runs it.
    fn new(seed: Seed, socket: OwnedFd, connection: Connection) -> io::Result<Self> {
        // Only TCP has them; other streams neither hold small writes back nor pace.
        let _ = sys::socket::set_nodelay(&socket, true);
        let _ = sys::socket::unpace_loopback(&socket);
        let mut driver = Driver::new(socket, None, connection)?;
        driver.watch(seed.wake.as_fd(), TOKEN_WAKE, true, false)?;
        Ok(Self {
            driver,
            commands: seed.commands,
            wake: seed.wake,
            failure: seed.failure,
            entries: BTreeMap::new(),
            next_serial: 0,
            closing: false,
            told: 0,
        })
    }

    /// Works until the connection ends; tells everybody who waits how it ended.
    fn work(mut self, role: &mut dyn Role) -> Result<(), Error> {
        let outcome = loop {
            let notice = match self.driver.next() {
                Ok(notice) => notice,
                Err(error) => break Err(Error::from(error)),
            };
            match self.take(notice, role) {
                Ok(Flow::Go) => {}
                Ok(Flow::End) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if let Err(Error::Protocol(error)) = &outcome {
            self.driver.connection().fail(error);
            self.flush();
        }
        let last = outcome.clone().err().unwrap_or(Error::Closed);
        set_failure(&self.failure, last.clone());
        for entry in self.entries.into_values() {
            entry.state.fail(&last);
            if let Some(setup) = entry.setup {
                // A caller that stopped waiting needs no answer.
                let _ = setup.done.try_send(Err(last.clone()));
            }
            for waiter in entry.waiters {
                if let Waiter::Caller(done) = waiter {
                    let _ = done.try_send(Err(last.clone()));
                }
            }
        }
        outcome
    }

    /// Ends the connection with a goodbye.
    pub(crate) fn disconnect(&mut self, reason: u32, words: &str) {
        self.driver.connection().disconnect(reason, words);
        self.flush();
    }

    /// Writes what is queued; a peer that takes nothing is given up by the kernel.
    fn flush(&mut self) {
        // Not every connection is TCP, and a goodbye that does not arrive changes nothing.
        let _ = sys::socket::options::set_user_timeout(self.driver.socket(), FLUSH_GRACE);
        let _ = self.driver.flush();
    }

    fn take(&mut self, notice: Notice, role: &mut dyn Role) -> Result<Flow, Error> {
        match notice {
            Notice::Event(event) => self.take_event(event, role)?,
            Notice::Ready { .. } => self.take_commands()?,
            Notice::SourceEnded { channel, .. } => self.source_ended(channel)?,
            Notice::Timer { token: TOKEN_CLOSE } => {
                self.disconnect(reason::BY_APPLICATION, "closed");
                return Ok(Flow::End);
            }
            Notice::Timer { token } => role.timer(self, token)?,
            Notice::PeerClosed => return Err(Error::Closed),
            // No accelerator is given to the driver here.
            Notice::SinkEnded { .. }
            | Notice::EndpointEnded { .. }
            | Notice::AcceleratorFailed(_)
            | Notice::AcceleratorDismissed(_) => {}
        }
        if self.closing && self.entries.values().all(|entry| entry.close_sent) {
            self.disconnect(reason::BY_APPLICATION, "closed");
            return Ok(Flow::End);
        }
        Ok(Flow::Go)
    }

    // ---- what the peer does ---------------------------------------------------------------

    fn take_event(&mut self, event: Event, role: &mut dyn Role) -> Result<(), Error> {
        match event {
            Event::ChannelData {
                channel,
                stream,
                data,
            } => {
                let len = data.len();
                let kept = self
                    .entries
                    .get(&channel)
                    .is_some_and(|entry| entry.state.push(stream, data));
                if !kept {
                    self.driver.connection().channel_consumed(channel, len)?;
                }
            }
            Event::ChannelEof(channel) => {
                if let Some(entry) = self.entries.get(&channel) {
                    entry.state.end(&End::Eof);
                }
            }
            Event::ChannelOpened(channel) => self.opened(channel)?,
            Event::ChannelRefused {
                channel,
                reason,
                description,
            } => {
                let setup = self.entries.remove(&channel).and_then(|entry| entry.setup);
                if let Some(setup) = setup {
                    let _ = setup.done.try_send(Err(Error::ChannelRefused {
                        reason,
                        description,
                    }));
                }
            }
            Event::ChannelReply { channel, success } => self.replied(channel, success)?,
            Event::ChannelClosed(channel) => {
                self.closed(channel);
                role.event(self, Event::ChannelClosed(channel))?;
            }
            Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => match (Exit::from_request(&request), self.entries.get(&channel)) {
                (Some(exit), Some(entry)) => {
                    entry.state.end(&End::Exit(exit));
                    if want_reply {
                        self.driver.connection().channel_reply(channel, true)?;
                    }
                }
                _ => role.event(
                    self,
                    Event::ChannelRequest {
                        channel,
                        request,
                        want_reply,
                    },
                )?,
            },
            other => role.event(self, other)?,
        }
        Ok(())
    }

    fn closed(&mut self, channel: ChannelId) {
        let Some(entry) = self.entries.remove(&channel) else {
            return;
        };
        entry.state.end(&End::Closed);
        if let Some(setup) = entry.setup {
            let _ = setup.done.try_send(Err(Error::ChannelClosed));
        }
        for waiter in entry.waiters {
            if let Waiter::Caller(done) = waiter {
                let _ = done.try_send(Err(Error::ChannelClosed));
            }
        }
    }
}
