//! The sending direction: everything that leaves passes [`Outbound::send`].
//!
//! Messages above the transport wait here from our KEXINIT to our NEWKEYS (RFC 4253 §7.1), in
//! order. After DISCONNECT nothing is queued. What the peer can make us queue is limited, and so is
//! channel data, by its senders, who check [`Outbound::takes_bulk`] first.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use compress::{CompressionSettings, Origin};
use packet::{BufPool, PacketBuf, Position, Sequencer};
use wire::message::{
    ChannelFailure, ChannelOpen, ChannelOpenConfirmation, Debug, Encode, GlobalRequest,
    KEX_NUMBERS, Ping, Pong,
};

use super::compress_job::{CompressJob, Compressed};
use super::epoch_keys::EpochKeys;
use super::outbox::{Outbox, TransportOutput};
use super::pipelined_packet::{PipelinedPacket, SentAhead};
use super::streams::OutStream;
use crate::Error;
use crate::config::Compression;

/// Maximum bytes of messages held back during a key exchange; more ends the connection.
const MAX_HELD_BYTES: usize = 1024 * 1024;
/// Queued output from which on channel data has to wait, bytes, unless the owner sets less.
const OUTPUT_HIGH_WATER_BYTES: usize = 512 * 1024;
/// Queued output that is not channel data, bytes, above which no more input is accepted until some
/// has left.
const ANSWERS_HIGH_WATER_BYTES: usize = 1024 * 1024;
/// Maximum data in one message of ours, bytes, where deflate may store it. With its message's
/// header it fits into one stored block (65,535 bytes, RFC 1951 §3.2.4), which both sides process
/// without a copy. Whole pages.
const MAX_DATA_BYTES_DEFLATED: usize = 60 * 1024;
/// Maximum number of pooled buffers, if as many were in use at a time. A full output queue holds 16
/// of the usual 32 KiB; an owner with many threads has as many in flight for each batch.
const POOLED_BUFFERS: usize = 256;
/// Capacity of a pooled bulk buffer, bytes: the longest data that a peer accepts, with its header.
/// A smaller one would be allocated, cleared and faulted in for every packet: 14 % of a client's
/// bulk upload.
const POOLED_BYTES: usize = 65 * 1024;

/// What a client without an identification line gets.
const INVALID_VERSION: &[u8] = b"Invalid SSH identification string.\r\n";
/// What a client of another version of the protocol gets.
const OTHER_VERSION: &[u8] = b"Protocol major versions differ.\r\n";
/// Messages of the connection protocol, RFC 4250 §4.1.2, without the numbers that are free.
pub(super) const SHARED_NUMBERS: core::ops::RangeInclusive<u8> =
    GlobalRequest::NUMBER..=ChannelFailure::NUMBER;

/// A message that waits for the end of a key exchange.
struct Held {
    buf: PacketBuf,
    origin: Origin,
    ahead: Option<PipelinedPacket>,
}

pub(crate) struct Outbound {
    outbox: Outbox,
    /// Buffers of packets that have left.
    pool: BufPool,
    /// Queued bytes from which on channel data has to wait.
    limit_bytes: usize,
    held: VecDeque<Held>,
    /// Bytes held that are not channel data.
    held_bytes: usize,
    /// Bytes held that are channel data.
    held_bulk_bytes: usize,
    /// Raw keys of the packets queued from now on, for a snapshot.
    keys: Option<EpochKeys>,
    /// DISCONNECT was sent or received.
    closed: bool,
    /// An error that could not be returned where it occurred.
    failure: Option<Error>,
    /// A master shares its connection in proxy mode: only messages of the connection protocol are
    /// sent, as by OpenSSH's `ssh`, whose master passes on all others to the server.
    is_shared: bool,
}

/// Origin, for compression, of a payload that is not channel data: a message that opens a channel
/// precedes the first data of that channel.
fn origin(buf: &PacketBuf) -> Origin {
    match buf.payload().first().copied() {
        Some(ChannelOpen::NUMBER | ChannelOpenConfirmation::NUMBER) => Origin::Opening,
        Some(Ping::NUMBER | Pong::NUMBER) => Origin::Ping,
        _ => Origin::Other,
    }
}

impl Outbound {
    /// Queues the identification line `version`.
    pub(super) fn new(settings: CompressionSettings, version: &str) -> Self {
        let mut outbound = Self::over(Outbox::new(settings, Sequencer::new()));
        let mut line = Vec::from(version);
        line.extend_from_slice(b"\r\n");
        outbound.outbox.push_raw(line);
        outbound
    }

