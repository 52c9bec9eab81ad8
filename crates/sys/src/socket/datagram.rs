//! UDP sockets: bound ones that answer each peer from the address that it has used, and connected
//! ones whose address may change.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};

use super::family_of;
use crate::ffi::{check, socklen_of};

/// Largest payload of a datagram, bytes: that of UDP over IPv6 without jumbograms. IPv4 takes
/// 65,507.
pub const MAX_DATAGRAM_BYTES: usize = 65_527;

/// Space for one control message with an address, bytes.
const CONTROL_BYTES: usize = 64;

/// The type of a length of control messages, which is the C library's choice.
#[cfg(target_env = "gnu")]
type ControlLen = usize;
#[cfg(not(target_env = "gnu"))]
type ControlLen = libc::socklen_t;

const CONTROL_LEN: ControlLen = CONTROL_BYTES as ControlLen;

/// Who has sent a datagram to a bound socket, and to which of this machine's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatagramPeer {
    /// The sender.
    pub address: SocketAddr,
    /// The address that it has sent to; `None` if the kernel did not report it.
    pub local: Option<IpAddr>,
}

fn udp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::DGRAM;
    Ok(rustix::net::socket_with(family, kind, flags, None)?)
}

/// Creates a socket bound to `address`: close-on-exec, non-blocking. A v6 socket receives no v4
/// datagrams.
///
/// # Errors
/// The kernel's error (`EADDRINUSE`, `EACCES` below port 1024, …).
pub fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    let fd = udp_socket(family_of(&address))?;
    let (level, name) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        SocketAddr::V6(_) => {
            sockopt::set_ipv6_v6only(&fd, true)?;
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
        }
    };
    let on: libc::c_int = 1;
    // SAFETY: the kernel reads one `c_int` at the address of `on`, which lives through the call.
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const on).cast(),
            socklen_of::<libc::c_int>(),
        )
    })?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// Creates a socket whose only peer is the first of `addresses` to which there is a route:
/// close-on-exec, non-blocking. Returns the addresses that were not tried as well, for
/// [`reconnect`].
///
/// # Errors
/// The last address's error.
pub fn connect(addresses: &[SocketAddr]) -> io::Result<(OwnedFd, &[SocketAddr])> {
    let has_v6 = addresses.iter().any(SocketAddr::is_ipv6);
    let v6 = has_v6.then(|| udp_socket(AddressFamily::INET6));
    let fd = match v6 {
        Some(Ok(fd)) => {
            sockopt::set_ipv6_v6only(&fd, false)?;
            fd
        }
        // A kernel without IPv6 still reaches the v4 addresses.
        Some(Err(error)) if addresses.iter().all(SocketAddr::is_ipv6) => return Err(error),
        Some(Err(_)) | None => udp_socket(AddressFamily::INET)?,
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut rest = addresses;
    while let Some((address, others)) = rest.split_first() {
        match reconnect(&fd, *address) {
            Ok(()) => return Ok((fd, others)),
            Err(error) => last = error,
        }
        rest = others;
    }
    Err(last)
}

/// Makes `address` the only peer of a socket of [`connect`]. A v4 address is possible for both
/// families.
///
/// # Errors
/// The kernel's error (`ENETUNREACH`, …).
pub fn reconnect(fd: impl AsFd, address: SocketAddr) -> io::Result<()> {
    let fd = fd.as_fd();
    // The former peer has also chosen the local address.
    rustix::net::connect_unspec(fd)?;
    let is_v6 = sockopt::socket_domain(fd)? == AddressFamily::INET6;
    let address = match address {
        SocketAddr::V4(v4) if is_v6 => {
            SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
        }
        other => other,
    };
    Ok(rustix::net::connect(fd, &address)?)
}

/// True for the error of [`send`] on a socket without a peer: the last [`reconnect`] failed.
#[must_use]
pub fn lacks_peer(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EDESTADDRREQ)
}

/// Receives a datagram of a connected socket; returns its length, which may be 0. `buffer` should
/// have [`MAX_DATAGRAM_BYTES`]: the rest of a longer datagram is lost.
///
/// # Errors
/// `WouldBlock` without a datagram; `ConnectionRefused` once after the peer's host has reported that
/// nobody listens.
pub fn recv(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let fd = fd.as_fd();
    let flags = RecvFlags::DONTWAIT;
    let (count, _) = crate::ffi::retry(|| rustix::net::recv(fd, &mut *buffer, flags))?;
    Ok(count)
}

/// Sends a datagram on a connected socket.
///
/// # Errors
/// `WouldBlock` if the socket's buffer is full, `EMSGSIZE` for a datagram that is too long, and the
/// errors of [`recv`].
pub fn send(fd: impl AsFd, bytes: &[u8]) -> io::Result<()> {
    let fd = fd.as_fd();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    crate::ffi::retry(|| rustix::net::send(fd, bytes, flags))?;
    Ok(())
}

