//! After login: one channel for a shell, a command, a subsystem or a joined stream, and the
//! loop that serves it until its end.
//!
//! RFC 4254 §5 and §6. Bytes of pipes and files move inside the driver; typed input passes
//! through the escape filter here. The exit code is the command's, 255 when it has none.

mod input;
mod plan;
mod stdio;


use std::collections::VecDeque;

use config::client::YesNoAsk;
use driver::{Driver, DriverError, Notice};
use proto::channel::Request;
use proto::{ChannelId, Connection, Error, Event, Stream};
use sys::signals::{Signal, SignalFd};
use wire::Put;
use wire::message::open_failure;

pub use plan::{Plan, What, environment};
pub use stdio::{StdioFlags, Streams};

use crate::error::{ClientError, Peer};
use crate::host_key::HostKeyChecker;
use crate::host_key::update::Rotation;
use crate::interaction::Interaction;
use crate::log::{self, debug1, debug2, debug3, error, info, verbose};
use crate::terminal::RawMode;
use crate::text::one_line;
use input::TypedInput;

/// Tokens of the driver's watches and timers.
const TOKEN_SIGNALS: u64 = 1;
const TOKEN_TERMINAL: u64 = 2;
const TOKEN_RETRY: u64 = 3;

/// How long typed input waits before it is offered to a full connection again, milliseconds.
const RETRY_MS: u64 = 20;

/// The exit code of everything that is not the command's own.
pub const FAILURE: i32 = 255;

/// A request with `want_reply` whose answer has not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Pty,
    Start,
    Break,
}

/// How the channel ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Status(u32),
    Signal,
}

/// The loop's next step.
enum Next {
    Continue,
    Finish(i32),
}

/// A session on an authenticated connection.
pub struct Session<'c> {
    driver: &'c mut Driver,
    plan: Plan,
    streams: Streams,
    peer: Peer,
    checker: Option<&'c mut HostKeyChecker>,
    update_host_keys: YesNoAsk,
    interaction: &'c mut dyn Interaction,
    channel: Option<ChannelId>,
    asked: VecDeque<Asked>,
    ended: Option<Ended>,
    closed: bool,
    started: bool,
    reader_left: bool,
    raw: Option<RawMode>,
    typed: Option<TypedInput>,
    signals: Option<SignalFd>,
    rotation: Option<Rotation>,
}

impl<'c> Session<'c> {
    /// A session that will do what `plan` says.
    pub fn new(
        driver: &'c mut Driver,
        plan: Plan,
        streams: Streams,
        peer: Peer,
        interaction: &'c mut dyn Interaction,
    ) -> Self {
        Self {
            driver,
            plan,
            streams,
            peer,
            checker: None,
            update_host_keys: YesNoAsk::No,
            interaction,
            channel: None,
            asked: VecDeque::new(),
            ended: None,
            closed: false,
            started: false,
            reader_left: false,
            raw: None,
            typed: None,
            signals: None,
            rotation: None,
        }
    }

    /// Lets the server rotate its host keys (`UpdateHostKeys`).
    pub fn rotate_host_keys(&mut self, checker: &'c mut HostKeyChecker, wanted: YesNoAsk) {
        self.checker = Some(checker);
        self.update_host_keys = wanted;
    }

    /// Runs the session to its end and gives the exit code.
    ///
    /// # Errors
    /// [`ClientError`] when the connection or the system fails; its text is for the user.
    pub fn run(&mut self) -> Result<i32, ClientError> {
        let outcome = self.run_inner();
        self.leave_raw_mode();
        if outcome.is_ok() {
            self.farewell();
        }
        outcome
    }

    fn run_inner(&mut self) -> Result<i32, ClientError> {
        self.take_signals()?;
        self.open()?;
        loop {
            self.offer_typed()?;
            if self.is_over() {
                return Ok(self.exit_code());
            }
            let notice = self.driver.next().map_err(|error| self.lost(error))?;
            match self.handle(notice)? {
                Next::Continue => {}
                Next::Finish(code) => return Ok(code),
            }
        }
    }

    fn lost(&self, error: DriverError) -> ClientError {
        ClientError::Lost {
            peer: self.peer.clone(),
            error,
        }
    }

    fn misuse(&self, error: Error) -> ClientError {
        self.lost(DriverError::Proto(error))
    }