    /// Packets of a connection that a master shares in proxy mode.
    pub(super) fn shared(settings: CompressionSettings) -> Self {
        Self {
            is_shared: true,
            ..Self::over(Outbox::new(settings, Sequencer::shared()))
        }
    }

    /// Continues from a snapshot: the position and the keys.
    pub(crate) fn resumed(
        settings: CompressionSettings,
        position: Position,
        keys: EpochKeys,
    ) -> Result<Self, Error> {
        let sequencer = Sequencer::import(position, keys.set_up()?);
        Ok(Self {
            keys: Some(keys),
            ..Self::over(Outbox::new(settings, sequencer))
        })
    }

    fn over(outbox: Outbox) -> Self {
        Self {
            outbox,
            pool: BufPool::new(POOLED_BUFFERS).with_bulk_payload(POOLED_BYTES),
            limit_bytes: OUTPUT_HIGH_WATER_BYTES,
            held: VecDeque::new(),
            held_bytes: 0,
            held_bulk_bytes: 0,
            keys: None,
            closed: false,
            failure: None,
            is_shared: false,
        }
    }

    /// Position and keys for a snapshot; `None` before the first NEWKEYS.
    pub(crate) fn export(&self) -> Option<(Position, &EpochKeys)> {
        let keys = self.keys.as_ref()?;
        Some((self.outbox.sequencer().position(), keys))
    }

    // ---- messages -------------------------------------------------------------------------

