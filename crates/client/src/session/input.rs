//! Typed input, from the terminal through the escape filter to the channel.

use std::io;

use driver::Driver;
use proto::channel::Request;
use proto::{ChannelId, Error, Stream};
use sys::signals::Signal;

use super::keystroke_timer::{KeystrokeAction, KeystrokeTimer, PING_DATA, random};
use super::{FAILURE, Next, RETRY_MS, Session, TOKEN_KEYSTROKES, TOKEN_RETRY, TOKEN_TERMINAL};
use crate::error::ClientError;
use crate::forward::SessionForwards;
use crate::log::{self, debug1, debug2, debug3};
use crate::pipelining::early::Asked;
use crate::plan::Plan;
use crate::report;
use crate::terminal::RawMode;
use crate::terminal::escape::{self, Command, EscapeFilter, Piece};
use crate::text::one_line;

/// Most bytes read from the terminal at once.
const READ_BYTES: usize = 16 * 1024;

/// Typed input that has not been sent.
#[derive(Debug)]
struct TypedInput {
    filter: EscapeFilter,
    waiting: Vec<u8>,
    /// The terminal is not read while earlier input waits.
    paused: bool,
    ended: bool,
}

impl TypedInput {
    fn new(escape: Option<u8>) -> Self {
        Self {
            filter: EscapeFilter::new(escape),
            waiting: Vec::new(),
            paused: false,
            ended: false,
        }
    }
}

/// The terminal while the session has its input.
#[derive(Default)]
pub(super) struct TerminalInput {
    raw: Option<RawMode>,
    typed: Option<TypedInput>,
    /// Set while the timing of keystrokes is hidden.
    keystroke_timer: Option<KeystrokeTimer>,
}

impl TerminalInput {
    /// Reads what is typed from now on.
    pub(super) fn start(&mut self, plan: &Plan, driver: &mut Driver) -> io::Result<()> {
        self.typed = Some(TypedInput::new(plan.escape));
        if let Some(interval_ms) = plan.obscure_keystrokes_ms {
            self.start_keystroke_timer(interval_ms, driver);
        }
        driver.watch(sys::io::stdin(), TOKEN_TERMINAL, true, false)
    }

    /// Reads no more.
    pub(super) fn stop(&mut self, driver: &mut Driver) {
        if self.typed.take().is_some() {
            driver.unwatch(sys::io::stdin());
        }
        if self.keystroke_timer.take().is_some() {
            driver.set_timer(TOKEN_KEYSTROKES, None);
        }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.raw.is_some()
    }

    pub(super) fn enter_raw_mode(&mut self) {
        if self.is_raw() || !sys::io::is_terminal(sys::io::stdin()) {
            return;
        }
        match RawMode::enter() {
            Ok(raw) => {
                self.raw = Some(raw);
                log::set_raw_terminal(true);
            }
            Err(error) => debug1!("cannot make the terminal raw: {error}"),
        }
    }

    pub(super) fn leave_raw_mode(&mut self) {
        if self.raw.take().is_some() {
            log::set_raw_terminal(false);
        }
    }

    /// Makes the terminal raw again after a stop; returns false if it was not raw.
    pub(super) fn resume(&mut self) -> bool {
        let Some(raw) = &mut self.raw else {
            return false;
        };
        if let Err(error) = raw.resume() {
            debug1!("the terminal cannot be made raw again: {error}");
        }
        true
    }

    /// Hides the timing of keystrokes, if the server answers pings.
    fn start_keystroke_timer(&mut self, interval_ms: u32, driver: &mut Driver) {
        if !driver.connection().ping_supported() {
            debug2!("keystroke timing is not hidden: the server does not know ping@openssh.com");
            return;
        }
        debug2!("keystroke timing is hidden: a packet each {interval_ms} ms while typing");
        self.keystroke_timer = Some(KeystrokeTimer::new(interval_ms, random));
    }

