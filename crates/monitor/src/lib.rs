//! The privileged server side: the listener that accepts ([`sshd_main`]) and the monitor of each
//! connection ([`monitor_main`]).
//!
//! The monitor judges accounts, checks passwords and keys, signs with the host keys, hosts PAM
//! and allocates terminals. It never reads the network: it parses only its own small RPC
//! (`privsep`), the configuration and key files. The unprivileged halves are in `server`.
#![forbid(unsafe_code)]

// What is printed is nothing to panic about.
#[macro_use]
extern crate sys;

mod connection;
mod listener;
mod log;
#[cfg(test)]
mod test_support;

pub use connection::monitor_main;
pub use listener::{Greet, USAGE, sshd_main};
