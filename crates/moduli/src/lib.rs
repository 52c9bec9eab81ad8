//! Groups for Diffie-Hellman group exchange (`keygen -M`): candidates, their screening, and both
//! in one step.
//!
//! `generate` and `screen` take ssh-keygen's options and files, so that either can go on with
//! the other's work. A window of candidates is sieved ([`sieve`]), and the remaining ones are tested
//! ([`search`]): base 2 to q - 1 modulo q, which one in 36 (2048 bits) passes, then the same of
//! p, which with q prime proves p prime (Pocklington), and for the few that are left
//! Miller-Rabin's test of q. ssh-keygen's own screening spends 64 or 128 rounds on each q that
//! passes the first. The format of the lines is `keys`', the arithmetic `crypto`'s.
#![forbid(unsafe_code)]

// Printing to a closed pipe must not panic.
#[macro_use]
extern crate sys;

mod auto;
mod checkpoint;
mod generate;
mod natural;
mod options;
mod primes;
mod progress;
mod screen;
mod search;
mod sieve;

use std::num::NonZeroUsize;
use std::path::Path;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuliMode {
    /// List candidates.
    Generate,
    /// Find the moduli among candidates.
    Screen,
    /// Make a given number of moduli.
    Auto,
}

impl ModuliMode {
    /// The mode of `-M`'s argument.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "generate" => Some(Self::Generate),
            "screen" => Some(Self::Screen),
            "auto" => Some(Self::Auto),
            _ => None,
        }
    }
}

/// What the command line asks for.
#[derive(Debug)]
pub struct ModuliRequest<'a> {
    /// -O, each.
    pub options: &'a [String],
    /// -b, which `auto` takes beside `-O bits=`.
    pub bits: Option<usize>,
    /// -n, how many moduli `auto` makes.
    pub count: Option<&'a str>,
    /// -f, where candidates are read; standard input without.
    pub input: Option<&'a Path>,
    /// Where the result goes.
    pub output: &'a Path,
    /// -q
    pub quiet: bool,
    /// -v
    pub verbose: bool,
}

/// Does the work.
///
/// # Errors
/// What went wrong, in words.
pub fn run(mode: ModuliMode, request: &ModuliRequest<'_>) -> Result<(), String> {
    match mode {
        ModuliMode::Generate => generate::run(request),
        ModuliMode::Screen => screen::run(request),
        ModuliMode::Auto => auto::run(request),
    }
}

/// Threads: one for each core that this process may use.
fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// A message with the time, as ssh-keygen gives it.
fn announce(request: &ModuliRequest<'_>, message: &str) {
    if !request.quiet {
        let now = i64::try_from(sys::time::realtime_seconds()).unwrap_or(0);
        let now = sys::time::LocalTime::from_seconds(now).to_ctime();
        eprintln!("{now} {message}");
    }
}
