//! [`Driver`]: the interface of the event loop. [`event_loop`](super::event_loop) has the turns.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proto::{ChannelId, Connection, Millis, Stream};
use sys::epoll::Interest;

use super::attachments::Attachments;
use super::channel_fd::SocketPair;
use super::channel_handler::ChannelHandler;
use super::error::DriverError;
use super::gss::GssContexts;
use super::lanes::{LaneReport, LaneTerms, Lanes};
use super::link::{PendingOutput, SocketLink};
use super::notice::Notice;
use super::poller::Poller;
use super::probe::Probe;
use super::source::Tap;
use super::stall_accounting::{LoopTimes, StallAccounting};

/// The memory that is returned to the system when the idle connection has freed its buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleTrim {
    Nothing,
    /// The unused stack of this thread.
    Stack,
    /// That, and the free memory of the heap: the process serves only this connection.
    Process,
}

/// Event loop of one connection.
///
/// [`Driver::next`] runs the loop and returns each [`Notice`]. Between calls the caller attaches
/// sources, sinks and endpoints to channels and sends commands through [`Driver::connection`].
pub struct Driver {
    pub(super) poller: Poller,
    pub(super) connection: Connection,
    pub(super) link: SocketLink,
    pub(super) lanes: Lanes,
    pub(super) probe: Probe,
    pub(super) attachments: Attachments,
    pub(super) notices: VecDeque<Notice>,
    pub(super) failure: Option<DriverError>,
    /// Client: the contexts of key exchanges by GSS-API.
    pub(super) gss: Option<Box<dyn GssContexts>>,
    /// The memory that is returned to the system when the idle connection has freed its buffers.
    pub(super) trim: IdleTrim,
    /// Accounts the loop's time, if requested.
    pub(super) stalls: Option<StallAccounting>,
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
        let mut poller = Poller::new()?;
        let link = SocketLink::new(&mut poller, read, write)?;
        Ok(Self {
            poller,
            connection,
            link,
            lanes: Lanes::new(),
            probe: Probe::default(),
            attachments: Attachments::default(),
            notices: VecDeque::new(),
            failure: None,
            gss: None,
            trim: IdleTrim::Nothing,
            stalls: None,
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

    /// Ends all workers, for a process that is about to fork; they start again when needed.
    pub fn end_workers(&mut self) {
        self.lanes.end_workers();
    }

    /// The connection, for commands and getters.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Sets the contexts for a connection that offers key exchanges by GSS-API.
    pub fn set_gss(&mut self, contexts: Box<dyn GssContexts>) {
        self.gss = Some(contexts);
    }

    /// The contexts, if there are any.
    pub fn gss(&mut self) -> Option<&mut dyn GssContexts> {
        match &mut self.gss {
            Some(contexts) => Some(contexts.as_mut()),
            None => None,
        }
    }

    /// Returns memory to the system as soon as the idle connection frees it. Meant for a process
    /// that serves only this connection, because it walks the allocator's whole heap.
    pub fn trim_memory(&mut self) {
        self.trim = IdleTrim::Process;
    }

    /// Returns the stack below the loop to the system as soon as the idle connection frees memory. Meant
    /// for one of many connections of a process, each on a thread of its own.
    pub fn trim_stack(&mut self) {
        self.trim = IdleTrim::Stack;
    }

    /// Starts to account the loop's time in `times`.
    pub fn tell_times(&mut self, times: Arc<LoopTimes>) {
        self.stalls = Some(StallAccounting::new(times, sys::time::monotonic_us()));
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
        let sources = &mut self.attachments.sources;
        sources.attach((channel, stream), fd, &mut self.poller)
    }

    /// Passes the bytes that a source reads from now on to `tap` as well. Does nothing without such a
    /// source.
    pub fn set_tap(&mut self, channel: ChannelId, stream: Stream, tap: Tap) {
        self.attachments.sources.set_tap((channel, stream), tap);
    }

    /// Returns true if the source is readable now; the next turn then reads it. False without such
    /// a source.
    ///
    /// # Errors
    /// Those of poll.
    pub fn source_has_more(&mut self, channel: ChannelId, stream: Stream) -> io::Result<bool> {
        self.attachments.sources.look((channel, stream))
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
        let sinks = &mut self.attachments.sinks;
        sinks.attach((channel, stream), fd, &mut self.poller)
    }

    /// Joins a stream socket to the channel in both directions, as [`Driver::attach_source`] and
    /// [`Driver::attach_sink`] do. After the last byte of the peer's data the socket's sending
    /// direction is shut down.
    ///
    /// # Errors
    /// Those of epoll and fcntl; then nothing is attached.
    pub fn attach_socket(&mut self, channel: ChannelId, socket: SocketPair) -> io::Result<()> {
        self.attach_socket_sink(channel, socket.write)?;
        let attached = self.attach_source(channel, Stream::Data, socket.read);
        if attached.is_err() {
            self.detach_sink(channel, Stream::Data);
        }
        attached
    }

    /// The sending direction of [`Driver::attach_socket`]; the source is attached separately.
    ///
    /// # Errors
    /// Those of epoll and fcntl.
    pub fn attach_socket_sink(&mut self, channel: ChannelId, write: OwnedFd) -> io::Result<()> {
        let key = (channel, Stream::Data);
        self.detach_sink(channel, Stream::Data);
        let sinks = &mut self.attachments.sinks;
        sinks.attach_socket(key, write, &mut self.poller)
    }

    /// Resets the socket that is joined to the channel, and closes it. What it accepts of the received
    /// data is written before, the rest is dropped.
    pub fn reset_socket(&mut self, channel: ChannelId) {
        let key = (channel, Stream::Data);
        let written = self.attachments.sinks.write(key, &mut self.connection);
        if let Err(error) = written {
            self.failure.get_or_insert(error.into());
        }
        let sink = self.detach_sink(channel, Stream::Data);
        let source = self.detach_source(channel, Stream::Data);
        for socket in [sink, source].into_iter().flatten() {
            // Fails only on what is no socket: it is closed as usual.
            let _ = sys::socket::reset_on_close(&socket);
        }
    }

    /// Passes received data, which was not counted as consumed, to the channel's sink before any
    /// other; `ended` if the peer sends nothing more.
    pub fn feed_sink(&mut self, channel: ChannelId, data: Bytes, ended: bool) {
        let sinks = &mut self.attachments.sinks;
        if !data.is_empty() {
            sinks.push((channel, Stream::Data), data);
        }
        if ended {
            sinks.end(channel);
        }
    }

    /// Detaches a source and returns its descriptor.
    pub fn detach_source(&mut self, channel: ChannelId, stream: Stream) -> Option<OwnedFd> {
        let sources = &mut self.attachments.sources;
        sources.detach((channel, stream), &mut self.poller)
    }

    /// Detaches a sink and returns its descriptor. Bytes not yet written are dropped and count as
    /// consumed, because nobody else could give that part of the window back.
    pub fn detach_sink(&mut self, channel: ChannelId, stream: Stream) -> Option<OwnedFd> {
        let (connection, poller) = (&mut self.connection, &mut self.poller);
        let sinks = &mut self.attachments.sinks;
        let detached = sinks.detach((channel, stream), connection, poller);
        detached.unwrap_or_else(|error| {
            self.failure.get_or_insert(error.into());
            None
        })
    }

    /// Returns true if a source is attached and has not ended.
    #[must_use]
    pub fn has_source(&self, channel: ChannelId, stream: Stream) -> bool {
        self.attachments.sources.contains((channel, stream))
    }

    /// Returns true if a sink is attached and has not written its last byte.
    #[must_use]
    pub fn has_sink(&self, channel: ChannelId, stream: Stream) -> bool {
        self.attachments.sinks.contains((channel, stream))
    }

    /// Passes the channel's received data to `endpoint` instead of its sinks, and lets the endpoint
    /// send. [`Notice::EndpointEnded`] follows when it is finished. Detach the endpoint together
    /// with the channel, because the channel's number may be used again.
    pub fn attach_endpoint(&mut self, channel: ChannelId, endpoint: Box<dyn ChannelHandler>) {
        drop(self.detach_endpoint(channel));
        let handlers = &mut self.attachments.handlers;
        let poller = &mut self.poller;
        if let Err(error) = handlers.attach(channel, endpoint, &mut self.connection, poller) {
            self.failure.get_or_insert(error.into());
        }
    }

    /// Detaches and returns an endpoint. Data that it has not consumed counts as consumed.
    pub fn detach_endpoint(&mut self, channel: ChannelId) -> Option<Box<dyn ChannelHandler>> {
        let handlers = &mut self.attachments.handlers;
        let (endpoint, consumed) =
            handlers.detach(channel, &mut self.connection, &mut self.poller)?;
        if let Err(error) = consumed {
            self.failure.get_or_insert(error.into());
        }
        Some(endpoint)
    }

    /// Returns the channel's endpoint if it is a `T`; the endpoint works in the next turn.
    pub fn endpoint<T: ChannelHandler>(&mut self, channel: ChannelId) -> Option<&mut T> {
        let any: &mut dyn std::any::Any = self.attachments.handlers.waken(channel)?;
        any.downcast_mut()
    }

    /// Calls the channel's endpoint in the next turn, because something it waits for has happened.
    pub fn wake_endpoint(&mut self, channel: ChannelId) {
        self.attachments.handlers.waken(channel);
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
        let interest = Interest::when(readable, writable);
        let watches = &mut self.attachments.watches;
        watches.set(fd, token, interest, &mut self.poller)
    }

    /// Ends [`Driver::watch`]; to be called before the descriptor is closed.
    pub fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        self.attachments.watches.remove(fd, &mut self.poller);
    }

    /// Sets or moves a timer; `None` clears it.
    pub fn set_timer(&mut self, token: u64, at: Option<Millis>) {
        self.attachments.timers.set(token, at);
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

    /// Returns the socket and the connection. Attached descriptors are closed, and output that was
    /// not [flushed](Driver::flush) is lost.
    #[must_use]
    pub fn into_parts(self) -> (OwnedFd, Option<OwnedFd>, Connection) {
        let (read, write) = self.link.into_parts();
        (read, write, self.connection)
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
}
