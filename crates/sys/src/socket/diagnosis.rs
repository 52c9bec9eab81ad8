//! Listening sockets by the kernel's socket diagnosis: sock_diag(7), and linux/inet_diag.h for the
//! layout of its messages. The tables of /proc/net have all connections too, and reading one walks
//! the kernel's whole hash of them: 11 ms where this takes 40 µs.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

use crate::ffi::retry;

/// Length of a message's header: length (4 bytes), type and flags (2 each), sequence number and port
/// (4 each), in the machine's byte order.
const HEADER: usize = 16;
/// Length of `struct inet_diag_req_v2`.
const REQUEST: usize = 56;
/// `SOCK_DIAG_BY_FAMILY`.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const LIST: u16 = 0x301;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `TCP_LISTEN` in the set of states.
const LISTENING: u32 = 1 << 10;

/// Local addresses of the sockets that listen on `port` in this thread's network namespace.
///
/// # Errors
/// Those of netlink sockets; `ENOENT` if the kernel has no diagnosis.
pub(super) fn listeners(port: u16) -> io::Result<Vec<IpAddr>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut found = Vec::new();
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        ask(&socket, family, port, &mut found)?;
    }
    Ok(found)
}

fn ask(
    socket: &OwnedFd,
    family: AddressFamily,
    port: u16,
    found: &mut Vec<IpAddr>,
) -> io::Result<()> {
    let request = request(family, port);
    retry(|| rustix::net::send(socket, &request, SendFlags::empty()))?;
    let mut buffer = [0; 8 << 10];
    loop {
        let (length, _) = retry(|| rustix::net::recv(socket, &mut buffer, RecvFlags::empty()))?;
        if read(buffer.get(..length).unwrap_or_default(), found)? {
            return Ok(());
        }
    }
}

/// A request for the listeners of a family on a port.
fn request(family: AddressFamily, port: u16) -> [u8; HEADER + REQUEST] {
    let mut message = [0; HEADER + REQUEST];
    let length = 72_u32.to_ne_bytes();
    let family = u8::try_from(family.as_raw()).unwrap_or_default();
    // IPPROTO_TCP; no extensions.
    let fixed = [family, 6, 0, 0];
    let parts: [(usize, &[u8]); 6] = [
        (0, &length),
        (4, &BY_FAMILY.to_ne_bytes()),
        (6, &LIST.to_ne_bytes()),
        (HEADER, &fixed),
        (HEADER + 4, &LISTENING.to_ne_bytes()),
        (HEADER + 8, &port.to_be_bytes()),
    ];
    for (at, bytes) in parts {
        message[at..at + bytes.len()].copy_from_slice(bytes);
    }
    message
}

/// Adds the addresses of the messages of an answer; returns true after the last of the list.
fn read(mut answer: &[u8], found: &mut Vec<IpAddr>) -> io::Result<bool> {
    while let Some((length, kind)) = header(answer) {
        let body = answer.get(HEADER..length).unwrap_or_default();
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let code = body.first_chunk().map(|code| i32::from_ne_bytes(*code));
                return Err(io::Error::from_raw_os_error(
                    code.unwrap_or_default().wrapping_neg(),
                ));
            }
            _ => found.extend(address(body)),
        }
        // Messages begin at multiples of four bytes.
        answer = answer.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Length and type of the first message.
fn header(answer: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(*answer.first_chunk()?);
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let length = usize::try_from(length).ok()?;
    (HEADER..=answer.len())
        .contains(&length)
        .then_some((length, kind))
}

/// The local address of `struct inet_diag_msg`: the family is its first byte, the address begins at
/// the ninth.
fn address(body: &[u8]) -> Option<IpAddr> {
    let source = body.get(8..)?;
    match AddressFamily::from_raw((*body.first()?).into()) {
        AddressFamily::INET => Some(Ipv4Addr::from(*source.first_chunk::<4>()?).into()),
        AddressFamily::INET6 => Some(Ipv6Addr::from(*source.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listeners_are_found_at_their_addresses() {
        for at in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(at) else {
                // No IPv6 here.
                continue;
            };
            let address = listener.local_addr().unwrap();
            match listeners(address.port()) {
                Ok(found) => assert!(found.contains(&address.ip()), "{at}: {found:?}"),
                // A kernel without it.
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}"),
            }
        }
    }

    #[test]
    fn an_answer_is_read_to_its_end_and_a_broken_one_has_nothing() {
        let message = |kind: u16, body: &[u8]| {
            let length = u32::try_from(HEADER + body.len()).unwrap();
            let mut message = length.to_ne_bytes().to_vec();
            message.extend(kind.to_ne_bytes());
            message.extend([0; 10]);
            message.extend(body);
            message.resize(message.len().next_multiple_of(4), 0);
            message
        };
        let mut body = [0; 73];
        body[0] = 2;
        body[8..12].copy_from_slice(&[127, 0, 0, 2]);
        let entry = message(BY_FAMILY, &body);
        let mut found = Vec::new();
        let answer = [&entry[..], &entry, &message(DONE, &[0; 4]), &entry].concat();
        assert!(read(&answer, &mut found).unwrap());
        assert_eq!(found, [IpAddr::from([127, 0, 0, 2]); 2]);
        found.clear();
        assert!(!read(&entry[..entry.len() - 4], &mut found).unwrap());
        assert!(!read(&[0; 40], &mut found).unwrap());
        assert!(found.is_empty());
        let refused = message(ERROR, &(-libc::ENOENT).to_ne_bytes());
        let error = read(&refused, &mut found).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
