//! The thread that works with the files of one channel, so that a disk that is slow, or does not
//! answer at all, holds up nothing else of the connection.

use std::io;
use std::sync::Arc;
use std::thread;

use packet::PacketBuf;
use transfer::serve::{Buffers, Level, Log, OUTBOX_BYTES, Serve, ServeError, Turn, Work};

use super::desk::{Desk, Hands, Next, Wish};
use super::{Lines, STATUS_FAILED};

/// Its stack, in bytes: NSS modules, which are asked for names, are its only deep callers.
const STACK_BYTES: usize = 512 * 1024;
/// Answers of one turn, bytes: what is read from a file is sealed while more is read.
const TURN_ANSWERS: usize = 256 << 10;
/// Data of one turn, bytes: what one call writes.
const TURN_BYTES: usize = 1 << 20;

/// What makes the server: looking its directory up may take as long as anything else.
pub(super) type Make = Box<dyn FnOnce() -> Result<Serve, String> + Send>;

/// The thread's own.
struct Worker {
    desk: Arc<Desk>,
    log: Lines,
}

/// Starts the thread; it ends when the client is done, or nobody is left.
pub(super) fn start(make: Make, desk: Arc<Desk>, log: Lines, session: String) -> io::Result<()> {
    let worker = Worker { desk, log };
    let body = move || {
        let status = match make() {
            Ok(serve) => worker.serve(serve),
            Err(why) => {
                worker.log.line(Level::Error, &why);
                STATUS_FAILED
            }
        };
        let line = format!("session closed {session}");
        worker.log.line(Level::Info, &line);
        worker.desk.end(status);
    };
    // Signals are the connection's thread's.
    let _blocked = sys::signals::Blocked::all()?;
    let thread = thread::Builder::new().name("sftp".into());
    thread.stack_size(STACK_BYTES).spawn(body)?;
    Ok(())
}

impl Worker {
    /// Gives the exit status. Everything that was open is closed by then.
    fn serve(&self, mut serve: Serve) -> u8 {
        let mut hands = Hands::default();
        let mut known = Next::default();
        loop {
            known = self.desk.next(&known, &mut hands);
            if known.wish == Wish::Abandon {
                return 0;
            }
            for bytes in hands.arrived.drain(..) {
                serve.receive(bytes);
            }
            if known.wish == Wish::Desert {
                serve.end_answers();
            }
            if known.input_ended {
                serve.end_input();
            }
            match self.turn(&mut serve, &known, &mut hands) {
                Ok(Work::Ended) => return 0,
                Ok(Work::Busy | Work::Waiting) => {}
                Err(error) => {
                    self.log.line(Level::Error, &error.to_string());
                    return STATUS_FAILED;
                }
            }
        }
    }

    /// Does some of what there is to do, and hands over what came of it.
    fn turn(&self, serve: &mut Serve, next: &Next, hands: &mut Hands) -> Result<Work, ServeError> {
        let is_deserted = next.wish == Wish::Desert;
        let room = if is_deserted { OUTBOX_BYTES } else { next.room };
        let turn = Turn {
            answers: room.min(TURN_ANSWERS),
            bytes: TURN_BYTES,
            stop: self.desk.stop(),
        };
        let max_bytes = next.max_data;
        let mut packets = Packets { hands, max_bytes };
        let work = serve.work_for(&turn, &mut packets)?;
        let answered = serve.outbox().len();
        hands.used += serve.take_consumed();
        let answers = std::iter::from_fn(|| serve.outbox().next_whole());
        if is_deserted {
            answers.for_each(drop);
        } else {
            hands.answers.extend(answers);
        }
        // The end is the end when all answers have been taken.
        let goes_on = match work {
            Work::Busy => true,
            Work::Waiting => answered >= turn.answers || (next.input_ended && answered > 0),
            Work::Ended => false,
        };
        self.desk.hand_over(hands, goes_on);
        Ok(work)
    }
}

/// Buffers that came from the connection, and go back to it with what is in them.
struct Packets<'h> {
    hands: &'h mut Hands,
    max_bytes: usize,
}

impl Buffers for Packets<'_> {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        if capacity < self.max_bytes {
            return PacketBuf::with_capacity(capacity);
        }
        self.hands.took_spare = true;
        let spare = self.hands.spare.pop();
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
        let log = Lines {
            logger: Logger::new(Rpc::for_this_process(ours), LogLevel::Fatal),
            level: Level::Quiet,
        };
        let desk = Arc::new(Desk::new().unwrap());
        let (answer, disk) = mpsc::channel::<()>();
        let make = move || {
            let _ = disk.recv();
            Err("it never answered".to_owned())
        };
        start(Box::new(make), Arc::clone(&desk), log, "of a test".into()).unwrap();
        desk.abandon();
        assert!(!desk.ends_before(Instant::now() + Duration::from_millis(50)));
        drop(answer);
        assert!(desk.ends_before(Instant::now() + Duration::from_secs(60)));
        let minute = Some(Duration::from_secs(60));
        let told = sys::io::wait_readable(desk.bell(), minute).unwrap();
        assert!(told, "the connection is not told");
    }
}
