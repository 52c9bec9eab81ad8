//! The role that receives: the remote end of an upload, the local end of a download.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use sftp::{ExactTimes, Timestamp};

use super::target::{Described, Target};
use super::{Conversation, MAX_LEVELS, OldError, said};
use crate::connect::SignalNoted;
use crate::engine::{Disk, Waits};
use crate::plan::{names, shown};
use crate::sink;
use crate::text;

/// A record with a name.
struct Record<'l> {
    mode: u32,
    size: u64,
    name: &'l [u8],
}

fn is_signal(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<SignalNoted>())
}

fn protocol(why: &str) -> OldError {
    OldError::Protocol(why.to_owned())
}

fn number(bytes: &[u8]) -> Option<u64> {
    let digits = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}

/// `Cmmmm size name` or `Dmmmm 0 name`, without its letter.
fn record(line: &[u8]) -> Result<Record<'_>, OldError> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (Some(mode), Some(size), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(protocol("mode or size not delimited"));
    };
    let good = mode.len() == 4 && mode.iter().all(|digit| (b'0'..=b'7').contains(digit));
    let mode = std::str::from_utf8(mode)
        .ok()
        .filter(|_| good)
        .and_then(|mode| u32::from_str_radix(mode, 8).ok())
        .ok_or_else(|| protocol("bad mode"))?;
    let size = number(size)
        .filter(|size| i64::try_from(*size).is_ok())
        .ok_or_else(|| protocol("size out of range"))?;
    Ok(Record { mode, size, name })
}

/// `Tseconds micros seconds micros`, without its letter.
fn times(line: &[u8]) -> Result<ExactTimes, OldError> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    let [modified, modified_us, accessed, accessed_us] = fields[..] else {
        return Err(protocol("times not delimited"));
    };
    let at = |seconds: &[u8], micros: &[u8]| {
        let seconds = number(seconds).and_then(|seconds| i64::try_from(seconds).ok());
        let micros = number(micros).filter(|micros| *micros < 1_000_000);
        match (seconds, micros) {
            (Some(seconds), Some(micros)) => Ok(Timestamp {
                seconds,
                nanoseconds: u32::try_from(micros * 1000).unwrap_or_default(),
            }),
            _ => Err(protocol("time out of range")),
        }
    };
    Ok(ExactTimes {
        modified: at(modified, modified_us)?,
        accessed: at(accessed, accessed_us)?,
    })
}

