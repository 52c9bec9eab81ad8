//! Local sockets between our own processes: pairs, descriptors in messages
//! (`SCM_RIGHTS`), who is at the other end.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::ffi::retry;
use crate::{Gid, Pid, Uid};

/// The most descriptors that one message carries. Our RPC never needs more than
/// a handful; the kernel's own limit is 253.
pub const MAX_FDS: usize = 8;

fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
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

/// Sends `bytes` with `fds` attached; returns how many bytes went (all of them on
/// a seqpacket socket). Never raises SIGPIPE.
///
/// # Errors
/// `InvalidInput` for more than [`MAX_FDS`] descriptors, or descriptors without a
/// byte; `WouldBlock`, `BrokenPipe` or the kernel's error.
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

/// What [`recv_with_fds`] brought.
#[derive(Debug)]
pub struct Received {
    /// Bytes written to the buffer; 0 is the end of the stream.
    pub len: usize,
    /// Descriptors that came along, close-on-exec, at most the number asked for.
    pub fds: Vec<OwnedFd>,
}

/// Receives bytes, and at most `max_fds` descriptors with them.
///
/// # Errors
/// `InvalidData` when a message is longer than `buffer` (seqpacket) or brings more
/// descriptors than allowed (all are closed then); `WouldBlock` or the kernel's error.
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
        return Err(invalid("message brings more descriptors than allowed"));
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

/// Who connected the other end of a local socket, as the kernel recorded it then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Its process id at that time.
    pub pid: Pid,
    /// Its effective user.
    pub uid: Uid,
    /// Its effective group.
    pub gid: Gid,
}

/// Asks who is at the other end (`SO_PEERCRED`).
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
