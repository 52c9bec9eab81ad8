//! Passes on what a process with foreign code prints: a library may say what a token waits for, or why
//! it fails. The process gets a pipe and not this process's terminal, from which it could read and
//! which it could control.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::io::{PollFd, pipe, poll, read, set_nonblocking};

/// Longest line that is shown, bytes; the rest of a longer one is shown as further lines.
const MAX_LINE_BYTES: usize = 1024;
/// Most reads before the other descriptor is looked at again: as much as a pipe holds. A process that
/// never stops printing must not hold up what waits for its answer.
const MAX_READS: usize = 16;
const READ_BYTES: usize = 4096;
/// Most text of one process that is shown, bytes.
const MAX_SHOWN_BYTES: usize = 32 * 1024;

/// The reading end of a process's standard error. Its lines go to this process's own standard error, or
/// are kept, each with the program's name before it and with escapes for what is not printable: at most
/// 32 KiB, the rest is dropped.
#[derive(Debug)]
pub struct PrintedText {
    /// `None` after the end.
    pipe: Option<OwnedFd>,
    program: &'static str,
    line: Vec<u8>,
    left: usize,
    /// The lines, if they are kept.
    kept: Option<Vec<String>>,
}

impl PrintedText {
    /// Creates the pipe; the second value is for the process. Its writes never block: text is lost
    /// while nobody reads and the pipe (64 KiB) is full.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(program: &'static str) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = pipe()?;
        set_nonblocking(&ours, true)?;
        set_nonblocking(&theirs, true)?;
        let text = Self {
            pipe: Some(ours),
            program,
            line: Vec::new(),
            left: MAX_SHOWN_BYTES,
            kept: None,
        };
        Ok((text, theirs))
    }

    /// As [`PrintedText::new`], but keeps the lines for [`PrintedText::lines`], and a write waits while the
    /// pipe is full: whoever waits for the process reads until its end.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn kept(program: &'static str) -> io::Result<(Self, OwnedFd)> {
        let (mut text, theirs) = Self::new(program)?;
        set_nonblocking(&theirs, false)?;
        text.kept = Some(Vec::new());
        Ok((text, theirs))
    }

    /// The kept lines of what was printed until now.
    pub fn lines(&mut self) -> Vec<String> {
        self.show_waiting();
        self.kept.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Waits until `other` is readable or at its end, and shows what was and is printed meanwhile.
    /// Without a `limit` it waits as long as that takes.
    ///
    /// # Errors
    /// The kernel's error; `TimedOut` at the end of `limit`.
    pub fn show_until_readable(
        &mut self,
        other: impl AsFd,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        let other = other.as_fd();
        let deadline = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut fds = vec![PollFd::new(other, true, false)];
            let pipe = self.pipe.as_ref();
            fds.extend(pipe.map(|pipe| PollFd::new(pipe.as_fd(), true, false)));
            poll(&mut fds, left)?;
            let [is_ready, has_text] = [0, 1].map(|at| {
                fds.get(at)
                    .is_some_and(|fd| fd.is_readable() || fd.is_hangup())
            });
            drop(fds);
            if has_text {
                self.show_waiting();
            }
            if is_ready {
                return Ok(());
            }
        }
    }

    /// Shows what is printed until the process has closed its end.
    pub fn show_to_end(&mut self) {
        while let Some(pipe) = &self.pipe {
            if crate::io::wait_readable(pipe, None).is_err() {
                return;
            }
            self.show_waiting();
        }
    }

    /// Shows what was printed until now.
    fn show_waiting(&mut self) {
        let mut kept = self.kept.take();
        self.read_waiting(&mut |line| match &mut kept {
            Some(kept) => kept.push(line.to_owned()),
            None => show(line),
        });
        self.kept = kept;
    }

    fn read_waiting(&mut self, show: &mut impl FnMut(&str)) {
        let mut buffer = [0; READ_BYTES];
        for _ in 0..MAX_READS {
            let Some(pipe) = &self.pipe else { break };
            match read(pipe, &mut buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.take(buffer.get(..count).unwrap_or_default(), show),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.pipe = None,
            }
        }
        self.end_line(show);
    }

    /// Adds text, and gives each whole line to `show`.
    fn take(&mut self, text: &[u8], show: &mut impl FnMut(&str)) {
        for byte in text {
            if *byte == b'\n' {
                self.end_line(show);
                continue;
            }
            self.line.push(*byte);
            if self.line.len() == MAX_LINE_BYTES {
                self.end_line(show);
            }
        }
    }

    fn end_line(&mut self, show: &mut impl FnMut(&str)) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() || self.left == 0 {
            return;
        }
        let program = self.program;
        self.left = self.left.saturating_sub(line.len());
        show(&format!("{program}: {}", escape::one_line(&line)));
        if self.left == 0 {
            show(&format!(
                "{program}: prints too much; the rest is not shown"
            ));
        }
    }
}

