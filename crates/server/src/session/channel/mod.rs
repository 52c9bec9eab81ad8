//! One `session` channel (RFC 4254 §6): at most one terminal, at most one command, and the
//! order in which what the command wrote, how it ended, EOF and CLOSE reach the client.
//!
//! A command on a terminal is over when it has ended and what it wrote has been read: others
//! that still hold the terminal lose it. A command on pipes is told as ended then too, but its
//! channel stays until the last holder of its output has closed it (both as OpenSSH does).
//!
//! EOF waits for the command's end, even when its output has ended before: a client whose own
//! input is over closes the channel as soon as it sees EOF (OpenSSH's does), and a status that
//! comes behind CLOSE is lost. The answer to the client's CLOSE waits a moment for the status
//! too: dbclient and plink close as soon as they can.
//!
//! [`start`] is the way up to the running command.
//!
//! A command to `proto` that fails here fails because the client has closed the channel: the
//! event that says so is on its way, and does the cleaning up.

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
use super::environment::Environment;
use super::exit;
use super::sftp::{Desk, SftpEndpoint};
use super::stdio::{self, Outputs};
use super::terminal::{Size, Terminal};
use super::token::Token;
use start::Next;

/// First and longest wait until an ended command's output is looked at again, in milliseconds.
/// While the client's window is closed nothing else would tell us.
const DRAIN_MS: (u64, u64) = (2, 250);

/// How long a command whose output is over may take to end after the client's CLOSE, in
/// milliseconds, before its status is given up.
const STATUS_MS: u64 = 1000;

/// How far a channel's command has come.
enum Stage {
    /// None was asked for.
    Idle,
    /// The rc file runs before it.
    Preparing { rc: Child, next: Next },
    /// It runs.
    Running { child: Child },
    /// Files are served by this process, with a desk by another thread.
    Serving { desk: Option<Arc<Desk>> },
    /// It has ended; `told` when the client knows how.
    Ended { status: ExitStatus, told: bool },
    /// CLOSE was sent.
    Closed,
}

/// A session channel.
pub(super) struct SessionChannel {
    id: ChannelId,
    client_environment: Environment,
    terminal: Option<Terminal>,
    stage: Stage,
    /// Of the child in `stage`.
    serial: u64,
    signals_refused: bool,
    /// Text of ours that goes before what the command writes, or in its place.
    unsent: Vec<u8>,
    /// The stream of that text.
    words_to: Stream,
    /// Waits for `unsent` to be sent.
    unattached: Option<Outputs>,
    drain_ms: u64,
    /// The client takes no more data, and waits for our CLOSE.
    peer_closed: bool,
}

