//! The frame around each message: `u32` length ‖ `u8` number ‖ fields, the length counting
//! number and fields. The bound stands before the buffer: 1 MiB, and 4 MiB for the one
//! message that carries a connection's snapshot.

use core::fmt;

use wire::DecodeError;
use zeroize::Zeroize;

use crate::message::Message;
use crate::message::Snapshot;

/// Longest frame, length field not counted, of every message but the snapshot.
pub const MAX_FRAME_BYTES: usize = 1024 * 1024;
/// Longest frame of a snapshot: two directions' unread bytes and pending channel messages.
pub const MAX_SNAPSHOT_BYTES: usize = 4 * 1024 * 1024;
/// Bytes of length and number.
pub const HEADER_BYTES: usize = 5;

/// Why a frame could not be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length is zero or above the message's bound.
    BadLength,
    /// No message has this number.
    UnknownMessage(u8),
    /// The message with this number is not permitted now.
    NotPermitted(u8),
    /// The body is not what its number says.
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

/// The first five bytes of a frame, taken apart and bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The message's number.
    pub number: u8,
    /// Bytes of fields that follow.
    pub body_bytes: usize,
}

impl FrameHeader {
    /// Reads a header.
    ///
    /// # Errors
    /// [`FrameError::BadLength`].
    pub fn parse(header: [u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let [a, b, c, d, number] = header;
        let length =
            usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| FrameError::BadLength)?;
        let limit = if number == Snapshot::NUMBER {
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

/// One whole frame. The body is wiped when dropped, for it may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// The message's number.
    pub number: u8,
    /// The fields.
    pub body: Vec<u8>,
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({}, {} bytes)", self.number, self.body.len())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // A snapshot holds session keys; a password frame a password.
        self.body.zeroize();
    }
}

impl Frame {
    /// Decodes the body as the message `M`.
    ///
    /// # Errors
    /// [`FrameError::Body`], with `WrongMessage` when the number is another's.
    pub fn decode<M: Message>(&self) -> Result<M, FrameError> {
        if self.number != M::NUMBER {
            return Err(FrameError::Body(DecodeError::WrongMessage {
                expected: M::NUMBER,
                got: self.number,
            }));
        }
        Ok(M::decode_body(&self.body)?)
    }
}

/// Puts a length and a number before `body`.
#[must_use]
pub fn frame(number: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    let length = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.push(number);
    out.extend_from_slice(body);
    out
}

/// Cuts a byte stream into frames; holds at most one frame's bytes beyond what was fed.
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

    /// Adds bytes as they came. Call [`next_frame`](Self::next_frame) until it has none before
    /// feeding more, so that the bound on a frame bounds the buffer.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// True when no byte of an unfinished frame is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next whole frame, if there is one.
    ///
    /// # Errors
    /// [`FrameError::BadLength`] as soon as the header shows it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.next_permitted(|_| true)
    }

    /// The next whole frame, if there is one. `permits` is asked with the number of the message as
    /// soon as the header is there, before more of the frame is waited for.
    ///
    /// # Errors
    /// [`FrameError::NotPermitted`] where `permits` says no, whatever length the header states;
    /// [`FrameError::BadLength`].
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
