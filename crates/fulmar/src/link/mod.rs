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
mod handle;
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
use proto::{ChannelId, Connection, Event, Stream};
use sys::epoll::EventFd;
use wire::message::reason;

pub(crate) use channel::ChannelCore;
pub(crate) use handle::{Command, Handle};
pub use state::Happening;
pub(crate) use state::{ChannelState, End};

use crate::{Error, Exit};

/// Most bytes that one channel keeps in this process, for each direction: what has come and
/// was not read (the window granted to the peer), or what was written and has not left (socket
/// buffers and the connection's output queue).
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

/// Works a connection on this thread until it ends.
pub(crate) fn run(
    seed: Seed,
    socket: OwnedFd,
    connection: Connection,
    role: &mut dyn Role,
) -> Result<(), Error> {
    let failure = Arc::clone(&seed.failure);
    match Core::new(seed, socket, connection) {
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
            Notice::SinkEnded { .. } => {}
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

    fn insert(&mut self, id: ChannelId, setup: Option<Setup>) -> (u64, Arc<ChannelState>) {
        self.next_serial += 1;
        let state = Arc::new(ChannelState::default());
        self.entries.insert(
            id,
            Entry {
                serial: self.next_serial,
                state: Arc::clone(&state),
                setup,
                waiters: VecDeque::new(),
                sources: 0,
                released: None,
                close_sent: false,
            },
        );
        (self.next_serial, state)
    }

    /// Makes a stream whose bytes are sent on the channel.
    fn attach(&mut self, id: ChannelId, stream: Stream) -> Result<UnixStream, Error> {
        let (caller, ours) = UnixStream::pair()?;
        self.driver.attach_source(id, stream, OwnedFd::from(ours))?;
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.sources += 1;
        }
        Ok(caller)
    }

    /// Grants the channel that the peer asked for.
    pub(crate) fn accept(&mut self, id: ChannelId) -> Result<Opened, Error> {
        self.driver.connection().accept_channel(id)?;
        let (serial, state) = self.insert(id, None);
        let out = self.attach(id, Stream::Data)?;
        let err = self.attach(id, Stream::Stderr)?;
        Ok(Opened {
            id,
            serial,
            state,
            out,
            err: Some(err),
        })
    }

    /// The state of a channel that is open.
    pub(crate) fn state(&self, id: ChannelId) -> Option<&ChannelState> {
        self.entries.get(&id).map(|entry| &*entry.state)
    }

    fn opened(&mut self, id: ChannelId) -> Result<(), Error> {
        let out = self.attach(id, Stream::Data)?;
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let Some(setup) = &mut entry.setup else {
            return Ok(());
        };
        setup.out = Some(out);
        for (request, name) in std::mem::take(&mut setup.requests) {
            // RFC 4254 §6.4: a variable that is not taken is no reason to give up.
            let want_reply = !matches!(request, Request::Env { .. });
            self.driver
                .connection()
                .channel_request(id, &request, want_reply)?;
            if want_reply {
                setup.unanswered += 1;
                entry.waiters.push_back(Waiter::Setup(name));
            }
        }
        self.hand_out(id)
    }

    fn replied(&mut self, id: ChannelId, success: bool) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        match entry.waiters.pop_front() {
            Some(Waiter::Caller(done)) => {
                let _ = done.try_send(Ok(success));
                Ok(())
            }
            Some(Waiter::Setup(name)) => {
                if let Some(setup) = &mut entry.setup {
                    setup.unanswered = setup.unanswered.saturating_sub(1);
                    if !success {
                        setup.refused.get_or_insert(name);
                    }
                }
                self.hand_out(id)
            }
            None => Ok(()),
        }
    }

    /// Gives a channel to its caller once every request before that is answered.
    fn hand_out(&mut self, id: ChannelId) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let Some(setup) = entry.setup.take_if(|setup| setup.unanswered == 0) else {
            return Ok(());
        };
        let taken = match (setup.refused, setup.out) {
            (None, Some(out)) => setup
                .done
                .try_send(Ok(Opened {
                    id,
                    serial: entry.serial,
                    state: Arc::clone(&entry.state),
                    out,
                    err: None,
                }))
                .is_ok(),
            (refused, _) => {
                let error = Error::RequestRefused(refused.unwrap_or("the channel"));
                let _ = setup.done.try_send(Err(error));
                false
            }
        };
        if !taken {
            entry.state.abandon();
            entry.released = Some(Exit::Unknown);
        }
        self.finish(id)
    }

    // ---- what callers do ------------------------------------------------------------------

    fn take_commands(&mut self) -> Result<(), Error> {
        self.wake.drain()?;
        while let Ok(command) = self.commands.try_recv() {
            self.take_command(command)?;
        }
        self.grant()
    }

    /// Opens windows for what has been read.
    fn grant(&mut self) -> Result<(), Error> {
        for (id, entry) in &self.entries {
            let bytes = entry.state.take_unreported();
            if bytes > 0 {
                self.driver.connection().channel_consumed(*id, bytes)?;
            }
        }
        Ok(())
    }

    fn take_command(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::Open {
                kind,
                fields,
                requests,
                done,
            } => match self.driver.connection().open_channel(kind, &fields) {
                Ok(id) => {
                    let setup = Setup {
                        requests,
                        out: None,
                        unanswered: 0,
                        refused: None,
                        done,
                    };
                    self.insert(id, Some(setup));
                }
                Err(error) => {
                    let _ = done.try_send(Err(error.into()));
                }
            },
            Command::Ask {
                id,
                serial,
                request,
                done,
            } => match self.entry(id, serial) {
                Some(entry) => {
                    entry.waiters.push_back(Waiter::Caller(done));
                    self.driver
                        .connection()
                        .channel_request(id, &request, true)?;
                }
                None => {
                    let _ = done.try_send(Err(Error::ChannelClosed));
                }
            },
            Command::Tell {
                id,
                serial,
                request,
                done,
            } => {
                let outcome = self.tell(id, serial, &request)?;
                let _ = done.try_send(outcome);
            }
            Command::Release { id, serial, exit } => {
                let Some(entry) = self.entry(id, serial) else {
                    return Ok(());
                };
                entry.released = Some(exit);
                let unread = entry.state.abandon();
                self.driver.connection().channel_consumed(id, unread)?;
                self.finish(id)?;
            }
            Command::Rekey => {
                let now = self.driver.now();
                self.driver.connection().rekey(now)?;
            }
            Command::Work(work) => work(self.driver.connection()),
            Command::Close => {
                self.closing = true;
                let grace = u64::try_from(CLOSE_GRACE.as_millis()).unwrap_or(u64::MAX);
                let at = self.driver.now().saturating_add(grace);
                self.driver.set_timer(TOKEN_CLOSE, Some(at));
            }
        }
        Ok(())
    }

    /// The channel that a caller means, unless it is on its way out.
    fn entry(&mut self, id: ChannelId, serial: u64) -> Option<&mut Entry> {
        self.entries
            .get_mut(&id)
            .filter(|entry| entry.serial == serial && !entry.close_sent)
    }

    /// Sends a request that wants no answer. Nothing slows the caller down but this limit.
    fn tell(
        &mut self,
        id: ChannelId,
        serial: u64,
        request: &Request,
    ) -> Result<Result<(), Error>, Error> {
        if self.entry(id, serial).is_none() {
            return Ok(Err(Error::ChannelClosed));
        }
        let connection = self.driver.connection();
        if !connection.has_output() {
            self.told = 0;
        }
        if self.told >= MAX_TOLD {
            return Ok(Err(Error::TimedOut("the peer takes no more requests")));
        }
        self.told += 1;
        connection.channel_request(id, request, false)?;
        Ok(Ok(()))
    }

    fn source_ended(&mut self, id: ChannelId) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        entry.sources = entry.sources.saturating_sub(1);
        if entry.sources == 0 {
            self.driver.connection().channel_eof(id)?;
        }
        self.finish(id)
    }

    /// Closes a channel that its caller has let go, once all that was written is on its way.
    fn finish(&mut self, id: ChannelId) -> Result<(), Error> {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let Some(exit) = entry.released.as_ref().filter(|_| entry.sources == 0) else {
            return Ok(());
        };
        if std::mem::replace(&mut entry.close_sent, true) {
            return Ok(());
        }
        let connection = self.driver.connection();
        if let Some(request) = exit.to_request() {
            connection.channel_request(id, &request, false)?;
        }
        connection.channel_close(id)?;
        Ok(())
    }
}
