//! The SFTP thread of one channel, so that a slow or hanging disk delays nothing else of the
//! connection.

use std::io;
use std::sync::Arc;
use std::thread;

use packet::PacketBuf;
use sftp::server::{Buffers, Log, LogLevel, OUTBOX_BYTES, Serve, ServeError, Turn, Work};

use super::bridge::{BridgeCommand, PacketBridge, TurnBuffers, TurnInput};
use super::{STATUS_FAILED, SftpLog};

/// Stack of the thread, in bytes: NSS modules, which look names up, are its only deep callees.
const STACK_BYTES: usize = 512 * 1024;
/// Limit on the answers of one turn, in bytes: the connection encrypts them while the thread reads
/// on.
const TURN_ANSWERS: usize = 256 << 10;
/// Limit on the data of one turn, in bytes.
const TURN_BYTES: usize = 1 << 20;

/// Makes the server, inside the thread: opening its directory may block too.
pub(super) type Make = Box<dyn FnOnce() -> Result<Serve, String> + Send>;

/// State of the thread.
struct Worker {
    bridge: Arc<PacketBridge>,
    log: SftpLog,
}

/// Starts the thread, which ends when the client has finished or the connection has ended.
pub(super) fn start(
    make: Make,
    bridge: Arc<PacketBridge>,
    log: SftpLog,
    session: String,
) -> io::Result<()> {
    let worker = Worker { bridge, log };
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
        worker.bridge.end(status);
    };
    // Only the connection's thread receives signals.
    let _blocked = sys::signals::Blocked::all()?;
    let thread = thread::Builder::new().name("sftp".into());
    thread.stack_size(STACK_BYTES).spawn(body)?;
    Ok(())
}

impl Worker {
    /// Serves requests and returns the exit status; all files are closed by then.
    fn serve(&self, mut serve: Serve) -> u8 {
        let mut buffers = TurnBuffers::default();
        let mut known = TurnInput::default();
        loop {
            known = self.bridge.next(&known, &mut buffers);
            if known.command == BridgeCommand::Abandon {
                return 0;
            }
            for bytes in buffers.arrived.drain(..) {
                serve.receive(bytes);
            }
            if known.command == BridgeCommand::Abort {
                serve.end_answers();
            }
            if known.input_ended {
                serve.end_input();
            }
            match self.turn(&mut serve, &known, &mut buffers) {
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
        next: &TurnInput,
        buffers: &mut TurnBuffers,
    ) -> Result<Work, ServeError> {
        let is_aborted = next.command == BridgeCommand::Abort;
        let room = if is_aborted { OUTBOX_BYTES } else { next.room };
        let turn = Turn {
            answers: room.min(TURN_ANSWERS),
            bytes: TURN_BYTES,
            stop: self.bridge.stop(),
        };
        let max_bytes = next.max_data;
        let mut packets = WorkerBuffers { buffers, max_bytes };
        let work = serve.work_for(&turn, &mut packets)?;
        let answered = serve.outbox().len();
        buffers.used += serve.take_consumed();
        let answers = std::iter::from_fn(|| serve.outbox().next_whole());
        if is_aborted {
            answers.for_each(drop);
        } else {
            buffers.answers.extend(answers);
        }
        // After the end of input the thread continues until all answers are taken.
        let goes_on = match work {
            Work::Busy => true,
            Work::Waiting => answered >= turn.answers || (next.input_ended && answered > 0),
            Work::Ended => false,
        };
        self.bridge.hand_over(buffers, goes_on);
        Ok(work)
    }
}

/// Takes buffers that the connection provides and gets back as answers.
struct WorkerBuffers<'h> {
    buffers: &'h mut TurnBuffers,
    max_bytes: usize,
}

impl Buffers for WorkerBuffers<'_> {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        if capacity < self.max_bytes {
            return PacketBuf::with_capacity(capacity);
        }
        self.buffers.took_spare = true;
        let spare = self.buffers.spare.pop();
        spare.unwrap_or_else(|| PacketBuf::with_capacity(capacity))
    }

    fn max_bytes(&self) -> usize {
        self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

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
        let bridge = Arc::new(PacketBridge::new().unwrap());
        let (answer, disk) = mpsc::channel::<()>();
        let make = move || {
            let _ = disk.recv();
            Err("it never answered".to_owned())
        };
        start(Box::new(make), Arc::clone(&bridge), log, "of a test".into()).unwrap();
        bridge.abandon();
        assert!(!bridge.ends_before(Instant::now() + Duration::from_millis(50)));
        drop(answer);
        assert!(bridge.ends_before(Instant::now() + Duration::from_secs(60)));
        let minute = Some(Duration::from_secs(60));
        let told = sys::io::wait_readable(bridge.waker(), minute).unwrap();
        assert!(told, "the connection is not told");
    }
}