    /// Gives the connection a command.
    fn command<T>(
        &mut self,
        command: impl FnOnce(&mut Connection) -> Result<T, Error>,
    ) -> Result<T, ClientError> {
        command(self.driver.connection()).map_err(|error| self.misuse(error))
    }

    fn request(
        &mut self,
        channel: ChannelId,
        request: &Request,
        want_reply: bool,
    ) -> Result<(), ClientError> {
        self.command(|connection| connection.channel_request(channel, request, want_reply))
    }

    /// The channel is closed and all that it brought is written.
    fn is_over(&self) -> bool {
        let Some(channel) = self.channel else {
            return false;
        };
        self.closed
            && !self.driver.has_sink(channel, Stream::Data)
            && !self.driver.has_sink(channel, Stream::Stderr)
    }

    fn exit_code(&self) -> i32 {
        match (&self.ended, &self.plan.what) {
            (Some(Ended::Status(status)), _) => i32::try_from(*status).unwrap_or(FAILURE),
            (None, What::Forward { .. }) => 0,
            _ => FAILURE,
        }
    }

    // ---- opening --------------------------------------------------------------------------

    fn open(&mut self) -> Result<(), ClientError> {
        let id = match &self.plan.what {
            What::Nothing => {
                debug1!("Entering interactive session without a command.");
                self.send_no_more_sessions()?;
                return Ok(());
            }
            What::Forward { host, port } => {
                let mut fields = Vec::new();
                fields.put_string(host.as_bytes());
                fields.put_u32(u32::from(*port));
                // The originator of standard input has no address (RFC 4254 §7.2 wants one).
                fields.put_string(b"127.0.0.1");
                fields.put_u32(65535);
                self.driver
                    .connection()
                    .open_channel(wire::names::CHANNEL_DIRECT_TCPIP, &fields)
            }
            _ => self
                .driver
                .connection()
                .open_channel(wire::names::CHANNEL_SESSION, &[]),
        };
        let id = id.map_err(|error| self.misuse(error))?;
        self.channel = Some(id);
        self.attach_sinks(id)?;
        self.send_no_more_sessions()?;
        debug1!("Entering interactive session.");
        Ok(())
    }

    /// Nobody shares this connection, so the server may refuse further sessions.
    fn send_no_more_sessions(&mut self) -> Result<(), ClientError> {
        let connection = self.driver.connection();
        let knows = connection.is_fulmar_peer()
            || connection
                .peer_version()
                .is_some_and(|version| version.contains("OpenSSH"));
        if knows {
            debug1!("Requesting no-more-sessions@openssh.com");
            self.command(Connection::send_no_more_sessions)?;
        }
        Ok(())
    }

    /// The channel is confirmed: everything that it needs goes out at once.
    fn confirmed(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        if matches!(self.plan.what, What::Forward { .. }) {
            self.started = true;
            return self.attach_source(channel);
        }
        if let Some(pty) = &self.plan.pty {
            let size = crate::terminal::window_size();
            let request = Request::Pty {
                term: pty.term.clone(),
                columns: size.columns,
                rows: size.rows,
                width_px: size.width_px,
                height_px: size.height_px,
                modes: pty.modes.clone(),
            };
            debug2!("channel {}: request pty-req", channel.0);
            self.request(channel, &request, true)?;
            self.asked.push_back(Asked::Pty);
        }
        for (name, value) in std::mem::take(&mut self.plan.environment) {
            debug1!(
                "channel {}: setting env {}",
                channel.0,
                one_line(&String::from_utf8_lossy(&name))
            );
            let request = Request::Env { name, value };
            self.request(channel, &request, false)?;
        }
        let request = match &self.plan.what {
            What::Exec(command) => {
                debug1!(
                    "Sending command: {}",
                    one_line(&String::from_utf8_lossy(command))
                );
                Request::Exec {
                    command: command.clone(),
                }
            }
            What::Subsystem(name) => {
                debug1!(
                    "Sending subsystem: {}",
                    one_line(&String::from_utf8_lossy(name))
                );
                Request::Subsystem { name: name.clone() }
            }
            _ => Request::Shell,
        };
        self.request(channel, &request, true)?;
        self.asked.push_back(Asked::Start);
        if self.plan.pty.is_some() {
            self.enter_raw_mode();
        }
        self.attach_source(channel)
    }

