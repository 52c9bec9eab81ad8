//! The session after login: one channel for a shell, a command, a subsystem or a forwarded stream,
//! and the loop that serves it until it ends.
//!
//! RFC 4254 §5 and §6. The driver moves the bytes of pipes and files; typed input passes through
//! the escape filter here. The exit code is the command's, or 255 if the command has none.

mod command_line;
mod events;
mod host_keys;
mod information;
mod input;
mod local_end;
mod quality;
mod shared_status;
mod signals;
mod startup;

use std::io::{self, ErrorKind};
use std::time::Duration;

use config::client::YesNoAsk;
use config::types::IpQos;
use driver::{Driver, DriverError};
use proto::channel::Request;
use proto::{ChannelId, Connection, Error, Stream};
use sys::signals::SignalFd;

pub use crate::error::FAILURE;
pub use crate::plan::{Plan, What, environment};
pub use crate::stdio::{StdioFlags, Streams};
pub use local_end::{AnyLocalEnd, EARLY_BYTES, LocalEnd, ServerFacts};

use crate::error::{ClientError, Peer};
use crate::forward::SessionForwards;
use crate::host_key::HostKeyChecker;
use crate::interaction::Interaction;
use crate::log::{debug1, debug2};
use crate::pipelining::early::{self, EarlyChannel, PipelineDepth, send_early};
use crate::sharing::master::Master;
use crate::sharing::persist::Leave;
use host_keys::HostKeyUpdates;
use input::TerminalInput;
use startup::ChannelStartup;

/// Tokens of the driver's watches and timers.
const TOKEN_SIGNALS: u64 = 1;
const TOKEN_TERMINAL: u64 = 2;
const TOKEN_RETRY: u64 = 3;
const TOKEN_KEYSTROKES: u64 = 4;
const TOKEN_PROOF: u64 = 5;
const TOKEN_LOCAL_END: u64 = 6;
const TOKEN_RENEWAL: u64 = 7;

/// Delay before typed input is offered again to a channel that takes no more, milliseconds.
const RETRY_MS: u64 = 20;

/// Number of waits, and length of each, for output to be written after the channel has ended and
/// the connection is gone: one minute in all for a reader that does not read.
const MAX_LINGERS: u32 = 600;
const LINGER: Duration = Duration::from_millis(100);

/// Longest wait after the session for the proof of new host keys, milliseconds: a command may end
/// before the server has signed.
const PROOF_MS: u64 = 5000;

/// How the channel ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ended {
    Status(u32),
    Signal,
}

/// The progress of the channel, up to its end.
#[derive(Debug, Default)]
struct ChannelOutcome {
    started: bool,
    ended: Option<Ended>,
    closed: bool,
    /// The reader of the local output is gone.
    reader_left: bool,
    /// The server has refused it.
    refused: bool,
}

impl ChannelOutcome {
    fn exit_code(&self, what: &What) -> i32 {
        match (&self.ended, what) {
            (Some(Ended::Status(status)), _) => i32::try_from(*status).unwrap_or(FAILURE),
            (None, What::Forward(_)) => 0,
            _ => FAILURE,
        }
    }
}

/// The loop's next step.
enum Next {
    Continue,
    Finish(i32),
}

/// A session on an authenticated connection.
pub struct ClientSession<'c> {
    driver: &'c mut Driver,
    plan: Plan,
    streams: Streams,
    /// Replaces the streams if it is set.
    local: Option<&'c mut AnyLocalEnd>,
    /// Facts about the server for the local end; `None`: what the connection knows.
    server: Option<ServerFacts>,
    peer: Peer,
    host_keys: HostKeyUpdates<'c>,
    interaction: &'c mut dyn Interaction,
    startup: ChannelStartup,
    channel: Option<ChannelId>,
    outcome: ChannelOutcome,
    terminal: TerminalInput,
    signals: Option<SignalFd>,
    forwards: Option<SessionForwards>,
    /// The program leaves its caller when the server has answered the requests of `forwards`.
    leaves_later: Option<Leave>,
    /// Shares the connection with other processes.
    master: Option<Master>,
    quality: quality::SocketQuality,
    /// True if renewed credentials are delegated in a rekey (GSSAPIRenewalForcesRekey).
    follows_renewals: bool,
    /// The time at which the session began.
    begun_ms: u64,
}

impl<'c> ClientSession<'c> {
    /// A session that carries out `plan`.
    pub fn new(
        driver: &'c mut Driver,
        plan: Plan,
        streams: Streams,
        peer: Peer,
        interaction: &'c mut dyn Interaction,
    ) -> Self {
        let begun_ms = driver.now();
        Self {
            driver,
            plan,
            streams,
            local: None,
            server: None,
            peer,
            host_keys: HostKeyUpdates::off(),
            interaction,
            startup: ChannelStartup::new(),
            channel: None,
            outcome: ChannelOutcome::default(),
            terminal: TerminalInput::default(),
            signals: None,
            forwards: None,
            leaves_later: None,
            master: None,
            quality: quality::SocketQuality::default(),
            follows_renewals: false,
            begun_ms,
        }
    }

