//! `scp`, `sftp` and `copy-id`, and what they share: the way to a server, what is shown while a copy
//! runs, and what it comes to.
#![forbid(unsafe_code)]

// The macros that print without panicking.
#[macro_use]
extern crate sys;

pub(crate) mod connector;
pub(crate) mod console;
pub mod copy_id;
pub mod host_copy;
pub mod json;
mod link;
pub mod scp;
pub mod sftp;
pub(crate) mod units;

pub(crate) use connector::{AnyRemote, Connector, RemoteHost, auto_connections};
pub(crate) use console::Console;
pub(crate) use link::{CopyLinks, note_signals};
