//! The connection's end of a lane: writes a run into the shared memory, and checks and copies the
//! output.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use compress::provider::{MAX_RUN_PAYLOADS, Run, RunError, RunOutput, Verifier};
use sys::shared::SharedMemory;

use crate::layout::{LANE_BYTES, MESSAGE_BYTES, Reply, RunRequest, WINDOW_BYTES};

/// Time limit of one run. The slowest zlib takes 30 ms for 256 KiB at its highest level; the rest
/// allows for a busy machine.
pub(crate) const RUN_LIMIT: Duration = Duration::from_secs(1);

/// Why a lane returned no output.
#[derive(Debug)]
pub(crate) enum LaneFault {
    /// The process has ended; its owner ([`crate::process`]) reads its exit status.
    Ended,
    /// The process did not answer within this limit.
    Late(Duration),
    /// The error that the process reported, or the fault found in its answer.
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

/// The connection's end of a lane.
pub(crate) struct RunLane {
    socket: OwnedFd,
    memory: SharedMemory,
    verifier: Verifier,
    /// Number of the last run; only an answer with this number is accepted.
    number: u32,
    /// True if pages of the shared memory may be allocated.
    used: bool,
}

impl RunLane {
    /// Creates a lane; returns it with the socket and memory descriptors for the library's process.
    pub(crate) fn new() -> io::Result<(Self, OwnedFd, OwnedFd)> {
        let (socket, theirs) = sys::socket::seqpacket_pair()?;
        let memory = SharedMemory::new("compress-lane", LANE_BYTES)?;
        let copy = sys::io::dup(&memory)?;
        let verifier = Verifier::new();
        let lane = Self {
            socket,
            memory,
            verifier,
            number: 0,
            used: false,
        };
        Ok((lane, theirs, copy))
    }

    /// As `RunEncoder::encode_run`, but fails after `limit`.
    pub(crate) fn encode(
        &mut self,
        run: &Run<'_>,
        verify: bool,
        limit: Duration,
        out: &mut RunOutput,
    ) -> Result<(), LaneFault> {
        if run.window.len() > WINDOW_BYTES || run.ends.len() > MAX_RUN_PAYLOADS {
            return Err(LaneFault::Wrong("the run is too long for it".to_owned()));
        }
        self.used = true;
        self.memory.write(0, run.window)?;
        self.number = self.number.wrapping_add(1);
        let request = RunRequest {
            number: self.number,
            level: run.level,
            history_bytes: run.history_bytes,
            ends: run.ends.to_vec(),
        };
        sys::socket::send_with_fds(&self.socket, &request.encode(), &[])?;
        let made = match answer(&self.socket, self.number, limit)? {
            Reply::Done(made) => made,
            Reply::Failed(why) => return Err(LaneFault::Wrong(why)),
            Reply::Says(_) => return Err(LaneFault::Wrong("its answer is malformed".into())),
        };
        // The process can still write to the memory, so only the copy is checked and used.
        let start = out.bytes.len();
        let len = made.last().copied().unwrap_or_default();
        self.memory.read_into(WINDOW_BYTES, len, &mut out.bytes)?;
        if verify {
            let copied = out.bytes.get(start..).unwrap_or_default();
            self.verifier.verify(run, copied, &made)?;
        }
        out.ends.extend(made.iter().map(|end| start + end));
        Ok(())
    }

    /// True if [`RunLane::shed`] would free memory.
    pub(crate) fn has_spare(&self) -> bool {
        self.used
    }

    /// Frees the pages of the shared memory in both processes; the next run allocates them again.
    pub(crate) fn shed(&mut self) {
        if std::mem::take(&mut self.used) {
            self.memory.discard();
            self.verifier.shed();
        }
    }
}

/// Waits for the answer to the question `number`; drops answers to other questions.
pub(crate) fn answer(socket: &OwnedFd, number: u32, limit: Duration) -> Result<Reply, LaneFault> {
    let deadline = Instant::now() + limit;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !sys::io::wait_readable(socket, Some(left))? {
            return Err(LaneFault::Late(limit));
        }
        let len = sys::io::read(socket, &mut message)?;
        if len == 0 {
            return Err(LaneFault::Ended);
        }
        match Reply::decode(message.get(..len).unwrap_or_default()) {
            Some((answered, reply)) if answered == number => return Ok(reply),
            // An answer to an abandoned run or to none. Without the limit here, a process that
            // sends nothing else would never count as late.
            Some(_) if left.is_zero() => return Err(LaneFault::Late(limit)),
            Some(_) => {}
            None => return Err(LaneFault::Wrong("its answer is malformed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use compress::provider::Flush;

    use super::*;

    const WINDOW: &[u8] = b"bytes of a run, bytes of a run";

    fn encode(lane: &mut RunLane, limit: Duration) -> Result<Vec<u8>, LaneFault> {
        let run = Run {
            window: WINDOW,
            history_bytes: 0,
            ends: &[WINDOW.len()],
            level: 6,
            flush: Flush::Sync,
        };
        let mut out = RunOutput::default();
        lane.encode(&run, false, limit, &mut out)?;
        Ok(out.bytes)
    }

    /// Acts as the library's process: answers each question with the replies that `replies` makes
    /// from its number.
    fn process(
        socket: OwnedFd,
        memory: OwnedFd,
        replies: impl Fn(u32) -> Vec<(u32, usize)> + Send + 'static,
    ) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let mut memory = SharedMemory::from_fd(memory, LANE_BYTES).unwrap();
            let mut message = [0; MESSAGE_BYTES];
            while let Ok(len @ 1..) = sys::io::read(&socket, &mut message) {
                let asked = crate::layout::question(&message[..len]);
                memory.write(WINDOW_BYTES, b"output").unwrap();
                for (number, bytes) in replies(asked) {
                    let reply = Reply::Done(vec![bytes]).encode(number);
                    // Fails if the lane was dropped before.
                    let _ = sys::socket::send_with_fds(&socket, &reply, &[]);
                }
            }
        })
    }

    #[test]
    fn an_answer_to_another_run_is_taken_for_none() {
        let (mut lane, socket, memory) = RunLane::new().unwrap();
        // A late answer to the previous run, one to a run that does not exist, then the right one.
        let stale = |asked: u32| vec![(asked.wrapping_sub(1), 1), (asked + 40, 2), (asked, 6)];
        let process = process(socket, memory, stale);
        for _ in 0..3 {
            let out = encode(&mut lane, Duration::from_secs(60)).unwrap();
            assert_eq!(out, b"output");
        }
        drop(lane);
        process.join().unwrap();

        let (mut lane, socket, memory) = RunLane::new().unwrap();
        let never = |asked: u32| vec![(asked.wrapping_sub(1), 1); 5];
        let process = self::process(socket, memory, never);
        let fault = encode(&mut lane, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(fault, LaneFault::Late(_)), "{fault:?}");
        drop(lane);
        process.join().unwrap();
    }

    #[test]
    fn what_bulk_has_touched_is_given_back() {
        let (mut lane, socket, memory) = RunLane::new().unwrap();
        let process = process(socket, memory, |asked| vec![(asked, 6)]);
        assert!(!lane.has_spare());
        encode(&mut lane, Duration::from_secs(60)).unwrap();
        assert!(lane.has_spare());
        lane.shed();
        assert!(!lane.has_spare());
        let mut bytes = Vec::new();
        lane.memory.read_into(0, WINDOW.len(), &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "pages are left");
        assert_eq!(
            encode(&mut lane, Duration::from_secs(60)).unwrap(),
            b"output"
        );
        drop(lane);
        process.join().unwrap();
    }
}
