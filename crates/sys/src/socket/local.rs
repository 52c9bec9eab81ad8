//! Local sockets between processes: socket pairs, passing of descriptors (`SCM_RIGHTS`),
//! credentials of the peer.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::ffi::retry;
use crate::{Gid, Pid, Uid};

/// Largest number of descriptors per message. The RPC needs only a few; the kernel's own limit is
/// 253.
pub const MAX_FDS: usize = 8;

fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// A socket for messages to a named socket, blocking, close-on-exec.
pub(crate) fn unix_datagram() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Two connected stream sockets, blocking, close-on-exec.
///
/// # Errors
/// The kernel's error.
pub fn stream_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::STREAM)
}

/// Two connected sockets that keep message boundaries, blocking, close-on-exec.
///
/// # Errors
/// The kernel's error.
pub fn seqpacket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    pair(SocketType::SEQPACKET)
}

/// Sends `bytes` with `fds` attached; returns the number of bytes sent (all of them on a seqpacket
/// socket). Never raises SIGPIPE.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_FDS`] descriptors, or for descriptors without bytes;
/// `WouldBlock`, `BrokenPipe` or the kernel's error.
pub fn send_with_fds(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if fds.len() > MAX_FDS || (bytes.is_empty() && !fds.is_empty()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let socket = socket.as_fd();
    retry(|| {
        rustix::net::sendmsg(
            socket,
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
    })
}

/// Result of [`recv_with_fds`].
#[derive(Debug)]
pub struct Received {
    /// Number of bytes written to the buffer; 0 is the end of the stream.
    pub len: usize,
    /// Received descriptors, close-on-exec, at most `max_fds`.
    pub fds: Vec<OwnedFd>,
}

/// Receives bytes, and at most `max_fds` descriptors attached to them.
///
/// # Errors
/// `InvalidData` if a message is longer than `buffer` (seqpacket) or carries more descriptors than
/// allowed (all are closed then); `WouldBlock` or the kernel's error.
pub fn recv_with_fds(socket: impl AsFd, buffer: &mut [u8], max_fds: usize) -> io::Result<Received> {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let socket = socket.as_fd();
    let message = retry(|| {
        rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let mut fds = Vec::new();
    for entry in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = entry {
            fds.extend(rights);
        }
    }
    if fds.len() > max_fds || message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(invalid("message carries more descriptors than allowed"));
    }
    if message.flags.contains(ReturnFlags::TRUNC) {
        return Err(invalid("message is longer than its buffer"));
    }
    Ok(Received {
        len: message.bytes,
        fds,
    })
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Credentials of the process that connected the other end of a local socket, recorded by the
/// kernel at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id at that time.
    pub pid: Pid,
    /// Effective user id.
    pub uid: Uid,
    /// Effective group id.
    pub gid: Gid,
}

/// Returns the credentials of the peer (`SO_PEERCRED`).
///
/// # Errors
/// The kernel's error.
pub fn peer_credentials(socket: impl AsFd) -> io::Result<PeerCredentials> {
    let credentials = rustix::net::sockopt::socket_peercred(socket.as_fd())?;
    Ok(PeerCredentials {
        pid: credentials.pid.as_raw_nonzero().get(),
        uid: credentials.uid.as_raw(),
        gid: credentials.gid.as_raw(),
    })
}
