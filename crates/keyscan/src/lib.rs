//! `fulmar keyscan`: prints the host keys of many servers, as ssh-keyscan does.
//!
//! A thread reads the lists of hosts ([`source`]); one epoll loop ([`scan`]) holds all connections,
//! each of which ([`connection`]) runs `proto`'s key exchange up to the server's signature and ends
//! there. Names are looked up by `sys::socket::Lookups`. A server that says nothing, or too little,
//! occupies its descriptor for its time limit and nothing else.
//!
//! Flags, output and exit codes are ssh-keyscan's. A server is asked for all types of keys on its
//! first connection; its KEXINIT tells which others it has, so that there is one connection for each
//! of its keys and none for types that it lacks (OpenSSH: one for each type).
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod connection;
mod host;
mod key_types;
mod options;
mod output;
mod pace;
mod scan;
mod source;

use std::ffi::OsString;

use escape::{Style, escape};

use options::{KeyscanOptions, Refusal};
use scan::Scan;

/// Exit status when no key was found, and for wrong use.
const STATUS_NOTHING: i32 = 1;
/// Exit status when something went wrong.
const STATUS_FAILED: i32 = 255;

/// The usage text.
pub const USAGE: &str = "\
usage: ssh-keyscan [-46cDHqv] [-f file] [-O option] [-p port] [-T timeout]
                   [-t type] [host | addrlist namelist]
";

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let options = match KeyscanOptions::parse(args) {
        Ok(options) => options,
        Err(refusal) => return refuse(&refusal),
    };
    let inputs = match source::open(&options) {
        Ok(inputs) => inputs,
        Err(message) => return refuse(&Refusal::Failed(message)),
    };
    // More descriptors mean more hosts at once, and each scan does with what it gets.
    let _ = sys::process::raise_open_files();
    let scanned = Scan::new(&options).and_then(|mut scan| scan.run(inputs));
    match scanned {
        Ok(true) => 0,
        Ok(false) => STATUS_NOTHING,
        Err(error) => {
            say(&format!("ssh-keyscan: {error}"));
            STATUS_FAILED
        }
    }
}

fn refuse(refusal: &Refusal) -> i32 {
    if !refusal.message().is_empty() {
        say(refusal.message());
    }
    match refusal {
        Refusal::Usage(_) => {
            eprint!("{USAGE}");
            STATUS_NOTHING
        }
        Refusal::Value(_) => STATUS_NOTHING,
        Refusal::Failed(_) => STATUS_FAILED,
    }
}

/// Writes a line to standard error; the text may be a stranger's.
fn say(message: &str) {
    eprintln!("{}", escape(message, Style::Lines));
}