    /// Returns false while waiting input may not leave. At a due time without input it sends a
    /// ping.
    fn run_keystroke_timer(&mut self, driver: &mut Driver) -> Result<bool, Error> {
        let waiting_bytes = self.typed.as_ref().map_or(0, |typed| typed.waiting.len());
        let Some(keystroke_timer) = self.keystroke_timer.as_mut() else {
            return Ok(true);
        };
        if waiting_bytes == 0 && keystroke_timer.is_resting() {
            return Ok(true);
        }
        let action = keystroke_timer.next_action(driver.now(), waiting_bytes);
        match action {
            KeystrokeAction::Ping => {
                keystroke_timer.count_ping(driver.connection().send_ping(PING_DATA)?);
            }
            KeystrokeAction::Rest => debug3!(
                "keystroke timing: at rest after {} pings",
                keystroke_timer.pings()
            ),
            KeystrokeAction::Keys | KeystrokeAction::Wait => {}
        }
        driver.set_timer(TOKEN_KEYSTROKES, keystroke_timer.deadline());
        Ok(action != KeystrokeAction::Wait)
    }
}

impl Session<'_> {
    pub(super) fn read_terminal(&mut self) -> Result<Next, ClientError> {
        let Some(typed) = self.terminal.typed.as_mut() else {
            return Ok(Next::Continue);
        };
        if typed.ended || typed.paused {
            return Ok(Next::Continue);
        }
        let mut buffer = [0_u8; READ_BYTES];
        let count = match sys::io::read(sys::io::stdin(), &mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                return Ok(Next::Continue);
            }
            Err(error) => {
                debug1!("reading the terminal failed: {error}");
                0
            }
        };
        if count == 0 {
            typed.ended = true;
            self.driver.unwatch(sys::io::stdin());
            return Ok(Next::Continue);
        }
        let pieces = typed.filter.filter(buffer.get(..count).unwrap_or_default());
        for piece in pieces {
            match piece {
                Piece::Bytes(bytes) => {
                    if let Some(typed) = self.terminal.typed.as_mut() {
                        typed.waiting.extend_from_slice(&bytes);
                    }
                }
                Piece::Command(command) => {
                    // Input typed before the escape is sent before the escape acts.
                    self.send_typed()?;
                    if let Next::Finish(code) = self.escape_command(command)? {
                        return Ok(Next::Finish(code));
                    }
                }
            }
        }
        Ok(Next::Continue)
    }

    /// Sends waiting input when its time has come.
    pub(super) fn offer_typed(&mut self) -> Result<(), ClientError> {
        let due = self.terminal.run_keystroke_timer(self.driver);
        if due.map_err(|error| self.misuse(error))? {
            self.send_typed()?;
        }
        Ok(())
    }

    /// Sends waiting input, as far as the channel takes it.
    fn send_typed(&mut self) -> Result<(), ClientError> {
        let Some(channel) = self.channel else {
            return Ok(());
        };
        let Some(typed) = self.terminal.typed.as_mut() else {
            return Ok(());
        };
        while !typed.waiting.is_empty() {
            let sent = self
                .driver
                .connection()
                .channel_send_slice(channel, Stream::Data, &typed.waiting)
                .map_err(|error| ClientError::Lost {
                    peer: self.peer.clone(),
                    error: driver::DriverError::Proto(error),
                })?;
            if sent == 0 {
                break;
            }
            typed.waiting.drain(..sent.min(typed.waiting.len()));
        }
        let blocked = !typed.waiting.is_empty();
        let retry = blocked.then(|| self.driver.now() + RETRY_MS);
        if blocked || typed.paused {
            self.driver.set_timer(TOKEN_RETRY, retry);
        }
        if blocked != typed.paused && !typed.ended {
            typed.paused = blocked;
            self.driver
                .watch(sys::io::stdin(), TOKEN_TERMINAL, !blocked, false)
                .map_err(ClientError::system("stdin"))?;
        }
        if typed.ended && !blocked {
            self.terminal.typed = None;
            self.command(|connection| connection.channel_eof(channel))?;
        }
        Ok(())
    }

    fn escape_command(&mut self, command: Command) -> Result<Next, ClientError> {
        let escape = self
            .terminal
            .typed
            .as_ref()
            .and_then(|typed| typed.filter.escape())
            .unwrap_or(b'~');
        let shown = escape::show(escape);
        match command {
            Command::Disconnect => {
                log::tell(&format!("{shown}.\n"));
                self.outcome.started = true;
                return Ok(Next::Finish(FAILURE));
            }
            Command::Suspend => {
                log::tell(&format!("{shown}^Z [suspend ssh]\n"));
                self.suspend()?;
            }
            Command::Break => {
                log::tell(&format!("{shown}B\n"));
                if let Some(channel) = self.open_channel() {
                    let request = Request::Break { ms: 1000 };
                    self.request(channel, &request, true)?;
                    self.startup.asked.push_back(Asked::Break);
                }
            }
            Command::Rekey => {
                let now = self.driver.now();
                debug1!("rekeying as asked with {shown}R");
                self.command(|connection| connection.rekey(now))?;
            }
            Command::Louder | Command::Quieter => {
                let level = match command {
                    Command::Louder => log::level().louder(),
                    _ => log::level().quieter(),
                };
                log::set_level(level);
                log::tell(&format!("{shown}V [LogLevel {}]\n", level.name()));
            }
            Command::ListChannels => {
                log::tell(&format!("{shown}#\n"));
                log::tell("The following channels are open:\n");
                if let Some(ChannelId(number)) = self.open_channel() {
                    log::tell(&format!("  #{number} session\n"));
                }
                for (ChannelId(number), text) in
                    self.forwards.iter().flat_map(SessionForwards::lines)
                {
                    log::tell(&format!("  #{number} {}\n", one_line(text)));
                }
            }
            Command::Status => {
                log::tell(&format!("{shown}s\n"));
                for line in self.status() {
                    log::tell(&format!("  {line}\n"));
                }
            }
            Command::Help => {
                log::tell(&format!("{shown}?\n"));
                log::tell(&escape::help(escape));
            }
        }
        Ok(Next::Continue)
    }

    /// The lines of `~s`: peer, algorithms, byte counts and compression.
    fn status(&mut self) -> Vec<String> {
        let (received, sent) = self.driver.wire_bytes();
        let host = one_line(&self.peer.host);
        let mut lines = vec![format!("connected to {host} ({})", self.peer)];
        let connection = self.driver.connection();
        if let Some(negotiated) = connection.negotiated() {
            let (kex, host_key) = (negotiated.kex, negotiated.host_key);
            lines.push(format!("key exchange {kex}, host key {host_key}"));
            for (name, direction) in [
                ("outgoing", &negotiated.client_to_server),
                ("incoming", &negotiated.server_to_client),
            ] {
                lines.push(format!(
                    "{name}: cipher {}, MAC {}, compression {}",
                    direction.cipher, direction.mac, direction.compression
                ));
            }
        }
        lines.push(format!("{received} bytes received, {sent} sent"));
        lines.extend(report::compression_lines(connection));
        lines
    }

    fn open_channel(&mut self) -> Option<ChannelId> {
        let channel = self.channel?;
        self.driver
            .connection()
            .channel_is_open(channel)
            .then_some(channel)
    }

    /// Gives the terminal back to the shell and stops the process; resumes when it is continued.
    fn suspend(&mut self) -> Result<(), ClientError> {
        let system = ClientError::system;
        if let Some(raw) = &mut self.terminal.raw {
            raw.suspend().map_err(system("suspend"))?;
        }
        // The shell expects blocking streams, as it passed them.
        let restore = super::StdioFlags::blocking();
        sys::signals::raise_default(Signal::TSTP).map_err(system("suspend"))?;
        drop(restore);
        if let Some(raw) = &mut self.terminal.raw {
            raw.resume().map_err(system("resume"))?;
        }
        self.send_window_size()
    }
}
