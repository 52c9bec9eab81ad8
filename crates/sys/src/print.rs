//! `print!`, `println!`, `eprint!` and `eprintln!` that do not panic if the output's reader is
//! gone.
//!
//! A crate uses them instead of the standard library's macros with
//!
//! ```text
//! #[macro_use]
//! extern crate sys;
//! ```
//!
//! Output that cannot be written is dropped and the program goes on, so that it still shuts down
//! servers and removes temporary files. Lost standard output changes the exit status
//! ([`exit_status`]). On standard error the ` (os error N)` of system errors is removed
//! ([`escape::system_words`]).

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set if a write to standard output failed.
static LOST_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Writes to standard output; called by the macros.
#[doc(hidden)]
pub fn to_stdout(text: fmt::Arguments<'_>) {
    // Uses the buffer of `std::io::stdout`, so that the order with other writers is kept.
    if std::io::stdout().write_fmt(text).is_err() {
        LOST_OUTPUT.store(true, Ordering::Relaxed);
    }
}

/// Writes to standard error; called by the macros.
#[doc(hidden)]
pub fn to_stderr(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    let _ = std::io::stderr().write_all(escape::system_words(&text).as_bytes());
}

/// Returns the exit status for a program that would exit with `status`: 1 instead of 0 if output to
/// standard output was lost.
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

/// As the standard library's macro; see [`mod@crate::print`].
#[macro_export]
macro_rules! print {
    ($($argument:tt)*) => {
        $crate::print::to_stdout(::core::format_args!($($argument)*))
    };
}

/// As the standard library's macro; see [`mod@crate::print`].
#[macro_export]
macro_rules! println {
    () => { $crate::print::to_stdout(::core::format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::print::to_stdout(::core::format_args!("{}\n", ::core::format_args!($($argument)*)))
    };
}

/// As the standard library's macro; see [`mod@crate::print`].
#[macro_export]
macro_rules! eprint {
    ($($argument:tt)*) => {
        $crate::print::to_stderr(::core::format_args!($($argument)*))
    };
}

/// As the standard library's macro; see [`mod@crate::print`].
#[macro_export]
macro_rules! eprintln {
    () => { $crate::print::to_stderr(::core::format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::print::to_stderr(::core::format_args!("{}\n", ::core::format_args!($($argument)*)))
    };
}
