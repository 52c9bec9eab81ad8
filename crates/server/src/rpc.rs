//! The unprivileged end of the RPC: one request at a time, each followed by a wait for its answer,
//! which may carry descriptors.
//!
//! A frame is read to its last byte and not beyond: the next message stays in the kernel until it
//! is requested. The session process relies on this: the snapshot, made by the least trusted
//! process, must not enter its memory while it still is root.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use privsep::frame::HEADER_BYTES;
use privsep::{Frame, FrameError, FrameHeader, Message};

/// Most descriptors of an answer: master and slave of a terminal, and its recorder's pipe.
const MAX_DESCRIPTORS: usize = 3;

/// Failure of the RPC. The process cannot continue after any of these.
#[derive(Debug)]
pub(crate) enum RpcError {
    /// The socket failed.
    Io(io::Error),
    /// The monitor closed its end, which ends the connection.
    Closed,
    /// The answer is not a valid frame.
    Frame(FrameError),
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "monitor: {error}"),
            Self::Closed => f.write_str("the monitor ended the connection"),
            Self::Frame(error) => write!(f, "answer of the monitor: {error}"),
        }
    }
}

impl std::error::Error for RpcError {}

impl From<io::Error> for RpcError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

impl From<FrameError> for RpcError {
    fn from(error: FrameError) -> Self {
        Self::Frame(error)
    }
}

/// This process's end of the socket to the monitor, blocking.
#[derive(Debug)]
pub(crate) struct Rpc {
    socket: OwnedFd,
    /// Held while a frame is written, because other threads than the connection's write log lines.
    writing: Mutex<()>,
}

