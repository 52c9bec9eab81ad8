//! The transport layer, RFC 4253: version exchange, packets, key exchange and rekeying.
//!
//! A [`Transport`] owns the two ordered points of the data path, `packet::Sequencer` and
//! `packet::Splitter`, and is the only one to change their keys. Everything above it sends through
//! [`Transport::send`], which holds messages back during a key exchange of ours (RFC 4253 §7.1).
//! `connection` passes opened packets to it and dispatches their payloads.
//!
//! No packet is ever opened with the wrong epoch's keys. Until the login, one packet at a time is
//! taken from the splitter. During a rekey (from our KEX_*_INIT as client, or the peer's KEXINIT as
//! server, until the peer's NEWKEYS) no packet is taken after one that is short enough to be
//! NEWKEYS.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use compress::{Compressor, Origin};
use packet::{BufPool, OpenJob, OpenedPacket, PacketBuf, SealJob, SealKeys, Sequencer, Splitter};
use wire::Reader;
use wire::message::{self, Encode, KEX_NUMBERS};

use crate::config::{Compression, Offer};
use crate::permits::ConnectionPhase;
use crate::quirks::Quirks;
use crate::{Error, Event, Millis, Role, ServerHostKey, TransportConfig};

mod ext_info;
mod idle;
mod kex;
mod outbox;
mod pipelined_packet;
mod streams;
mod version;

pub(crate) use ext_info::PeerExtensions;
pub(crate) use kex::{Agreement, DirectionSuite, EpochKeys};
use kex::{Kex, PeerLists};
use outbox::OutboxItem;
pub use outbox::{CompressJob, Compressed};
pub(crate) use pipelined_packet::{PipelinedPacket, SentAhead};
use streams::{InStream, OutStream};

/// Maximum bytes of messages held back during a key exchange; more ends the connection.
const MAX_HELD_BYTES: usize = 1024 * 1024;
/// Queued output from which on channel data has to wait, bytes, unless the owner sets less.
const OUTPUT_HIGH_WATER_BYTES: usize = 512 * 1024;
/// Queued output that is not channel data, bytes, above which no more input is accepted until some
/// has left.
const ANSWERS_HIGH_WATER_BYTES: usize = 1024 * 1024;
/// Maximum size of an inflated payload, bytes.
const MAX_INFLATED_BYTES: usize = 256 * 1024 + 1024;
/// Maximum data in one message of ours, bytes, where deflate may store it. With its message's
/// header it fits into one stored block (65,535 bytes, RFC 1951 §3.2.4), which both sides process
/// without a copy. Whole pages.
const MAX_DATA_BYTES_DEFLATED: usize = 60 * 1024;
/// Maximum wire size of NEWKEYS, bytes: with length, longest padding, longest MAC and the worst
/// compression.
const MAX_NEWKEYS_WIRE_BYTES: usize = 512;
/// Maximum messages without effect from a peer before login.
const IGNORED_BUDGET: u32 = 1024;
/// Maximum number of pooled buffers, if as many were in use at a time. A full output queue holds 16
/// of the usual 32 KiB; an owner with many threads has as many in flight for each batch.
const POOLED_BUFFERS: usize = 256;
/// Capacity of a pooled bulk buffer, bytes: the longest data that a peer accepts, with its header.
/// A smaller one would be allocated, cleared and faulted in for every packet: 14 % of a client's
/// bulk upload.
const POOLED_BYTES: usize = 65 * 1024;

/// Output to write to the socket, in order.
#[derive(Debug)]
pub enum TransportOutput {
    /// Bytes to write unchanged: the identification line.
    Raw(Vec<u8>),
    /// A packet to seal; write the result.
    Seal(SealJob),
}

struct Queued {
    item: OutboxItem,
    bytes: usize,
    origin: Origin,
    /// Client: the kind of a packet sent before the server's answers.
    ahead: Option<PipelinedPacket>,
}

/// A message that waits for the end of a key exchange.
struct Held {
    buf: PacketBuf,
    origin: Origin,
    ahead: Option<PipelinedPacket>,
}

