//! TCP sockets: listening, accepting, non-blocking connect, addresses.
//!
//! [`datagram`] has UDP sockets, [`options`] socket options, [`local`] local sockets and passing of descriptors,
//! [`mod@resolve`] name resolution, [`lookups`] the same beside an epoll loop, [`unix`] sockets with a path. The client crate races connections to several addresses
//! (RFC 8305).

pub mod datagram;
mod diagnosis;
pub mod listening;
pub mod local;
pub mod lookups;
pub mod options;
pub mod resolve;
pub mod unix;

#[cfg(test)]
mod tests;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, Protocol, SendFlags, Shutdown, SocketAddrAny, SocketFlags, SocketType, ipproto,
    sockopt,
};

pub use listening::{free_port, is_listening, is_listening_in};
pub(crate) use local::unix_datagram;
pub use local::{
    MAX_FDS, PeerCredentials, Received, peer_credentials, recv_with_fds, send_with_fds,
    seqpacket_pair, stream_pair,
};
pub use lookups::{Lookup, LookupAnswer, Lookups};
pub use options::{
    TcpInfo, bound_device, set_fastopen_queue, set_keepalive, set_nodelay, set_notsent_lowat,
    set_quickack, set_tos, tcp_info, unacked_bytes, unpace_loopback, widen_receive_window,
};
pub use resolve::{
    Family, ResolveError, Resolved, host_name, literal, resolve, reverse_confirmed, reverse_name,
};
pub use unix::{
    SocketFile, accept_stream, connect_abstract, connect_unix, is_abandoned, listen_abstract,
    listen_unix, peek, unlink_own_socket,
};

fn family_of(address: &SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Sends as much as the socket accepts now, whether or not the descriptor blocks; `WouldBlock` if
/// nothing. Raises no SIGPIPE.
///
/// # Errors
/// The system's error.
pub fn send_now(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(rustix::io::retry_on_intr(|| {
        rustix::net::send(&socket, bytes, flags)
    })?)
}

/// Creates a TCP socket with `TCP_NODELAY`; with `multipath` a Multipath TCP socket (RFC 8684), if
/// the kernel supports it together with that option (5.16).
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

/// True if the socket uses Multipath TCP; the peer may still use plain TCP.
#[must_use]
pub fn is_multipath(fd: impl AsFd) -> bool {
    sockopt::socket_protocol(fd.as_fd()).is_ok_and(|protocol| protocol == Some(ipproto::MPTCP))
}

/// How a listening socket is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListenForm<'a> {
    /// Set `SO_REUSEADDR`.
    pub reuse: bool,
    /// An IPv6 socket does not accept IPv4 connections.
    pub v6only: bool,
    /// Multipath TCP if the kernel supports it; peers with plain TCP can connect too.
    pub multipath: bool,
    /// The network device (interface or VRF) whose connections alone are accepted
    /// (`SO_BINDTODEVICE`).
    pub device: Option<&'a str>,
}

/// Creates a listening TCP socket on `address`: close-on-exec, non-blocking, with `TCP_NODELAY` for
/// accepted connections. `reuse` sets `SO_REUSEADDR`; `v6only` stops a v6 socket from accepting v4
/// connections.
///
/// # Errors
/// The kernel's error (`EADDRINUSE`, `EACCES` below port 1024, …).
pub fn listen(address: SocketAddr, backlog: i32, reuse: bool, v6only: bool) -> io::Result<OwnedFd> {
    let form = ListenForm {
        reuse,
        v6only,
        ..ListenForm::default()
    };
    listen_as(address, backlog, form)
}

