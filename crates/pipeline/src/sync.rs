//! The primitives that `ring` and `seat` are made of, in one place: tests/model.rs puts those of
//! a model checker here.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::park_timeout;
