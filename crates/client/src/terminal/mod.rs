//! The user's terminal: raw mode, size, modes for the pty request, escapes.
//!
//! The terminal is the one on standard input. `sys` restores its modes even if a signal ends the
//! process.

pub mod escape;

use std::io;

use sys::terminal::{self, WindowSize};

use crate::log::{self, debug1};

/// A window size in the protocol's units (RFC 4254 §6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Width in characters.
    pub columns: u32,
    /// Height in characters.
    pub rows: u32,
    /// Width in pixels, 0 when not known.
    pub width_px: u32,
    /// Height in pixels, 0 when not known.
    pub height_px: u32,
}

impl Size {
    /// That of a session whose standard input is no terminal, as in OpenSSH: the server's programs take what they
    /// take for a terminal of unknown size.
    pub(crate) const UNKNOWN: Self = Self {
        columns: 0,
        rows: 0,
        width_px: 0,
        height_px: 0,
    };
}

impl From<WindowSize> for Size {
    fn from(size: WindowSize) -> Self {
        Self {
            columns: u32::from(size.columns),
            rows: u32::from(size.rows),
            width_px: u32::from(size.width_px),
            height_px: u32::from(size.height_px),
        }
    }
}

/// The size of the terminal on standard input; `None` if that is none.
#[must_use]
pub fn window_size() -> Option<Size> {
    let size = terminal::window_size(sys::io::stdin());
    size.ok().map(Size::from)
}

/// The modes of the terminal on standard input for the pty request (RFC 4254 §8); only the end
/// opcode if it is not a terminal.
#[must_use]
pub fn encoded_modes() -> Vec<u8> {
    match terminal::attributes(sys::io::stdin()) {
        Ok(attributes) => terminal::encode_modes(&attributes),
        Err(_) => vec![0],
    }
}

/// Raw mode of the terminal on standard input; dropping it restores the old modes.
#[derive(Debug)]
pub struct RawMode(terminal::RawMode);

impl RawMode {
    /// Enters raw mode if standard input is a terminal, and tells the log; a failure is logged.
    pub(crate) fn of_stdin() -> Option<Self> {
        if !sys::io::is_terminal(sys::io::stdin()) {
            return None;
        }
        // The kernel would stop a background job for this change: its shell owns the terminal now.
        match terminal::RawMode::enter(sys::io::stdin()) {
            Ok(raw) => {
                log::set_raw_terminal(true);
                Some(Self(raw))
            }
            Err(error) => {
                debug1!("cannot make the terminal raw: {error}");
                None
            }
        }
    }

    /// Restores the old modes until [`RawMode::resume`].
    ///
    /// # Errors
    /// The error of the system.
    pub fn suspend(&mut self) -> io::Result<()> {
        self.0.suspend()
    }

    /// Enters raw mode again.
    ///
    /// # Errors
    /// The error of the system.
    pub fn resume(&mut self) -> io::Result<()> {
        self.0.resume()
    }
}