    /// Joins the local output and errors with the channel: before it is confirmed, because its
    /// first data may come in the same read as the confirmation.
    fn attach_sinks(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        let system = ClientError::system;
        if let Some(output) = self.streams.output.take() {
            self.driver
                .attach_sink(channel, Stream::Data, output)
                .map_err(system("stdout"))?;
        }
        if let Some(errors) = self.streams.errors.take() {
            self.driver
                .attach_sink(channel, Stream::Stderr, errors)
                .map_err(system("stderr"))?;
        }
        Ok(())
    }

    /// Joins the local input with the channel.
    fn attach_source(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        let system = ClientError::system;
        match self.streams.input.take().filter(|_| !self.plan.stdin_null) {
            None => self.command(|connection| connection.channel_eof(channel)),
            Some(input) if self.plan.pty.is_some() && sys::io::is_terminal(&input) => {
                self.typed = Some(TypedInput::new(self.plan.escape));
                self.driver
                    .watch(sys::io::stdin(), TOKEN_TERMINAL, true, false)
                    .map_err(system("stdin"))
            }
            Some(input) => self
                .driver
                .attach_source(channel, Stream::Data, input)
                .map_err(system("stdin")),
        }
    }

    // ---- what happens ---------------------------------------------------------------------

    fn handle(&mut self, notice: Notice) -> Result<Next, ClientError> {
        match notice {
            Notice::Event(event) => self.handle_event(event),
            Notice::Ready {
                token: TOKEN_SIGNALS,
                ..
            } => self.handle_signals(),
            Notice::Ready {
                token: TOKEN_TERMINAL,
                ..
            } => self.read_terminal(),
            Notice::SourceEnded { channel, error, .. } => {
                if let Some(error) = error {
                    debug1!("reading standard input failed: {error}");
                }
                if self.driver.connection().channel_is_open(channel) {
                    debug2!("channel {}: end of input", channel.0);
                    self.command(|connection| connection.channel_eof(channel))?;
                }
                Ok(Next::Continue)
            }
            Notice::SinkEnded {
                channel,
                stream,
                error,
            } => {
                if let Some(error) = error {
                    self.sink_failed(channel, stream, &error)?;
                }
                Ok(Next::Continue)
            }
            // With the channel closed, what it brought may still be on its way to our output.
            Notice::PeerClosed if self.closed => Ok(Next::Continue),
            Notice::PeerClosed => Err(ClientError::Closed(self.peer.clone())),
            _ => Ok(Next::Continue),
        }
    }

