//! Cuts a stream of bytes into messages, in the pieces in which they came: a message that lies in
//! one piece is not copied, and the data of a WRITE (DATA, for a client) are handed on as they
//! come, so that they need not be there as a whole.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use bytes::{Buf, Bytes};
use wire::Reader;

use crate::message::number;
use crate::{MAX_HANDLE_BYTES, MAX_MESSAGE_BYTES};

/// Which messages' data are handed on as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Reads answers: DATA's.
    Client,
    /// Reads requests: WRITE's.
    Server,
}

/// What comes next in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A whole message without its length field.
    Message(Bytes),
    /// A WRITE begins; `len` bytes of [`Piece::Data`] follow.
    Write {
        /// Request id.
        id: u32,
        /// As the client gave it.
        handle: Bytes,
        /// Where the data go.
        offset: u64,
        /// Bytes that follow.
        len: u32,
    },
    /// A DATA begins; `len` bytes of [`Piece::Data`] follow.
    Data {
        /// Request id.
        id: u32,
        /// Bytes that follow.
        len: u32,
    },
    /// Some of the data; never empty.
    Payload {
        /// The bytes.
        bytes: Bytes,
        /// Bytes of the same message that are still to come.
        left: u32,
    },
}

/// Why a stream cannot be cut any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A message of this many bytes is longer than any may be.
    TooLong(u32),
    /// A message without a number.
    Empty,
    /// A WRITE or DATA whose parts do not fit in its length.
    BadPayload,
}

impl core::fmt::Display for FrameError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TooLong(len) => write!(
                f,
                "message of {len} bytes, where {MAX_MESSAGE_BYTES} are the most"
            ),
            Self::Empty => f.write_str("message without a number"),
            Self::BadPayload => f.write_str("message whose data do not fit in its length"),
        }
    }
}

impl core::error::Error for FrameError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before a length field.
    Between,
    /// Within a message of which so many bytes are missing: its data, then bytes of no meaning.
    Payload { data: u32, skip: u32 },
}

/// The splitter. See the module's head.
#[derive(Debug)]
pub struct Splitter {
    side: Side,
    pieces: VecDeque<Bytes>,
    /// Bytes in `pieces`.
    held: usize,
    /// Bytes handed on since the caller asked last.
    taken: usize,
    state: State,
}

impl Splitter {
    /// A splitter at the stream's first byte.
    #[must_use]
    pub fn new(side: Side) -> Self {
        Self {
            side,
            pieces: VecDeque::new(),
            held: 0,
            taken: 0,
            state: State::Between,
        }
    }

    /// Puts bytes behind the rest. How many may wait here is the caller's business: the window
    /// of a channel, the size of a read.
    pub fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.held += bytes.len();
            self.pieces.push_back(bytes);
        }
    }

    /// Bytes that wait.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Bytes that left since this was asked last: what a channel's window opens by.
    pub fn take_consumed(&mut self) -> usize {
        core::mem::take(&mut self.taken)
    }

    /// In the middle of a message: the stream must not end here.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.held > 0 || self.state != State::Between
    }

    /// What comes next; none until more bytes are there.
    ///
    /// # Errors
    /// [`FrameError`], each time from then on.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, FrameError> {
        if let State::Payload { data: 0, skip } = self.state {
            let skipped = self.held.min(usize::try_from(skip).unwrap_or(usize::MAX));
            self.drop_front(skipped);
            let skip = skip - u32::try_from(skipped).unwrap_or(skip);
            if skip > 0 {
                self.state = State::Payload { data: 0, skip };
                return Ok(None);
            }
            self.state = State::Between;
        }
        match self.state {
            State::Payload { data, skip } => Ok(self.payload(data, skip)),
            State::Between => self.message(),
        }
    }

    fn payload(&mut self, data: u32, skip: u32) -> Option<Piece> {
        let wanted = usize::try_from(data).unwrap_or(usize::MAX);
        let front = self.pieces.front_mut()?;
        let bytes = front.split_to(wanted.min(front.len()));
        if front.is_empty() {
            self.pieces.pop_front();
        }
        self.held -= bytes.len();
        self.taken += bytes.len();
        let left = data - u32::try_from(bytes.len()).unwrap_or(data);
        self.state = State::Payload { data: left, skip };
        Some(Piece::Payload { bytes, left })
    }

    fn message(&mut self) -> Result<Option<Piece>, FrameError> {
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
            (Side::Server, number::WRITE) => self.write(len),
            (Side::Client, number::DATA) => self.data(len),
            _ if self.held < 4 + bytes => Ok(None),
            _ => {
                self.drop_front(4);
                Ok(Some(Piece::Message(self.take_front(bytes))))
            }
        }
    }

    fn data(&mut self, len: u32) -> Result<Option<Piece>, FrameError> {
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
        self.state = State::Payload { data, skip };
        Ok(Some(Piece::Data { id, len: data }))
    }

    fn write(&mut self, len: u32) -> Result<Option<Piece>, FrameError> {
        let Some(fields) = self.peek::<8>(5) else {
            return Ok(None);
        };
        let mut reader = Reader::new(&fields);
        let (Ok(id), Ok(handle_len)) = (reader.u32(), reader.u32()) else {
            return Err(FrameError::BadPayload);
        };
        // A longer handle is none of ours: nothing is gathered for it.
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
        self.state = State::Payload { data, skip };
        Ok(Some(Piece::Write {
            id,
            handle,
            offset,
            len: data,
        }))
    }

    /// `N` bytes that stand `at` bytes from the front.
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

    /// Takes `count` bytes, which are there: in place where they lie in one piece.
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
