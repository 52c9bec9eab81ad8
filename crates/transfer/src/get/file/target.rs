//! The local file that a download writes, and the data that waits to be written to it in one call.

use std::io;
use std::path::Path;

use bytes::Bytes;
use sftp::{Attributes, ExactTimes};

use crate::options::{Options, Resume};
use crate::part::PartNames;
use crate::plan::shown;
use crate::sink::{Opening, Sink};
use crate::text;
use crate::watch::Targets;

/// Maximum number of bytes, and of pieces, collected for one write.
const GATHER_BYTES: usize = 256 << 10;
const GATHER_PIECES: usize = 64;
/// Opens the local target of the server's file `from`, or with `beside` a part file in the same
/// directory.
///
/// # Errors
/// One line that names the file and the cause.
pub(in crate::get) fn open_sink(
    from: &[u8],
    to: &Path,
    attributes: &Attributes,
    options: &Options,
    beside: bool,
    targets: &Targets,
) -> Result<(Sink, bool), String> {
    let opening = match options.resume {
        Resume::Never => Opening::Anew {
            len: attributes.size,
            modified: attributes.best_times().map(|times| times.modified.seconds),
        },
        _ => Opening::GoOn,
    };
    let mode = attributes.permissions.unwrap_or(0o666);
    // A symbolic link or a device is written to, not replaced.
    let is_other = || std::fs::symlink_metadata(to).is_ok_and(|there| !there.is_file());
    // A name with a trailing slash cannot be a file's: opening it reports the error.
    let target = to.as_os_str().as_encoded_bytes();
    let beside = beside && !target.ends_with(b"/") && !is_other();
    let names = beside.then(|| PartNames::of_remote(from, attributes, target));
    Sink::open(to, mode, opening, names.as_ref(), options.sparse, targets)
        .map(|sink| (sink, beside))
        .map_err(|error| format!("open local \"{}\": {}", shown(to), text::reason(&error)))
}

/// Mode and times to set on a finished file.
pub(in crate::get) fn kept(
    attributes: &Attributes,
    options: &Options,
) -> Option<(u32, Option<ExactTimes>)> {
    options.preserve.then(|| {
        let mode = attributes.permissions.unwrap_or(0o644);
        (mode, attributes.best_times())
    })
}

/// Consecutive pieces of a file that are not written yet.
#[derive(Debug, Default)]
struct Gathered {
    at: u64,
    bytes: usize,
    pieces: Vec<Bytes>,
}

impl Gathered {
    fn end(&self) -> u64 {
        self.at.saturating_add(self.bytes as u64)
    }

    fn is_full(&self) -> bool {
        self.bytes >= GATHER_BYTES || self.pieces.len() >= GATHER_PIECES
    }
}

/// The open target of one file.
#[derive(Debug)]
pub(super) struct LocalTarget {
    pub(super) sink: Sink,
    gathered: Gathered,
}

impl LocalTarget {
    pub(super) fn new(sink: Sink) -> Self {
        Self {
            sink,
            gathered: Gathered::default(),
        }
    }

    /// Writes data, now or together with the data that follows it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn keep(&mut self, offset: u64, bytes: Bytes) -> io::Result<()> {
        if !self.sink.gathers() {
            return self.write(offset, &bytes);
        }
        let mut written = Ok(());
        if self.gathered.end() != offset {
            written = self.write_gathered();
        }
        if self.gathered.pieces.is_empty() {
            self.gathered.at = offset;
        }
        if !bytes.is_empty() {
            self.gathered.bytes += bytes.len();
            self.gathered.pieces.push(bytes);
        }
        if self.gathered.is_full() {
            written = written.and(self.write_gathered());
        }
        written
    }

    /// Writes data now.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match bytes.is_empty() {
            true => Ok(()),
            false => self.sink.write(offset, bytes),
        }
    }

    /// Writes the collected pieces. A file system works in pages; one call per packet would touch
    /// one page in eight twice.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write_gathered(&mut self) -> io::Result<()> {
        if self.gathered.pieces.is_empty() {
            return Ok(());
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let written = self.sink.write_pieces(gathered.at, &gathered.pieces);
        gathered.pieces.clear();
        self.gathered.pieces = gathered.pieces;
        written
    }
}
