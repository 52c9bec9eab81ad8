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
use compress::{CompressionSettings, Origin};
use packet::{PacketBuf, SealJob, SealKeys, Sequencer, StampError};

use super::compress_job::{CompressJob, Compressed, put};
use super::pipelined_packet::{PipelinedPacket, SentAhead};
use super::streams::OutStream;
use crate::Error;
use crate::config::Compression;

/// Minimum run for a thread, bytes, if another origin's payload prevents the run from growing.
const LEAST_CUT_RUN_BYTES: usize = 8 * 1024;

/// Output to write to the socket, in order.
#[derive(Debug)]
pub enum TransportOutput {
    /// Bytes to write unchanged: the identification line.
    Raw(Vec<u8>),
    /// A packet to seal; write the result.
    Seal(SealJob),
}

/// The form of an item of the output queue.
enum OutboxItem {
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

/// A message in the queue, raw bytes, or a change of keys.
struct Queued {
    item: OutboxItem,
    bytes: usize,
    origin: Origin,
    /// Client: the kind of a packet sent before the server's answers.
    ahead: Option<PipelinedPacket>,
}

pub(super) struct Outbox {
    queue: VecDeque<Queued>,
    /// Payload bytes in the queue.
    bytes: usize,
    /// Those of them that are not channel data.
    answer_bytes: usize,
    /// Number of key changes in the queue.
    keys_queued: usize,
    /// Payloads queued from now on are compressed.
    compressing: bool,
    /// Compression at the head of the queue.
    stream: OutStream,
    sequencer: Sequencer,
    sent_ahead: SentAhead,
}

impl Outbox {
    pub(super) fn new(settings: CompressionSettings, sequencer: Sequencer) -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            answer_bytes: 0,
            keys_queued: 0,
            compressing: false,
            stream: OutStream::new(settings),
            sequencer,
            sent_ahead: SentAhead::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Payload bytes in the queue.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Payload bytes in the queue that are not channel data.
    pub(super) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    /// Returns true if the queue contains a change of keys: the sequencer still counts the use of
    /// the old ones.
    pub(super) fn changes_keys(&self) -> bool {
        self.keys_queued > 0
    }

    pub(super) fn is_compressing(&self) -> bool {
        self.compressing
    }

    pub(super) fn stream(&self) -> &OutStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut OutStream {
        &mut self.stream
    }

    pub(super) fn sequencer(&self) -> &Sequencer {
        &self.sequencer
    }

    pub(super) fn sent_ahead(&mut self) -> &mut SentAhead {
        &mut self.sent_ahead
    }

    /// Returns true if no queued item waits for its sequence number.
    fn stamps_at_once(&self) -> bool {
        self.queue
            .back()
            .is_none_or(|queued| matches!(queued.item, OutboxItem::Ready(_)))
    }

    /// Queues bytes that are no packet.
    pub(super) fn push_raw(&mut self, raw: Vec<u8>) {
        self.queue.push_back(Queued {
            bytes: raw.len(),
            item: OutboxItem::Ready(TransportOutput::Raw(raw)),
            origin: Origin::Other,
            ahead: None,
        });
    }

    /// The Order point: the place in the queue determines compression history and sequence number.
    /// If nothing waits for compression, the number is assigned at once.
    pub(super) fn push(
        &mut self,
        buf: PacketBuf,
        origin: Origin,
        mut ahead: Option<PipelinedPacket>,
    ) -> Result<(), Error> {
        let bytes = buf.len();
        let item = if self.compressing {
            OutboxItem::ToCompress(buf)
        } else if self.stamps_at_once() {
            OutboxItem::Ready(self.stamp(buf, ahead.take())?)
        } else {
            OutboxItem::Plain(buf)
        };
        self.bytes += bytes;
        if !origin.is_data() {
            self.answer_bytes += bytes;
        }
        self.queue.push_back(Queued {
            item,
            bytes,
            origin,
            ahead,
        });
        Ok(())
    }