    /// Keeps the socket's type of service (`IPQoS`) as the open channels ask for it; `interactive` is
    /// its state now.
    #[must_use]
    pub fn with_quality(mut self, ip_qos: IpQos, interactive: bool) -> Self {
        self.quality = quality::SocketQuality::new(ip_qos, interactive);
        self
    }

    /// Delegates renewed credentials if `follows`, where the key exchange was by GSS-API.
    #[must_use]
    pub(crate) fn following_renewals(mut self, follows: bool) -> Self {
        self.follows_renewals = follows && self.driver.connection().is_by_gss();
        self
    }

    /// Serves these forwardings beside the channel. `leaves_later`: the program leaves its caller
    /// when the server has agreed to them.
    #[must_use]
    pub(crate) fn with_forwards(
        mut self,
        forwards: Option<SessionForwards>,
        leaves_later: Option<Leave>,
    ) -> Self {
        self.forwards = forwards;
        self.leaves_later = leaves_later;
        self
    }

    /// Shares the connection.
    #[must_use]
    pub(crate) fn with_master(mut self, master: Option<Master>) -> Self {
        self.master = master;
        self
    }

    /// Connects the channel to `local` instead of the streams.
    #[must_use]
    pub fn with_local_end(mut self, local: Option<&'c mut AnyLocalEnd>) -> Self {
        self.local = local;
        self
    }

    /// Tells the local end this of the server: for a connection without a version exchange.
    #[must_use]
    pub(crate) fn telling_of(mut self, server: Option<ServerFacts>) -> Self {
        self.server = server;
        self
    }

    /// Continues with a channel whose CHANNEL_OPEN was sent before the login was answered.
    #[must_use]
    pub fn with_early(mut self, early: Option<EarlyChannel>) -> Self {
        self.startup.set_early(early);
        self
    }

    /// Sends the requests that start the command without waiting for the channel's confirmation:
    /// for servers that process messages in order without it.
    #[must_use]
    pub fn starting_at_once(mut self, at_once: bool) -> Self {
        self.startup.at_once = at_once;
        self
    }

    /// How much was sent before the channel's confirmation, as long as that has not arrived. If the
    /// connection ends now, this may be the cause; with [`PipelineDepth::Whole`] a command may have run.
    #[must_use]
    pub fn unconfirmed(&self) -> PipelineDepth {
        self.startup.unconfirmed
    }

    /// True if the server has refused the session's channel.
    pub(crate) fn is_refused(&self) -> bool {
        self.outcome.refused
    }

    /// Enables updates of the host keys (`UpdateHostKeys`).
    pub fn rotate_host_keys(&mut self, checker: &'c mut HostKeyChecker, wanted: YesNoAsk) {
        self.host_keys = HostKeyUpdates::with(checker, wanted);
    }

    /// Runs the session until it ends and returns the exit code.
    ///
    /// # Errors
    /// [`ClientError`] when the connection or the system fails; its text is for the user.
    pub fn run(&mut self) -> Result<i32, ClientError> {
        let outcome = self.run_inner();
        self.terminal.leave_raw_mode();
        if let Some(master) = &mut self.master {
            master.close(self.driver);
        }
        if let Some(forwards) = &mut self.forwards {
            forwards.close(self.driver);
        }
        if outcome.is_ok() {
            self.await_proof();
            self.farewell();
        }
        outcome
    }

    fn run_inner(&mut self) -> Result<i32, ClientError> {
        // A descriptor for signals belongs to the process that makes it.
        let leaves_later = self.leaves_later.is_some();
        if !self.attach_local_end()? && !leaves_later {
            self.take_signals()?;
        }
        if let Some(forwards) = &mut self.forwards {
            forwards.request(self.driver)?;
            if !leaves_later {
                forwards.start(self.driver)?;
            }
        }
        if let Some(master) = self.master.as_mut().filter(|_| !leaves_later) {
            master.start(self.driver)?;
        }
        self.open()?;
        self.look_for_renewal_later();
        let mut patience = MAX_LINGERS;
        loop {
            self.leave_if_due()?;
            self.offer_typed()?;
            self.serve_passengers()?;
            if self.is_over() && self.may_end() {
                return Ok(self.exit_code());
            }
            let notice = match self.driver.next() {
                Ok(notice) => notice,
                Err(error) if self.outcome.closed && patience > 0 => {
                    // The channel has ended without error; only its last bytes remain to be
                    // written.
                    debug2!("after the channel's end: {error}");
                    patience -= 1;
                    self.drop_forwards();
                    let _ = sys::io::wait_writable(sys::io::stdout(), Some(LINGER));
                    continue;
                }
                Err(error) => return Err(self.lost(error)),
            };
            match self.handle(notice)? {
                Next::Continue => self.update_quality(),
                Next::Finish(code) => return Ok(code),
            }
        }
    }