/// A child whose channel is gone, to be waited for.
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
            stage: Stage::Idle,
            serial: 0,
            signals_refused: false,
            unsent: Vec::new(),
            words_to: Stream::Data,
            unattached: None,
            drain_ms: DRAIN_MS.0,
            peer_closed: false,
        }
    }

    /// Whether `serial` is that of this channel's child.
    pub(super) fn owns(&self, serial: u64) -> bool {
        self.serial == serial && !matches!(self.stage, Stage::Idle | Stage::Closed)
    }

    /// Carries a request out and answers it.
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
                matches!(self.stage, Stage::Idle)
                    && self
                        .client_environment
                        .accept(&context.options.accept_env, &name, &value)
            }
            Request::WindowChange {
                columns,
                rows,
                width_px,
                height_px,
            } => {
                let size = Size {
                    columns,
                    rows,
                    width_px,
                    height_px,
                };
                self.terminal
                    .as_ref()
                    .is_some_and(|terminal| terminal.resize(size).is_ok())
            }
            Request::Signal { name } => self.signal(&name, context),
            // RFC 4335. A pseudo-terminal has no line: Linux takes a break on it and does nothing.
            Request::Break { .. } => self.terminal.is_some(),
            Request::Eow => {
                self.stop_output(driver);
                true
            }
            Request::ExitStatus { .. } | Request::ExitSignal { .. } | Request::Unknown { .. } => {
                false
            }
        };
        reply(driver, self.id, want_reply, ok);
        self.advance(driver, context)
    }

    fn open_terminal(
        &mut self,
        term: Vec<u8>,
        size: Size,
        modes: &[u8],
        context: &Context<'_>,
    ) -> bool {
        if self.terminal.is_some() || !matches!(self.stage, Stage::Idle) {
            return false;
        }
        if !context.options.permit_tty || context.grant.restrictions.no_pty {
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

    fn signal(&self, name: &str, context: &Context<'_>) -> bool {
        let Stage::Running { child } = &self.stage else {
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

    /// The client reads no more: a command that writes on learns it as from a closed pipe.
    fn stop_output(&mut self, driver: &mut Driver) {
        if self.terminal.is_none() {
            drop(driver.detach_source(self.id, Stream::Data));
            drop(driver.detach_source(self.id, Stream::Stderr));
        }
    }

    /// A child of this channel may have ended.
    pub(super) fn child_ready(
        &mut self,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Closed) {
            Stage::Preparing { mut rc, next } => {
                if rc.try_wait()?.is_none() {
                    self.stage = Stage::Preparing { rc, next };
                    return Ok(());
                }
                driver.unwatch(rc.pidfd().as_fd());
                self.run_next(next, driver, context)?;
            }
            Stage::Running { mut child } => {
                let Some(status) = child.try_wait()? else {
                    self.stage = Stage::Running { child };
                    return Ok(());
                };
                driver.unwatch(child.pidfd().as_fd());
                context.log.debug(&format!(
                    "session channel {} command ended: {status}",
                    self.id.0
                ));
                self.stage = Stage::Ended {
                    status,
                    told: false,
                };
            }
            other => self.stage = other,
        }
        self.advance(driver, context)
    }

    /// The thread that works with files has something for the channel.
    pub(super) fn files_ready(&self, driver: &mut Driver) {
        if let Some(desk) = self.files() {
            // Fails for no counter.
            let _ = desk.bell().drain();
            driver.wake_endpoint(self.id);
        }
    }

    fn unwatch_files(&self, driver: &mut Driver) {
        if let Some(desk) = self.files() {
            driver.unwatch(desk.bell().as_fd());
        }
    }

    /// Where a thread works with files for this channel.
    pub(super) fn files(&self) -> Option<Arc<Desk>> {
        match &self.stage {
            Stage::Serving { desk } => desk.clone(),
            _ => None,
        }
    }

    /// The server of files is done.
    pub(super) fn endpoint_ended(
        &mut self,
        driver: &mut Driver,
        context: &Context<'_>,
    ) -> io::Result<()> {
        let status = driver
            .endpoint::<SftpEndpoint>(self.id)
            .map_or(0, |endpoint| endpoint.status());
        drop(driver.detach_endpoint(self.id));
        self.unwatch_files(driver);
        if matches!(self.stage, Stage::Serving { .. }) {
            self.stage = Stage::Ended {
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

    /// The command's input has ended: at the client's wish, or because nobody reads it.
    pub(super) fn sink_ended(&mut self, failed: bool, driver: &mut Driver, context: &Context<'_>) {
        if failed && context.knows_eow && !matches!(self.stage, Stage::Closed) {
            let _ = driver
                .connection()
                .channel_request(self.id, &Request::Eow, false);
        }
    }

    /// Does whatever has become possible: sends waiting text, joins the streams to the channel,
    /// tells how the command ended, closes.
    pub(super) fn advance(&mut self, driver: &mut Driver, context: &Context<'_>) -> io::Result<()> {
        if !self.send_text(driver) {
            return Ok(());
        }
        if let Some(outputs) = self.unattached.take() {
            outputs.attach(driver, self.id)?;
        }
        let Stage::Ended { status, told } = self.stage else {
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
            self.stage = Stage::Ended { status, told: true };
        }
        if self.has_no_source(driver) {
            self.close(driver, context);
        }
        Ok(())
    }

    /// Sends what it can of our own text; true when nothing of it is left.
    fn send_text(&mut self, driver: &mut Driver) -> bool {
        let stream = self.words_to;
        while !self.unsent.is_empty() {
            match driver
                .connection()
                .channel_send_slice(self.id, stream, &self.unsent)
            {
                Ok(0) => {
                    let at = driver.now().saturating_add(DRAIN_MS.1);
                    driver.set_timer(Token::Drain(self.serial).number(), Some(at));
                    return false;
                }
                Ok(count) => drop(self.unsent.drain(..count.min(self.unsent.len()))),
                // The channel is on its way out.
                Err(_) => self.unsent.clear(),
            }
        }
        true
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
        self.stage = Stage::Closed;
        self.release_terminal(driver, context);
    }

    /// Lets go of the terminal: every copy of the master goes, and with the last one the kernel
    /// hangs up on whoever still uses it.
    fn release_terminal(&mut self, driver: &mut Driver, context: &Context<'_>) {
        self.unattached = None;
        drop(driver.detach_sink(self.id, Stream::Data));
        drop(driver.detach_source(self.id, Stream::Data));
        drop(driver.detach_source(self.id, Stream::Stderr));
        if let Some(terminal) = self.terminal.take() {
            terminal.release(context);
        }
    }

    /// The client has closed the channel; ours to close now. A command that still writes is hung
    /// up on, one whose output is over gets a moment to end, so that its status is told.
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
            Stage::Ended { .. } => self.advance(driver, context),
            Stage::Serving { .. } => {
                self.desert_files(driver);
                Ok(())
            }
            Stage::Running { .. } if output_is_over => {
                let at = driver.now().saturating_add(STATUS_MS);
                driver.set_timer(Token::Drain(self.serial).number(), Some(at));
                Ok(())
            }
            Stage::Idle | Stage::Preparing { .. } | Stage::Running { .. } | Stage::Closed => {
                let _ = driver.connection().channel_close(self.id);
                Ok(())
            }
        }
    }

    /// Where files are served: nobody takes answers any more, and what was asked for is to be done.
    pub(super) fn desert_files(&self, driver: &mut Driver) {
        if let Some(endpoint) = driver.endpoint::<SftpEndpoint>(self.id) {
            endpoint.desert();
        }
    }

    /// The time of [`Token::Drain`] has come.
    pub(super) fn timer(&mut self, driver: &mut Driver, context: &Context<'_>) -> io::Result<()> {
        if self.peer_closed && matches!(self.stage, Stage::Running { .. }) {
            let _ = driver.connection().channel_close(self.id);
            return Ok(());
        }
        self.advance(driver, context)
    }

    /// The client is gone, or has closed the channel: hangs up on the command. What still runs
    /// then is returned, to be waited for.
    pub(super) fn hang_up(mut self, driver: &mut Driver, context: &Context<'_>) -> Option<Orphan> {
        let (whose, id) = (context.whose(), self.id.0);
        context
            .log
            .verbose(&format!("Close session: user {whose} id {id}"));
        driver.set_timer(Token::Drain(self.serial).number(), None);
        self.release_terminal(driver, context);
        self.unwatch_files(driver);
        drop(driver.detach_endpoint(self.id));
        let (Stage::Running { child } | Stage::Preparing { rc: child, .. }) = self.stage else {
            return None;
        };
        let _ = child.signal_group(Signal::HUP);
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
