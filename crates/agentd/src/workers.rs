//! Threads that make slow signatures (RSA), at most one for each core. They start when there is
//! work, and end after some idle time.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sys::epoll::EventFd;

use crate::requests::Signing;

/// Idle time after which a thread ends.
const REST: Duration = Duration::from_secs(10);
/// Stack of a thread: signatures keep their numbers in the heap.
const STACK_BYTES: usize = 256 * 1024;

/// Where an answer belongs: a connection's token and the number of the request on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnswerPlace {
    pub(crate) connection: u64,
    pub(crate) request: u64,
}

struct WorkQueue {
    waiting: VecDeque<(AnswerPlace, Box<Signing>)>,
    done: Vec<(AnswerPlace, Vec<u8>)>,
    threads: usize,
    idle: usize,
}

struct WorkerShared {
    queue: Mutex<WorkQueue>,
    wake: Condvar,
    finished: EventFd,
}

impl WorkerShared {
    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads.
pub(crate) struct Workers {
    shared: Arc<WorkerShared>,
    most: usize,
}

impl Workers {
    pub(crate) fn new() -> io::Result<Self> {
        let queue = WorkQueue {
            waiting: VecDeque::new(),
            done: Vec::new(),
            threads: 0,
            idle: 0,
        };
        Ok(Self {
            shared: Arc::new(WorkerShared {
                queue: Mutex::new(queue),
                wake: Condvar::new(),
                finished: EventFd::new()?,
            }),
            most: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        })
    }

    /// Number of signatures that are made at the same time.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Readable when answers are ready.
    pub(crate) fn finished(&self) -> BorrowedFd<'_> {
        self.shared.finished.as_fd()
    }

    /// Makes a signature; without any thread on this one.
    pub(crate) fn start(&self, place: AnswerPlace, signing: Box<Signing>) {
        let mut queue = self.shared.queue();
        if queue.idle <= queue.waiting.len() && queue.threads < self.most {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .stack_size(STACK_BYTES)
                .spawn(move || work(&shared));
            queue.threads += usize::from(started.is_ok());
        }
        if queue.threads == 0 {
            queue.done.push((place, signing.perform()));
            let _ = self.shared.finished.signal();
            return;
        }
        queue.waiting.push_back((place, signing));
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Takes the answers that are ready.
    pub(crate) fn take(&self) -> Vec<(AnswerPlace, Vec<u8>)> {
        let _ = self.shared.finished.drain();
        std::mem::take(&mut self.shared.queue().done)
    }
}

fn work(shared: &WorkerShared) {
    let mut queue = shared.queue();
    loop {
        if let Some((place, signing)) = queue.waiting.pop_front() {
            drop(queue);
            let answer = signing.perform();
            drop(signing);
            queue = shared.queue();
            queue.done.push((place, answer));
            let _ = shared.finished.signal();
            continue;
        }
        queue.idle += 1;
        let (woken, waited) = shared
            .wake
            .wait_timeout(queue, REST)
            .unwrap_or_else(PoisonError::into_inner);
        queue = woken;
        queue.idle -= 1;
        if waited.timed_out() && queue.waiting.is_empty() {
            queue.threads -= 1;
            return;
        }
    }
}