/// Results of the first key exchange that hold for the whole connection; `agreement` is the last
/// one.
#[derive(Clone)]
pub(crate) struct TransportSession {
    /// Session identifier: the exchange hash H of the first exchange.
    pub(crate) id: Vec<u8>,
    /// The server's key, proven in the first exchange and required in each later one.
    pub(crate) host_key: Vec<u8>,
    pub(crate) strict_kex: bool,
    pub(crate) peer_wants_ext_info: bool,
    pub(crate) agreement: Agreement,
}

/// Keys in use, kept raw for a snapshot.
#[derive(Clone, Default)]
pub(crate) struct CurrentKeys {
    pub(crate) c2s: Option<EpochKeys>,
    pub(crate) s2c: Option<EpochKeys>,
}

pub(crate) struct Transport {
    pub(crate) role: Role,
    pub(crate) config: TransportConfig,
    pub(crate) offer: Offer,
    pub(crate) host_keys: Vec<ServerHostKey>,
    pub(crate) our_version: String,
    pub(crate) peer_version: Option<String>,
    version_lines: version::PreambleLines,
    pub(crate) sequencer: Sequencer,
    pub(crate) splitter: Splitter,
    outstanding: usize,
    /// One of the outstanding packets is short enough to be NEWKEYS.
    newkeys_outstanding: bool,
    pool: BufPool,
    output: VecDeque<Queued>,
    output_bytes: usize,
    output_limit: usize,
    answer_bytes: usize,
    held: VecDeque<Held>,
    /// Bytes held that are not channel data.
    held_bytes: usize,
    /// Bytes held that are channel data.
    held_bulk_bytes: usize,
    /// Client: packets sent before the server's answers.
    pub(crate) sent_ahead: SentAhead,
    kex: Kex,
    /// Client: key pair created in advance for the next exchange.
    prepared: Option<Box<kex::Half>>,
    /// Client: the server's last KEXINIT named the negotiated algorithms first.
    server_names_it_first: bool,
    /// Client: key exchange methods and host key types of the server's first KEXINIT.
    pub(crate) peer_lists: Option<PeerLists>,
    /// Client: whether the guess of the first exchange was right; `None` without one, or before the
    /// server's KEXINIT.
    pub(crate) guess_was_right: Option<bool>,
    /// Client: our first KEXINIT is a short one.
    pub(crate) offers_short: bool,
    /// Server: the client's first KEXINIT announced a guessed packet.
    pub(crate) peer_guessed: bool,
    pub(crate) session: Option<TransportSession>,
    pub(crate) current: CurrentKeys,
    pub(crate) authenticated: bool,
    out_stream: OutStream,
    /// Messages queued from now on are compressed.
    compressing: bool,
    /// Number of key changes in the queue.
    keys_queued: usize,
    /// An error that could not be returned where it occurred.
    failure: Option<Error>,
    in_stream: Option<InStream>,
    last_exchange: Millis,
    /// Time of the last packet in or out; `None` after idle memory was freed.
    active_at: Option<Millis>,
    pub(crate) extensions: PeerExtensions,
    ignored: u32,
    closed: bool,
    pub(crate) events: VecDeque<Event>,
    pub(crate) now: Millis,
}

/// Converts the peer's DISCONNECT. The language tag is ignored, since some peers omit it.
fn disconnected(payload: &[u8]) -> Result<Error, wire::DecodeError> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let reason = reader.u32()?;
    let description = reader.string().unwrap_or_default();
    Ok(Error::Disconnected {
        reason,
        description: String::from_utf8_lossy(description).into_owned(),
    })
}

/// Origin, for compression, of a payload that is not channel data: a message that opens a channel
/// precedes the first data of that channel.
fn origin(buf: &PacketBuf) -> Origin {
    use message::{ChannelOpen, ChannelOpenConfirmation, Ping, Pong};
    match buf.payload().first().copied() {
        Some(ChannelOpen::NUMBER | ChannelOpenConfirmation::NUMBER) => Origin::Opening,
        Some(Ping::NUMBER | Pong::NUMBER) => Origin::Ping,
        _ => Origin::Other,
    }
}

