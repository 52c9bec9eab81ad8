//! [`Seat`]: where one worker sleeps until there is work.
//!
//! As in `ring`: the sleeper says that it sleeps, then looks once more; who brings work looks
//! behind bringing it. A wake-up that is lost all the same (the worker was about to end) costs
//! time, not progress: the owner runs what nobody takes.

use std::time::Duration;

use crate::sync::{AtomicBool, Ordering, fence, park_timeout};

#[derive(Debug)]
pub(crate) struct Seat {
    asleep: AtomicBool,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
        }
    }

    /// Sleeps, on the worker's own thread, unless `has_work`: until it is roused, `limit` has
    /// passed, or for no reason at all.
    pub(crate) fn sleep(&self, limit: Duration, has_work: impl Fn() -> bool) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !has_work() {
            park_timeout(limit);
        }
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Whether the worker slept: then the caller, who has brought work or news, unparks it.
    pub(crate) fn rouse(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed)
            && self
                .asleep
                .compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}
