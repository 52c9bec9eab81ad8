//! The channels of passengers: sessions and forwarded streams, whose ends are the descriptors that
//! the passengers have passed.
//!
//! A pipe or terminal is opened once more, so that its flags stay as they are for everybody else;
//! the flags of others are restored at the end.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use config::pattern;
use driver::forward::ForwardTarget;
use driver::{Driver, Notice};
use proto::channel::Request;
use proto::{ChannelId, Event, Stream};

use super::typed::TypedSource;
use super::{Master, misuse};
use crate::error::ClientError;
use crate::forward::{SessionForwards, open_reason};
use crate::keystroke_timer::KeystrokeTimer;
use crate::log::{debug1, debug2, error, info, verbose};
use crate::pipelining::early::{self, Asked};
use crate::plan::{Plan, PtyPlan, What};
use crate::sharing::message::{MasterReply, SessionWish};
use crate::sharing::passenger::REFUSED_BY_SERVER;
use crate::stdio::StdioFlags;
use crate::terminal::Size;
use crate::text::one_line;

/// A passenger's channel.
pub(super) struct PassengerSession {
    /// The passenger; `None` once it is gone.
    passenger: Option<u64>,
    /// The number of its request.
    id: u32,
    plan: Plan,
    /// Its standard input until the channel is confirmed.
    input: Option<OwnedFd>,
    /// Its standard error, for the master's own words, and its terminal.
    errors: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    pub(super) typed: Option<TypedSource>,
    /// Restores the flags of shared descriptors.
    _flags: StdioFlags,
    pub(super) asked: VecDeque<Asked>,
    /// The requests that start it have been sent.
    is_started: bool,
    /// The server has confirmed the channel.
    pub(super) is_open: bool,
    /// The server has closed it.
    is_closed: bool,
    status: Option<u32>,
}

impl PassengerSession {
    pub(super) fn passenger(&self) -> Option<u64> {
        self.passenger
    }

    /// What it does, for the status.
    pub(super) fn shown(&self) -> String {
        self.plan.what.shown()
    }

    pub(super) fn has_terminal(&self) -> bool {
        self.plan.pty.is_some()
    }

    pub(super) fn window_size(&self) -> Option<Size> {
        let terminal = self.terminal.as_ref().filter(|_| self.has_terminal())?;
        sys::terminal::window_size(terminal).map(Size::from).ok()
    }

    pub(super) fn tell(&self, text: &str) {
        if let Some(errors) = &self.errors {
            // A full pipe loses the text: the connection does not wait for its reader.
            let _ = sys::io::write(errors, text.as_bytes());
        }
    }
}

/// The descriptors that a passenger has passed, as this process uses them.
struct PassedStreams {
    own: VecDeque<OwnedFd>,
    flags: StdioFlags,
}

impl PassedStreams {
    fn new(passed: Vec<OwnedFd>) -> Self {
        let mut own = VecDeque::new();
        let mut shared = Vec::new();
        for fd in passed {
            match sys::io::reopen(&fd) {
                Some(again) => own.push_back(again),
                None => {
                    shared.extend(sys::io::dup(&fd).ok());
                    own.push_back(fd);
                }
            }
        }
        Self {
            own,
            flags: StdioFlags::of(shared.iter().map(AsFd::as_fd)),
        }
    }
}

impl Master {
    /// A passenger asks for a session.
    pub(super) fn new_session(
        &mut self,
        passenger: (u64, u32),
        wish: SessionWish,
        fds: Vec<OwnedFd>,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let question = format!("Allow shared connection to {}? ", self.host());
        let terminal = fds.first().filter(|_| wish.tty);
        let pty = wish.tty.then(|| PtyPlan {
            term: wish.term.clone(),
            modes: terminal
                .and_then(|fd| sys::terminal::attributes(fd).ok())
                .map_or_else(|| vec![0], |modes| sys::terminal::encode_modes(&modes)),
            size: terminal
                .and_then(|fd| sys::terminal::window_size(fd).ok())
                .map(Size::from)
                .or(Some(Size::UNKNOWN)),
        });
        let plan = Plan {
            what: match wish {
                SessionWish {
                    subsystem: true, ..
                } => What::Subsystem(wish.command),
                _ if wish.command.is_empty() => What::Shell,
                _ => What::Exec(wish.command),
            },
            escape: wish.escape.filter(|_| pty.is_some()),
            pty,
            environment: self.permitted(&wish.environment),
            agent: self.settings.agent.clone().filter(|_| wish.agent),
            x11: self.settings.x11.clone().filter(|_| wish.x11),
            is_shared: true,
            ..Plan::exec("")
        };
        self.open(passenger, plan, fds, &question, driver)?;
        self.start_with_open(passenger, forwards, driver)
    }

