//! Compression of one channel's queued payloads together, as a job for any thread.

use alloc::vec::Vec;

use compress::{Compressor, Encoded, RunDone, RunJob};
use packet::PacketBuf;

use crate::Error;

/// Payloads to compress together, on any thread.
#[must_use = "later packets wait for its result"]
pub struct CompressJob {
    run: RunJob,
    bufs: Vec<PacketBuf>,
}

/// Result of a [`CompressJob`].
#[must_use = "later packets wait for its result"]
pub struct Compressed {
    /// `None` if compression failed.
    done: Option<RunDone>,
    bufs: Vec<PacketBuf>,
}

impl CompressJob {
    /// Begins the compression of `channel`'s next payloads.
    pub(super) fn begin(compressor: &mut Compressor, channel: u64, bufs: Vec<PacketBuf>) -> Self {
        let run = compressor.begin_run(channel, bufs.iter().map(PacketBuf::payload));
        Self { run, bufs }
    }

    /// Number of plaintext bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.run.bytes()
    }

    /// Compresses each payload into its own buffer.
    pub fn run(self) -> Compressed {
        let Self { run, mut bufs } = self;
        let mut places = bufs.iter_mut();
        let done = run.run(|encoded| {
            if let Some(buf) = places.next() {
                put(buf, encoded);
            }
        });
        Compressed {
            done: done.ok(),
            bufs,
        }
    }
}

impl Compressed {
    /// Reports the job to its compressor; returns the compressed payloads.
    pub(super) fn finish(self, compressor: &mut Compressor) -> Result<Vec<PacketBuf>, Error> {
        let done = self.done.ok_or(Error::Bug("compressor failed"))?;
        compressor.finish_run(&done);
        Ok(self.bufs)
    }

    /// Returns true if compression failed: the connection cannot continue.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        self.done.is_none()
    }
}

impl core::fmt::Debug for CompressJob {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("CompressJob").field(&self.run).finish()
    }
}

impl core::fmt::Debug for Compressed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Compressed")
            .field("payloads", &self.bufs.len())
            .finish_non_exhaustive()
    }
}

/// Replaces the payload of `buf` by its encoding.
pub(super) fn put(buf: &mut PacketBuf, encoded: Encoded<'_>) {
    match encoded {
        Encoded::Stored { header } => buf.prepend(header),
        Encoded::Deflated(bytes) => {
            buf.clear();
            buf.extend(bytes);
        }
    }
}
