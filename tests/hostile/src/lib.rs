//! A peer that lies, and those that it lies to.
//!
//! [`liar::Liar`] is a small SSH endpoint worked by hand, client or server. It can do the version
//! and key exchange honestly and, after it or in the middle of it, send anything. It shares the
//! packet layer, the primitives and the message structs with the suite, but none of its state
//! machines: exchange hash and key derivation are its own.
//!
//! [`victim`] is who it talks to: a `proto::Connection` in memory with an owner that says yes,
//! or a socket with the real server or client behind it, which [`place`] starts.
//!
//! The tests are named after the rule that they guard; docs/security.md leads from each known
//! defect to its test.
#![forbid(unsafe_code)]

pub mod liar;
pub mod place;
pub mod victim;

use std::time::Duration;

/// Processor time of this thread: what it takes, however busy the machine is.
#[must_use]
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
