//! Lines that a person types.

use std::io::{BufRead, Write};

use super::perform::Sftp;

/// Reads lines from the terminal.
#[derive(Debug, Default)]
pub(super) struct Typed;

impl Typed {
    /// The next line; none at the end.
    pub(super) fn read(&mut self, _sftp: &mut Sftp) -> Option<Vec<u8>> {
        print!("sftp> ");
        let _ = std::io::stdout().flush();
        let mut line = Vec::new();
        match std::io::stdin().lock().read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line),
        }
    }
}