impl Rpc {
    /// Wraps the socket.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        let writing = Mutex::new(());
        Self { socket, writing }
    }

    /// The process's only instance, which lives until the process ends.
    pub(crate) fn for_this_process(socket: OwnedFd) -> &'static Self {
        Box::leak(Box::new(Self::new(socket)))
    }

    /// The socket, to be watched for its end.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message that has no answer.
    pub(crate) fn send<M: Message>(&self, message: &M) -> Result<(), RpcError> {
        let mut frame = zeroize::Zeroizing::new(message.encode_frame());
        let sent = self.write(&frame);
        zeroize::Zeroize::zeroize(&mut *frame);
        Ok(sent?)
    }

    /// Sends two messages at once.
    pub(crate) fn send_both<A: Message, B: Message>(
        &self,
        first: &A,
        second: &B,
    ) -> Result<(), RpcError> {
        let mut frames = zeroize::Zeroizing::new(first.encode_frame());
        let mut second = zeroize::Zeroizing::new(second.encode_frame());
        frames.reserve_exact(second.len());
        frames.append(&mut second);
        Ok(self.write(&frames)?)
    }

    fn write(&self, frames: &[u8]) -> io::Result<()> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        sys::io::write_all(&self.socket, frames)
    }

    /// Closes the sending direction.
    pub(crate) fn finish(&self) {
        // An error means that the socket is already closed.
        let _ = sys::socket::shutdown(&self.socket, sys::socket::ShutdownDirection::Write);
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask<Q: Message, A: Message>(&self, request: &Q) -> Result<A, RpcError> {
        self.send(request)?;
        Ok(self.receive()?.0.decode()?)
    }

    /// Sends a request whose answer may have more than one form or bring descriptors.
    pub(crate) fn ask_frame<Q: Message>(
        &self,
        request: &Q,
    ) -> Result<(Frame, Vec<OwnedFd>), RpcError> {
        self.send(request)?;
        self.receive()
    }

    /// Waits for the next message, which may have more than one form; descriptors beside it are
    /// dropped.
    pub(crate) fn expect_frame(&self) -> Result<Frame, RpcError> {
        Ok(self.receive()?.0)
    }

    /// Waits for the next message, which must be an `M`.
    pub(crate) fn expect<M: Message>(&self) -> Result<M, RpcError> {
        Ok(self.receive()?.0.decode()?)
    }

    /// Waits for the next message, which must be an `M` with one descriptor.
    pub(crate) fn expect_with_descriptor<M: Message>(&self) -> Result<(M, OwnedFd), RpcError> {
        let (frame, descriptors) = self.receive()?;
        let message = frame.decode()?;
        let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not one descriptor"))?;
        Ok((message, descriptor))
    }

    fn receive(&self) -> Result<(Frame, Vec<OwnedFd>), RpcError> {
        let mut header = [0_u8; HEADER_BYTES];
        let mut descriptors = Vec::new();
        let mut filled = 0;
        while filled < HEADER_BYTES {
            let rest = header.get_mut(filled..).unwrap_or_default();
            let received = sys::socket::recv_with_fds(&self.socket, rest, MAX_DESCRIPTORS)?;
            if received.len == 0 {
                return Err(RpcError::Closed);
            }
            filled += received.len;
            descriptors.extend(received.fds);
        }
        let header = FrameHeader::parse(header)?;
        let mut frame = Frame {
            number: header.number,
            body: vec![0_u8; header.body_bytes],
        };
        let mut filled = 0;
        while filled < header.body_bytes {
            let rest = frame.body.get_mut(filled..).unwrap_or_default();
            let count = sys::io::read(&self.socket, rest)?;
            if count == 0 {
                return Err(RpcError::Closed);
            }
            filled += count;
        }
        Ok((frame, descriptors))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use privsep::{AuthNone, AuthOutcome, HostkeysProof, Log, LogLevel, PtyGranted};

    use super::*;

    fn pair() -> (Rpc, OwnedFd) {
        let (ours, theirs) = sys::socket::stream_pair().unwrap();
        (Rpc::new(ours), theirs)
    }

    #[test]
    fn an_answer_is_read_to_its_last_byte_and_not_beyond() {
        let (rpc, monitor) = pair();
        let mut bytes = AuthOutcome::Success.encode_frame();
        bytes.extend(
            HostkeysProof {
                signatures: vec![vec![1, 2, 3]],
            }
            .encode_frame(),
        );
        let length = AuthOutcome::Success.encode_frame().len();
        sys::io::write_all(&monitor, &bytes).unwrap();
        let outcome: AuthOutcome = rpc.ask(&AuthNone {}).unwrap();
        assert_eq!(outcome, AuthOutcome::Success);
        let waiting = sys::io::bytes_available(rpc.as_fd()).unwrap();
        assert_eq!(usize::try_from(waiting).unwrap(), bytes.len() - length);
    }

    #[test]
    fn descriptors_come_with_their_answer() {
        let (rpc, monitor) = pair();
        let granted = PtyGranted {
            tty: "/dev/pts/9".into(),
            last_login: None,
        };
        let null = sys::io::null().unwrap();
        let frame = granted.encode_frame();
        sys::socket::send_with_fds(&monitor, &frame, &[null.as_fd(), null.as_fd()]).unwrap();
        let (frame, descriptors) = rpc.ask_frame(&privsep::PtyAllocate {}).unwrap();
        assert_eq!(frame.decode::<PtyGranted>().unwrap(), granted);
        assert_eq!(descriptors.len(), 2);
    }

    #[test]
    fn a_wrong_answer_or_the_end_is_an_error_and_not_a_wait() {
        let (rpc, monitor) = pair();
        sys::io::write_all(
            &monitor,
            &Log {
                level: LogLevel::Info,
                is_forced: false,
                text: "x".into(),
                tail: None,
            }
            .encode_frame(),
        )
        .unwrap();
        assert!(matches!(
            rpc.ask::<_, AuthOutcome>(&AuthNone {}),
            Err(RpcError::Frame(_))
        ));
        sys::io::write_all(&monitor, &[0xff, 0xff, 0xff, 0xff, 1]).unwrap();
        assert!(matches!(
            rpc.expect::<AuthOutcome>(),
            Err(RpcError::Frame(FrameError::BadLength))
        ));
        drop(monitor);
        assert!(matches!(rpc.expect::<AuthOutcome>(), Err(RpcError::Closed)));
    }

    #[test]
    fn a_frame_that_comes_byte_by_byte_is_whole_in_the_end() {
        let (rpc, monitor) = pair();
        let writer = thread::spawn(move || {
            let failure = AuthOutcome::Failure {
                methods: vec!["publickey".into()],
            };
            for byte in failure.encode_frame() {
                sys::io::write_all(&monitor, &[byte]).unwrap();
            }
        });
        let outcome: AuthOutcome = rpc.expect().unwrap();
        assert_eq!(
            outcome,
            AuthOutcome::Failure {
                methods: vec!["publickey".into()]
            }
        );
        writer.join().unwrap();
    }
}