/// Result of an opened packet for the layer above.
pub(crate) enum Dispatch {
    /// The transport has handled it.
    Handled,
    /// A payload for the layer above; its message number is permitted.
    Payload(Bytes),
    /// The first key exchange is complete.
    FirstKeys,
    /// The peer did not implement our packet with this sequence number.
    Unimplemented(u32),
}

impl Transport {
    pub(crate) fn new(
        role: Role,
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        now: Millis,
    ) -> Result<Self, Error> {
        let offer = Offer::new(&config, (role == Role::Server).then_some(&host_keys[..]))?;
        let our_version = version::ours(&config.version_comment);
        let mut transport = Self::idle(role, config, offer, host_keys, our_version, now);
        transport.start().map(|()| transport)
    }

    /// Creates a server's transport to be filled from a snapshot; sends nothing.
    pub(crate) fn resumed(
        config: TransportConfig,
        host_keys: Vec<ServerHostKey>,
        now: Millis,
    ) -> Result<Self, Error> {
        let offer = Offer::new(&config, Some(&host_keys))?;
        Ok(Self::idle(
            Role::Server,
            config,
            offer,
            host_keys,
            String::new(),
            now,
        ))
    }

    fn idle(
        role: Role,
        config: TransportConfig,
        offer: Offer,
        host_keys: Vec<ServerHostKey>,
        our_version: String,
        now: Millis,
    ) -> Self {
        let out_stream = OutStream::new(config.deflate);
        Self {
            role,
            config,
            offer,
            host_keys,
            our_version,
            peer_version: None,
            version_lines: version::PreambleLines::default(),
            sequencer: Sequencer::new(),
            splitter: Splitter::new(),
            outstanding: 0,
            newkeys_outstanding: false,
            pool: BufPool::new(POOLED_BUFFERS).with_bulk_payload(POOLED_BYTES),
            output: VecDeque::new(),
            output_bytes: 0,
            output_limit: OUTPUT_HIGH_WATER_BYTES,
            answer_bytes: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            held_bulk_bytes: 0,
            sent_ahead: SentAhead::default(),
            kex: Kex::Idle,
            prepared: None,
            server_names_it_first: false,
            peer_lists: None,
            guess_was_right: None,
            offers_short: false,
            peer_guessed: false,
            session: None,
            current: CurrentKeys::default(),
            authenticated: false,
            out_stream,
            compressing: false,
            keys_queued: 0,
            failure: None,
            in_stream: None,
            last_exchange: now,
            active_at: None,
            extensions: PeerExtensions::default(),
            ignored: 0,
            closed: false,
            events: VecDeque::new(),
            now,
        }
    }

    /// Queues identification line and KEXINIT, without waiting for the peer's.
    fn start(&mut self) -> Result<(), Error> {
        let mut line = self.our_version.clone().into_bytes();
        line.extend_from_slice(b"\r\n");
        let bytes = line.len();
        self.output.push_back(Queued {
            item: OutboxItem::Ready(TransportOutput::Raw(line)),
            bytes,
            origin: Origin::Other,
            ahead: None,
        });
        self.start_exchange()
    }

    // ---- bytes in -------------------------------------------------------------------------

    /// Takes the identification line from the receive buffer, unless it has arrived already.
    pub(crate) fn handle_received(&mut self) -> Result<(), Error> {
        while self.peer_version.is_none() {
            match self
                .version_lines
                .next(self.splitter.receive_buffer(), self.role)?
            {
                version::VersionLine::Incomplete => return Ok(()),
                version::VersionLine::Before(line) => {
                    self.events.push_back(Event::PreVersionLine(line))
                }
                version::VersionLine::Version(line) => {
                    self.peer_version = Some(line);
                    self.events.push_back(Event::Version);
                }
            }
        }
        Ok(())
    }

    /// Returns true if an opened packet may be passed in now.
    pub(crate) fn takes_opened(&self) -> bool {
        !self.closed
            && self.peer_version.is_some()
            && !self.kex.waits_for_owner()
            && self.answer_bytes <= ANSWERS_HIGH_WATER_BYTES
    }

