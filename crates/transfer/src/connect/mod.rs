//! Connections to a server through an `ssh` child process and its pipes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use sys::io::PollFd;
use sys::signals::Signal;

use crate::engine::{EngineError, Exchange, Transport};

mod stream;

pub(crate) use stream::LOOK;
pub use stream::{SignalNoted, Watched, settle};

/// Size of one write and one read, bytes.
const CHUNK_BYTES: usize = 256 << 10;
/// Requested capacity of a pipe, bytes.
const PIPE_BYTES: usize = 1 << 20;

/// One child process and its pipes.
#[derive(Debug)]
struct ChildLink {
    child: Child,
    input: Option<OwnedFd>,
    output: OwnedFd,
    /// Output buffer: `filled` bytes are valid, `written` of them are written.
    out: Vec<u8>,
    filled: usize,
    written: usize,
    received: BytesMut,
}

/// Child processes that carry SFTP, one per connection.
#[derive(Debug, Default)]
pub struct Children {
    links: Vec<ChildLink>,
    /// See [`Children::deaf`].
    deaf: bool,
}

/// Starts a program with pipes as its standard input and output, and returns the parent's ends: the
/// program's input and its output. Its standard error is inherited.
///
/// # Errors
/// The system's error.
pub fn spawn(command: &mut Command) -> io::Result<(Child, OwnedFd, OwnedFd)> {
    let (their_input, input) = sys::io::pipe()?;
    let (output, their_output) = sys::io::pipe()?;
    for pipe in [&input, &their_output] {
        // The default capacity also works.
        let _ = sys::io::set_pipe_size(pipe, PIPE_BYTES);
    }
    command.stdin(Stdio::from(their_input));
    command.stdout(Stdio::from(their_output));
    let child = command.spawn()?;
    // The command holds the child's ends until it is dropped or gets other ones.
    command.stdin(Stdio::null());
    command.stdout(Stdio::null());
    Ok((child, input, output))
}

impl Children {
    /// Creates a set of children that ignore SIGINT, for a caller that handles the terminal's
    /// interrupt itself and keeps the connections.
    #[must_use]
    pub fn deaf() -> Self {
        Self {
            links: Vec::new(),
            deaf: true,
        }
    }

    /// Starts another child.
    ///
    /// # Errors
    /// The system's error.
    pub fn add(&mut self, command: &mut Command) -> io::Result<()> {
        let spawned = match self.deaf {
            true => {
                // An ignored signal stays ignored in the executed program.
                sys::signals::ignore(Signal::INT)?;
                let spawned = spawn(command);
                sys::signals::note(Signal::INT)?;
                spawned
            }
            false => spawn(command),
        };
        let (child, input, output) = spawned?;
        sys::io::set_nonblocking(&input, true)?;
        sys::io::set_nonblocking(&output, true)?;
        self.links.push(ChildLink {
            child,
            input: Some(input),
            output,
            out: vec![0; CHUNK_BYTES],
            filled: 0,
            written: 0,
            received: BytesMut::new(),
        });
        Ok(())
    }

    /// Closes the input of all children and waits for their end. Returns the first exit status that
    /// is not a success.
    pub fn finish(&mut self) -> Option<ExitStatus> {
        let mut worst = None;
        for link in &mut self.links {
            link.input = None;
        }
        for link in &mut self.links {
            if let Ok(status) = link.child.wait()
                && !status.success()
            {
                worst.get_or_insert(status);
            }
        }
        self.links.clear();
        worst
    }

    /// Kills all children at once.
    pub fn kill(&mut self) {
        for link in &mut self.links {
            let _ = link.child.kill();
            let _ = link.child.wait();
        }
        self.links.clear();
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        // The children end when their input closes; do not wait for one that hangs.
        for link in &mut self.links {
            link.input = None;
            let ended = link.child.try_wait();
            // A child that ignores SIGINT may be asking for a password.
            if self.deaf
                && matches!(ended, Ok(None))
                && let Ok(pid) = i32::try_from(link.child.id())
            {
                let _ = sys::signals::send(pid, Signal::TERM);
            }
        }
    }
}

fn would_block(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl ChildLink {
    fn has_output(&self) -> bool {
        self.written < self.filled
    }

    /// Writes as much as the pipe accepts; returns true if anything was written.
    fn write(&mut self, index: usize, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        let mut moved = false;
        loop {
            if !self.has_output() {
                self.written = 0;
                self.filled = exchange.fill(index, &mut self.out);
                if self.filled == 0 {
                    return Ok(moved);
                }
            }
            let Some(input) = &self.input else {
                return Err(EngineError::Closed);
            };
            let rest = self.out.get(self.written..self.filled).unwrap_or_default();
            match sys::io::write(input, rest) {
                Ok(count) => {
                    self.written += count;
                    moved |= count > 0;
                    // Read answers before writing the rest.
                    if self.has_output() {
                        return Ok(moved);
                    }
                }
                Err(error) if would_block(&error) => return Ok(moved),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&mut self, index: usize, exchange: &mut dyn Exchange) -> Result<bool, EngineError> {
        self.received.reserve(CHUNK_BYTES);
        match sys::io::read_into(&self.output, &mut self.received) {
            Ok(0) => Err(EngineError::Closed),
            Ok(_) => {
                exchange.feed(index, self.received.split().freeze())?;
                Ok(true)
            }
            Err(error) if would_block(&error) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn watched(&self) -> [Option<(BorrowedFd<'_>, bool, bool)>; 2] {
        let input = self.input.as_ref().filter(|_| self.has_output());
        [
            Some((self.output.as_fd(), true, false)),
            input.map(|input| (input.as_fd(), false, true)),
        ]
    }
}

impl Transport for Children {
    fn links(&self) -> usize {
        self.links.len()
    }

    fn turn(&mut self, exchange: &mut dyn Exchange, wait: Duration) -> Result<bool, EngineError> {
        let mut moved = false;
        for (index, link) in self.links.iter_mut().enumerate() {
            moved |= link.write(index, exchange)?;
            moved |= link.read(index, exchange)?;
        }
        if moved || exchange.is_over() {
            return Ok(true);
        }
        let mut fds: Vec<PollFd<'_>> = self
            .links
            .iter()
            .flat_map(ChildLink::watched)
            .flatten()
            .map(|(fd, reads, writes)| PollFd::new(fd, reads, writes))
            .collect();
        let begun = Instant::now();
        let ready = sys::io::poll(&mut fds, Some(wait))?;
        exchange.waited(begun.elapsed());
        Ok(ready > 0)
    }
}
