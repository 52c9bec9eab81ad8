//! One `session` channel (RFC 4254 §6): at most one terminal and one command, and the order in
//! which output, exit status, EOF and CLOSE reach the client.
//!
//! A command on a terminal is over when it has ended and its output has been read; other processes
//! lose the terminal. For a command on pipes the exit status is sent then too, but the channel
//! stays open until the last holder of its output has closed it (both as in OpenSSH).
//!
//! EOF waits for the command's end, even if its output has ended before: OpenSSH's client closes
//! the channel at EOF if its own input has ended, and a status sent after CLOSE is lost. The reply
//! to the client's CLOSE waits up to `STATUS_MS` for the status too, because dbclient and plink
//! close early.
//!
//! [`start`] handles the steps up to the running command.
//!
//! A failed call to `proto` means that the client has closed the channel: an event follows and
//! cleans up.

mod start;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use driver::Driver;
use proto::channel::Request;
use proto::{ChannelId, Stream};
use sys::process::{Child, ExitStatus};
use sys::signals::Signal;

use super::command::Wanted;
use super::context::Context;
use super::environment::{Environment, IgnoredVariable};
use super::exit;
use super::sftp::{SftpHandler, SftpThread};
use super::stdio::{self, Outputs};
use super::terminal::{Size, Terminal};
use super::token::Token;
use super::x11::X11Display;
use crate::recorder::RecordingEnded;
use start::NextStart;
use wire::permissions::Permission;

/// First and longest interval, in milliseconds, at which an ended command's output is checked.
/// While the client's window is closed no event reports it.
const DRAIN_MS: (u64, u64) = (2, 250);

/// Time, in milliseconds, that a command whose output has ended gets to end after the client's
/// CLOSE, before the channel is closed without a status.
const STATUS_MS: u64 = 1000;

/// State of a channel's command.
enum CommandStage {
    /// No command was requested.
    Idle,
    /// The rc file is running.
    Preparing { rc: Child, next: NextStart },
    /// The command is running.
    Running { child: Child },
    /// This process serves files, in another thread if there is a bridge.
    Serving { files: Option<Arc<SftpThread>> },
    /// The command has ended; `told` if the exit status was sent.
    Ended { status: ExitStatus, told: bool },
    /// CLOSE was sent.
    Closed,
}

/// A session channel.
pub(super) struct SessionChannel {
    id: ChannelId,
    client_environment: Environment,
    terminal: Option<Terminal>,
    x11: Option<X11Display>,
    stage: CommandStage,
    /// Serial of the child in `stage`.
    serial: u64,
    signals_refused: bool,
    /// The server's own text, sent before the command's output or instead of it.
    unsent: Vec<u8>,
    /// The stream of `unsent`.
    words_to: Stream,
    /// Outputs to attach after `unsent` was sent.
    unattached: Option<Outputs>,
    drain_ms: u64,
    /// The client has sent CLOSE and waits for the server's.
    peer_closed: bool,
}

/// A child that has outlived its channel and must be reaped.
pub(super) struct Orphan {
    pub(super) serial: u64,
    pub(super) child: Child,
}

impl SessionChannel {
    pub(super) fn new(id: ChannelId) -> Self {
        Self {
            id,
            client_environment: Environment::default(),
            terminal: None,
            x11: None,
            stage: CommandStage::Idle,
            serial: 0,
            signals_refused: false,
            unsent: Vec::new(),
            words_to: Stream::Data,
            unattached: None,
            drain_ms: DRAIN_MS.0,
            peer_closed: false,
        }
    }

    /// True if `serial` belongs to this channel's child.
    pub(super) fn owns(&self, serial: u64) -> bool {
        self.serial == serial && !matches!(self.stage, CommandStage::Idle | CommandStage::Closed)
    }

    /// True if the session has a terminal.
    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// True if a display may be requested: there is none yet, and no command.
    pub(super) fn takes_x11(&self) -> bool {
        self.x11.is_none() && matches!(self.stage, CommandStage::Idle)
    }

    pub(super) fn set_x11(&mut self, display: X11Display) {
        self.x11 = Some(display);
    }

    /// The number of the listener for X programs.
    pub(super) fn x11_listener(&self) -> Option<u64> {
        self.x11.as_ref().map(|x11| x11.listener)
    }

