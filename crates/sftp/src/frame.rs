//! Splits a byte stream into SFTP messages. A message that lies in one received chunk is not
//! copied. The data of a WRITE (for a client: of a DATA) is passed on chunk by chunk as it arrives,
//! so that no whole message has to be collected.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes};
use wire::Reader;

use crate::message::number;
use crate::{MAX_HANDLE_BYTES, MAX_MESSAGE_BYTES};

/// The side that reads the stream; it decides which message's data is passed on as it arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingSide {
    /// Reads replies: streams the data of DATA.
    Client,
    /// Reads requests: streams the data of WRITE.
    Server,
}

/// The next part of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramePiece {
    /// A whole message without its length field.
    Message(Bytes),
    /// The fields of a WRITE; [`FramePiece::Payload`] with `len` bytes in all follow.
    Write {
        /// Request id.
        id: u32,
        /// The handle as the client sent it.
        handle: Bytes,
        /// Offset in the file.
        offset: u64,
        /// Number of data bytes that follow.
        len: u32,
    },
    /// The fields of a DATA; [`FramePiece::Payload`] with `len` bytes in all follow.
    Data {
        /// Request id.
        id: u32,
        /// Number of data bytes that follow.
        len: u32,
    },
    /// A part of the data of the WRITE or DATA; never empty.
    Payload {
        /// The data.
        bytes: Bytes,
        /// Data bytes of the same message that have not arrived yet.
        left: u32,
    },
}

/// Why the rest of a stream cannot be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The length field holds this value, which exceeds [`MAX_MESSAGE_BYTES`].
    TooLong(u32),
    /// The length field is 0: the message has no message number.
    Empty,
    /// The lengths within a WRITE or DATA exceed that of the message, or the handle is too long.
    BadPayload,
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong(len) => write!(
                f,
                "message of {len} bytes is longer than the limit of {MAX_MESSAGE_BYTES}"
            ),
            Self::Empty => f.write_str("message without a number"),
            Self::BadPayload => f.write_str("message whose data do not fit in its length"),
        }
    }
}

impl core::error::Error for FrameError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameState {
    /// Before a length field.
    Between,
    /// Within a WRITE or DATA: `data` bytes of data are missing, then `skip` bytes after the data,
    /// which are ignored.
    Payload { data: u32, skip: u32 },
}

/// Splits a stream of SFTP messages as the module's documentation describes.
#[derive(Debug)]
pub struct Splitter {
    side: ReadingSide,
    pieces: VecDeque<Bytes>,
    /// Number of bytes in `pieces`.
    held: usize,
    /// Bytes consumed since the last [`Splitter::take_consumed`].
    taken: usize,
    state: FrameState,
}

impl Splitter {
    /// Creates a splitter at the first byte of a stream.
    #[must_use]
    pub fn new(side: ReadingSide) -> Self {
        Self {
            side,
            pieces: VecDeque::new(),
            held: 0,
            taken: 0,
            state: FrameState::Between,
        }
    }

