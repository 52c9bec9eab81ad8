//! The synchronisation primitives of `packet_bridge` and `thread_waker`, in one module that
//! tests/bridge_model.rs replaces with those of a model checker.

pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub(crate) use sys::epoll::EventFd;
