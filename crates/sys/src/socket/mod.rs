//! TCP sockets: listen, accept, non-blocking connect, addresses.
//!
//! Options are in [`options`], local sockets and descriptor passing in
//! [`local`], names and addresses in [`resolve`]. Racing several addresses
//! (RFC 8305) is the client's.

pub mod listening;
pub mod local;
pub mod options;
pub mod resolve;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, Protocol, Shutdown, SocketAddrAny, SocketFlags, SocketType, ipproto, sockopt,
};

pub use listening::{free_port, is_listening, is_listening_in};
pub use local::{
    MAX_FDS, PeerCredentials, Received, peer_credentials, recv_with_fds, send_with_fds,
    seqpacket_pair, stream_pair,
};
pub use options::{
    TcpInfo, set_fastopen_queue, set_keepalive, set_nodelay, set_notsent_lowat, set_quickack,
    set_tos, tcp_info, unacked_bytes, unpace_loopback, widen_receive_window,
};
pub use resolve::{
    Family, ResolveError, Resolved, host_name, literal, resolve, reverse_confirmed, reverse_name,
};

fn family_of(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// A TCP socket with `TCP_NODELAY`; with `multipath` one of Multipath TCP (RFC 8684), where the
/// kernel has it and knows that option for it (5.16).
fn tcp_socket(address: &SocketAddr, multipath: bool) -> io::Result<OwnedFd> {
    let socket = |protocol: Option<Protocol>| -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let family = family_of(address);
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, protocol)?;
        options::set_nodelay(&fd, true)?;
        Ok(fd)
    };
    if multipath && let Ok(fd) = socket(Some(ipproto::MPTCP)) {
        return Ok(fd);
    }
    socket(None)
}

/// Whether the socket is one of Multipath TCP; the peer may still speak TCP only.
#[must_use]
pub fn is_multipath(fd: impl AsFd) -> bool {
    sockopt::socket_protocol(fd.as_fd()).is_ok_and(|protocol| protocol == Some(ipproto::MPTCP))
}

/// A listening TCP socket on `address`: close-on-exec, non-blocking, with
/// `TCP_NODELAY` for what it accepts. `reuse` sets `SO_REUSEADDR`; `v6only`
/// keeps a v6 socket from taking v4 connections too.
///
/// # Errors
/// The kernel's error (`EADDRINUSE`, `EACCES` below port 1024, …).
pub fn listen(address: SocketAddr, backlog: i32, reuse: bool, v6only: bool) -> io::Result<OwnedFd> {
    let fd = tcp_socket(&address, false)?;
    listen_on(fd, address, backlog, reuse, v6only)
}

/// The same by Multipath TCP where the kernel has it, for peers of both kinds.
///
/// # Errors
/// As [`listen`].
pub fn listen_multipath(
    address: SocketAddr,
    backlog: i32,
    reuse: bool,
    v6only: bool,
) -> io::Result<OwnedFd> {
    let fd = tcp_socket(&address, true)?;
    listen_on(fd, address, backlog, reuse, v6only)
}

fn listen_on(
    fd: OwnedFd,
    address: SocketAddr,
    backlog: i32,
    reuse: bool,
    v6only: bool,
) -> io::Result<OwnedFd> {
    if reuse {
        sockopt::set_socket_reuseaddr(&fd, true)?;
    }
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, v6only)?;
    }
    rustix::net::bind(&fd, &address)?;
    rustix::net::listen(&fd, backlog)?;
    Ok(fd)
}

/// Accepts one connection: close-on-exec, non-blocking. The address is that of
/// the peer, `::ffff:a.b.c.d` turned into plain v4.
///
/// # Errors
/// `WouldBlock` when none waits; `ECONNABORTED`, `EMFILE` and their like: go on
/// after a pause; a peer that is no IP socket is `Unsupported`.
pub fn accept(listener: impl AsFd) -> io::Result<(OwnedFd, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = listener.as_fd();
    let (fd, peer) = crate::ffi::retry(|| rustix::net::acceptfrom_with(listener, flags))?;
    let peer = match peer {
        Some(peer) => ip_address(peer)?,
        None => return Err(io::ErrorKind::NotConnected.into()),
    };
    Ok((fd, peer))
}

/// From where a connection leaves.
#[derive(Debug, Clone, Default)]
pub struct ConnectFrom {
    /// `BindAddress`: the source address; one of another family than the target's
    /// makes the attempt fail.
    pub address: Option<IpAddr>,
    /// `BindInterface`: the name of an interface (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// `UseMPTCP`: by Multipath TCP where the kernel has it.
    pub multipath: bool,
    /// TCP Fast Open (RFC 7413): where the kernel has a cookie of the target, the connection is
    /// there at once and the first bytes written leave with the SYN.
    pub fast_open: bool,
}

