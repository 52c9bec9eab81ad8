//! [`PacketDecoder`]: decodes a zlib stream packet by packet.
//!
//! A sender flushes after each payload, so that a packet ends at the end of a block. After that
//! block, fewer than ten bits of the next one may follow: zlib's partial flush leaves the end of an
//! empty static block to the next packet, and PuTTY sends the header of the static block with which
//! it continues. Both are prefixes of `010 0000000`, and are kept as bits, not as decoder state.
//!
//! Other senders are valid too: from the first packet that ends elsewhere, a resumable inflate
//! decodes the stream until NEWKEYS.

mod fast;
mod inflate;
mod input;
mod tables;

use std::ops::Range;
use std::sync::OnceLock;

use input::{Input, Output, Stop, Tables};
use tables::{
    Alphabet, DISTANCE_BITS, DISTANCE_ENTRIES, LITLEN_BITS, LITLEN_ENTRIES, PRECODE_BITS,
    PRECODE_ENTRIES,
};

use super::SLACK_BYTES;
use super::symbols::{PRECODE_ORDER, STATIC_LITLEN_BITS};
use super::window::Window;
use crate::error::InflateError;
use crate::resumable::Resumable;

/// Length in bits of an empty static block, and its value with the first bit lowest.
const EMPTY_STATIC_BITS: usize = 10;
const EMPTY_STATIC: u64 = 0b010;
/// Length in bytes of the header of a stored block at the start of a packet, if the previous packet
/// ended on a byte: its type, its length and the inverted length (RFC 1951 §3.2.4).
const STORED_HEADER_BYTES: usize = 5;
/// Minimum output space for a payload, in bytes.
const LEAST_SPACE: usize = 1024;

/// Bits at the end of a packet that begin the next block: fewer than ten.
#[derive(Debug, Clone, Copy, Default)]
struct Bits {
    bits: u64,
    count: u32,
}

/// Decodes one direction's zlib stream, packet by packet.
pub(crate) struct PacketDecoder {
    state: DecoderState,
}

enum DecoderState {
    /// The next packet begins with the two-byte header of RFC 1950 §2.2.
    Header,
    Packets(Box<PacketInflater>),
    Resumable(Box<Resumable>),
    /// Decoding has failed permanently.
    Failed(InflateError),
}

/// A stream whose packets have so far ended at block boundaries.
struct PacketInflater {
    window: Window,
    carry: Bits,
    tables: Tables,
}

/// Reason for not decoding a packet.
enum DecodeFailure {
    /// The packet ends within a block.
    Truncated,
    Error(InflateError),
}

impl From<InflateError> for DecodeFailure {
    fn from(error: InflateError) -> Self {
        Self::Error(error)
    }
}

const CORRUPT: DecodeFailure = DecodeFailure::Error(InflateError::Corrupt);

impl PacketDecoder {
    pub(crate) fn new() -> Self {
        Self {
            state: DecoderState::Header,
        }
    }

    /// Expects a new stream.
    pub(crate) fn reset(&mut self) {
        self.state = DecoderState::Header;
    }

    /// Returns true if the resumable inflate decodes the stream, which is slower.
    pub(crate) fn is_resumable(&self) -> bool {
        matches!(self.state, DecoderState::Resumable(_))
    }

    /// Frees memory that only bulk data needs; keeps the history.
    pub(crate) fn shed(&mut self) {
        if let DecoderState::Packets(packets) = &mut self.state {
            packets.window.shed();
        }
    }

    /// Size of the output window in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.state {
            DecoderState::Packets(packets) => packets.window.with_slack().len(),
            _ => 0,
        }
    }

    /// Returns the range of the payload in `input`, if `input` is one stored block of at most
    /// `limit_bytes`; the payload is then added to the history. `None` if `input` must be decoded.
    pub(crate) fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        let DecoderState::Packets(packets) = &mut self.state else {
            return None;
        };
        let (&[kind, a, b, c, d], payload) = input.split_first_chunk::<STORED_HEADER_BYTES>()?;
        let length = u16::from_le_bytes([a, b]);
        let is_whole = packets.carry.count == 0
            && kind & 0b111 == 0
            && u16::from_le_bytes([c, d]) == !length
            && usize::from(length) == payload.len();
        if !is_whole || payload.is_empty() || payload.len() > limit_bytes {
            return None;
        }
        packets.window.remember(payload);
        Some(STORED_HEADER_BYTES..input.len())
    }

    /// Appends the plaintext of `input` to `out`.
    ///
    /// # Errors
    /// [`InflateError`]; `out` may then have grown, and every later call fails with the same error.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let result = self.try_decode(input, out, limit_bytes);
        if let Err(error) = result {
            self.state = DecoderState::Failed(error);
        }
        result
    }

    fn try_decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let input = match self.state {
            DecoderState::Failed(error) => return Err(error),
            DecoderState::Header => {
                self.state = DecoderState::Packets(PacketInflater::new());
                without_header(input)?
            }
            _ => input,
        };
        if let DecoderState::Packets(packets) = &mut self.state {
            match packets.decode(input, limit_bytes) {
                Ok([]) => return Err(InflateError::Empty),
                Ok(payload) => {
                    out.extend_from_slice(payload);
                    return Ok(());
                }
                Err(DecodeFailure::Error(error)) => return Err(error),
                Err(DecodeFailure::Truncated) => {
                    let carry = (packets.carry.bits, packets.carry.count);
                    let resumable = Resumable::resume(packets.window.history(), carry)?;
                    self.state = DecoderState::Resumable(Box::new(resumable));
                }
            }
        }
        match &mut self.state {
            DecoderState::Resumable(stream) => stream.decode(input, out, limit_bytes),
            _ => Err(InflateError::Corrupt),
        }
    }
}

