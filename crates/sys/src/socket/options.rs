//! Socket options: delays, keep-alive, type of service, and the kernel's information about a
//! connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::net::sockopt;

use crate::ffi::{check, socklen_of};

/// Sets or clears `TCP_NODELAY`.
///
/// # Errors
/// The kernel's error (`EOPNOTSUPP` on local sockets).
pub fn set_nodelay(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd.as_fd(), on)?)
}

/// Enables or disables immediate acknowledgements. The kernel resets the option by itself: set it
/// again after each read until authentication is over, so that a client that uses Nagle's algorithm
/// does not wait 40 ms twice.
///
/// # Errors
/// The kernel's error (`EOPNOTSUPP` on local sockets).
pub fn set_quickack(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(fd.as_fd(), on)?)
}

/// Sets or clears `SO_KEEPALIVE` (`TCPKeepAlive`).
///
/// # Errors
/// The kernel's error.
pub fn set_keepalive(fd: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_socket_keepalive(fd.as_fd(), on)?)
}

/// Sets the type-of-service byte (`IPQoS`) of a v4 or v6 socket; does nothing for sockets of other
/// families.
///
/// # Errors
/// The kernel's error.
pub fn set_tos(fd: impl AsFd, tos: u8) -> io::Result<()> {
    let fd = fd.as_fd();
    let local = match SocketAddr::try_from(rustix::net::getsockname(fd)?) {
        Ok(local) => local,
        Err(_) => return Ok(()),
    };
    match local {
        SocketAddr::V4(_) => Ok(sockopt::set_ip_tos(fd, tos)?),
        SocketAddr::V6(v6) => {
            if v6.ip().to_ipv4_mapped().is_some() {
                sockopt::set_ip_tos(fd, tos)?;
            }
            Ok(sockopt::set_ipv6_tclass(fd, u32::from(tos))?)
        }
    }
}

/// Sets the number of unsent bytes in the socket above which it is not writable
/// (`TCP_NOTSENT_LOWAT`), so that interactive bytes do not queue after bulk data.
///
/// # Errors
/// The kernel's error.
pub fn set_notsent_lowat(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    set_int(
        fd.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_NOTSENT_LOWAT,
        i32::try_from(bytes).unwrap_or(i32::MAX),
    )
}

/// Disables pacing of a connection whose two ends are on this machine; returns true if it did.
///
/// A congestion control that paces (`bbr`) starts a timer for each burst, which on loopback costs
/// more than the copy, and there is no path whose rate it could measure. Such a connection gets
/// `reno`, which every kernel has; other connections do not change.
///
/// # Errors
/// The kernel's error; harmless to ignore.
pub fn unpace_loopback(fd: impl AsFd) -> io::Result<bool> {
    let fd = fd.as_fd();
    let ours = SocketAddr::try_from(rustix::net::getsockname(fd)?);
    let peers = rustix::net::getpeername(fd)?.map(SocketAddr::try_from);
    match (ours, peers) {
        (Ok(ours), Some(Ok(peers))) if ours.ip() == peers.ip() => {}
        _ => return Ok(false),
    }
    let paces = sockopt::tcp_congestion(fd)?.starts_with("bbr");
    if paces {
        sockopt::set_tcp_congestion(fd, "reno")?;
    }
    Ok(paces)
}

/// Lets the listener accept TCP Fast Open connections, at most `queue` pending ones.
///
/// # Errors
/// The kernel's error; harmless to ignore.
pub fn set_fastopen_queue(listener: impl AsFd, queue: i32) -> io::Result<()> {
    set_int(
        listener.as_fd(),
        libc::IPPROTO_TCP,
        libc::TCP_FASTOPEN,
        queue,
    )
}

/// Lets the next connect of the socket use TCP Fast Open (`TCP_FASTOPEN_CONNECT`).
///
/// # Errors
/// The kernel's error; harmless to ignore.
pub fn set_fastopen_connect(fd: impl AsFd) -> io::Result<()> {
    set_int(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1)
}

/// Sets how long data may stay unacknowledged before the connection fails (`TCP_USER_TIMEOUT`).
///
/// # Errors
/// The kernel's error.
pub fn set_user_timeout(fd: impl AsFd, timeout: Duration) -> io::Result<()> {
    let millis = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    Ok(sockopt::set_tcp_user_timeout(fd.as_fd(), millis)?)
}

