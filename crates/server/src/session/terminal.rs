//! The terminal of a session channel: its allocation, size, modes (RFC 4254 §8) and release.

use std::io;
use std::os::fd::OwnedFd;

use privsep::{LastLogin, Message, PtyAllocate, PtyGranted, PtyRefused, PtyRelease};
use sys::terminal::WindowSize;

use super::context::Context;
use super::stdio::{CommandEnd, OurEnd};
use crate::recorder::RecorderPipe;
use crate::rpc::RpcError;

/// Terminal size as on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) columns: u32,
    pub(super) rows: u32,
    pub(super) width_px: u32,
    pub(super) height_px: u32,
}

impl From<Size> for WindowSize {
    fn from(size: Size) -> Self {
        Self::from_wire(size.columns, size.rows, size.width_px, size.height_px)
    }
}

/// A terminal that the client requested.
pub(super) struct Terminal {
    master: OwnedFd,
    /// `None` after the command has taken it.
    slave: Option<OwnedFd>,
    path: String,
    term: Vec<u8>,
    last_login: Option<LastLogin>,
    /// True if the monitor has allocated the terminal and written login records.
    is_monitors: bool,
    recorder: Option<RecorderPipe>,
}

impl Terminal {
    /// Allocates a terminal, through the monitor if that is root, and sets the size and modes that
    /// the client requested.
    pub(super) fn open(
        term: Vec<u8>,
        size: Size,
        modes: &[u8],
        context: &Context<'_>,
    ) -> Result<Self, RpcError> {
        let mut terminal = if context.grant.change_user {
            Self::from_monitor(context)?
        } else {
            Self::our_own(context)?
        };
        terminal.term = term;
        if let Err(error) = terminal.prepare(size, modes) {
            terminal.release(context);
            return Err(error.into());
        }
        context.terminals.borrow_mut().push(terminal.path.clone());
        context.show_terminals();
        Ok(terminal)
    }

    fn prepare(&self, size: Size, modes: &[u8]) -> io::Result<()> {
        sys::terminal::set_window_size(&self.master, size.into())?;
        if let Some(slave) = &self.slave {
            sys::terminal::apply_modes(slave, modes)?;
        }
        if let Some(recorder) = &self.recorder {
            recorder.begin(size.into(), &self.term)?;
        }
        Ok(())
    }

    fn from_monitor(context: &Context<'_>) -> Result<Self, RpcError> {
        let (frame, descriptors) = context.rpc.ask_frame(&PtyAllocate {})?;
        if frame.number == PtyRefused::NUMBER {
            let refused: PtyRefused = frame.decode()?;
            return Err(RpcError::Io(io::Error::other(refused.reason)));
        }
        let granted: PtyGranted = frame.decode()?;
        let mut descriptors = descriptors.into_iter();
        let (Some(master), Some(slave)) = (descriptors.next(), descriptors.next()) else {
            return Err(RpcError::Io(io::Error::other(
                "a terminal came without its descriptors",
            )));
        };
        let recorder = descriptors.next().map(RecorderPipe);
        if recorder.is_none() && context.options.session.record_terminals.is_some() {
            return Err(RpcError::Io(io::Error::other(
                "a terminal came without its recorder",
            )));
        }
        Ok(Self {
            master,
            slave: Some(slave),
            path: granted.tty,
            term: Vec::new(),
            last_login: granted.last_login,
            is_monitors: true,
            recorder,
        })
    }

    fn our_own(context: &Context<'_>) -> io::Result<Self> {
        if context.options.session.record_terminals.is_some() {
            return Err(io::Error::other(
                "RecordTerminals needs a server that was started as root",
            ));
        }
        let pty = sys::pty::Pty::open()?;
        // A system without a group `tty` gives the terminal to the user's own group.
        pty.give_to(context.grant.uid, sys::pty::tty_group())?;
        Ok(Self {
            path: pty.name.to_string_lossy().into_owned(),
            master: pty.master,
            slave: Some(pty.slave),
            term: Vec::new(),
            last_login: None,
            is_monitors: false,
            recorder: None,
        })
    }

    /// Path of the slave, for SSH_TTY and the log.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// TERM as the client sent it.
    pub(super) fn term(&self) -> &[u8] {
        &self.term
    }

    /// The previous login, if it is to be shown.
    pub(super) fn last_login(&self) -> Option<&LastLogin> {
        self.last_login.as_ref()
    }

    /// Returns the command's end and the server's. The command's end can be taken once: this
    /// process must not keep it open after the command has ended.
    pub(super) fn ends(&mut self) -> io::Result<(CommandEnd, OurEnd)> {
        let slave = self
            .slave
            .take()
            .ok_or_else(|| io::Error::other("the terminal is in use"))?;
        Ok((
            CommandEnd::of_terminal(slave)?,
            OurEnd::of_terminal(&self.master, self.recorder.as_ref())?,
        ))
    }

    /// RFC 4254 §6.7.
    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        sys::terminal::set_window_size(&self.master, size.into())?;
        match &self.recorder {
            Some(recorder) => recorder.resize(size.into()),
            None => Ok(()),
        }
    }

    /// Records text that the client gets beside the terminal's output.
    pub(super) fn record(&self, text: &[u8]) -> io::Result<()> {
        match &self.recorder {
            Some(recorder) => recorder.output(text),
            None => Ok(()),
        }
    }

    /// Releases the terminal.
    pub(super) fn release(self, context: &Context<'_>) {
        // The master is closed first, so that a process that still uses the terminal cannot see the
        // next user's.
        drop(self.master);
        drop(self.slave);
        drop(self.recorder);
        context
            .terminals
            .borrow_mut()
            .retain(|path| *path != self.path);
        context.show_terminals();
        if self.is_monitors && context.rpc.send(&PtyRelease { tty: self.path }).is_err() {
            context
                .log
                .debug("the monitor is gone before a terminal was given back");
        }
    }
}