/// As [`listen`], with all choices.
///
/// # Errors
/// As [`listen`]; also `ENODEV` if there is no such device.
pub fn listen_as(address: SocketAddr, backlog: i32, form: ListenForm<'_>) -> io::Result<OwnedFd> {
    let fd = tcp_socket(&address, form.multipath)?;
    if let Some(device) = form.device {
        options::bind_to_interface(&fd, device)?;
    }
    listen_on(fd, address, backlog, form.reuse, form.v6only)
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

/// Accepts one connection: close-on-exec, non-blocking. Returns the peer's address, with
/// `::ffff:a.b.c.d` converted to v4.
///
/// # Errors
/// `WouldBlock` if no connection is pending; `ECONNABORTED`, `EMFILE` and similar, after which the
/// caller should pause and go on; `Unsupported` for a peer without an IP address.
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

/// Local end and protocol of an outgoing connection.
#[derive(Debug, Clone, Default)]
pub struct ConnectFrom {
    /// `BindAddress`: the source address. If its family differs from the target's, the attempt
    /// fails.
    pub address: Option<IpAddr>,
    /// `BindInterface`: name of the interface (`SO_BINDTODEVICE`).
    pub interface: Option<String>,
    /// `UseMPTCP`: use Multipath TCP if the kernel supports it.
    pub multipath: bool,
    /// Use TCP Fast Open (RFC 7413): if the kernel has a cookie of the target, the connection is
    /// established at once and the first bytes written are sent with the SYN.
    pub fast_open: bool,
}

/// A started connection attempt.
#[derive(Debug)]
pub enum Connecting {
    /// Established at once (possible for local peers).
    Done(OwnedFd),
    /// Wait until writable, then call [`connect_finish`].
    InProgress(OwnedFd),
}

/// Starts a non-blocking connection with `TCP_NODELAY` set from the first byte.
///
/// # Errors
/// The kernel's error if the attempt fails at once (no route, refused locally).
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
        // A kernel without Fast Open connects normally.
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

/// Returns the result of a connection attempt after its socket has become writable.
///
/// # Errors
/// The reason of the failure (`ECONNREFUSED`, `EHOSTUNREACH`, `ETIMEDOUT`, …).
pub fn connect_finish(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd();
    sockopt::socket_error(fd)??;
    // A socket that became writable for another reason has no peer yet.
    rustix::net::getpeername(fd)?;
    Ok(())
}

/// True if the peer has closed its sending direction or the connection is broken. Unread bytes may
/// still be available. Does not block.
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

/// Local address, with v4-mapped v6 addresses converted to v4.
///
/// # Errors
/// `Unsupported` for a socket that is not IP, else the kernel's error
/// (`ENOTSOCK` for a pipe).
pub fn local_address(fd: impl AsFd) -> io::Result<SocketAddr> {
    ip_address(rustix::net::getsockname(fd.as_fd())?)
}

/// Address of the peer, with v4-mapped v6 addresses converted to v4.
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

/// Converts `[::ffff:192.0.2.1]:22` to `192.0.2.1:22`; returns others unchanged. Without this,
/// rules for v4 addresses would not match connections to a v6 listener.
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

/// Directions that [`shutdown`] closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShutdownDirection {
    /// No more reading.
    Read,
    /// No more writing: the peer sees the end of the stream.
    Write,
    /// Neither reading nor writing.
    Both,
}

/// Closes one or both directions of a connected socket.
///
/// # Errors
/// The kernel's error.
pub fn shutdown(fd: impl AsFd, direction: ShutdownDirection) -> io::Result<()> {
    let how = match direction {
        ShutdownDirection::Read => Shutdown::Read,
        ShutdownDirection::Write => Shutdown::Write,
        ShutdownDirection::Both => Shutdown::Both,
    };
    Ok(rustix::net::shutdown(fd.as_fd(), how)?)
}

/// Makes the next close send a reset instead of waiting for the peer, for connections that are
/// dropped for misbehaviour before authentication.
///
/// # Errors
/// The kernel's error.
pub fn reset_on_close(fd: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(
        fd.as_fd(),
        Some(std::time::Duration::ZERO),
    )?)
}

/// True if the descriptor is a socket (`sshd -i` and `ProxyCommand` may use pipes).
#[must_use]
pub fn is_socket(fd: impl AsFd) -> bool {
    sockopt::socket_type(fd.as_fd()).is_ok()
}
