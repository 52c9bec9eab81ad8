//! The channel's end of a server that works in the connection's thread: where every file is on a
//! disk of this machine.

use bytes::Bytes;
use driver::{Line, Progress};
use packet::PacketBuf;
use proto::Error;
use transfer::serve::{Buffers, Level, Log, Serve, Work};

use super::{Lines, STATUS_FAILED};

/// See the module's head.
pub(super) struct Here {
    /// None when it is over.
    serve: Option<Box<Serve>>,
    /// What the administrator is told at the end.
    log: Lines,
    session: String,
    /// The client takes no answers any more.
    is_deserted: bool,
}

impl Here {
    pub(super) fn new(serve: Serve, log: Lines, session: String) -> Self {
        Self {
            serve: Some(Box::new(serve)),
            log,
            session,
            is_deserted: false,
        }
    }

    /// Gives the bytes that nobody takes any more.
    pub(super) fn receive(&mut self, data: Bytes) -> usize {
        match &mut self.serve {
            Some(serve) => {
                serve.receive(data);
                0
            }
            None => data.len(),
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(serve) = &mut self.serve {
            serve.end_input();
        }
    }

    pub(super) fn desert(&mut self) {
        self.is_deserted = true;
    }

    /// The client has gone: what it left open is closed.
    fn finish(&mut self) {
        if self.serve.take().is_some() {
            let line = format!("session closed {}", self.session);
            self.log.line(Level::Info, &line);
        }
    }

    /// Works, in slices; gives the exit status when it is over.
    pub(super) fn work(&mut self, line: &mut Line<'_>) -> Result<(Progress, Option<u8>), Error> {
        let Some(serve) = &mut self.serve else {
            return Ok((Progress::Ended, None));
        };
        loop {
            if self.is_deserted {
                serve.end_answers();
                while let Some(buf) = serve.outbox().next_whole() {
                    line.recycle(buf);
                }
            }
            // First what waits: a window that has opened makes room for answers.
            send(serve, line)?;
            let work = match serve.work(&mut Packets(line)) {
                Ok(work) => work,
                Err(error) => {
                    self.log.line(Level::Error, &error.to_string());
                    self.finish();
                    return Ok((Progress::Ended, Some(STATUS_FAILED)));
                }
            };
            line.consumed(serve.take_consumed())?;
            if self.is_deserted {
                match work {
                    // A copy goes on slice by slice: other channels have their turn.
                    Work::Busy => return Ok((Progress::Busy, None)),
                    Work::Waiting => continue,
                    Work::Ended => {}
                }
            }
            let waits = !serve.outbox().is_empty();
            let sent = send(serve, line)?;
            match work {
                Work::Ended => {
                    self.finish();
                    return Ok((Progress::Ended, Some(0)));
                }
                Work::Busy if sent => return Ok((Progress::Busy, None)),
                // Answers had filled the room that requests need; they are gone.
                Work::Waiting if waits && sent => {}
                Work::Busy | Work::Waiting => return Ok((Progress::Waiting, None)),
            }
        }
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Sends what the window takes; true when nothing is left.
fn send(serve: &mut Serve, line: &mut Line<'_>) -> Result<bool, Error> {
    while !serve.outbox().is_empty() {
        let space = line.space();
        if space == 0 {
            return Ok(false);
        }
        match serve.outbox().next(space, &mut Packets(line)) {
            Some(buf) => line.send(buf)?,
            None => return Ok(true),
        }
    }
    Ok(true)
}

/// Buffers of the connection.
struct Packets<'l, 'd>(&'l mut Line<'d>);

impl Buffers for Packets<'_, '_> {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        self.0.take_buffer(capacity)
    }

    fn max_bytes(&self) -> usize {
        self.0.max_data()
    }
}
