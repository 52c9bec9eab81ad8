//! [`PacketDecoder`]: one packet's piece of a zlib stream in, its payload out.
//!
//! A sender flushes behind each payload, so that a packet ends where a block does. What may stand
//! behind that block are fewer than ten bits of the next: zlib's partial flush leaves the end of
//! an empty static block to the next packet, and PuTTY the header of the static block that it
//! goes on with. Either is a beginning of `010 0000000`, and is kept as bits, not as a state.
//!
//! A sender that does anything else is right, too: from the packet on that ends elsewhere, a
//! resumable inflate takes over until NEWKEYS.

mod fast;
mod inflate;
mod tables;

use std::ops::Range;
use std::sync::OnceLock;

use inflate::{Input, Stop, Tables};
use tables::{
    Alphabet, DISTANCE_BITS, DISTANCE_ENTRIES, LITLEN_BITS, LITLEN_ENTRIES, PRECODE_BITS,
    PRECODE_ENTRIES,
};

use super::SLACK_BYTES;
use super::symbols::{PRECODE_ORDER, STATIC_LITLEN_BITS};
use super::window::Window;
use crate::error::InflateError;
use crate::zlib::Resumable;

/// Bits of an empty static block, and its value with the first bit lowest.
const EMPTY_STATIC_BITS: usize = 10;
const EMPTY_STATIC: u64 = 0b010;
/// What comes before a stored block's bytes where it begins a packet behind one that ended on a
/// byte: its type, its length and that again inverted (RFC 1951 §3.2.4).
const STORED_HEADER_BYTES: usize = 5;
/// The least space that is made for a payload, bytes.
const LEAST_SPACE: usize = 1024;

/// Bits at the end of a packet that begin the next block: fewer than ten.
#[derive(Debug, Clone, Copy, Default)]
struct Bits {
    bits: u64,
    count: u32,
}

/// See the module's head.
pub(crate) struct PacketDecoder {
    state: State,
}

enum State {
    /// The two bytes of RFC 1950 §2.2 come first.
    Begins,
    Packets(Box<Packets>),
    Resumable(Box<Resumable>),
    /// The first error is the last.
    Failed(InflateError),
}

/// A stream that has kept to packets so far.
struct Packets {
    window: Window,
    carry: Bits,
    tables: Tables,
}

/// Why a packet was not decoded.
enum Trouble {
    /// It ends inside a block.
    Unfinished,
    Error(InflateError),
}

impl From<InflateError> for Trouble {
    fn from(error: InflateError) -> Self {
        Self::Error(error)
    }
}

const CORRUPT: Trouble = Trouble::Error(InflateError::Corrupt);

