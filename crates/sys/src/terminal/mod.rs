//! Terminals: raw mode, window size, prompts without echo.
//!
//! [`modes`] encodes modes by RFC 4254 §8, [`prompt`] asks the user questions, [`askpass`] asks them
//! through a program, [`crate::pty`] allocates pseudo-terminals.

pub mod askpass;
pub mod modes;
pub mod prompt;

#[cfg(test)]
mod tests;

use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Winsize};

pub use modes::{ModesReport, apply_modes, decode_modes, encode_modes};
pub use prompt::{CAUGHT_SIGNALS, PromptError, prompt_line, prompt_secret};
pub use rustix::termios::Termios;

use crate::signals::Signal;

/// A window size in characters and in pixels (0: unknown).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowSize {
    /// Width in characters.
    pub columns: u16,
    /// Height in characters.
    pub rows: u16,
    /// Width in pixels.
    pub width_px: u16,
    /// Height in pixels.
    pub height_px: u16,
}

impl WindowSize {
    /// Converts 32-bit numbers of the wire (RFC 4254 §6.2, §6.7); larger values become the kernel's
    /// maximum.
    #[must_use]
    pub fn from_wire(columns: u32, rows: u32, width_px: u32, height_px: u32) -> Self {
        let cut = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        Self {
            columns: cut(columns),
            rows: cut(rows),
            width_px: cut(width_px),
            height_px: cut(height_px),
        }
    }
}

/// Returns the window size of a terminal.
///
/// # Errors
/// `ENOTTY` and the like.
pub fn window_size(terminal: impl AsFd) -> io::Result<WindowSize> {
    let size = rustix::termios::tcgetwinsize(terminal.as_fd())?;
    Ok(WindowSize {
        columns: size.ws_col,
        rows: size.ws_row,
        width_px: size.ws_xpixel,
        height_px: size.ws_ypixel,
    })
}

/// Sets the window size; the foreground process group receives SIGWINCH if it changed.
///
/// # Errors
/// `ENOTTY` and the like.
pub fn set_window_size(terminal: impl AsFd, size: WindowSize) -> io::Result<()> {
    let size = Winsize {
        ws_col: size.columns,
        ws_row: size.rows,
        ws_xpixel: size.width_px,
        ws_ypixel: size.height_px,
    };
    Ok(rustix::termios::tcsetwinsize(terminal.as_fd(), size)?)
}

/// Returns the modes of a terminal.
///
/// # Errors
/// `ENOTTY` and the like.
pub fn attributes(terminal: impl AsFd) -> io::Result<Termios> {
    Ok(rustix::termios::tcgetattr(terminal.as_fd())?)
}

/// Sets the modes of a terminal immediately.
///
/// # Errors
/// `ENOTTY` and the like.
pub fn set_attributes(terminal: impl AsFd, attributes: &Termios) -> io::Result<()> {
    let terminal = terminal.as_fd();
    crate::ffi::retry(|| rustix::termios::tcsetattr(terminal, OptionalActions::Now, attributes))
}

/// State for the fatal-signal handler to restore the terminal: written before the handler is
/// installed, read by it.
struct SavedTerminal {
    attributes: UnsafeCell<Option<libc::termios>>,
    fd: AtomicI32,
    active: AtomicBool,
}

// SAFETY: `attributes` is written only by the holder of `active` while `fd` is -1, and read by the
// handler only if `fd` is not -1.
unsafe impl Sync for SavedTerminal {}

static SAVED: SavedTerminal = SavedTerminal {
    attributes: UnsafeCell::new(None),
    fd: AtomicI32::new(-1),
    active: AtomicBool::new(false),
};

/// Signals that end a client and would leave the terminal in raw mode.
const FATAL: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// A terminal in raw mode. The previous modes are restored on drop, and when one of HUP, INT, QUIT,
/// TERM with its default action ends the process. At most one per process.
#[derive(Debug)]
pub struct RawMode {
    terminal: OwnedFd,
    before: Termios,
    suspended: bool,
}

