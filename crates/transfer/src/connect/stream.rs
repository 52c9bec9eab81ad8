//! Blocking reads and writes on the pipes of a child process, which end when a signal is noted, and
//! waiting for the child's end.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use sys::signals::{self, Signal};

/// Interval at which a wait checks for signals.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// Time limit for a child to end after SIGTERM.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A signal that ends the program was noted ([`sys::signals::noted`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalNoted;

impl std::fmt::Display for SignalNoted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupted")
    }
}

impl std::error::Error for SignalNoted {}

/// One end of a pipe. Reads and writes fail with [`SignalNoted`] once such a signal is noted.
#[derive(Debug)]
pub struct Watched(OwnedFd);

impl Watched {
    /// Wraps the parent's end of a pipe and makes it nonblocking.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        sys::io::set_nonblocking(&fd, true)?;
        Ok(Self(fd))
    }

    fn moved(
        &self,
        mut step: impl FnMut(&OwnedFd) -> io::Result<usize>,
        wait: impl Fn(&OwnedFd, Option<Duration>) -> io::Result<bool>,
    ) -> io::Result<usize> {
        loop {
            if signals::noted() {
                // Not `Interrupted`: callers would try again.
                return Err(io::Error::other(SignalNoted));
            }
            match step(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.0, Some(LOOK))?;
                }
                result => return result,
            }
        }
    }
}

impl Read for Watched {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.moved(
            |fd| sys::io::read(fd, room),
            |fd, wait| sys::io::wait_readable(fd, wait),
        )
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.moved(
            |fd| sys::io::write(fd, bytes),
            |fd, wait| sys::io::wait_writable(fd, wait),
        )
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits for a child to end, without limit or for `patience`. After that, or once a signal is
/// noted, sends SIGTERM, and SIGKILL if the child has not ended two seconds later.
pub fn settle(child: &mut Child, patience: Option<Duration>) -> Option<ExitStatus> {
    let until = patience.map(|patience| Instant::now() + patience);
    let patient = || !signals::noted() && until.is_none_or(|until| Instant::now() < until);
    if let Some(status) = ended(child, patient) {
        return Some(status);
    }
    if let Ok(pid) = i32::try_from(child.id()) {
        // The child may have ended already.
        let _ = signals::send(pid, Signal::TERM);
    }
    let until = Instant::now() + LAST_WORDS;
    if let Some(status) = ended(child, || Instant::now() < until) {
        return Some(status);
    }
    let _ = child.kill();
    child.wait().ok()
}

fn ended(child: &mut Child, goes_on: impl Fn() -> bool) -> Option<ExitStatus> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if !goes_on() {
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LOOK);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::super::spawn;
    use super::*;

    #[test]
    fn bytes_go_both_ways_and_the_end_is_one() {
        let (mut child, input, output) = spawn(&mut Command::new("cat")).unwrap();
        let mut input = Watched::new(input).unwrap();
        let mut output = BufReader::new(Watched::new(output).unwrap());
        let sent = vec![b'x'; 3 << 20];
        let thread = std::thread::spawn(move || input.write_all(&sent).map(|()| drop(input)));
        let mut count = 0;
        while let Ok(bytes) = output.fill_buf()
            && !bytes.is_empty()
        {
            let len = bytes.len();
            count += len;
            output.consume(len);
        }
        thread.join().unwrap().unwrap();
        assert_eq!(count, 3 << 20);
        assert!(settle(&mut child, None).unwrap().success());
    }

    #[test]
    fn a_child_that_stays_is_told_to_end() {
        let mut command = Command::new("sleep");
        let mut child = command.arg("600").stdin(Stdio::null()).spawn().unwrap();
        let status = settle(&mut child, Some(Duration::from_millis(10))).unwrap();
        assert!(!status.success());
        let mut deaf = Command::new("sh")
            .args(["-c", "trap '' TERM; echo; while :; do sleep 1; done"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // From this line on it ignores the signal.
        let said = deaf.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut String::new()).unwrap();
        let status = settle(&mut deaf, Some(Duration::ZERO)).unwrap();
        assert!(!status.success());
    }
}
