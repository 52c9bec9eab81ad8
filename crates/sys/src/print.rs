//! `print!`, `println!`, `eprint!` and `eprintln!` that do not panic where nobody reads.
//!
//! They stand in the place of the standard library's in a crate that says
//!
//! ```text
//! #[macro_use]
//! extern crate sys;
//! ```
//!
//! What cannot be written is lost, as any program's is whose reader has left, and the program goes on: a server and
//! a temporary directory are still to be put away. That output was lost decides the exit status in the end
//! ([`exit_status`]). Errors of the system are worded for people on standard error ([`escape::system_words`]).

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that was printed on standard output did not arrive.
static LOST_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Writes to standard output; for the macros.
#[doc(hidden)]
pub fn to_stdout(text: fmt::Arguments<'_>) {
    // Through the buffer that others write to as well, so that the order stays.
    if std::io::stdout().write_fmt(text).is_err() {
        LOST_OUTPUT.store(true, Ordering::Relaxed);
    }
}

/// Writes to standard error; for the macros.
#[doc(hidden)]
pub fn to_stderr(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let _ = std::io::stderr().write_all(escape::system_words(&text).as_bytes());
}

/// The exit status of a program that would end with `status`: 1 where all went well but what was printed on standard
/// output did not arrive.
#[must_use]
pub fn exit_status(status: i32) -> i32 {
    if std::io::stdout().flush().is_err() {
        LOST_OUTPUT.store(true, Ordering::Relaxed);
    }
    match status {
        0 if LOST_OUTPUT.load(Ordering::Relaxed) => 1,
        status => status,
    }
}

/// As the standard library's; see [`mod@crate::print`].
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => {
        $crate::print::to_stdout(::core::format_args!($($argument)*))
    };
}

/// As the standard library's; see [`mod@crate::print`].
#[macro_export]
macro_rules! println {
    () => { $crate::print::to_stdout(::core::format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::print::to_stdout(::core::format_args!("{}\n", ::core::format_args!($($argument)*)))
    };
}

/// As the standard library's; see [`mod@crate::print`].
#[macro_export]
macro_rules! eprint {
    ($($argument:tt)*) => {
        $crate::print::to_stderr(::core::format_args!($($argument)*))
    };
}

/// As the standard library's; see [`mod@crate::print`].
#[macro_export]
macro_rules! eprintln {
    () => { $crate::print::to_stderr(::core::format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::print::to_stderr(::core::format_args!("{}\n", ::core::format_args!($($argument)*)))
    };
}
