//! The event loop over epoll: socket, sources, sinks, the caller's own descriptors and timers.
//!
//! Order of one turn: open the received packets, dispatch events (data directly to its sink or
//! endpoint, other events to the caller one by one), let sources fill the windows, seal and write
//! the queued output; repeat until nothing is left to do. Only then call epoll, with the nearest
//! deadline as timeout.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::{ChannelId, Connection, Event, Millis, Stream};
use sys::epoll::{Epoll, Events, Interest};

use super::channel_handler::{self, Attached, ChannelHandler};
use super::error::DriverError;
use super::lanes::{LaneReport, LaneTerms, Lanes};
use super::link::{PendingOutput, SocketLink};
use super::probe::Probe;
use super::sink::{self, ChannelSink};
use super::source::{self, ChannelSource};
use super::stall_accounting::{self, LoopTimes, StallAccounting, StallCause};
use super::watch::{Registered, Registration, Watches};

/// Maximum events returned by one call of epoll.
const MAX_READY: usize = 64;
/// Maximum reads of the socket in one turn, so that a fast peer does not starve timers and
/// descriptors.
const MAX_READS: usize = 4;
/// Epoll token by which a worker wakes the loop.
const LANES_TOKEN: u64 = 2;

/// What [`Driver::next`] returns to its caller.
#[derive(Debug)]
pub enum Notice {
    /// An event of the connection. Channel data appears here only if the stream has neither a sink
    /// nor an endpoint.
    Event(Event),
    /// A descriptor given to [`Driver::watch`] is ready.
    Ready {
        /// The token given to [`Driver::watch`].
        token: u64,
        /// Reading will not block (or will return the error).
        readable: bool,
        /// Writing will not block.
        writable: bool,
    },
    /// A timer set by [`Driver::set_timer`] expired.
    Timer {
        /// The token given to [`Driver::set_timer`].
        token: u64,
    },
    /// A source ended or failed and is detached. No EOF has been sent for it.
    SourceEnded {
        /// The source's channel.
        channel: ChannelId,
        /// The source's stream.
        stream: Stream,
        /// Read error; `None` at the end of the file.
        error: Option<io::Error>,
    },
    /// A sink has written its last byte or failed; its descriptor is closed.
    SinkEnded {
        /// The sink's channel.
        channel: ChannelId,
        /// The sink's stream.
        stream: Stream,
        /// Write error; `None` at the end of the data.
        error: Option<io::Error>,
    },
    /// An endpoint is finished; it stays attached until [`Driver::detach_endpoint`].
    EndpointEnded {
        /// The endpoint's channel.
        channel: ChannelId,
    },
    /// The accelerator that compressed sent data failed, for this reason. No data is lost; the
    /// software compressor continues.
    AcceleratorFailed(String),
    /// The accelerator of this name no longer compresses, because a second channel has sent data.
    AcceleratorDismissed(String),
    /// The peer closed its side of the socket.
    PeerClosed,
}

type StreamKey = (ChannelId, Stream);

/// Meaning of an epoll token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventTarget {
    SocketRead,
    SocketWrite,
    Lanes,
    Source(StreamKey),
    Sink(StreamKey),
    Watch(RawFd),
}

/// Event loop of one connection.
///
/// [`Driver::next`] runs the loop and returns each [`Notice`]. Between calls the caller attaches
/// sources, sinks and endpoints to channels and sends commands through [`Driver::connection`].
pub struct Driver {
    epoll: Epoll,
    ready: Events,
    targets: BTreeMap<u64, EventTarget>,
    next_token: u64,
    connection: Connection,
    link: SocketLink,
    lanes: Lanes,
    probe: Probe,
    sources: BTreeMap<StreamKey, ChannelSource>,
    /// The first source served in the last round that served any.
    served_source: Option<StreamKey>,
    sinks: BTreeMap<StreamKey, ChannelSink>,
    endpoints: BTreeMap<ChannelId, Attached>,
    /// Endpoints ran before the sources in the last round.
    endpoints_first: bool,
    /// Time until which the socket is not watched because an endpoint is full.
    held_back: Option<Millis>,
    watches: Watches,
    timers: BTreeMap<u64, Millis>,
    notices: VecDeque<Notice>,
    failure: Option<DriverError>,
    /// The process serves only this connection.
    trims_memory: bool,
    /// Accounts the loop's time, if requested.
    waits: Option<StallAccounting>,
}

