//! What waits to leave: the way from the Order point, where a message gets its place, to the
//! Stamp point, where it gets its sequence number.
//!
//! Without compression both are one, and what is queued is stamped already. With it a packet's
//! length is known only when its payload has been compressed, in place when it is its turn, or
//! before that as part of a run that anybody may compress ([`CompressJob`]). Keys change between
//! two packets, so a change of keys stands in the queue like a packet, and nothing is drained.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use compress::provider::MAX_RUN_PAYLOADS;
use compress::{Compressor, Encoded, RunDone, RunJob};
use packet::{PacketBuf, SealKeys, Sequencer};

use super::streams::OutStream;
use super::{Output, Queued};
use crate::Error;
use crate::config::Compression;

/// What stands in the queue.
pub(super) enum Item {
    /// Ready to leave.
    Ready(Output),
    /// A payload that is sent as it is.
    Plain(PacketBuf),
    /// A payload to be compressed.
    ToCompress(PacketBuf),
    /// A payload that is in a job.
    InJob,
    /// The packets behind it have other keys, and a new stream by this method if it has not begun.
    Keys {
        keys: Arc<SealKeys>,
        reset_sequence: bool,
        restart: Option<Compression>,
    },
}

/// Payloads that are compressed together, on any thread.
#[must_use = "packets behind it wait for it"]
pub struct CompressJob {
    run: RunJob,
    bufs: Vec<PacketBuf>,
}

/// What comes of a [`CompressJob`].
#[must_use = "packets behind it wait for it"]
pub struct Compressed {
    /// `None` when the engine failed.
    done: Option<RunDone>,
    bufs: Vec<PacketBuf>,
}

impl CompressJob {
    /// Plaintext, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.run.bytes()
    }

    /// Compresses, each payload into its own buffer.
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
    /// The engine failed: the connection cannot go on.
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

fn put(buf: &mut PacketBuf, encoded: Encoded<'_>) {
    match encoded {
        Encoded::Stored { header } => buf.prepend(header),
        Encoded::Deflated(bytes) => {
            buf.clear();
            buf.extend(bytes);
        }
    }
}

/// Compresses the payload of `buf` in place.
pub(super) fn compress(stream: &mut OutStream, buf: &mut PacketBuf) -> Result<(), Error> {
    let mut out = Vec::with_capacity(buf.len() + 64);
    let form = stream
        .compress_around(buf.payload(), &mut out)
        .map_err(|_| Error::Bug("compressor failed"))?;
    put(buf, form.encoded(&out));
    Ok(())
}

pub(super) fn stamp(sequencer: &mut Sequencer, buf: PacketBuf) -> Result<Output, Error> {
    sequencer
        .stamp(buf)
        .map(Output::Seal)
        .map_err(|_| Error::Bug("sequence numbers exhausted"))
}

/// Takes payloads from the queue for a run, if at least `least_bytes` wait for it.
pub(super) fn begin_run(
    queue: &mut VecDeque<Queued>,
    stream: &mut OutStream,
    most_payloads: usize,
    least_bytes: usize,
) -> Option<CompressJob> {
    let first = queue
        .iter()
        .position(|queued| matches!(queued.item, Item::ToCompress(_)))?;
    let most = most_payloads.clamp(1, MAX_RUN_PAYLOADS);
    let run = queue
        .iter()
        .skip(first)
        .take_while(|queued| matches!(queued.item, Item::ToCompress(_)));
    let (mut count, mut bytes) = (0, 0_usize);
    for queued in run.take(most) {
        count += 1;
        bytes = bytes.saturating_add(queued.bytes);
    }
    if bytes < least_bytes {
        return None;
    }
    let before = queue.iter().take(first).rev();
    let method = before
        .filter_map(|queued| match &queued.item {
            Item::Keys { restart, .. } => *restart,
            _ => None,
        })
        .next()
        .unwrap_or_else(|| stream.method());
    if method != Compression::ZlibOpenssh {
        return None;
    }
    // The keys before it may not be due yet; the stream before it has ended all the same.
    for queued in queue.iter_mut().take(first) {
        if let Item::Keys { restart, .. } = &mut queued.item
            && let Some(method) = restart.take()
        {
            stream.begin(method);
        }
    }
    let compressor = stream.zlib()?;
    let mut bufs = Vec::with_capacity(count);
    for queued in queue.iter_mut().skip(first).take(count) {
        if let Item::ToCompress(buf) = core::mem::replace(&mut queued.item, Item::InJob) {
            bufs.push(buf);
        }
    }
    let run = compressor.begin_run(bufs.iter().map(PacketBuf::payload));
    Some(CompressJob { run, bufs })
}

/// Puts a run's payloads back in their places: runs are finished in the order in which they
/// were begun.
pub(super) fn finish_run(
    queue: &mut VecDeque<Queued>,
    compressor: &mut Compressor,
    compressed: Compressed,
) -> Result<(), Error> {
    let done = compressed.done.ok_or(Error::Bug("compressor failed"))?;
    compressor.finish_run(&done);
    let mut places = queue
        .iter_mut()
        .filter(|queued| matches!(queued.item, Item::InJob));
    for buf in compressed.bufs {
        let place = places.next().ok_or(Error::Bug("a run without places"))?;
        place.item = Item::Plain(buf);
    }
    Ok(())
}
