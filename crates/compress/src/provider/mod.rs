//! The interface for engines that compress runs of payloads.
//!
//! A run is one to [`MAX_RUN_PAYLOADS`] consecutive payloads, with the plaintext before them as
//! history. An encoder needs no other knowledge of the stream: its output is raw deflate blocks
//! (RFC 1951) that begin and end on a byte, so that runs of different engines, in any order of
//! execution, concatenate to one stream. A failed run is encoded again by the built-in engine
//! (`deflate`); the output of a failed attempt is discarded.
//!
//! The caller (`run`, `compressor`), not the engine, handles the zlib header before a stream's
//! first run, the carrying of bits between small payloads, and the decision to store payloads.
//!
//! [`Library`] is a foreign shared library with zlib's ABI, in the process that loads it.
//! `accelerator` makes a [`Provider`] of a process that does so. [`self_test`] is what an engine
//! must pass before it is used, [`Verifier`] what each run of it may have to.

use std::fmt;

mod library;
mod loader;
mod selftest;
mod verify;

#[cfg(test)]
#[path = "../../tests/fakes/mod.rs"]
mod fakes;
#[cfg(test)]
mod sample;

pub use library::{Library, LibraryEncoder};
pub use loader::LibraryError;
pub use selftest::{SELF_TEST_LIMIT, self_test, software_time};
pub use verify::Verifier;

/// Maximum number of payloads in a run. With eight, indexing the history anew for each run costs 2
/// to 4 % of the time, so more would gain little.
pub const MAX_RUN_PAYLOADS: usize = 8;

/// Maximum history of a run, in bytes: deflate's window.
pub const HISTORY_BYTES: usize = 32 * 1024;

/// Maximum number of bytes by which a payload may grow; Dropbear accepts 21.
pub const MAX_GROWTH_BYTES: usize = 15;

/// How the encoding of a payload ends. In both cases the peer can inflate all of it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// An empty static block (`Z_PARTIAL_FLUSH`): short, but may not end on a byte. Allowed only
    /// for payloads inside a run.
    Partial,
    /// An empty stored block (`Z_SYNC_FLUSH`), which ends on a byte.
    Sync,
}

/// Payloads to be encoded together, and the history before them.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The history, followed directly by the payloads.
    pub window: &'a [u8],
    /// Length of the history at the beginning of `window`: at most [`HISTORY_BYTES`], and none
    /// at the beginning of a stream.
    pub history_bytes: usize,
    /// The end of each payload in `window`, ascending; the last is the length of `window`.
    pub ends: &'a [usize],
    /// Compression level, 1 to 9.
    pub level: u8,
    /// How the payloads before the last one end; the last one always ends with [`Flush::Sync`].
    pub flush: Flush,
}

impl<'a> Run<'a> {
    /// The history before the payloads.
    #[must_use]
    pub fn history(&self) -> &'a [u8] {
        self.window.get(..self.history_bytes).unwrap_or_default()
    }

    /// The payloads, in order.
    pub fn payloads(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (window, mut start) = (self.window, self.history_bytes);
        self.ends.iter().map(move |end| {
            let payload = window.get(start..*end).unwrap_or_default();
            start = *end;
            payload
        })
    }
}

/// The encoding of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunOutput {
    /// The encodings of all payloads.
    pub bytes: Vec<u8>,
    /// The end of each payload's encoding in `bytes`.
    pub ends: Vec<usize>,
}

/// Error of encoding a run, as text for the user. The run is encoded again in software, and the
/// engine is not used again on this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError(pub String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

/// An encoder of runs, one at a time, used by one thread at a time.
pub trait RunEncoder: Send {
    /// Appends each payload's raw deflate bytes to `out`. The bytes begin on a byte, never contain
    /// BFINAL, refer to nothing before `run.window`, and end as `run` requires.
    ///
    /// # Errors
    /// [`RunError`], with a text for the user; the content of `out` is then undefined.
    fn encode_run(&mut self, run: &Run<'_>, out: &mut RunOutput) -> Result<(), RunError>;
}

/// An engine that creates encoders.
pub trait Provider: Send + Sync {
    /// Name for users: a path and a version, or a device.
    fn name(&self) -> String;

    /// Creates an encoder for one thread; a connection requests one for each compressing thread.
    ///
    /// # Errors
    /// [`RunError`] if no encoder is available.
    fn encoder(&self) -> Result<Box<dyn RunEncoder>, RunError>;

    /// Returns true if [`Provider::shed`] would free considerable memory.
    fn has_spare(&self) -> bool {
        false
    }

    /// Frees memory that only bulk data needs; called after a pause.
    fn shed(&self) {}
}
