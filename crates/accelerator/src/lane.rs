//! A lane from the connection's side: a run is laid into its memory, and what comes back judged.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use compress::provider::{MAX_RUN_PAYLOADS, Run, RunError, Verifier};
use sys::shared::SharedMemory;

use crate::layout::{LANE_BYTES, MESSAGE_BYTES, Reply, RunRequest, WINDOW_BYTES};

/// How long one run may take. 256 KiB take the slowest zlib 30 ms at its highest level; the rest is
/// for machines that are busy with other things.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(1);

/// Why a lane gave nothing.
#[derive(Debug)]
pub(crate) enum LaneFault {
    /// The process has ended: whoever holds it knows how.
    Ended,
    /// It did not answer in time.
    Late(Duration),
    /// What it answered, or what is wrong with it.
    Wrong(String),
}

impl From<RunError> for LaneFault {
    fn from(RunError(why): RunError) -> Self {
        Self::Wrong(why)
    }
}

impl From<io::Error> for LaneFault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Ended,
            _ => Self::Wrong(error.to_string()),
        }
    }
}

/// Our end of a lane.
pub(crate) struct Lane {
    socket: OwnedFd,
    memory: SharedMemory,
    verifier: Verifier,
}

impl Lane {
    /// A lane, and the process's ends of socket and memory.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let (socket, theirs) = sys::socket::seqpacket_pair()?;
        let memory = SharedMemory::new("compress-lane", LANE_BYTES)?;
        let copy = sys::io::dup(&memory)?;
        let verifier = Verifier::new();
        let lane = Self {
            socket,
            memory,
            verifier,
        };
        Ok((lane, theirs, copy))
    }

    /// As `RunEncoder::encode_run`, waiting no longer than `limit`.
    pub(crate) fn encode(
        &mut self,
        run: &Run<'_>,
        verify: bool,
        limit: Duration,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), LaneFault> {
        if run.window.len() > WINDOW_BYTES || run.ends.len() > MAX_RUN_PAYLOADS {
            return Err(LaneFault::Wrong("a run is too long for it".to_owned()));
        }
        self.memory.write(0, run.window)?;
        let request = RunRequest {
            level: run.level,
            history_bytes: run.history_bytes,
            ends: run.ends.to_vec(),
        };
        sys::socket::send_with_fds(&self.socket, &request.encode(), &[])?;
        let made = match answer(&self.socket, limit)? {
            Reply::Done(made) => made,
            Reply::Failed(why) => return Err(LaneFault::Wrong(why)),
            Reply::Says(_) => return Err(LaneFault::Wrong("its answer makes no sense".into())),
        };
        // The process can still write to the memory: what is copied out is what is judged and used.
        let start = out.len();
        let len = made.last().copied().unwrap_or_default();
        self.memory.read_into(WINDOW_BYTES, len, out)?;
        if verify {
            let copied = out.get(start..).unwrap_or_default();
            self.verifier.verify(run, copied, &made)?;
        }
        ends.extend(made.iter().map(|end| start + end));
        Ok(())
    }
}

/// Waits for one message.
pub(crate) fn answer(socket: &OwnedFd, limit: Duration) -> Result<Reply, LaneFault> {
    if !sys::io::wait_readable(socket, Some(limit))? {
        return Err(LaneFault::Late(limit));
    }
    let mut message = [0; MESSAGE_BYTES];
    let len = sys::io::read(socket, &mut message)?;
    if len == 0 {
        return Err(LaneFault::Ended);
    }
    let reply = Reply::decode(message.get(..len).unwrap_or_default());
    reply.ok_or_else(|| LaneFault::Wrong("its answer makes no sense".to_owned()))
}
