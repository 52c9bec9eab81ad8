//! Bit output in the order of RFC 1951 §3.1.1: the first bit is the lowest of the first byte.

/// Fewer than eight bits at the end of a stream that do not fill a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Carry {
    pub(super) bits: u8,
    pub(super) count: u8,
}

impl Carry {
    /// Returns true if the stream so far ends on a byte.
    pub(crate) fn is_empty(self) -> bool {
        self.count == 0
    }
}

/// Writes bits to memory of a precomputed size. Bits that do not fit are dropped, which is a bug
/// that [`BitWriter::finish`] reports.
pub(super) struct BitWriter<'a> {
    bytes: &'a mut [u8],
    at: usize,
    bits: u64,
    count: u32,
}

/// Memory in bytes for `bits` bits after a carry; whole words are written.
pub(super) fn space_for(bits: usize) -> usize {
    bits / 8 + 16
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(bytes: &'a mut [u8], carry: Carry) -> Self {
        Self {
            bytes,
            at: 0,
            bits: u64::from(carry.bits),
            count: u32::from(carry.count),
        }
    }

    /// Moves the writer out; its place is left with an empty buffer.
    pub(super) fn take(&mut self) -> Self {
        Self {
            bytes: core::mem::take(&mut self.bytes),
            ..*self
        }
    }

    /// Adds the low `count` bits of `bits`; higher bits must be 0. At most 56 bits between two
    /// flushes.
    #[inline(always)]
    pub(super) fn add(&mut self, bits: u64, count: u32) {
        debug_assert!(self.count + count < 64 && bits >> count == 0);
        self.bits |= bits << (self.count & 63);
        self.count = self.count.wrapping_add(count);
    }

    /// Writes out whole bytes; fewer than eight bits remain.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        if let Some(place) = self.bytes.get_mut(self.at..self.at.wrapping_add(8)) {
            place.copy_from_slice(&self.bits.to_le_bytes());
        }
        let whole = self.count >> 3;
        self.at = self.at.wrapping_add(whole as usize);
        self.bits >>= (whole << 3) & 63;
        self.count &= 7;
    }

    /// Returns the bytes written and the remaining bits; `None` if the space was too small.
    pub(super) fn finish(mut self) -> Option<(&'a [u8], Carry)> {
        self.flush();
        let carry = Carry {
            bits: self.bits as u8,
            count: self.count as u8,
        };
        // The last whole word still fitted.
        let fits = self.at.wrapping_add(8) <= self.bytes.len();
        let bytes: &'a [u8] = self.bytes;
        bytes
            .get(..self.at)
            .filter(|_| fits)
            .map(|bytes| (bytes, carry))
    }
}
