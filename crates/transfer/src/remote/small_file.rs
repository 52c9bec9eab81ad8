//! Small files, read whole and appended to.

use bytes::Bytes;
use sftp::message::{Reply, Request, open_flag, request};
use sftp::{Attributes, Code};

use super::{Kept, Remote, RemoteError, refused};
use crate::engine::{EngineError, Op, Session, Token, Transport, Work};

/// Bytes of one READ or WRITE, which every server permits.
const CHUNK_BYTES: u32 = 32 << 10;

/// One READ as a [`Work`].
struct Chunk<'q> {
    link: usize,
    token: Token,
    request: Option<Request<'q>>,
    data: Vec<u8>,
    /// The answer, if it is no data.
    answer: Option<Option<Kept>>,
    is_done: bool,
}

impl Work for Chunk<'_> {
    fn poll(&mut self, link: usize, session: &mut Session) -> bool {
        if link != self.link || !session.is_ready() {
            return false;
        }
        match self.request.take() {
            Some(request) => {
                session.send(self.token, &request);
                true
            }
            None => false,
        }
    }

    fn reply(&mut self, _link: usize, _session: &mut Session, _token: Token, reply: &Reply<'_>) {
        self.answer = Some(Kept::of(reply));
        self.is_done = true;
    }

    fn data(&mut self, _link: usize, _token: Token, _at: u32, bytes: &Bytes) {
        self.data.extend_from_slice(bytes);
    }

    fn data_ends(&mut self, _link: usize, _session: &mut Session, _token: Token, _len: u32) {
        self.is_done = true;
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn lost(&mut self, _why: &EngineError) {
        self.is_done = true;
    }
}

impl<T: Transport> Remote<T> {
    /// Reads a file, at most `most` bytes of it.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub fn read_whole(&mut self, path: &[u8], most: usize) -> Result<Vec<u8>, RemoteError> {
        self.meet()?;
        let handle = self.open(Request::Open(request::Open {
            path,
            flags: open_flag::READ,
            attributes: Attributes::NONE,
        }))?;
        let text = self.read_up_to(&handle, most);
        let closed = self.close(&handle);
        let text = text?;
        closed.map(|()| text)
    }

    fn read_up_to(&mut self, handle: &[u8], most: usize) -> Result<Vec<u8>, RemoteError> {
        let mut text = Vec::new();
        while text.len() < most {
            let offset = text.len() as u64;
            let len = CHUNK_BYTES;
            let mut work = Chunk {
                link: self.link,
                token: Token::data(0, Op::Read, offset, len),
                request: Some(Request::Read(request::Read {
                    handle,
                    offset,
                    len,
                })),
                data: Vec::new(),
                answer: None,
                is_done: false,
            };
            self.engine.run(&mut work)?;
            match work.answer {
                Some(Some(Kept::Status(Code::EOF, _))) => break,
                Some(Some(other)) => return Err(refused(other)),
                None if !work.data.is_empty() => text.append(&mut work.data),
                _ => return Err(RemoteError::Unexpected),
            }
        }
        text.truncate(most);
        Ok(text)
    }

    /// Appends bytes to a file of `size` bytes; creates it with `mode` if it does not exist.
    ///
    /// # Errors
    /// [`RemoteError`]; a part of the bytes may have been written.
    pub fn append(
        &mut self,
        path: &[u8],
        size: u64,
        bytes: &[u8],
        mode: u32,
    ) -> Result<(), RemoteError> {
        self.meet()?;
        let handle = self.open(Request::Open(request::Open {
            path,
            flags: open_flag::WRITE | open_flag::CREATE | open_flag::APPEND,
            attributes: Attributes::with_permissions(mode),
        }))?;
        let mut offset = size;
        let mut written = Ok(());
        for data in bytes.chunks(CHUNK_BYTES as usize) {
            written = self.tell(Request::Write(request::Write {
                handle: &handle,
                offset,
                data,
            }));
            if written.is_err() {
                break;
            }
            offset += data.len() as u64;
        }
        let closed = self.close(&handle);
        written.and(closed)
    }
}
