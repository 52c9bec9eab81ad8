//! Compression by a library of others: an accelerator's, or another zlib.
//!
//! Such a library may crash, hang, or write where it should not, and it is never loaded by a
//! process that holds a connection. [`Accelerator`] starts a process that does ([`main`], a role
//! of our own binary), caged by `sys::sandbox`, and gives it runs through shared memory; what comes
//! back is copied out and, normally, inflated and compared before it is used. So all that a
//! library can do is to cost one run, which is encoded again in software.
//!
//! [`Request`] says which libraries may be tried, and by whom; [`Accelerator::open`] tries them.
//! What a library must be able to do is in `compress::provider`; when an engine is used, and what
//! happens to a run that failed, in `compress`.
#![forbid(unsafe_code)]

// What is printed is nothing to panic about.
#[macro_use]
extern crate sys;

mod choose;
mod lane;
mod layout;
mod probe;
mod process;
mod role;
mod trials;

pub use choose::{MAX_LIBRARIES, Request, secure_library};
pub use probe::probe_main;
pub use process::Accelerator;
pub use role::main;

/// First argument of the process that loads a library.
pub const ROLE: &str = "compress-provider";
/// First argument of the process that tries libraries for the listener.
pub const PROBE_ROLE: &str = "compress-probe";
