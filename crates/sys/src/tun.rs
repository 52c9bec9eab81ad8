//! TUN devices (Linux Documentation/networking/tuntap.rst) and the addresses of network
//! interfaces.
//!
//! Packets are preceded by virtio's header (`struct virtio_net_hdr`, [`HEADER_LEN`] bytes). With it
//! the kernel passes TCP segments as large as it uses internally, with the checksum not yet
//! computed, and accepts them in the same form.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::ffi::check;

/// Size of the header before the IP packet, in bytes. [`Tun`] reads and writes it; pass it on
/// unchanged.
pub const HEADER_LEN: usize = 10;
/// Largest packet in bytes, including its header.
pub const MAX_PACKET_LEN: usize = HEADER_LEN + 65_535;

/// A TUN device, which this descriptor reads from and writes to. It is removed on drop.
#[derive(Debug)]
pub struct Tun(OwnedFd);

impl Tun {
    /// Creates the device `name` in this thread's network namespace.
    ///
    /// # Errors
    /// `EPERM` without privilege, `ENOENT` if the kernel has no TUN devices, `EBUSY` if the name is
    /// in use.
    pub fn new(name: &str) -> io::Result<Self> {
        let flags = libc::IFF_TUN | libc::IFF_VNET_HDR | libc::IFF_TUN_EXCL;
        Ok(Self(attach(request(name)?, flags)?.0))
    }
}

/// What a device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunKind {
    /// IP packets: a device `tun0`, `tun1` and so on.
    PointToPoint,
    /// Ethernet frames: a device `tap0`, `tap1` and so on.
    Ethernet,
}

/// Opens the device with this number, or the first free one, in this thread's network namespace.
/// Returns a descriptor that does not block, and the interface's name. The kernel creates a device
/// that does not exist and removes it with the descriptor; whoever may not do that can open a
/// device that the administrator has made for the user (`ip tuntap add … user`).
///
/// With `with_header`, packets are preceded by virtio's header as those of [`Tun`]; without it the
/// descriptor carries packets of the device's MTU at most.
///
/// # Errors
/// `EPERM` without privilege, `ENOENT` if the kernel has no TUN devices, `EBUSY` if the device is
/// in use or of the other kind.
pub fn open_unit(
    kind: TunKind,
    unit: Option<u32>,
    with_header: bool,
) -> io::Result<(OwnedFd, String)> {
    let (flag, prefix) = match kind {
        TunKind::PointToPoint => (libc::IFF_TUN, "tun"),
        TunKind::Ethernet => (libc::IFF_TAP, "tap"),
    };
    let number = unit.map_or_else(|| "%d".to_owned(), |unit| unit.to_string());
    let header = match with_header {
        true => libc::IFF_VNET_HDR,
        false => 0,
    };
    let (fd, name) = attach(request(&format!("{prefix}{number}"))?, flag | header)?;
    crate::io::set_nonblocking(&fd, true)?;
    Ok((fd, name))
}

