//! What processes say on standard error while they are measured, and an end for those that are
//! stuck.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::roles;

/// How long one run may take before it counts as stuck.
pub(super) const STUCK_LIMIT: Duration = Duration::from_secs(900);
/// How long the far end's last words may take once the client has ended.
const WORDS_LIMIT: Duration = Duration::from_secs(5);
/// Most bytes of a client's complaints that are kept.
const MAX_WORDS_BYTES: usize = 4096;
/// The beginning of what `ssh -v` says of compression.
const COMPRESSED: &str = "debug1: compress ";

/// What the far end and the client say on standard error.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// When the far end told that it runs.
    pub(super) ready: Option<Instant>,
    /// The CPU seconds that the far end tells.
    pub(super) cpu: f64,
    /// What `ssh -v` says of compression.
    pub(super) compression: Vec<String>,
    other: String,
}

impl Said {
    /// `why`, with the last of what was said.
    pub(super) fn complaint(&self, why: &str) -> String {
        let last: Vec<&str> = self.other.lines().rev().take(2).collect();
        match last.is_empty() {
            true => why.to_string(),
            false => {
                let words: Vec<&str> = last.into_iter().rev().collect();
                format!("{why}: {}", words.join("; "))
            }
        }
    }
}

/// A thread that listens to standard error.
pub(super) struct StderrReader {
    ready: Receiver<()>,
    said: Receiver<Said>,
}

impl StderrReader {
    pub(super) fn listen(from: impl Read + Send + 'static) -> Self {
        let (tell, said) = channel();
        let (tell_ready, ready) = channel();
        std::thread::spawn(move || {
            let mut found = Said::default();
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let line = line.trim_end();
                if line == roles::READY {
                    found.ready = found.ready.or_else(|| Some(Instant::now()));
                    let _ = tell_ready.send(());
                } else if let Some(seconds) = line.strip_prefix(roles::CPU) {
                    found.cpu = seconds.parse().unwrap_or(0.0);
                } else if let Some(figures) = line.strip_prefix(COMPRESSED) {
                    found.compression.push(figures.to_string());
                } else if line.is_empty() || line.starts_with("debug1: ") {
                    // Nothing that explains a failure.
                } else if found.other.len() + line.len() < MAX_WORDS_BYTES {
                    found.other.push_str(line);
                    found.other.push('\n');
                }
            }
            let _ = tell.send(found);
        });
        Self { ready, said }
    }

    /// Waits until the far end runs; false when that takes too long or it ends before.
    pub(super) fn wait_ready(&self) -> bool {
        self.ready.recv_timeout(STUCK_LIMIT).is_ok()
    }

    /// Everything up to the end. Something that lives on with the pipe open is not waited for
    /// long.
    pub(super) fn all(self) -> Said {
        self.said.recv_timeout(WORDS_LIMIT).unwrap_or_default()
    }
}

/// A thread that ends a process which takes too long.
pub(super) struct Watch {
    done: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watch {
    /// Starts it for a child that was not waited for.
    pub(super) fn start(pid: u32) -> Self {
        let (done, wait) = channel::<()>();
        // By descriptor: the number may belong to another by then.
        let process = process(pid);
        let thread = std::thread::spawn(move || {
            if wait.recv_timeout(STUCK_LIMIT) != Err(RecvTimeoutError::Timeout) {
                return false;
            }
            if let Ok(process) = process {
                let _ = process.signal(sys::signals::Signal::KILL);
            }
            true
        });
        Self { done, thread }
    }

    /// Calls it off; whether it had to act.
    pub(super) fn stop(self) -> bool {
        drop(self.done);
        self.thread.join().unwrap_or(false)
    }
}

fn process(pid: u32) -> io::Result<sys::process::PidFd> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    sys::process::PidFd::open(pid)
}

/// Ends a child that was not waited for.
pub(super) fn kill(pid: u32) {
    if let Ok(process) = process(pid) {
        let _ = process.signal(sys::signals::Signal::KILL);
    }
}