/// Receives a datagram of a bound socket; returns its length, which may be 0, and its peer. As
/// [`recv`], but the errors of peers are not reported.
///
/// # Errors
/// `WouldBlock` without a datagram.
pub fn recv_from(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, DatagramPeer)> {
    let mut control = ControlBuffer([0; CONTROL_BYTES]);
    // SAFETY: all zeros is a valid value of both structures.
    let (mut name, mut message) =
        unsafe { std::mem::zeroed::<(libc::sockaddr_storage, libc::msghdr)>() };
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = socklen_of::<libc::sockaddr_storage>();
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL_LEN;
    let number = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel writes within the lengths given for `name`, `buffer` and `control`, which
    // live through the call.
    let count =
        retry_size(|| unsafe { libc::recvmsg(number, &raw mut message, libc::MSG_DONTWAIT) })?;
    let address = address_of(&name)?;
    let local = local_of(&message);
    Ok((count, DatagramPeer { address, local }))
}

/// Sends `head` and `bytes` as one datagram to `peer`, from the address that it has sent to.
///
/// # Errors
/// As [`send`].
pub fn send_to(fd: impl AsFd, head: &[u8], bytes: &[u8], peer: &DatagramPeer) -> io::Result<()> {
    let mut control = ControlBuffer([0; CONTROL_BYTES]);
    // SAFETY: all zeros is a valid value of both structures.
    let (mut name, mut message) =
        unsafe { std::mem::zeroed::<(libc::sockaddr_storage, libc::msghdr)>() };
    let part = |bytes: &[u8]| libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let mut parts = [part(head), part(bytes)];
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = put_address(&mut name, &peer.address);
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = 2;
    if let Some(local) = peer.local {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = CONTROL_LEN;
        put_local(&mut message, local);
    }
    let number = fd.as_fd().as_raw_fd();
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads within the lengths given for `name`, `parts` and `control`, which
    // live through the call; it does not write to them.
    retry_size(|| unsafe { libc::sendmsg(number, &raw const message, flags) })?;
    Ok(())
}

/// Control messages, aligned as `cmsghdr` requires.
#[repr(C, align(8))]
struct ControlBuffer([u8; CONTROL_BYTES]);

