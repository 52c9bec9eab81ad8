//! The receiving direction: from the receive buffer to inflated payloads.
//!
//! No packet is ever opened with the wrong epoch's keys: NEWKEYS switches them, and a packet is
//! taken from the splitter before the result of an earlier one is known only if that one cannot be
//! NEWKEYS. A payload is inflated in the order of arrival.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use compress::{Decompressor, Totals};
use packet::{OpenJob, OpenKeys, OpenedPacket, Position, Splitter};

use super::epoch_keys::EpochKeys;
use super::streams::begin_in_stream;
use crate::Error;

/// Maximum size of an inflated payload, bytes.
const MAX_INFLATED_BYTES: usize = 256 * 1024 + 1024;
/// Maximum wire size of NEWKEYS, bytes: with length, longest padding, longest MAC and the worst
/// compression.
const MAX_NEWKEYS_WIRE_BYTES: usize = 512;

pub(crate) struct Inbound {
    splitter: Splitter,
    /// Number of packets taken from the splitter whose results have not come back.
    outstanding: usize,
    /// One of them is short enough to be NEWKEYS.
    newkeys_outstanding: bool,
    /// Raw keys in use, for a snapshot.
    keys: Option<EpochKeys>,
    stream: Option<Decompressor>,
}

impl Inbound {
    pub(super) fn new() -> Self {
        Self {
            splitter: Splitter::new(),
            outstanding: 0,
            newkeys_outstanding: false,
            keys: None,
            stream: None,
        }
    }

    /// Packets of a connection that a master shares in proxy mode.
    pub(super) fn shared() -> Self {
        let keys = Arc::new(OpenKeys::shared());
        Self {
            splitter: Splitter::with_keys_state(Position::default(), keys),
            ..Self::new()
        }
    }

    /// Continues from a snapshot: the position, the keys, and the bytes that were not opened.
    pub(crate) fn resumed(
        position: Position,
        keys: EpochKeys,
        unread: &[u8],
    ) -> Result<Self, Error> {
        let mut splitter = Splitter::with_keys_state(position, keys.set_up()?);
        splitter.handle_bytes(unread);
        Ok(Self {
            splitter,
            keys: Some(keys),
            ..Self::new()
        })
    }

    /// Position, keys and unread bytes for a snapshot; `None` before the first NEWKEYS.
    pub(crate) fn export(&self) -> Option<(Position, &EpochKeys, &[u8])> {
        let keys = self.keys.as_ref()?;
        Some((self.splitter.position(), keys, self.splitter.unread()))
    }

    /// The receive buffer.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        self.splitter.receive_buffer()
    }

    /// The receive buffer and the number of bytes to read at once.
    pub(crate) fn room(&mut self) -> (&mut BytesMut, usize) {
        self.splitter.receive_room()
    }

    /// Lets the connection's only consumer pin up to `bytes` of receive slabs.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.splitter.keep(bytes);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.splitter.is_full()
    }

    /// Received bytes of an unfinished packet, if there is one.
    pub(crate) fn unfinished_bytes(&self) -> Option<usize> {
        self.splitter.unfinished_bytes()
    }

    /// Returns the next packet to open, if one is complete and the keys in use are certainly its
    /// own. `in_advance` permits packets before the results of earlier ones; `keys_may_change` says
    /// that one of these may be NEWKEYS.
    pub(super) fn next(
        &mut self,
        in_advance: bool,
        keys_may_change: bool,
    ) -> Result<Option<OpenJob>, Error> {
        let certain = in_advance && !(keys_may_change && self.newkeys_outstanding);
        if self.outstanding > 0 && !certain {
            return Ok(None);
        }
        let job = self.splitter.next()?;
        if let Some(job) = &job {
            self.outstanding += 1;
            self.newkeys_outstanding |= job.wire_bytes() <= MAX_NEWKEYS_WIRE_BYTES;
        }
        Ok(job)
    }

    /// Records that an open job has returned.
    pub(super) fn note_opened(&mut self) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.newkeys_outstanding &= self.outstanding > 0;
    }

    /// Returns true if no open job is outstanding.
    pub(super) fn is_settled(&self) -> bool {
        self.outstanding == 0
    }

    /// Returns the payload of an opened packet, inflated.
    pub(super) fn inflate(&mut self, opened: OpenedPacket) -> Result<Bytes, Error> {
        let payload = opened.into_payload();
        let Some(stream) = &mut self.stream else {
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

    /// Switches the keys after the peer's NEWKEYS, and starts a new compressed stream if the user is
    /// logged in.
    ///
    /// # Errors
    /// [`Error::PeerMisbehaved`] if a later packet was opened with the old keys.
    pub(super) fn switch_keys(
        &mut self,
        keys: EpochKeys,
        reset_sequence: bool,
        authenticated: bool,
    ) -> Result<(), Error> {
        if self.outstanding > 0 {
            // The peer's NEWKEYS is longer than any valid one.
            return Err(Error::PeerMisbehaved("NEWKEYS is too long"));
        }
        self.splitter.set_keys(keys.set_up()?, reset_sequence);
        self.keys = Some(keys);
        if authenticated {
            self.begin_stream();
        }
        Ok(())
    }

    /// Starts the stream of the negotiated compression method with the next packet.
    pub(super) fn begin_stream(&mut self) {
        let method = EpochKeys::compression(self.keys.as_ref());
        self.stream = begin_in_stream(method, self.stream.take());
    }

    /// Totals of the data received, if it was compressed.
    pub(crate) fn totals(&self) -> Option<Totals> {
        self.stream.as_ref().map(Decompressor::totals)
    }

    /// Bytes received under the keys in use.
    pub(super) fn bytes(&self) -> u64 {
        self.splitter.position().bytes
    }

    /// Returns true if the keys in use have reached the limit of their cipher.
    pub(super) fn must_rekey(&self) -> bool {
        self.splitter.must_rekey()
    }

    pub(super) fn has_spare(&self) -> bool {
        self.splitter.has_spare() || self.stream.as_ref().is_some_and(Decompressor::has_spare)
    }

    /// Returns true if there is receive memory, however little of it was used.
    pub(super) fn has_buffers(&self) -> bool {
        self.splitter.has_any()
    }

    pub(super) fn shed(&mut self) {
        self.splitter.shed();
        if let Some(stream) = &mut self.stream {
            stream.shed();
        }
    }
}
