//! The SFTP thread of one channel, so that a slow or hanging disk delays nothing else of the
//! connection.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use driver::{BridgeCommand, BridgeLimits, PacketBridge, ThreadWaker, WorkerInput};
use packet::PacketBuf;
use sftp::server::{Buffers, Log, LogLevel, OUTBOX_BYTES, Serve, ServeError, Turn, Work};
use sys::epoll::EventFd;

use super::{STATUS_FAILED, SftpLog};

/// Limits of the bridge: few wake-ups for many answers, and little memory for an idle session.
const LIMITS: BridgeLimits = BridgeLimits {
    outgoing_bytes: OUTBOX_BYTES,
    low_bytes: OUTBOX_BYTES / 2,
    spare_buffers: 16,
    spare_at_rest: 2,
};
/// Stack of the thread, in bytes: NSS modules, which look names up, are its only deep callees.
const STACK_BYTES: usize = 512 * 1024;
/// Limit on the answers of one turn, in bytes: the connection encrypts them while the thread reads
/// on.
const TURN_ANSWERS: usize = 256 << 10;
/// Limit on the data of one turn, in bytes.
const TURN_BYTES: usize = 1 << 20;

/// Makes the server, inside the thread: opening its directory may block too.
pub(super) type Make = Box<dyn FnOnce() -> Result<Serve, String> + Send>;

/// An SFTP thread, as the connection sees it.
#[derive(Debug)]
pub(in crate::session) struct SftpThread {
    bridge: Arc<PacketBridge>,
    /// True if no further request may be started.
    stop: AtomicBool,
    /// Exit status; `None` while the thread runs.
    status: Mutex<Option<u8>>,
    ended: Condvar,
}

impl SftpThread {
    fn new() -> io::Result<Self> {
        let bridge = PacketBridge::new(LIMITS, Arc::new(ThreadWaker::default()))?;
        Ok(Self {
            bridge: Arc::new(bridge),
            stop: AtomicBool::new(false),
            status: Mutex::new(None),
            ended: Condvar::new(),
        })
    }

    pub(super) fn bridge(&self) -> &Arc<PacketBridge> {
        &self.bridge
    }

    /// The eventfd that is readable when the channel's endpoint must be woken.
    pub(in crate::session) fn waker(&self) -> &EventFd {
        self.bridge.waker()
    }

    /// Tells the thread to stop; no further request is started.
    pub(in crate::session) fn abandon(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.bridge.command_worker(BridgeCommand::Abandon);
    }

    /// Exit status of the thread; `None` while it runs.
    pub(super) fn status(&self) -> Option<u8> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, status: u8) {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        self.ended.notify_all();
        self.bridge.end_worker();
    }

    /// Waits for the thread's end; returns false if the deadline passes first.
    pub(in crate::session) fn ends_before(&self, deadline: Instant) -> bool {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        while status.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return false;
            }
            let waited = self.ended.wait_timeout(status, left);
            status = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

/// State of the thread.
struct Worker {
    thread: Arc<SftpThread>,
    log: SftpLog,
}

/// Starts the thread, which ends when the client has finished or the connection has ended.
pub(super) fn start(make: Make, log: SftpLog, session: String) -> io::Result<Arc<SftpThread>> {
    let started = Arc::new(SftpThread::new()?);
    let worker = Worker {
        thread: Arc::clone(&started),
        log,
    };
    let body = move || {
        let status = match make() {
            Ok(serve) => worker.serve(serve),
            Err(why) => {
                worker.log.line(LogLevel::Error, &why);
                STATUS_FAILED
            }
        };
        let line = format!("session closed {session}");
        worker.log.line(LogLevel::Info, &line);
        worker.thread.end(status);
    };
    // Only the connection's thread receives signals.
    let _blocked = sys::signals::Blocked::all()?;
    let thread = thread::Builder::new().name("sftp".into());
    thread.stack_size(STACK_BYTES).spawn(body)?;
    Ok(started)
}

impl Worker {
    /// Serves requests and returns the exit status; all files are closed by then.
    fn serve(&self, mut serve: Serve) -> u8 {
        let mut arrived: Vec<Bytes> = Vec::new();
        let mut answers = VecDeque::new();
        let mut known = WorkerInput::default();
        loop {
            known = self.thread.bridge.next(&known, &mut arrived);
            if known.command == BridgeCommand::Abandon {
                return 0;
            }
            for bytes in arrived.drain(..) {
                serve.receive(bytes);
            }
            if known.command == BridgeCommand::Finish {
                serve.end_answers();
            }
            if known.input_ended {
                serve.end_input();
            }
            match self.turn(&mut serve, &known, &mut answers) {
                Ok(Work::Ended) => return 0,
                Ok(Work::Busy | Work::Waiting) => {}
                Err(error) => {
                    self.log.line(LogLevel::Error, &error.to_string());
                    return STATUS_FAILED;
                }
            }
        }
    }

    /// Works for one turn and passes the results to the connection.
    fn turn(
        &self,
        serve: &mut Serve,
        next: &WorkerInput,
        answers: &mut VecDeque<PacketBuf>,
    ) -> Result<Work, ServeError> {
        let is_aborted = next.command == BridgeCommand::Finish;
        let room = if is_aborted { OUTBOX_BYTES } else { next.room };
        let turn = Turn {
            answers: room.min(TURN_ANSWERS),
            bytes: TURN_BYTES,
            stop: &self.thread.stop,
        };
        let bridge = &self.thread.bridge;
        let max_bytes = next.max_data;
        let work = serve.work_for(&turn, &mut WorkerBuffers { bridge, max_bytes })?;
        let answered = serve.outbox().len();
        let new_answers = std::iter::from_fn(|| serve.outbox().next_whole());
        if is_aborted {
            new_answers.for_each(drop);
        } else {
            answers.extend(new_answers);
        }
        // After the end of input the thread continues until all answers are taken.
        let goes_on = match work {
            Work::Busy => true,
            Work::Waiting => answered >= turn.answers || (next.input_ended && answered > 0),
            Work::Ended => false,
        };
        bridge.hand_over(answers, serve.take_consumed(), goes_on);
        Ok(work)
    }
}

/// Takes buffers that the connection provides and gets back as answers.
struct WorkerBuffers<'b> {
    bridge: &'b PacketBridge,
    max_bytes: usize,
}

impl Buffers for WorkerBuffers<'_> {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        self.bridge.take_buffer(capacity)
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use privsep::LogLevel;

    use super::*;
    use crate::log::Logger;
    use crate::rpc::Rpc;

    #[test]
    fn a_thread_that_hangs_is_waited_for_no_longer_than_was_said() {
        let (ours, _theirs) = sys::socket::stream_pair().unwrap();
        let log = SftpLog {
            logger: Logger::new(Rpc::for_this_process(ours), LogLevel::Fatal),
            level: LogLevel::Quiet,
        };
        let (answer, disk) = mpsc::channel::<()>();
        let make = move || {
            let _ = disk.recv();
            Err("it never answered".to_owned())
        };
        let thread = start(Box::new(make), log, "of a test".into()).unwrap();
        thread.abandon();
        assert!(!thread.ends_before(Instant::now() + Duration::from_millis(50)));
        drop(answer);
        assert!(thread.ends_before(Instant::now() + Duration::from_secs(60)));
        let minute = Some(Duration::from_secs(60));
        let told = sys::io::wait_readable(thread.waker(), minute).unwrap();
        assert!(told, "the connection is not told");
    }
}