    /// Nobody reads our output any more: the command may know (`eow@openssh.com`).
    fn sink_failed(
        &mut self,
        channel: ChannelId,
        stream: Stream,
        error: &std::io::Error,
    ) -> Result<(), ClientError> {
        debug1!("channel {}: writing {stream:?} failed: {error}", channel.0);
        let is_session = !matches!(self.plan.what, What::Forward { .. });
        if !self.driver.connection().channel_is_open(channel) {
            return Ok(());
        }
        self.reader_left = true;
        if is_session && stream == Stream::Data {
            self.request(channel, &Request::Eow, false)?;
        } else if !is_session {
            self.command(|connection| connection.channel_close(channel))?;
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Event) -> Result<Next, ClientError> {
        match event {
            Event::ChannelOpened(channel) if Some(channel) == self.channel => {
                debug2!("channel {}: open confirmed", channel.0);
                self.confirmed(channel)?;
            }
            Event::ChannelRefused {
                channel,
                reason,
                description,
            } => {
                error!(
                    "channel {}: open failed: {}: {}",
                    channel.0,
                    open_reason(reason),
                    one_line(&description)
                );
                if matches!(self.plan.what, What::Forward { .. }) {
                    error!("stdio forwarding failed");
                }
                return Ok(Next::Finish(FAILURE));
            }
            Event::ChannelData { channel, data, .. } => {
                // A stream whose sink is gone: the bytes are dropped, the window stays open.
                self.command(|connection| connection.channel_consumed(channel, data.len()))?;
            }
            Event::ChannelRequest {
                channel,
                request,
                want_reply,
            } => {
                self.channel_request(channel, request, want_reply)?;
            }
            Event::ChannelReply { channel, success } => return Ok(self.reply(channel, success)),
            Event::ChannelEof(channel) => debug2!("channel {}: end of output", channel.0),
            Event::ChannelClosed(channel) if Some(channel) == self.channel => {
                debug2!("channel {}: closed", channel.0);
                self.channel_closed(channel);
            }
            Event::ChannelOpenRequest { channel, kind, .. } => {
                info!(
                    "WARNING: the server asked for a channel of type {}: refused",
                    one_line(&kind)
                );
                let reason = open_failure::ADMINISTRATIVELY_PROHIBITED;
                self.command(|connection| {
                    connection.reject_channel(channel, reason, "not asked for")
                })?;
            }
            Event::KeysChanged { negotiated, .. } => {
                debug1!("rekeyed: {}", negotiated.kex);
            }
            Event::HostKeysAnnounced(keys) => self.host_keys_announced(&keys),
            Event::HostKeysProof(proofs) => self.host_keys_proven(proofs),
            Event::DebugMessage {
                always_display,
                text,
            } => {
                if always_display {
                    info!("Remote: {}", one_line(&text));
                } else {
                    debug1!("Remote: {}", one_line(&text));
                }
            }
            Event::GlobalRequestRefused(name) => {
                debug1!("client_input_global_request: {} refused", one_line(&name));
            }
            other => debug3!("event: {other:?}"),
        }
        Ok(Next::Continue)
    }

    fn channel_request(
        &mut self,
        channel: ChannelId,
        request: Request,
        want_reply: bool,
    ) -> Result<(), ClientError> {
        let mut known = Some(channel) == self.channel;
        match request {
            Request::ExitStatus { status } if known => {
                debug1!("channel {}: exit-status {status}", channel.0);
                self.ended = Some(Ended::Status(status));
            }
            // Our own reader left, and the command noticed: nothing to report.
            Request::ExitSignal { name, .. } if known && name == "PIPE" && self.reader_left => {
                self.ended = Some(Ended::Signal);
            }
            Request::ExitSignal {
                name,
                core_dumped,
                message,
                ..
            } if known => {
                let core = if core_dumped { " (core dumped)" } else { "" };
                let message = one_line(&message);
                let colon = if message.is_empty() { "" } else { ": " };
                info!(
                    "The command was ended by signal {}{core}{colon}{message}",
                    one_line(&name)
                );
                self.ended = Some(Ended::Signal);
            }
            Request::Eow if known => {
                debug2!("channel {}: the command reads no more", channel.0);
                self.stop_input(channel);
            }
            other => {
                debug2!("channel {}: request {other:?} is not for us", channel.0);
                known = false;
            }
        }
        if want_reply {
            self.command(|connection| connection.channel_reply(channel, known))?;
        }
        Ok(())
    }

    fn reply(&mut self, channel: ChannelId, success: bool) -> Next {
        let asked = self.asked.pop_front();
        debug3!("channel {}: {asked:?}: {success}", channel.0);
        match asked {
            Some(Asked::Pty) if !success => {
                error!("PTY allocation request failed on channel {}", channel.0);
                self.leave_raw_mode();
                self.plan.pty = None;
            }
            Some(Asked::Start) if success => self.started = true,
            Some(Asked::Start) => {
                self.leave_raw_mode();
                error!(
                    "{} request failed on channel {}",
                    self.plan.what.request_name(),
                    channel.0
                );
                return Next::Finish(FAILURE);
            }
            _ => {}
        }
        Next::Continue
    }

    fn channel_closed(&mut self, channel: ChannelId) {
        self.closed = true;
        self.stop_input(channel);
    }

    fn stop_input(&mut self, channel: ChannelId) {
        drop(self.driver.detach_source(channel, Stream::Data));
        if self.typed.take().is_some() {
            self.driver.unwatch(sys::io::stdin());
        }
    }

    // ---- host key rotation ----------------------------------------------------------------

    fn host_keys_announced(&mut self, keys: &[Vec<u8>]) {
        let mut wanted = self.update_host_keys;
        if wanted == YesNoAsk::Ask && (self.raw.is_some() || !self.interaction.can_ask()) {
            verbose!("The server announced host keys; UpdateHostKeys=ask cannot ask now");
            wanted = YesNoAsk::No;
        }
        if let Some(checker) = self.checker.as_deref_mut() {
            self.rotation = checker.announced(keys, wanted, self.driver, self.interaction);
        }
    }

    fn host_keys_proven(&mut self, proofs: Option<Vec<Vec<u8>>>) {
        let Some(rotation) = self.rotation.take() else {
            return;
        };
        let mut wanted = self.update_host_keys;
        if wanted == YesNoAsk::Ask && self.raw.is_some() {
            wanted = YesNoAsk::No;
        }
        if wanted == YesNoAsk::No {
            return;
        }
        if let Some(checker) = self.checker.as_deref_mut() {
            checker.proven(&rotation, proofs, wanted, self.driver, self.interaction);
        }
    }

    // ---- signals and the terminal ---------------------------------------------------------

    fn take_signals(&mut self) -> Result<(), ClientError> {
        let mut signals = vec![Signal::WINCH, Signal::CONT];
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
            // One that our parent had us ignore (nohup) stays ignored.
            if !sys::signals::is_ignored(signal).unwrap_or(false) {
                signals.push(signal);
            }
        }
        let fd = SignalFd::new(&signals).map_err(ClientError::system("signalfd"))?;
        self.driver
            .watch(std::os::fd::AsFd::as_fd(&fd), TOKEN_SIGNALS, true, false)
            .map_err(ClientError::system("signalfd"))?;
        self.signals = Some(fd);
        Ok(())
    }