// A connection may move to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Driver>();
};

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Attaches `connection` to its socket. `write` is set if two descriptors form the connection
    /// (ProxyCommand's pipes). Both become non-blocking. The caller sets the socket's options
    /// (`TCP_NODELAY`, [`sys::socket::unpace_loopback`]).
    ///
    /// # Errors
    /// Those of epoll and fcntl.
    pub fn new(read: OwnedFd, write: Option<OwnedFd>, connection: Connection) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let link = SocketLink::new(&epoll, (0, 1), read, write)?;
        Ok(Self {
            epoll,
            ready: Events::with_capacity(MAX_READY),
            targets: BTreeMap::from([
                (0, EventTarget::SocketRead),
                (1, EventTarget::SocketWrite),
                (LANES_TOKEN, EventTarget::Lanes),
            ]),
            next_token: LANES_TOKEN + 1,
            connection,
            link,
            lanes: Lanes::new(),
            probe: Probe::default(),
            sources: BTreeMap::new(),
            served_source: None,
            sinks: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            endpoints_first: false,
            held_back: None,
            watches: Watches::default(),
            timers: BTreeMap::new(),
            notices: VecDeque::new(),
            failure: None,
            trims_memory: false,
            waits: None,
        })
    }

    /// Sets how workers share in sealing, opening and compressing; by default there are no workers.
    /// To be called before [`Driver::next`].
    pub fn set_lane_terms(&mut self, terms: LaneTerms) {
        self.lanes.set_terms(terms);
    }

    /// Statistics of batches and workers so far.
    #[must_use]
    pub fn lane_report(&self) -> LaneReport {
        self.lanes.report()
    }

    /// The connection, for commands and getters.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns memory to the system as soon as the idle connection frees it. Meant for a process
    /// that serves only this connection, because it walks the allocator's whole heap.
    pub fn trim_memory(&mut self) {
        self.trims_memory = true;
    }

    /// Starts to account the loop's time in `times`.
    pub fn tell_times(&mut self, times: Arc<LoopTimes>) {
        self.waits = Some(StallAccounting::new(times, sys::time::monotonic_us()));
    }

    /// Current time of the loop's monotonic clock, milliseconds.
    #[must_use]
    pub fn now(&self) -> Millis {
        sys::time::monotonic_ms()
    }

    /// The socket's descriptor for reading.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.link.read_fd()
    }

    /// Bytes read from and written to the socket so far.
    #[must_use]
    pub fn wire_bytes(&self) -> (u64, u64) {
        self.link.wire_bytes()
    }

    fn token(&mut self, target: EventTarget) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.targets.insert(token, target);
        token
    }

    // ---- channels' descriptors ------------------------------------------------------------

    /// Sends the bytes read from `fd` on the channel, as far as its window allows.
    /// [`Notice::SourceEnded`] follows at the end of the file.
    ///
    /// `fd` becomes non-blocking and stays so. Other descriptors may share its open file (a
    /// terminal's, a pty's master), so the driver cannot know when to reset it. A caller whose
    /// descriptors outlive it in other processes resets the flag when it exits.
    ///
    /// # Errors
    /// Those of epoll and fcntl.
    pub fn attach_source(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        fd: OwnedFd,
    ) -> io::Result<()> {
        self.detach_source(channel, stream);
        let token = self.token(EventTarget::Source((channel, stream)));
        let source = ChannelSource::new(fd, token, &self.epoll)?;
        self.sources.insert((channel, stream), source);
        Ok(())
    }

    /// Returns true if the source is readable now; the next turn then reads it. False without such
    /// a source.
    ///
    /// # Errors
    /// Those of poll.
    pub fn source_has_more(&mut self, channel: ChannelId, stream: Stream) -> io::Result<bool> {
        match self.sources.get_mut(&(channel, stream)) {
            Some(source) => source.look(),
            None => Ok(false),
        }
    }

    /// Writes the channel's received data to `fd`; the window reopens as bytes are written.
    /// [`Notice::SinkEnded`] follows when the peer's EOF or CLOSE has arrived and the last byte is
    /// written.
    ///
    /// # Errors
    /// Those of epoll and fcntl.
    pub fn attach_sink(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        fd: OwnedFd,
    ) -> io::Result<()> {
        self.detach_sink(channel, stream);
        let token = self.token(EventTarget::Sink((channel, stream)));
        let sink = ChannelSink::new(fd, token, &self.epoll)?;
        self.sinks.insert((channel, stream), sink);
        Ok(())
    }

    /// Joins a stream socket to the channel in both directions, as [`Driver::attach_source`] and
    /// [`Driver::attach_sink`] do. After the last byte of the peer's data the socket's sending
    /// direction is shut down.
    ///
    /// # Errors
    /// Those of epoll, fcntl and dup; then nothing is attached.
    pub fn attach_socket(&mut self, channel: ChannelId, socket: OwnedFd) -> io::Result<()> {
        let key = (channel, Stream::Data);
        // Epoll watches a descriptor once, and each direction has a registration of its own.
        let write = sys::io::dup(&socket)?;
        let token = self.token(EventTarget::Sink(key));
        let sink = ChannelSink::new(write, token, &self.epoll)?.shutting_down();
        self.attach_source(channel, Stream::Data, socket)?;
        self.sinks.insert(key, sink);
        Ok(())
    }

    /// Passes received data, which was not counted as consumed, to the channel's sink before any
    /// other; `ended` if the peer sends nothing more.
    pub fn feed_sink(
        &mut self,
        channel: ChannelId,
        data: impl IntoIterator<Item = Bytes>,
        ended: bool,
    ) {
        if let Some(sink) = self.sinks.get_mut(&(channel, Stream::Data)) {
            data.into_iter().for_each(|data| sink.push(data));
            if ended {
                sink.end();
            }
        }
    }

    /// Detaches a source and returns its descriptor.
    pub fn detach_source(&mut self, channel: ChannelId, stream: Stream) -> Option<OwnedFd> {
        let source = self.sources.remove(&(channel, stream))?;
        let (fd, token) = source.into_parts(&self.epoll);
        self.targets.remove(&token);
        Some(fd)
    }

    /// Detaches a sink and returns its descriptor. Bytes not yet written are dropped and count as
    /// consumed, because nobody else could give that part of the window back.
    pub fn detach_sink(&mut self, channel: ChannelId, stream: Stream) -> Option<OwnedFd> {
        self.remove_sink(channel, stream).unwrap_or_else(|error| {
            self.failure.get_or_insert(error);
            None
        })
    }

    fn remove_sink(
        &mut self,
        channel: ChannelId,
        stream: Stream,
    ) -> Result<Option<OwnedFd>, DriverError> {
        let Some(sink) = self.sinks.remove(&(channel, stream)) else {
            return Ok(None);
        };
        let dropped = sink.unwritten();
        let (fd, token) = sink.into_parts(&self.epoll);
        self.targets.remove(&token);
        if dropped > 0 {
            self.connection.channel_consumed(channel, dropped)?;
        }
        Ok(Some(fd))
    }

    /// Returns true if a source is attached and has not ended.
    #[must_use]
    pub fn has_source(&self, channel: ChannelId, stream: Stream) -> bool {
        self.sources.contains_key(&(channel, stream))
    }

    /// Returns true if a sink is attached and has not written its last byte.
    #[must_use]
    pub fn has_sink(&self, channel: ChannelId, stream: Stream) -> bool {
        self.sinks.contains_key(&(channel, stream))
    }

    /// Passes the channel's received data to `endpoint` instead of its sinks, and lets the endpoint
    /// send. [`Notice::EndpointEnded`] follows when it is finished. Detach the endpoint together
    /// with the channel, because the channel's number may be used again.
    pub fn attach_endpoint(&mut self, channel: ChannelId, endpoint: Box<dyn ChannelHandler>) {
        drop(self.detach_endpoint(channel));
        self.endpoints
            .insert(channel, Attached::new(endpoint, &mut self.connection));
    }

    /// Detaches and returns an endpoint. Data that it has not consumed counts as consumed.
    pub fn detach_endpoint(&mut self, channel: ChannelId) -> Option<Box<dyn ChannelHandler>> {
        let (endpoint, held) = self.endpoints.remove(&channel)?.into_parts();
        self.drop_data(channel, held);
        Some(endpoint)
    }

    /// Returns the channel's endpoint if it is a `T`; the endpoint works in the next turn.
    pub fn endpoint<T: ChannelHandler>(&mut self, channel: ChannelId) -> Option<&mut T> {
        let attached = self.endpoints.get_mut(&channel)?;
        attached.wake();
        let any: &mut dyn std::any::Any = attached.endpoint();
        any.downcast_mut()
    }

    /// Counts `bytes` of received data as consumed.
    fn drop_data(&mut self, channel: ChannelId, bytes: usize) {
        if bytes > 0
            && let Err(error) = self.connection.channel_consumed(channel, bytes)
        {
            self.failure.get_or_insert(error.into());
        }
    }

    /// Calls the channel's endpoint in the next turn, because something it waits for has happened.
    pub fn wake_endpoint(&mut self, channel: ChannelId) {
        if let Some(attached) = self.endpoints.get_mut(&channel) {
            attached.wake();
        }
    }

    // ---- the caller's own ------------------------------------------------------------------

    /// Reports readiness of `fd` under `token` until [`Driver::unwatch`]. A second call for the
    /// same descriptor replaces token and interest. The caller keeps the descriptor open.
    ///
    /// # Errors
    /// Those of epoll.
    pub fn watch(
        &mut self,
        fd: BorrowedFd<'_>,
        token: u64,
        readable: bool,
        writable: bool,
    ) -> io::Result<()> {
        let raw = fd.as_raw_fd();
        let interest = Interest::when(readable, writable);
        if let Some(watch) = self.watches.get_mut(raw) {
            watch.token = token;
            return watch.registration.set(&self.epoll, fd, interest);
        }
        let epoll_token = self.token(EventTarget::Watch(raw));
        let mut registration = Registration::new(&self.epoll, fd, epoll_token)?;
        registration.set(&self.epoll, fd, interest)?;
        self.watches.insert(
            raw,
            Registered {
                token,
                registration,
            },
        );
        Ok(())
    }

    /// Ends [`Driver::watch`]; to be called before the descriptor is closed.
    pub fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        if let Some(mut watch) = self.watches.remove(fd.as_raw_fd()) {
            self.targets.remove(&watch.registration.token);
            // Fails only for a closed descriptor, which epoll has removed by itself.
            let _ = watch.registration.set(&self.epoll, fd, Interest::NONE);
        }
    }

    /// Sets or moves a timer; `None` clears it.
    pub fn set_timer(&mut self, token: u64, at: Option<Millis>) {
        match at {
            Some(at) => {
                self.timers.insert(token, at);
            }
            None => {
                self.timers.remove(&token);
            }
        }
    }

    // ---- the loop --------------------------------------------------------------------------

    /// Runs the loop until there is a notice for the caller.
    ///
    /// # Errors
    /// [`DriverError`], after all notices from before the error.
    #[allow(clippy::should_implement_trait)] // Never ends, and fails: no iterator.
    pub fn next(&mut self) -> Result<Notice, DriverError> {
        loop {
            if let Some(notice) = self.next_notice() {
                return Ok(notice);
            }
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            self.turn();
            if let Some(notice) = self.next_notice() {
                return Ok(notice);
            }
            if self.failure.is_none() {
                let timeout = self.timeout();
                if timeout != Some(Duration::ZERO)
                    && let Err(error) = self.connection.prepare_rekey()
                {
                    self.give_up(error.into());
                    continue;
                }
                // Before the loop sleeps, run the batches that no worker has taken. If there are no
                // workers, run them even if the loop never sleeps.
                let busy = timeout == Some(Duration::ZERO);
                let helped = if busy {
                    self.lanes.help_alone()
                } else {
                    self.lanes.help()
                };
                if busy || !helped {
                    self.wait(timeout)?;
                }
            }
        }
    }

    /// Opens input that has already arrived and returns a notice if there is one, without writing
    /// and without waiting. A caller that reads all input before it responds sends its response in
    /// one flight.
    ///
    /// # Errors
    /// Those of [`Driver::next`].
    pub fn next_received(&mut self) -> Result<Option<Notice>, DriverError> {
        if let Some(notice) = self.next_notice() {
            return Ok(Some(notice));
        }
        if self.failure.is_none()
            && let Err(error) = self.take_received()
        {
            self.give_up(error);
        }
        match (self.next_notice(), self.failure.take()) {
            (Some(notice), failure) => {
                self.failure = failure;
                Ok(Some(notice))
            }
            (None, Some(failure)) => Err(failure),
            (None, None) => Ok(None),
        }
    }

    fn take_received(&mut self) -> Result<(), DriverError> {
        let now = self.now();
        let _ = self.open_received(now, false)?;
        self.take_events();
        if self.notices.is_empty() {
            // More may have arrived since the last read.
            self.link.set_ready(true, false);
            if self.link.pump_in(&mut self.connection)? {
                let _ = self.open_received(now, false)?;
            }
        }
        Ok(())
    }

    fn next_notice(&mut self) -> Option<Notice> {
        self.take_events();
        self.notices.extend(self.lanes.take_notice());
        self.notices.pop_front()
    }

    /// Writes all queued output, waiting for the socket.
    ///
    /// # Errors
    /// [`DriverError::Io`].
    pub fn flush(&mut self) -> Result<(), DriverError> {
        while self.write_out()? == PendingOutput::ForSocket {
            self.link.wait_writable(None)?;
        }
        Ok(())
    }

    /// Writes queued output for at most `limit`, for example DISCONNECT to a peer that may not
    /// read.
    ///
    /// # Errors
    /// [`DriverError::Io`]; expiry of `limit` is not an error.
    pub fn flush_within(&mut self, limit: Duration) -> Result<(), DriverError> {
        let end = self
            .now()
            .saturating_add(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        while self.write_out()? == PendingOutput::ForSocket {
            let left = Duration::from_millis(end.saturating_sub(self.now()));
            if left.is_zero() || !self.link.wait_writable(Some(left))? {
                break;
            }
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<PendingOutput, DriverError> {
        self.link.write_out(&mut self.connection, &mut self.lanes)
    }

    /// Returns the socket and the connection. Attached descriptors are closed, and output that was
    /// not [flushed](Driver::flush) is lost.
    #[must_use]
    pub fn into_parts(self) -> (OwnedFd, Option<OwnedFd>, Connection) {
        let (read, write) = self.link.into_parts();
        (read, write, self.connection)
    }

    fn turn(&mut self) {
        if let Err(error) = self.try_turn() {
            self.give_up(error);
        }
    }

    /// Returns true if the caller's next notice asks for a signature of the exchange hash.
    fn owes_signature(&self) -> bool {
        matches!(
            self.notices.back(),
            Some(Notice::Event(Event::SignExchangeHash { .. }))
        )
    }

    /// Does the work that does not need the caller: writes output, drains sinks, reads sources. To
    /// be called by a caller that is about to wait for a reply of another process. [`Driver::next`]
    /// returns errors that occur here.
    pub fn work_on(&mut self) {
        if self.failure.is_none()
            && let Err(error) = self.try_work_on()
        {
            self.give_up(error);
        }
    }

    fn try_work_on(&mut self) -> Result<(), DriverError> {
        self.link.pump_out(&mut self.connection, &mut self.lanes)?;
        self.drain_sinks()?;
        self.fill_windows()
    }

    fn give_up(&mut self, error: DriverError) {
        if let DriverError::Proto(error) = &error {
            self.connection.fail(error);
            // Best effort: the peer may not read DISCONNECT.
            let _ = self.write_out();
        }
        self.failure = Some(error);
    }

    fn try_turn(&mut self) -> Result<(), DriverError> {
        let now = self.now();
        let (received, _) = self.link.wire_bytes();
        let socket = self.link.read_fd();
        self.probe.look(socket, received, now, &mut self.connection);
        let mut reads_left = MAX_READS;
        let mut holds = false;
        // Repeat until nothing can be done without waiting: a packet left unopened would stay until
        // the peer sends again.
        loop {
            self.link.pump_out(&mut self.connection, &mut self.lanes)?;
            let opened = self.open_received(now, holds);
            self.take_events();
            if opened.is_ok() && self.owes_signature() {
                // The peer holds its data back until it has the signature. Sinks and sources run
                // afterwards, or while the caller waits (`work_on`).
                return Ok(());
            }
            self.drain_sinks()?;
            let opened = opened?;
            // Endpoints and sources alternate, as the first could fill the queue each time.
            let sent = self.endpoints_first && self.work_endpoints(now)?;
            self.fill_windows()?;
            let sent = sent || (!self.endpoints_first && self.work_endpoints(now)?);
            self.endpoints_first ^= sent;
            let reads = reads_left > 0
                && channel_handler::held_back(&self.endpoints, &self.connection, now).is_none();
            let read = reads && self.link.pump_in(&mut self.connection)?;
            reads_left -= usize::from(read);
            if !self.notices.is_empty() || !(opened || read || self.lanes.holds()) {
                break;
            }
            holds = read && reads_left > 0 && self.link.has_more();
        }
        // After the received packets, since one of them may be the awaited sign of life.
        if self
            .connection
            .poll_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            // Silence does not count while this side does not read.
            if self.connection.doubts_silence(now)
                && channel_handler::held_back(&self.endpoints, &self.connection, now).is_none()
                && self.link.is_delivered()
            {
                self.connection.fill_packet()?;
            }
            let freed = self.connection.handle_timeout(now)?;
            if freed && self.trims_memory {
                sys::memory::rest();
            }
        }
        self.link.pump_out(&mut self.connection, &mut self.lanes)?;
        self.lanes.update_workers(&self.epoll, LANES_TOKEN)?;
        if self.notices.is_empty() && self.lanes.is_open_empty() && self.link.take_closed() {
            self.notices.push_back(Notice::PeerClosed);
        }
        self.update_interest(now)?;
        Ok(())
    }

    /// Opens received packets and passes them to the connection in order; returns true if there
    /// were any. `holds` says that more can be read at once, so that opening may wait for a larger
    /// batch.
    fn open_received(&mut self, now: Millis, holds: bool) -> Result<bool, DriverError> {
        let mut any = false;
        self.connection.handle_received(now)?;
        loop {
            let (pushed, failure) = self.split();
            if holds && failure.is_none() && self.lanes.awaits_more() {
                return Ok(any);
            }
            self.lanes.open()?;
            while self.connection.takes_opened()
                && let Some(opened) = self.lanes.next_opened()
            {
                any = true;
                self.connection.handle_opened(opened, now)?;
            }
            match failure {
                // Packets from before the break in the stream are handled first. `poll_open`
                // returns the same failure again.
                Some(error) if !pushed && self.lanes.is_open_empty() => return Err(error.into()),
                _ if !pushed => return Ok(any),
                _ => {}
            }
        }
    }

    /// Splits packets off until a batch is full. Returns whether there were any, and the failure
    /// that ended it.
    fn split(&mut self) -> (bool, Option<proto::Error>) {
        let mut any = false;
        while self.lanes.takes_open() {
            match self.connection.poll_open() {
                Ok(Some(job)) => {
                    any = true;
                    self.lanes.push_open(job);
                }
                Ok(None) => break,
                Err(error) => return (any, Some(error)),
            }
        }
        (any, None)
    }

    /// Dispatches events to sinks and endpoints, up to the first event for the caller. Later events
    /// stay in the connection until the caller has handled that one: a sink that the caller
    /// attaches receives the data that follows, and a channel exists until the caller has been
    /// notified of its end.
    fn take_events(&mut self) {
        while self.notices.is_empty()
            && let Some(event) = self.connection.poll_event()
        {
            match &event {
                Event::ChannelData {
                    channel, stream, ..
                } => {
                    if let Some(endpoint) = self.endpoints.get_mut(channel) {
                        if let Event::ChannelData {
                            channel,
                            stream,
                            data,
                        } = event
                        {
                            let dropped = endpoint.receive(stream, data);
                            self.drop_data(channel, dropped);
                        }
                        continue;
                    }
                    if let Some(sink) = self.sinks.get_mut(&(*channel, *stream)) {
                        if let Event::ChannelData { data, .. } = event {
                            sink.push(data);
                        }
                        continue;
                    }
                }
                Event::ChannelEof(channel) | Event::ChannelPeerClosed(channel) => {
                    self.end_sinks(*channel);
                }
                Event::ChannelClosed(channel) => {
                    self.end_sinks(*channel);
                    for stream in [Stream::Data, Stream::Stderr] {
                        self.detach_source(*channel, stream);
                    }
                }
                Event::ChannelWritable(channel) => self.wake_endpoint(*channel),
                _ => {}
            }
            self.notices.push_back(Notice::Event(event));
        }
    }

    /// Calls every endpoint that is ready; returns true if there was one.
    fn work_endpoints(&mut self, now: Millis) -> Result<bool, DriverError> {
        let mut any = false;
        for (channel, attached) in &mut self.endpoints {
            if attached.is_ready(&self.connection, *channel) {
                any = true;
                if attached.work(&mut self.connection, *channel, now)? {
                    let channel = *channel;
                    self.notices.push_back(Notice::EndpointEnded { channel });
                }
            }
        }
        Ok(any)
    }

    fn end_sinks(&mut self, channel: ChannelId) {
        if let Some(endpoint) = self.endpoints.get_mut(&channel) {
            endpoint.end();
        }
        for stream in [Stream::Data, Stream::Stderr] {
            if let Some(sink) = self.sinks.get_mut(&(channel, stream)) {
                sink.end();
            }
        }
    }

    /// Writes what each sink's descriptor accepts, and reopens the window accordingly.
    fn drain_sinks(&mut self) -> Result<(), DriverError> {
        let mut ended = Vec::new();
        for (key, sink) in &mut self.sinks {
            let (written, outcome) = sink.drain();
            if written > 0 {
                self.connection.channel_consumed(key.0, written)?;
            }
            match outcome {
                sink::SinkOutcome::Waiting => {}
                sink::SinkOutcome::Ended => ended.push((*key, None)),
                sink::SinkOutcome::Failed(error) => ended.push((*key, Some(error))),
            }
        }
        for ((channel, stream), error) in ended {
            drop(self.remove_sink(channel, stream)?);
            self.notices.push_back(Notice::SinkEnded {
                channel,
                stream,
                error,
            });
        }
        Ok(())
    }

    /// Reads sources into packets as far as windows and the output queue allow. The source served
    /// first is the last of the next round, as it could fill the queue alone each time.
    fn fill_windows(&mut self) -> Result<(), DriverError> {
        let mut ended = Vec::new();
        let mut served = None;
        let last = self.served_source;
        let behind = (last.map_or(Unbounded, Excluded), Unbounded);
        let up_to = last.map(|last| (Unbounded, Included(last)));
        for range in [Some(behind), up_to].into_iter().flatten() {
            for (key, source) in self.sources.range_mut(range) {
                let (sent, outcome) = source.fill(&mut self.connection, key.0, key.1)?;
                if sent && served.is_none() {
                    served = Some(*key);
                }
                match outcome {
                    source::SourceOutcome::Waiting => {}
                    source::SourceOutcome::Ended => ended.push((*key, None)),
                    source::SourceOutcome::Failed(error) => ended.push((*key, Some(error))),
                }
            }
        }
        self.served_source = served.or(last);
        for ((channel, stream), error) in ended {
            drop(self.detach_source(channel, stream));
            self.notices.push_back(Notice::SourceEnded {
                channel,
                stream,
                error,
            });
        }
        Ok(())
    }

    fn update_interest(&mut self, now: Millis) -> io::Result<()> {
        self.held_back = channel_handler::held_back(&self.endpoints, &self.connection, now);
        let reads = self.held_back.is_none() && self.connection.wants_input();
        self.link.update_interest(&self.epoll, reads)?;
        for (key, source) in &mut self.sources {
            source.update_interest(&self.epoll, &self.connection, key.0)?;
        }
        for sink in self.sinks.values_mut() {
            sink.update_interest(&self.epoll)?;
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        let busy = self.sources.values().any(ChannelSource::is_ready)
            || self.sinks.values().any(ChannelSink::is_ready)
            || self
                .endpoints
                .iter()
                .any(|(channel, endpoint)| endpoint.is_ready(&self.connection, *channel))
            || self.watches.any_always_ready()
            || (self.link.has_last_words()
                && self.held_back.is_none()
                && self.connection.wants_input());
        if busy {
            return Some(Duration::ZERO);
        }
        let deadline = self
            .timers
            .values()
            .copied()
            .chain(self.connection.poll_deadline())
            .chain(self.held_back)
            .min()?;
        Some(Duration::from_millis(deadline.saturating_sub(self.now())))
    }

    /// Accounts the work done until now, if requested; returns the reason for the sleep.
    fn begin_wait(&mut self) -> Option<StallCause> {
        self.waits.as_mut()?.begins(sys::time::monotonic_us());
        let lacks_window = || {
            self.endpoints
                .iter()
                .any(|(channel, endpoint)| endpoint.lacks_window(&self.connection, *channel))
        };
        Some(if self.link.waits_for_socket() {
            StallCause::Socket
        } else if self.lanes.unsealed_bytes() > 0 || !self.lanes.is_open_empty() {
            StallCause::Workers
        } else if lacks_window() {
            StallCause::Window
        } else {
            StallCause::Idle
        })
    }

    fn end_wait(&mut self, why: Option<StallCause>) {
        if let (Some(waits), Some(why)) = (&mut self.waits, why) {
            waits.ends(why, sys::time::monotonic_us(), self.link.write_fd());
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let waited = if timeout == Some(Duration::ZERO) {
            self.epoll.wait(&mut self.ready, timeout)
        } else {
            let sleep = self.lanes.sleeps();
            let timeout = if sleep.may {
                timeout
            } else {
                Some(Duration::ZERO)
            };
            let why = self.begin_wait();
            let timeout = match why {
                Some(StallCause::Socket | StallCause::Window) => {
                    Some(timeout.map_or(stall_accounting::LOOK, |timeout| {
                        timeout.min(stall_accounting::LOOK)
                    }))
                }
                _ => timeout,
            };
            let waited = self.epoll.wait(&mut self.ready, timeout);
            self.end_wait(why);
            self.lanes.wakes(&sleep);
            waited
        };
        waited?;
        for event in self.ready.iter() {
            match self.targets.get(&event.token) {
                Some(EventTarget::SocketRead) => {
                    self.link
                        .set_ready(event.is_readable(), event.is_writable());
                }
                Some(EventTarget::Lanes) => self.lanes.drain(),
                Some(EventTarget::SocketWrite) => self.link.set_ready(false, event.is_writable()),
                Some(EventTarget::Source(key)) => {
                    if let Some(source) = self.sources.get_mut(key) {
                        source.set_ready();
                    }
                }
                Some(EventTarget::Sink(key)) => {
                    if let Some(sink) = self.sinks.get_mut(key) {
                        sink.set_ready();
                    }
                }
                Some(EventTarget::Watch(raw)) => {
                    if let Some(watch) = self.watches.get_mut(*raw) {
                        self.notices.push_back(Notice::Ready {
                            token: watch.token,
                            readable: event.is_readable(),
                            writable: event.is_writable(),
                        });
                    }
                }
                None => {}
            }
        }
        self.notices.extend(self.watches.always_ready());
        let now = self.now();
        let due: Vec<u64> = self
            .timers
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(token, _)| *token)
            .collect();
        for token in due {
            self.timers.remove(&token);
            self.notices.push_back(Notice::Timer { token });
        }
        Ok(())
    }
}