    /// Returns the next packet to open, if one is complete and may be opened now.
    pub(crate) fn poll_open(&mut self) -> Result<Option<OpenJob>, Error> {
        self.check_failure()?;
        if !self.takes_opened() || !self.opens_ahead() {
            return Ok(None);
        }
        let job = self.splitter.next()?;
        if let Some(job) = &job {
            self.outstanding += 1;
            self.newkeys_outstanding |= job.wire_bytes() <= MAX_NEWKEYS_WIRE_BYTES;
        }
        Ok(job)
    }

    /// Returns true if the keys in use are certainly those of the next packet.
    fn opens_ahead(&self) -> bool {
        if self.outstanding == 0 {
            return true;
        }
        let settled = self.session.is_some() && self.authenticated;
        settled && !(self.kex.may_change_keys() && self.newkeys_outstanding)
    }

    /// Processes an opened packet: inflates it, handles transport messages, and returns other
    /// payloads for the layer above.
    pub(crate) fn handle_opened(
        &mut self,
        opened: OpenedPacket,
        above: ConnectionPhase,
    ) -> Result<Dispatch, Error> {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.newkeys_outstanding &= self.outstanding > 0;
        self.note_activity();
        if self.closed {
            return Ok(Dispatch::Handled);
        }
        let sequence = opened.sequence();
        let payload = self.inflate(opened.into_payload())?;
        let number = *payload
            .first()
            .ok_or(Error::PeerMisbehaved("empty payload"))?;
        let phase = self.kex.phase(self.session.is_none()).unwrap_or(above);
        match crate::permits::permission(number, self.role, phase) {
            crate::permits::Permission::Permitted => {}
            crate::permits::Permission::Forbidden => {
                return Err(Error::NotPermitted { message: number });
            }
            crate::permits::Permission::Unknown => {
                self.spend_ignored()?;
                self.send_message(&message::Unimplemented { sequence })?;
                return Ok(Dispatch::Handled);
            }
        }
        let dispatch = match number {
            message::Disconnect::NUMBER..=message::Debug::NUMBER => {
                self.handle_housekeeping(number, &payload)?
            }
            _ if KEX_NUMBERS.contains(&number) => self.handle_kex(sequence, &payload)?,
            _ => Dispatch::Payload(payload),
        };
        self.check_rekey()?;
        Ok(dispatch)
    }

    fn handle_housekeeping(&mut self, number: u8, payload: &[u8]) -> Result<Dispatch, Error> {
        match number {
            message::Disconnect::NUMBER => {
                self.closed = true;
                return Err(disconnected(payload)?);
            }
            message::Unimplemented::NUMBER => {
                let sequence = message::Unimplemented::decode(payload)?.sequence;
                self.spend_ignored()?;
                return Ok(Dispatch::Unimplemented(sequence));
            }
            message::Debug::NUMBER => {
                let debug = message::Debug::decode(payload)?;
                self.events.push_back(Event::DebugMessage {
                    always_display: debug.always_display,
                    text: String::from_utf8_lossy(debug.text).into_owned(),
                });
            }
            // SSH_MSG_IGNORE, which some peers send without its data field.
            _ => {}
        }
        self.spend_ignored()?;
        Ok(Dispatch::Handled)
    }

    /// Counts a message without effect; before login their number is limited.
    pub(crate) fn spend_ignored(&mut self) -> Result<(), Error> {
        if self.authenticated {
            return Ok(());
        }
        self.ignored += 1;
        if self.ignored > IGNORED_BUDGET {
            return Err(Error::PeerMisbehaved(
                "too many messages without effect before login",
            ));
        }
        Ok(())
    }

    fn inflate(&mut self, payload: Bytes) -> Result<Bytes, Error> {
        let Some(stream) = &mut self.in_stream else {
            return Ok(payload);
        };
        if let Some(place) = stream.stored(&payload, MAX_INFLATED_BYTES) {
            return Ok(payload.slice(place));
        }
        let mut out = Vec::with_capacity(payload.len().saturating_mul(2).min(64 * 1024));
        stream
            .decompress(&payload, &mut out, MAX_INFLATED_BYTES)
            .map_err(Error::Compression)?;
        if out.capacity() > out.len().saturating_mul(2) {
            // Data may wait for its sink: a window of single bytes must not hold a page for each.
            out.shrink_to_fit();
        }
        Ok(Bytes::from(out))
    }