    /// Handles a request and replies.
    pub(super) fn request(
        &mut self,
        request: Request,
        want_reply: bool,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        context.log.debug(&format!(
            "session channel {} request {}",
            self.id.0,
            request.name()
        ));
        let ok = match request {
            Request::Shell => return self.start(&Wanted::Shell, want_reply, driver, context),
            Request::Exec { command } => {
                return self.start(&Wanted::Exec(command), want_reply, driver, context);
            }
            Request::Subsystem { name } => {
                return self.start(&Wanted::Subsystem(name), want_reply, driver, context);
            }
            Request::Pty {
                term,
                columns,
                rows,
                width_px,
                height_px,
                modes,
            } => self.open_terminal(
                term,
                Size {
                    columns,
                    rows,
                    width_px,
                    height_px,
                },
                &modes,
                context,
            ),
            Request::Env { name, value } => {
                matches!(self.stage, CommandStage::Idle)
                    && self.take_variable(&name, &value, context)
            }
            Request::WindowChange {
                columns,
                rows,
                width_px,
                height_px,
            } => self.resize(Size {
                columns,
                rows,
                width_px,
                height_px,
            })?,
            Request::Signal { name } => self.signal(&name, context),
            // RFC 4335. Linux accepts a break on a pseudo-terminal and ignores it.
            Request::Break { .. } => self.terminal.is_some(),
            Request::Eow => {
                self.stop_output(driver);
                true
            }
            Request::AgentForwarding { .. }
            | Request::X11 { .. }
            | Request::ExitStatus { .. }
            | Request::ExitSignal { .. }
            | Request::Reset
            | Request::Unknown { .. } => false,
        };
        reply(driver, self.id, want_reply, ok);
        self.advance(driver, context)
    }

    /// Takes a variable of the client; the log says why not, at INFO if AcceptEnv names it.
    fn take_variable(&mut self, name: &[u8], value: &[u8], context: &Context<'_>) -> bool {
        let patterns = &context.options.session.accept_env;
        let taken = self.client_environment.accept(patterns, name, value);
        let Err(ignored) = taken else {
            return true;
        };
        let name = String::from_utf8_lossy(name);
        let line = format!("Ignoring env request {name}: {}", ignored.text());
        match ignored {
            IgnoredVariable::Disallowed => context.log.debug2(&line),
            IgnoredVariable::TooMany | IgnoredVariable::TooLong => context.log.info(&line),
        }
        false
    }

    fn open_terminal(
        &mut self,
        term: Vec<u8>,
        size: Size,
        modes: &[u8],
        context: &Context<'_>,
    ) -> bool {
        if self.terminal.is_some() || !matches!(self.stage, CommandStage::Idle) {
            return false;
        }
        if !context.options.session.permit_tty
            || !context.grant.restrictions.permits(Permission::Pty)
        {
            context
                .log
                .verbose("a terminal was asked for and is not permitted");
            return false;
        }
        match Terminal::open(term, size, modes, context) {
            Ok(terminal) => self.terminal = Some(terminal),
            Err(error) => context
                .log
                .error(&format!("cannot allocate a terminal: {error}")),
        }
        self.terminal.is_some()
    }

    /// Sets the terminal's size; false if there is no terminal, or the kernel refuses.
    ///
    /// # Errors
    /// [`RecordingEnded`].
    fn resize(&self, size: Size) -> io::Result<bool> {
        let Some(terminal) = &self.terminal else {
            return Ok(false);
        };
        match terminal.resize(size) {
            Err(error) if RecordingEnded::is_cause_of(&error) => Err(error),
            resized => Ok(resized.is_ok()),
        }
    }

    fn signal(&self, name: &str, context: &Context<'_>) -> bool {
        let CommandStage::Running { child } = &self.stage else {
            return false;
        };
        if self.signals_refused {
            context.log.error(&format!(
                "refused signal {name} for a forced command or subsystem"
            ));
            return false;
        }
        Signal::from_ssh_name(name).is_some_and(|signal| child.signal_group(signal).is_ok())
    }

    /// The client no longer reads: detaches the outputs, so that a command that writes gets an
    /// error as from a closed pipe.
    fn stop_output(&mut self, driver: &mut Driver) {
        if self.terminal.is_none() {
            drop(driver.detach_source(self.id, Stream::Data));
            drop(driver.detach_source(self.id, Stream::Stderr));
        }
    }