    /// Variables that `SendEnv` of the master names, then those of its `SetEnv`, as in OpenSSH.
    fn permitted(&self, environment: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let set_env = &self.settings.set_env;
        let is_wanted = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            let mut patterns = self.settings.send_env.iter();
            patterns.any(|wanted| pattern::matches(&name, wanted))
                && !set_env.iter().any(|variable| variable.name == name)
        };
        let pair = |variable: &Vec<u8>| {
            let at = variable.iter().position(|byte| *byte == b'=')?;
            let (name, value) = variable.split_at_checked(at)?;
            let value = value.get(1..).unwrap_or_default();
            (at > 0 && is_wanted(name)).then(|| (name.to_vec(), value.to_vec()))
        };
        let bytes = |text: &str| text.as_bytes().to_vec();
        let set = set_env.iter();
        let set = set.map(|variable| (bytes(&variable.name), bytes(&variable.value)));
        environment.iter().filter_map(pair).chain(set).collect()
    }

    /// A passenger asks for a forwarded stream.
    pub(super) fn new_stdio_forward(
        &mut self,
        passenger: (u64, u32),
        host: Vec<u8>,
        port: Option<u32>,
        fds: Vec<OwnedFd>,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        use std::os::unix::ffi::OsStringExt;
        let (target, question) = match port.map(u16::try_from) {
            None => {
                let path = std::ffi::OsString::from_vec(host);
                let shown = one_line(&path.to_string_lossy());
                let question = format!("Allow forward to path {shown}? ");
                (ForwardTarget::Unix(path.into()), question)
            }
            Some(Ok(port)) => {
                let host = String::from_utf8_lossy(&host).into_owned();
                let question = format!("Allow forward to [{}]:{port}? ", one_line(&host));
                (ForwardTarget::Tcp { host, port }, question)
            }
            Some(Err(_)) => {
                let (serial, id) = passenger;
                self.fail(serial, id, "invalid port", driver);
                return Ok(());
            }
        };
        let plan = Plan {
            what: What::Forward(target),
            is_shared: true,
            ..Plan::exec("")
        };
        self.open(passenger, plan, fds, &question, driver)
    }

    fn open(
        &mut self,
        (serial, id): (u64, u32),
        plan: Plan,
        fds: Vec<OwnedFd>,
        question: &str,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let its = |session: &PassengerSession| session.passenger == Some(serial);
        if self.sessions.values().any(its) {
            self.fail(serial, id, "Multiple sessions not supported", driver);
            return Ok(());
        }
        if !self.is_permitted(serial, id, question, driver) {
            return Ok(());
        }
        let Some((kind, fields)) = early::channel_type(&plan.what) else {
            return Ok(());
        };
        let connection = driver.connection();
        let opened = match early::may_follow_open(&plan) {
            true => connection.open_channel_with_requests(kind, &fields),
            false => connection.open_channel(kind, &fields),
        };
        let Ok(channel) = opened.inspect_err(|reason| error!("passenger {serial}: {reason}"))
        else {
            self.fail(serial, id, REFUSED_BY_SERVER, driver);
            return Ok(());
        };
        // The answer to the server's CLOSE waits until the output is written.
        let held = driver.connection().channel_hold_close(channel);
        held.map_err(misuse)?;
        let is_terminal = plan.pty.is_some();
        let mut streams = PassedStreams::new(fds);
        let mut next = || streams.own.pop_front();
        let (input, output, errors) = (next(), next(), next());
        let copy = |fd: &Option<OwnedFd>| fd.as_ref().and_then(|fd| sys::io::dup(fd).ok());
        let session = PassengerSession {
            passenger: Some(serial),
            id,
            errors: copy(&errors).filter(|_| is_terminal),
            terminal: copy(&input).filter(|_| is_terminal),
            plan,
            input,
            typed: None,
            _flags: streams.flags,
            asked: VecDeque::new(),
            is_started: false,
            is_open: false,
            is_closed: false,
            status: None,
        };
        self.sessions.insert(channel, session);
        if let Some(control) = self.controls.get_mut(&serial) {
            control.is_paused = true;
        }
        for (stream, fd) in [(Stream::Data, output), (Stream::Stderr, errors)] {
            if let Some(fd) = fd
                && let Err(reason) = driver.attach_sink(channel, stream, fd)
            {
                debug1!("channel {}: {stream:?}: {reason}", channel.0);
            }
        }
        Ok(())
    }

    /// Sends the requests that start the command in one flight with CHANNEL_OPEN, to a server that
    /// takes them (docs/PROTOCOL.md, early-requests). Of the input only an end that is certain is sent
    /// with them: what has been read would be lost if the server refused the channel, and the passenger
    /// then logs in by itself.
    fn start_with_open(
        &mut self,
        (serial, id): (u64, u32),
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let is_it =
            |session: &PassengerSession| (session.passenger, session.id) == (Some(serial), id);
        let mut sessions = self.sessions.iter_mut();
        let Some((&channel, session)) = sessions.find(|(_, session)| is_it(session)) else {
            return Ok(());
        };
        let connection = driver.connection();
        if session.is_started || !connection.channel_takes_early_data(channel) {
            return Ok(());
        }
        debug2!(
            "channel {}: CHANNEL_OPEN and requests, not waiting",
            channel.0
        );
        session.asked = early::start(connection, &session.plan, channel).map_err(misuse)?;
        session.is_started = true;
        forwards.channel_requested(&session.plan);
        if session.input.as_ref().is_some_and(sys::io::is_null) {
            session.input = None;
            connection.channel_eof(channel).map_err(misuse)?;
        }
        Ok(())
    }

    /// Handles a notice of a passenger's channel; returns any other one.
    pub(super) fn session_notice(
        &mut self,
        notice: Notice,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<Option<Notice>, ClientError> {
        let channel = match &notice {
            Notice::SourceEnded { channel, .. } | Notice::SinkEnded { channel, .. } => {
                Some(*channel)
            }
            Notice::Event(event) => event.channel(),
            _ => None,
        };
        let Some(channel) = channel.filter(|channel| self.sessions.contains_key(channel)) else {
            return Ok(Some(notice));
        };
        match notice {
            Notice::SourceEnded { .. } if driver.connection().channel_is_open(channel) => {
                driver.connection().channel_eof(channel).map_err(misuse)?;
            }
            Notice::SinkEnded { stream, error, .. } => {
                if let Some(error) = error {
                    self.sink_failed(channel, stream, &error, driver)?;
                }
                self.close_if_done(channel, driver)?;
            }
            Notice::Event(event) => self.event(channel, event, forwards, driver)?,
            _ => {}
        }
        Ok(None)
    }

    fn event(
        &mut self,
        channel: ChannelId,
        event: Event,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        match event {
            Event::ChannelOpened(_) => self.opened(channel, forwards, driver)?,
            Event::ChannelRefused {
                reason,
                description,
                ..
            } => {
                let (reason, text) = (open_reason(reason), one_line(&description));
                info!("channel {}: open failed: {reason}: {text}", channel.0);
                self.refused(channel, driver);
            }
            Event::ChannelData { data, .. } => {
                let consumed = driver.connection().channel_consumed(channel, data.len());
                consumed.map_err(misuse)?;
            }
            Event::ChannelPeerClosed(_) => {
                if let Some(session) = self.sessions.get_mut(&channel) {
                    session.is_closed = true;
                }
                self.stop_input(channel, driver);
                self.close_if_done(channel, driver)?;
            }
            Event::ChannelClosed(_) => self.closed(channel, driver),
            Event::ChannelIdle { limit_ms, .. } => {
                verbose!("{}", proto::channel::idle_text(channel, limit_ms));
                self.drop_session(channel, driver);
            }
            Event::ChannelReply { success, .. } => self.replied(channel, success, driver),
            Event::ChannelRequest {
                request,
                want_reply,
                ..
            } => {
                let is_known = self.requested(channel, &request, driver);
                if want_reply {
                    let reply = driver.connection().channel_reply(channel, is_known);
                    reply.map_err(misuse)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The server has confirmed the channel: starts the command and answers the passenger.
    fn opened(
        &mut self,
        channel: ChannelId,
        forwards: &mut SessionForwards,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let Some(session) = self.sessions.get_mut(&channel) else {
            return Ok(());
        };
        session.is_open = true;
        let (Some(serial), id) = (session.passenger, session.id) else {
            // Nobody waits for the command any more.
            self.drop_session(channel, driver);
            return Ok(());
        };
        let label = session.plan.what.channel_label();
        driver.connection().label_channel(channel, &label);
        if !session.is_started && !matches!(session.plan.what, What::Forward(_)) {
            let started = early::start(driver.connection(), &session.plan, channel);
            session.asked = started.map_err(misuse)?;
            forwards.channel_requested(&session.plan);
        }
        if let Some(input) = session.input.take() {
            // Escapes count where there is a terminal at the server, as in OpenSSH.
            let attached = if session.plan.pty.is_some() {
                let interval_ms = self.settings.obscure_keystrokes_ms;
                // Nobody types into a pipe or a file.
                let interval_ms = interval_ms.filter(|_| sys::io::is_terminal(&input));
                let timer = interval_ms.and_then(|each| KeystrokeTimer::start(each, driver));
                let typed = TypedSource::new(input, session.plan.escape, timer);
                let watched = typed.watch(serial, driver);
                session.typed = Some(typed);
                watched
            } else {
                driver.attach_source(channel, Stream::Data, input)
            };
            if let Err(reason) = attached {
                debug1!("channel {}: standard input: {reason}", channel.0);
                driver.connection().channel_eof(channel).map_err(misuse)?;
            }
        }
        self.answer(serial, &MasterReply::Opened(id, channel.0), driver);
        self.resume(serial, driver);
        Ok(())
    }

    /// The server has refused the channel.
    fn refused(&mut self, channel: ChannelId, driver: &mut Driver) {
        drop(driver.detach_sink(channel, Stream::Data));
        drop(driver.detach_sink(channel, Stream::Stderr));
        let Some(session) = self.sessions.remove(&channel) else {
            return;
        };
        if let Some(serial) = session.passenger {
            self.fail(serial, session.id, REFUSED_BY_SERVER, driver);
            self.resume(serial, driver);
        }
    }

    /// A request of the server; true if it is known.
    fn requested(&mut self, channel: ChannelId, request: &Request, driver: &mut Driver) -> bool {
        let Some(session) = self.sessions.get_mut(&channel) else {
            return false;
        };
        match request {
            Request::ExitStatus { status } => session.status = Some(*status),
            Request::ExitSignal { name, .. } => {
                debug1!("channel {}: ended by signal {}", channel.0, one_line(name));
            }
            Request::Eow => self.stop_input(channel, driver),
            other => {
                debug2!("channel {}: unexpected request {other:?}", channel.0);
                return false;
            }
        }
        true
    }

    fn replied(&mut self, channel: ChannelId, success: bool, driver: &mut Driver) {
        let Some(session) = self.sessions.get_mut(&channel) else {
            return;
        };
        let asked = session.asked.pop_front();
        let serial = session.passenger;
        match asked.filter(|_| !success) {
            Some(Asked::Pty) => {
                error!("PTY allocation request failed on channel {}", channel.0);
                // As with OpenSSH, the session goes on: its passenger has been told that it is open.
                session.tell("PTY allocation request failed\r\n");
                session.plan.pty = None;
                if let Some(serial) = serial {
                    self.answer(serial, &MasterReply::NoTerminal(channel.0), driver);
                }
            }
            Some(Asked::X11) => error!("X11 forwarding request failed on channel {}", channel.0),
            Some(Asked::Start) => {
                let name = session.plan.what.request_name();
                let text = format!("{name} request failed on channel {}\r\n", channel.0);
                session.tell(&text);
                error!("{}", text.trim_end());
                // A session without a terminal has its standard error only there; a full pipe loses the text.
                if session.errors.is_none()
                    && let Some(errors) = driver.detach_sink(channel, Stream::Stderr)
                    && sys::io::wait_writable(&errors, Some(Duration::ZERO)).unwrap_or(false)
                {
                    let _ = sys::io::write(&errors, text.as_bytes());
                }
                self.drop_session(channel, driver);
            }
            _ => {}
        }
    }

    /// The reader of the passenger's output is gone.
    fn sink_failed(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        error: &std::io::Error,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        debug1!("channel {}: writing {stream:?} failed: {error}", channel.0);
        let is_forward = self
            .sessions
            .get(&channel)
            .is_some_and(|session| matches!(session.plan.what, What::Forward(_)));
        let connection = driver.connection();
        if !connection.channel_is_open(channel) {
            return Ok(());
        }
        if is_forward {
            self.drop_session(channel, driver);
        } else if stream == Stream::Data {
            let told = connection.channel_request(channel, &Request::Eow, false);
            told.map_err(misuse)?;
        }
        Ok(())
    }

    /// Sends the passenger no more input.
    fn stop_input(&mut self, channel: ChannelId, driver: &mut Driver) {
        drop(driver.detach_source(channel, Stream::Data));
        let Some(session) = self.sessions.get_mut(&channel) else {
            return;
        };
        if let (Some(typed), Some(serial)) = (session.typed.take(), session.passenger) {
            typed.unwatch(serial, driver);
        }
    }

    /// Answers the server's CLOSE when the output is written.
    fn close_if_done(
        &mut self,
        channel: ChannelId,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let has_output =
            driver.has_sink(channel, Stream::Data) || driver.has_sink(channel, Stream::Stderr);
        let is_closed = |session: &PassengerSession| session.is_closed;
        if !has_output && self.sessions.get(&channel).is_some_and(is_closed) {
            driver.connection().channel_close(channel).map_err(misuse)?;
        }
        Ok(())
    }

    /// The channel is closed: its passenger may end.
    fn closed(&mut self, channel: ChannelId, driver: &mut Driver) {
        self.stop_input(channel, driver);
        let Some(session) = self.sessions.remove(&channel) else {
            return;
        };
        let Some(serial) = session.passenger else {
            return;
        };
        if let Some(status) = session.status {
            self.answer(serial, &MasterReply::Exit(channel.0, status), driver);
        }
        // Flags are as they were before the passenger can look at them.
        drop(session);
        self.end_control(serial, driver);
    }

    /// Ends a session without waiting for the command: its passenger is gone, or wants no more.
    pub(super) fn drop_session(&mut self, channel: ChannelId, driver: &mut Driver) {
        self.stop_input(channel, driver);
        drop(driver.detach_sink(channel, Stream::Data));
        drop(driver.detach_sink(channel, Stream::Stderr));
        let Some(session) = self.sessions.get_mut(&channel) else {
            return;
        };
        session.input = None;
        session.errors = None;
        session.terminal = None;
        session.status = None;
        let serial = session.passenger.take();
        let connection = driver.connection();
        // An unconfirmed channel is closed when the server has confirmed it.
        if session.is_open && connection.channel_is_open(channel) {
            let _ = connection.channel_eof(channel);
            let _ = connection.channel_close(channel);
        } else if session.is_closed {
            let _ = connection.channel_close(channel);
        }
        if let Some(serial) = serial {
            self.end_control(serial, driver);
        }
    }
}