    // ---- out ------------------------------------------------------------------------------

    /// Sends one message that is not bulk data: an answer or a request.
    pub(crate) fn send_message(&mut self, message: &impl Encode) -> Result<(), Error> {
        self.send_message_ahead(message, None)
    }

    /// Client: sends a message of this kind before the server's answers; without a kind, as
    /// [`Self::send_message`] does.
    pub(crate) fn send_message_ahead(
        &mut self,
        message: &impl Encode,
        kind: Option<PipelinedPacket>,
    ) -> Result<(), Error> {
        let mut buf = self.pool.take(128);
        buf.extend(&message.encode());
        let origin = origin(&buf);
        self.send_noted(buf, origin, kind)
    }

    /// Sends a payload that is not channel data.
    pub(crate) fn send(&mut self, buf: PacketBuf) -> Result<(), Error> {
        let origin = origin(&buf);
        self.send_noted(buf, origin, None)
    }

    /// Sends data of the channel `origin`. It waits for its window and is not counted against the
    /// peer.
    pub(crate) fn send_data(&mut self, buf: PacketBuf, origin: Origin) -> Result<(), Error> {
        self.send_noted(buf, origin, None)
    }

    /// Client: sends a payload that the server may answer with UNIMPLEMENTED.
    pub(crate) fn send_ahead(
        &mut self,
        buf: PacketBuf,
        kind: PipelinedPacket,
    ) -> Result<(), Error> {
        let origin = origin(&buf);
        self.send_noted(buf, origin, Some(kind))
    }

    fn send_noted(
        &mut self,
        buf: PacketBuf,
        origin: Origin,
        ahead: Option<PipelinedPacket>,
    ) -> Result<(), Error> {
        if self.closed {
            return Ok(());
        }
        let number = buf.payload().first().copied().unwrap_or_default();
        let transport_message = number <= message::Debug::NUMBER || KEX_NUMBERS.contains(&number);
        if self.kex.holds_output() && !transport_message {
            // Senders of channel data check `takes_bulk` first.
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
            return Ok(());
        }
        self.enqueue(buf, origin, ahead)?;
        self.check_rekey()
    }

