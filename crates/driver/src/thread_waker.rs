//! Wakes a thread that works for one or more connections through packet bridges.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard};

/// Locks a mutex whose data is valid even if a thread has panicked.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flag that a thread waits for. A notification that comes before the wait is not lost; several
/// count as one.
#[derive(Debug, Default)]
pub struct ThreadWaker {
    state: Mutex<WakerState>,
    condition: Condvar,
}

#[derive(Debug, Default)]
struct WakerState {
    notified: bool,
    waits: bool,
}

impl ThreadWaker {
    /// Ends the current wait, or the next one.
    pub fn notify(&self) {
        let mut state = locked(&self.state);
        state.notified = true;
        if state.waits {
            self.condition.notify_one();
        }
    }

    /// Waits for a notification.
    pub fn wait(&self) {
        let mut state = locked(&self.state);
        while !state.notified {
            state.waits = true;
            let woken = self.condition.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        *state = WakerState::default();
    }

    /// Waits for a notification, at most for `limit`. Returns whether there was one, and the time
    /// spent waiting: zero, without a look at the clock, if it came before.
    pub fn wait_at_most(&self, limit: Duration) -> (bool, Duration) {
        let mut state = locked(&self.state);
        if std::mem::take(&mut state.notified) {
            return (true, Duration::ZERO);
        }
        let begun = Instant::now();
        while !state.notified {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                state.waits = false;
                return (false, begun.elapsed());
            }
            state.waits = true;
            let woken = self.condition.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *state = WakerState::default();
        drop(state);
        (true, begun.elapsed())
    }
}
