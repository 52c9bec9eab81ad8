//! Prompts at the terminal: a passphrase without echo, a line with echo.
//!
//! Signals from the keyboard first restore the terminal and then take their usual effect; after a
//! stop the prompt is repeated.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios};
use zeroize::{Zeroize, Zeroizing};

use crate::io::PollFd;
use crate::signals::{self, Signal, SignalFd};

/// Longest answer in bytes; longer answers are an error and are not cut.
pub const MAX_ANSWER_LEN: usize = 1024;

/// Why a prompt returned no answer.
#[derive(Debug)]
pub enum PromptError {
    /// The process has no terminal.
    NoTerminal,
    /// The user pressed the interrupt key (or a fatal signal arrived) and the process handles or
    /// ignores that signal; otherwise the signal has ended it.
    Interrupted,
    /// The user pressed the end-of-file key.
    EndOfFile,
    /// The answer exceeds [`MAX_ANSWER_LEN`] bytes.
    TooLong,
    /// A terminal operation failed.
    Io(io::Error),
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTerminal => f.write_str("no terminal to ask on"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::EndOfFile => f.write_str("no answer"),
            Self::TooLong => write!(f, "answer is longer than {MAX_ANSWER_LEN} bytes"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PromptError {}

impl From<io::Error> for PromptError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Prompts on the controlling terminal without echo; the answer has no line end.
///
/// # Errors
/// [`PromptError`].
pub fn prompt_secret(prompt: &str) -> Result<Zeroizing<Vec<u8>>, PromptError> {
    let terminal = super::open_controlling().map_err(|_| PromptError::NoTerminal)?;
    ask_on(&terminal, prompt, false)
}

/// Prompts on the controlling terminal with echo; the answer has no line end.
///
/// # Errors
/// [`PromptError`].
pub fn prompt_line(prompt: &str) -> Result<Zeroizing<Vec<u8>>, PromptError> {
    let terminal = super::open_controlling().map_err(|_| PromptError::NoTerminal)?;
    ask_on(&terminal, prompt, true)
}

/// Signals that must not take effect while echo is off.
pub const CAUGHT_SIGNALS: [Signal; 7] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// Prompts on a given terminal. Without echo, input typed before the prompt is discarded: it was
/// not meant as a secret.
///
/// # Errors
/// [`PromptError`].
pub fn ask_on(
    terminal: impl AsFd,
    prompt: &str,
    echo: bool,
) -> Result<Zeroizing<Vec<u8>>, PromptError> {
    let terminal = terminal.as_fd();
    loop {
        // Blocked before echo is disabled, unblocked after it is restored.
        let blocked = signals::Blocked::new(&CAUGHT_SIGNALS)?;
        let caught = SignalFd::new(&CAUGHT_SIGNALS)?;
        let outcome = {
            let _modes = PromptModes::enter(terminal, echo)?;
            crate::io::write_all(terminal, prompt.as_bytes())?;
            let outcome = read_line(terminal, &caught);
            if !echo || !matches!(outcome, PromptOutcome::Line(_)) {
                crate::io::write_all(terminal, b"\n")?;
            }
            outcome
        };
        drop(caught);
        drop(blocked);
        match outcome {
            PromptOutcome::Line(line) => return Ok(line),
            PromptOutcome::Failed(error) => return Err(error),
            PromptOutcome::Signal(signal) => {
                // Resent to this process, where it now takes effect with the process's own action.
                signals::send(crate::process::pid(), signal)?;
                let stopped = matches!(signal, Signal::TSTP | Signal::TTIN | Signal::TTOU);
                if !stopped {
                    return Err(PromptError::Interrupted);
                }
            }
        }
    }
}

enum PromptOutcome {
    Line(Zeroizing<Vec<u8>>),
    Signal(Signal),
    Failed(PromptError),
}

/// Puts a terminal into line mode with signals, with or without echo, until dropped.
struct PromptModes<'fd> {
    terminal: BorrowedFd<'fd>,
    before: Termios,
}

impl<'fd> PromptModes<'fd> {
    fn enter(terminal: BorrowedFd<'fd>, echo: bool) -> io::Result<Self> {
        let before = super::attributes(terminal)?;
        let mut modes = before.clone();
        modes.local_modes |= LocalModes::ICANON | LocalModes::ISIG;
        modes.local_modes.set(LocalModes::ECHO, echo);
        modes.local_modes.remove(LocalModes::ECHONL);
        modes.input_modes |= rustix::termios::InputModes::ICRNL;
        let action = if echo {
            OptionalActions::Drain
        } else {
            OptionalActions::Flush
        };
        crate::ffi::retry(|| rustix::termios::tcsetattr(terminal, action, &modes))?;
        Ok(Self { terminal, before })
    }
}

impl Drop for PromptModes<'_> {
    fn drop(&mut self) {
        let _ = crate::ffi::retry(|| {
            rustix::termios::tcsetattr(self.terminal, OptionalActions::Drain, &self.before)
        });
    }
}

/// Interval at which a prompt checks whether another thread received the signal that should end it
/// ([`signals::note`]), or has given it up ([`signals::with_questions_until`]).
pub(super) const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(200);

fn read_line(terminal: BorrowedFd<'_>, caught: &SignalFd) -> PromptOutcome {
    // Full capacity at once: reallocation would leave copies of the secret in memory.
    let mut line = Zeroizing::new(Vec::with_capacity(MAX_ANSWER_LEN + 1));
    let mut too_long = false;
    loop {
        let mut fds = [
            PollFd::new(caught.as_fd(), true, false),
            PollFd::new(terminal, true, false),
        ];
        if let Err(error) = crate::io::poll(&mut fds, Some(SIGNAL_CHECK_INTERVAL)) {
            return PromptOutcome::Failed(error.into());
        }
        if signals::question_ends() {
            return PromptOutcome::Failed(PromptError::Interrupted);
        }
        let [signals, input] = &fds;
        if signals.is_readable() {
            match caught.read() {
                Ok(Some(info)) => return PromptOutcome::Signal(info.signal),
                Ok(None) => {}
                Err(error) => return PromptOutcome::Failed(error.into()),
            }
        }
        if !input.is_readable() {
            continue;
        }
        let mut chunk = [0_u8; 256];
        let count = match crate::io::read(terminal, &mut chunk) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return PromptOutcome::Failed(error.into()),
        };
        let bytes = chunk.get(..count).unwrap_or_default();
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let piece = bytes.get(..end.unwrap_or(count)).unwrap_or_default();
        if line.len() + piece.len() > MAX_ANSWER_LEN {
            too_long = true;
        } else if !too_long {
            line.extend_from_slice(piece);
        }
        chunk.zeroize();
        if end.is_some() || count == 0 {
            return match (too_long, count) {
                (true, _) => PromptOutcome::Failed(PromptError::TooLong),
                (false, 0) => PromptOutcome::Failed(PromptError::EndOfFile),
                (false, _) => PromptOutcome::Line(line),
            };
        }
    }
}