    /// The Stamp point: assigns the sequence number.
    fn stamp(
        &mut self,
        buf: PacketBuf,
        ahead: Option<PipelinedPacket>,
    ) -> Result<TransportOutput, Error> {
        if let Some(kind) = ahead {
            self.sent_ahead
                .note(self.sequencer.position().sequence, kind);
        }
        self.sequencer
            .stamp(buf)
            .map(TransportOutput::Seal)
            .map_err(|error| match error {
                StampError::PayloadTooLong => Error::Misuse("a message is longer than a packet"),
                StampError::SequenceExhausted => Error::Bug("sequence numbers exhausted"),
                StampError::EmptyPayload => Error::Bug("a message without a number"),
            })
    }

    /// Switches keys and compression for all payloads queued from now on.
    pub(super) fn push_keys(
        &mut self,
        keys: Arc<SealKeys>,
        reset_sequence: bool,
        method: Compression,
    ) {
        if self.stamps_at_once() {
            self.sequencer.set_keys(keys, reset_sequence);
            self.stream.begin(method);
        } else {
            self.keys_queued += 1;
            self.queue.push_back(Queued {
                item: OutboxItem::Keys {
                    keys,
                    reset_sequence,
                    restart: Some(method),
                },
                bytes: 0,
                origin: Origin::Other,
                ahead: None,
            });
        }
        self.compressing = method != Compression::None;
    }

    /// Starts a compressed stream between two key changes, at the login.
    pub(super) fn begin_stream(&mut self, method: Compression) {
        self.stream.begin(method);
        self.compressing = method != Compression::None;
    }

    /// Takes the next output; `None` if the queue is empty or waits for a compression job.
    pub(super) fn pop(&mut self) -> Result<Option<TransportOutput>, Error> {
        loop {
            let is_made = |queued: &mut Queued| !matches!(queued.item, OutboxItem::InJob);
            let Some(next) = self.queue.pop_front_if(is_made) else {
                return Ok(None);
            };
            self.bytes = self.bytes.saturating_sub(next.bytes);
            if !next.origin.is_data() {
                self.answer_bytes = self.answer_bytes.saturating_sub(next.bytes);
            }
            match next.item {
                OutboxItem::Ready(output) => return Ok(Some(output)),
                OutboxItem::Plain(buf) => return self.stamp(buf, next.ahead).map(Some),
                OutboxItem::ToCompress(mut buf) => {
                    compress(&mut self.stream, next.origin, &mut buf)?;
                    return self.stamp(buf, next.ahead).map(Some);
                }
                OutboxItem::Keys {
                    keys,
                    reset_sequence,
                    restart,
                } => {
                    self.keys_queued = self.keys_queued.saturating_sub(1);
                    self.sequencer.set_keys(keys, reset_sequence);
                    if let Some(method) = restart {
                        self.stream.begin(method);
                    }
                }
                OutboxItem::InJob => {}
            }
        }
    }

    /// Drops the queue, which the peer could not read any more.
    pub(super) fn clear(&mut self) {
        self.queue.clear();
    }

    pub(super) fn shed(&mut self) {
        self.stream.shed();
        self.queue.shrink_to_fit();
    }

    // ---- runs -----------------------------------------------------------------------------

    /// Takes one channel's payloads from the queue for a run, if there are at least `least_bytes`.
    /// Small items in front of it are compressed in place: payloads that are not channel data, and
    /// short runs that another origin ends.
    pub(super) fn begin_run(
        &mut self,
        most_payloads: usize,
        least_bytes: usize,
    ) -> Result<Option<CompressJob>, Error> {
        let most = most_payloads.clamp(1, MAX_RUN_PAYLOADS);
        let mut from = 0;
        while let Some(first) = self.next_to_compress(from) {
            if self.method_at(first) != Compression::ZlibOpenssh {
                return Ok(None);
            }
            let group = self.group_at(first, most);
            match group.origin {
                Origin::Channel(channel)
                    if group.bytes >= least_bytes
                        || (group.is_cut
                            && group.bytes >= LEAST_CUT_RUN_BYTES.min(least_bytes)) =>
                {
                    self.begin_streams(first);
                    return Ok(self.take_run(first, group.count, channel));
                }
                Origin::Channel(_) if !group.is_cut => return Ok(None),
                _ => {}
            }
            let after = first + group.count;
            if self
                .queue
                .iter()
                .skip(after)
                .all(|queued| !queued.origin.is_data())
            {
                // No later item could form a run.
                return Ok(None);
            }
            self.begin_streams(first);
            for queued in self.queue.iter_mut().skip(first).take(group.count) {
                if let Some(mut buf) = queued.take_to_compress() {
                    compress(&mut self.stream, group.origin, &mut buf)?;
                    queued.item = OutboxItem::Plain(buf);
                }
            }
            from = after;
        }
        Ok(None)
    }