    fn lost(&self, error: DriverError) -> ClientError {
        match error {
            DriverError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => self.ended(None),
            DriverError::Io(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset
                        | ErrorKind::TimedOut
                        | ErrorKind::HostUnreachable
                        | ErrorKind::NetworkUnreachable
                ) =>
            {
                self.ended(Some(error))
            }
            error => ClientError::Lost {
                peer: self.peer.clone(),
                error,
            },
        }
    }

    fn ended(&self, reason: Option<io::Error>) -> ClientError {
        ClientError::Ended {
            host: self.peer.host.clone(),
            reason,
            had_terminal: self.plan.pty.is_some() && self.outcome.started,
        }
    }

    fn misuse(&self, error: Error) -> ClientError {
        self.lost(DriverError::Proto(error))
    }

    /// Applies `command` to the connection; an error is reported as a lost connection.
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

    /// Goes to the background as soon as the server has answered the requests to listen. Only then
    /// are connections forwarded: their lookups and ciphers have threads, which a fork would lose.
    fn leave_if_due(&mut self) -> Result<(), ClientError> {
        let Some(forwards) = self.forwards.as_mut() else {
            return Ok(());
        };
        if let Some(leave) = self.leaves_later.take_if(|_| !forwards.defers_background()) {
            leave.go(self.master.as_mut(), self.driver)?;
            forwards.start(self.driver)?;
            if let Some(master) = &mut self.master {
                master.start(self.driver)?;
            }
            self.take_signals()?;
        }
        Ok(())
    }

    /// The connection is gone, and its forwardings with it.
    fn drop_forwards(&mut self) {
        if let Some(mut forwards) = self.forwards.take() {
            forwards.close(self.driver);
        }
    }

    /// True if the channel is closed, all its output has been written, no forwarded connection is
    /// open, and no passenger is left. A master without a channel is over when it has been told to
    /// stop.
    fn is_over(&self) -> bool {
        let is_done = match (self.channel, &self.master) {
            (Some(channel), _) => {
                self.outcome.closed
                    && !self.driver.has_sink(channel, Stream::Data)
                    && !self.driver.has_sink(channel, Stream::Stderr)
            }
            (None, master) => master.as_ref().is_some_and(|master| !master.listens()),
        };
        let forwards = self.forwards.as_ref();
        let is_idle = !forwards.is_some_and(SessionForwards::has_connections)
            && !self.master.as_ref().is_some_and(Master::has_passengers);
        let is_told = self.master.as_ref().is_some_and(Master::is_quitting);
        is_told || (is_done && is_idle)
    }

    /// False if a passenger has come at the last moment.
    fn may_end(&mut self) -> bool {
        let master = self.master.as_mut();
        master.is_none_or(|master| master.is_quitting() || master.may_end(self.driver))
    }

    /// What the passengers of a shared connection have to hear after each notice.
    fn serve_passengers(&mut self) -> Result<(), ClientError> {
        let (Some(master), Some(forwards)) = (&mut self.master, &mut self.forwards) else {
            return Ok(());
        };
        let is_busy = forwards.has_connections();
        master.turn(is_busy, forwards, self.driver);
        for (passenger, command) in master.take_escapes() {
            let text = self.escape_text(command).replace('\n', "\r\n");
            if let Some(master) = &self.master {
                master.tell(passenger, &text);
            }
        }
        self.give_texts();
        Ok(())
    }

    fn exit_code(&self) -> i32 {
        self.outcome.exit_code(&self.plan.what)
    }

    // ---- opening --------------------------------------------------------------------------

    /// Not inlined: the loop that waits has none of its stack.
    #[inline(never)]
    fn open(&mut self) -> Result<(), ClientError> {
        let early = self.startup.take_living(self.driver.connection());
        let Some((kind, fields)) = early::channel_type(&self.plan.what) else {
            debug1!("Entering interactive session without a command.");
            return self.send_no_more_sessions();
        };
        let is_forward = matches!(self.plan.what, What::Forward(_));
        let id = match early {
            Some(early) => self.startup.keep(early),
            None if is_forward => {
                self.command(|connection| connection.open_channel_with_data(kind, &fields))?
            }
            None if self.startup.at_once => self.start_early()?,
            None => self.command(|connection| connection.open_channel(kind, &fields))?,
        };
        self.channel = Some(id);
        if is_forward {
            // A limit of `direct-tcpip` is not for this channel.
            self.label(id);
        }
        self.attach_sinks(id)?;
        if self.driver.connection().channel_takes_early_data(id) {
            self.startup.has_source = true;
            self.attach_source(id)?;
        }
        match self.startup.unconfirmed {
            PipelineDepth::Whole => self.requested(),
            _ => self.send_no_more_sessions()?,
        }
        debug1!("Entering interactive session.");
        Ok(())
    }

