//! Typed input of passengers: from their terminals through the escape filter to their channels, and
//! the escapes that a passenger has.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use driver::Driver;
use proto::channel::Request;
use proto::{ChannelId, Stream};

use super::{Master, TOKEN_KEYSTROKES, TOKEN_RETRY, TOKEN_TYPED};
use crate::error::ClientError;
use crate::keystroke_timer::KeystrokeTimer;
use crate::log::debug1;
use crate::pipelining::early::Asked;
use crate::terminal::escape::{self, Command, EscapeFilter, Piece, Typist};

/// Most bytes read from a terminal at once.
const READ_BYTES: usize = 16 * 1024;
/// Delay before input is offered again to a channel that takes no more, milliseconds.
const RETRY_MS: u64 = 20;

/// A passenger's terminal as the source of its channel.
#[derive(Debug)]
pub(super) struct TypedSource {
    fd: OwnedFd,
    filter: EscapeFilter,
    waiting: Vec<u8>,
    /// The terminal is not read while earlier input waits.
    is_paused: bool,
    has_ended: bool,
    /// Set while the timing of keystrokes is hidden.
    keystroke_timer: Option<KeystrokeTimer>,
}

impl TypedSource {
    /// A terminal whose keystrokes are hidden by `keystroke_timer`. A terminal that could not be
    /// opened once more gets `O_NONBLOCK` until the session's end: another process may take the
    /// input that epoll has reported.
    pub(super) fn new(
        fd: OwnedFd,
        escape: Option<u8>,
        keystroke_timer: Option<KeystrokeTimer>,
    ) -> Self {
        let _ = sys::io::set_nonblocking(&fd, true);
        Self {
            fd,
            filter: EscapeFilter::new(escape),
            waiting: Vec::new(),
            is_paused: false,
            has_ended: false,
            keystroke_timer,
        }
    }

    /// Reads from now on.
    pub(super) fn watch(&self, serial: u64, driver: &mut Driver) -> io::Result<()> {
        let wanted = !self.is_paused && !self.has_ended;
        driver.watch(self.fd.as_fd(), TOKEN_TYPED + serial, wanted, false)
    }

    /// Reads no more.
    pub(super) fn unwatch(&self, serial: u64, driver: &mut Driver) {
        driver.unwatch(self.fd.as_fd());
        driver.set_timer(TOKEN_RETRY + serial, None);
        driver.set_timer(TOKEN_KEYSTROKES + serial, None);
    }

    /// Returns false while waiting input may not leave. Input typed before the terminal's end does
    /// not wait.
    fn is_due(&mut self, serial: u64, driver: &mut Driver) -> Result<bool, proto::Error> {
        match &mut self.keystroke_timer {
            Some(timer) if !self.has_ended => {
                timer.run(self.waiting.len(), TOKEN_KEYSTROKES + serial, driver)
            }
            _ => Ok(true),
        }
    }

    /// Reads what has been typed; nothing at the end.
    fn read(&mut self) -> Vec<Piece> {
        let mut buffer = [0_u8; READ_BYTES];
        match sys::io::read(&self.fd, &mut buffer) {
            Ok(count @ 1..) => self.filter.filter(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Vec::new(),
            end => {
                debug1!("a passenger's terminal has ended: {end:?}");
                self.has_ended = true;
                Vec::new()
            }
        }
    }
}

impl Master {
    /// The channel of the session of this passenger.
    fn channel_of(&self, serial: u64) -> Option<ChannelId> {
        let mut sessions = self.sessions.iter();
        sessions.find_map(|(id, session)| (session.passenger() == Some(serial)).then_some(*id))
    }

    fn typed_mut(&mut self, serial: u64) -> Option<(ChannelId, &mut TypedSource)> {
        let channel = self.channel_of(serial)?;
        let session = self.sessions.get_mut(&channel)?;
        Some((channel, session.typed.as_mut()?))
    }

    pub(super) fn read_typed(
        &mut self,
        serial: u64,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let Some((_, typed)) = self.typed_mut(serial) else {
            return Ok(());
        };
        if typed.is_paused || typed.has_ended {
            return Ok(());
        }
        for piece in typed.read() {
            match piece {
                Piece::Bytes(bytes) => {
                    if let Some((_, typed)) = self.typed_mut(serial) {
                        typed.waiting.extend(bytes);
                    }
                }
                Piece::Command(command) => {
                    // Input typed before the escape is sent before the escape acts.
                    self.send_typed(serial, driver)?;
                    self.escape(serial, command, driver)?;
                }
            }
        }
        self.offer_typed(serial, driver)
    }

