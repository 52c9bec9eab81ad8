//! The inbox of one channel, with its received but unread data, and the channel's end.
//!
//! The window bounds the inbox: the peer is granted more only after
//! [`ChannelState::take_unreported`] has reported to the connection's thread how much was read.
//!
//! A caller waits for a change on the condition variable, or polls the descriptor of
//! [`ChannelState::readiness`].

use std::collections::VecDeque;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use driver::ChunkQueue;
use proto::Stream;
use sys::epoll::EventFd;

use crate::{Error, Exit};

/// Number of bytes read after which the connection's thread is woken. It is far below the quarter
/// of the window at which a grant is due, so that a peer never waits because of bytes already read.
const REPORT_BYTES: usize = 128 * 1024;
/// Most happenings kept for a handler that does not read them; older ones are dropped.
const MAX_HAPPENINGS: usize = 64;

/// A step towards the end of a channel.
pub(crate) enum End {
    /// No more data comes.
    Eof,
    /// The command ended.
    Exit(Exit),
    /// Both sides have closed.
    Closed,
}

/// An event on a server's channel other than data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// The client's terminal window has a new size.
    WindowChange {
        /// Width, characters.
        columns: u32,
        /// Height, rows.
        rows: u32,
    },
    /// A signal for the command: its name without `SIG`, as the client sent it.
    Signal(String),
    /// A break of this length, milliseconds (RFC 4335).
    Break(u32),
}

#[derive(Default)]
struct Inner {
    data: ChunkQueue,
    stderr: ChunkQueue,
    unreported: usize,
    discards_data: bool,
    discards_stderr: bool,
    eof: bool,
    closed: bool,
    exit: Option<Exit>,
    failure: Option<Error>,
    read_timeout: Option<Duration>,
    happenings: VecDeque<Happening>,
}

impl Inner {
    fn queue(&mut self, stream: Stream) -> &mut ChunkQueue {
        match stream {
            Stream::Data => &mut self.data,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Copies the queued bytes that fit into `buf` and returns their number.
    fn copy(&mut self, stream: Stream, buf: &mut [u8]) -> usize {
        self.queue(stream).copy_to(buf)
    }

    /// Counts bytes read; true if the connection's thread should be woken.
    fn charge(&mut self, bytes: usize) -> bool {
        let before = self.unreported;
        self.unreported = self.unreported.saturating_add(bytes);
        before < REPORT_BYTES && self.unreported >= REPORT_BYTES
    }

    /// Why an empty inbox stays empty: its end or an error; `None` if more data may arrive.
    fn verdict(&self) -> Option<Result<(), Error>> {
        if self.eof || self.closed {
            return Some(Ok(()));
        }
        self.failure.clone().map(Err)
    }
}

/// The inbox and state of a channel.
#[derive(Default)]
pub(crate) struct ChannelState {
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Signalled at each change, once somebody has asked for it.
    readiness: OnceLock<EventFd>,
}

/// The number of bytes read, and whether to wake the connection's thread.
pub(crate) struct Taken {
    pub(crate) bytes: usize,
    pub(crate) report: bool,
}

impl ChannelState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.changed.notify_all();
        if let Some(readiness) = self.readiness.get() {
            // Only a full counter can fail, and a full counter is a signal already.
            let _ = readiness.signal();
        }
    }

    // ---- the connection's thread ----------------------------------------------------------

    /// Queues data for the reader; false if the stream is discarded.
    pub(crate) fn push(&self, stream: Stream, data: Bytes) -> bool {
        let mut inner = self.lock();
        let discards = match stream {
            Stream::Data => inner.discards_data,
            Stream::Stderr => inner.discards_stderr,
        };
        if discards {
            return false;
        }
        inner.queue(stream).push(data);
        drop(inner);
        self.notify();
        true
    }

    pub(crate) fn end(&self, end: &End) {
        let mut inner = self.lock();
        match end {
            End::Eof => inner.eof = true,
            End::Exit(exit) => inner.exit = Some(exit.clone()),
            End::Closed => inner.closed = true,
        }
        drop(inner);
        self.notify();
    }

    /// The connection has ended with `error`.
    pub(crate) fn fail(&self, error: &Error) {
        self.lock().failure = Some(error.clone());
        self.notify();
    }

    /// Returns the number of bytes read since the last call.
    pub(crate) fn take_unreported(&self) -> usize {
        std::mem::take(&mut self.lock().unreported)
    }