    /// Checks whether the channel's child has ended.
    pub(super) fn child_ready(
        &mut self,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        match std::mem::replace(&mut self.stage, CommandStage::Closed) {
            CommandStage::Preparing { mut rc, next } => {
                if rc.try_wait()?.is_none() {
                    self.stage = CommandStage::Preparing { rc, next };
                    return Ok(());
                }
                driver.unwatch(rc.pidfd().as_fd());
                self.run_next(next, driver, context)?;
            }
            CommandStage::Running { mut child } => {
                let Some(status) = child.try_wait()? else {
                    self.stage = CommandStage::Running { child };
                    return Ok(());
                };
                driver.unwatch(child.pidfd().as_fd());
                context.log.debug(&format!(
                    "session channel {} command ended: {status}",
                    self.id.0
                ));
                self.stage = CommandStage::Ended {
                    status,
                    told: false,
                };
            }
            other => self.stage = other,
        }
        self.advance(driver, context)
    }

    /// Wakes the endpoint: the SFTP thread has answers or has ended.
    pub(super) fn files_ready(&self, driver: &mut Driver) {
        if let Some(files) = self.files() {
            // Draining an eventfd does not fail.
            let _ = files.waker().drain();
            driver.wake_endpoint(self.id);
        }
    }

    fn unwatch_files(&self, driver: &mut Driver) {
        if let Some(files) = self.files() {
            driver.unwatch(files.waker().as_fd());
        }
    }

    /// The channel's SFTP thread, if there is one.
    pub(super) fn files(&self) -> Option<Arc<SftpThread>> {
        match &self.stage {
            CommandStage::Serving { files } => files.clone(),
            _ => None,
        }
    }

    /// The SFTP server has ended.
    pub(super) fn endpoint_ended(
        &mut self,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let status = driver
            .endpoint::<SftpHandler>(self.id)
            .map_or(0, |endpoint| endpoint.status());
        drop(driver.detach_endpoint(self.id));
        self.unwatch_files(driver);
        if matches!(self.stage, CommandStage::Serving { .. }) {
            self.stage = CommandStage::Ended {
                status: ExitStatus::Exited(status),
                told: false,
            };
        }
        self.advance(driver, context)
    }

    /// One of the command's outputs has ended.
    pub(super) fn source_ended(
        &mut self,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        self.advance(driver, context)
    }

    /// The command's input has ended: the client sent EOF, or nobody reads it (`failed`).
    pub(super) fn sink_ended(&mut self, failed: bool, driver: &mut Driver, context: &Context<'_>) {
        if failed && context.knows_eow && !matches!(self.stage, CommandStage::Closed) {
            let _ = driver
                .connection()
                .channel_request(self.id, &Request::Eow, false);
        }
    }

    /// Takes every step that is possible now: sends queued text, attaches the outputs, sends the
    /// exit status, closes the channel.
    pub(super) fn advance(&mut self, driver: &mut Driver, context: &Context<'_>) -> io::Result<()> {
        if !self.send_text(driver)? {
            return Ok(());
        }
        if let Some(outputs) = self.unattached.take() {
            outputs.attach(driver, self.id)?;
        }
        let CommandStage::Ended { status, told } = self.stage else {
            return Ok(());
        };
        drop(driver.detach_sink(self.id, Stream::Data));
        if !self.has_no_source(driver) && (self.terminal.is_some() || !told) {
            if stdio::has_more(driver, self.id)? {
                let at = driver.now().saturating_add(self.drain_ms);
                self.drain_ms = (self.drain_ms * 2).min(DRAIN_MS.1);
                driver.set_timer(Token::Drain(self.serial).number(), Some(at));
                return Ok(());
            }
            if self.terminal.is_some() {
                drop(driver.detach_source(self.id, Stream::Data));
            }
        }
        if !told {
            let _ = driver
                .connection()
                .channel_request(self.id, &exit::request(status), false);
            self.stage = CommandStage::Ended { status, told: true };
        }
        if self.has_no_source(driver) {
            self.close(driver, context);
        }
        Ok(())
    }

    /// Sends `unsent` as far as possible; returns true if it is empty.
    fn send_text(&mut self, driver: &mut Driver) -> io::Result<bool> {
        let stream = self.words_to;
        while !self.unsent.is_empty() {
            match driver
                .connection()
                .channel_send_slice(self.id, stream, &self.unsent)
            {
                Ok(0) => {
                    let at = driver.now().saturating_add(DRAIN_MS.1);
                    driver.set_timer(Token::Drain(self.serial).number(), Some(at));
                    return Ok(false);
                }
                Ok(count) => {
                    let rest = self.unsent.split_off(count.min(self.unsent.len()));
                    if let Some(terminal) = &self.terminal {
                        terminal.record(&self.unsent)?;
                    }
                    self.unsent = rest;
                }
                // The channel is on its way out.
                Err(_) => self.unsent.clear(),
            }
        }
        Ok(true)
    }