    /// Names the channel for ChannelTimeout.
    fn label(&mut self, channel: ChannelId) {
        let label = self.plan.what.channel_label();
        self.driver.connection().label_channel(channel, &label);
    }

    /// The channel's requests have been sent.
    fn requested(&mut self) {
        if let Some(forwards) = &mut self.forwards {
            forwards.channel_requested(&self.plan);
        }
    }

    fn start_early(&mut self) -> Result<ChannelId, ClientError> {
        let data = self.early_data();
        let early = send_early(
            self.driver.connection(),
            &self.plan,
            PipelineDepth::Whole,
            &data,
        );
        match early.map_err(|error| self.misuse(error))? {
            Some(early) => Ok(self.startup.keep(early)),
            None => Err(self.misuse(Error::Bug("a session without a channel"))),
        }
    }

    /// The server accepted the login but ignored the early CHANNEL_OPEN: opens the channel again.
    fn reopen(&mut self, unheard: ChannelId) -> Result<(), ClientError> {
        if self.driver.connection().has_channel(unheard) {
            // The event is about an earlier channel with this number, and has been handled.
            return Ok(());
        }
        debug1!(
            "channel {}: the server ignored the early open request; opening it again",
            unheard.0
        );
        drop(self.driver.detach_endpoint(unheard));
        self.streams.output = self.driver.detach_sink(unheard, Stream::Data);
        self.streams.errors = self.driver.detach_sink(unheard, Stream::Stderr);
        self.startup.forget();
        if let Some((kind, fields)) = early::channel_type(&self.plan.what) {
            let id = self.command(|connection| connection.open_channel(kind, &fields))?;
            self.channel = Some(id);
            self.attach_sinks(id)?;
        }
        Ok(())
    }

    /// If no other session shares this connection, the server may refuse further sessions.
    fn send_no_more_sessions(&mut self) -> Result<(), ClientError> {
        match self.plan.is_shared {
            true => Ok(()),
            false => self.command(early::send_no_more_sessions),
        }
    }

    /// The channel is confirmed: sends all its requests at once, unless they were sent early.
    fn confirmed(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        self.startup.unconfirmed = PipelineDepth::Nothing;
        if matches!(self.plan.what, What::Forward(_)) {
            self.outcome.started = true;
            if self.startup.has_source {
                return Ok(());
            }
            return self.attach_source(channel);
        }
        self.label(channel);
        let heard = self.driver.connection().channel_heard_early(channel);
        let mut with_data = false;
        match self.startup.take_started(heard) {
            Some(early) => {
                self.startup.asked = early.asked;
                with_data = early.with_data;
                if early.input_ended {
                    self.streams.input = None;
                    return Ok(());
                }
            }
            None => {
                let asked = early::start(self.driver.connection(), &self.plan, channel);
                self.startup.asked = asked.map_err(|error| self.misuse(error))?;
                self.requested();
            }
        }
        if let Some(local) = self.local.as_deref_mut() {
            local.channel_begins(with_data);
        }
        if self.plan.pty.is_some() {
            self.terminal.enter_raw_mode();
        }
        self.attach_source(channel)
    }

    /// Attaches the local output and error streams to the channel, before it is confirmed: its
    /// first data may arrive in the same read as the confirmation.
    fn attach_sinks(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        let system = ClientError::system;
        if let Some(local) = self.local.as_deref_mut() {
            self.driver.attach_endpoint(channel, local.endpoint());
            return Ok(());
        }
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

    /// Attaches the local input to the channel.
    fn attach_source(&mut self, channel: ChannelId) -> Result<(), ClientError> {
        let system = ClientError::system;
        if self.local.is_some() {
            self.driver.wake_endpoint(channel);
            return Ok(());
        }
        match self.streams.input.take() {
            None => self.command(|connection| connection.channel_eof(channel)),
            // Escapes count where there is a terminal at the server, as in OpenSSH.
            Some(_) if self.plan.pty.is_some() => {
                let started = self.terminal.start(&self.plan, self.driver);
                started.map_err(system("stdin"))
            }
            Some(input) => self
                .driver
                .attach_source(channel, Stream::Data, input)
                .map_err(system("stdin")),
        }
    }
}
