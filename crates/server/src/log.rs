//! Log lines, sent to the monitor: inside the sandbox no other destination is writable
//! (RLIMIT_FSIZE 0 kills a process whose standard error is a file).

use std::io;
use std::panic::Location;
use std::sync::OnceLock;

use config::log_verbose;
use privsep::{Log, LogLevel, log_text};

use crate::rpc::Rpc;

/// Makes the RPC the only way out for messages: standard error, which may be the administrator's
/// log file or terminal, is replaced by the null device, because strangers or users talk to this
/// process. A panic is logged through the RPC.
pub(crate) fn only_by(rpc: &'static Rpc) -> io::Result<()> {
    sys::io::replace_stdio(sys::io::null()?, 2)?;
    std::panic::set_hook(Box::new(move |panic| {
        let _ = rpc.send(&Log {
            level: LogLevel::Error,
            is_forced: false,
            text: log_text(&panic.to_string()),
            tail: None,
        });
    }));
    Ok(())
}

/// LogVerbose of the connection that this process serves.
static FORCED: OnceLock<Vec<String>> = OnceLock::new();

/// Sets LogVerbose for this process, once.
pub(crate) fn force(overrides: Vec<String>) {
    let _ = FORCED.set(overrides);
}

/// Sends the lines that the configured level permits, and those of places that LogVerbose names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Logger<'a> {
    rpc: &'a Rpc,
    level: LogLevel,
}

impl<'a> Logger<'a> {
    /// A logger that sends lines up to `level`.
    pub(crate) fn new(rpc: &'a Rpc, level: LogLevel) -> Self {
        Self { rpc, level }
    }

    /// Sends a line, escaped so that text from a peer cannot forge another line. A send error is
    /// ignored: the next request reports that the monitor has gone.
    #[track_caller]
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        self.send(level, Location::caller(), text, None);
    }

    fn send(&self, level: LogLevel, at: &Location<'_>, text: &str, tail: Option<&str>) {
        let tag = FORCED.get().and_then(|lists| log_verbose::tag(lists, at));
        if level <= self.level || tag.is_some() {
            let text = log_text(text);
            let _ = self.rpc.send(&Log {
                level,
                is_forced: tag.is_some(),
                text: match tag {
                    Some(tag) => format!("{tag}: {text}"),
                    None => text,
                },
                tail: tail.map(log_text),
            });
        }
    }

    /// Logs a DISCONNECT from the client, as an error unless the reason is BY_APPLICATION.
    #[track_caller]
    pub(crate) fn disconnect(&self, peer: &str, reason: u32, words: &str) {
        let level = match reason {
            wire::message::reason::BY_APPLICATION => LogLevel::Info,
            _ => LogLevel::Error,
        };
        self.line(
            level,
            &format!("Received disconnect from {peer}:{reason}: {words}"),
        );
    }

    /// Sends a line into which the monitor inserts the user and address, between `before` and
    /// `after`. The monitor logs it after this process has ended.
    #[track_caller]
    pub(crate) fn last_words(&self, level: LogLevel, before: &str, after: &str) {
        self.send(level, Location::caller(), before, Some(after));
    }

    privsep::line_levels!(error, info, verbose, debug, debug2);
}

#[cfg(test)]
mod tests {
    use privsep::FrameSplitter;

    use super::*;

    #[test]
    fn a_peers_text_cannot_forge_a_line_of_the_log() {
        let (ours, theirs) = sys::socket::stream_pair().unwrap();
        let rpc = Rpc::new(ours);
        Logger::new(&rpc, LogLevel::Info).info("a\nAccepted publickey\u{1b}[2J");
        let mut bytes = [0; 256];
        let count = sys::io::read(&theirs, &mut bytes).unwrap();
        let mut splitter = FrameSplitter::new();
        splitter.feed(&bytes[..count]);
        let line: Log = splitter.next_frame().unwrap().unwrap().decode().unwrap();
        assert_eq!(line.text, "a\\012Accepted publickey\\033[2J");
    }

    #[test]
    fn finer_lines_than_asked_for_are_not_sent() {
        let (ours, theirs) = sys::socket::stream_pair().unwrap();
        let rpc = Rpc::new(ours);
        let log = Logger::new(&rpc, LogLevel::Info);
        log.debug("x");
        assert_eq!(sys::io::bytes_available(&theirs).unwrap(), 0);
        log.info("x");
        assert!(sys::io::bytes_available(&theirs).unwrap() > 0);
    }
}