    /// A buffer for `capacity` bytes of payload.
    pub(crate) fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.pool.take(capacity)
    }

    /// Takes back the buffer of a packet that has left.
    pub(super) fn recycle(&mut self, buf: PacketBuf) {
        self.pool.give(buf);
    }

    /// A buffer with an encoded message.
    pub(super) fn encode(&mut self, message: &impl Encode) -> PacketBuf {
        let mut buf = self.pool.take(128);
        buf.extend(&message.encode());
        buf
    }

    /// Sends a message of the transport or of the key exchange, which is never held back.
    pub(super) fn send_kex(&mut self, message: &impl Encode) -> Result<(), Error> {
        let buf = self.encode(message);
        self.send(buf, None, None, false)
    }

    /// Queues a payload; `origin` is the channel of its data. `holds` says that a key exchange of
    /// ours is running: then messages above the transport are held back.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if too many are held back.
    pub(super) fn send(
        &mut self,
        buf: PacketBuf,
        data: Option<Origin>,
        ahead: Option<PipelinedPacket>,
        holds: bool,
    ) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        let origin = data.unwrap_or_else(|| origin(&buf));
        let number = buf.payload().first().copied().unwrap_or_default();
        if self.is_shared && !SHARED_NUMBERS.contains(&number) {
            return Ok(());
        }
        let transport_message = number <= Debug::NUMBER || KEX_NUMBERS.contains(&number);
        if !holds || transport_message {
            return self.outbox.push(buf, origin, ahead);
        }
        if origin.is_data() {
            self.held_bulk_bytes += buf.len();
        } else {
            self.held_bytes += buf.len();
        }
        if self.held_bytes > MAX_HELD_BYTES {
            return Err(Error::PeerMisbehaved(
                "too many messages to answer during a key exchange",
            ));
        }
        self.held.push_back(Held { buf, origin, ahead });
        Ok(())
    }

    /// Queues the messages held back; to be called after our NEWKEYS.
    pub(super) fn release_held(&mut self) -> Result<(), Error> {
        self.held_bytes = 0;
        self.held_bulk_bytes = 0;
        for held in core::mem::take(&mut self.held) {
            self.outbox.push(held.buf, held.origin, held.ahead)?;
        }
        Ok(())
    }

    /// Client: packets sent before the server's answers.
    pub(crate) fn sent_ahead(&mut self) -> &mut SentAhead {
        self.outbox.sent_ahead()
    }

    // ---- output ---------------------------------------------------------------------------

    pub(super) fn poll(&mut self) -> Option<TransportOutput> {
        let output = self.outbox.pop();
        output.unwrap_or_else(|error| self.fail(error))
    }

    /// Returns payloads to be compressed on any thread: at most `most_payloads`, and only if they
    /// total at least `least_bytes`. The others are compressed when they leave.
    pub(crate) fn poll_compress(
        &mut self,
        most_payloads: usize,
        least_bytes: usize,
    ) -> Option<CompressJob> {
        if !self.outbox.is_compressing() {
            return None;
        }
        let job = self.outbox.begin_run(most_payloads, least_bytes);
        job.unwrap_or_else(|error| self.fail(error))
    }

    /// Processes a job's result; to be called in the order of the jobs.
    pub(crate) fn handle_compressed(&mut self, compressed: Compressed) -> Result<(), Error> {
        self.outbox.finish_run(compressed)
    }

    /// Drops the queue, which the peer could not read any more, and keeps the error.
    fn fail<T>(&mut self, error: Error) -> Option<T> {
        self.outbox.clear();
        self.failure = Some(error);
        None
    }

    /// Returns the error of an earlier [`Self::poll`] once.
    pub(super) fn check_failure(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), Err)
    }

    // ---- limits ---------------------------------------------------------------------------

    /// Limits the queued bytes from which on channel data has to wait.
    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.limit_bytes = bytes.clamp(1, OUTPUT_HIGH_WATER_BYTES);
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns true if no message is held back.
    pub(super) fn is_settled(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns true if more answers to the peer are queued than the limit allows; no input is
    /// accepted then.
    pub(super) fn owes_too_much(&self) -> bool {
        self.outbox.answer_bytes() > ANSWERS_HIGH_WATER_BYTES
    }

    /// Returns true if channel data may be queued. At most `most_held` bytes of it wait for the end
    /// of a key exchange.
    pub(super) fn takes_bulk(&self, most_held: usize) -> bool {
        let waiting = self.outbox.bytes().saturating_add(self.held_bulk_bytes);
        !self.closed && waiting < self.limit_bytes && self.held_bulk_bytes < most_held
    }

    /// Bytes that may be queued before the limit.
    pub(super) fn room(&self) -> usize {
        self.limit_bytes.saturating_sub(self.outbox.bytes())
    }

    /// Maximum data bytes in one message of ours, regardless of the peer's limit.
    pub(crate) fn most_data(&self) -> usize {
        match self.outbox.stream().method() {
            Compression::ZlibOpenssh => MAX_DATA_BYTES_DEFLATED,
            Compression::None | Compression::Zstd => usize::MAX,
        }
    }

    // ---- the end --------------------------------------------------------------------------

    /// Queues OpenSSH's line for a client whose identification line is `line`, as the last output.
    pub(super) fn refuse_version(&mut self, line: &str) {
        let text = match line.starts_with("SSH-") {
            true => OTHER_VERSION,
            false => INVALID_VERSION,
        };
        self.outbox.push_raw(Vec::from(text));
        self.close();
    }

    /// Records DISCONNECT: nothing is queued any more.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn is_shared(&self) -> bool {
        self.is_shared
    }

    // ---- keys and compression -------------------------------------------------------------

    /// Switches keys and compression after our queued NEWKEYS.
    pub(super) fn switch_keys(
        &mut self,
        keys: EpochKeys,
        reset_sequence: bool,
        compression: Compression,
    ) -> Result<(), Error> {
        self.outbox
            .push_keys(keys.set_up()?, reset_sequence, compression);
        self.keys = Some(keys);
        Ok(())
    }

    /// The negotiated compression method of our data, which begins at the login.
    pub(super) fn method(&self) -> Compression {
        EpochKeys::compression(self.keys.as_ref())
    }

    /// Starts the stream of the negotiated compression method, at the login.
    pub(super) fn begin_stream(&mut self) {
        self.outbox.begin_stream(self.method());
    }

    pub(crate) fn is_compressing(&self) -> bool {
        self.outbox.is_compressing()
    }

    pub(crate) fn stream(&self) -> &OutStream {
        self.outbox.stream()
    }

    pub(crate) fn stream_mut(&mut self) -> &mut OutStream {
        self.outbox.stream_mut()
    }

    /// Bytes sent under the keys in use; `None` while the queue contains a change of keys.
    pub(super) fn bytes(&self) -> Option<u64> {
        (!self.outbox.changes_keys()).then(|| self.outbox.sequencer().position().bytes)
    }

    /// Returns true if the keys in use have reached the limit of their cipher.
    pub(super) fn must_rekey(&self) -> bool {
        self.outbox.sequencer().must_rekey()
    }

    // ---- memory ---------------------------------------------------------------------------

    pub(super) fn has_spare(&self) -> bool {
        self.pool.has_spare() || self.outbox.stream().has_spare()
    }

    /// Returns true if a free buffer is kept.
    pub(super) fn has_buffers(&self) -> bool {
        self.pool.has_any()
    }

    pub(super) fn shed(&mut self) {
        self.pool.shed();
        self.outbox.shed();
    }

    /// Frees the buffers that [`Outbound::shed`] keeps.
    pub(super) fn shed_buffers(&mut self) {
        self.pool.shed_all();
    }
}
