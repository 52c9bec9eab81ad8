//! Passes the progress of a copy to the caller's closure.

use std::collections::HashMap;

use transfer::report::{FileResult, Report};

/// The progress of one file of a copy.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Path of the source. A name from the server is untrusted text: escape it before printing.
    pub name: &'a [u8],
    /// Number of bytes of the file that exist at the target, counting those that were there before.
    pub bytes: u64,
    /// Size of the source, bytes; `None` if the server has not sent it.
    pub total_bytes: Option<u64>,
}

/// A file in progress.
struct File {
    name: Vec<u8>,
    bytes: u64,
    total_bytes: Option<u64>,
}

pub(super) struct Reporter<F> {
    progress: F,
    /// By the number that the copy gives to a file; their number is bounded by the copy.
    files: HashMap<usize, File>,
    first_failure: Option<String>,
}

impl<F: FnMut(&Progress<'_>)> Reporter<F> {
    pub(super) fn new(progress: F) -> Self {
        Self {
            progress,
            files: HashMap::new(),
            first_failure: None,
        }
    }

    /// The text of the first failure, one line.
    pub(super) fn into_first_failure(self) -> Option<String> {
        self.first_failure
    }

    fn advance(&mut self, file: usize, bytes: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.bytes = file.bytes.saturating_add(bytes);
            (self.progress)(&Progress {
                name: &file.name,
                bytes: file.bytes,
                total_bytes: file.total_bytes,
            });
        }
    }
}

impl<F: FnMut(&Progress<'_>)> Report for Reporter<F> {
    fn begins(&mut self, file: usize, name: &[u8], size: Option<u64>) {
        let state = File {
            name: name.to_vec(),
            bytes: 0,
            total_bytes: size,
        };
        self.files.insert(file, state);
    }

    fn moved(&mut self, file: usize, bytes: u64) {
        self.advance(file, bytes);
    }

    fn skipped(&mut self, file: usize, bytes: u64) {
        self.advance(file, bytes);
    }

    fn leaves(&mut self, file: usize) {
        self.files.remove(&file);
    }

    fn ends(&mut self, result: &FileResult) {
        if let Some(error) = &result.error {
            self.first_failure.get_or_insert_with(|| error.clone());
        }
    }

    fn fails(&mut self, line: &str) {
        self.first_failure.get_or_insert_with(|| line.to_owned());
    }

    fn says(&mut self, _line: &str) {}
}
