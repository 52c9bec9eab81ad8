//! Files that say how far the work has come.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time between two writes; work since the last write is repeated after an interruption.
const EVERY: Duration = Duration::from_secs(1);
/// Longest file that is read, in bytes.
const MAX_BYTES: u64 = 64 * 1024;

/// A file, if there is to be one.
pub(super) struct Checkpoint {
    path: Option<PathBuf>,
    written: Option<Instant>,
}

impl Checkpoint {
    pub(super) fn new(path: Option<&Path>) -> Self {
        Self {
            path: path.map(Path::to_owned),
            written: None,
        }
    }

    /// What an earlier run has left.
    ///
    /// # Errors
    /// In words, when there is a file that cannot be read.
    pub(super) fn load(&self) -> Result<Option<String>, String> {
        let Some(path) = &self.path else {
            return Ok(None);
        };
        match sys::file::read_bounded(path, MAX_BYTES, sys::file::FollowLinks::Follow) {
            Ok(bytes) => String::from_utf8(bytes)
                .map(Some)
                .map_err(|_| self.unusable("it is not text")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.unusable(&error.to_string())),
        }
    }

    /// The message for a file that makes no sense.
    pub(super) fn unusable(&self, why: &str) -> String {
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        format!(
            "Failed to load checkpoint from '{}': {why}; remove it to start again",
            path.display()
        )
    }

    /// Writes the state when it is time to, or `now`: when a result has been written, which must
    /// not be written twice.
    ///
    /// # Errors
    /// In words.
    pub(super) fn save(&mut self, now: bool, state: impl FnOnce() -> String) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        if !now
            && self
                .written
                .is_some_and(|written| written.elapsed() < EVERY)
        {
            return Ok(());
        }
        self.written = Some(Instant::now());
        sys::file::replace(path, state().as_bytes(), 0o644).map_err(|error| {
            format!(
                "failed to write to checkpoint file '{}': {error}",
                path.display()
            )
        })
    }

    /// The work is done.
    pub(super) fn remove(&self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}
