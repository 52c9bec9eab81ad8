//! The log's lines about a failed `accept`. Without descriptors or memory it fails ten times a second
//! ([`ACCEPT_PAUSE_MS`](super::ACCEPT_PAUSE_MS)) until some are free, and the log may be on a disk that fills.

use std::io;

use crate::log::Log;

/// Shortest time between two lines.
const INTERVAL_MS: u64 = 60_000;

/// Failures of `accept` at one kind of socket.
#[derive(Debug, Default)]
pub(super) struct AcceptFailures {
    /// Monotonic milliseconds of the last line.
    told_ms: Option<u64>,
    /// The system's number of that error.
    told_error: Option<i32>,
    /// Failures since then.
    untold: u64,
}

impl AcceptFailures {
    /// Logs a failure as `WHAT: ERROR`, the same error at most once a minute; the next line has the number
    /// of those that were left out.
    pub(super) fn report(&mut self, what: &str, error: &io::Error, now_ms: u64, log: &Log) {
        let is_early = |told_ms: u64| now_ms.saturating_sub(told_ms) < INTERVAL_MS;
        let is_same = self.told_error == error.raw_os_error();
        if is_same && self.told_ms.is_some_and(is_early) {
            self.untold = self.untold.saturating_add(1);
            return;
        }
        let untold = std::mem::take(&mut self.untold);
        self.told_ms = Some(now_ms);
        self.told_error = error.raw_os_error();
        match untold {
            0 => log.error(&format!("{what}: {error}")),
            _ => log.error(&format!(
                "{what}: {error} ({untold} more failures since the last such line)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use privsep::LogLevel;

    use super::*;

    #[test]
    fn a_minute_has_one_line_and_the_next_counts_the_rest() {
        let log = Log::to_memory(LogLevel::Info);
        let mut failures = AcceptFailures::default();
        let error = io::Error::other("no descriptors");
        let first_ms = 5_000;
        for now_ms in (first_ms..first_ms + INTERVAL_MS).step_by(100) {
            failures.report("accept", &error, now_ms, &log);
        }
        assert_eq!(log.lines(), ["error: accept: no descriptors"]);
        failures.report("accept", &error, first_ms + INTERVAL_MS, &log);
        let counted = "error: accept: no descriptors (599 more failures since the last such line)";
        assert_eq!(log.lines()[1..], [counted]);
        // Nothing was left out before a line that comes later.
        failures.report("accept", &error, first_ms + 3 * INTERVAL_MS, &log);
        assert_eq!(log.lines()[2..], ["error: accept: no descriptors"]);
    }
}
