//! The client's side of one connection, without I/O toward the server: [`Session`] numbers and
//! encodes requests, limits the bytes in flight, and decodes the answers.
//!
//! Its owner sends the bytes of [`Session::fill`], passes received bytes to [`Session::feed`], and
//! gets the answers by [`Answers`].
//!
//! Invariants: an answer is accepted only if its id belongs to an unanswered request and its data
//! does not exceed the length asked for; the numbers of requests, handles and bytes in flight are
//! bounded.

use bytes::Bytes;
use wire::DecodeError;

use crate::frame::FrameError;
use crate::message::Reply;

mod flow;
mod outgoing;
mod requests;
mod session;

pub use outgoing::{Body, Spoiled};
pub use requests::Requests;
pub use session::{Server, Session, attributes_of, status_text};

/// The purpose of an unanswered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `limits@openssh.com`, sent by the session itself.
    Limits,
    /// OPEN of a file.
    Open,
    /// READ.
    Read,
    /// READ_RANGE, answered by several DATA.
    ReadRange,
    /// OPEN_READ, answered by the attributes and handle, then several DATA.
    OpenRead,
    /// WALK, answered by several parts of a tree.
    Walk,
    /// WALK of one file, answered by its content and STATUS.
    WalkFile,
    /// PUT_FILE.
    PutFile,
    /// WRITE.
    Write,
    /// CLOSE.
    Close,
    /// CLOSE of a file that was only read, sent by the session itself.
    CloseRead,
    /// CANCEL, sent by the session itself.
    Cancel,
    /// FSETSTAT that truncates a file to its length.
    Truncate,
    /// FSETSTAT or SETSTAT of mode and times.
    Attributes,
    /// STAT or LSTAT.
    Stat,
    /// FSTAT.
    Fstat,
    /// FSTAT for the owner of a newly created file.
    Owner,
    /// MKDIR.
    Mkdir,
    /// OPENDIR.
    Opendir,
    /// READDIR.
    Readdir,
    /// RENAME or posix-rename.
    Rename,
    /// REMOVE.
    Remove,
    /// fsync@openssh.com
    Sync,
    /// statvfs, after a write failed for lack of space.
    Space,
    /// HASH_RANGE.
    Hash,
    /// A single request whose caller waits for the answer.
    Plain,
}

impl Op {
    /// Returns true for requests answered by several messages, the last of which is STATUS.
    #[must_use]
    pub fn has_many(self) -> bool {
        self.is_long() || self == Self::WalkFile
    }

    /// Returns true for requests that may remain unanswered for long.
    #[must_use]
    pub fn is_long(self) -> bool {
        matches!(self, Self::ReadRange | Self::OpenRead | Self::Walk)
    }
}

/// Identifies the request that an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Number that the work chose, for example that of a file.
    pub job: usize,
    /// Purpose of the request.
    pub op: Op,
    /// Offset in the file, for READ and WRITE.
    pub offset: u64,
    /// Number of bytes read or written, for READ and WRITE; otherwise 0.
    pub len: u32,
}

impl Token {
    /// Token of a request without data.
    #[must_use]
    pub fn new(job: usize, op: Op) -> Self {
        Self {
            job,
            op,
            offset: 0,
            len: 0,
        }
    }

    /// Token of a READ or WRITE.
    #[must_use]
    pub fn data(job: usize, op: Op, offset: u64, len: u32) -> Self {
        Self {
            job,
            op,
            offset,
            len,
        }
    }
}

/// A violation of the protocol by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// The stream cannot be split into messages.
    Frame(FrameError),
    /// A message cannot be decoded.
    Undecodable(DecodeError),
    /// The server speaks an older version of the protocol.
    Version(u32),
    /// Another rule, named by the text.
    Rule(&'static str),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Output of a login shell ends here: its first four bytes are read as the length.
            Self::Frame(FrameError::TooLong(len)) => write!(
                f,
                "Received message too long {len}\nEnsure the remote shell produces no output for \
                 non-interactive sessions."
            ),
            Self::Frame(error) => write!(f, "the server broke the protocol: {error}"),
            Self::Undecodable(error) => write!(f, "the server sent a malformed message: {error}"),
            Self::Version(version) => write!(f, "the server speaks version {version}, not 3"),
            Self::Rule(rule) => write!(f, "the server broke the protocol: {rule}"),
        }
    }
}

/// What receives the answers of a session. `link` is the number of the connection that the caller
/// of [`Session::feed`] gave.
pub trait Answers {
    /// An answer other than DATA.
    fn reply(&mut self, link: usize, session: &mut Session, token: Token, reply: &Reply<'_>);

    /// Data of an answer, `at` bytes after the first byte of its DATA. Keeping `bytes` pins the
    /// receive buffer.
    fn data(&mut self, link: usize, token: Token, at: u32, bytes: &Bytes);

    /// A DATA has been received completely; it had `len` bytes.
    fn data_ends(&mut self, link: usize, session: &mut Session, token: Token, len: u32);
}
