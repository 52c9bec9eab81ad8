//! The output queue, from the Order point, where a message gets its place, to the Stamp point,
//! where it gets its sequence number.
//!
//! Without compression both are one, and queued packets are stamped already. With compression a
//! packet's length is known only after its payload has been compressed: in place when it leaves, or
//! earlier as part of a run on any thread ([`CompressJob`]). Keys change between two packets, so a
//! change of keys is an item of the queue, and nothing is drained.
//!
//! Each payload is queued with its origin, and is matched only against earlier payloads of the same
//! channel. A run contains one channel's data.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use compress::provider::MAX_RUN_PAYLOADS;
use compress::{Compressor, Encoded, Origin, RunDone, RunJob};
use packet::{PacketBuf, SealKeys, Sequencer};

use super::streams::OutStream;
use super::{Queued, TransportOutput};
use crate::Error;
use crate::config::Compression;

/// An item of the output queue.
pub(super) enum OutboxItem {
    /// Stamped, or raw bytes.
    Ready(TransportOutput),
    /// A payload that is compressed already or never.
    Plain(PacketBuf),
    /// A payload to compress.
    ToCompress(PacketBuf),
    /// A payload that a job is compressing.
    InJob,
    /// New keys for the packets that follow, and the method of their compressed stream unless that
    /// has started.
    Keys {
        keys: Arc<SealKeys>,
        reset_sequence: bool,
        restart: Option<Compression>,
    },
}

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
pub(super) fn compress(
    stream: &mut OutStream,
    origin: Origin,
    buf: &mut PacketBuf,
) -> Result<(), Error> {
    let mut out = Vec::with_capacity(buf.len() + 64);
    let form = stream
        .compress_around(origin, buf.payload(), &mut out)
        .map_err(|_| Error::Bug("compressor failed"))?;
    put(buf, form.encoded(&out));
    Ok(())
}

pub(super) fn stamp(sequencer: &mut Sequencer, buf: PacketBuf) -> Result<TransportOutput, Error> {
    sequencer
        .stamp(buf)
        .map(TransportOutput::Seal)
        .map_err(|_| Error::Bug("sequence numbers exhausted"))
}

/// Minimum run for a thread, bytes, if another origin's payload prevents the run from growing.
const LEAST_CUT_RUN_BYTES: usize = 8 * 1024;

/// Takes one channel's payloads from the queue for a run, if there are at least `least_bytes`.
/// Small items in front of it are compressed in place: payloads that are not channel data, and
/// short runs that another origin ends.
pub(super) fn begin_run(
    queue: &mut VecDeque<Queued>,
    stream: &mut OutStream,
    most_payloads: usize,
    least_bytes: usize,
) -> Result<Option<CompressJob>, Error> {
    let most = most_payloads.clamp(1, MAX_RUN_PAYLOADS);
    let mut from = 0;
    while let Some(first) = next_to_compress(queue, from) {
        if method_at(queue, stream, first) != Compression::ZlibOpenssh {
            return Ok(None);
        }
        let origin = queue
            .get(first)
            .map_or(Origin::Other, |queued| queued.origin);
        let group = PayloadGroup::at(queue, first, origin, most);
        match origin {
            Origin::Channel(channel)
                if group.bytes >= least_bytes
                    || (group.is_cut && group.bytes >= LEAST_CUT_RUN_BYTES.min(least_bytes)) =>
            {
                begin_streams(queue, stream, first);
                return Ok(take_run(queue, stream, first, group.count, channel));
            }
            Origin::Channel(_) if !group.is_cut => return Ok(None),
            _ => {}
        }
        if queue
            .iter()
            .skip(first + group.count)
            .all(|queued| !queued.origin.is_data())
        {
            // No later item could form a run.
            return Ok(None);
        }
        begin_streams(queue, stream, first);
        for queued in queue.iter_mut().skip(first).take(group.count) {
            if let OutboxItem::ToCompress(mut buf) =
                core::mem::replace(&mut queued.item, OutboxItem::InJob)
            {
                compress(stream, origin, &mut buf)?;
                queued.item = OutboxItem::Plain(buf);
            }
        }
        from = first + group.count;
    }
    Ok(None)
}

fn next_to_compress(queue: &VecDeque<Queued>, from: usize) -> Option<usize> {
    let places = queue.iter().enumerate().skip(from);
    let mut waiting = places.filter(|(_, queued)| matches!(queued.item, OutboxItem::ToCompress(_)));
    waiting.next().map(|(place, _)| place)
}

/// Compression method of the payload at `place`.
fn method_at(queue: &VecDeque<Queued>, stream: &OutStream, place: usize) -> Compression {
    let before = queue.iter().take(place).rev();
    let mut restarts = before.filter_map(|queued| match &queued.item {
        OutboxItem::Keys { restart, .. } => *restart,
        _ => None,
    });
    restarts.next().unwrap_or_else(|| stream.method())
}

/// Starts the streams of all key changes before `place`. Their keys may not be in use yet, but the
/// previous stream has no more payloads.
fn begin_streams(queue: &mut VecDeque<Queued>, stream: &mut OutStream, place: usize) {
    for queued in queue.iter_mut().take(place) {
        if let OutboxItem::Keys { restart, .. } = &mut queued.item
            && let Some(method) = restart.take()
        {
            stream.begin(method);
        }
    }
}

/// Consecutive payloads of one origin that wait to be compressed.
struct PayloadGroup {
    count: usize,
    bytes: usize,
    /// A payload of another origin follows.
    is_cut: bool,
}

impl PayloadGroup {
    /// The group of at most `most` payloads from `first` on.
    fn at(queue: &VecDeque<Queued>, first: usize, origin: Origin, most: usize) -> Self {
        let mut group = Self {
            count: 0,
            bytes: 0,
            is_cut: false,
        };
        for queued in queue.iter().skip(first) {
            if !matches!(queued.item, OutboxItem::ToCompress(_)) || group.count == most {
                break;
            }
            if queued.origin != origin {
                group.is_cut = true;
                break;
            }
            group.count += 1;
            group.bytes = group.bytes.saturating_add(queued.bytes);
        }
        group
    }
}

fn take_run(
    queue: &mut VecDeque<Queued>,
    stream: &mut OutStream,
    first: usize,
    count: usize,
    channel: u64,
) -> Option<CompressJob> {
    let compressor = stream.zlib()?;
    let mut bufs = Vec::with_capacity(count);
    for queued in queue.iter_mut().skip(first).take(count) {
        if let OutboxItem::ToCompress(buf) = core::mem::replace(&mut queued.item, OutboxItem::InJob)
        {
            bufs.push(buf);
        }
    }
    let run = compressor.begin_run(channel, bufs.iter().map(PacketBuf::payload));
    Some(CompressJob { run, bufs })
}

/// Puts a run's payloads back into their places; runs are finished in the order in which they
/// began.
pub(super) fn finish_run(
    queue: &mut VecDeque<Queued>,
    compressor: &mut Compressor,
    compressed: Compressed,
) -> Result<(), Error> {
    let done = compressed.done.ok_or(Error::Bug("compressor failed"))?;
    compressor.finish_run(&done);
    let mut places = queue
        .iter_mut()
        .filter(|queued| matches!(queued.item, OutboxItem::InJob));
    for buf in compressed.bufs {
        let place = places.next().ok_or(Error::Bug(
            "compressed payloads without places in the queue",
        ))?;
        place.item = OutboxItem::Plain(buf);
    }
    Ok(())
}
