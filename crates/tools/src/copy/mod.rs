//! What `scp` and `sftp` share: the way to a server, what is shown while a copy runs, and what it
//! comes to.

pub(crate) mod console;
mod link;
pub(crate) mod units;
pub(crate) mod way;

pub(crate) use console::Console;
pub(crate) use link::{Links, note_signals};
pub(crate) use way::{AnyRemote, Server, Way, auto_connections};