impl Conversation<'_> {
    /// Receives into a file or a directory until the other side ends the session.
    ///
    /// # Errors
    /// [`OldError`]; a violation of the protocol was reported to the other side.
    pub fn receive(&mut self, target: &Path) -> Result<(), OldError> {
        if self.terms.target_is_directory && !target.is_dir() {
            let why = match std::fs::metadata(target) {
                Ok(_) => "Not a directory".to_owned(),
                Err(error) => text::reason(&error),
            };
            self.complain(&format!("{}: {why}", shown(target)))?;
            return Err(OldError::Over);
        }
        self.begin_meter(Disk::Target);
        let result = self.receive_into(target, 0);
        self.tell_times(true);
        if let Err(OldError::Protocol(why)) = &result {
            let what = format!("protocol error: {why}");
            self.failures += 1;
            // The other side may be gone; the violation is an error in any case.
            let _ = self.tell(format!("\x01scp: {what}\n").as_bytes());
        }
        result
    }

    fn receive_into(&mut self, target: &Path, depth: usize) -> Result<(), OldError> {
        if depth > MAX_LEVELS {
            return Err(protocol("directories too deep"));
        }
        self.tell(b"\0")?;
        let is_directory = target.is_dir();
        let mut kept_times: Option<ExactTimes> = None;
        let mut first = true;
        loop {
            let Some(kind) = self.byte()? else {
                return match depth {
                    0 => Ok(()),
                    _ => Err(OldError::Lost),
                };
            };
            if kind == b'\n' {
                return Err(protocol("unexpected <newline>"));
            }
            let line = self.line()?;
            match kind {
                1 | 2 => {
                    self.failures += 1;
                    if !self.terms.is_remote {
                        self.report.fails(&said(&line));
                    }
                    if kind == 2 {
                        return Err(OldError::Over);
                    }
                }
                b'E' if depth == 0 => return Err(protocol("unexpected end of a directory")),
                b'E' => {
                    self.tell(b"\0")?;
                    return Ok(());
                }
                b'T' => {
                    kept_times = Some(times(&line)?);
                    self.tell(b"\0")?;
                }
                b'C' | b'D' => {
                    let record = record(&line)?;
                    if !names::is_plain(record.name) {
                        let name = text::name(record.name);
                        return Err(OldError::Protocol(format!("unexpected filename: {name}")));
                    }
                    let asked = self.terms.patterns.as_mut();
                    if depth == 0 && asked.is_some_and(|patterns| !patterns.allow(record.name)) {
                        return Err(protocol("filename does not match request"));
                    }
                    let path = match is_directory {
                        true => target.join(std::ffi::OsStr::from_bytes(record.name)),
                        false => target.to_path_buf(),
                    };
                    let times = kept_times.take();
                    match kind {
                        b'C' => self.receive_file(&path, &record, times)?,
                        _ => self.receive_directory(path, &record, times, depth)?,
                    }
                }
                // Output of a shell or a profile precedes the protocol.
                other if first => {
                    let mut said = vec![other];
                    said.extend_from_slice(&line);
                    self.complain(&text::name(&said))?;
                    return Err(OldError::Over);
                }
                _ => return Err(protocol("expected control record")),
            }
            first = false;
        }
    }

    fn receive_directory(
        &mut self,
        path: PathBuf,
        record: &Record<'_>,
        times: Option<ExactTimes>,
        depth: usize,
    ) -> Result<(), OldError> {
        if !self.terms.recursive {
            return Err(protocol("received directory without -r"));
        }
        let mode = record.mode & 0o777;
        let made = std::fs::DirBuilder::new().mode(mode | 0o700).create(&path);
        let fresh = made.is_ok();
        if let Err(error) = made
            && !path.is_dir()
        {
            let why = match path.exists() {
                true => "Not a directory".to_owned(),
                false => text::reason(&error),
            };
            return self.complain(&format!("{}: {why}", shown(&path)));
        }
        self.receive_into(&path, depth + 1)?;
        let to_say = shown(&path);
        if let Some(times) = times
            && self.terms.preserve
            && let Err(error) = File::open(&path).and_then(|file| sink::set_times(&file, &times))
        {
            self.complain(&format!("{to_say}: set times: {}", text::reason(&error)))?;
        }
        let kept = match self.terms.preserve {
            true => Some(mode),
            // The umask was applied at creation, with the bits that the owner needs to write into
            // it added.
            false if fresh && mode & 0o700 != 0o700 => {
                let there = std::fs::metadata(&path).ok();
                there.map(|there| there.mode() & mode)
            }
            false => None,
        };
        if let Some(mode) = kept {
            // As OpenSSH, without a message: the content is complete.
            let _ = std::fs::set_permissions(&path, Permissions::from_mode(mode));
        }
        Ok(())
    }

    fn receive_file(
        &mut self,
        path: &Path,
        record: &Record<'_>,
        times: Option<ExactTimes>,
    ) -> Result<(), OldError> {
        let to = path.as_os_str().as_encoded_bytes().to_vec();
        let to_say = shown(path);
        let described = Described {
            mode: record.mode,
            size: record.size,
            times,
        };
        let mut target = match Target::open(path, &described) {
            Ok(target) => target,
            Err(error) if is_signal(&error) => return Err(OldError::Interrupted),
            Err(error) => {
                let what = format!("{to_say}: {}", text::reason(&error));
                return self.complain_of(record.name, &to, 0, &what);
            }
        };
        self.report.begins(0, record.name, Some(record.size));
        self.tell(b"\0")?;
        let failure = self.receive_content(&mut target, record.size)?;
        // The sender's verdict: whether the received bytes are the file's.
        if let Some(said) = self.answer()? {
            target.drop_filler();
            if !self.terms.is_remote {
                self.ended(record.name, &to, 0, Some(said));
            }
            // The sender waits for one answer per file, even if it gave the file up.
            return self.tell(b"\0");
        }
        let finished = match failure {
            Some(why) => Err(format!("{to_say}: {why}")),
            None => target
                .finish(&described, self.terms.preserve)
                .map_err(|(what, error)| format!("{to_say}: {what}: {}", text::reason(&error))),
        };
        match finished {
            Ok(()) => {
                self.ended(record.name, &to, record.size, None);
                self.tell(b"\0")
            }
            Err(what) => self.complain_of(record.name, &to, record.size, &what),
        }
    }

    /// Receives the content; skips bytes that cannot be written, so that the session can continue.
    fn receive_content(
        &mut self,
        target: &mut Target,
        size: u64,
    ) -> Result<Option<String>, OldError> {
        let mut failure = None;
        let mut at = 0;
        while at < size {
            let begun = Instant::now();
            let bytes = self.input.fill_buf()?;
            if let Some(meter) = &mut self.meter {
                meter.waited(Waits::Answers, begun.elapsed());
            }
            if bytes.is_empty() {
                return Err(OldError::Lost);
            }
            let left = usize::try_from(size - at).unwrap_or(usize::MAX);
            let count = bytes.len().min(left);
            let bytes = bytes.get(..count).unwrap_or_default();
            if failure.is_none()
                && let Err(error) = target.write(at, bytes)
            {
                if is_signal(&error) {
                    return Err(OldError::Interrupted);
                }
                failure = Some(text::reason(&error));
            }
            self.input.consume(count);
            let count = u64::try_from(count).unwrap_or_default();
            at += count;
            self.report.moved(0, count);
            self.tell_times(false);
            self.pace.went(count);
            self.keep_pace()?;
        }
        Ok(failure)
    }
}
