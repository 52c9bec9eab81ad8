//! A lying peer, and the programs under test.
//!
//! [`adversary::Adversary`] is a small SSH endpoint, client or server, that a test controls step by step. It
//! can do the version and key exchange honestly and, after it or in the middle of it, send
//! anything. It shares the packet layer, the primitives and the message structs with the suite, but
//! none of its state machines: exchange hash and key derivation are its own.
//!
//! [`subject`] is its peer: a `proto::Connection` in memory whose owner permits everything, or a
//! socket to the real server or client, which [`place`] starts.
//!
//! The tests are named after the rules that they check; docs/security.md names the test of each
//! known defect.
#![forbid(unsafe_code)]

pub mod adversary;
pub mod place;
pub mod subject;

use std::time::Duration;

/// Processor time of this thread, which does not depend on the machine's load.
#[must_use]
pub fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
