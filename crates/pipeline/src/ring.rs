//! [`Ring`]: the batches of one lane that have been handed over, in their order.
//!
//! Each slot goes FREE → READY (the owner has filled it) → TAKEN (somebody runs it) → DONE → FREE
//! (the owner has emptied it). Only the owner fills and empties, in order; anybody takes, in any
//! order. The content lies in a mutex that the states keep from ever being waited for: one lock
//! a batch is nothing beside the batch, and spares all unsafe code.
//!
//! The owner may sleep until the oldest batch is done. It says so, then looks once more; who
//! finishes a batch marks it, then looks whether the owner sleeps on it: a fence on both sides
//! keeps either look from missing the other's word. tests/model.rs tries all interleavings.

use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering, fence};

const FREE: u8 = 0;
const READY: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

struct Slot<T> {
    state: AtomicU8,
    content: Mutex<T>,
}

impl<T> Slot<T> {
    fn content(&self) -> MutexGuard<'_, T> {
        // A panic does not get out of a batch; if it did, the content would still be a batch.
        self.content
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What [`Ring::run_one`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// Nothing was ready.
    Nothing,
    /// One batch.
    One,
    /// One batch, and the owner sleeps until it is told.
    OneAwaited,
}

/// Batches are named by the number under which they were put, counted from 0.
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// Number of the oldest batch that the owner has not taken.
    oldest: AtomicUsize,
    owner_sleeps: AtomicBool,
}

impl<T> Ring<T> {
    pub(crate) fn new(slots: usize, empty: impl Fn() -> T) -> Self {
        let slot = |_| Slot {
            state: AtomicU8::new(FREE),
            content: Mutex::new(empty()),
        };
        Self {
            slots: (0..slots).map(slot).collect(),
            oldest: AtomicUsize::new(0),
            owner_sleeps: AtomicBool::new(false),
        }
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    fn slot(&self, number: usize) -> &Slot<T> {
        &self.slots[number % self.slots.len()]
    }

    // ---- the owner ----------------------------------------------------------------------------

    /// Fills the slot of batch `number`, which the owner knows to be free.
    pub(crate) fn put(&self, number: usize, fill: impl FnOnce(&mut T)) {
        let slot = self.slot(number);
        debug_assert_eq!(slot.state.load(Ordering::Relaxed), FREE);
        fill(&mut slot.content());
        slot.state.store(READY, Ordering::Release);
    }

    pub(crate) fn is_done(&self, number: usize) -> bool {
        self.slot(number).state.load(Ordering::Acquire) == DONE
    }

    /// Empties the slot of batch `number`, the oldest and done.
    pub(crate) fn take<R>(&self, number: usize, empty: impl FnOnce(&mut T) -> R) -> R {
        let slot = self.slot(number);
        debug_assert_eq!(slot.state.load(Ordering::Relaxed), DONE);
        let result = empty(&mut slot.content());
        slot.state.store(FREE, Ordering::Relaxed);
        self.oldest.store(number.wrapping_add(1), Ordering::Relaxed);
        result
    }

    /// The owner is about to sleep until batch `number`, the oldest, is done; false when it is
    /// done already. Behind every sleep comes [`Ring::owner_wakes`].
    pub(crate) fn owner_sleeps(&self, number: usize) -> bool {
        self.owner_sleeps.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        !self.is_done(number)
    }

    pub(crate) fn owner_wakes(&self) {
        self.owner_sleeps.store(false, Ordering::Relaxed);
    }

    // ---- anybody ------------------------------------------------------------------------------

    pub(crate) fn has_ready(&self) -> bool {
        self.slots
            .iter()
            .any(|slot| slot.state.load(Ordering::Relaxed) == READY)
    }

    /// Takes a batch, the oldest that is ready, and runs it.
    pub(crate) fn run_one(&self, run: impl FnOnce(&mut T)) -> Ran {
        let oldest = self.oldest.load(Ordering::Relaxed);
        for ahead in 0..self.slots.len() {
            let slot = self.slot(oldest.wrapping_add(ahead));
            if slot.state.load(Ordering::Relaxed) != READY {
                continue;
            }
            let taken =
                slot.state
                    .compare_exchange(READY, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_err() {
                continue;
            }
            run(&mut slot.content());
            slot.state.store(DONE, Ordering::Release);
            fence(Ordering::SeqCst);
            // Only the oldest batch is slept on. The owner that sees none of this afterwards is
            // the owner that sees DONE.
            let oldest = self.slot(self.oldest.load(Ordering::Relaxed));
            if std::ptr::eq(oldest, slot)
                && self.owner_sleeps.load(Ordering::Relaxed)
                && self
                    .owner_sleeps
                    .compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                return Ran::OneAwaited;
            }
            return Ran::One;
        }
        Ran::Nothing
    }
}
