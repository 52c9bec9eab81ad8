//! The frame around each message: `u32` length ‖ `u8` number ‖ fields; the length counts number and
//! fields. The length is checked before a buffer is allocated: at most 1 MiB, and 4 MiB for the
//! message that carries a connection's snapshot.

use core::fmt;

use wire::DecodeError;
use zeroize::Zeroize;

/// Longest frame of every message but the snapshot, in bytes without the length field.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;
/// Longest frame of a snapshot, in bytes without the length field: it holds the unread bytes of
/// both directions and pending channel messages.
pub const MAX_SNAPSHOT_BYTES: usize = 4 * 1024 * 1024;
/// Number of the message that carries a snapshot.
pub(crate) const SNAPSHOT: u8 = 11;
/// Size of the frame header (length and number) in bytes.
pub const HEADER_BYTES: usize = 5;

/// Why a frame was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length is zero or exceeds the limit for the message's number.
    BadLength,
    /// No message has this number.
    UnknownMessage(u8),
    /// The message with this number is not permitted in this phase.
    NotPermitted(u8),
    /// The body is not a valid encoding of the message with the frame's number.
    Body(DecodeError),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadLength => f.write_str("frame length out of bounds"),
            Self::UnknownMessage(number) => write!(f, "no message has number {number}"),
            Self::NotPermitted(number) => write!(f, "message {number} is not permitted now"),
            Self::Body(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FrameError {}

impl From<DecodeError> for FrameError {
    fn from(error: DecodeError) -> Self {
        Self::Body(error)
    }
}

/// The header of a frame, with its length checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The message's number.
    pub number: u8,
    /// Size of the fields that follow, in bytes.
    pub body_bytes: usize,
}

impl FrameHeader {
    /// Parses a header and checks its length.
    ///
    /// # Errors
    /// [`FrameError::BadLength`] if the length is zero or exceeds the limit for the message's
    /// number.
    pub fn parse(header: [u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [a, b, c, d, number] = header;
        let length =
            usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| FrameError::BadLength)?;
        let limit = if number == SNAPSHOT {
            MAX_SNAPSHOT_BYTES
        } else {
            MAX_FRAME_BYTES
        };
        if length == 0 || length > limit {
            return Err(FrameError::BadLength);
        }
        Ok(Self {
            number,
            body_bytes: length - 1,
        })
    }
}

/// A complete frame. Its body is wiped on drop.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The message's number.
    pub number: u8,
    /// The encoded fields.
    pub body: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}, {} bytes)", self.number, self.body.len())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // The body may hold session keys (snapshot) or a password.
        self.body.zeroize();
    }
}

/// Encodes a frame: the header, then `body`.
#[must_use]
pub fn frame(number: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    let length = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.push(number);
    out.extend_from_slice(body);
    out
}

/// Splits a byte stream into frames. It buffers at most one incomplete frame and the bytes of one
/// [`feed`](Self::feed).
#[derive(Default)]
pub struct FrameSplitter {
    buffer: Vec<u8>,
}

impl FrameSplitter {
    /// An empty splitter.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends received bytes. Call [`next_frame`](Self::next_frame) until it returns `None` before
    /// the next `feed`; otherwise the buffer may grow beyond one frame.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// True if the buffer holds no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Returns the next complete frame, if there is one.
    ///
    /// # Errors
    /// [`FrameError::BadLength`] as soon as the header is complete.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.next_permitted(|_| true)
    }

    /// Returns the next complete frame, if there is one. Calls `permits` with the message's number
    /// as soon as the header is complete, without waiting for the rest of the frame.
    ///
    /// # Errors
    /// [`FrameError::NotPermitted`] if `permits` returns false, even if the length is bad too;
    /// [`FrameError::BadLength`] otherwise.
    pub fn next_permitted(
        &mut self,
        permits: impl FnOnce(u8) -> bool,
    ) -> Result<Option<Frame>, FrameError> {
        let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let [.., number] = *header;
        if !permits(number) {
            return Err(FrameError::NotPermitted(number));
        }
        let header = FrameHeader::parse(*header)?;
        let end = HEADER_BYTES + header.body_bytes;
        let Some(whole) = self.buffer.get(HEADER_BYTES..end) else {
            return Ok(None);
        };
        let body = whole.to_vec();
        let mut rest = self.buffer.split_off(end);
        core::mem::swap(&mut rest, &mut self.buffer);
        rest.zeroize();
        Ok(Some(Frame {
            number: header.number,
            body,
        }))
    }
}

impl Drop for FrameSplitter {
    fn drop(&mut self) {
        self.buffer.zeroize();
    }
}
