//! A peer's algorithms, read from its unencrypted KEXINIT (RFC 4253 §7.1): for programs that cannot
//! list their algorithms.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::process::Background;
use crate::scratch::{retry, until};
use crate::suite::Algorithms;

const LIMIT: Duration = Duration::from_secs(60);
const MSG_KEXINIT: u8 = 20;

/// The algorithms of the server on a loopback port.
///
/// # Errors
/// If it cannot be reached or is not an SSH server.
pub fn of_server(port: u16) -> io::Result<Algorithms> {
    let stream = retry(LIMIT, || TcpStream::connect(("127.0.0.1", port)))?;
    read_offers(stream)
}

/// The algorithms of a client that `command` starts for the given port.
///
/// # Errors
/// If it cannot be started, does not connect or is not an SSH client.
pub fn of_client(command: impl FnOnce(u16) -> Command) -> io::Result<Algorithms> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let mut command = command(listener.local_addr()?.port());
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut client = Background::start(&mut command)?;
    let mut accepted = None;
    until(LIMIT, || {
        accepted = listener.accept().ok();
        accepted.is_some() || matches!(client.0.try_wait(), Ok(Some(_)))
    });
    let Some((stream, _)) = accepted else {
        return Err(io::Error::other("the client did not connect"));
    };
    stream.set_nonblocking(false)?;
    read_offers(stream)
}

/// The same, with the types of the fixture's host keys, and the error as text.
///
/// # Errors
/// As [`of_client`].
pub fn of_peer(command: impl FnOnce(u16) -> Command) -> Result<Algorithms, String> {
    of_client(command)
        .map(crate::fixture::with_host_keys)
        .map_err(|error| error.to_string())
}

fn read_offers(mut stream: TcpStream) -> io::Result<Algorithms> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"SSH-2.0-Fulmar_interop\r\n")?;
    loop {
        if read_line(&mut stream)?.starts_with(b"SSH-") {
            break;
        }
    }
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let [a, b, c, d, padding] = head;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if length > 35_000 || length <= usize::from(padding) + 18 {
        return Err(io::Error::other("the first packet has an odd length"));
    }
    let mut packet = vec![0; length - 1];
    stream.read_exact(&mut packet)?;
    let lists = packet
        .split_first()
        .filter(|(kind, _)| **kind == MSG_KEXINIT)
        .and_then(|(_, rest)| rest.get(16..))
        .and_then(name_lists)
        .ok_or_else(|| io::Error::other("the first packet is no KEXINIT"))?;
    let [kex, host_keys, ciphers, _, macs, _, compression] = lists;
    Ok(Algorithms {
        kex,
        host_keys,
        ciphers,
        macs,
        compression,
    }
    .usable())
}

fn read_line(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() < 8192 {
        stream.read_exact(&mut byte)?;
        if byte == *b"\n" {
            return Ok(line);
        }
        line.extend_from_slice(&byte);
    }
    Err(io::Error::other("a line without an end"))
}

/// The first seven name-lists; those of the direction from server to client are not read.
fn name_lists(mut rest: &[u8]) -> Option<[Vec<String>; 7]> {
    let mut lists: [Vec<String>; 7] = Default::default();
    for list in &mut lists {
        let (length, tail) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (names, tail) = tail.split_at_checked(length)?;
        let names = core::str::from_utf8(names).ok()?;
        *list = names
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        rest = tail;
    }
    Some(lists)
}