/// Checks and removes the stream header (RFC 1950 §2.2).
fn without_header(input: &[u8]) -> Result<&[u8], InflateError> {
    let Some((&[method, flags], rest)) = input.split_first_chunk::<2>() else {
        return Err(InflateError::Empty);
    };
    let check = u16::from_be_bytes([method, flags]);
    // Deflate with a window of at most 32 KiB, and no preset dictionary.
    if method & 0x0f != 8 || method >> 4 > 7 || check % 31 != 0 || flags & 0x20 != 0 {
        return Err(InflateError::Corrupt);
    }
    Ok(rest)
}

impl PacketInflater {
    fn new() -> Box<Self> {
        Box::new(Self {
            window: Window::default(),
            carry: Bits::default(),
            tables: Tables {
                litlen: [0; LITLEN_ENTRIES],
                distance: [0; DISTANCE_ENTRIES],
            },
        })
    }

    /// Decodes a packet to the window's end and returns the payload. On failure window and carry
    /// are unchanged, except for bytes out of a match's reach.
    fn decode(&mut self, input: &[u8], limit_bytes: usize) -> Result<&[u8], DecodeFailure> {
        let guess = input.len().saturating_mul(4).max(LEAST_SPACE);
        self.window.make_room(guess.min(limit_bytes));
        let mut packet = Packet {
            input: Input {
                bytes: input,
                at: 0,
                bits: self.carry.bits,
                count: self.carry.count,
            },
            start: self.window.len(),
            at: self.window.len(),
            limit_bytes,
        };
        let start = packet.start;
        let carry = loop {
            if let Some(carry) = packet.ends() {
                break carry;
            }
            packet.block(&mut self.window, &mut self.tables)?;
        };
        self.carry = carry;
        self.window.grew(packet.at - start);
        self.window.bytes().get(start..).ok_or(CORRUPT)
    }
}

/// A packet being decoded into the window.
struct Packet<'a> {
    input: Input<'a>,
    /// Start of the payload in the window, and the current position.
    start: usize,
    at: usize,
    limit_bytes: usize,
}

