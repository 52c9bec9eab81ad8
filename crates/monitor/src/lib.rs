//! The privileged server side: the listener, which accepts connections ([`sshd_main`]), and the
//! monitor, one process for each connection ([`monitor_main`]).
//!
//! The monitor decides which accounts may log in, checks passwords and keys, signs with the host
//! keys, runs PAM and allocates terminals. It never reads the network: it parses only the RPC
//! between the server's processes (`privsep`), the configuration and key files. The unprivileged
//! processes are in `server`.
#![forbid(unsafe_code)]

// For `sys`'s print macros, which do not panic when the output is closed.
#[macro_use]
extern crate sys;

mod connection;
mod listener;
mod log;
#[cfg(test)]
mod test_support;

pub use connection::monitor_main;
pub use listener::{Greet, USAGE, sshd_main};