    /// Discards both streams from now on; returns the number of bytes to grant for the data dropped
    /// or not yet reported.
    pub(crate) fn abandon(&self) -> usize {
        let mut inner = self.lock();
        inner.discards_data = true;
        inner.discards_stderr = true;
        let queued = inner.data.len() + inner.stderr.len();
        inner.data = ChunkQueue::default();
        inner.stderr = ChunkQueue::default();
        std::mem::take(&mut inner.unreported).saturating_add(queued)
    }

    pub(crate) fn happen(&self, happening: Happening) {
        let mut inner = self.lock();
        if inner.happenings.len() >= MAX_HAPPENINGS {
            inner.happenings.pop_front();
        }
        inner.happenings.push_back(happening);
        drop(inner);
        self.notify();
    }

    // ---- callers --------------------------------------------------------------------------

    /// Waits until `look` returns a value, at most for `timeout`; `None` on timeout.
    fn wait_for<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut(&mut Inner) -> Option<T>,
    ) -> Option<T> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut inner = self.lock();
        loop {
            if let Some(answer) = look(&mut inner) {
                return Some(answer);
            }
            inner = match deadline {
                None => self
                    .changed
                    .wait(inner)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    self.changed
                        .wait_timeout(inner, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// Reads queued bytes, or waits for some; 0 bytes at the end.
    pub(crate) fn read(&self, stream: Stream, buf: &mut [u8]) -> Result<Taken, Error> {
        let nothing = || Taken {
            bytes: 0,
            report: false,
        };
        if buf.is_empty() {
            return Ok(nothing());
        }
        let timeout = self.lock().read_timeout;
        let read = self.wait_for(timeout, |inner| {
            let bytes = inner.copy(stream, buf);
            if bytes > 0 {
                let report = inner.charge(bytes);
                return Some(Ok(Taken { bytes, report }));
            }
            inner.verdict().map(|end| end.map(|()| nothing()))
        });
        read.unwrap_or(Err(Error::TimedOut("reading from the channel")))
    }

    /// A descriptor that becomes readable when data or an end arrives.
    /// [`ChannelState::try_read`] makes it unreadable again.
    pub(crate) fn readiness(&self) -> io::Result<&EventFd> {
        if self.readiness.get().is_none() {
            // If two threads race, the first one's descriptor is kept.
            let _ = self.readiness.set(EventFd::new()?);
        }
        let readiness = self.readiness.get().ok_or(io::ErrorKind::Other)?;
        // The inbox may have bytes already.
        readiness.signal()?;
        Ok(readiness)
    }

    /// Reads queued bytes without waiting; `None` if there are none yet, 0 bytes at the end.
    pub(crate) fn try_read(&self, stream: Stream, buf: &mut [u8]) -> Result<Option<Taken>, Error> {
        if let Some(readiness) = self.readiness.get() {
            // A change after this line signals again.
            let _ = readiness.drain();
        }
        let mut inner = self.lock();
        let bytes = inner.copy(stream, buf);
        let has_more = !inner.queue(stream).is_empty();
        let taken = match bytes {
            0 => match inner.verdict() {
                Some(end) => end.map(|()| {
                    Some(Taken {
                        bytes: 0,
                        report: false,
                    })
                }),
                None => Ok(None),
            },
            bytes => {
                let report = inner.charge(bytes);
                Ok(Some(Taken { bytes, report }))
            }
        };
        // The end stays readable, and so do bytes that did not fit.
        let stays = has_more || inner.verdict().is_some();
        drop(inner);
        if stays && let Some(readiness) = self.readiness.get() {
            let _ = readiness.signal();
        }
        taken
    }

    /// Waits for data of either stream and takes all of it; both are empty at the end.
    pub(crate) fn read_both(&self) -> Result<(Vec<Bytes>, Vec<Bytes>, bool), Error> {
        let timeout = self.lock().read_timeout;
        let read = self.wait_for(timeout, |inner| {
            if inner.data.is_empty() && inner.stderr.is_empty() {
                let end = inner.verdict()?;
                return Some(end.map(|()| (Vec::new(), Vec::new(), false)));
            }
            let (data, stderr) = (inner.data.take(), inner.stderr.take());
            let bytes = data.iter().chain(&stderr).map(Bytes::len).sum();
            let report = inner.charge(bytes);
            Some(Ok((data, stderr, report)))
        });
        read.unwrap_or(Err(Error::TimedOut("reading from the channel")))
    }

    /// Discards stderr from now on; true if the connection's thread should be woken.
    pub(crate) fn discard_stderr(&self) -> bool {
        let mut inner = self.lock();
        inner.discards_stderr = true;
        let queued = inner.stderr.len();
        inner.stderr = ChunkQueue::default();
        inner.charge(queued)
    }

    /// Waits until the command has ended or the channel is closed.
    pub(crate) fn wait(&self) -> Result<Exit, Error> {
        let ended = self.wait_for(None, |inner| {
            if let Some(exit) = &inner.exit {
                return Some(Ok(exit.clone()));
            }
            if inner.closed {
                return Some(Ok(Exit::Unknown));
            }
            inner.failure.clone().map(Err)
        });
        ended.unwrap_or(Err(Error::Closed))
    }

    pub(crate) fn next_happening(&self, timeout: Option<Duration>) -> Option<Happening> {
        self.wait_for(timeout, |inner| match inner.happenings.pop_front() {
            Some(happening) => Some(Some(happening)),
            None if inner.closed || inner.failure.is_some() => Some(None),
            None => None,
        })
        .flatten()
    }

    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) {
        self.lock().read_timeout = timeout;
    }

    /// Why a write failed.
    pub(crate) fn write_failure(&self) -> Error {
        self.lock().failure.clone().unwrap_or(Error::ChannelClosed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(state: &ChannelState, room: usize) -> (Vec<u8>, bool) {
        let mut buf = vec![0; room];
        let taken = state.read(Stream::Data, &mut buf).unwrap();
        buf.truncate(taken.bytes);
        (buf, taken.report)
    }

    #[test]
    fn data_that_came_before_a_failure_is_read_before_the_error() {
        let state = ChannelState::default();
        assert!(state.push(Stream::Data, Bytes::from_static(b"abc")));
        state.fail(&Error::Closed);
        assert_eq!(read_all(&state, 2).0, b"ab");
        assert_eq!(read_all(&state, 2).0, b"c");
        assert!(matches!(
            state.read(Stream::Data, &mut [0; 1]),
            Err(Error::Closed)
        ));
    }

    #[test]
    fn a_cut_connection_is_no_end_of_file_but_eof_before_it_is() {
        let state = ChannelState::default();
        state.end(&End::Eof);
        state.fail(&Error::Closed);
        assert_eq!(read_all(&state, 9).0, b"");
    }

    #[test]
    fn reading_is_reported_once_it_is_worth_it() {
        let state = ChannelState::default();
        state.push(Stream::Data, Bytes::from(vec![1; REPORT_BYTES - 1]));
        state.push(Stream::Data, Bytes::from(vec![1; 2]));
        assert!(!read_all(&state, REPORT_BYTES - 1).1);
        assert!(read_all(&state, 1).1);
        assert!(!read_all(&state, 1).1);
        assert_eq!(state.take_unreported(), REPORT_BYTES + 1);
        assert_eq!(state.take_unreported(), 0);
    }

    #[test]
    fn what_nobody_reads_is_granted_back() {
        let state = ChannelState::default();
        state.push(Stream::Stderr, Bytes::from_static(b"12345"));
        state.push(Stream::Data, Bytes::from_static(b"6"));
        assert_eq!(state.abandon(), 6);
        assert!(!state.push(Stream::Data, Bytes::from_static(b"7")));
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_a_read_would_not_wait() {
        let state = ChannelState::default();
        let is_ready = || {
            let fd = state.readiness.get().unwrap();
            sys::io::wait_readable(fd, Some(Duration::ZERO)).unwrap()
        };
        let mut buf = [0; 2];
        let mut read = || {
            let taken = state.try_read(Stream::Data, &mut buf).unwrap();
            taken.map(|taken| taken.bytes)
        };
        state.push(Stream::Data, Bytes::from_static(b"abc"));
        state.readiness().unwrap();
        assert!(is_ready());
        assert_eq!(read(), Some(2));
        assert!(is_ready());
        assert_eq!(read(), Some(1));
        assert!(!is_ready());
        assert_eq!(read(), None);
        state.push(Stream::Data, Bytes::from_static(b"d"));
        assert!(is_ready());
        assert_eq!(read(), Some(1));
        state.end(&End::Eof);
        assert!(is_ready());
        assert_eq!(read(), Some(0));
        assert!(is_ready());
    }

    #[test]
    fn a_timeout_ends_a_wait() {
        let state = ChannelState::default();
        state.set_read_timeout(Some(Duration::from_millis(1)));
        assert!(matches!(
            state.read(Stream::Data, &mut [0; 1]),
            Err(Error::TimedOut(_))
        ));
    }
}
