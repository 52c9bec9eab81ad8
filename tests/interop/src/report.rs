//! Output of tests: one line per skip, all failures together.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

/// Reports once per process, past the test runner's capture, that something was not tested.
pub fn skipped(what: &str, reason: &dyn Display) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let line = format!("skipped: {what} ({reason})");
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(line.clone()) {
        say(&line);
    }
}

/// Writes one line past the test runner's capture.
pub fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// True if long tests run too: `INTEROP_ALL=1`, which `cargo xtask interop --all` sets.
#[must_use]
pub fn is_whole_run() -> bool {
    std::env::var_os("INTEROP_ALL").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Largest number of printed failures.
const SHOWN: usize = 10;

/// Failures of a test that continues after the first.
#[derive(Debug, Default)]
pub struct Failures {
    found: Vec<String>,
    checks: usize,
}

impl Failures {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a check and stores `what` if it fails.
    pub fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.checks += 1;
        if !holds {
            self.found.push(what());
        }
    }

    /// Stores a failure.
    pub fn add(&mut self, what: String) {
        self.check(false, || what);
    }

    /// Fails the test if anything failed.
    ///
    /// # Panics
    /// With all failures.
    pub fn settle(self) {
        assert!(
            self.found.is_empty(),
            "{} of {} checks failed, the first of them:\n  {}",
            self.found.len(),
            self.checks,
            self.found[..self.found.len().min(SHOWN)].join("\n  ")
        );
    }
}

/// The message of a panic, by the payload that `catch_unwind` returns; empty if it is no text.
#[must_use]
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let owned = payload.downcast_ref::<String>().cloned();
    let borrowed = || payload.downcast_ref::<&str>().map(ToString::to_string);
    owned.or_else(borrowed).unwrap_or_default()
}
