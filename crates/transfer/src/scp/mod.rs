//! The old scp protocol, both roles.
//!
//! One side sends records, the other answers each with a byte: 0, or 1 and a line that says what
//! is wrong (2 ends everything). `T` are times, `C` a file, `D` and `E` begin and end a
//! directory. Neither side learns of anything ahead of time: a file costs two round trips.
//!
//! Invariants: names that come are one plain component, and at the top what was asked for; modes
//! that come are cut to 0777; each file gets exactly one answer after its content, whatever the
//! sender said of it; what a target holds is not cut before the sender has confirmed its file.

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

/// Longest record or answer, bytes.
const MAX_LINE_BYTES: usize = 8 << 10;

/// Directories within directories, at most: as many as a path has room for (PATH_MAX is 4096
/// bytes, and each level takes a byte and a slash).
const MAX_LEVELS: usize = 2048;

/// What both roles need to know.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// `-p`
    pub preserve: bool,
    /// `-r`
    pub recursive: bool,
    /// `-d`: the target must be a directory.
    pub target_is_directory: bool,
    /// We were started by the other side: it tells the person, not we.
    pub is_remote: bool,
    /// What names at the top may be; none when anything may.
    pub patterns: Option<Patterns>,
    /// Most bytes a second; 0 for no limit.
    pub limit_bytes: u64,
}

/// Why the conversation ended.
#[derive(Debug)]
pub enum OldError {
    /// The other side is gone.
    Lost,
    /// A signal ended it.
    Interrupted,
    /// The other side said that all is over; it was told.
    Over,
    /// It broke the protocol, or what it wants cannot be.
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

/// A conversation. See the module's head.
pub struct Conversation<'c> {
    input: &'c mut dyn BufRead,
    output: &'c mut dyn Write,
    terms: Terms,
    report: &'c mut dyn Report,
    pace: Pace,
    /// Where the time goes, for the person.
    meter: Option<Meter>,
    failures: usize,
}

impl<'c> Conversation<'c> {
    /// Over what the other side writes and what it reads.
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

    /// How much failed.
    #[must_use]
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Files begin to move.
    fn begin_meter(&mut self, disk: Disk) {
        self.meter = (!self.terms.is_remote).then(|| Meter::begin(disk, None));
    }

    /// What was done since `begun` was a wait.
    fn waited(&mut self, why: Waits, begun: Instant) {
        if let Some(meter) = &mut self.meter {
            meter.waited(why, begun.elapsed());
        }
    }

    /// Tells where the time went, if that is due or this is the end.
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

    /// Waits until the limit lets more go.
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

    /// Tells the other side what is wrong here, and the person, if that is our part.
    fn complain(&mut self, what: &str) -> Result<(), OldError> {
        self.failures += 1;
        if !self.terms.is_remote {
            self.report.fails(what);
        }
        self.tell(format!("\x01scp: {what}\n").as_bytes())
    }

    /// A file failed: told to both.
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

    /// A byte; none at the end of the stream.
    fn byte(&mut self) -> Result<Option<u8>, OldError> {
        let begun = Instant::now();
        let first = self.input.fill_buf()?.first().copied();
        self.waited(Waits::Answers, begun);
        if first.is_some() {
            self.input.consume(1);
        }
        Ok(first)
    }

    /// Bytes up to a line's end, which goes.
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

    /// What the other side says to a record: nothing when it is content.
    fn answer(&mut self) -> Result<Option<String>, OldError> {
        let kind = self.byte()?.ok_or(OldError::Lost)?;
        if kind == 0 {
            return Ok(None);
        }
        let mut line = self.line()?;
        if kind > 2 {
            // No kind, but a letter of what a shell or a profile said.
            line.insert(0, kind);
        }
        self.failures += 1;
        let said = text::name(&line);
        if kind == 1 {
            return Ok(Some(said));
        }
        if !self.terms.is_remote {
            self.report.says(&said);
        }
        Err(OldError::Over)
    }
}

#[cfg(test)]
mod tests;
