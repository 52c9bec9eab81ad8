//! The event loop over epoll: socket, attachments and timers.
//!
//! Order of one turn: open the received packets, dispatch events (data directly to its sink or
//! handler, other events to the caller one by one), let sources fill the windows, seal and write
//! the queued output; repeat until nothing is left to do. Only then call epoll, with the nearest
//! deadline as timeout.

use std::io;
use std::time::Duration;

use proto::{Event, Millis};

use super::driver::{Driver, IdleTrim};
use super::error::DriverError;
use super::link::PendingOutput;
use super::notice::Notice;
use super::poller::{EventTarget, LANES_TOKEN};
use super::stall_accounting::{self, StallCause};

/// Maximum reads of the socket in one turn, so that a fast peer does not starve timers and
/// descriptors.
const MAX_READS: usize = 4;

impl Driver {
    pub(super) fn take_received(&mut self) -> Result<(), DriverError> {
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

    pub(super) fn next_notice(&mut self) -> Option<Notice> {
        self.take_events();
        self.notices.extend(self.lanes.take_notice());
        self.notices.pop_front()
    }

    pub(super) fn write_out(&mut self) -> Result<PendingOutput, DriverError> {
        self.link.write_out(&mut self.connection, &mut self.lanes)
    }

    pub(super) fn turn(&mut self) {
        if let Err(error) = self.try_turn() {
            self.give_up(error);
        }
    }

    /// Returns true if the caller's next notice asks for a signature of the exchange hash.
    fn owes_signature(&self) -> bool {
        matches!(
            self.notices.back(),
            Some(Notice::Event(
                Event::SignExchangeHash { .. } | Event::GssAccept { .. }
            ))
        )
    }

    pub(super) fn try_work_on(&mut self) -> Result<(), DriverError> {
        self.link.pump_out(&mut self.connection, &mut self.lanes)?;
        self.drain_sinks()?;
        self.fill_windows()
    }

    fn drain_sinks(&mut self) -> Result<(), DriverError> {
        let (connection, poller) = (&mut self.connection, &mut self.poller);
        let sinks = &mut self.attachments.sinks;
        Ok(sinks.drain(connection, poller, &mut self.notices)?)
    }

    fn fill_windows(&mut self) -> Result<(), DriverError> {
        let (connection, poller) = (&mut self.connection, &mut self.poller);
        let sources = &mut self.attachments.sources;
        sources.fill(connection, poller, &mut self.notices)
    }

    fn work_handlers(&mut self, now: Millis) -> Result<bool, DriverError> {
        let handlers = &mut self.attachments.handlers;
        Ok(handlers.work(&mut self.connection, now, &mut self.notices)?)
    }

    /// Returns true if a full handler stops reads from the socket.
    fn is_held_back(&self, now: Millis) -> bool {
        let handlers = &self.attachments.handlers;
        handlers.holds_back(&self.connection, now).is_some()
    }

    pub(super) fn give_up(&mut self, error: DriverError) {
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
            // Handlers and sources alternate, as the first could fill the queue each time.
            let first = self.attachments.handlers.run_first;
            let sent = first && self.work_handlers(now)?;
            self.fill_windows()?;
            let sent = sent || (!first && self.work_handlers(now)?);
            self.attachments.handlers.run_first ^= sent;
            let reads = reads_left > 0 && !self.is_held_back(now);
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
                && !self.is_held_back(now)
                && self.link.is_delivered()
            {
                self.connection.fill_packet()?;
            }
            let freed = self.connection.handle_timeout(now)?;
            match self.trim {
                IdleTrim::Process if freed => sys::memory::rest(),
                IdleTrim::Stack if freed => sys::memory::trim_stack(),
                _ => {}
            }
        }
        self.link.pump_out(&mut self.connection, &mut self.lanes)?;
        self.lanes
            .update_workers(self.poller.epoll(), LANES_TOKEN)?;
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

    /// Passes events to handlers and sinks, up to the first event for the caller. Later events stay
    /// in the connection until the caller has handled that one: a sink that the caller attaches
    /// receives the data that follows, and a channel exists until the caller has been notified of
    /// its end.
    fn take_events(&mut self) {
        while self.notices.is_empty()
            && let Some(event) = self.connection.poll_event()
        {
            let event = match self.pass_token(event) {
                Ok(Some(event)) => event,
                Ok(None) => continue,
                Err(error) => return self.give_up(error),
            };
            let (connection, poller) = (&mut self.connection, &mut self.poller);
            match self.attachments.receive(event, connection, poller) {
                Ok(event) => self.notices.extend(event.map(Notice::Event)),
                Err(error) => {
                    self.failure.get_or_insert(error.into());
                }
            }
        }
    }

    /// Carries out an event of a client's key exchange by GSS-API; returns every other event.
    fn pass_token(&mut self, event: Event) -> Result<Option<Event>, DriverError> {
        if !matches!(event, Event::GssToken { .. } | Event::GssComplete { .. }) {
            return Ok(Some(event));
        }
        let failed = |reason: String| DriverError::from(proto::Error::GssFailed(reason));
        let contexts = self.gss.as_mut();
        let contexts = contexts.ok_or_else(|| failed("no context".to_owned()))?;
        match event {
            Event::GssToken { token } => {
                let (token, is_established) = contexts.token(token).map_err(failed)?;
                self.connection.provide_gss_token(&token, is_established)?;
                Ok(None)
            }
            Event::GssComplete { token, hash, mic } => {
                contexts.verify(token, hash.as_ref(), mic).map_err(failed)?;
                self.connection.accept_gss()?;
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    fn update_interest(&mut self, now: Millis) -> io::Result<()> {
        let handlers = &mut self.attachments.handlers;
        handlers.update_hold(&self.connection, now);
        let reads = handlers.hold().is_none() && self.connection.wants_input();
        self.link.update_interest(self.poller.epoll(), reads)?;
        self.attachments.update_interest(&self.poller)
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        let busy = self.attachments.is_busy(&self.connection)
            || (self.link.has_last_words()
                && self.attachments.handlers.hold().is_none()
                && self.connection.wants_input());
        if busy {
            return Some(Duration::ZERO);
        }
        let attachments = self.attachments.deadline(&self.connection);
        let deadlines = [attachments, self.connection.poll_deadline()];
        let deadline = deadlines.into_iter().flatten().min()?;
        Some(Duration::from_millis(deadline.saturating_sub(self.now())))
    }

    /// Accounts the work done until now, if requested; returns the reason for the sleep.
    fn begin_wait(&mut self) -> Option<StallCause> {
        self.stalls.as_mut()?.begins(sys::time::monotonic_us());
        Some(if self.link.waits_for_socket() {
            StallCause::Socket
        } else if self.lanes.unsealed_bytes() > 0 || !self.lanes.is_open_empty() {
            StallCause::Workers
        } else if self.attachments.handlers.lacks_window(&self.connection) {
            StallCause::Window
        } else {
            StallCause::Idle
        })
    }

    fn end_wait(&mut self, why: Option<StallCause>) {
        if let (Some(stalls), Some(why)) = (&mut self.stalls, why) {
            stalls.ends(why, sys::time::monotonic_us(), self.link.write_fd());
        }
    }

    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let waited = if timeout == Some(Duration::ZERO) {
            self.poller.wait(timeout)
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
            let waited = self.poller.wait(timeout);
            self.end_wait(why);
            self.lanes.wakes(&sleep);
            waited
        };
        waited?;
        for (target, event) in self.poller.events() {
            let (readable, writable) = (event.is_readable(), event.is_writable());
            match target {
                EventTarget::SocketRead => self.link.set_ready(readable, writable),
                EventTarget::SocketWrite => self.link.set_ready(false, writable),
                EventTarget::Lanes => self.lanes.drain(),
                target => self.attachments.set_ready(target, event, &mut self.notices),
            }
        }
        let now = self.now();
        self.attachments.notice_due(now, &mut self.notices);
        Ok(())
    }
}
