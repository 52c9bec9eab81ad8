//! What compresses a run of payloads: the seam at which engines are exchanged.
//!
//! A run is one to [`MAX_RUN_PAYLOADS`] payloads, one after another, behind the plaintext that
//! went before them. Whoever encodes it knows nothing else of the stream: what comes out are raw
//! deflate blocks (RFC 1951) that begin and end on a byte, so that runs made by different engines
//! in any order concatenate to one stream. A run that fails is encoded again by our own engine
//! (`deflate`); the bytes of a failed attempt reach nobody.
//!
//! The zlib header before a stream's first run, the carrying of bits between small payloads and
//! the choice of what is stored instead are the caller's (`lib.rs`), not the engine's.
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

/// The most payloads in one run. More would gain nothing: with eight, indexing the history anew
/// for each run costs 2 to 4 % of the time.
pub const MAX_RUN_PAYLOADS: usize = 8;

/// The most plaintext before a run that it may refer to, in bytes: deflate's window.
pub const HISTORY_BYTES: usize = 32 * 1024;

/// Bytes by which a payload may grow at most; Dropbear takes 21.
pub const MAX_GROWTH_BYTES: usize = 15;

/// How a payload's piece of the stream ends. Either way the peer can inflate all of it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// An empty static block (`Z_PARTIAL_FLUSH`): short, but it need not end on a byte. Allowed
    /// for payloads inside a run alone.
    Partial,
    /// An empty stored block (`Z_SYNC_FLUSH`), which ends on a byte.
    Sync,
}

/// Payloads to be encoded together, and what went before them.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// The history, then the payloads, without anything between them.
    pub window: &'a [u8],
    /// Length of the history at the beginning of `window`: at most [`HISTORY_BYTES`], and none
    /// at the beginning of a stream.
    pub history_bytes: usize,
    /// Where in `window` each payload ends, ascending; the last is the length of `window`.
    pub ends: &'a [usize],
    /// Effort, 1 to 9.
    pub level: u8,
    /// How the payloads before the last end; the last always ends with [`Flush::Sync`].
    pub flush: Flush,
}

impl<'a> Run<'a> {
    /// What went before.
    #[must_use]
    pub fn history(&self) -> &'a [u8] {
        self.window.get(..self.history_bytes).unwrap_or_default()
    }

    /// The payloads in their order.
    pub fn payloads(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (window, mut start) = (self.window, self.history_bytes);
        self.ends.iter().map(move |end| {
            let payload = window.get(start..*end).unwrap_or_default();
            start = *end;
            payload
        })
    }
}

/// Why a run was not encoded. It is encoded again in software, and the engine is not asked
/// again on this connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError(pub String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

/// Encodes runs, one at a time, on one thread at a time.
pub trait RunEncoder: Send {
    /// Appends to `out` each payload's raw deflate bytes, and to `ends` the length of `out`
    /// behind each. The bytes begin on a byte, never hold BFINAL, refer to nothing before
    /// `run.window`, and end as `run` says.
    ///
    /// # Errors
    /// [`RunError`], with a text for the user; `out` and `ends` may hold anything then.
    fn encode_run(
        &mut self,
        run: &Run<'_>,
        out: &mut Vec<u8>,
        ends: &mut Vec<usize>,
    ) -> Result<(), RunError>;
}

/// An engine: where encoders come from.
pub trait Provider: Send + Sync {
    /// How it is named to users: a path and a version, a device.
    fn name(&self) -> String;

    /// An encoder for the use of one thread; a connection asks for as many as it has threads.
    ///
    /// # Errors
    /// [`RunError`] when there is none to be had.
    fn encoder(&self) -> Result<Box<dyn RunEncoder>, RunError>;

    /// Whether [`Provider::shed`] would free anything worth it.
    fn has_spare(&self) -> bool {
        false
    }

    /// Frees what bulk data needed: nothing has been encoded for a while.
    fn shed(&self) {}
}