    /// Appends received bytes. The caller limits the number of bytes held here, by a channel's
    /// window or the size of a read.
    pub fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.held += bytes.len();
            self.pieces.push_back(bytes);
        }
    }

    /// Number of bytes received and not yet consumed.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Returns and resets the number of bytes consumed since the last call: the amount by which the
    /// caller opens its receive window.
    pub fn take_consumed(&mut self) -> usize {
        core::mem::take(&mut self.taken)
    }

    /// Returns the next part, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`FrameError`]; every later call returns it too.
    pub fn next_piece(&mut self) -> Result<Option<FramePiece>, FrameError> {
        if let FrameState::Payload { data: 0, skip } = self.state {
            let skipped = self.held.min(usize::try_from(skip).unwrap_or(usize::MAX));
            self.drop_front(skipped);
            let skip = skip - u32::try_from(skipped).unwrap_or(skip);
            if skip > 0 {
                self.state = FrameState::Payload { data: 0, skip };
                return Ok(None);
            }
            self.state = FrameState::Between;
        }
        match self.state {
            FrameState::Payload { data, skip } => Ok(self.payload(data, skip)),
            FrameState::Between => self.message(),
        }
    }

    fn payload(&mut self, data: u32, skip: u32) -> Option<FramePiece> {
        let wanted = usize::try_from(data).unwrap_or(usize::MAX);
        let front = self.pieces.front_mut()?;
        let bytes = front.split_to(wanted.min(front.len()));
        if front.is_empty() {
            self.pieces.pop_front();
        }
        self.held -= bytes.len();
        self.taken += bytes.len();
        let left = data - u32::try_from(bytes.len()).unwrap_or(data);
        self.state = FrameState::Payload { data: left, skip };
        Some(FramePiece::Payload { bytes, left })
    }

    fn message(&mut self) -> Result<Option<FramePiece>, FrameError> {
        let Some(field) = self.peek::<4>(0) else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(field);
        let bytes = match usize::try_from(len) {
            Ok(0) => return Err(FrameError::Empty),
            Ok(bytes) if bytes <= MAX_MESSAGE_BYTES => bytes,
            _ => return Err(FrameError::TooLong(len)),
        };
        let Some([number]) = self.peek::<1>(4) else {
            return Ok(None);
        };
        match (self.side, number) {
            (ReadingSide::Server, number::WRITE) => self.write(len),
            (ReadingSide::Client, number::DATA) => self.data(len),
            _ if self.held < 4 + bytes => Ok(None),
            _ => {
                self.drop_front(4);
                Ok(Some(FramePiece::Message(self.take_front(bytes))))
            }
        }
    }

    fn data(&mut self, len: u32) -> Result<Option<FramePiece>, FrameError> {
        const HEAD: u32 = 1 + 4 + 4;
        let rest = len.checked_sub(HEAD).ok_or(FrameError::BadPayload)?;
        let Some(fields) = self.peek::<8>(5) else {
            return Ok(None);
        };
        let mut reader = Reader::new(&fields);
        let (Ok(id), Ok(data)) = (reader.u32(), reader.u32()) else {
            return Err(FrameError::BadPayload);
        };
        let skip = rest.checked_sub(data).ok_or(FrameError::BadPayload)?;
        self.drop_front(4 + 9);
        self.state = FrameState::Payload { data, skip };
        Ok(Some(FramePiece::Data { id, len: data }))
    }

    fn write(&mut self, len: u32) -> Result<Option<FramePiece>, FrameError> {
        let Some(fields) = self.peek::<8>(5) else {
            return Ok(None);
        };
        let mut reader = Reader::new(&fields);
        let (Ok(id), Ok(handle_len)) = (reader.u32(), reader.u32()) else {
            return Err(FrameError::BadPayload);
        };
        // A longer handle cannot be one that this server issued: reject it before collecting it.
        let handle_bytes = usize::try_from(handle_len).unwrap_or(usize::MAX);
        if handle_bytes > MAX_HANDLE_BYTES {
            return Err(FrameError::BadPayload);
        }
        let head = 1 + 4 + 4 + handle_len + 8 + 4;
        let rest = len.checked_sub(head).ok_or(FrameError::BadPayload)?;
        let Some(tail) = self.peek::<12>(13 + handle_bytes) else {
            return Ok(None);
        };
        let mut reader = Reader::new(&tail);
        let (Ok(offset), Ok(data)) = (reader.u64(), reader.u32()) else {
            return Err(FrameError::BadPayload);
        };
        let skip = rest.checked_sub(data).ok_or(FrameError::BadPayload)?;
        self.drop_front(13);
        let handle = self.take_front(handle_bytes);
        self.drop_front(12);
        self.state = FrameState::Payload { data, skip };
        Ok(Some(FramePiece::Write {
            id,
            handle,
            offset,
            len: data,
        }))
    }

    /// Returns `N` bytes at offset `at`, without consuming them; `None` if they have not all
    /// arrived.
    fn peek<const N: usize>(&self, mut at: usize) -> Option<[u8; N]> {
        if self.held < at + N {
            return None;
        }
        let mut out = [0; N];
        let mut filled = 0;
        for piece in &self.pieces {
            if at >= piece.len() {
                at -= piece.len();
                continue;
            }
            let from = piece.get(at..)?;
            let to = out.get_mut(filled..)?;
            let count = from.len().min(to.len());
            to.get_mut(..count)?.copy_from_slice(from.get(..count)?);
            filled += count;
            at = 0;
            if filled == N {
                break;
            }
        }
        Some(out)
    }

    fn drop_front(&mut self, mut count: usize) {
        self.held -= count;
        self.taken += count;
        while count > 0 {
            let Some(front) = self.pieces.front_mut() else {
                return;
            };
            let taken = count.min(front.len());
            front.advance(taken);
            count -= taken;
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
    }

    /// Consumes `count` bytes, which must be held; copies them only if they span several chunks.
    fn take_front(&mut self, count: usize) -> Bytes {
        self.held -= count;
        self.taken += count;
        let mut gathered = Vec::new();
        let mut missing = count;
        while missing > 0 {
            let Some(front) = self.pieces.front_mut() else {
                break;
            };
            if missing == count && front.len() >= count {
                let whole = front.split_to(count);
                if front.is_empty() {
                    self.pieces.pop_front();
                }
                return whole;
            }
            let taken = missing.min(front.len());
            gathered.reserve_exact(missing);
            gathered.extend_from_slice(&front.split_to(taken));
            missing -= taken;
            if front.is_empty() {
                self.pieces.pop_front();
            }
        }
        Bytes::from(gathered)
    }
}
