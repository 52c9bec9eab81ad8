//! The synchronisation primitives of `ring` and `parker`, in one module that tests/model.rs
//! replaces with those of a model checker.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering, fence};
pub(crate) use std::sync::{Mutex, MutexGuard};
pub(crate) use std::thread::park_timeout;
