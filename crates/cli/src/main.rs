//! The one binary: `ssh`, `sshd`, `keygen`, … by subcommand or by the name it is called by.
//!
//! Roles of the privilege chain (`sshd-monitor`, `sshd-auth`, `sshd-session`) are executions of
//! this binary by itself and no commands for people.
//!
//! The C library enters [`main`](self::main) itself. Rust's own entry would read
//! /proc/self/maps and map a stack for the sake of a message about a stack that overflows, which
//! is a twentieth of what a role's start costs, three times for each login; an overflow ends the
//! process as before, by the guard page. The rest of what it does is done here.
#![deny(unsafe_code)]
#![cfg_attr(not(test), no_main)]

// What is printed is nothing to panic about.
#[macro_use]
extern crate sys;

mod dispatch;

#[cfg(test)]
fn main() {
    std::process::exit(run());
}

// What the C library calls by this name; the linker finds a second one.
#[cfg(not(test))]
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    // A panic is no way through C; its message is written by then.
    let status = std::panic::catch_unwind(run).unwrap_or(101);
    std::process::exit(status)
}

/// Begins as every program does, and runs the one that is meant; gives its exit status.
fn run() -> i32 {
    // No file that is opened later becomes anybody's standard output.
    if sys::io::ensure_stdio().is_err() {
        return 255;
    }
    // A pipe that nobody reads is an error of the write.
    let _ = sys::signals::ignore(sys::signals::Signal::PIPE);
    // glibc gives the arguments to whoever asks.
    sys::print::exit_status(dispatch::run(std::env::args_os().collect()))
}
