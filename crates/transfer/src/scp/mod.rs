//! The legacy scp protocol, both roles.
//!
//! One side sends records; the other answers each with a byte: 0, or 1 and a line with the error (2
//! ends the session). `T` has times, `C` a file, `D` and `E` begin and end a directory. Neither
//! side can pipeline: a file costs two round trips.
//!
//! Invariants: received names are a single component, and at the top level one that was asked for;
//! received modes are masked with 0777; each file gets exactly one answer after its content,
//! whatever the sender reports; a target is not truncated before the sender has confirmed its file.

use std::io::{self, BufRead, Write};
use std::time::Instant;

use crate::connect::{LOOK, SignalNoted};
use crate::engine::{Disk, Meter, Waits};
use crate::plan::pace::Pace;
use crate::report::{FileResult, Report};
use crate::text;

mod patterns;
mod receive;
mod send;
mod target;

pub use patterns::Patterns;

/// Maximum length of a record or an answer, bytes.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Maximum nesting of directories: as many as fit in a path (PATH_MAX is 4096 bytes, and each level
/// takes at least a byte and a slash).
const MAX_LEVELS: usize = 2048;

/// Options of both roles.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// `-p`
    pub preserve: bool,
    /// `-r`
    pub recursive: bool,
    /// `-d`: the target must be a directory.
    pub target_is_directory: bool,
    /// True for the process started by the other side, which leaves messages for the user to that
    /// side.
    pub is_remote: bool,
    /// Names permitted at the top level; `None` permits any.
    pub patterns: Option<Patterns>,
    /// Maximum rate in bytes per second; 0 for no limit.
    pub limit_bytes: u64,
}

/// Why a session ended early.
#[derive(Debug)]
pub enum OldError {
    /// The other side closed the connection.
    Lost,
    /// A signal ended the session.
    Interrupted,
    /// A fatal error of either side, which was reported.
    Over,
    /// The other side broke the protocol or sent an impossible request.
    Protocol(String),
}

impl std::fmt::Display for OldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost => f.write_str("lost connection"),
            Self::Interrupted => f.write_str("Interrupted"),
            Self::Over => f.write_str("the other side gave up"),
            Self::Protocol(why) => write!(f, "protocol error: {why}"),
        }
    }
}

impl std::error::Error for OldError {}

impl From<io::Error> for OldError {
    fn from(error: io::Error) -> Self {
        match error.get_ref() {
            Some(inner) if inner.is::<SignalNoted>() => Self::Interrupted,
            _ => Self::Lost,
        }
    }
}

/// A session of the legacy scp protocol.
pub struct Conversation<'c> {
    input: &'c mut dyn BufRead,
    output: &'c mut dyn Write,
    terms: Terms,
    report: &'c mut dyn Report,
    pace: Pace,
    /// Measures where the time goes, for the progress line.
    meter: Option<Meter>,
    failures: usize,
}

impl<'c> Conversation<'c> {
    /// Creates a session over the other side's output (`input`) and input (`output`).
    pub fn new(
        input: &'c mut dyn BufRead,
        output: &'c mut dyn Write,
        terms: Terms,
        report: &'c mut dyn Report,
    ) -> Self {
        Self {
            input,
            output,
            pace: Pace::new(terms.limit_bytes),
            terms,
            report,
            meter: None,
            failures: 0,
        }
    }

    /// Number of failures.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Starts the measurement when files begin to be transferred.
    fn begin_meter(&mut self, disk: Disk) {
        self.meter = (!self.terms.is_remote).then(|| Meter::begin(disk, None));
    }

    /// Records the time since `begun` as waiting time.
    fn waited(&mut self, why: Waits, begun: Instant) {
        if let Some(meter) = &mut self.meter {
            meter.waited(why, begun.elapsed());
        }
    }

    /// Reports where the time went, if that is due or this is the end.
    fn tell_times(&mut self, last: bool) {
        if let Some(meter) = &mut self.meter
            && (last || meter.is_due())
        {
            self.report.tick(&meter.take(None));
        }
    }

    fn send_out(&mut self, bytes: &[u8]) -> Result<(), OldError> {
        let begun = Instant::now();
        let result = self.output.write_all(bytes);
        self.waited(Waits::Answers, begun);
        Ok(result?)
    }

    fn tell(&mut self, bytes: &[u8]) -> Result<(), OldError> {
        self.send_out(bytes)?;
        Ok(self.output.flush()?)
    }

    /// Waits until the rate limit permits more.
    fn keep_pace(&mut self) -> Result<(), OldError> {
        let begun = Instant::now();
        let result = self.wait_for_pace();
        self.waited(Waits::Asked, begun);
        result
    }

    fn wait_for_pace(&self) -> Result<(), OldError> {
        while let Some(until) = self.pace.wakes_at() {
            if sys::signals::noted() {
                return Err(OldError::Interrupted);
            }
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(LOOK));
        }
        Ok(())
    }

    /// Reports an error to the other side, and to the user unless the other side does that.
    fn complain(&mut self, what: &str) -> Result<(), OldError> {
        self.failures += 1;
        if !self.terms.is_remote {
            self.report.fails(what);
        }
        self.tell(format!("\x01scp: {what}\n").as_bytes())
    }

    /// Reports the failure of a file to the other side and to the user.
    fn complain_of(
        &mut self,
        from: &[u8],
        to: &[u8],
        bytes: u64,
        what: &str,
    ) -> Result<(), OldError> {
        self.failures += 1;
        if !self.terms.is_remote {
            self.ended(from, to, bytes, Some(what.to_owned()));
        }
        self.tell(format!("\x01scp: {what}\n").as_bytes())
    }

    fn ended(&mut self, from: &[u8], to: &[u8], bytes: u64, error: Option<String>) {
        self.report.leaves(0);
        self.report.ends(&FileResult {
            from: from.to_vec(),
            to: to.to_vec(),
            bytes,
            resumed_bytes: 0,
            verified: None,
            error,
        });
    }

    /// Reads a byte; `None` at the end of the stream.
    fn byte(&mut self) -> Result<Option<u8>, OldError> {
        let begun = Instant::now();
        let first = self.input.fill_buf()?.first().copied();
        self.waited(Waits::Answers, begun);
        if first.is_some() {
            self.input.consume(1);
        }
        Ok(first)
    }

    /// Reads a line without its newline.
    fn line(&mut self) -> Result<Vec<u8>, OldError> {
        let mut line = Vec::new();
        loop {
            match self.byte()?.ok_or(OldError::Lost)? {
                b'\n' => return Ok(line),
                _ if line.len() >= MAX_LINE_BYTES => {
                    return Err(OldError::Protocol("line too long".to_owned()));
                }
                byte => line.push(byte),
            }
        }
    }

    /// Reads the answer to a record: `None` for success, else the error.
    fn answer(&mut self) -> Result<Option<String>, OldError> {
        let kind = self.byte()?.ok_or(OldError::Lost)?;
        if kind == 0 {
            return Ok(None);
        }
        let mut line = self.line()?;
        if kind > 2 {
            // Not an answer, but the first letter of a message of a shell or a profile.
            line.insert(0, kind);
        }
        self.failures += 1;
        let said = said(&line);
        if kind == 1 {
            return Ok(Some(said));
        }
        if !self.terms.is_remote {
            self.report.says(&said);
        }
        Err(OldError::Over)
    }
}

/// What the other side says, for a report that puts the program's name before it: without the name that
/// the other side has put there.
fn said(line: &[u8]) -> String {
    text::name(line.strip_prefix(b"scp: ").unwrap_or(line))
}

#[cfg(test)]
mod tests;