    /// Ends the channel at once, because it is unused for too long. A terminal hangs up on its programs.
    pub(super) fn expire(&mut self, driver: &mut Driver, context: &Context<'_>) {
        self.unsent.clear();
        self.abort_files(driver);
        self.release_terminal(driver, context);
        let _ = driver.connection().channel_eof(self.id);
        let _ = driver.connection().channel_close(self.id);
    }

    fn has_no_source(&self, driver: &Driver) -> bool {
        self.unattached.is_none()
            && !driver.has_source(self.id, Stream::Data)
            && !driver.has_source(self.id, Stream::Stderr)
    }

    fn close(&mut self, driver: &mut Driver, context: &Context<'_>) {
        let _ = driver.connection().channel_eof(self.id);
        let _ = driver.connection().channel_close(self.id);
        driver.set_timer(Token::Drain(self.serial).number(), None);
        self.stage = CommandStage::Closed;
        self.release_terminal(driver, context);
    }

    /// Closes every copy of the terminal's master, after which the kernel hangs up on its remaining
    /// users.
    fn release_terminal(&mut self, driver: &mut Driver, context: &Context<'_>) {
        self.unattached = None;
        drop(driver.detach_sink(self.id, Stream::Data));
        drop(driver.detach_source(self.id, Stream::Data));
        drop(driver.detach_source(self.id, Stream::Stderr));
        if let Some(terminal) = self.terminal.take() {
            terminal.release(context);
        }
    }

    /// The client has closed the channel. A command that still writes finds its pipes closed; one whose
    /// output has ended gets `STATUS_MS` to end, so that its status can be sent.
    pub(super) fn peer_closed(
        &mut self,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let output_is_over = self.has_no_source(driver);
        self.peer_closed = true;
        self.unsent.clear();
        self.unattached = None;
        drop(driver.detach_source(self.id, Stream::Data));
        drop(driver.detach_source(self.id, Stream::Stderr));
        match &self.stage {
            CommandStage::Ended { .. } => self.advance(driver, context),
            CommandStage::Serving { .. } => {
                self.abort_files(driver);
                Ok(())
            }
            CommandStage::Running { .. } if output_is_over => {
                let at = driver.now().saturating_add(STATUS_MS);
                driver.set_timer(Token::Drain(self.serial).number(), Some(at));
                Ok(())
            }
            CommandStage::Idle
            | CommandStage::Preparing { .. }
            | CommandStage::Running { .. }
            | CommandStage::Closed => {
                let _ = driver.connection().channel_close(self.id);
                Ok(())
            }
        }
    }

    /// For SFTP: no answers are sent any more, but received requests are completed.
    pub(super) fn abort_files(&self, driver: &mut Driver) {
        if let Some(endpoint) = driver.endpoint::<SftpHandler>(self.id) {
            endpoint.abort();
        }
    }

    /// Handles the timer [`Token::Drain`].
    pub(super) fn timer(&mut self, driver: &mut Driver, context: &Context<'_>) -> io::Result<()> {
        if self.peer_closed && matches!(self.stage, CommandStage::Running { .. }) {
            let _ = driver.connection().channel_close(self.id);
            return Ok(());
        }
        self.advance(driver, context)
    }

    /// Ends the channel and returns a child that still runs. The end of a terminal hangs up on its programs. A command
    /// without one gets no signal: it sees the ends of its pipes, and what it has started in the background goes on,
    /// as with OpenSSH (the server of VS Code is such a program).
    pub(super) fn hang_up(mut self, driver: &mut Driver, context: &Context<'_>) -> Option<Orphan> {
        let (whose, id) = (context.whose(), self.id.0);
        context
            .log
            .verbose(&format!("Close session: user {whose} id {id}"));
        driver.set_timer(Token::Drain(self.serial).number(), None);
        if let (CommandStage::Preparing { rc, .. }, Some(_)) = (&self.stage, &self.terminal) {
            // It has a session of its own, which the terminal's end does not reach.
            let _ = rc.signal_group(Signal::HUP);
        }
        self.release_terminal(driver, context);
        self.unwatch_files(driver);
        drop(driver.detach_endpoint(self.id));
        let (CommandStage::Running { child } | CommandStage::Preparing { rc: child, .. }) =
            self.stage
        else {
            return None;
        };
        Some(Orphan {
            serial: self.serial,
            child,
        })
    }
}

fn reply(driver: &mut Driver, channel: ChannelId, wanted: bool, ok: bool) {
    if wanted {
        let _ = driver.connection().channel_reply(channel, ok);
    }
}
