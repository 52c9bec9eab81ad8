//! How far the work is, for the person who waits: a line that changes on a terminal, one a
//! minute elsewhere, none with `-q`.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two messages to a terminal.
const ON_TERMINAL: Duration = Duration::from_secs(1);
/// Between two messages to a file.
const ELSEWHERE: Duration = Duration::from_secs(60);

/// Messages on standard error.
pub(super) struct ModuliProgress {
    begun: Instant,
    terminal: bool,
    quiet: bool,
    /// When something was said, and whether the terminal's line waits to be wiped.
    said: Mutex<(Instant, bool)>,
}

impl ModuliProgress {
    pub(super) fn new(quiet: bool) -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            terminal: sys::io::is_terminal(sys::io::stderr()),
            quiet,
            said: Mutex::new((now, false)),
        }
    }

    /// Prints the current work, the finished part of it (0 to 1), and a remark.
    pub(super) fn tell(&self, what: &str, part: f64, more: &str) {
        if self.quiet {
            return;
        }
        let every = if self.terminal {
            ON_TERMINAL
        } else {
            ELSEWHERE
        };
        // Who finds it taken lets the other speak.
        let Ok(mut said) = self.said.try_lock() else {
            return;
        };
        if said.0.elapsed() < every {
            return;
        }
        let passed = self.begun.elapsed();
        let left = passed.mul_f64(((1.0 - part) / part.max(1e-9)).clamp(0.0, 1e6));
        let line = format!(
            "{what} ({:.0}%) in {}, ETA {}{more}",
            100.0 * part,
            clock(passed),
            clock(left)
        );
        if self.terminal {
            eprint!("\r{line}\x1b[K");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
        *said = (Instant::now(), self.terminal);
    }

    /// Wipes the terminal's line, for other messages.
    pub(super) fn clear(&self) {
        if let Ok(mut said) = self.said.lock()
            && std::mem::take(&mut said.1)
        {
            eprint!("\r\x1b[K");
        }
    }

    /// Since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}

impl Drop for ModuliProgress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `h:mm:ss`
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}
