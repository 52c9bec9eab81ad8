//! Standard input for each host: hosts start at different times and read at different rates, so it is
//! kept in a file without a name, and each reads that from its beginning.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// The whole of standard input.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
}

impl Spool {
    /// Takes standard input as it is if it is a regular file at its beginning; otherwise reads all of it
    /// into a file of the directory for temporary files that has no name.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn of_stdin() -> io::Result<Self> {
        let mut stdin = File::from(sys::io::dup(sys::io::stdin())?);
        let is_whole = stdin.metadata()?.is_file() && io::Seek::stream_position(&mut stdin)? == 0;
        if is_whole {
            return Ok(Self { file: stdin });
        }
        Self::holding(stdin)
    }

    /// Keeps all that `from` gives.
    fn holding(mut from: impl io::Read) -> io::Result<Self> {
        let mut file = unnamed()?;
        io::copy(&mut from, &mut file)?;
        Ok(Self { file })
    }

    /// Reads at an offset; 0 at the end.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }
}

/// A file that nobody else can open. A file system without such files gets one that is removed at once.
fn unnamed() -> io::Result<File> {
    let directory = std::env::temp_dir();
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let opened = options
        .clone()
        .custom_flags(sys::file::UNNAMED)
        .open(&directory);
    if let Ok(file) = opened {
        return Ok(file);
    }
    let name = format!("fulmar-each-{}", sys::process::pid());
    let path = directory.join(name);
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reader_begins_at_the_beginning() {
        let spool = Spool::holding(&b"one two"[..]).unwrap();
        for _ in 0..2 {
            let mut buffer = [0; 16];
            assert_eq!(spool.read_at(&mut buffer, 0).unwrap(), 7);
            assert_eq!(&buffer[..7], b"one two");
            assert_eq!(spool.read_at(&mut buffer, 7).unwrap(), 0);
        }
    }
}
