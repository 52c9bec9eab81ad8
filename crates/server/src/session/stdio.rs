//! Both ends of a command's standard streams: a terminal, or three pipes.

use std::io;
use std::os::fd::OwnedFd;

use driver::Driver;
use proto::{ChannelId, Stream};

use crate::recorder::RecorderPipe;

/// The command's end of the streams.
#[derive(Debug)]
pub(super) struct CommandEnd {
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// True if the three are one terminal, which becomes the controlling terminal.
    pub(super) is_terminal: bool,
}

impl CommandEnd {
    /// The command's end of a terminal.
    pub(super) fn of_terminal(slave: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            stdin: sys::io::dup(&slave)?,
            stdout: sys::io::dup(&slave)?,
            stderr: slave,
            is_terminal: true,
        })
    }

    /// The null device for all three.
    pub(super) fn of_nobody() -> io::Result<Self> {
        Ok(Self {
            stdin: sys::io::null()?,
            stdout: sys::io::null()?,
            stderr: sys::io::null()?,
            is_terminal: false,
        })
    }

    /// The same outputs and a short text as input, for the rc file and xauth.
    pub(super) fn with_input(&self, text: &[u8]) -> io::Result<Self> {
        let stdin = match text.is_empty() {
            true => sys::io::null()?,
            false => {
                let (stdin, ours) = sys::io::pipe()?;
                // The empty pipe has room for it.
                sys::io::write_all(&ours, text)?;
                stdin
            }
        };
        Ok(Self {
            stdin,
            stdout: sys::io::dup(&self.stdout)?,
            stderr: sys::io::dup(&self.stderr)?,
            is_terminal: false,
        })
    }
}

/// The server's end of the streams.
#[derive(Debug)]
pub(super) struct OurEnd {
    /// Receives the client's data.
    pub(super) stdin: OwnedFd,
    /// What the client is sent.
    pub(super) outputs: Outputs,
}

/// What the client is sent.
#[derive(Debug)]
pub(super) struct Outputs {
    stdout: OwnedFd,
    /// `None` for a terminal, which has one output.
    stderr: Option<OwnedFd>,
    /// Gets a copy of the terminal's output.
    recorder: Option<RecorderPipe>,
}

impl OurEnd {
    /// The server's end of a terminal.
    pub(super) fn of_terminal(
        master: &OwnedFd,
        recorder: Option<&RecorderPipe>,
    ) -> io::Result<Self> {
        // Set once, because all copies share this flag: a copy that reset it on close would make
        // the others block.
        sys::io::set_nonblocking(master, true)?;
        let outputs = Outputs {
            stdout: sys::io::dup(master)?,
            stderr: None,
            recorder: recorder.map(RecorderPipe::duplicate).transpose()?,
        };
        Ok(Self {
            stdin: sys::io::dup(master)?,
            outputs,
        })
    }
}

impl Outputs {
    /// Attaches the outputs to the channel.
    pub(super) fn attach(self, driver: &mut Driver, channel: ChannelId) -> io::Result<()> {
        driver.attach_source(channel, Stream::Data, self.stdout)?;
        if let Some(recorder) = self.recorder {
            let tap = Box::new(move |bytes: &[u8]| recorder.output(bytes));
            driver.set_tap(channel, Stream::Data, tap);
        }
        if let Some(stderr) = self.stderr {
            driver.attach_source(channel, Stream::Stderr, stderr)?;
        }
        Ok(())
    }
}

/// Makes three pipes.
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
                recorder: None,
            },
        },
    ))
}

/// True if output of an ended command is still pending: unread bytes, or an end of stream not read
/// yet. The streams stay attached.
///
/// Polling a terminal's master makes the kernel deliver data in transit from the slave, so that
/// false means that everything written so far has been read.
pub(super) fn has_more(driver: &mut Driver, channel: ChannelId) -> io::Result<bool> {
    let mut more = false;
    for stream in [Stream::Data, Stream::Stderr] {
        more |= driver.source_has_more(channel, stream)?;
    }
    Ok(more)
}