    fn handle_signals(&mut self) -> Result<Next, ClientError> {
        loop {
            let Some(signals) = &self.signals else {
                return Ok(Next::Continue);
            };
            let next = signals.read().map_err(ClientError::system("signalfd"))?;
            match next.map(|info| info.signal) {
                None => return Ok(Next::Continue),
                Some(Signal::WINCH) => self.send_window_size()?,
                Some(Signal::CONT) => self.resumed()?,
                Some(signal) => {
                    self.leave_raw_mode();
                    verbose!("Killed by signal {}.", signal.as_raw());
                    self.ended = Some(Ended::Signal);
                    return Ok(Next::Finish(FAILURE));
                }
            }
        }
    }

    fn send_window_size(&mut self) -> Result<(), ClientError> {
        let Some(channel) = self.channel.filter(|_| self.plan.pty.is_some()) else {
            return Ok(());
        };
        if !self.driver.connection().channel_is_open(channel) {
            return Ok(());
        }
        let size = crate::terminal::window_size();
        let request = Request::WindowChange {
            columns: size.columns,
            rows: size.rows,
            width_px: size.width_px,
            height_px: size.height_px,
        };
        self.request(channel, &request, false)
    }

    /// Somebody stopped us and the shell changed the terminal meanwhile.
    fn resumed(&mut self) -> Result<(), ClientError> {
        if let Some(raw) = &mut self.raw {
            if let Err(error) = raw.resume() {
                debug1!("the terminal cannot be made raw again: {error}");
            }
            self.send_window_size()?;
        }
        Ok(())
    }

    fn enter_raw_mode(&mut self) {
        if self.raw.is_some() || !sys::io::is_terminal(sys::io::stdin()) {
            return;
        }
        match RawMode::enter() {
            Ok(raw) => {
                self.raw = Some(raw);
                log::set_raw_terminal(true);
            }
            Err(error) => debug1!("the terminal stays as it is: {error}"),
        }
    }

    fn leave_raw_mode(&mut self) {
        if self.raw.take().is_some() {
            log::set_raw_terminal(false);
        }
    }

    /// The last words, for a session with a terminal.
    fn farewell(&mut self) {
        if self.plan.pty.is_some() && self.started {
            info!("Connection to {} closed.", one_line(&self.peer.host));
        }
        debug1!("Exit status {}", self.exit_code());
    }
}

fn open_reason(reason: u32) -> String {
    match reason {
        open_failure::ADMINISTRATIVELY_PROHIBITED => "administratively prohibited".into(),
        open_failure::CONNECT_FAILED => "connect failed".into(),
        open_failure::UNKNOWN_CHANNEL_TYPE => "unknown channel type".into(),
        open_failure::RESOURCE_SHORTAGE => "resource shortage".into(),
        other => format!("reason {other}"),
    }
}