impl Packet<'_> {
    /// Between two blocks: returns the remaining bits if the packet ends here.
    fn ends(&mut self) -> Option<Bits> {
        if self.input.left() >= EMPTY_STATIC_BITS {
            return None;
        }
        self.input.refill_carefully();
        let (bits, count) = (self.input.bits, self.input.count);
        let begins = bits == EMPTY_STATIC & ((1 << count) - 1);
        begins.then_some(Bits { bits, count })
    }

    /// Consumes `count` bits, which must be present.
    fn take(&mut self, count: u32) -> Result<u32, DecodeFailure> {
        self.input.refill_carefully();
        if self.input.count < count {
            return Err(DecodeFailure::Truncated);
        }
        let value = self.input.peek(count);
        self.input.skip(count);
        Ok(value)
    }

    fn block(&mut self, window: &mut Window, tables: &mut Tables) -> Result<(), DecodeFailure> {
        if self.take(1)? == 1 {
            return Err(InflateError::StreamEnded.into());
        }
        let kind = self.take(2)?;
        match kind {
            0 => return self.stored(window),
            1 => return self.symbols(window, static_tables()),
            2 => self.codes(tables)?,
            _ => return Err(CORRUPT),
        }
        self.symbols(window, tables)
    }

    fn symbols(&mut self, window: &mut Window, tables: &Tables) -> Result<(), DecodeFailure> {
        loop {
            let end = self.end_of_space(window);
            let (window_bytes, _) = window.space();
            let mut out = Output {
                window: window_bytes,
                at: self.at,
                end,
            };
            let stop = inflate::symbols(tables, &mut self.input, &mut out);
            self.at = out.at;
            match stop {
                Stop::EndOfBlock => return Ok(()),
                Stop::InputEnded => return Err(DecodeFailure::Truncated),
                Stop::Corrupt => return Err(CORRUPT),
                Stop::OutputFull => self.make_space(window)?,
            }
        }
    }

    /// End position of this payload in the window, by its space or its limit.
    fn end_of_space(&self, window: &mut Window) -> usize {
        let (bytes, _) = window.space();
        let limit = self.start.saturating_add(self.limit_bytes);
        limit.min(bytes.len().saturating_sub(SLACK_BYTES))
    }

    /// Makes more space; fails if the limit is reached.
    fn make_space(&mut self, window: &mut Window) -> Result<(), DecodeFailure> {
        let had = self.end_of_space(window);
        let made = had - self.start;
        let more = made
            .saturating_mul(2)
            .max(LEAST_SPACE)
            .min(self.limit_bytes);
        if more <= made {
            let limit_bytes = self.limit_bytes;
            return Err(InflateError::TooLong { limit_bytes }.into());
        }
        window.extend_space(more);
        Ok(())
    }

    /// RFC 1951 §3.2.4.
    fn stored(&mut self, window: &mut Window) -> Result<(), DecodeFailure> {
        let odd = self.input.count & 7;
        self.take(odd)?;
        let length = self.take(16)?;
        let complement = self.take(16)?;
        if length ^ complement != 0xffff {
            return Err(CORRUPT);
        }
        // Only whole bytes remain in the bit buffer: return them to the input.
        let back = (self.input.count / 8) as usize;
        self.input.at = self.input.at.checked_sub(back).ok_or(CORRUPT)?;
        (self.input.bits, self.input.count) = (0, 0);
        let length = length as usize;
        let from = self.input.at;
        let stored = self.input.bytes.get(from..from + length);
        let stored = stored.ok_or(DecodeFailure::Truncated)?;
        while length > self.end_of_space(window) - self.at {
            self.make_space(window)?;
        }
        let (bytes, _) = window.space();
        let place = bytes.get_mut(self.at..self.at + length).ok_or(CORRUPT)?;
        place.copy_from_slice(stored);
        self.at += length;
        self.input.at += length;
        Ok(())
    }

    /// Reads the codes of a dynamic block into `tables` (RFC 1951 §3.2.7).
    fn codes(&mut self, tables: &mut Tables) -> Result<(), DecodeFailure> {
        let litlen_count = self.take(5)? as usize + 257;
        let distance_count = self.take(5)? as usize + 1;
        let precode_count = self.take(4)? as usize + 4;
        if litlen_count > 286 || distance_count > 30 {
            return Err(CORRUPT);
        }
        let mut precode = [0_u8; 19];
        for symbol in PRECODE_ORDER.iter().take(precode_count) {
            precode[usize::from(*symbol)] = self.take(3)? as u8;
        }
        let mut table = [0; PRECODE_ENTRIES];
        tables::fill(&mut table, PRECODE_BITS, &precode, Alphabet::Precode).map_err(|_| CORRUPT)?;
        let mut lengths = [0_u8; 286 + 30];
        let count = litlen_count + distance_count;
        let lengths = lengths.get_mut(..count).ok_or(CORRUPT)?;
        self.code_lengths(&table, lengths)?;
        let (litlen, distance) = lengths.split_at(litlen_count);
        if litlen.get(256).is_none_or(|bits| *bits == 0) {
            // A block without an end-of-block code could not end.
            return Err(CORRUPT);
        }
        tables::fill(&mut tables.litlen, LITLEN_BITS, litlen, Alphabet::Litlen)
            .and_then(|()| {
                tables::fill(
                    &mut tables.distance,
                    DISTANCE_BITS,
                    distance,
                    Alphabet::Distance,
                )
            })
            .map_err(|_| CORRUPT)
    }

    fn code_lengths(
        &mut self,
        table: &[tables::DecodeEntry; PRECODE_ENTRIES],
        lengths: &mut [u8],
    ) -> Result<(), DecodeFailure> {
        let mut at = 0;
        while at < lengths.len() {
            self.input.refill_carefully();
            let entry = table[self.input.peek(PRECODE_BITS) as usize];
            self.take(entry & 63)?;
            let symbol = (entry >> 16) as u8;
            let (length, times) = match symbol {
                0..=15 => (symbol, 1),
                16 => {
                    let last = at.checked_sub(1).and_then(|last| lengths.get(last));
                    (*last.ok_or(CORRUPT)?, 3 + self.take(2)? as usize)
                }
                17 => (0, 3 + self.take(3)? as usize),
                _ => (0, 11 + self.take(7)? as usize),
            };
            lengths.get_mut(at..at + times).ok_or(CORRUPT)?.fill(length);
            at += times;
        }
        Ok(())
    }
}

/// RFC 1951 §3.2.6.
fn static_tables() -> &'static Tables {
    static TABLES: OnceLock<Box<Tables>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = Box::new(Tables {
            litlen: [0; LITLEN_ENTRIES],
            distance: [0; DISTANCE_ENTRIES],
        });
        // Both codes are complete, so this cannot fail.
        let litlen = &STATIC_LITLEN_BITS;
        let filled = tables::fill(&mut tables.litlen, LITLEN_BITS, litlen, Alphabet::Litlen);
        let distance = [5; 32];
        let also = tables::fill(
            &mut tables.distance,
            DISTANCE_BITS,
            &distance,
            Alphabet::Distance,
        );
        debug_assert!(filled.is_ok() && also.is_ok());
        tables
    })
}
