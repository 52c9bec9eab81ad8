//! Keys in tokens: smart cards, HSMs and TPMs that a PKCS #11 library reaches.
//!
//! A process that holds a connection or keys never loads such a library. [`start`] starts a separate
//! process ([`main`], a role of Fulmar's own binary) in [`sys::sandbox::token`], which loads the
//! library, lists the keys of all its tokens and signs with them. [`message`] is the protocol
//! between the two; [`TokenLibrary`] is a blocking client of it, and `agentd` has one that waits for no
//! token.
//!
//! A PIN is sent to a token at most once for each time that it was entered.
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod client;
mod helper;
pub mod message;
mod objects;
mod tokens;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use sys::process::{Child, SelfExe};
use sys::signals::Signal;

pub use client::{PinQuestion, TokenError, TokenLibrary};
pub use helper::main;

/// First argument of the process that loads a library.
pub const ROLE: &str = "pkcs11-helper";

/// Descriptor of the helper's socket.
const CONTROL_FD: i32 = 3;

/// Starts the helper for the library at `path`; returns it and the socket for [`message`], at whose end
/// it ends. `ends_with_starter` also ends it with the thread that starts it.
///
/// # Errors
/// If the process cannot be started. That the library cannot be loaded is an answer of the helper.
pub fn start(path: &Path, ends_with_starter: bool) -> io::Result<(Child, OwnedFd)> {
    let (ours, theirs) = sys::socket::stream_pair()?;
    let mut command = SelfExe::open()?.command()?;
    command
        .args(["fulmar", ROLE])
        .arg(path)
        .inherit_env()
        .fd(sys::io::null()?, 0)
        .fd(sys::io::null()?, 1)
        .fd_shared(sys::io::stderr(), 2)
        .fd(theirs, CONTROL_FD)
        .no_new_privs();
    if ends_with_starter {
        command.death_signal(Signal::KILL);
    }
    Ok((command.spawn()?, ours))
}