/// Opens the device that `request` names, with its offloads if it has virtio's header. Returns the
/// name that the kernel chose as well.
fn attach(mut request: libc::ifreq, flags: libc::c_int) -> io::Result<(OwnedFd, String)> {
    // SAFETY: a terminated path and flags.
    let fd =
        check(unsafe { libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })?;
    // SAFETY: open has just returned it; nobody else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // The kernel's field has 16 bits, of which the top one is used: the conversion keeps the bits.
    request.ifr_ifru.ifru_flags = i16::from_ne_bytes(
        u16::try_from(flags | libc::IFF_NO_PI)
            .map_err(|_| io::ErrorKind::InvalidInput)?
            .to_ne_bytes(),
    );
    // SAFETY: TUNSETIFF reads and writes one ifreq, which is a live local.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    // A device that outlives its descriptors keeps the header's size and the offloads of its last user.
    if flags & libc::IFF_VNET_HDR != 0 {
        let size = libc::c_int::try_from(HEADER_LEN).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: TUNSETVNETHDRSZ reads one int, which is a live local.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const size) })?;
    }
    let offloads = match flags & libc::IFF_VNET_HDR {
        0 => 0,
        _ => libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6,
    };
    let offloads = libc::c_ulong::from(offloads);
    // SAFETY: TUNSETOFFLOAD takes a number.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) })?;
    let name = request.ifr_name.iter().take_while(|byte| **byte != 0);
    let name: Vec<u8> = name.map(|byte| byte.to_ne_bytes()[0]).collect();
    Ok((fd, String::from_utf8_lossy(&name).into_owned()))
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Configuration of a network interface.
#[derive(Debug, Clone, Copy)]
pub struct Interface {
    /// Address of the interface.
    pub address: Ipv4Addr,
    /// Length of the network prefix in bits, 0 to 32.
    pub prefix_len: u8,
    /// Maximum transmission unit in bytes.
    pub mtu_bytes: i32,
    /// Length of the transmit queue in packets; the kernel drops packets beyond it.
    pub queue_packets: i32,
}

