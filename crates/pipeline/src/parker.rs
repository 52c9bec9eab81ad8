//! [`Parker`]: lets one worker sleep until there is work.
//!
//! As in `ring`, the sleeper sets its flag and then checks again for work; the producer checks the
//! flag after it has queued work. A wake-up that is lost all the same (the worker was about to end)
//! costs time, not progress: the owner runs batches that no worker takes.

use std::time::Duration;

use crate::sync::{AtomicBool, Ordering, fence, park_timeout};

#[derive(Debug)]
pub(crate) struct Parker {
    asleep: AtomicBool,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
        }
    }

    /// Parks the calling worker unless `has_work` returns true. Returns after [`Parker::wake`],
    /// after `limit`, or spuriously.
    pub(crate) fn park(&self, limit: Duration, has_work: impl Fn() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            park_timeout(limit);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Returns true if the worker was asleep; the caller must then unpark its thread. To be called
    /// after work is queued or a flag is changed.
    pub(crate) fn wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed)
            && self
                .asleep
                .compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}
