//! A command on one host: the local end of the session of one connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use client::children::LoginProcesses;
use client::session::{AnyLocalEnd, LocalEnd, ServerFacts};
use driver::{ChannelHandler, ChannelIo, HandlerProgress};
use proto::{Error, Stream};
use sys::epoll::EventFd;

use crate::output::{HostOutput, locked};
use crate::spool::Spool;

/// Bytes that wait for the output while the connection is read.
const HELD_BACK_BYTES: usize = 64 << 10;
/// Largest piece of the input in one packet, bytes.
const PIECE_BYTES: usize = 32 << 10;

/// The signals to a host that works: other threads end its work or wake its connection.
#[derive(Debug)]
pub(crate) struct Control {
    /// Wakes the host's connection.
    pub(crate) waker: Arc<EventFd>,
    /// What its login starts.
    pub(crate) processes: Arc<LoginProcesses>,
    is_abandoned: AtomicBool,
}

impl Control {
    /// # Errors
    /// The system's, if there is no descriptor.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            waker: Arc::new(EventFd::new()?),
            processes: Arc::default(),
            is_abandoned: AtomicBool::new(false),
        })
    }

    /// Ends the work: a session at once, a login after its present step, without a further proof or a command.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Relaxed);
        self.processes.give_up();
        let _ = self.waker.signal();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }
}

/// The local end of a host's session.
pub(crate) struct CommandEnd {
    pub(crate) control: Arc<Control>,
    pub(crate) output: Arc<Mutex<HostOutput>>,
    /// `None` if the command gets no input.
    pub(crate) input: Option<Arc<Spool>>,
    pub(crate) has_begun: Arc<AtomicBool>,
    /// A channel was opened: the command may have run.
    pub(crate) may_have_run: bool,
}

impl CommandEnd {
    /// This end in the form that the client takes.
    pub(crate) fn as_local_end(&mut self) -> &mut AnyLocalEnd {
        self
    }
}

impl LocalEnd for CommandEnd {
    fn endpoint(&mut self) -> Box<dyn ChannelHandler> {
        self.may_have_run = true;
        // Another attempt to log in begins anew.
        self.has_begun.store(false, Ordering::Relaxed);
        Box::new(CommandHandler {
            control: Arc::clone(&self.control),
            output: Arc::clone(&self.output),
            input: self.input.clone(),
            has_begun: Arc::clone(&self.has_begun),
            offset: 0,
            has_ended_input: false,
        })
    }

    fn channel_begins(&mut self, _heard: bool) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    fn waker(&self) -> &EventFd {
        &self.control.waker
    }

    fn logged_in(&mut self, _server: ServerFacts) {}

    fn has_no_input(&self) -> bool {
        self.input.is_none()
    }
}

/// The handler of the command's channel, on the connection's thread.
struct CommandHandler {
    control: Arc<Control>,
    output: Arc<Mutex<HostOutput>>,
    input: Option<Arc<Spool>>,
    /// The channel is confirmed, and EOF was not sent with its requests.
    has_begun: Arc<AtomicBool>,
    /// Bytes of the input that were sent.
    offset: u64,
    has_ended_input: bool,
}

impl CommandHandler {
    fn send_input(&mut self, line: &mut ChannelIo<'_>) -> Result<(), Error> {
        while !self.has_ended_input && line.is_open() {
            let Some(input) = &self.input else {
                self.has_ended_input = true;
                return line.end_of_data();
            };
            let space = line.space().min(PIECE_BYTES);
            if space == 0 {
                break;
            }
            let mut buf = line.take_buffer(space);
            let read = buf.fill_with(space, |room| input.read_at(room, self.offset));
            match read {
                Ok(count) if count > 0 => {
                    self.offset += u64::try_from(count).unwrap_or(0);
                    line.send(buf)?;
                }
                // A file that cannot be read any more ends the input.
                Ok(_) | Err(_) => {
                    line.recycle(buf);
                    self.has_ended_input = true;
                    return line.end_of_data();
                }
            }
        }
        Ok(())
    }
}

impl ChannelHandler for CommandHandler {
    fn receive(&mut self, stream: Stream, data: Bytes) {
        locked(&self.output).receive(stream, data);
    }

    fn end(&mut self) {}

    fn work(&mut self, line: &mut ChannelIo<'_>) -> Result<HandlerProgress, Error> {
        if self.control.is_abandoned() {
            return Ok(HandlerProgress::Ended);
        }
        let taken = locked(&self.output).take_over();
        line.consumed(taken)?;
        if self.has_begun.load(Ordering::Relaxed) {
            self.send_input(line)?;
        }
        Ok(HandlerProgress::Waiting)
    }

    fn most_held(&self) -> usize {
        HELD_BACK_BYTES
    }
}