impl RawMode {
    /// Puts the terminal into raw mode: input byte by byte, no echo, no signals from keys, no
    /// translation in either direction.
    ///
    /// # Errors
    /// `AlreadyExists` if another guard exists, `ENOTTY` and the like.
    pub fn enter(terminal: impl AsFd) -> io::Result<Self> {
        let terminal = crate::io::dup(terminal)?;
        let before = attributes(&terminal)?;
        if SAVED.active.swap(true, Ordering::AcqRel) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let guard = Self {
            terminal,
            before,
            suspended: false,
        };
        guard.arm()?;
        guard.make_raw()?;
        Ok(guard)
    }

    fn make_raw(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        // make_raw does not change these; with them a read returns as soon as one byte is available.
        raw.local_modes.remove(LocalModes::IEXTEN);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let terminal = self.terminal.as_fd();
        crate::ffi::retry(|| rustix::termios::tcsetattr(terminal, OptionalActions::Drain, &raw))
    }

    /// The previous modes, for the pty request.
    #[must_use]
    pub fn before(&self) -> &Termios {
        &self.before
    }

    /// Restores the previous modes temporarily (`~^Z`), until [`RawMode::resume`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.suspended = true;
        self.restore()
    }

    /// Returns to raw mode after [`RawMode::suspend`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn resume(&mut self) -> io::Result<()> {
        self.suspended = false;
        self.make_raw()
    }

    fn restore(&self) -> io::Result<()> {
        let terminal = self.terminal.as_fd();
        // Drain: pending output is shown before the modes change.
        crate::ffi::retry(|| {
            rustix::termios::tcsetattr(terminal, OptionalActions::Drain, &self.before)
        })
    }

    /// Stores the state for the handler, and installs the handler for signals with the default
    /// action.
    fn arm(&self) -> io::Result<()> {
        // SAFETY: termios is a plain C struct, filled by tcgetattr.
        let mut raw: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: an open descriptor and a live local.
        crate::ffi::check(unsafe { libc::tcgetattr(self.terminal.as_raw_fd(), &raw mut raw) })?;
        // SAFETY: this guard holds `active` and `fd` is -1, so no handler reads the attributes now.
        unsafe { *SAVED.attributes.get() = Some(raw) };
        SAVED.fd.store(self.terminal.as_raw_fd(), Ordering::Release);
        for signal in FATAL {
            exchange_handler(signal, libc::SIG_DFL, handler_address())?;
        }
        Ok(())
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if !self.suspended {
            let _ = self.restore();
        }
        SAVED.fd.store(-1, Ordering::Release);
        for signal in FATAL {
            let _ = exchange_handler(signal, handler_address(), libc::SIG_DFL);
        }
        SAVED.active.store(false, Ordering::Release);
    }
}

impl AsFd for RawMode {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }
}

fn handler_address() -> libc::sighandler_t {
    restore_and_die as extern "C" fn(i32) as libc::sighandler_t
}

/// Replaces the action of `signal` if it is `expected`.
fn exchange_handler(
    signal: Signal,
    expected: libc::sighandler_t,
    wanted: libc::sighandler_t,
) -> io::Result<()> {
    // SAFETY: sigaction is a plain C struct; the installed handler makes only async-signal-safe
    // calls.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        crate::ffi::check(libc::sigaction(
            signal.as_raw(),
            std::ptr::null(),
            &raw mut action,
        ))?;
        if action.sa_sigaction == expected {
            action = std::mem::zeroed();
            action.sa_sigaction = wanted;
            crate::signals::mark_altered(signal.as_raw());
            // The handler raises the signal again, which then has its default action.
            action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER;
            crate::ffi::check(libc::sigaction(
                signal.as_raw(),
                &raw const action,
                std::ptr::null_mut(),
            ))?;
        }
    }
    Ok(())
}

/// Signal handler that restores the terminal and raises the signal again: tcsetattr and raise are
/// async-signal-safe.
extern "C" fn restore_and_die(number: i32) {
    let fd = SAVED.fd.load(Ordering::Acquire);
    // SAFETY: if `fd` is set, the attributes are complete and not being written.
    unsafe {
        if fd >= 0
            && let Some(attributes) = &*SAVED.attributes.get()
        {
            libc::tcsetattr(fd, libc::TCSANOW, attributes);
        }
        libc::raise(number);
    }
}

/// Opens the controlling terminal of this process.
///
/// # Errors
/// `ENXIO` if there is none.
pub fn open_controlling() -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open("/dev/tty", flags, Mode::empty())?)
}