    /// The Order point: the place in the queue determines compression history and sequence number.
    /// If nothing waits for compression, the number is assigned at once.
    fn enqueue(
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
        self.output_bytes += bytes;
        if !origin.is_data() {
            self.answer_bytes += bytes;
        }
        self.output.push_back(Queued {
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
            self.sent_ahead.note(self.sequencer.next_sequence(), kind);
        }
        outbox::stamp(&mut self.sequencer, buf)
    }

    /// Returns true if no queued item waits for its sequence number.
    fn stamps_at_once(&self) -> bool {
        self.output
            .back()
            .is_none_or(|queued| matches!(queued.item, OutboxItem::Ready(_)))
    }

    /// Switches the keys for all packets after our queued NEWKEYS.
    fn switch_keys(&mut self, keys: Arc<SealKeys>, reset_sequence: bool, method: Compression) {
        // Before login nothing is compressed; the login starts the stream.
        let method = if self.authenticated {
            method
        } else {
            Compression::None
        };
        if self.stamps_at_once() {
            self.sequencer.set_keys(keys, reset_sequence);
            self.out_stream.begin(method);
        } else {
            self.keys_queued += 1;
            self.output.push_back(Queued {
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
    }

    /// Returns payloads to be compressed on any thread: at most `most_payloads`, and only if they
    /// total at least `least_bytes`. The others are compressed when they leave.
    pub(crate) fn poll_compress(
        &mut self,
        most_payloads: usize,
        least_bytes: usize,
    ) -> Option<CompressJob> {
        if !self.compressing {
            return None;
        }
        let job = outbox::begin_run(
            &mut self.output,
            &mut self.out_stream,
            most_payloads,
            least_bytes,
        );
        job.unwrap_or_else(|error| {
            self.fail(error);
            None
        })
    }

    /// Drops the queue, which the peer could not read any more, and stores the error.
    fn fail(&mut self, error: Error) {
        self.output.clear();
        self.failure = Some(error);
    }

    /// Processes a job's result; to be called in the order of the jobs.
    pub(crate) fn handle_compressed(&mut self, compressed: Compressed) -> Result<(), Error> {
        let compressor = self.out_stream.zlib();
        let compressor = compressor.ok_or(Error::Bug("compressed without a compressor"))?;
        outbox::finish_run(&mut self.output, compressor, compressed)
    }

    /// The zlib compressor, which accelerators may serve.
    pub(crate) fn compressor(&mut self) -> Option<&mut Compressor> {
        self.out_stream.zlib()
    }

    pub(crate) fn compress_level(&self) -> Option<u8> {
        self.out_stream.level()
    }

    pub(crate) fn set_compress_level(&mut self, level: u8) {
        self.out_stream.set_level(level);
    }

    pub(crate) fn compress_engine(&self) -> Option<String> {
        self.out_stream.engine()
    }

    pub(crate) fn compress_report(&self) -> Option<compress::CompressionReport> {
        self.out_stream.report()
    }

    pub(crate) fn inflate_totals(&self) -> Option<compress::Totals> {
        self.in_stream.as_ref().map(InStream::totals)
    }

    pub(crate) fn is_compressing(&self) -> bool {
        self.compressing
    }

    /// Compresses and stamps an item if needed; `None` for an item without a packet.
    fn make_ready(
        &mut self,
        item: OutboxItem,
        origin: Origin,
        ahead: Option<PipelinedPacket>,
    ) -> Result<Option<TransportOutput>, Error> {
        match item {
            OutboxItem::Ready(output) => Ok(Some(output)),
            OutboxItem::Plain(buf) => self.stamp(buf, ahead).map(Some),
            OutboxItem::ToCompress(mut buf) => {
                outbox::compress(&mut self.out_stream, origin, &mut buf)?;
                self.stamp(buf, ahead).map(Some)
            }
            OutboxItem::Keys {
                keys,
                reset_sequence,
                restart,
            } => {
                self.keys_queued = self.keys_queued.saturating_sub(1);
                self.sequencer.set_keys(keys, reset_sequence);
                if let Some(method) = restart {
                    self.out_stream.begin(method);
                }
                Ok(None)
            }
            OutboxItem::InJob => Ok(None),
        }
    }

    fn release_held(&mut self) -> Result<(), Error> {
        self.held_bytes = 0;
        self.held_bulk_bytes = 0;
        for held in core::mem::take(&mut self.held) {
            self.enqueue(held.buf, held.origin, held.ahead)?;
        }
        Ok(())
    }

    pub(crate) fn poll_output(&mut self) -> Option<TransportOutput> {
        loop {
            if matches!(self.output.front()?.item, OutboxItem::InJob) {
                return None;
            }
            let next = self.output.pop_front()?;
            self.kex.progressed(self.now);
            self.output_bytes = self.output_bytes.saturating_sub(next.bytes);
            if !next.origin.is_data() {
                self.answer_bytes = self.answer_bytes.saturating_sub(next.bytes);
            }
            match self.make_ready(next.item, next.origin, next.ahead) {
                Ok(None) => {}
                Ok(output) => return output,
                Err(error) => {
                    self.fail(error);
                    return None;
                }
            }
        }
    }

    fn check_failure(&mut self) -> Result<(), Error> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Returns true if bulk data may be queued now. During a rekey some may be, to follow our
    /// NEWKEYS at once.
    pub(crate) fn takes_bulk(&self) -> bool {
        if self.kex.holds_output() && self.session.is_none() {
            return false;
        }
        let waiting = self.output_bytes.saturating_add(self.held_bulk_bytes);
        !self.closed && waiting < self.output_limit && self.held_bulk_bytes < self.most_held_bulk()
    }

    /// Maximum data bytes in one message of ours, regardless of the peer's limit.
    pub(crate) fn most_data(&self) -> usize {
        match self.out_stream.method() {
            Compression::ZlibOpenssh => MAX_DATA_BYTES_DEFLATED,
            Compression::None | Compression::Zstd => usize::MAX,
        }
    }

    /// Bytes of bulk data that may be queued without another check; the last packet may exceed
    /// them. 0 if [`Self::takes_bulk`] is false.
    pub(crate) fn bulk_room(&self) -> usize {
        if !self.takes_bulk() {
            return 0;
        }
        if !matches!(self.kex, Kex::Idle) || self.keys_queued > 0 {
            return 1;
        }
        let queue = self.output_limit.saturating_sub(self.output_bytes);
        let keys = self.bytes_until_rekey();
        queue
            .min(usize::try_from(keys).unwrap_or(usize::MAX))
            .max(1)
    }

    /// Returns true if a message sent now leaves before anything else.
    pub(crate) fn sends_at_once(&self) -> bool {
        !self.closed && !self.kex.holds_output() && !self.has_output()
    }

    pub(crate) fn set_output_limit(&mut self, bytes: usize) {
        self.output_limit = bytes.clamp(1, OUTPUT_HIGH_WATER_BYTES);
    }

    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns true if no key exchange is running, and no message or opened packet is outstanding.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(self.kex, Kex::Idle) && self.held.is_empty() && self.outstanding == 0
    }

    pub(crate) fn take_buffer(&mut self, capacity: usize) -> PacketBuf {
        self.pool.take(capacity)
    }

    pub(crate) fn recycle(&mut self, buf: PacketBuf) {
        self.note_activity();
        self.pool.give(buf);
    }

    pub(crate) fn disconnect(&mut self, reason: u32, description: &str) {
        if self.closed {
            return;
        }
        // Best effort: the connection ends even if this cannot be sent.
        let _ = self.send_message(&message::Disconnect {
            reason,
            description: description.as_bytes(),
            language: b"",
        });
        self.closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    // ---- compression ----------------------------------------------------------------------

    /// Records the login: compression starts with the next packet in each direction for which it
    /// was negotiated.
    pub(crate) fn set_authenticated(&mut self) {
        self.authenticated = true;
        self.set_compressing();
        let method = self.methods().0;
        self.out_stream.begin(method);
        self.restart_in_stream();
    }

    fn suites(&self) -> (Option<DirectionSuite>, Option<DirectionSuite>) {
        let c2s = self.current.c2s.as_ref().map(|keys| keys.suite);
        let s2c = self.current.s2c.as_ref().map(|keys| keys.suite);
        match self.role {
            Role::Client => (c2s, s2c),
            Role::Server => (s2c, c2s),
        }
    }

    /// Negotiated compression of sent and of received data.
    fn methods(&self) -> (Compression, Compression) {
        let (ours, theirs) = self.suites();
        let method = |suite: Option<DirectionSuite>| {
            suite.map_or(Compression::None, |suite| suite.compression)
        };
        (method(ours), method(theirs))
    }

    /// Compresses messages queued from now on, if that was negotiated.
    fn set_compressing(&mut self) {
        self.compressing = self.authenticated && self.methods().0 != Compression::None;
    }

    fn restart_in_stream(&mut self) {
        let method = if self.authenticated {
            self.methods().1
        } else {
            Compression::None
        };
        self.in_stream = InStream::begin(method, self.in_stream.take());
    }

    // ---- keys -----------------------------------------------------------------------------

    pub(crate) fn our_keys_slot(&mut self) -> &mut Option<EpochKeys> {
        match self.role {
            Role::Client => &mut self.current.c2s,
            Role::Server => &mut self.current.s2c,
        }
    }

    pub(crate) fn peer_keys_slot(&mut self) -> &mut Option<EpochKeys> {
        match self.role {
            Role::Client => &mut self.current.s2c,
            Role::Server => &mut self.current.c2s,
        }
    }

    /// Returns true if our data is compressed after login.
    pub(crate) fn will_compress(&self) -> bool {
        self.methods().0 != Compression::None
    }

    /// The peer's quirks; the default before its version line has come.
    pub(crate) fn peer_quirks(&self) -> Quirks {
        Quirks::of(self.peer_version.as_deref().unwrap_or_default())
    }

    pub(crate) fn is_fulmar_peer(&self) -> bool {
        self.peer_quirks().is_fulmar
    }
}