/// Configures the interface `name` of this thread's network namespace and brings it up.
///
/// # Errors
/// `ENODEV` if there is no such interface, `EPERM` without privilege, `InvalidInput` for a bad
/// prefix or name.
pub fn configure(name: &str, wanted: &Interface) -> io::Result<()> {
    let mask = match wanted.prefix_len {
        0 => 0,
        bits @ 1..=32 => u32::MAX << (32 - u32::from(bits)),
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let mut mtu = request(name)?;
    mtu.ifr_ifru.ifru_mtu = wanted.mtu_bytes;
    set(libc::SIOCSIFMTU, &mut mtu)?;
    let mut queue = request(name)?;
    queue.ifr_ifru.ifru_metric = wanted.queue_packets;
    set(libc::SIOCSIFTXQLEN, &mut queue)?;
    let mut address = request(name)?;
    address.ifr_ifru.ifru_addr = socket_address(wanted.address);
    set(libc::SIOCSIFADDR, &mut address)?;
    let mut netmask = request(name)?;
    netmask.ifr_ifru.ifru_netmask = socket_address(Ipv4Addr::from_bits(mask));
    set(libc::SIOCSIFNETMASK, &mut netmask)?;
    bring_up(name)
}

/// Brings the interface `name` of this thread's network namespace up.
///
/// # Errors
/// As [`configure`].
pub fn bring_up(name: &str) -> io::Result<()> {
    let mut request = request(name)?;
    set(libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS has filled in this field of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let up = i16::try_from(libc::IFF_UP).unwrap_or_default();
    request.ifr_ifru.ifru_flags = flags | up;
    set(libc::SIOCSIFFLAGS, &mut request)
}

/// Performs one ioctl on an interface, through a socket of this thread's network namespace.
fn set(operation: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // The type of an operation is the C library's choice; its number has 32 bits.
    let operation = operation as libc::Ioctl;
    // SAFETY: each of the operations used here reads and writes one ifreq, which is live.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), operation, std::ptr::from_mut(request)) })?;
    Ok(())
}

fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is a plain C struct of bytes and integers: all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() >= request.ifr_name.len() || bytes.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "invalid network interface name",
        ));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    Ok(request)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let v4 = libc::sockaddr_in {
        sin_family: libc::sa_family_t::try_from(libc::AF_INET).unwrap_or_default(),
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(address.octets()),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: both are 16 bytes of plain data; the kernel reads the family first.
    unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(v4) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn interface(last: u8) -> Interface {
        Interface {
            address: Ipv4Addr::new(10, 99, 0, last),
            prefix_len: 24,
            mtu_bytes: 1500,
            queue_packets: 100,
        }
    }

    /// There is no privilege, or no TUN devices in this kernel.
    fn skip(error: &io::Error) {
        let refused = [libc::EPERM, libc::EACCES, libc::ENOENT, libc::ENODEV];
        let code = error.raw_os_error().unwrap_or(0);
        assert!(refused.contains(&code), "{error}");
        println!("skipped: {error}");
    }

    /// A packet that leaves one device is read from its descriptor and, written to the other
    /// device, arrives there.
    #[test]
    fn packets_pass_between_two_networks() {
        let passed = std::thread::spawn(|| {
            crate::namespace::unshare_network()?;
            let tun = Tun::new("one")?;
            configure("one", &interface(1))?;
            let sender = UdpSocket::bind(("10.99.0.1", 0))?;
            let (receiver, other) = std::thread::spawn(|| {
                crate::namespace::unshare_network()?;
                let tun = Tun::new("one")?;
                configure("one", &interface(2))?;
                Ok::<_, io::Error>((UdpSocket::bind(("10.99.0.2", 7))?, tun))
            })
            .join()
            .unwrap()?;
            sender.send_to(b"hello", "10.99.0.2:7")?;
            let mut packet = vec![0; MAX_PACKET_LEN];
            loop {
                // A device that has just come up sends IPv6 packets by itself.
                let len = crate::io::read(&tun, &mut packet)?;
                if packet.get(HEADER_LEN).is_some_and(|first| first >> 4 == 4) {
                    crate::io::write(&other, &packet[..len])?;
                    break;
                }
            }
            let mut came = [0; 16];
            let (len, from) = receiver.recv_from(&mut came)?;
            assert_eq!(from.ip().to_string(), "10.99.0.1");
            Ok::<_, io::Error>(came[..len].to_vec())
        })
        .join()
        .unwrap();
        match passed {
            Ok(bytes) => assert_eq!(bytes, b"hello"),
            Err(error) => skip(&error),
        }
    }

    /// Virtual machines give a device a header of 12 bytes.
    #[test]
    fn a_device_that_stays_gets_our_header() {
        let sizes = std::thread::spawn(|| {
            crate::namespace::unshare_network()?;
            let open = || open_unit(TunKind::PointToPoint, Some(0), true);
            let (first, _) = open()?;
            let size = |fd: &OwnedFd| {
                let mut size: libc::c_int = 0;
                // SAFETY: TUNGETVNETHDRSZ writes one int, which is a live local.
                check(unsafe {
                    libc::ioctl(fd.as_raw_fd(), libc::TUNGETVNETHDRSZ, &raw mut size)
                })?;
                Ok::<_, io::Error>(size)
            };
            let longer: libc::c_int = 12;
            // SAFETY: TUNSETVNETHDRSZ reads one int, which is a live local; TUNSETPERSIST takes a number.
            unsafe {
                check(libc::ioctl(
                    first.as_raw_fd(),
                    libc::TUNSETVNETHDRSZ,
                    &raw const longer,
                ))?;
                check(libc::ioctl(
                    first.as_raw_fd(),
                    libc::TUNSETPERSIST,
                    1 as libc::c_ulong,
                ))?;
            }
            let before = size(&first)?;
            drop(first);
            // A process that another test starts has the descriptor too until it executes a program.
            let is_busy = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
            let mut again = open();
            for _ in 0..500 {
                if !again.as_ref().is_err_and(is_busy) {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
                again = open();
            }
            Ok::<_, io::Error>((before, size(&again?.0)?))
        })
        .join()
        .unwrap();
        match sizes {
            Ok(sizes) => assert_eq!(sizes, (12, 10)),
            Err(error) => skip(&error),
        }
    }

    #[test]
    fn names_that_no_interface_can_have_are_refused() {
        for name in ["", "a-name-of-more-than-15", "a\0b"] {
            let error = configure(name, &interface(1)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        let wide = Interface {
            prefix_len: 33,
            ..interface(1)
        };
        assert!(configure("lo", &wide).is_err());
    }
}
