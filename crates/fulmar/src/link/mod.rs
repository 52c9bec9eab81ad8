//! The thread that owns a connection's driver, and how other threads reach it.
//!
//! [`Core`] runs on the connection's thread. It puts received data into the channels' inboxes
//! ([`state`]), attaches what callers write to the driver as sources, and carries out [`Command`]s.
//! Each outgoing stream is a socket pair, so that a full one makes the writer wait in the kernel.
//! [`Role`] holds what client and server do differently.
//!
//! A channel's number is reused after both sides have closed it; a serial number of this module
//! keeps a late command from reaching the next channel with the same number.

mod channel;
mod commands;
mod handle;
mod listening;
mod opening;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use driver::{Driver, Notice};
use proto::channel::Request;
use proto::{ChannelId, Event};
use sys::epoll::EventFd;
use wire::message::reason;

pub(crate) use channel::{ChannelCore, channel_data};
pub(crate) use handle::{Command, Handle};
pub(crate) use listening::{AgentChannels, Backlog, Listened};
pub use state::Happening;
pub(crate) use state::{ChannelState, End};

use crate::{Error, Exit};

/// Most bytes that one channel buffers in this process, for each direction: outgoing bytes that
/// have not been sent (socket buffers and the connection's output queue), or received bytes that
/// have not been read (the window granted to the peer).
///
/// A fast reader on a path of large bandwidth-delay product gets a larger window;
/// `window_memory_bytes` of [`TransportConfig`](proto::TransportConfig) limits the sum over all
/// channels of a connection.
pub const MAX_BUFFERED_BYTES: usize = 4 * 1024 * 1024;

/// Token of the wake descriptor in the driver.
const TOKEN_WAKE: u64 = 1 << 32;
/// Timer for a peer that does not take the rest of the written bytes.
const TOKEN_CLOSE: u64 = TOKEN_WAKE + 1;
/// Time limit for sending the written bytes after the last handle is dropped.
const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// Most queued requests without `want reply` for a peer that takes nothing.
const MAX_TOLD: u32 = 1024;
/// Time limit for the peer to acknowledge the bytes of the final DISCONNECT.
const FLUSH_GRACE: Duration = Duration::from_secs(10);

/// The behaviour in which client and server differ.
pub(crate) trait Role {
    /// The connection is about to start.
    fn begin(&mut self, core: &mut Core);

    /// An event that is not about a channel's data or replies.
    fn event(&mut self, core: &mut Core, event: Event) -> Result<(), Error>;

    /// Handles a notice that concerns connections of the role; returns any other one.
    fn notice(&mut self, core: &mut Core, notice: Notice) -> Option<Notice> {
        let _ = core;
        Some(notice)
    }

    /// The connection has ended.
    fn end(&mut self, core: &mut Core) {
        let _ = core;
    }

    /// A timer that the role has set.
    fn timer(&mut self, core: &mut Core, token: u64) -> Result<(), Error>;
}

/// An open channel for a caller.
pub(crate) struct Opened {
    pub(crate) id: ChannelId,
    pub(crate) serial: u64,
    pub(crate) state: Arc<ChannelState>,
    /// Bytes written here are sent as data.
    pub(crate) out: UnixStream,
    /// Bytes written here are sent as stderr.
    pub(crate) err: Option<UnixStream>,
}

