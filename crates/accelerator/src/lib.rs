//! Compression by an external library: that of an accelerator, or another zlib.
//!
//! Such a library may crash, hang or write outside its buffers, so a process that holds a
//! connection never loads it. [`Accelerator`] starts a separate process ([`main`], a role of
//! Fulmar's own binary) in the sandbox of `sys::sandbox`; that process loads the library and gets
//! runs through shared memory. The connection's process copies the output out and, unless the
//! configuration says otherwise, inflates and compares it before use. The worst that a faulty
//! library causes is one lost run, which software encodes again.
//!
//! [`LibraryRequest`] names the libraries to try and the conditions they must meet;
//! [`Accelerator::open`] tries them. The functions that a library must have are listed in
//! `compress::provider`. `compress` decides when the library is used, and handles a run that
//! failed.
#![forbid(unsafe_code)]

// Output macros that do not panic if writing fails.
#[macro_use]
extern crate sys;

mod choose;
mod lane;
mod layout;
mod probe;
mod process;
mod request;
mod role;
mod trials;

pub use choose::{MAX_LIBRARIES, secure_library};
pub use probe::probe_main;
pub use process::Accelerator;
pub use request::LibraryRequest;
pub use role::main;

/// First argument of the process that loads a library.
pub const ROLE: &str = "compress-provider";
/// First argument of the process that tests libraries for the server's listener.
pub const PROBE_ROLE: &str = "compress-probe";