/// A connection attempt that was started.
#[derive(Debug)]
pub enum Connecting {
    /// Established at once (local peers may be).
    Done(OwnedFd),
    /// Wait until writable, then call [`connect_finish`].
    InProgress(OwnedFd),
}

/// Starts a non-blocking connection with `TCP_NODELAY` set from the first byte.
///
/// # Errors
/// The kernel's error, at once where it knows (no route, refused locally).
pub fn connect_start(target: SocketAddr, from: &ConnectFrom) -> io::Result<Connecting> {
    let fd = tcp_socket(&target, from.multipath)?;
    if let Some(interface) = &from.interface {
        options::bind_to_interface(&fd, interface)?;
    }
    if let Some(address) = from.address {
        if address.is_ipv4() != target.is_ipv4() {
            return Err(io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                "bind address is of another family than the target",
            ));
        }
        rustix::net::bind(&fd, &SocketAddr::new(address, 0))?;
    }
    if from.fast_open {
        // A kernel without it connects as ever.
        let _ = options::set_fastopen_connect(&fd);
    }
    match rustix::net::connect(&fd, &target) {
        Ok(()) => Ok(Connecting::Done(fd)),
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {
            Ok(Connecting::InProgress(fd))
        }
        Err(error) => Err(error.into()),
    }
}

/// The result of a connection attempt whose socket became writable.
///
/// # Errors
/// Why it failed (`ECONNREFUSED`, `EHOSTUNREACH`, `ETIMEDOUT`, …).
pub fn connect_finish(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    sockopt::socket_error(fd)??;
    // A socket that is writable for another reason has no peer yet.
    rustix::net::getpeername(fd)?;
    Ok(())
}

/// Whether the other end has said that nothing more comes, or the connection is broken. Bytes may
/// wait before that. Asks without waiting.
///
/// # Errors
/// The kernel's error.
pub fn peer_has_ended(fd: impl AsFd) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let fd = fd.as_fd();
    let mut fds = [PollFd::new(&fd, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default()))?;
    let ends = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    Ok(fds[0].revents().intersects(ends))
}

/// The address of this end, v4-mapped v6 turned into plain v4.
///
/// # Errors
/// `Unsupported` for a socket that is not IP, else the kernel's error
/// (`ENOTSOCK` for a pipe).
pub fn local_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    ip_address(rustix::net::getsockname(fd.as_fd())?)
}

/// The address of the other end, v4-mapped v6 turned into plain v4.
///
/// # Errors
/// As [`local_address`]; `NotConnected` without a peer.
pub fn peer_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    match rustix::net::getpeername(fd.as_fd())? {
        Some(peer) => ip_address(peer),
        None => Err(io::ErrorKind::NotConnected.into()),
    }
}

fn ip_address(address: SocketAddrAny) -> io::Result<SocketAddr> {
    let address = SocketAddr::try_from(address)
        .map_err(|_| io::Error::new(io::ErrorKind::Unsupported, "not an IP socket"))?;
    Ok(unmapped(address))
}

/// `[::ffff:192.0.2.1]:22` as `192.0.2.1:22`; others unchanged. Without this,
/// rules for v4 addresses would not match what a v6 listener accepts.
#[must_use]
pub fn unmapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(v4) => SocketAddr::new(IpAddr::V4(v4), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}

/// Which directions [`shutdown`] ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// No more reading.
    Read,
    /// No more writing: the peer sees the end of the stream.
    Write,
    /// Neither.
    Both,
}

/// Ends one or both directions of a connected socket.
///
/// # Errors
/// The kernel's error.
pub fn shutdown(fd: impl AsFd, direction: Direction) -> io::Result<()> {
    let how = match direction {
        Direction::Read => Shutdown::Read,
        Direction::Write => Shutdown::Write,
        Direction::Both => Shutdown::Both,
    };
    Ok(rustix::net::shutdown(fd.as_fd(), how)?)
}

/// Makes the next close send a reset instead of waiting for the peer: for
/// connections that are dropped for misbehaviour before authentication.
///
/// # Errors
/// The kernel's error.
pub fn reset_on_close(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(
        fd.as_fd(),
        Some(std::time::Duration::ZERO),
    )?)
}

/// Whether the descriptor is a socket at all (`sshd -i`, `ProxyCommand` pipes).
#[must_use]
pub fn is_socket(fd: impl AsFd) -> bool {
    sockopt::socket_type(fd.as_fd()).is_ok()
}
