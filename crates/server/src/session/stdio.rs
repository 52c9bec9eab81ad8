//! The two ends of a command's standard streams: a terminal, or three pipes.

use std::io;
use std::os::fd::OwnedFd;

use driver::Driver;
use proto::{ChannelId, Stream};

/// The command's side.
#[derive(Debug)]
pub(super) struct CommandEnd {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// The three are one terminal, to become the controlling one.
    pub(super) is_terminal: bool,
}

impl CommandEnd {
    /// The command's side of a terminal.
    pub(super) fn of_terminal(slave: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stdin: sys::io::dup(&slave)?,
            stdout: sys::io::dup(&slave)?,
            stderr: slave,
            is_terminal: true,
        })
    }

    /// No input, and output that nobody reads.
    pub(super) fn of_nobody() -> io::Result<Self> {
        Ok(Self {
            stdin: sys::io::null()?,
            stdout: sys::io::null()?,
            stderr: sys::io::null()?,
            is_terminal: false,
        })
    }

    /// Output to the same places, input from nowhere: for what runs before the command.
    pub(super) fn without_input(&self) -> io::Result<Self> {
        Ok(Self {
            stdin: sys::io::null()?,
            stdout: sys::io::dup(&self.stdout)?,
            stderr: sys::io::dup(&self.stderr)?,
            is_terminal: false,
        })
    }
}

/// Our side.
#[derive(Debug)]
pub(super) struct OurEnd {
    /// Takes what the client sends.
    pub(super) stdin: OwnedFd,
    /// What the client is sent.
    pub(super) outputs: Outputs,
}

/// What the client is sent.
#[derive(Debug)]
pub(super) struct Outputs {
    stdout: OwnedFd,
    /// None for a terminal, where both outputs are one.
    stderr: Option<OwnedFd>,
}

impl OurEnd {
    /// Our side of a terminal.
    pub(super) fn of_terminal(master: &OwnedFd) -> io::Result<Self> {
        // The copies share this switch: were it set with each copy, taking one away would make
        // reads from the others wait.
        sys::io::set_nonblocking(master, true)?;
        let outputs = Outputs {
            stdout: sys::io::dup(master)?,
            stderr: None,
        };
        Ok(Self {
            stdin: sys::io::dup(master)?,
            outputs,
        })
    }
}

impl Outputs {
    /// Lets the driver move the bytes.
    pub(super) fn attach(self, driver: &mut Driver, channel: ChannelId) -> io::Result<()> {
        driver.attach_source(channel, Stream::Data, self.stdout)?;
        if let Some(stderr) = self.stderr {
            driver.attach_source(channel, Stream::Stderr, stderr)?;
        }
        Ok(())
    }
}

/// Three pipes.
pub(super) fn pipes() -> io::Result<(CommandEnd, OurEnd)> {
    let (stdin, our_stdin) = sys::io::pipe()?;
    let (our_stdout, stdout) = sys::io::pipe()?;
    let (our_stderr, stderr) = sys::io::pipe()?;
    Ok((
        CommandEnd {
            stdin,
            stdout,
            stderr,
            is_terminal: false,
        },
        OurEnd {
            stdin: our_stdin,
            outputs: Outputs {
                stdout: our_stdout,
                stderr: Some(our_stderr),
            },
        },
    ))
}

/// Whether output may still come from what ended, now: bytes that no one has taken yet, or the
/// end of a stream that no one has seen yet. The streams stay attached.
///
/// Polling a terminal's master makes the kernel hand over what is on its way from the slave,
/// so "nothing there" means that everything written so far has been read.
pub(super) fn has_more(driver: &mut Driver, channel: ChannelId) -> io::Result<bool> {
    let mut more = false;
    for stream in [Stream::Data, Stream::Stderr] {
        more |= driver.source_has_more(channel, stream)?;
    }
    Ok(more)
}
