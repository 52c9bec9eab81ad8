//! [`Ring`]: the queued batches of one lane, in order.
//!
//! Each slot goes FREE → READY (the owner has filled it) → TAKEN (a thread runs it) → DONE → FREE
//! (the owner has emptied it). Only the owner fills and empties, in order; any thread may take, in
//! any order. The content is in a mutex, which the states keep uncontended: one lock per batch
//! costs little compared with the batch, and avoids unsafe code.
//!
//! The owner may sleep until the oldest batch is done. It sets a flag, then checks the batch again;
//! a thread that finishes a batch marks it, then checks the flag. A fence on both sides ensures
//! that at least one of them sees the other's write. tests/model.rs checks all interleavings.

use crate::sync::{AtomicBool, AtomicU8, AtomicUsize, Mutex, MutexGuard, Ordering, fence};

const FREE: u8 = 0;
const READY: u8 = 1;
const TAKEN: u8 = 2;
const DONE: u8 = 3;

struct RingSlot<T> {
    state: AtomicU8,
    content: Mutex<T>,
}

impl<T> RingSlot<T> {
    fn content(&self) -> MutexGuard<'_, T> {
        // `Batch::run` catches panics; if one escaped, the content would still be a valid batch.
        self.content
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Result of [`Ring::run_one`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    /// No batch was ready.
    Nothing,
    /// One batch was run.
    One,
    /// One batch was run, and the caller must wake the sleeping owner.
    OneAwaited,
}

/// A ring of slots for batches. A batch is identified by its sequence number, counted from 0.
pub(crate) struct Ring<T> {
    slots: Box<[RingSlot<T>]>,
    /// Number of the oldest batch that the owner has not taken.
    oldest: AtomicUsize,
    owner_sleeps: AtomicBool,
}

impl<T> Ring<T> {
    pub(crate) fn new(slots: usize, empty: impl Fn() -> T) -> Self {
        let slot = |_| RingSlot {
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

    fn slot(&self, number: usize) -> &RingSlot<T> {
        &self.slots[number % self.slots.len()]
    }

    // ---- the owner ----------------------------------------------------------------------------

    /// Fills the slot of batch `number`, which must be free.
    pub(crate) fn put(&self, number: usize, fill: impl FnOnce(&mut T)) {
        let slot = self.slot(number);
        debug_assert_eq!(slot.state.load(Ordering::Relaxed), FREE);
        fill(&mut slot.content());
        slot.state.store(READY, Ordering::Release);
    }

    pub(crate) fn is_done(&self, number: usize) -> bool {
        self.slot(number).state.load(Ordering::Acquire) == DONE
    }

    /// Empties the slot of batch `number`, which must be the oldest and done.
    pub(crate) fn take<R>(&self, number: usize, empty: impl FnOnce(&mut T) -> R) -> R {
        let slot = self.slot(number);
        debug_assert_eq!(slot.state.load(Ordering::Relaxed), DONE);
        let result = empty(&mut slot.content());
        slot.state.store(FREE, Ordering::Relaxed);
        self.oldest.store(number.wrapping_add(1), Ordering::Relaxed);
        result
    }

    /// Announces that the owner is about to sleep until batch `number`, the oldest, is done.
    /// Returns false if it is already done, so that the owner must not sleep. The owner must call
    /// [`Ring::owner_wakes`] afterwards in either case.
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

    /// Takes the oldest ready batch and runs it.
    pub(crate) fn run_one(&self, run: impl FnOnce(&mut T)) -> Ran {
        let oldest = self.oldest.load(Ordering::Relaxed);
        for offset in 0..self.slots.len() {
            let slot = self.slot(oldest.wrapping_add(offset));
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
            // The owner sleeps only on the oldest batch. If the owner's flag is not visible here,
            // the owner's later check sees DONE.
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