    /// Sends waiting input when its time has come.
    pub(super) fn offer_typed(
        &mut self,
        serial: u64,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let typed = self.typed_mut(serial);
        let is_due = typed.map(|(_, typed)| typed.is_due(serial, driver));
        match is_due.transpose().map_err(super::misuse)? {
            Some(true) => self.send_typed(serial, driver),
            Some(false) | None => Ok(()),
        }
    }

    /// Sends waiting input, as far as the channel takes it.
    pub(super) fn send_typed(
        &mut self,
        serial: u64,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let Some((channel, typed)) = self.typed_mut(serial) else {
            return Ok(());
        };
        let connection = driver.connection();
        while !typed.waiting.is_empty() && connection.channel_is_open(channel) {
            let sent = connection.channel_send_slice(channel, Stream::Data, &typed.waiting);
            match sent.map_err(super::misuse)? {
                0 => break,
                sent => drop(typed.waiting.drain(..sent.min(typed.waiting.len()))),
            }
        }
        let is_blocked = !typed.waiting.is_empty();
        if typed.has_ended && !is_blocked {
            if connection.channel_is_open(channel) {
                connection.channel_eof(channel).map_err(super::misuse)?;
            }
            typed.unwatch(serial, driver);
            if let Some(session) = self.sessions.get_mut(&channel) {
                session.typed = None;
            }
            return Ok(());
        }
        if is_blocked || typed.is_paused {
            let retry = is_blocked.then(|| driver.now() + RETRY_MS);
            driver.set_timer(TOKEN_RETRY + serial, retry);
        }
        if is_blocked != typed.is_paused || typed.has_ended {
            typed.is_paused = is_blocked;
            let watched = typed.watch(serial, driver);
            return watched.map_err(ClientError::system("terminal"));
        }
        Ok(())
    }

    fn escape(
        &mut self,
        serial: u64,
        command: Command,
        driver: &mut Driver,
    ) -> Result<(), ClientError> {
        let Some((channel, typed)) = self.typed_mut(serial) else {
            return Ok(());
        };
        let escape = typed.filter.escape().unwrap_or(b'~');
        let shown = escape::show(escape);
        let missing =
            |key: &str| format!("{shown}{key} escape not available to multiplexed sessions\r\n");
        let text = match command {
            Command::Disconnect => format!("{shown}.\r\n"),
            Command::Break => format!("{shown}B\r\n"),
            Command::Rekey => {
                debug1!("rekeying as asked with {shown}R");
                let now = driver.now();
                let rekeyed = driver.connection().rekey(now);
                return rekeyed.map_err(super::misuse);
            }
            Command::Help => format!("{shown}?\n{}", escape::help(escape, Typist::Passenger))
                .replace('\n', "\r\n"),
            Command::Suspend => missing("^Z"),
            Command::Background => missing("&"),
            Command::CommandLine => missing("C"),
            Command::Quieter => missing("V"),
            Command::Louder => missing("v"),
            Command::Information | Command::ListChannels | Command::Status => {
                self.escapes.push((serial, command));
                return Ok(());
            }
        };
        self.tell(serial, &text);
        match command {
            Command::Disconnect => self.drop_session(channel, driver),
            Command::Break => {
                let connection = driver.connection();
                let request = Request::Break { ms: 1000 };
                if connection.channel_is_open(channel) {
                    connection
                        .channel_request(channel, &request, true)
                        .map_err(super::misuse)?;
                    if let Some(session) = self.sessions.get_mut(&channel) {
                        session.asked.push_back(Asked::Break);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The escapes whose text the session is to make, with their passengers.
    pub(crate) fn take_escapes(&mut self) -> Vec<(u64, Command)> {
        std::mem::take(&mut self.escapes)
    }

    /// Shows text on the passenger's standard error.
    pub(crate) fn tell(&self, serial: u64, text: &str) {
        let session = self.channel_of(serial);
        let session = session.and_then(|channel| self.sessions.get(&channel));
        if let Some(session) = session {
            session.tell(text);
        }
    }

    /// A signal has reported a change of a window: tells the server the size of each terminal.
    pub(crate) fn send_window_sizes(&self, driver: &mut Driver) -> Result<(), ClientError> {
        for (channel, session) in &self.sessions {
            let connection = driver.connection();
            let Some(size) = session.window_size() else {
                continue;
            };
            if connection.channel_is_open(*channel) && session.is_open {
                let request = Request::WindowChange {
                    columns: size.columns,
                    rows: size.rows,
                    width_px: size.width_px,
                    height_px: size.height_px,
                };
                connection
                    .channel_request(*channel, &request, false)
                    .map_err(super::misuse)?;
            }
        }
        Ok(())
    }
}
