//! `fulmar speed`: what this machine's kernels and primitives do, one row each.
//!
//! Packets of 32 KiB, one core, best of several short runs: a ceiling, not a transfer rate.
//! Signatures and key exchanges are compared with the machine's `openssl speed`.
//! `fulmar bench` measures whole programs.

mod algorithms;
mod compression;
mod packets;
mod peers;
mod public_key;
mod report;
mod select;
mod time;

use std::ffi::OsString;
use std::time::Instant;

use flags::{CommandLine, Word};
use report::SpeedReport;
use select::Selection;
use time::SLICE;

const USAGE: &str = "usage: fulmar speed [--json] [--html FILE] [--library PATH] [name ...]\n\
     A name is one of SSH's or of openssl speed's, or a part of one:\n\
     fulmar speed aes-256-ctr chacha20-poly1305 umac rsa x25519 dh compress\n\
     --library: compress with this library beside our own engine\n";

/// Runs the program; returns its exit status: 0, 1 if the page cannot be written, or 2 for unknown
/// arguments.
#[must_use]
pub fn run(args: Vec<OsString>) -> i32 {
    // The first random byte of a process is measured before anything else can draw one.
    let begun = Instant::now();
    let _: [u8; 1] = crypto::random::bytes();
    let first_random = begun.elapsed();
    let begun = Instant::now();
    crypto::warm_up();
    let warm_up = begun.elapsed();

    let mut json = false;
    let mut html = None;
    let mut names = Vec::new();
    let mut libraries = Vec::new();
    let mut line = CommandLine::mixed(flags::SPEED, args);
    loop {
        let word = match line.next() {
            Ok(Some(word)) => word,
            Ok(None) => break,
            Err(error) => return wrong_usage(&error.to_string()),
        };
        match word {
            Word::Flag("json", _) => json = true,
            Word::Flag("html", path) => html = Some(path),
            Word::Flag("library", path) => match path.into_string() {
                Ok(path) if path.starts_with('/') => libraries.push(path),
                _ => return wrong_usage("--library needs an absolute path"),
            },
            Word::Flag(..) => {
                print!("{USAGE}");
                return 0;
            }
            Word::Operand(name) => match name.into_string() {
                Ok(name) => names.push(name),
                Err(_) => return wrong_usage("an algorithm's name is not UTF-8"),
            },
        }
    }
    let selection = Selection::new(&names);
    let alone = peers::is_alone();
    let public_key = public_key::rows(&selection, !alone);
    let compared = public_key.iter().any(|row| row.openssl.is_some());
    let report = SpeedReport {
        first_random,
        warm_up,
        algorithms: algorithms::rows(&selection, SLICE),
        packets: packets::rows(&selection),
        public_key,
        openssl: compared.then(peers::openssl_version).flatten(),
        compression: compression::measure(&selection, &libraries),
    };
    if report.is_empty() {
        eprintln!(
            "fulmar speed: no algorithm is named like {}",
            names.join(" or ")
        );
        return 2;
    }
    if let Some(path) = &html
        && let Err(error) = std::fs::write(path, report.html())
    {
        eprintln!("fulmar speed: {}: {error}", path.display());
        return 1;
    }
    if json {
        println!("{}", report.json().render());
    } else {
        print!("{}", report.text());
    }
    0
}

fn wrong_usage(why: &str) -> i32 {
    eprint!("fulmar speed: {why}\n{USAGE}");
    2
}

/// The CPU's features in one line.
pub(crate) fn cpu_features() -> String {
    crypto::arch::describe()
        .into_iter()
        .filter(|(_, present)| *present)
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Which kernel serves which primitive, as one line.
pub(crate) fn kernels() -> String {
    crypto::arch::kernels()
        .into_iter()
        .map(|(primitive, kernel)| format!("{primitive}: {kernel}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