/// Binds a socket to a network interface (`SO_BINDTODEVICE`).
pub(super) fn bind_to_interface(fd: impl AsFd, interface: &str) -> io::Result<()> {
    let name = interface.as_bytes();
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "invalid network interface name",
        ));
    }
    let len = libc::socklen_t::try_from(name.len()).unwrap_or(0);
    // SAFETY: pointer and length describe `name`, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            len,
        )
    })?;
    Ok(())
}

/// Raises the TCP receive window to `bytes`, or to half of the maximum of `net.ipv4.tcp_rmem` if
/// that is less. A window that is already as large does not change, and the kernel continues to
/// tune it.
///
/// For each byte of its window the kernel reserves memory in the ratio of the connection's first
/// full segment. In a login such a segment arrives alone, in a buffer of twice its length or more,
/// while segments of bulk data arrive merged: the window then ends at a third of the memory that it
/// may use. A reader that waits for many bytes at once (`SO_RCVLOWAT`, tcp_set_rcvlowat) is granted
/// memory for them, and keeps it. By the kernel's accounting the grant may exceed the maximum of
/// `tcp_rmem` where it counts a byte as three, which is intended. A kernel before 4.18 changes
/// nothing.
///
/// # Errors
/// The kernel's error; harmless to ignore.
pub fn widen_receive_window(fd: impl AsFd, bytes: u32) -> io::Result<()> {
    let fd = fd.as_fd();
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)?;
    // Wakes the reader if bytes have arrived meanwhile.
    set_int(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, 1)
}

fn set_int(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: pointer and length describe a live i32, which the kernel only reads.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            socklen_of::<i32>(),
        )
    })?;
    Ok(())
}

/// The kernel's information about a TCP connection (`TCP_INFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub rtt_us: u32,
    /// Lowest round-trip time measured, in microseconds (0: not reported).
    pub min_rtt_us: u32,
    /// The receiver's estimate of the round-trip time, in microseconds.
    pub rcv_rtt_us: u32,
    /// Number of segments sent and not yet acknowledged.
    pub unacked_segments: u32,
    /// Number of bytes in the socket that were not sent yet.
    pub notsent_bytes: u32,
    /// Total time in which the peer's receive window limited sending, in microseconds (0: not
    /// reported).
    pub receiver_limited_us: u64,
    /// True if the SYN carried data: received, or sent and acknowledged (TCP Fast Open).
    pub syn_data: bool,
}

/// Bit of `tcpi_options` in linux/tcp.h.
const TCPI_OPT_SYN_DATA: u8 = 32;

/// Reads [`TcpInfo`]; fields that an older kernel does not report are 0.
///
/// # Errors
/// The kernel's error (`EOPNOTSUPP` on local sockets, `ENOTSOCK` on pipes).
pub fn tcp_info(fd: impl AsFd) -> io::Result<TcpInfo> {
    // SAFETY: tcp_info is a plain C struct of integers: all zeroes is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut len = socklen_of::<libc::tcp_info>();
    // SAFETY: the pointers are to live locals and `len` is the size of `info`;
    // the kernel writes at most that.
    check(unsafe {
        libc::getsockopt(
            fd.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    })?;
    Ok(TcpInfo {
        rtt_us: info.tcpi_rtt,
        min_rtt_us: info.tcpi_min_rtt,
        rcv_rtt_us: info.tcpi_rcv_rtt,
        unacked_segments: info.tcpi_unacked,
        notsent_bytes: info.tcpi_notsent_bytes,
        receiver_limited_us: info.tcpi_rwnd_limited,
        syn_data: info.tcpi_options & TCPI_OPT_SYN_DATA != 0,
    })
}

/// Number of bytes in the send queue that were not acknowledged yet (`SIOCOUTQ`).
///
/// # Errors
/// The kernel's error.
pub fn unacked_bytes(fd: impl AsFd) -> io::Result<u32> {
    let mut value: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (the same number as SIOCOUTQ) writes one int to a live local.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut value) })?;
    Ok(u32::try_from(value).unwrap_or(0))
}