    fn next_to_compress(&self, from: usize) -> Option<usize> {
        let places = self.queue.iter().enumerate().skip(from);
        let mut waiting =
            places.filter(|(_, queued)| matches!(queued.item, OutboxItem::ToCompress(_)));
        waiting.next().map(|(place, _)| place)
    }

    /// Compression method of the payload at `place`.
    fn method_at(&self, place: usize) -> Compression {
        let before = self.queue.iter().take(place).rev();
        let mut restarts = before.filter_map(|queued| match &queued.item {
            OutboxItem::Keys { restart, .. } => *restart,
            _ => None,
        });
        restarts.next().unwrap_or_else(|| self.stream.method())
    }

    /// Starts the streams of all key changes before `place`. Their keys may not be in use yet, but
    /// the previous stream has no more payloads.
    fn begin_streams(&mut self, place: usize) {
        for queued in self.queue.iter_mut().take(place) {
            if let OutboxItem::Keys { restart, .. } = &mut queued.item
                && let Some(method) = restart.take()
            {
                self.stream.begin(method);
            }
        }
    }

    /// The group of at most `most` payloads from `first` on.
    fn group_at(&self, first: usize, most: usize) -> PayloadGroup {
        let mut group = PayloadGroup {
            origin: Origin::Other,
            count: 0,
            bytes: 0,
            is_cut: false,
        };
        for queued in self.queue.iter().skip(first) {
            if !matches!(queued.item, OutboxItem::ToCompress(_)) || group.count == most {
                break;
            }
            if group.count == 0 {
                group.origin = queued.origin;
            }
            if queued.origin != group.origin {
                group.is_cut = true;
                break;
            }
            group.count += 1;
            group.bytes = group.bytes.saturating_add(queued.bytes);
        }
        group
    }

    fn take_run(&mut self, first: usize, count: usize, channel: u64) -> Option<CompressJob> {
        let compressor = self.stream.zlib()?;
        let payloads = self.queue.iter_mut().skip(first).take(count);
        let mut bufs = Vec::with_capacity(count);
        bufs.extend(payloads.filter_map(Queued::take_to_compress));
        Some(CompressJob::begin(compressor, channel, bufs))
    }

    /// Puts a run's payloads back into their places; runs are finished in the order in which they
    /// began.
    pub(super) fn finish_run(&mut self, compressed: Compressed) -> Result<(), Error> {
        let compressor = self.stream.zlib();
        let compressor = compressor.ok_or(Error::Bug("compressed without a compressor"))?;
        let mut places = self
            .queue
            .iter_mut()
            .filter(|queued| matches!(queued.item, OutboxItem::InJob));
        for buf in compressed.finish(compressor)? {
            let place = places.next().ok_or(Error::Bug(
                "compressed payloads without places in the queue",
            ))?;
            place.item = OutboxItem::Plain(buf);
        }
        Ok(())
    }
}

impl Queued {
    /// Takes a payload that waits to be compressed, and keeps its place.
    fn take_to_compress(&mut self) -> Option<PacketBuf> {
        match core::mem::replace(&mut self.item, OutboxItem::InJob) {
            OutboxItem::ToCompress(buf) => Some(buf),
            other => {
                self.item = other;
                None
            }
        }
    }
}

/// Consecutive payloads of one origin that wait to be compressed.
struct PayloadGroup {
    origin: Origin,
    count: usize,
    bytes: usize,
    /// A payload of another origin follows.
    is_cut: bool,
}

/// Compresses the payload of `buf` in place.
fn compress(stream: &mut OutStream, origin: Origin, buf: &mut PacketBuf) -> Result<(), Error> {
    let mut out = Vec::with_capacity(buf.len() + 64);
    let form = stream
        .compress_around(origin, buf.payload(), &mut out)
        .map_err(|_| Error::Bug("compressor failed"))?;
    put(buf, form.encoded(&out));
    Ok(())
}