impl PacketDecoder {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Begins,
        }
    }

    /// Expects a new stream.
    pub(crate) fn reset(&mut self) {
        self.state = State::Begins;
    }

    /// Whether the stream has left the packets' way, so that it is decoded more slowly.
    pub(crate) fn is_resumable(&self) -> bool {
        matches!(self.state, State::Resumable(_))
    }

    /// Frees what bulk data needed; the history stays.
    pub(crate) fn shed(&mut self) {
        if let State::Packets(packets) = &mut self.state {
            packets.window.shed();
        }
    }

    /// Bytes of the output window.
    pub(crate) fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Packets(packets) => packets.window.with_slack().len(),
            _ => 0,
        }
    }

    /// The place of the payload in `input`, where that is one stored block of at most
    /// `limit_bytes`: it is taken as received then. None: it is still to be decoded.
    pub(crate) fn stored(&mut self, input: &[u8], limit_bytes: usize) -> Option<Range<usize>> {
        let State::Packets(packets) = &mut self.state else {
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

    /// Appends to `out` what `input` inflates to.
    ///
    /// # Errors
    /// [`InflateError`]; `out` is as before and every later call fails in the same way.
    pub(crate) fn decode(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        limit_bytes: usize,
    ) -> Result<(), InflateError> {
        let before = out.len();
        let result = self.try_decode(input, out, limit_bytes);
        if let Err(error) = result {
            out.truncate(before);
            self.state = State::Failed(error);
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
            State::Failed(error) => return Err(error),
            State::Begins => {
                self.state = State::Packets(Packets::new());
                without_header(input)?
            }
            _ => input,
        };
        if let State::Packets(packets) = &mut self.state {
            match packets.decode(input, limit_bytes) {
                Ok([]) => return Err(InflateError::Empty),
                Ok(payload) => {
                    out.extend_from_slice(payload);
                    return Ok(());
                }
                Err(Trouble::Error(error)) => return Err(error),
                Err(Trouble::Unfinished) => {
                    let carry = (packets.carry.bits, packets.carry.count);
                    let resumable = Resumable::behind(packets.window.history(), carry)?;
                    self.state = State::Resumable(Box::new(resumable));
                }
            }
        }
        match &mut self.state {
            State::Resumable(stream) => stream.decode(input, out, limit_bytes),
            _ => Err(InflateError::Corrupt),
        }
    }
}

/// RFC 1950 §2.2.
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

impl Packets {
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

    /// The payload, at the window's end. On failure window and carry are as before, but for what
    /// is out of a match's reach.
    fn decode(&mut self, input: &[u8], limit_bytes: usize) -> Result<&[u8], Trouble> {
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

/// A packet on its way through the window.
struct Packet<'a> {
    input: Input<'a>,
    /// Where in the window the payload begins, and how far it has come.
    start: usize,
    at: usize,
    limit_bytes: usize,
}

impl Packet<'_> {
    /// Between two blocks: the bits that are left, if the packet ends here.
    fn ends(&mut self) -> Option<Bits> {
        if self.input.left() >= EMPTY_STATIC_BITS {
            return None;
        }
        self.input.refill_carefully();
        let (bits, count) = (self.input.bits, self.input.count);
        let begins = bits == EMPTY_STATIC & ((1 << count) - 1);
        begins.then_some(Bits { bits, count })
    }

    /// Bits that must be there.
    fn take(&mut self, count: u32) -> Result<u32, Trouble> {
        self.input.refill_carefully();
        if self.input.count < count {
            return Err(Trouble::Unfinished);
        }
        let value = self.input.peek(count);
        self.input.skip(count);
        Ok(value)
    }

    fn block(&mut self, window: &mut Window, tables: &mut Tables) -> Result<(), Trouble> {
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

    fn symbols(&mut self, window: &mut Window, tables: &Tables) -> Result<(), Trouble> {
        loop {
            let end = self.end_of_space(window);
            let (bytes, _) = window.space();
            match inflate::symbols(tables, &mut self.input, bytes, &mut self.at, end) {
                Stop::EndOfBlock => return Ok(()),
                Stop::InputEnded => return Err(Trouble::Unfinished),
                Stop::Corrupt => return Err(CORRUPT),
                Stop::OutputFull => self.make_space(window)?,
            }
        }
    }

    /// Where in the window this payload must end, for want of space or by its limit.
    fn end_of_space(&self, window: &mut Window) -> usize {
        let (bytes, _) = window.space();
        let limit = self.start.saturating_add(self.limit_bytes);
        limit.min(bytes.len().saturating_sub(SLACK_BYTES))
    }

    /// More space, or the limit is reached: then there is more than may be.
    fn make_space(&mut self, window: &mut Window) -> Result<(), Trouble> {
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
    fn stored(&mut self, window: &mut Window) -> Result<(), Trouble> {
        let odd = self.input.count & 7;
        self.take(odd)?;
        let length = self.take(16)?;
        let complement = self.take(16)?;
        if length ^ complement != 0xffff {
            return Err(CORRUPT);
        }
        // Whole bytes only are left among the bits: back with them.
        let back = (self.input.count / 8) as usize;
        self.input.at = self.input.at.checked_sub(back).ok_or(CORRUPT)?;
        (self.input.bits, self.input.count) = (0, 0);
        let length = length as usize;
        let from = self.input.at;
        let stored = self.input.bytes.get(from..from + length);
        let stored = stored.ok_or(Trouble::Unfinished)?;
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

    /// RFC 1951 §3.2.7: the codes of a dynamic block into `tables`.
    fn codes(&mut self, tables: &mut Tables) -> Result<(), Trouble> {
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
            // Such a block could not end.
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
        table: &[tables::Entry; PRECODE_ENTRIES],
        lengths: &mut [u8],
    ) -> Result<(), Trouble> {
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
        // Both are complete: there is nothing to fail.
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
