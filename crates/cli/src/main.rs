//! The one binary: `ssh`, `sshd`, `keygen`, … selected by the subcommand or by the binary's name.
//!
//! The roles of the privilege chain (`sshd-monitor`, `sshd-auth`, `sshd-session`) are started by
//! this binary itself, not by users.
//!
//! The C library calls [`main`](self::main) directly. Rust's own entry point reads /proc/self/maps
//! and maps a stack in order to report stack overflows, which takes a twentieth of a role's start,
//! three times per login. Without it the guard page still ends a process whose stack overflows.
//! [`run`] does the rest of that entry point's work.
#![deny(unsafe_code)]
#![cfg_attr(not(test), no_main)]

// Programs must not panic if printing fails.
#[macro_use]
extern crate sys;

use std::ffi::OsString;
#[cfg(not(test))]
use std::ffi::{c_char, c_int};

mod dispatch;

#[cfg(test)]
fn main() {
    std::process::exit(run(std::env::args_os().collect()));
}

// The C library's entry point. In tests the linker would find two of them.
#[cfg(not(test))]
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, arguments: *const *const c_char) -> i32 {
    // A panic must not unwind into C. Its message is already written here.
    let status = std::panic::catch_unwind(|| run(words(count, arguments))).unwrap_or(101);
    std::process::exit(status)
}

/// The arguments of this process. glibc passes them to Rust's standard library by itself.
#[cfg(all(not(test), target_env = "gnu"))]
fn words(_count: c_int, _arguments: *const *const c_char) -> Vec<OsString> {
    std::env::args_os().collect()
}

/// The arguments of this process. With musl, the standard library has only what its own entry point
/// was given.
#[cfg(all(not(test), not(target_env = "gnu")))]
#[allow(unsafe_code)]
fn words(count: c_int, arguments: *const *const c_char) -> Vec<OsString> {
    use std::os::unix::ffi::OsStringExt;
    let count = usize::try_from(count).unwrap_or(0);
    (0..count)
        .map(|index| {
            // SAFETY: the C library passes `count` terminated strings, which live as long as the
            // process.
            let word = unsafe { std::ffi::CStr::from_ptr(*arguments.add(index)) };
            OsString::from_vec(word.to_bytes().to_vec())
        })
        .collect()
}

/// Sets up the process and runs the selected program; returns its exit status.
fn run(arguments: Vec<OsString>) -> i32 {
    // Otherwise a file that is opened later could become standard output.
    if sys::io::ensure_stdio().is_err() {
        return 255;
    }
    // A write to a pipe without a reader returns an error.
    let _ = sys::signals::ignore(sys::signals::Signal::PIPE);
    sys::print::exit_status(dispatch::run(arguments))
}