fn show(line: &str) {
    // Nobody may read standard error any more.
    let _ = crate::io::write_all(crate::io::stderr(), format!("{line}\n").as_bytes());
}

impl Drop for PrintedText {
    fn drop(&mut self) {
        self.show_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(texts: &[&[u8]]) -> Vec<String> {
        let (mut printed, _theirs) = PrintedText::new("helper").expect("a pipe");
        let mut lines = Vec::new();
        for text in texts {
            printed.take(text, &mut |line| lines.push(line.to_owned()));
        }
        printed.end_line(&mut |line| lines.push(line.to_owned()));
        lines
    }

    #[test]
    fn lines_have_a_name_and_control_no_terminal() {
        let lines = shown(&[b"touch", b" it\n\n\x1b[2Jx\x9b\n", b"rest"]);
        assert_eq!(lines.len(), 3, "{lines:?}");
        assert_eq!(lines[0], "helper: touch it");
        assert!(lines[1].starts_with("helper: ") && lines[1].is_ascii());
        assert!(!lines[1].contains('\x1b'), "{lines:?}");
        assert_eq!(lines[2], "helper: rest");
    }

    #[test]
    fn lines_and_the_whole_are_bounded() {
        let long = vec![b'a'; 2 * MAX_LINE_BYTES + 1];
        assert_eq!(shown(&[&long]).len(), 3);
        let endless = vec![b'a'; 10 * MAX_SHOWN_BYTES];
        let lines = shown(&[&endless]);
        assert_eq!(lines.len(), MAX_SHOWN_BYTES / MAX_LINE_BYTES + 1);
        assert!(lines[lines.len() - 1].contains("not shown"));
    }

    #[test]
    fn a_reader_waits_for_both_and_a_writer_for_none() {
        let (mut printed, theirs) = PrintedText::new("helper").expect("a pipe");
        // More than a pipe holds: the rest fails at once.
        let full = loop {
            if let Err(error) = crate::io::write(&theirs, &[b'\n'; 4096]) {
                break error.kind();
            }
        };
        assert_eq!(full, io::ErrorKind::WouldBlock);
        let (ready, other) = pipe().expect("a pipe");
        crate::io::write_all(&other, b"x").expect("room");
        printed
            .show_until_readable(&ready, None)
            .expect("an answer");
        // The text was taken.
        assert!(crate::io::write(&theirs, &[b'\n'; 4096]).is_ok());
        drop(theirs);
        printed.show_to_end();
        // Its end does not keep the other from being waited for.
        printed
            .show_until_readable(&ready, None)
            .expect("an answer");
    }

    #[test]
    fn a_wait_with_a_limit_ends_although_text_goes_on() {
        let (mut printed, theirs) = PrintedText::new("helper").expect("a pipe");
        let printing = std::thread::spawn(move || {
            while !matches!(crate::io::write(&theirs, &[b'\n'; 4096]),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe)
            {}
        });
        let (silent, _other) = pipe().expect("a pipe");
        let limit = Some(Duration::from_millis(50));
        let waited = printed.show_until_readable(&silent, limit);
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(printed);
        printing.join().expect("an end");
    }

    #[test]
    fn endless_text_holds_up_no_answer() {
        let (mut printed, theirs) = PrintedText::new("helper").expect("a pipe");
        let printing = std::thread::spawn(move || {
            // Until the reader is gone.
            while !matches!(crate::io::write(&theirs, &[b'\n'; 4096]),
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe)
            {}
        });
        let (ready, other) = pipe().expect("a pipe");
        crate::io::write_all(&other, b"x").expect("room");
        for _ in 0..100 {
            printed
                .show_until_readable(&ready, None)
                .expect("an answer");
        }
        drop(printed);
        printing.join().expect("an end");
    }
}
