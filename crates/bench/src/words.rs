//! Reads the standard error of measured processes, and ends processes that are stuck.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::options::BenchDirection;
use super::roles;

/// Time after which a run counts as stuck.
pub(super) const STUCK_LIMIT: Duration = Duration::from_secs(900);
/// Time that the rest of standard error may take after the client has ended.
const WORDS_LIMIT: Duration = Duration::from_secs(5);
/// Limit on the kept bytes of a client's error messages.
const MAX_WORDS_BYTES: usize = 4096;
/// Prefix of the lines of `ssh -v` about compression.
const COMPRESSED: &str = "debug1: compress ";

/// Standard error of the far end and the client.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Time at which the far end reported that it runs.
    pub(super) ready: Option<Instant>,
    /// CPU seconds that the far end reported.
    pub(super) cpu: f64,
    /// Lines of `ssh -v` about compression.
    pub(super) compression: Vec<String>,
    other: String,
}

impl Said {
    /// `why`, followed by the last lines of standard error.
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

    /// The compression ratio that the client reports for a direction:
    /// `outgoing: raw data 10, compressed 5, factor 0.50`.
    pub(super) fn factor(&self, direction: BenchDirection) -> Option<String> {
        let said = &self.compression;
        let word = match direction {
            BenchDirection::Up => "outgoing:",
            BenchDirection::Down => "incoming:",
        };
        let line = said.iter().find(|line| line.starts_with(word))?;
        let after = |word: &str| -> Option<f64> {
            let (_, rest) = line.split_once(word)?;
            rest.split([',', ' ']).next()?.parse().ok()
        };
        Some(format!(
            "{:.3}",
            after("raw data ")? / after("compressed ")?
        ))
    }
}

/// A thread that reads standard error.
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

    /// Waits until the far end runs; returns false if it ends before or takes too long.
    pub(super) fn wait_ready(&self) -> bool {
        self.ready.recv_timeout(STUCK_LIMIT).is_ok()
    }

    /// Everything up to the end; waits only briefly if a process keeps the pipe open.
    pub(super) fn all(self) -> Said {
        self.said.recv_timeout(WORDS_LIMIT).unwrap_or_default()
    }
}

/// A thread that kills a process after a time limit.
pub(super) struct Watch {
    done: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watch {
    /// Watches a child that has not been waited for.
    pub(super) fn start(pid: u32) -> Self {
        let (done, wait) = channel::<()>();
        // A descriptor, because the number may belong to another process later.
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

    /// Stops watching; returns true if the process was killed.
    pub(super) fn stop(self) -> bool {
        drop(self.done);
        self.thread.join().unwrap_or(false)
    }
}

fn process(pid: u32) -> io::Result<sys::process::PidFd> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    sys::process::PidFd::open(pid)
}

/// Kills a child that has not been waited for.
pub(super) fn kill(pid: u32) {
    if let Ok(process) = process(pid) {
        let _ = process.signal(sys::signals::Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_is_read_from_what_the_client_says() {
        let compression = [
            "outgoing: raw data 1000, compressed 400, factor 0.40".to_string(),
            "incoming: raw data 10, compressed 20, factor 2.00".to_string(),
        ];
        let said = Said {
            compression: compression.to_vec(),
            ..Said::default()
        };
        assert_eq!(said.factor(BenchDirection::Up).as_deref(), Some("2.500"));
        assert_eq!(said.factor(BenchDirection::Down).as_deref(), Some("0.500"));
        assert_eq!(Said::default().factor(BenchDirection::Up), None);
    }
}
