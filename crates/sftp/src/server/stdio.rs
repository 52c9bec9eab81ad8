//! A server on two file descriptors: `sftp-server`, as sshd starts it.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;

use bytes::BytesMut;
use packet::{BufPool, PacketBuf};
use sys::io::PollFd;

use super::{Buffers, Serve, ServeError, Work};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 256 * 1024;
/// Size of an answer buffer, bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// Number of buffers kept for reuse.
const KEPT_BUFFERS: usize = 32;
/// Maximum number of buffers per writev.
const MAX_SLICES: usize = 64;

/// Why a server ended before its client closed the session.
#[derive(Debug)]
pub enum StdioError {
    /// Reading or writing failed.
    Io(io::Error),
    /// The client broke the protocol.
    Serve(ServeError),
}

impl fmt::Display for StdioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Serve(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StdioError {}

impl From<io::Error> for StdioError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Pool(BufPool);

impl Buffers for Pool {
    fn take(&mut self, capacity: usize) -> PacketBuf {
        self.0.take(capacity)
    }

    fn max_bytes(&self) -> usize {
        BUFFER_BYTES
    }
}

/// Serves until the client closes `input`. Both descriptors become nonblocking.
///
/// # Errors
/// [`StdioError`].
pub fn run(serve: &mut Serve, input: impl AsFd, output: impl AsFd) -> Result<(), StdioError> {
    let (input, output) = (input.as_fd(), output.as_fd());
    sys::io::set_nonblocking(input, true)?;
    sys::io::set_nonblocking(output, true)?;
    let mut pool = Pool(BufPool::new(KEPT_BUFFERS).with_bulk_payload(BUFFER_BYTES));
    let mut sending = VecDeque::new();
    let mut sent = 0;
    let mut received = BytesMut::new();
    let mut input_open = true;
    let mut held = 0_usize;
    loop {
        let work = serve.work(&mut pool).map_err(StdioError::Serve)?;
        held -= serve.take_consumed().min(held);
        while let Some(buf) = serve.outbox().next_whole() {
            sending.push_back(buf);
        }
        let answered = !sending.is_empty();
        let blocked = send(output, &mut sending, &mut sent, &mut pool)?;
        if work == Work::Ended && sending.is_empty() {
            return Ok(());
        }
        // Read only after the received bytes are processed, so that they cannot accumulate.
        let reads = input_open && held < READ_BYTES && !blocked;
        if reads {
            received.reserve(READ_BYTES);
            match sys::io::read_into(input, &mut received) {
                Ok(0) => {
                    input_open = false;
                    serve.end_input();
                    continue;
                }
                Ok(count) => {
                    held += count;
                    serve.receive(received.split().freeze());
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Waiting answers may have blocked requests.
        if !blocked && (work == Work::Busy || answered) {
            continue;
        }
        if !blocked && !reads && input_open && work == Work::Waiting {
            // The received bytes are an incomplete message: read more.
            held = 0;
            continue;
        }
        if !blocked && !input_open {
            continue;
        }
        let mut fds = [
            PollFd::new(input, reads, false),
            PollFd::new(output, false, blocked),
        ];
        sys::io::poll(&mut fds, None)?;
    }
}

/// Writes as much as the descriptor accepts; returns true if it accepts no more now.
fn send(
    output: impl AsFd,
    sending: &mut VecDeque<PacketBuf>,
    sent: &mut usize,
    pool: &mut Pool,
) -> io::Result<bool> {
    while !sending.is_empty() {
        let slices: Vec<IoSlice<'_>> = sending
            .iter()
            .take(MAX_SLICES)
            .enumerate()
            .map(|(index, buf)| {
                let from = if index == 0 { *sent } else { 0 };
                IoSlice::new(buf.payload().get(from..).unwrap_or_default())
            })
            .collect();
        match sys::io::writev(&output, &slices) {
            Ok(count) => {
                *sent += count;
                while let Some(front) = sending.front()
                    && *sent >= front.len()
                {
                    *sent -= front.len();
                    if let Some(buf) = sending.pop_front() {
                        pool.0.give(buf);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
