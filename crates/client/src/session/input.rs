//! Typed input, from the terminal through the escape filter to the channel.

use std::io;

use driver::Driver;
use proto::channel::Request;
use proto::{ChannelId, Error, Stream};
use sys::signals::Signal;

use super::{
    ClientSession, FAILURE, Next, RETRY_MS, TOKEN_KEYSTROKES, TOKEN_RETRY, TOKEN_TERMINAL,
};
use crate::connect::plain_reason;
use crate::error::ClientError;
use crate::keystroke_timer::KeystrokeTimer;
use crate::log::{self, debug1, error};
use crate::pipelining::early::Asked;
use crate::plan::Plan;
use crate::terminal::RawMode;
use crate::terminal::escape::{self, Command, EscapeFilter, Piece};

/// Most bytes read from the terminal at once.
const READ_BYTES: usize = 16 * 1024;

/// The character that ends the input of most shells.
const END_OF_FILE: u8 = 4;

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
    /// The line of `~C` that is being typed, with the terminal in its own mode.
    line: Option<Vec<u8>>,
    /// Set while the timing of keystrokes is hidden.
    keystroke_timer: Option<KeystrokeTimer>,
}

impl TerminalInput {
    /// Reads what is typed from now on.
    pub(super) fn start(&mut self, plan: &Plan, driver: &mut Driver) -> io::Result<()> {
        self.typed = Some(TypedInput::new(plan.escape));
        if !sys::io::is_terminal(sys::io::stdin()) {
            // Another process may take the input that epoll has reported.
            sys::io::set_nonblocking(sys::io::stdin(), true)?;
        } else if let Some(interval_ms) = plan.obscure_keystrokes_ms {
            self.keystroke_timer = KeystrokeTimer::start(interval_ms, driver);
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
        if !self.is_raw() {
            self.raw = RawMode::of_stdin();
        }
    }

    pub(super) fn leave_raw_mode(&mut self) {
        self.line = None;
        if self.raw.take().is_some() {
            log::set_raw_terminal(false);
        }
    }

    /// Gives the terminal its own mode for a line of input.
    pub(super) fn begin_line(&mut self) -> Result<(), ClientError> {
        if let Some(raw) = &mut self.raw {
            raw.suspend().map_err(ClientError::system("terminal"))?;
        }
        log::set_raw_terminal(false);
        self.line = Some(Vec::new());
        Ok(())
    }

    /// The line that is being typed.
    pub(super) fn line_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.line.as_mut()
    }

    /// Makes the terminal raw again after a line of input.
    pub(super) fn end_line(&mut self) {
        self.line = None;
        log::set_raw_terminal(self.is_raw());
        self.resume();
    }

    /// Adds bytes for the server to those that wait.
    pub(super) fn type_bytes(&mut self, bytes: &[u8]) {
        if let Some(typed) = &mut self.typed {
            typed.waiting.extend_from_slice(bytes);
        }
    }

    /// Ends the input: what waits and an end-of-file character are the last bytes for the server.
    fn end_input(&mut self, driver: &mut Driver) {
        if let Some(typed) = &mut self.typed {
            typed.waiting.push(END_OF_FILE);
            typed.ended = true;
            driver.unwatch(sys::io::stdin());
        }
    }

    /// Makes the terminal raw again after a stop; returns false if it was not raw.
    pub(super) fn resume(&mut self) -> bool {
        let Some(raw) = self.raw.as_mut().filter(|_| self.line.is_none()) else {
            return false;
        };
        if let Err(error) = raw.resume() {
            debug1!("the terminal cannot be made raw again: {error}");
        }
        true
    }

    /// Returns false while waiting input may not leave.
    fn run_keystroke_timer(&mut self, driver: &mut Driver) -> Result<bool, Error> {
        let waiting_bytes = self.typed.as_ref().map_or(0, |typed| typed.waiting.len());
        match &mut self.keystroke_timer {
            Some(timer) => timer.run(waiting_bytes, TOKEN_KEYSTROKES, driver),
            None => Ok(true),
        }
    }
}

impl ClientSession<'_> {
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
        let read = buffer.get(..count).unwrap_or_default();
        if self.terminal.line.is_some() {
            return self.take_line_input(read).map(|()| Next::Continue);
        }
        if count == 0 {
            typed.ended = true;
            self.driver.unwatch(sys::io::stdin());
            return Ok(Next::Continue);
        }
        let pieces = typed.filter.filter(read);
        for piece in pieces {
            match piece {
                // Typed after `~C`, but before the terminal could show it.
                Piece::Bytes(bytes) if self.terminal.line.is_some() => {
                    let text = String::from_utf8_lossy(&bytes).replace('\r', "\n");
                    log::tell(&text);
                    self.take_line_input(&bytes)?;
                }
                Piece::Bytes(bytes) => self.terminal.type_bytes(&bytes),
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
            Command::Background => return self.leave_for_background(&shown),
            Command::CommandLine => self.open_command_line()?,
            Command::Information | Command::ListChannels | Command::Status => {
                log::tell(&self.escape_text(command));
            }
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
                let (key, level) = match command {
                    Command::Louder => ('v', log::level().louder()),
                    _ => ('V', log::level().quieter()),
                };
                log::set_level(level);
                log::tell(&format!("{shown}{key} [LogLevel {}]\n", level.name()));
            }
            Command::Help => {
                log::tell(&format!("{shown}?\n"));
                let typist = escape::Typist::Owner(self.plan.command_line);
                log::tell(&escape::help(escape, typist));
            }
        }
        Ok(Next::Continue)
    }

    /// The text of an escape that shows something of the connection.
    pub(super) fn escape_text(&mut self, command: Command) -> String {
        let shown = escape::show(self.plan.escape.unwrap_or(b'~'));
        let (head, lines, tail) = match command {
            Command::Information => {
                let (host, pid) = (sys::socket::host_name(), std::process::id());
                let head = format!("{shown}I\nConnection information for {host} pid {pid}\n");
                (head, self.information(), "\n")
            }
            Command::ListChannels => {
                let head = format!("{shown}#\nThe following connections are open:\n");
                (head, self.channel_lines(), "")
            }
            _ => (format!("{shown}s\n"), self.status(), ""),
        };
        let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        head + &lines + tail
    }

    fn open_channel(&mut self) -> Option<ChannelId> {
        let channel = self.channel?;
        self.driver
            .connection()
            .channel_is_open(channel)
            .then_some(channel)
    }

    /// Ends the session's input and local listeners, and goes on in the background until the last
    /// connection has ended. The parent process ends with 0.
    fn leave_for_background(&mut self, shown: &str) -> Result<Next, ClientError> {
        self.terminal.leave_raw_mode();
        if let Some(forwards) = &mut self.forwards {
            forwards.stop_listening(self.driver);
        }
        log::tell(&format!("{shown}& [backgrounded]\n"));
        // The threads would be lost in the child; the shell expects blocking streams.
        self.driver.end_workers();
        let blocking = super::StdioFlags::blocking();
        if let Err(reason) = sys::process::background() {
            error!("fork: {}", plain_reason(&reason));
            drop(blocking);
            self.terminal.enter_raw_mode();
            return Ok(Next::Continue);
        }
        core::mem::forget(blocking);
        self.renew_signals()?;
        self.terminal.end_input(self.driver);
        Ok(Next::Continue)
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