/// The receiver of the peer's answer to a request.
enum Waiter {
    /// The request belongs to the setup of the channel. Holds its name.
    Setup(&'static str),
    Caller(SyncSender<Result<bool, Error>>),
}

/// A channel to open: its type, the encoded fields of CHANNEL_OPEN that follow the maximum packet
/// size, and the requests that start what it is for, with their names.
pub(crate) struct ChannelOpening {
    pub(crate) kind: String,
    pub(crate) fields: Vec<u8>,
    pub(crate) requests: Vec<(Request, &'static str)>,
}

/// A channel whose CHANNEL_OPEN was sent before the server had answered earlier messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EarlyOpen {
    pub(crate) id: ChannelId,
    /// True if its requests were sent, too.
    pub(crate) with_requests: bool,
}

/// A local channel between its CHANNEL_OPEN and its delivery to the caller.
struct Setup {
    opening: ChannelOpening,
    /// True if the requests were sent before the channel's confirmation.
    sent_early: bool,
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
    /// Number of outgoing streams that have not ended.
    sources: u8,
    /// Set when the caller has dropped the channel; holds the command's exit.
    released: Option<Exit>,
    close_sent: bool,
}

enum Flow {
    Go,
    End,
}

/// The connection's thread's half of the command channel, before the thread starts.
pub(crate) struct Seed {
    /// True if the peer accepts requests on the first channel before it has confirmed it.
    pub(crate) starts_at_once: bool,
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    failure: Failure,
}

/// Why the connection has ended; `None` while it runs.
type Failure = Arc<Mutex<Option<Error>>>;

fn set_failure(failure: &Failure, error: Error) {
    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

/// Makes the connection thread's half and the callers' handle.
pub(crate) fn prepare() -> io::Result<(Seed, Handle)> {
    let wake = Arc::new(EventFd::new()?);
    let failure = Failure::default();
    let (handle, commands) = Handle::new(Arc::clone(&wake), Arc::clone(&failure));
    let seed = Seed {
        starts_at_once: false,
        commands,
        wake,
        failure,
    };
    Ok((seed, handle))
}

/// Sets the options of a connection's socket. Only TCP sockets have them; other streams neither
/// delay small writes nor pace.
pub(crate) fn prepare_socket(socket: &OwnedFd) {
    let _ = sys::socket::set_nodelay(socket, true);
    let _ = sys::socket::unpace_loopback(socket);
}

/// Runs a connection on this thread until it ends.
pub(crate) fn run(seed: Seed, driver: Driver, role: &mut dyn Role) -> Result<(), Error> {
    let failure = Arc::clone(&seed.failure);
    match Core::new(seed, driver) {
        Ok(mut core) => {
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

/// The state on the connection's thread.
pub(crate) struct Core {
    pub(crate) driver: Driver,
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    failure: Failure,
    entries: BTreeMap<ChannelId, Entry>,
    listeners: listening::Listeners,
    next_serial: u64,
    starts_at_once: bool,
    closing: bool,
    /// Requests without `want reply` sent since the output queue was last empty.
    told: u32,
}

impl Core {
    fn new(seed: Seed, mut driver: Driver) -> io::Result<Self> {
        driver.watch(seed.wake.as_fd(), TOKEN_WAKE, true, false)?;
        Ok(Self {
            driver,
            commands: seed.commands,
            wake: seed.wake,
            failure: seed.failure,
            entries: BTreeMap::new(),
            listeners: listening::Listeners::default(),
            next_serial: 0,
            starts_at_once: seed.starts_at_once,
            closing: false,
            told: 0,
        })
    }

    /// Runs until the connection ends, then reports the cause to all waiting callers.
    fn work(mut self, role: &mut dyn Role) -> Result<(), Error> {
        let outcome = self.serve(role);
        role.end(&mut self);
        if let Err(Error::Protocol(error)) = &outcome {
            self.driver.connection().fail(error);
            self.flush();
        }
        let last = outcome.clone().err().unwrap_or(Error::Closed);
        set_failure(&self.failure, last.clone());
        self.listeners.fail(&last);
        for entry in self.entries.into_values() {
            entry.state.fail(&last);
            if let Some(setup) = entry.setup {
                // A caller that no longer waits needs no answer.
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

    fn serve(&mut self, role: &mut dyn Role) -> Result<(), Error> {
        // The first channel's events must find it.
        self.take_commands()?;
        loop {
            let notice = self.driver.next()?;
            let Some(notice) = role.notice(self, notice) else {
                continue;
            };
            if matches!(self.take(notice, role)?, Flow::End) {
                return Ok(());
            }
        }
    }

    /// Ends the connection with DISCONNECT.
    pub(crate) fn disconnect(&mut self, reason: u32, words: &str) {
        self.driver.connection().disconnect(reason, words);
        self.flush();
    }

    /// Writes the queued bytes; the kernel drops the connection of a peer that acknowledges
    /// nothing.
    fn flush(&mut self) {
        // The socket may not be TCP, and a DISCONNECT that is lost changes nothing.
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
            // This crate attaches no sinks, endpoints or accelerators to the driver.
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
            Event::ChannelUnheard(channel) => self.reopen(channel)?,
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
            Event::GlobalReply(fields) => self.listen_answered(fields.as_deref()),
            Event::ChannelOpenRequest {
                channel,
                kind,
                fields,
            } => {
                if !self.accept_forwarded(channel, &kind, &fields)? {
                    let event = Event::ChannelOpenRequest {
                        channel,
                        kind,
                        fields,
                    };
                    role.event(self, event)?;
                }
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