fn retry_size(mut call: impl FnMut() -> libc::ssize_t) -> io::Result<usize> {
    loop {
        match usize::try_from(call()) {
            Ok(count) => return Ok(count),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

fn address_of(name: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
    let from: *const libc::sockaddr_storage = name;
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that this is a `sockaddr_in`, which is smaller and less aligned.
            let v4 = unsafe { &*from.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a `sockaddr_in6`, which is smaller and less aligned.
            let v6 = unsafe { &*from.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "not an IP socket",
        )),
    }
}

fn put_address(name: &mut libc::sockaddr_storage, address: &SocketAddr) -> libc::socklen_t {
    let to: *mut libc::sockaddr_storage = name;
    match address {
        SocketAddr::V4(v4) => {
            // SAFETY: a `sockaddr_storage` holds a `sockaddr_in`, and all zeros is a valid one.
            let out = unsafe { &mut *to.cast::<libc::sockaddr_in>() };
            out.sin_family = libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default();
            out.sin_port = v4.port().to_be();
            out.sin_addr.s_addr = u32::from(*v4.ip()).to_be();
            socklen_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: a `sockaddr_storage` holds a `sockaddr_in6`, and all zeros is a valid one.
            let out = unsafe { &mut *to.cast::<libc::sockaddr_in6>() };
            out.sin6_family = libc::sa_family_t::try_from(libc::AF_INET6).unwrap_or_default();
            out.sin6_port = v6.port().to_be();
            out.sin6_addr.s6_addr = v6.ip().octets();
            out.sin6_scope_id = v6.scope_id();
            socklen_of::<libc::sockaddr_in6>()
        }
    }
}

/// The local address in the control messages of a received datagram.
fn local_of(message: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel has filled `message` and its control buffer, which is aligned and alive.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return null or a whole header within the buffer.
        let header = unsafe { &*next };
        // SAFETY: the data of a header follows it, as much as its type has (`read_unaligned`).
        let data = unsafe { libc::CMSG_DATA(next) };
        match (header.cmsg_level, header.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                // SAFETY: the kernel writes an `in_pktinfo` for this type.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                let address = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
                return Some(address.into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                // SAFETY: the kernel writes an `in6_pktinfo` for this type.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            _ => {}
        }
        // SAFETY: `next` is a header of `message`'s buffer.
        next = unsafe { libc::CMSG_NXTHDR(message, next) };
    }
    None
}

/// Fills the control buffer of `message`, of [`CONTROL_BYTES`] zeros, with the address to send from.
fn put_local(message: &mut libc::msghdr, local: IpAddr) {
    // SAFETY: the buffer is aligned and longer than a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return;
    }
    // SAFETY: not null; the data follows the header.
    let data = unsafe { libc::CMSG_DATA(header) };
    let (level, kind, size) = match local {
        IpAddr::V4(v4) => {
            // SAFETY: all zeros is a valid value.
            let mut info = unsafe { std::mem::zeroed::<libc::in_pktinfo>() };
            info.ipi_spec_dst.s_addr = u32::from(v4).to_be();
            // SAFETY: the buffer has space for a header and this structure (checked by a test).
            unsafe { data.cast::<libc::in_pktinfo>().write_unaligned(info) };
            let size = socklen_of::<libc::in_pktinfo>();
            (libc::IPPROTO_IP, libc::IP_PKTINFO, size)
        }
        IpAddr::V6(v6) => {
            // SAFETY: all zeros is a valid value.
            let mut info = unsafe { std::mem::zeroed::<libc::in6_pktinfo>() };
            info.ipi6_addr.s6_addr = v6.octets();
            // SAFETY: the buffer has space for a header and this structure (checked by a test).
            unsafe { data.cast::<libc::in6_pktinfo>().write_unaligned(info) };
            let size = socklen_of::<libc::in6_pktinfo>();
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size)
        }
    };
    // SAFETY: computes sizes only.
    let (len, space) = unsafe { (libc::CMSG_LEN(size), libc::CMSG_SPACE(size)) };
    // SAFETY: not null, and within the buffer.
    let header = unsafe { &mut *header };
    header.cmsg_level = level;
    header.cmsg_type = kind;
    header.cmsg_len = ControlLen::try_from(len).unwrap_or_default();
    message.msg_controllen = ControlLen::try_from(space).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    fn wait<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                other => return other,
            }
        }
    }

    #[test]
    fn control_messages_have_space() {
        for size in [
            socklen_of::<libc::in_pktinfo>(),
            socklen_of::<libc::in6_pktinfo>(),
        ] {
            // SAFETY: computes a size only.
            let space = unsafe { libc::CMSG_SPACE(size) };
            assert!(usize::try_from(space).unwrap() <= CONTROL_BYTES);
        }
    }

    #[test]
    fn an_answer_comes_from_the_address_that_was_asked() {
        for (any, asked) in [
            ("0.0.0.0:0", "127.0.0.2"),
            ("0.0.0.0:0", "127.0.0.1"),
            ("[::]:0", "::1"),
        ] {
            let Ok(bound) = bind(any.parse().unwrap()) else {
                // A machine without IPv6.
                assert!(any.contains(':'));
                continue;
            };
            let port = super::super::local_address(&bound).unwrap().port();
            let asked = SocketAddr::new(asked.parse().unwrap(), port);
            let local = if asked.is_ipv4() {
                "127.0.0.1:0"
            } else {
                "[::1]:0"
            };
            let client = UdpSocket::bind(local).unwrap();
            client.connect(asked).unwrap();
            let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
            for text in [&b"words"[..], b"", &[7; 60_000]] {
                client.send(text).unwrap();
                let (count, peer) = wait(|| recv_from(&bound, &mut buffer)).unwrap();
                assert_eq!(&buffer[..count], text);
                assert_eq!(peer.address, client.local_addr().unwrap());
                assert_eq!(peer.local, Some(asked.ip()));
                send_to(&bound, b"head ", text, &peer).unwrap();
                // Connected: it receives nothing from another address.
                let count = client.recv(&mut buffer).unwrap();
                assert_eq!(buffer[..count], [b"head ", text].concat());
            }
        }
    }

    #[test]
    fn a_refusal_is_reported_once_and_the_next_address_may_be_of_the_other_family() {
        let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let addresses = [
            SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port),
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port),
        ];
        let Ok((socket, others)) = connect(&addresses) else {
            return;
        };
        if let [next] = others {
            let mut buffer = [0; 64];
            send(&socket, b"lost").unwrap();
            let error = wait(|| recv(&socket, &mut buffer)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let error = recv(&socket, &mut buffer).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            reconnect(&socket, *next).unwrap();
        }
        send(&socket, b"found").unwrap();
        let mut buffer = [0; 64];
        let (count, from) = listener.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"found");
        listener.send_to(b"answer", from).unwrap();
        let count = wait(|| recv(&socket, &mut buffer)).unwrap();
        assert_eq!(&buffer[..count], b"answer");
    }
}
