//! A program at a pseudo-terminal, at whose other side the test types and reads.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::{Background, status_number, wait};
use crate::scratch::until;

/// Time limit for an expected text on the screen.
const LIMIT: Duration = Duration::from_secs(60);

/// A program in its own session, with a controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    master: File,
    program: Background,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: thread::JoinHandle<()>,
    /// Number of bytes of the screen that [`Terminal::expect`] has passed.
    seen: usize,
}

impl Terminal {
    /// Starts `command` at a terminal of this size. The program's own group does not matter:
    /// `setsid --ctty` makes it the leader of a new session.
    ///
    /// # Panics
    /// If there is no terminal or the program cannot be started.
    #[must_use]
    pub fn new(command: &Command, columns: u16, rows: u16) -> Self {
        let (master, slave) = open().expect("a pseudo-terminal");
        tcsetwinsize(&master, size(columns, rows)).expect("its size");
        let mut whole = Command::new("setsid");
        whole
            .args(["--ctty", "--wait"])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => whole.env(name, value),
                None => whole.env_remove(name),
            };
        }
        let copy = |file: &File| Stdio::from(file.try_clone().expect("a descriptor"));
        whole
            .stdin(copy(&slave))
            .stdout(copy(&slave))
            .stderr(copy(&slave));
        let program = Background::start(&mut whole).expect("setsid (util-linux)");
        drop((whole, slave));
        let screen = Arc::new(Mutex::new(Vec::new()));
        let (mut from, shared) = (master.try_clone().expect("a descriptor"), screen.clone());
        let reader = thread::spawn(move || {
            let mut chunk = [0; 4096];
            // The final error means that no process has the other side open.
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                let mut screen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                screen.extend_from_slice(&chunk[..count]);
            }
        });
        Self {
            master,
            program,
            screen,
            reader,
            seen: 0,
        }
    }

    /// Types.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("typing");
    }

    /// The whole output so far.
    #[must_use]
    pub fn screen(&self) -> String {
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&screen).into_owned()
    }

    /// Waits until `text` appears after the previously expected text.
    ///
    /// # Panics
    /// When it is not.
    pub fn expect(&mut self, text: &str) {
        let shown = self.shows(text, LIMIT);
        assert!(
            shown,
            "{text:?} does not show; the screen: {:?}",
            self.screen()
        );
    }

    /// Waits until `text` appears anywhere, without passing anything: for output of two sides in
    /// any order.
    ///
    /// # Panics
    /// When it is not.
    pub fn expect_somewhere(&self, text: &str) {
        let shown = until(LIMIT, || self.screen().contains(text));
        assert!(
            shown,
            "{text:?} does not show; the screen: {:?}",
            self.screen()
        );
    }

    /// Types `keys` each second until `text` appears after the previously expected text: for output
    /// that needs a signal and a key, which may arrive in either order.
    ///
    /// # Panics
    /// When it is not.
    pub fn type_until(&mut self, keys: &str, text: &str) {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            self.type_text(keys);
            if self.shows(text, Duration::from_secs(1)) {
                return;
            }
        }
        panic!("{text:?} does not show; the screen: {:?}", self.screen());
    }

    /// Returns true if `text` appears in time after the previously expected text.
    fn shows(&mut self, text: &str, limit: Duration) -> bool {
        let mut found = None;
        until(limit, || {
            let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
            let rest = screen.get(self.seen..).unwrap_or_default();
            found = rest
                .windows(text.len())
                .position(|part| part == text.as_bytes());
            found.is_some()
        });
        if let Some(at) = found {
            self.seen += at + text.len();
        }
        found.is_some()
    }

    /// Changes the size; the program gets SIGWINCH.
    ///
    /// # Panics
    /// If the terminal is closed.
    pub fn resize(&self, columns: u16, rows: u16) {
        tcsetwinsize(self.master.as_fd(), size(columns, rows)).expect("another size");
    }

    /// Waits for the end of the program and of its output, and returns its status.
    ///
    /// # Panics
    /// If it does not end.
    pub fn end(&mut self) -> i32 {
        let ended = wait(&mut self.program.0, LIMIT);
        let status = ended.unwrap_or_else(|error| {
            panic!("{error}; the screen: {:?}", self.screen());
        });
        // Until no process has the terminal open.
        until(LIMIT, || self.reader.is_finished());
        status_number(status)
    }
}

fn open() -> io::Result<(File, File)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, 0o400);
    Ok((File::from(master), options.open(path)?))
}

const fn size(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
