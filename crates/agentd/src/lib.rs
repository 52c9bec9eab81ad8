//! `fulmar agent` (ssh-agent): holds private keys and signs with them for the clients of a Unix
//! socket.
//!
//! `event_loop` is the thread that serves all clients, `requests` decides about each request by
//! `keyring`, `bindings` and `destination`, `workers` makes slow signatures, `token_link` is the way to
//! a process that reaches tokens, and `helper` is the process that asks the user, lets security keys
//! sign and starts the processes for tokens. The protocol is in `agent`. After its start the process
//! runs in [`sys::sandbox::key_agent`], cannot be traced, and its keys are kept out of core files and,
//! as far as the limits permit, out of swap.
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod bindings;
mod connection;
mod destination;
mod event_loop;
mod helper;
mod keyring;
mod log;
mod options;
mod requests;
mod signed_data;
mod start;
mod token_link;
mod workers;

use std::ffi::OsString;

use options::Task;

/// Exit status for wrong use, and if the agent cannot start.
const STATUS_FAILED: i32 = 1;
/// Exit status for a flag's value that is refused without the usage, as in OpenSSH.
const STATUS_FATAL: i32 = 255;

/// The usage text.
pub const USAGE: &str = "\
usage: ssh-agent [-c | -s] [-DdU] [-T | -A directory | -a bind_address]
                 [-E fingerprint_hash] [-O option] [-P allowed_providers]
                 [-t life]
       ssh-agent [-U] [-T | -A directory | -a bind_address]
                 [-E fingerprint_hash] [-O option] [-P allowed_providers]
                 [-t life] command [arg ...]
       ssh-agent [-c | -s] -k
       ssh-agent -u
       ssh-agent -V
";

/// Runs the program on its arguments, without its own name; gives its exit status.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    let task = match options::parse(args) {
        Ok(task) => task,
        Err(bad) => {
            say(&bad.message);
            if bad.shows_usage {
                eprint!("{USAGE}");
            }
            return match bad.shows_usage {
                true => STATUS_FAILED,
                false => STATUS_FATAL,
            };
        }
    };
    let done = match task {
        Task::Serve(options) => start::serve(*options),
        Task::Kill { shell } => start::kill(shell).map(|()| 0),
        Task::Clean { of_any_host } => start::clean(of_any_host).map(|()| 0),
        Task::Version => {
            eprintln!("{}", flags::VERSION);
            Ok(0)
        }
    };
    done.unwrap_or_else(|message| {
        say(&message);
        STATUS_FAILED
    })
}

fn say(message: &str) {
    if !message.is_empty() {
        eprintln!("{}", escape::escape(message, escape::Style::Lines));
    }
}
