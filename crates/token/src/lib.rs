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

use sys::process::{Child, PrintedText, SelfExe};
use sys::signals::Signal;

pub use client::{PinQuestion, TokenError, TokenLibrary};
pub use helper::main;

/// First argument of the process that loads a library.
pub const ROLE: &str = "pkcs11-helper";

/// Descriptor of the helper's socket.
const CONTROL_FD: i32 = 3;

/// Environment variables that libraries of tokens read; no other variables reach the helper.
const ENVIRONMENT: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "PKCS11_*",
    "P11_KIT_*",
    "PCSCLITE_*",
    "OPENSC_*",
    "SOFTHSM2_*",
    "KRYOPTIC_*",
    "TPM2_PKCS11_*",
    "TSS2_*",
    "YKCS11_*",
    "NSS_*",
    "OPENSSL_CONF",
    "LIBUSB_*",
];

/// A process that was started for a library.
#[derive(Debug)]
pub struct TokenProcess {
    /// The process.
    pub child: Child,
    /// The socket for [`message`]; the process ends when it is closed.
    pub socket: OwnedFd,
    /// What the library prints.
    pub printed: PrintedText,
}

/// Starts the helper for the library at `path`. It also ends with the thread that starts it, for a
/// library that never returns reads no end of the socket.
///
/// # Errors
/// If the process cannot be started. That the library cannot be loaded is an answer of the helper.
pub fn start(path: &Path) -> io::Result<TokenProcess> {
    let (ours, theirs) = sys::socket::stream_pair()?;
    let (printed, prints) = PrintedText::new(ROLE)?;
    let mut command = SelfExe::open()?.command()?;
    command
        .args(["fulmar", ROLE])
        .arg(path)
        .inherit_env_of(ENVIRONMENT)
        .fd(sys::io::null()?, 0)
        .fd(sys::io::null()?, 1)
        .fd(prints, 2)
        .fd(theirs, CONTROL_FD)
        // It has no controlling terminal then.
        .new_session()
        .death_signal(Signal::KILL)
        .no_new_privs();
    Ok(TokenProcess {
        child: command.spawn()?,
        socket: ours,
        printed,
    })
}
