//! The unprivileged processes of the server: [`auth`] speaks to a client that has not logged in,
//! inside a sandbox; [`session`] serves a client that has, as its user; [`reader`] reads the headers
//! of load balancers for the listener, inside a sandbox; [`recorder`] writes the output of a terminal to a
//! file, inside a sandbox; [`sftp_server`] serves files for any sshd.
//!
//! The monitor executes auth and session as their own processes with the descriptors that `privsep::roles` lists.
//! Both ask the monitor over `privsep`'s RPC ([`rpc`]) for everything that needs a secret or a
//! privilege. `privsep::permits` defines which requests are permitted in which phase; `monitor`
//! decides whether to grant them. The protocol itself is in `proto`.
//!
//! Invariants: the auth process reads no byte of the network before its sandbox is closed and opens
//! no packet after the login has succeeded; the session process reads no byte that the auth process
//! wrote before it has irreversibly become the user; the user's identity, the forced command and
//! the restrictions come only from the monitor.
#![forbid(unsafe_code)]

// For `sys`'s print macros, which do not panic when the output is closed.
#[macro_use]
extern crate sys;

mod auth;
mod log;
mod reader;
mod recorder;
mod rpc;
mod session;
pub mod sftp_server;
mod transport;

pub use auth::{auth_main, greeting};
pub use reader::reader_main;
pub use recorder::recorder_main;
pub use session::session_main;
